"""What the report says of merges that languages chose: how their texts shrink, and who chose merges that are rare."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bpe_pipeline.extensions.parity.parity_worker import LANGUAGE, Parity
from bpe_pipeline.merges.merge_list import LEAST_COUNT, MergeList
from bpe_pipeline.reports.formulas import gini
from bpe_pipeline.reports.numbers import reference_of
from bpe_pipeline.reports.parts import Table
from bpe_pipeline.reports.result import Advice
from bpe_pipeline.reports.summary import Section
from bpe_pipeline.reports.verdict import COST
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.tokenizer.export import Trained

_HARDLY_EVER, _MANY = 5, 0.05  # times; of all merges: so many of a language that occur hardly ever are warned of
_ABOUT_GINI = "Gini coefficient: how much the texts differ in length; 0 if all are equal."


def section(run: Run, trained: Trained) -> Section | None:
    """Return how the merges compress each language; None of a shorter list than was measured.

    The Gini coefficients are those of the languages' lengths before merging, in bytes, and after, in tokens.
    """
    parity, [size, *_] = run.manifest.chooser.parity, trained.options.vocab_size
    names, learned = [language.name for language in parity.languages], trained.merges(size)
    if learned.choices is None:
        return None
    sizes = learned.choices.state["measured"]
    chosen = {"merges": _chosen(learned, len(names)), "rare": _chosen(learned, len(names), below=_HARDLY_EVER)}
    of_mixture = not parity.dev and any(one.weight != (1, 1) for one in parity.languages)
    units = ("weighted bytes", "weighted tokens") if of_mixture else ("bytes", "tokens")
    advice = _advice(names, len(learned), **chosen)
    return _section(names, sizes, units, chosen, advice, _who_pays(parity, names, sizes))


def _section(
    names: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    units: tuple[str, str],
    chosen: dict[str, list[int]],
    advice: tuple[Advice, ...] = (),
    verdict: dict[str, str] | None = None,
) -> Section:
    """Return a table of the languages. sizes: bytes and tokens of each; chosen: their merges, as JSON names them."""
    before, after = (gini(column) or 0.0 for column in zip(*sizes, strict=True))
    columns = [*zip(*sizes, strict=True), *chosen.values()]
    rows = list(zip((*names, "all"), *((*column, sum(column)) for column in columns), strict=True))
    rows.append(("Gini coefficient", f"{before:.3f}", f"{after:.3f}", *(None for _ in chosen)))
    headers = ("language", *units, *("merges chosen", f"fewer than {_HARDLY_EVER} times")[: len(chosen)])
    keys = ("name", "bytes", "tokens", *chosen)
    measured = [dict(zip(keys, row, strict=True)) for row in rows[: len(names)]]
    differ = f"a Gini coefficient of {before:.3f} in bytes, {after:.3f} in tokens"
    shown = (("languages", f"{len(names)}, whose texts differ in length by {differ}"),)
    numbers: dict[str, Any] = {"measured": measured, "gini_before": before, "gini_after": after}
    table = Table("Languages", headers, tuple(rows), _ABOUT_GINI)
    return Section(shown, numbers, (table,), advice, verdict or {})


def _chosen(learned: MergeList, languages: int, below: float = float("inf")) -> list[int]:
    """Count the merges that each language chose, if they occurred fewer times than `below`."""
    assert learned.choices is not None
    pairs = zip(learned.choices.columns[LANGUAGE], learned.counts, strict=False)
    found = Counter(language for language, count in pairs if count < below)
    return [found[at] for at in range(languages)]


def _who_pays(parity: Parity, names: Sequence[str], sizes: Sequence[tuple[int, int]]) -> dict[str, str]:
    """Compare the languages in the verdict, if they were measured on the same text."""
    if not parity.dev or len(names) < 2:
        return {}
    tokens, reference = [own for _, own in sizes], reference_of(names)
    base = max(tokens[names.index(reference)], 1)
    listed = sorted(((own / base, name) for name, own in zip(names, tokens, strict=True)), reverse=True)
    shown = ", ".join(f"{name} {times:.2f}" for times, name in listed if name != reference)
    return {COST: f"{shown} times the tokens of {reference} for the same --dev text; Gini {gini(tokens) or 0:.2f}"}


def _advice(names: Sequence[str], total: int, merges: Sequence[int], rare: Sequence[int]) -> tuple[Advice, ...]:
    """Warn of a language that chose more than its share of merges, many of which occur hardly ever."""
    most, share = max(range(len(rare)), key=rare.__getitem__), total / len(names)
    if merges[most] <= share or rare[most] < _MANY * total:
        return ()
    because = (
        f"{names[most]} chose {merges[most]:,} of {total:,} merges, where an even share is {share:,.0f}; "
        f"{rare[most]:,} of them occurred fewer than {_HARDLY_EVER} times"
    )
    unless = f"fewer than {_MANY:.0%} of all merges would be fine"
    by_name = {"chosen": dict(zip(names, merges, strict=True)), "rare": dict(zip(names, rare, strict=True))}
    take = f"--min-frequency {LEAST_COUNT}"
    return (Advice("rare merges", take, because, unless, evidence={"even_share": share, **by_name}),)
