"""`diff`: how two tokenizers differ, in what their files say and in how they cut texts.

Tokens are compared by their bytes, so other ids alone cut no text differently.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from bpe_pipeline.base.units import format_count
from bpe_pipeline.corpus.listing import find_files
from bpe_pipeline.corpus.sampling import choose, read_chosen
from bpe_pipeline.extensions.inspect.findings import EXAMPLES, first_lines, first_of
from bpe_pipeline.reports.measure import SampleText, measure, source_names
from bpe_pipeline.reports.numbers import SENTENCES
from bpe_pipeline.reports.numbers_worker import measured_model
from bpe_pipeline.reports.parts import Part, Rows, Table
from bpe_pipeline.reports.result import NOT_STORED, Result
from bpe_pipeline.reports.tokens import readable
from bpe_pipeline.storage import Location, named
from bpe_pipeline.tokenizer.arguments import texts_of
from bpe_pipeline.tokenizer.encode import Text, utf8_of
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

Tokens = tuple[bytes, ...]


@dataclass(frozen=True)
class Listed:
    """Things of two tokenizers: only in the first, only in the second, and in both at other numbers.

    The key is the bytes of a token, or of the two parts of a merge; the numbers are ids, or ranks. The largest move
    comes first.
    """

    only: tuple[tuple[Tokens, ...], tuple[Tokens, ...]]
    moved: tuple[tuple[Tokens, int, int], ...]

    @property
    def anything(self) -> bool:
        """Whether there is a difference."""
        return any(self.only) or bool(self.moved)


@dataclass(frozen=True)
class Difference:
    """What two tokenizers' files say. settings: name -> both values; same_merges: at the start of both lists."""

    settings: Mapping[str, tuple[str, str]]
    tokens: Listed
    merges: Listed
    same_merges: int

    @property
    def anything(self) -> bool:
        """Whether there is a difference: if not, every text has the same ids, and the files say the same."""
        return bool(self.settings) or self.tokens.anything or self.merges.anything


@dataclass(frozen=True)
class CutTexts:
    """Texts of one source. bytes, tokens, bytes_per_token: as a report has them, bytes as of the first tokenizer, the
    others of each; different: the texts that are split differently."""

    name: str
    texts: int
    bytes: int
    tokens: tuple[int, int]
    different: int
    bytes_per_token: tuple[float | None, ...] = (None, None)


@dataclass(frozen=True)
class OtherCut:
    """A stretch of text as each tokenizer cuts it, and how often."""

    cuts: tuple[Tokens, Tokens]
    count: int

    def __str__(self) -> str:
        one, other = (_joined(list(map(readable, tokens))) for tokens in self.cuts)
        return f"{one} in A, {other} in B: {format_count(self.count, 'times')}"


def difference(first: Model, second: Model) -> Difference:
    """Compare two tokenizers; nothing is different if and only if the models are equal."""
    both = (first, second)
    one, other = ({(token,): id_ for id_, token in model.vocabulary.tokens.items()} for model in both)
    lists = [model.vocabulary.merges() for model in both]
    ranks, other_ranks = ({pair: rank for rank, pair in enumerate(listed)} for listed in lists)
    values, other_values = map(_settings, both)
    settings = {
        name: (values.get(name, "none"), other_values.get(name, "none"))
        for name in values | other_values
        if values.get(name) != other_values.get(name)
    }
    same = next((at for at, (a, b) in enumerate(zip(*lists, strict=False)) if a != b), min(map(len, lists)))
    return Difference(settings, _listed(one, other), _listed(ranks, other_ranks), same)


def _listed(first: Mapping[Any, int], second: Mapping[Any, int]) -> Listed:
    moved = [(key, at, second[key]) for key, at in first.items() if second.get(key, at) != at]
    only = tuple(key for key in first if key not in second), tuple(key for key in second if key not in first)
    return Listed(only, tuple(sorted(moved, key=lambda one: -abs(one[1] - one[2]))))


def _settings(model: Model) -> dict[str, str]:
    """Return everything but tokens and merges by name, as text."""
    pattern, preparation, special = model.pattern, model.preparation, model.vocabulary.special_tokens
    values: dict[str, object] = {f"special token {text}": f"id {id_}" for text, id_ in special.items()}
    values |= {f"rule of {text}": _words(asdict(rule)) for text, rule in preparation.rules.items()}
    values |= {
        "separator" if name == "separator" else f"{name} token": text for name, text in asdict(model.roles).items()
    }
    values |= {
        "pattern": pattern.name or pattern.expression,
        "Unicode version": pattern.unicode_version,
        "pattern steps": "\n".join(step.expression for step in getattr(pattern, "steps", ())) or None,
        "whole pre-tokens first": model.whole_pre_tokens,
        "NFC": preparation.nfc,
        "space in front": preparation.space_in_front,
        "in front": " ".join(model.front) or None,
        "behind": " ".join(model.behind) or None,
        "post-processor": model.post_processor,
        "chat template": model.chat_template and model.chat_template.jinja,
        "bytes without a token": model.lossy or None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _words(flags: Mapping[str, bool]) -> str:
    return ", ".join(name.replace("_", " ") for name, value in flags.items() if value) or "plain, no control token"


def cut_differently(
    first: Tokenizer, second: Tokenizer, texts: Iterable[tuple[str, str]]
) -> tuple[list[CutTexts], list[OtherCut]]:
    """Compare how (source, text) pairs are cut; returns the sources in order, and other splits, most frequent first."""
    sample, both = SampleText([*texts]), [measured_model(tokenizer.model) for tokenizer in (first, second)]
    cuts = [(name, [*_other_cuts(_cut_by(first, text), _cut_by(second, text))]) for name, text in sample.texts]
    prepared = sample.in_nfc() if any(one.nfc for one in both) else sample
    measured = measure([*zip("AB", both, strict=True)], prepared)
    one, other = ({text.name: text for text in by.sources} for by in measured)
    sources = [
        CutTexts(
            name,
            texts,
            one[name].bytes,
            (one[name].tokens, other[name].tokens),
            sum(bool(listed) for source, listed in cuts if source == name),
            tuple(by[name].numbers.get("bytes_per_token") for by in (one, other)),
        )
        for name, texts in Counter(name for name, _ in cuts).items()
    ]
    counted = Counter(pair for _, listed in cuts for pair in listed)
    return sources, [
        OtherCut(pair, count) for pair, count in sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    ]


def _cut_by(tokenizer: Tokenizer, text: str) -> list[bytes]:
    return [tokenizer.vocab[id_] for id_ in tokenizer.encode(text, add_special_tokens=False)]


def _other_cuts(first: list[bytes], second: list[bytes]) -> Iterable[tuple[Tokens, Tokens]]:
    """Yield the shortest stretches between ends that both have and in which they have other ends."""
    if first == second:
        return
    if b"".join(first) != b"".join(second):  # one of them changes the text, as NFC does
        yield tuple(first), tuple(second)
        return
    ends, other_ends = (
        {end: at for at, end in enumerate(accumulate(map(len, one), initial=0))} for one in (first, second)
    )
    for start, stop in pairwise(sorted(ends.keys() & other_ends.keys())):
        one, other = first[ends[start] : ends[stop]], second[other_ends[start] : other_ends[stop]]
        if one != other:
            yield tuple(one), tuple(other)


_SAMPLE_BYTES = 1 << 22
_LONGEST, _LONGEST_PATTERN = 100, 40  # letters that are shown of a setting, of a regular expression


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
        """Return what is different, the texts of each source, and the most frequent other splits."""
        found, merges = self.found, [*_lines(self.found.merges, "rank", " + ".join)]
        if merges:
            merges.insert(0, f"the same at the start: {format_count(found.same_merges, 'merges')}")
        rows = (
            *(
                (name, f"{where}: {tokenizer.vocab_size:,} tokens, {format_count(len(tokenizer.merges), 'merges')}")
                for name, where, tokenizer in zip("AB", self.names, self.tokenizers, strict=True)
            ),
            ("equal", "tokens, ids, merges, pattern, special tokens and settings" if self.equal else ""),
            ("settings", [*_setting_lines(found.settings)]),
            ("tokens", [*_lines(found.tokens, "id", _joined)]),
            ("merges", merges),
            ("other splits", first_lines(self.cuts)),
        )
        return [Rows(rows), _table(self.sources)]


def diff(
    first: Tokenizer | Location,
    second: Tokenizer | Location,
    inputs: Sequence[str],
    texts: Iterable[Text],
    exclude: Sequence[str],
) -> Compared:
    """Compare two tokenizers: what their files say, and how they cut texts."""
    strings = [utf8_of(text).decode() for text in texts_of(texts)]
    pairs = (("first", first), ("second", second))
    one, other = (each if isinstance(each, Tokenizer) else Tokenizer.load(named(each, name)) for name, each in pairs)
    names = str(first), str(second)
    found = difference(one.model, other.model)
    sources, cuts = cut_differently(one, other, _texts(inputs, strings, exclude))
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
    return first_of(parts, " | ")


def _cut(name: str, value: str) -> str:
    """Return a setting as it is shown: of a regular expression without a name, how long it is."""
    if name in ("pattern", "pattern steps") and len(value) > _LONGEST_PATTERN:
        return f"a regular expression of {len(value):,} characters"
    text = " ".join(value.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _lines(listed: Listed, number: str, join: Callable[[Sequence[str]], str]) -> Iterable[str]:
    """Say how many are only in one, or have another number, with the first ones."""
    groups = [(f"only in {name}", [(key, "") for key in only]) for name, only in zip("AB", listed.only, strict=True)]
    moved = [(key, f" ({one:,} in A, {other:,} in B)") for key, one, other in listed.moved]
    for what, found in [*groups, (f"have another {number}", moved)]:
        if found:
            shown = [join(list(map(readable, key))) + where for key, where in found[:EXAMPLES]]
            yield f"{len(found):,} {what}: {first_of(shown, total=len(found))}"


def _setting_lines(settings: Mapping[str, tuple[str, str]]) -> Iterable[str]:
    """Say how settings differ; of the ids and of the rules of special tokens the first ones."""
    kinds: dict[str, list[str]] = {}
    for name, (one, other) in settings.items():
        kind = next((kind for kind in ("special token ", "rule of ") if name.startswith(kind)), name)
        kinds.setdefault(kind, []).append(f"{name}: {_cut(name, one)} in A, {_cut(name, other)} in B")
    for lines in kinds.values():
        yield from first_lines(lines)


def _table(sources: Sequence[CutTexts]) -> Table:
    rows = []
    for source in sources:
        more = source.tokens[1] / source.tokens[0] - 1 if source.tokens[0] else None
        rows.append(
            (source.name, source.bytes, *source.bytes_per_token, more, f"{source.different:,} of {source.texts:,}")
        )
    headers = ("text", "bytes", "bytes per token in A", "in B", "tokens in B", "split differently")
    return Table("Texts", headers, tuple(rows), forms={4: "+.2%"}, whole="--json")
