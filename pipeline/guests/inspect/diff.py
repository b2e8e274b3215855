"""The story of `diff`: load two tokenizers, and compare what their files say and how they cut texts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.base.units import format_count
from pipeline.commands.encode_text import load_tokenizer
from pipeline.corpus.listing import find_files
from pipeline.corpus.sampling import choose, read_chosen
from pipeline.guests.inspect.difference import CutTexts, Difference, Listed, OtherCut, cut_differently, difference
from pipeline.reports.measure import source_names
from pipeline.reports.numbers import SENTENCES
from pipeline.reports.result import NOT_STORED, Part, Result, Rows, Table
from pipeline.reports.tokens import readable
from pipeline.run.keywords import AnyPath
from pipeline.run.options import CorpusOptions, make_options
from pipeline.storage import named
from pipeline.tokenizer.arguments import texts_of
from pipeline.tokenizer.encode import Text, utf8_of
from pipeline.tokenizer.tokenizer import Tokenizer

_SAMPLE_BYTES = 1 << 22
_EXAMPLES, _LONGEST = 5, 100  # in text; letters of a setting


@dataclass(frozen=True)
class Compared(Result):
    """How two tokenizers differ. found: what their files say; sources, cuts: how texts are cut."""

    names: tuple[str, str]
    tokenizers: tuple[Tokenizer, Tokenizer] = field(metadata=NOT_STORED)
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
        """Return plain values, and whether they are equal."""
        return {"equal": self.equal, **super().to_json()}

    def shown(self) -> Iterable[Part]:
        """Return what is different, the texts of each source, and the most frequent other cuts."""
        found = self.found
        rows = [
            (name, f"{where}: {one.vocab_size:,} tokens, {format_count(len(one.merges), 'merges')}")
            for name, where, one in zip("AB", self.names, self.tokenizers, strict=True)
        ]
        if self.equal:
            rows.append(("equal", "tokens, ids, merges, pattern, special tokens and settings"))
        for name, (one, other) in found.settings.items():
            rows.append(("settings", f"{name}: {_cut(one)} in A, {_cut(other)} in B"))
        rows += [("tokens", line) for line in _lines(found.tokens, "id", _joined)]
        if found.merges.anything:
            same = f"first {found.same_merges:,} are" if found.same_merges > 1 else "first is"
            rows.append(("merges", f"the {same} the same" if found.same_merges else "the first differs"))
            rows += [("merges", line) for line in _lines(found.merges, "rank", " + ".join)]
        for cut in self.cuts[:_EXAMPLES]:
            one, other = (_joined(list(map(readable, tokens))) for tokens in cut.cuts)
            rows.append(("other cuts", f"{one} in A, {other} in B: {format_count(cut.count, 'times')}"))
        if len(self.cuts) > _EXAMPLES:
            rows.append(("other cuts", f"... and {len(self.cuts) - _EXAMPLES:,} more: --json has all"))
        return [Rows(tuple(rows)), _table(self.sources)]


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
    options = make_options(CorpusOptions, {"inputs": inputs, "exclude": exclude})
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


def _joined(parts: Sequence[str]) -> str:
    return " | ".join([*parts[:_EXAMPLES], *(["..."] if len(parts) > _EXAMPLES else [])])


def _cut(value: str) -> str:
    text = " ".join(value.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _lines(listed: Listed, number: str, join: Callable[[Sequence[str]], str]) -> Iterable[str]:
    """Say how many are only in one, or have another number, with the first ones."""
    groups = [(f"only in {name}", [(key, "") for key in only]) for name, only in zip("AB", listed.only, strict=True)]
    moved = [(key, f" ({one:,} in A, {other:,} in B)") for key, one, other in listed.moved]
    for what, found in [*groups, (f"have another {number}", moved)]:
        if found:
            shown = [join(list(map(readable, key))) + where for key, where in found[:_EXAMPLES]]
            yield f"{len(found):,} {what}: {', '.join([*shown, *(['...'] if len(found) > _EXAMPLES else [])])}"


def _table(sources: Sequence[CutTexts]) -> Table:
    rows = []
    for one in sources:
        rates = [one.bytes / tokens if tokens else None for tokens in one.tokens]
        more = one.tokens[1] / one.tokens[0] - 1 if one.tokens[0] else None
        rows.append((one.name, one.bytes, *rates, more, f"{one.different:,} of {one.texts:,}"))
    headers = ("text", "bytes", "bytes per token in A", "in B", "tokens in B", "cut differently")
    return Table("Texts", headers, tuple(rows), forms={4: "+.2%"}, whole="--json")
