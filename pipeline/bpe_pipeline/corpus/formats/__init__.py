"""The formats of corpus files: one module a format finds, cuts and reads the files of one kind.

A format is a `CorpusFormat` that an entry point of the group `bpe_pipeline.corpus_formats` names, in this package's
`pyproject.toml` as in another's. The name of the entry point is the name of the format, as `--input-format` takes it.
All formats are loaded to recognise a file, so a module imports what is large only where it reads.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bpe_pipeline.base.errors import InputError

if TYPE_CHECKING:
    from bpe_pipeline.corpus.chunks import Cutting, SearchedText
    from bpe_pipeline.corpus.documents import Records
    from bpe_pipeline.corpus.files import CorpusFile, FileSpan
    from bpe_pipeline.corpus.read_budget import ReadBudget

AUTO = "auto"  # where each file shows its own format
Progress = Callable[[int], None]
Texts: TypeAlias = "Iterator[bytes | Records]"
Stretch = tuple[int, int | None]
"""Bytes [first, last) of a file's text; None: to its end."""


class Part(NamedTuple):
    """A part of a file that is read by itself: [start, stop) as its format counts. size: its bytes of text, if known.

    Parts with a size are put together until a chunk is full.
    """

    start: int
    stop: int
    size: int | None = None


def _no_mark(_head: bytes, _tail: bytes) -> bool:
    return False


def _no_cut(*_: object) -> None:
    return None


def _no_texts(*_: object) -> Texts:
    raise AssertionError("an extension reads it")


@dataclass(frozen=True, kw_only=True)
class CorpusFormat:
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

    marks: whether the first and last bytes of a file show that it is of this format, whatever its name is.
    cut: returns the first position of a text, at most some bytes behind a wanted one, where a part may start, or None.
    cuts: returns the parts of a file, each of about that many bytes or less; together they are all of its documents. It
    raises `InputError` for a file that changed, is damaged, or has no such field.
    read: yields the texts of a span, which is made of parts, as `readers.read_span` does.
    """

    title: str
    suffixes: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    offered: bool = True
    position: str = "byte"
    parts: str = "bytes"
    has_fields: bool = True
    begins_anywhere: bool = False
    are_lines: bool = False
    compresses_itself: bool = False
    marks: Callable[[bytes, bytes], bool] = _no_mark
    cut: "Callable[[Cutting, SearchedText, int, int], int | None]" = _no_cut
    cuts: "Callable[[CorpusFile, Cutting, int], list[Part]]"
    read: "Callable[[FileSpan, str, Progress, ReadBudget, Stretch], Texts]" = _no_texts


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
        known = ", ".join(corpus_formats()) or "those that are installed"
        raise InputError(
            f"the corpus format {name!r} is none of {known}: install the package with it, or this one again"
        )
    return corpus_formats()[name]


def format_named(suffix: str) -> str | None:
    """Return the format of files whose names have this suffix; None for text."""
    return next((name for name, format_ in corpus_formats().items() if suffix in format_.suffixes), None)


def marked_format(head: bytes, tail: bytes = b"") -> str | None:
    """Return the format that the first and last bytes of a file show; None without a mark."""
    return next((name for name, format_ in corpus_formats().items() if format_.marks(head, tail)), None)
