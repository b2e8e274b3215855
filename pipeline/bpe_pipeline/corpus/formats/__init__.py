"""The formats of corpus files: one module a format finds, cuts and reads the files of one kind.

A format is a `CorpusFormat` that an entry point of the group `bpe_pipeline.corpus_formats` names, in this package's
`pyproject.toml` as in another's. The name of the entry point is the name of the format, as `--input-format` takes it.
All formats are loaded to recognise a file, so a module imports what is large only where it reads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from bpe_pipeline.base.errors import InputError

if TYPE_CHECKING:
    from bpe_pipeline.corpus.chunks import Cutting, SearchedText
    from bpe_pipeline.corpus.documents import Records
    from bpe_pipeline.corpus.files import CorpusFile, FileSpan
    from bpe_pipeline.corpus.read_budget import ReadBudget

AUTO = "auto"  # where each file shows its own format
Progress = Callable[[int], None]
Stretch = tuple[int, int | None]
"""Bytes [first, last) of a file's text; None: to its end."""


class Part(NamedTuple):
    """A part of a file that is read by itself: [start, stop) as its format counts. size: its bytes of text, if known.

    Parts with a size are put together until a chunk is full.
    """

    start: int
    stop: int
    size: int | None = None


class CorpusFormat(ABC):
    """A format of corpus files.

    title: how messages call it. suffixes: of the names of its files, in lower case. magic: what its files begin with,
    if they have a mark: one that is named so and begins otherwise is refused. offered: whether `--input-format` has it;
    an extension reads the others.

    position: the word for a location in it, "byte" or "row". A location of a "byte" is one of the text, from which
    reading can resume. parts: the word for what a span counts.

    has_fields: whether a text is a field, which `--text-field` names. begins_anywhere: whether all of a file is one
    text, which special tokens separate into documents, and of which any stretch is text; other formats yield
    `Records`. are_lines: whether a document is a line with its ending. compresses_itself: whether it has its own
    compression, so that a file of it is never in another one, and its size is not that of its text.
    """

    title: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[tuple[bytes, ...]] = ()
    offered: ClassVar[bool] = True
    position: ClassVar[str] = "byte"
    parts: ClassVar[str] = "bytes"
    has_fields: ClassVar[bool] = True
    begins_anywhere: ClassVar[bool] = False
    are_lines: ClassVar[bool] = False
    compresses_itself: ClassVar[bool] = False

    def marks(self, head: bytes, tail: bytes) -> bool:
        """Return whether the first and last bytes of a file show that it is of this format, whatever its name is."""
        return bool(self.magic) and head.startswith(self.magic)

    def cut(self, cutting: "Cutting", text: "SearchedText", reach: int, wanted: int) -> int | None:
        """Return the first position of a text, at most `reach` behind a wanted one, where a part may start, or None."""
        return None

    @abstractmethod
    def cuts(self, file: "CorpusFile", cutting: "Cutting", chunk_bytes: int) -> list[Part]:
        """Return the parts of a file, of about `chunk_bytes` or less; together they are all of its documents.

        Raises `InputError` for a file that changed, is damaged, or has no such field.
        """

    @abstractmethod
    def read(
        self, span: "FileSpan", text_field: str, progress: Progress, budget: "ReadBudget", text: Stretch
    ) -> "Iterator[bytes | Records]":
        """Yield the texts of a span, which is made of parts, as `readers.read_span` does."""


@cache
def corpus_formats() -> Mapping[str, CorpusFormat]:
    """Return the formats of this package and of others, by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry.load() for entry in entry_points(group="bpe_pipeline.corpus_formats")}


def input_formats() -> list[str]:
    """Return the names of formats that `--input-format` takes."""
    return [name for name, format_ in corpus_formats().items() if format_.offered]


def corpus_format(name: str) -> CorpusFormat:
    """Return the format of a name; raises `InputError` for one that no installed package has."""
    if name not in corpus_formats():
        known = ", ".join(corpus_formats())
        raise InputError(f"the corpus format {name!r} is none of {known}: install the package with it")
    return corpus_formats()[name]


def format_named(suffix: str) -> str | None:
    """Return the format of files whose names have this suffix; None for text."""
    return next((name for name, format_ in corpus_formats().items() if suffix in format_.suffixes), None)


def marked_format(head: bytes, tail: bytes = b"") -> str | None:
    """Return the format that the first and last bytes of a file show; None without a mark."""
    return next((name for name, format_ in corpus_formats().items() if format_.marks(head, tail)), None)
