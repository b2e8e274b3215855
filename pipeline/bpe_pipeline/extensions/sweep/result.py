"""The results of a sweep: every mixture and size on every text, shown as one table with the recommendation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bpe_pipeline.extensions.sweep.rule import Recommendation, rate
from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.merges.merge_list import MOST_RARE
from bpe_pipeline.reports.parts import Excluded, Part, Rows, Table
from bpe_pipeline.reports.result import Result
from bpe_pipeline.storage import Location
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


def varying(weights: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return of each mixture the weights of the runs whose weights differ between mixtures; of a single one, its runs.

    >>> varying({"a-x1+b-x1": {"a": "1", "b": "1"}, "a-x1": {"a": "1"}})
    {'a-x1+b-x1': {'b': '1'}, 'a-x1': {'b': '0'}}
    """
    runs = dict.fromkeys(run for one in weights.values() for run in one)
    differing = [run for run in runs if len({one.get(run, "0") for one in weights.values()}) > 1]
    return {
        name: {run: one.get(run, "0") for run in differing} or {"mixture": " + ".join(one)}
        for name, one in weights.items()
    }


def labels(weights: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Name each mixture by what varies: `code 2, ja 1`; a single one by its runs."""
    if len(weights) == 1:
        return {name: " + ".join(one) for name, one in weights.items()}
    return {name: ", ".join(f"{run} {by}" for run, by in one.items()) for name, one in varying(weights).items()}


@dataclass(frozen=True)
class Swept(Result):
    """All points, in order of mixtures and sizes, and which one to take. weights: of the runs in each mixture."""

    directory: Location
    points: tuple[Point, ...]
    recommendation: Recommendation
    weights: Mapping[str, Mapping[str, str]]

    event = "swept"

    @property
    def brief(self) -> str:
        """The directory of the tokenizer that is recommended."""
        return str(self.directory / "tokenizer")

    def _table(self) -> Table:
        """Return the table with a row a mixture, its weights, and a column a size."""
        sizes, weights = sorted({point.vocab_size for point in self.points}), varying(self.weights)
        rates: dict[tuple[str, int], float] = {}
        for point in self.points:
            is_rare = point.rare_merges > MOST_RARE
            rates[point.mixture, point.vocab_size] = Excluded(rate(point)) if is_rare else rate(point)
        columns, chosen = [*weights[self.recommendation.mixture]], self.recommendation
        picked = [*weights].index(chosen.mixture), len(columns) + sizes.index(chosen.vocab_size)
        rows = ((*of.values(), *(rates[name, size] for size in sizes)) for name, of in weights.items())
        return Table(
            "Bytes per token, the geometric mean of the texts",
            (*columns, *(f"{size:,}" for size in sizes)),
            tuple(rows),
            picked=picked,
            whole=str(self.directory / TABLE),
        )

    def shown(self) -> Iterable[Part]:
        """Return a table of mixtures and sizes, and the recommendation."""
        home, chosen = self.directory, self.recommendation
        taken = ", ".join(f"{run} {by}" for run, by in self.weights[chosen.mixture].items())
        yield self._table()
        yield Rows(
            (
                ("recommended", f"{taken}: {chosen.vocab_size:,} tokens"),
                *((one.about, str(one)) for one in chosen.advice),
                ("tokenizer", self.brief),
                ("its run", str(home / "mixtures" / chosen.mixture)),
                ("all numbers", str(home / TABLE)),
            )
        )
