"""The results of a sweep: every mixture and size on every text, shown as one table with the recommendation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bpe_pipeline.extensions.sweep.rule import Recommendation, is_rare, rate, recommend
from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.merges.merge_list import LEAST_COUNT, MOST_RARE
from bpe_pipeline.reports.parts import Excluded, Part, Rows, Table
from bpe_pipeline.reports.result import Result
from bpe_pipeline.reports.summary import Section
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location, read_json
from bpe_pipeline.storage.atomic import write_rows

TABLE = "sweep.parquet"
_COLUMNS = {"mixture": "string", "vocab_size": "uint32", "size": "uint32", "rare_merges": "double", "kind": "string"}
_COLUMNS |= {"text": "string", "bytes": "uint64", "tokens": "uint64", "bytes_per_token": "double"}


def write_table(where: Location, points: Sequence[Point]) -> None:
    """Write sweep.parquet: a row for each mixture, size and text."""
    rows = (
        {**vars(point), **vars(one), "text": one.name, "bytes_per_token": one.bytes_per_token}
        for point in points
        for one in point.measured
    )
    write_rows(where, rows, _COLUMNS)


def section(home: Location) -> Section | None:
    """Return what a sweep adds to the report of one of its mixtures; None if it has not ended."""
    points = stored(tuple[Point, ...], read_json(home / "sweep.json")["points"])
    return Section(tables=(table_of(points, recommend(points), home),)) if points else None


def table_of(points: Sequence[Point], chosen: Recommendation, home: Location) -> Table:
    """Return the table with a row for each mixture and a column for each size."""
    sizes, names = sorted({one.vocab_size for one in points}), list(dict.fromkeys(one.mixture for one in points))
    cells = {(one.mixture, one.vocab_size): Excluded(rate(one)) if is_rare(one) else rate(one) for one in points}
    return Table(
        "Bytes per token, the geometric mean of the texts",
        ("mixture", *(f"{size:,}" for size in sizes)),
        tuple((name, *(cells[name, size] for size in sizes)) for name in names),
        f"†: more than {MOST_RARE:.0%} of the merges occurred fewer than {LEAST_COUNT} times",
        picked=(names.index(chosen.mixture), 1 + sizes.index(chosen.vocab_size)),
        heat=True,
        whole=str(home / TABLE),
    )


@dataclass(frozen=True)
class Swept(Result):
    """All points, in order of mixtures and sizes, and which one to take. tokenizer: the directory of that one."""

    directory: Location
    points: tuple[Point, ...]
    recommendation: Recommendation
    tokenizer: Location

    event = "swept"

    @property
    def brief(self) -> str:
        """The directory of the tokenizer that is recommended."""
        return str(self.tokenizer)

    def shown(self) -> Iterable[Part]:
        """Return a table of mixtures and sizes, and the recommendation."""
        chosen = self.recommendation
        table = table_of(self.points, chosen, self.directory)
        yield table
        yield Rows(
            (
                ("too rare", table.note if any(map(is_rare, self.points)) else ""),
                ("recommended", f"{chosen.mixture}: {chosen.vocab_size:,} tokens"),
                *((one.about, str(one)) for one in chosen.advice),
                ("tokenizer", self.brief),
                ("all numbers", table.whole),
            )
        )
