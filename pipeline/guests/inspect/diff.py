"""The story of `diff`: load two tokenizers, and compare what their files say and how they cut texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.commands.encode_text import load_tokenizer
from pipeline.corpus.listing import find_files
from pipeline.corpus.sampling import choose, read_chosen
from pipeline.guests.inspect import differences
from pipeline.guests.inspect.difference import CutTexts, Difference, OtherCut, cut_differently, difference, to_json
from pipeline.reports.measure import source_names
from pipeline.reports.numbers import SENTENCES
from pipeline.reports.result import Part, Result
from pipeline.run.option_types import AnyPath
from pipeline.run.options import make_options
from pipeline.storage import named
from pipeline.tokenizer.arguments import texts_of
from pipeline.tokenizer.encode import Text, utf8_of
from pipeline.tokenizer.tokenizer import Tokenizer

_SAMPLE_BYTES = 1 << 22


@dataclass(frozen=True)
class Compared(Result):
    """How two tokenizers differ. found: what their files say; sources, cuts: how texts are cut."""

    names: tuple[str, str]
    tokenizers: tuple[Tokenizer, Tokenizer]
    found: Difference
    sources: tuple[CutTexts, ...]
    cuts: tuple[OtherCut, ...]

    @property
    def equal(self) -> bool:
        """Whether every text has the same ids, and the files say the same."""
        return not self.found.anything

    @property
    def exit_code(self) -> int:
        """0 if they are equal, 1 if not."""
        return int(not self.equal)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return to_json(self.found, self.sources, self.cuts)

    def shown(self) -> Iterable[Part]:
        """Return what is different, and the texts of each source."""
        return differences.shown(self.names, self.tokenizers, self.found, self.sources, self.cuts)


def diff(
    first: Tokenizer | AnyPath,
    second: Tokenizer | AnyPath,
    inputs: AnyPath | Sequence[AnyPath] | None = None,
    *,
    texts: Iterable[Text] = (),
    exclude: str | Sequence[str] | None = None,
) -> Compared:
    """Compare two tokenizers: what their files say, and how they cut texts, as `bpe-pipeline diff` does.

    >>> found = pipeline.diff("my-tokenizer", pipeline.Tokenizer.from_merges([(b"l", b"o")]), texts=["low"])
    >>> found.equal, found.found.tokens.only[0]
    (False, ((b'low',), (b'er',)))
    >>> found.sources[0].tokens
    (1, 2)

    Args:
        first: a tokenizer, or the path or URI of one.
        second: the other one.
        inputs: files, directories, globs and URIs whose samples are cut by both.
        texts: more texts; without any and without `inputs`, built-in sentences in several languages.
        exclude: leave out the files and directories of `inputs` with this name or path.

    Returns:
        A value; `equal` says whether they are, `to_json()` has everything; printed, it is what the command prints.

    Raises:
        InputError: a tokenizer or a text cannot be read.
    """
    options = make_options({"inputs": inputs, "exclude": exclude})
    strings = [utf8_of(text).decode() for text in texts_of(texts)]
    pairs = (("first", first), ("second", second))
    one, other = (each if isinstance(each, Tokenizer) else load_tokenizer(named(each, name)) for name, each in pairs)
    names = str(first), str(second)
    found = difference(one.model, other.model)
    sources, cuts = cut_differently(one, other, _texts(options.inputs or (), strings, options.exclude or ()))
    return Compared(names, (one, other), found, tuple(sources), tuple(cuts))


def _texts(paths: Sequence[str], texts: Sequence[str], exclude: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield (source, text): those of the command line, samples of files, or without any the built-in sentences."""
    yield from (("--text", text) for text in texts)
    files = find_files(paths, exclude=exclude).files if paths else []
    names = source_names([file.path for file in files])
    for drawn in read_chosen(choose(files, _SAMPLE_BYTES), "text", skip_changed=False):
        yield names[drawn.path], drawn.text
    if not paths and not texts:
        yield from SENTENCES.items()
