"""What the report says of merges that languages chose: how their texts shrink, who chose when, and what is rare."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.counts.counted import text_counters
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.parity.parity_worker import LANGUAGE, ByMerges, MeasureTask, Parity, lengths_of, measure
from bpe_pipeline.merges import merge, merge_worker
from bpe_pipeline.merges.merge_list import LEAST_COUNT
from bpe_pipeline.reports.definitions import reference_of
from bpe_pipeline.reports.figure import Axis, Figure, Series
from bpe_pipeline.reports.formulas import gini
from bpe_pipeline.reports.parts import Table
from bpe_pipeline.reports.result import Advice
from bpe_pipeline.reports.summary import Section
from bpe_pipeline.reports.verdict import WHO_PAYS
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.storage import Location, named
from bpe_pipeline.tokenizer.export import Trained

THRESHOLDS = (2, 5, LEAST_COUNT, 50)
_HARDLY_EVER, _MANY = 5, 0.05  # times; of all merges: so many of a language that occur hardly ever are warned of


@dataclass(frozen=True)
class Measured:
    """What is known of the languages. sizes: bytes and tokens of each; by: None if their counts are gone; plain: tokens
    of each after as many plain merges, if they are known."""

    parity: Parity
    trained: Trained
    size: int
    sizes: Sequence[tuple[int, int]]
    by: ByMerges | None
    plain: tuple[int, ...] | None

    @property
    def names(self) -> list[str]:
        """Of the languages."""
        return [language.name for language in self.parity.languages]

    def chosen(self, until: int, below: float = float("inf")) -> list[int]:
        """Count the merges that each language chose among the first ones, if they occurred fewer times than that."""
        learned = self.trained.merges(self.size)
        assert learned.choices is not None
        pairs = zip(learned.choices.columns[LANGUAGE][:until], learned.counts, strict=False)
        found = Counter(language for language, count in pairs if count < below)
        return [found[at] for at in range(len(self.names))]

    def languages(self) -> Table:
        """Return the table of languages, with the price of parity if plain merges are known."""
        merges = len(self.trained.merges(self.size))
        before, after = zip(*self.sizes, strict=True)
        columns: list[Sequence[Any]] = [(*before, sum(before)), (*after, sum(after))]
        of_mixture = not self.parity.dev and any(one.weight != (1, 1) for one in self.parity.languages)
        headers = ["language", *(("weighted bytes", "weighted tokens") if of_mixture else ("bytes", "tokens"))]
        forms, ginis = dict[int, str](), [gini(before), gini(after)]
        if self.plain is not None:
            plain = (*self.plain, sum(self.plain))
            columns += [plain, [own / max(one, 1) - 1 for own, one in zip(columns[1], plain, strict=True)]]
            headers, forms = [*headers, "with plain merges", "change"], {4: "+.1%"}
            ginis += [gini(self.plain), None]
        headers += ["merges chosen", f"fewer than {_HARDLY_EVER} times"]
        columns += [(*own, sum(own)) for own in (self.chosen(merges), self.chosen(merges, _HARDLY_EVER))]
        texts = tuple(None if one is None else f"{one:.3f}" for one in ginis)
        rows = (*zip((*self.names, "all"), *columns, strict=True), ("Gini coefficient", *texts, None, None))
        return Table("Languages", tuple(headers), rows, _ABOUT_GINI, forms)

    def who_pays(self) -> str:
        """Say how the same text and plain merges compare, as far as they are known."""
        tokens, found = [own for _, own in self.sizes], list[str]()
        if self.parity.dev and len(tokens) > 1:
            reference = reference_of(self.names)
            base = max(tokens[self.names.index(reference)], 1)
            listed = sorted(((own / base, name) for name, own in zip(self.names, tokens, strict=True)), reverse=True)
            shown = ", ".join(f"{name} {times:.2f}" for times, name in listed if name != reference)
            same = f"times the tokens of {reference} for the same --dev text"
            found.append(f"{shown} {same}; Gini {gini(tokens) or 0:.2f}")
        if self.plain is not None:
            changes = zip(self.names, tokens, self.plain, strict=True)
            shown = ", ".join(f"{name} {own / max(one, 1) - 1:+.1%}" for name, own, one in changes)
            found.append(f"compared with plain merges {shown} tokens")
        return "; ".join(found)

    def tables(self) -> tuple[Table, ...]:
        """Return all tables."""
        if self.by is None:
            return (self.languages(),)
        steps, headers = self.by.merges, tuple(f"{one:,}" for one in self.by.merges)
        chosen = list(zip(*map(self.chosen, steps), strict=True))
        at_least = ("at least", "merges", "tokens", "change", *self.names)
        return (
            self.languages(),
            Table("Tokens of each language by merges", ("language", *headers), _named(self.names, self.by.tokens)),
            Table("Who chose when: merges so far", ("language", *headers), _named(self.names, chosen)),
            Table(
                "Without the merges that occurred fewer times",
                at_least,
                tuple(self._thresholds()),
                _ABOUT_RARE,
                dict.fromkeys(range(3, len(at_least)), "+.2%"),
            ),
        )

    def figures(self) -> tuple[Figure, ...]:
        """Return the tokens of each language by merges, and who chose when."""
        if self.by is None:
            return ()
        merges, chosen = self.by.merges, zip(*map(self.chosen, self.by.merges), strict=True)
        even = Series("an even share", tuple((one, round(100 / len(self.names), 2)) for one in merges), back=True)
        shares = [[round(100 * one / max(of, 1), 2) for one, of in zip(row, merges, strict=True)] for row in chosen]
        exact, above = "The text of each language, exact.", "Above an even share: it needs more merges to be as short."
        return (
            self._drawn("chosen-tokens", "Tokens of each language by merges", "tokens", self.by.tokens, exact),
            self._drawn("chosen-merges", "Who chose when", "% of the merges so far", shares, above, even),
        )

    def _drawn(
        self, id_: str, title: str, label: str, rows: Sequence[Sequence[float]], note: str, *more: Series
    ) -> Figure:
        assert self.by is not None
        merges = self.by.merges
        points = [tuple(one for one in zip(merges, row, strict=True) if one[0]) for row in rows]  # a logarithm has no 0
        x, y = Axis("merges", scale="log", form=",.0f"), Axis(label, form=",.0f", zero=True)
        return Figure(id_, title, "lines", x, y, (*map(Series, self.names, points), *more), note)

    def _thresholds(self) -> list[tuple[Any, ...]]:
        assert self.by is not None
        now = [tokens[-1] for tokens in self.by.tokens]
        rows = []
        for threshold, merges, tokens in zip(THRESHOLDS, self.by.kept, self.by.without, strict=True):
            changes = [own / max(one, 1) - 1 for own, one in zip(tokens, now, strict=True)]
            rows.append((f"{threshold} times", merges, sum(tokens), sum(tokens) / max(sum(now), 1) - 1, *changes))
        return rows

    def advice(self) -> tuple[Advice, ...]:
        """Warn of a language that chose more than its share of merges, many of which occur hardly ever."""
        merges = len(self.trained.merges(self.size))
        share, chosen, rare = merges / len(self.names), self.chosen(merges), self.chosen(merges, _HARDLY_EVER)
        most = max(range(len(rare)), key=rare.__getitem__)
        if self.by is None or chosen[most] <= share or rare[most] < _MANY * merges:
            return ()
        _, left, tokens, change, *_ = self._thresholds()[THRESHOLDS.index(LEAST_COUNT)]
        because = (
            f"{self.names[most]} chose {chosen[most]:,} of {merges:,} merges, where an even share is {share:,.0f}; "
            f"{rare[most]:,} of them occurred fewer than {_HARDLY_EVER} times"
        )
        unless = (
            f"without all that occurred fewer than {LEAST_COUNT} times, {left:,} merges are left, and the texts have "
            f"at most {change:.1%} more tokens: --min-frequency {LEAST_COUNT}"
        )
        evidence = {"even_share": share, "tokens_without": tokens}
        evidence |= {
            "chosen": dict(zip(self.names, chosen, strict=True)),
            "rare": dict(zip(self.names, rare, strict=True)),
        }
        return (Advice("rare merges", f"--min-frequency {LEAST_COUNT}", because, unless, evidence=evidence),)


_ABOUT_GINI = "Gini coefficient: how much the texts differ in length; 0 if all are equal."
_ABOUT_RARE = (
    "From these merges: each that occurred fewer times is left out, unless another one needs it. The changes are upper "
    "bounds. With --min-frequency, other languages choose in its place."
)


def _named(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple((name, *row) for name, row in zip(names, rows, strict=True))


def section(executor: Executor, run: Run, trained: Trained) -> Section | None:
    """Return how the merges compress each language; None of a shorter list than was measured.

    The Gini coefficients are those of the languages' lengths before merging, in bytes, and after, in tokens.
    """
    parity, [size, *_] = run.manifest.chooser.parity, trained.options.vocab_size
    learned = trained.merges(size)
    if learned.choices is None:
        return None if trained.options.first_stage is None else _with_superwords(executor, run, trained, size)
    by, plain, missing = None, None, list[tuple[str, str]]()
    try:
        by = executor.one(measure, MeasureTask(parity, trained, size, THRESHOLDS))
        if (other := _plain(parity, executor, run.directory.location, size)) is not None:
            plain = tuple(row[-1] for row in executor.one(measure, MeasureTask(parity, other, size, ())).tokens)
    except PipelineError as error:  # a language's counts are gone: what learning measured is known
        missing = [("not measured", f"tokens by merges, thresholds and the price of parity: {error}")]
    found = Measured(parity, trained, size, learned.choices.state["measured"], by, plain)
    merges = len(learned)
    measured: list[dict[str, Any]] = [
        {"name": name, "bytes": one[0], "tokens": one[1], "merges": own, "rare": rare}
        for name, one, own, rare in zip(
            found.names, found.sizes, found.chosen(merges), found.chosen(merges, _HARDLY_EVER), strict=True
        )
    ]
    before, after = (gini([one[which] for one in found.sizes]) or 0.0 for which in (0, 1))
    differ = f"a Gini coefficient of {before:.3f} in bytes, {after:.3f} in tokens after {merges:,} merges"
    rows = (("languages", f"{len(measured)}, whose texts differ in length by {differ}"), *missing)
    numbers: dict[str, Any] = {"measured": measured, "gini_before": before, "gini_after": after}
    if by is not None:
        chosen = [found.chosen(until) for until in by.merges]
        numbers |= {"merges": by.merges, "tokens": by.tokens, "chosen": list(zip(*chosen, strict=True))}
        numbers["thresholds"] = [
            {"count": count, "merges": left, "tokens": tokens}
            for count, left, tokens in zip(THRESHOLDS, by.kept, by.without, strict=True)
        ]
    if plain is not None:
        numbers["plain"] = plain
    verdict = {WHO_PAYS: answer} if (answer := found.who_pays()) else {}
    return Section(rows, numbers, found.tables(), found.advice(), found.figures(), verdict)


def _with_superwords(executor: Executor, run: Run, trained: Trained, size: int) -> Section | None:
    """Return the tokens of each language's text with superwords; None if a second count is gone."""
    names, source = [language.name for language in run.manifest.chooser.parity.languages], run.manifest.source
    assert source is not None, "languages choose"
    try:
        runs = [manifest.require(named(one.run)) for one in source.mixed]
        tasks = [(trained.model(size), text_counters(one, coarse=True)) for one in runs]
        sizes = [found for _, found in executor.run(lengths_of, tasks)]
    except PipelineError:
        return None
    before, after = (gini(column) or 0.0 for column in zip(*sizes, strict=True))
    rows = (*((name, *one, one[0] / max(one[1], 1)) for name, one in zip(names, sizes, strict=True)),)
    headers, gini_row = ("language", "bytes", "tokens", "bytes per token"), ("Gini coefficient", before, after, None)
    table = Table("Languages", headers, (*rows, gini_row), _ABOUT_GINI, {3: ".3f"})
    differ = f"a Gini coefficient of {before:.3f} in bytes, {after:.3f} in tokens with superwords"
    said = (("languages", f"{len(names)}, whose texts differ in length by {differ}"),)
    measured = [{"name": name, "bytes": one[0], "tokens": one[1]} for name, one in zip(names, sizes, strict=True)]
    return Section(said, {"measured": measured, "gini_before": before, "gini_after": after}, (table,))


def plain_of(output: Location) -> Location:
    """Return where the run of the same counts and plain merges is."""
    return output.parent / f"{output.name}-plain"


def _plain(parity: Parity, executor: Executor, output: Location, size: int) -> Trained | None:
    """Return the plain merges of the same counts, if the run next to this one has as many."""
    run = manifest.load(plain_of(output))
    if run is None or run.manifest.merging is None or run.manifest.source is None:
        return None
    if sorted((one.counts, one.weight) for one in run.manifest.source.mixed) != sorted(
        (language.fingerprint, language.weight) for language in parity.languages
    ):
        return None
    options = run.manifest.options_of()
    learned = executor.one(merge_worker.read, merge.learning_of(run, options).merges)
    if learned is None or not learned.serves(options.special.merge_budget(size)):
        return None
    return Trained(learned, pattern_of(options), options)
