"""The results of a sweep, for people and as a table: every mixture and size on every text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pipeline.guests.sweep.rule import KINDS, Recommendation, kind_of, rate
from pipeline.guests.sweep.sweep_worker import Point
from pipeline.merges.merge_list import LEAST_COUNT, MergeList
from pipeline.merges.vocabulary import Vocabulary
from pipeline.reports.figure import Axis, Figure, Series, size_axis
from pipeline.reports.figure_files import write_figures
from pipeline.reports.page import figure_element, plain_page
from pipeline.reports.parts import Part as Shown
from pipeline.reports.parts import Rows, Table, element, html_of
from pipeline.reports.result import Result
from pipeline.storage import Location
from pipeline.storage.atomic import write_rows

_MOST_DRAWN, _LONGEST = 8, 26  # mixtures in a figure, the best ones; letters of a name


@dataclass(frozen=True)
class Overlap:
    """How many learned tokens two mixtures' vocabularies of one size share, of how many the smaller one has."""

    mixtures: tuple[str, str]
    vocab_size: int
    shared: int
    of: int


@dataclass(frozen=True)
class Part:
    """The recommended vocabulary, learned from every Nth chunk only. rate: geometric mean of bytes per token.

    change: of the rate, from that of all chunks; shared: of the learned tokens, with those of all chunks.
    """

    every: int
    rate: float
    change: float
    shared: int
    of: int


def overlaps(learned: Mapping[str, MergeList], merges: Mapping[int, int]) -> tuple[Overlap, ...]:
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


@dataclass(frozen=True)
class Grid:
    """The points of a sweep, as a table has them: a row a mixture, named by the weights that differ. weights: of the
    runs, by the mixture's name; those that are not in it are left out."""

    points: Sequence[Point]
    weights: Mapping[str, Mapping[str, str]]
    recommendation: Recommendation

    @property
    def mixtures(self) -> list[str]:
        """The names of the mixtures, in their order."""
        return list(dict.fromkeys(point.mixture for point in self.points))

    @property
    def sizes(self) -> list[int]:
        """The vocabulary sizes that were asked for."""
        return sorted({point.vocab_size for point in self.points})

    def of(self, value: Callable[[Point], Any]) -> dict[tuple[str, int], Any]:
        """Return a value of each point, by mixture and size."""
        return {(point.mixture, point.vocab_size): value(point) for point in self.points}

    def table(self, title: str, headers: Sequence[str], cells: Mapping[str, Sequence[Any]], **more: Any) -> Table:
        """Make a table with the cells of each mixture behind its weights. picked: a column of the cells."""
        leading = varying(self.weights)
        rows = tuple((*leading[1][mixture], *cells[mixture]) for mixture in self.mixtures)
        if (picked := more.pop("picked", None)) is not None:
            more["picked"] = (self.mixtures.index(self.recommendation.mixture), len(leading[0]) + picked)
        return Table(title, (*leading[0], *headers), rows, **more)

    def by_size(self, title: str, value: Callable[[Point], Any], **more: Any) -> Table:
        """Make a table with a column a size."""
        found, sizes = self.of(value), self.sizes
        cells = {mixture: [found[mixture, size] for size in sizes] for mixture in self.mixtures}
        picked = sizes.index(self.recommendation.vocab_size)
        return self.table(title, [f"{size:,}" for size in sizes], cells, picked=picked, **more)

    def tables(self) -> list[Table]:
        """Return the rates by size, those of each text at the recommended size and mixture, and what is rare."""
        size, taken = self.recommendation.vocab_size, self.recommendation.mixture
        points, sizes = self.of(lambda point: point), self.sizes
        names = [(one.kind, one.name) for one in self.points[0].measured if one.kind != "mixture"]
        of_texts = {
            at: {(one.kind, one.name): one.bytes_per_token for one in found.measured} for at, found in points.items()
        }
        note = f"The geometric mean of the {KINDS[kind_of(self.points[0])]}."
        found = [
            self.by_size("Bytes per token by size", rate, note=note),
            self.by_size("How often the last pair occurred", lambda point: point.last_count, note=_RARE),
        ]
        for kind, title in _TITLES.items():
            if listed := [name for name in names if name[0] == kind]:
                cells = {mixture: [of_texts[mixture, size].get(one) for one in listed] for mixture in self.mixtures}
                columns, note = [name for _, name in listed], _NOTES.get(kind, "")
                found.append(self.table(f"{title}, {size:,} tokens", columns, cells, note=note))
        rows = tuple((name, kind, *(of_texts[taken, one].get((kind, name)) for one in sizes)) for kind, name in names)
        headers = ("text", "kind", *(f"{one:,}" for one in sizes))
        if len(sizes) > 1:
            found.append(Table("Bytes per token of each text with the recommended mixture", headers, rows))
        return found

    def figures(self) -> list[Figure]:
        """Return what of the mixtures is drawn: by size, by text, and two texts against each other."""
        size, taken, rates = self.recommendation.vocab_size, self.recommendation.mixture, self.of(rate)
        best = sorted(self.mixtures, key=lambda one: (one != taken, -rates[one, size]))[:_MOST_DRAWN]
        shown, named = [one for one in self.mixtures if one in best], labels(self.weights)
        named = {mixture: _shortened(label) for mixture, label in named.items()}
        if len(shown) == 1:
            line = Series("", tuple((one, rates[taken, one]) for one in self.sizes))
            return [Figure("sizes", "Bytes per token by size", "lines", size_axis(self.sizes), _RATE, (line,))]
        more = {at: 100 * (rates[taken, at[1]] / (value or 1) - 1) for at, value in rates.items()}
        lines = tuple(Series(named[one], tuple((size, more[one, size]) for size in self.sizes)) for one in shown)
        y, note = Axis("% more tokens", form=".2f"), f"Than with {named[taken]}. Less than 0.1 % is equal."
        title = "Tokens of each mixture, compared with the recommended one"
        found = [Figure("sizes", title, "lines", size_axis(self.sizes), y, lines, note)]
        texts = {
            mixture: {
                _shortened(one.name): one.bytes_per_token or 0.0 for one in point.measured if one.kind == kind_of(point)
            }
            for (mixture, of), point in self.of(lambda point: point).items()
            if of == size
        }
        most = {text: max(texts[one][text] for one in shown) for text in texts[taken]}
        costs = {one: {text: 100 * (most[text] / (texts[one][text] or 1) - 1) for text in most} for one in shown}
        rows = tuple(Series(named[one], tuple(costs[one].items())) for one in shown)
        title, note = f"The price of each mixture by text, {size:,} tokens", "% more tokens than with the best mixture."
        found.append(Figure("texts", title, "heat", Axis("text"), Axis("% more tokens", form=".1f"), rows, note))
        if len(most) > 1:
            found.append(_pareto(texts, costs, named, self.recommendation))
        return found

    def overlaps(self, overlapping: Sequence[Overlap]) -> Table:
        """Return the share of tokens that two mixtures have in common, a row a pair."""
        shares = {(one.mixtures, one.vocab_size): one.shared / max(one.of, 1) for one in overlapping}
        known = labels(self.weights)
        rows = tuple(
            (" and ".join(known[one] for one in pair), *(shares[pair, size] for size in self.sizes))
            for pair in dict.fromkeys(one.mixtures for one in overlapping)
        )
        headers = ("mixtures", *(f"{size:,}" for size in self.sizes))
        forms = dict.fromkeys(range(1, len(headers)), ".1%")
        return Table("Tokens that two mixtures share, by size", headers, rows, forms=forms)


_TITLES = {kind: f"Bytes per token of the {name}" for kind, name in reversed(KINDS.items())}
_NOTES = {"held out": "Held out: no run has listed these files; their text may be in files that were counted."}
_RARE = f"Tokens that were made of pairs which occurred fewer than {LEAST_COUNT} times are names and typing errors."


_RATE = Axis("bytes per token")


def _pareto(
    texts: Mapping[str, Mapping[str, float]],
    costs: Mapping[str, Mapping[str, float]],
    named: Mapping[str, str],
    chosen: Recommendation,
) -> Figure:
    """Draw the two texts on which the mixtures differ most: a gain in one may be a loss in the other."""
    one, other = sorted(texts[chosen.mixture], key=lambda text: -max(of[text] for of in costs.values()))[:2]
    points = {mixture: (texts[mixture][one], texts[mixture][other]) for mixture in costs}
    series = [Series(named[at], (point,), alone=True, star=at == chosen.mixture) for at, point in points.items()]
    found = {*points.values()}
    worse = {at for at in found for it in found if it != at and it[0] >= at[0] and it[1] >= at[1]}
    front = sorted(found - worse)
    series.append(Series("not worse in both", tuple(front)))
    x, y = (Axis(f"bytes per token, {text}") for text in (one, other))
    note = "The star is the recommended mixture; mixtures below the line are worse in both than another one."
    title = f"Two texts against each other, {chosen.vocab_size:,} tokens"
    return Figure("pareto", title, "lines", x, y, tuple(series), note)


def _shortened(name: str) -> str:
    """Return a name that fits into a figure on a telephone."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[1 - _LONGEST // 2 :]}"


def varying(weights: Mapping[str, Mapping[str, str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the runs whose weights differ between mixtures, and these of each mixture; of a single one, its runs.

    >>> varying({"a-x1+b-x1": {"a": "1", "b": "1"}, "a-x1": {"a": "1"}})
    (['b'], {'a-x1+b-x1': ['1'], 'a-x1': ['0']})
    """
    runs = list(dict.fromkeys(run for one in weights.values() for run in one))
    found = [run for run in runs if len({one.get(run, "0") for one in weights.values()}) > 1]
    if not found:
        return ["mixture"], {name: [" + ".join(one)] for name, one in weights.items()}
    return found, {name: [one.get(run, "0") for run in found] for name, one in weights.items()}


def labels(weights: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Name each mixture by what varies: `code 2, ja 1`."""
    runs, of = varying(weights)
    if len(weights) == 1:
        return {name: one[0] for name, one in of.items()}
    return {name: ", ".join(f"{run} {by}" for run, by in zip(runs, one, strict=True)) for name, one in of.items()}


def _in_words(part: Part) -> str:
    share = f"{part.shared / max(part.of, 1):.1%}"
    return f"learned from 1/{part.every} of the chunks, {part.change:+.2%} bytes per token, {share} of the same tokens"


@dataclass(frozen=True)
class Swept(Result):
    """All points, in order of mixtures and sizes, how alike the vocabularies are, and which one to take.

    parts: what the one to take would be if it were learned from a part of the chunks. weights: of the runs in each
    mixture.
    """

    directory: Location
    points: tuple[Point, ...]
    overlaps: tuple[Overlap, ...]
    recommendation: Recommendation
    parts: tuple[Part, ...]
    weights: Mapping[str, Mapping[str, str]]

    event = "swept"

    @property
    def brief(self) -> str:
        """The directory of the tokenizer that is recommended."""
        return str(self.directory / "tokenizer")

    @property
    def _grid(self) -> Grid:
        return Grid(self.points, self.weights, self.recommendation)

    @property
    def _taken(self) -> str:
        return f"{labels(self.weights)[self.recommendation.mixture]}: {self.recommendation.vocab_size:,} tokens"

    @property
    def _reasons(self) -> Iterable[tuple[str, str]]:
        yield from ((one.about, str(one)) for one in self.recommendation.advice)
        yield from (("less text", _in_words(part)) for part in self.parts)

    def shown(self) -> Iterable[Shown]:
        """Return a table of mixtures and sizes, and the recommendation."""
        home = self.directory
        title = "Bytes per token, the geometric mean of the texts"
        yield self._grid.by_size(title, rate, whole=f"{home}/sweep.html")
        of_run = str(home / "mixtures" / self.recommendation.mixture)
        written = (("tokenizer", self.brief), ("its run", of_run))
        numbers = ("all numbers", f"{home}/sweep.html, {home}/sweep.parquet")
        yield Rows((("recommended", self._taken), *self._reasons, *written, numbers))

    def page(self) -> str:
        """Return the page: the recommendation, a drawing of all mixtures, and the tables."""
        grid = self._grid
        why = Rows(tuple(self._reasons), f"Recommended: {self._taken}")
        first, *others = grid.tables()
        figures = grid.figures()
        drawn = element("div", *map(figure_element, figures), class_="plots")
        more = [*others, *([grid.overlaps(self.overlaps)] if self.overlaps else [])]
        folded = [element("details", element("summary", one.title), html_of(one)) for one in more]
        listed = [html_of(why)], [drawn], [html_of(first)], folded
        sections = (element("section", *one) for one in listed)
        return plain_page(f"Sweep: {self.directory}", *sections, figures=figures)

    def write_figures(self, where: Location, *, overwrite: bool) -> None:
        """Write the figures and the tables of the page as files."""
        write_figures(where, self._grid.figures(), self._grid.tables(), overwrite=overwrite)
