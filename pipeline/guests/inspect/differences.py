"""How two tokenizers differ, for people."""

from collections.abc import Callable, Sequence

from pipeline.base.units import format_count
from pipeline.guests.inspect.difference import CutTexts, Difference, Listed, OtherCut, Tokens
from pipeline.reports.result import Part, Rows, Table
from pipeline.reports.tokens import readable
from pipeline.tokenizer.tokenizer import Tokenizer

_EXAMPLES, _LONGEST = 5, 100


def shown(
    names: tuple[str, str],
    tokenizers: tuple[Tokenizer, Tokenizer],
    found: Difference,
    sources: Sequence[CutTexts],
    cuts: Sequence[OtherCut],
) -> list[Part]:
    """Return what is different, the texts of each source, and the most frequent stretches that are cut differently."""
    rows = [
        (name, f"{where}: {one.vocab_size:,} tokens, {format_count(len(one.merges), 'merges')}")
        for name, where, one in zip("AB", names, tokenizers, strict=True)
    ]
    if not found.anything:
        rows.append(("equal", "tokens, ids, merges, pattern, special tokens and settings"))
    rows += [("settings", f"{name}: {_cut(one)} in A, {_cut(other)} in B") for name, (one, other) in _settings(found)]
    rows += [("tokens", line) for line in _lines(found.tokens, "id", _joined)]
    if found.merges.anything:
        same = f"first {found.same_merges:,} are" if found.same_merges > 1 else "first is"
        rows.append(("merges", f"the {same} the same" if found.same_merges else "the first differs"))
        rows += [("merges", line) for line in _lines(found.merges, "rank", " + ".join)]
    rows += [
        ("other cuts", f"{_joined(one)} in A, {_joined(other)} in B: {format_count(cut.count, 'times')}")
        for cut in cuts[:_EXAMPLES]
        for one, other in [[list(map(readable, tokens)) for tokens in cut.cuts]]
    ]
    if len(cuts) > _EXAMPLES:
        rows.append(("other cuts", f"... and {len(cuts) - _EXAMPLES:,} more: --json has all"))
    return [Rows(tuple(rows)), _table(sources)]


def _settings(found: Difference) -> Sequence[tuple[str, tuple[str, str]]]:
    return list(found.settings.items())


def _joined(parts: Sequence[str]) -> str:
    return " | ".join(parts) if len(parts) <= _EXAMPLES else " | ".join([*parts[:_EXAMPLES], "..."])


def _cut(value: str) -> str:
    text = " ".join(value.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _lines(listed: Listed, number: str, join: Callable[[Sequence[str]], str]) -> list[str]:
    """Say how many are only in one, or have another number, with the first ones."""

    def written(key: Tokens) -> str:
        return join(list(map(readable, key)))

    lines = [
        f"{len(only):,} only in {name}: {_some([written(key) for key in only[:_EXAMPLES]], len(only))}"
        for name, only in zip("AB", listed.only, strict=True)
        if only
    ]
    if listed.moved:
        most = [f"{written(key)} ({one:,} in A, {other:,} in B)" for key, one, other in listed.moved[:_EXAMPLES]]
        lines.append(f"{len(listed.moved):,} have another {number}: {_some(most, len(listed.moved))}")
    return lines


def _some(examples: Sequence[str], count: int) -> str:
    return ", ".join([*examples, *(["..."] if count > len(examples) else [])])


def _table(sources: Sequence[CutTexts]) -> Table:
    rows = []
    for one in sources:
        rates = [one.bytes / tokens if tokens else None for tokens in one.tokens]
        more = one.tokens[1] / one.tokens[0] - 1 if one.tokens[0] else None
        rows.append((one.name, one.bytes, *rates, more, f"{one.different:,} of {one.texts:,}"))
    headers = ("text", "bytes", "bytes per token in A", "in B", "tokens in B", "cut differently")
    return Table("Texts", headers, tuple(rows), forms={4: "+.2%"}, whole="--json")
