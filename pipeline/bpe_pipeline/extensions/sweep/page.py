"""The results of a sweep, for people and as a table: every mixture and size on every text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.extensions.sweep.mixtures import CANDIDATE
from bpe_pipeline.extensions.sweep.rule import KINDS, Recommendation, kind_of, rate
from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.merges.merge_list import LEAST_COUNT, MergeList
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.reports.figure import Axis, Figure, Series, size_axis, without_endings
from bpe_pipeline.reports.figure_files import write_figures
from bpe_pipeline.reports.page import figure_element, plain_page
from bpe_pipeline.reports.parts import Excluded, Part, Rows, Table, element, html_of
from bpe_pipeline.reports.result import Result
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import write_rows

_MOST_DRAWN, _LONGEST = 8, 26  # mixtures in a figure, the best ones; letters of a name


@dataclass(frozen=True)
class Overlap:
    """How many learned tokens two mixtures' vocabularies of one size share, of how many the smaller one has."""

    mixtures: tuple[str, str]
    vocab_size: int
    shared: int
    of: int


@dataclass(frozen=True)
class LessText:
    """The recommended vocabulary, learned from every Nth chunk only. rate: geometric mean of bytes per token.

    change: of the rate, from that of all chunks; shared: of the learned tokens, with those of all chunks.
    """

    every: int
    rate: float
    change: float
    shared: int
    of: int

    def __str__(self) -> str:
        share = f"{self.shared / max(self.of, 1):.1%}"
        return (
            f"learned from 1/{self.every} of the chunks, {self.change:+.2%} bytes per token, {share} of the same tokens"
        )


def overlaps_of(learned: Mapping[str, MergeList], merges: Mapping[int, int]) -> tuple[Overlap, ...]:
    """Compare the vocabularies of all pairs of mixtures. merges: vocabulary size -> the merges that it has."""
    joined = {
        name: [left + right for left, right in Vocabulary.from_id_pairs(one.left, one.right).merges()]
        for name, one in learned.items()
    }
    found = []
    for size, count in sorted(merges.items()):
        sets = {name: set(one[:count]) for name, one in joined.items()}
        for one, other in combinations(sets, 2):
            smaller = min(len(sets[one]), len(sets[other]))
            found.append(Overlap((one, other), size, len(sets[one] & sets[other]), smaller))
    return tuple(found)


_COLUMNS = {"mixture": "string", "vocab_size": "uint32", "size": "uint32", "last_count": "uint64", "kind": "string"}
_COLUMNS |= {"text": "string", "bytes": "uint64", "tokens": "uint64", "bytes_per_token": "double"}


def write_table(where: Location, points: Sequence[Point]) -> None:
    """Write sweep.parquet: a row for each mixture, size and text."""
    rows = (
        {**vars(point), **vars(one), "text": one.name, "bytes_per_token": one.bytes_per_token}
        for point in points
        for one in point.measured
    )
    write_rows(where, rows, _COLUMNS)


_TITLES = {kind: f"Bytes per token of the {name}" for kind, name in reversed(KINDS.items())}
_NOTES = {"held out": "Held out: no run has listed these files; their text may be in files that were counted."}
_RARE = f"Tokens that were made of pairs which occurred fewer than {LEAST_COUNT} times are names and typing errors."


_RATE = Axis("bytes per token")


def _marked_rate(point: Point) -> float:
    return Excluded(rate(point)) if point.last_count < LEAST_COUNT else rate(point)


def _rates(point: Point) -> dict[str, float]:
    """Return the bytes per token of the texts that a point is judged by."""
    texts = {text.name: text.bytes_per_token or 0.0 for text in point.measured if text.kind == kind_of(point)}
    shown = without_endings(texts)
    return {_shortened(shown[name]): value for name, value in texts.items()}


def _pareto(
    texts: Mapping[str, Mapping[str, float]],
    costs: Mapping[str, Mapping[str, float]],
    named: Mapping[str, str],
    weights: Mapping[str, Mapping[str, str]],
    chosen: Recommendation,
) -> Figure:
    """Draw the two texts on which the mixtures differ most: a gain in one may be a loss in the other."""
    runs, of = varying(weights)
    mixed = [at for at, run in enumerate(runs) if run != CANDIDATE]
    one, other = sorted(texts[chosen.mixture], key=lambda text: -max(of[text] for of in costs.values()))[:2]
    points = {mixture: (texts[mixture][one], texts[mixture][other]) for mixture in costs}
    found = {*points.values()}
    worse = {at for at in found for it in found if it != at and it[0] >= at[0] and it[1] >= at[1]}
    series = [Series("best trade-offs", tuple(sorted(found - worse)), back=True)]
    for style, (at, point) in enumerate(points.items()):
        label = ", ".join(weight for run in mixed if (weight := of[at][run]) is not None)
        series.append(Series(named[at], (point,), style=style, alone=True, star=at == chosen.mixture, label=label))
    x, y = (Axis(f"bytes per token, {text}") for text in (one, other))
    note = "The star is the recommended mixture; mixtures below the line are worse in both than another one."
    note += f" At the points: the weight of {', '.join(runs[run] for run in mixed)}." if mixed else ""
    title = f"Two texts against each other, {chosen.vocab_size:,} tokens"
    return Figure("pareto", title, "lines", x, y, tuple(series), note)


def _shortened(name: str) -> str:
    """Return a name that fits into a figure on a telephone."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[1 - _LONGEST // 2 :]}"


def varying(weights: Mapping[str, Mapping[str, str]]) -> tuple[list[str], dict[str, list[str | None]]]:
    """Return the runs whose weights differ between mixtures, and these of each mixture; of a single one, its runs.

    A candidate is named in a column of its own.

    >>> varying({"a-x1+b-x1": {"a": "1", "b": "1"}, "a-x1": {"a": "1"}})
    (['b'], {'a-x1+b-x1': ['1'], 'a-x1': ['0']})
    """

    def weight(one: Mapping[str, str], run: str) -> str | None:
        return one.get(run, None if CANDIDATE in (run, *one) else "0")

    runs = list(dict.fromkeys(run for one in weights.values() for run in one))
    found = [run for run in runs if len({weight(one, run) for one in weights.values()}) > 1]
    if not found:
        return ["mixture"], {name: [one.get(CANDIDATE) or " + ".join(one)] for name, one in weights.items()}
    return found, {name: [weight(one, run) for run in found] for name, one in weights.items()}


def labels(weights: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Name each mixture by what varies: `code 2, ja 1`."""
    runs, of = varying(weights)
    if len(weights) == 1:
        return {name: str(one[0]) for name, one in of.items()}
    shown = {name: [(run, by) for run, by in zip(runs, one, strict=True) if by is not None] for name, one in of.items()}
    return {
        name: ", ".join(by if run == CANDIDATE else f"{run} {by}" for run, by in one) for name, one in shown.items()
    }


@dataclass(frozen=True)
class Swept(Result):
    """All points, in order of mixtures and sizes, how alike the vocabularies are, and which one to take.

    parts: what the one to take would be if it were learned from a part of the chunks. weights: of the runs in each
    mixture, or what a candidate is called; candidates: their directories.
    """

    directory: Location
    points: tuple[Point, ...]
    overlaps: tuple[Overlap, ...]
    recommendation: Recommendation
    parts: tuple[LessText, ...]
    weights: Mapping[str, Mapping[str, str]]
    candidates: Mapping[str, str] = field(default_factory=dict)

    event = "swept"

    @property
    def brief(self) -> str:
        """The directory of the tokenizer that is recommended."""
        return str(self.directory / "tokenizer")

    @property
    def mixtures(self) -> list[str]:
        """The names of the mixtures, in their order."""
        return list(dict.fromkeys(point.mixture for point in self.points))

    @property
    def sizes(self) -> list[int]:
        """The vocabulary sizes that were asked for."""
        return sorted({point.vocab_size for point in self.points})

    @property
    def _by_name(self) -> dict[tuple[str, int], Point]:
        """The points by mixture and size."""
        return {(point.mixture, point.vocab_size): point for point in self.points}

    def _table(self, title: str, headers: Sequence[str], cells: Mapping[str, Sequence[Any]], **more: Any) -> Table:
        """Make a table with a row a mixture: its weights, and its cells."""
        names, weights = varying(self.weights)
        rows = tuple((*weights[mixture], *cells[mixture]) for mixture in self.mixtures)
        return Table(title, (*names, *headers), rows, **more)

    def _by_size(self, title: str, value: Callable[[Point], Any], **more: Any) -> Table:
        """Make a table with a column a size, in which the recommended point is marked."""
        points, sizes, chosen = self._by_name, self.sizes, self.recommendation
        cells = {mixture: [value(points[mixture, size]) for size in sizes] for mixture in self.mixtures}
        column = len(varying(self.weights)[0]) + sizes.index(chosen.vocab_size)
        picked = self.mixtures.index(chosen.mixture), column
        return self._table(title, [f"{size:,}" for size in sizes], cells, picked=picked, **more)

    def tables(self) -> list[Table]:
        """Return the rates by size, those of each text at the recommended size and mixture, and what is rare."""
        sizes, size, chosen = self.sizes, self.recommendation.vocab_size, self.recommendation.mixture
        texts = [(text.kind, text.name) for text in self.points[0].measured if text.kind != "mixture"]
        rates = {
            at: {(text.kind, text.name): text.bytes_per_token for text in point.measured}
            for at, point in self._by_name.items()
        }
        kind = kind_of(self.points[0])
        measured = format_bytes(sum(text.bytes for text in self.points[0].measured if text.kind == kind))
        note = f"The geometric mean of the {KINDS[kind]}, {measured}. †: the last merge is too rare."
        tables = [
            self._by_size("Bytes per token by size", _marked_rate, note=note),
            self._by_size("How often the last merge occurred", lambda point: point.last_count, note=_RARE),
        ]
        for kind, title in _TITLES.items():
            if of_kind := [text for text in texts if text[0] == kind]:
                cells = {mixture: [rates[mixture, size].get(text) for text in of_kind] for mixture in self.mixtures}
                names, note = [name for _, name in of_kind], _NOTES.get(kind, "")
                tables.append(self._table(f"{title}, {size:,} tokens", names, cells, note=note))
        if len(sizes) > 1:
            rows = tuple((name, kind, *(rates[chosen, one].get((kind, name)) for one in sizes)) for kind, name in texts)
            headers = ("text", "kind", *(f"{one:,}" for one in sizes))
            tables.append(Table("Bytes per token of each text with the recommended mixture", headers, rows))
        return tables

    def figures(self) -> list[Figure]:
        """Return what of the best mixtures is drawn: by size, by text, and two texts against each other."""
        size, chosen = self.recommendation.vocab_size, self.recommendation.mixture
        rates = {at: rate(point) for at, point in self._by_name.items()}
        best = sorted(self.mixtures, key=lambda mixture: (mixture != chosen, -rates[mixture, size]))[:_MOST_DRAWN]
        drawn = [mixture for mixture in self.mixtures if mixture in best]
        if len(drawn) == 1:
            line = Series("", tuple((size, rates[chosen, size]) for size in self.sizes))
            return [Figure("sizes", "Bytes per token by size", "lines", size_axis(self.sizes), _RATE, (line,))]
        rare = {point.mixture for point in self.points if point.vocab_size == size and point.last_count < LEAST_COUNT}
        names = {one: _shortened(label) + "†" * (one in rare) for one, label in labels(self.weights).items()}
        more = {at: 100 * (rates[chosen, at[1]] / (value or 1) - 1) for at, value in rates.items()}
        lines = tuple(
            Series(names[one], tuple((size, more[one, size]) for size in self.sizes), back=one in rare) for one in drawn
        )
        title = "Tokens of each mixture, compared with the recommended one"
        y, note = Axis("% more tokens", form=".2f"), f"Than with {names[chosen]}. Less than 0.1 % is equal."
        figures = [Figure("sizes", title, "lines", size_axis(self.sizes), y, lines, note)]
        texts = {mixture: _rates(self._by_name[mixture, size]) for mixture in drawn}
        most = {text: max(texts[mixture][text] for mixture in drawn) for text in texts[chosen]}
        costs = {one: {text: 100 * (most[text] / (texts[one][text] or 1) - 1) for text in most} for one in drawn}
        rows = tuple(Series(names[mixture], tuple(costs[mixture].items())) for mixture in drawn)
        title, note = f"The price of each mixture by text, {size:,} tokens", "% more tokens than with the best mixture."
        figures.append(Figure("texts", title, "heat", Axis("text"), Axis("% more tokens", form=".1f"), rows, note))
        if len(most) > 1:
            figures.append(_pareto(texts, costs, names, self.weights, self.recommendation))
        return figures

    def _shared(self) -> Table:
        """Return the share of tokens that two mixtures have in common, a row a pair."""
        shares = {(one.mixtures, one.vocab_size): one.shared / max(one.of, 1) for one in self.overlaps}
        known = labels(self.weights)
        rows = tuple(
            (" and ".join(known[one] for one in pair), *(shares[pair, size] for size in self.sizes))
            for pair in dict.fromkeys(one.mixtures for one in self.overlaps)
        )
        headers = ("mixtures", *(f"{size:,}" for size in self.sizes))
        forms = dict.fromkeys(range(1, len(headers)), ".1%")
        return Table("Tokens that two mixtures share, by size", headers, rows, forms=forms)

    @property
    def _taken(self) -> str:
        weights = self.weights[self.recommendation.mixture].items()
        taken = ", ".join(by if run == CANDIDATE else f"{run} {by}" for run, by in weights)
        return f"{taken}: {self.recommendation.vocab_size:,} tokens"

    @property
    def _reasons(self) -> Iterable[tuple[str, str]]:
        yield from ((one.about, str(one)) for one in self.recommendation.advice)
        yield from (("less text", str(part)) for part in self.parts)

    def shown(self) -> Iterable[Part]:
        """Return a table of mixtures and sizes, and the recommendation."""
        home = self.directory
        title = "Bytes per token, the geometric mean of the texts"
        yield self._by_size(title, _marked_rate, whole=f"{home}/sweep.html")
        chosen = self.recommendation.mixture
        of_run = self.candidates.get(chosen) or str(home / "mixtures" / chosen)
        written = (("tokenizer", self.brief), ("its run", of_run))
        numbers = ("all numbers", f"{home}/sweep.html, {home}/sweep.parquet")
        yield Rows((("recommended", self._taken), *self._reasons, *written, numbers))

    def page(self) -> str:
        """Return the page: the recommendation, a drawing of all mixtures, and the tables."""
        why = Rows(tuple(self._reasons), f"Recommended: {self._taken}")
        first, *others = self.tables()
        figures = self.figures()
        drawn = element("div", *map(figure_element, figures), class_="plots")
        more = [*others, *([self._shared()] if self.overlaps else [])]
        folded = [element("details", element("summary", one.title), html_of(one)) for one in more]
        listed = [html_of(why)], [drawn], [html_of(first)], folded
        sections = (element("section", *one) for one in listed)
        return plain_page(f"Mixtures and sizes: {self.directory}", *sections, figures=figures)

    def write_figures(self, where: Location, *, overwrite: bool) -> None:
        """Write the figures and the tables of the page as files."""
        write_figures(where, self.figures(), self.tables(), overwrite=overwrite)
