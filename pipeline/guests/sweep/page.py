"""The results of a sweep, for people and as a table: every mixture and size on every text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pipeline.guests.sweep.rule import Recommendation, rate
from pipeline.guests.sweep.sweep_worker import Point
from pipeline.merges.merge_list import MergeList
from pipeline.merges.vocabulary import Vocabulary
from pipeline.reports.page import Html, element, escaped, html_of, plain_page
from pipeline.reports.result import Part as Shown
from pipeline.reports.result import Result, Rows, Table
from pipeline.storage import Location
from pipeline.storage.atomic import write_rows

_WIDTH, _HEIGHT, _EDGE = 420, 240, 40  # of the drawing
_COLOURS, _DASHES = ("var(--first)", "var(--second)"), ("none", "6 3", "2 3", "9 3 2 3")


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


def tables(points: Sequence[Point], overlapping: Sequence[Overlap]) -> list[Table]:
    """Return a table of bytes per token for each kind of text, and one of the vocabularies' overlap."""
    found = []
    for kind, title in (("source", "Bytes per token of each source"), ("held out", "Bytes per token of held-out text")):
        names = list(dict.fromkeys(one.name for point in points for one in point.measured if one.kind == kind))
        if not names:
            continue
        rows = []
        for point in points:
            rates = {one.name: one.bytes_per_token for one in point.measured if one.kind == kind}
            rows.append((point.mixture, point.vocab_size, *map(rates.get, names)))
        found.append(Table(title, ("mixture", "vocabulary size", *names), tuple(rows)))
    merged = tuple(
        (point.mixture, point.vocab_size, one.bytes_per_token, rate(point), point.last_count)
        for point in points for one in point.measured if one.kind == "mixture"
    )  # fmt: skip
    headers = ("mixture", "vocabulary size", "bytes per token of the mixture", "geometric mean", "last pair occurred")
    found.append(Table("What was learned from", headers, merged))
    if overlapping:
        shared = tuple(
            (" and ".join(one.mixtures), one.vocab_size, one.shared, one.shared / max(one.of, 1)) for one in overlapping
        )
        of_shared = ("mixtures", "vocabulary size", "shared", "share")
        found.append(Table("Tokens that two mixtures share", of_shared, shared, forms={3: ".1%"}))
    return found


def _in_words(part: Part) -> str:
    share = f"{part.shared / max(part.of, 1):.1%}"
    return f"learned from 1/{part.every} of the chunks, {part.change:+.2%} bytes per token, {share} of the same tokens"


@dataclass(frozen=True)
class Swept(Result):
    """All points, in order of mixtures and sizes, how alike the vocabularies are, and which one to take.

    parts: what the one to take would be if it were learned from a part of the chunks.
    """

    directory: Location
    points: tuple[Point, ...]
    overlaps: tuple[Overlap, ...]
    recommendation: Recommendation
    parts: tuple[Part, ...]

    event = "swept"

    @property
    def brief(self) -> str:
        """The directory of the tokenizer that is recommended."""
        return str(self.directory / "tokenizer")

    @property
    def _taken(self) -> str:
        return f"{self.recommendation.mixture}, {self.recommendation.vocab_size:,} tokens"

    @property
    def _reasons(self) -> Iterable[tuple[str, str]]:
        yield from (("because", reason) for reason in self.recommendation.reasons)
        yield from (("less text", _in_words(part)) for part in self.parts)

    def shown(self) -> Iterable[Shown]:
        """Return a table of mixtures and sizes, and the recommendation."""
        home, sizes = self.directory, sorted({point.vocab_size for point in self.points})
        rates = {(point.mixture, point.vocab_size): rate(point) for point in self.points}
        mixtures = dict.fromkeys(point.mixture for point in self.points)
        grid = tuple((name, *(rates[name, size] for size in sizes)) for name in mixtures)
        title, headers = "Bytes per token, the geometric mean of the texts", map("{:,}".format, sizes)
        yield Table(title, ("mixture", *headers), grid, whole=f"{home}/sweep.html")
        written = (("tokenizer", self.brief), ("all numbers", f"{home}/sweep.html, {home}/sweep.parquet"))
        yield Rows((("recommended", self._taken), *self._reasons, *written))

    def page(self) -> str:
        """Return the page: the recommendation, a drawing of all mixtures, and the tables."""
        why = Rows(tuple(self._reasons), f"Recommended: {self._taken}")
        drawn = element("h2", "Bytes per token by size"), _drawing(self.points)
        listed = ([html_of(why)], drawn, *([html_of(one)] for one in tables(self.points, self.overlaps)))
        return plain_page(f"Sweep: {self.directory}", *(element("section", *one) for one in listed))


def _drawing(points: Sequence[Point]) -> Html:
    """Draw a line for each mixture: the geometric mean of bytes per token over the sizes."""
    sizes = sorted({point.vocab_size for point in points})
    rates = [rate(point) for point in points]
    low, high = min(rates), max(rates)
    places = {size: _EDGE + index * (_WIDTH - 2 * _EDGE) / max(len(sizes) - 1, 1) for index, size in enumerate(sizes)}

    def height(value: float) -> float:
        return _HEIGHT - _EDGE - (value - low) / ((high - low) or 1) * (_HEIGHT - 2 * _EDGE)

    drawn = [
        element("text", f"{size:,}", x=round(x), y=_HEIGHT - 12, text_anchor="middle", fill="currentColor")
        for size, x in places.items()
    ]
    drawn += [
        element("text", f"{value:.2f}", x=_EDGE - 6, y=round(height(value)), text_anchor="end", fill="currentColor")
        for value in sorted({low, high})
    ]
    legend = []
    for number, mixture in enumerate(dict.fromkeys(point.mixture for point in points)):
        ends = " ".join(
            f"{places[point.vocab_size]:.1f},{height(rate(point)):.1f}" for point in points if point.mixture == mixture
        )
        drawn.append(_line(number, ends))
        mark = element("svg", _line(number, "0,5 40,5"), width=40, height=10, aria_hidden="true")
        legend.append(element("li", mark, " ", mixture))
    label = "Bytes per token of each mixture by vocabulary size; the tables below have the numbers"
    attributes = {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "style": "width: 100%; max-width: 32rem; font-size: 13px"}
    svg = element("svg", *drawn, role="img", aria_label=label, **attributes)
    note = "The geometric mean over the held-out files, or without any over the sources."
    return escaped(svg, element("ul", *legend, class_="tokens"), element("p", note, class_="quiet"))


def _line(number: int, points: str) -> Html:
    """Draw the line of a mixture; the first eight differ by colour or dashes."""
    dashes = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    colour = _COLOURS[number % len(_COLOURS)]
    return element("polyline", points=points, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dashes)
