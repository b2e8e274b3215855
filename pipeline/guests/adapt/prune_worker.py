"""Count how a tokenizer uses its tokens on a counter, choose what to remove, and write the tables, in a worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.counts.counter_file import open_counter
from pipeline.guests.adapt.pruning import RemovedToken, pruned, removed_tokens
from pipeline.merges.vocabulary import Vocabulary
from pipeline.storage import Location
from pipeline.storage.atomic import whole_file
from pipeline.tokenizer.model import Model

MAP_NAME, REMOVED_NAME = "id-map.parquet", "removed.parquet"


@dataclass(frozen=True)
class PruneTask:
    """A counter and the tokenizer to prune. asked: as an origin has it; output: the directory of the tables."""

    counter: Location
    counter_fingerprint: str
    model: Model
    asked: Mapping[str, Any]
    output: Location

    def __str__(self) -> str:
        return f"pruning by {self.counter}"


@dataclass(frozen=True)
class Pruning:
    """What to remove, in order. before, after: the tokens of all pieces. id_map: new id -> old id."""

    removed: tuple[RemovedToken, ...]
    id_map: Mapping[int, int]
    before: int
    after: int


def prune(task: PruneTask) -> Pruning:
    """Choose what to remove and write both tables; raises as `removed_tokens` does."""
    old, asked = task.model.vocabulary, task.asked
    encoder, limits = task.model.piece_encoder(), {name: asked[name] for name in ("keep", "min_count")}
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        uses = task.model.uses(counter.read_all())
        scores = removed_tokens(old, encoder.parts(old.tokens), uses, {*asked["protected"]}, **limits)
        model, new_of = pruned(task.model, scores.keys(), keep_ids=asked["keep_ids"])
        encoder, after = model.piece_encoder(), sum(model.uses(counter.read_all()))
    removed = tuple(
        RemovedToken(id_, old.tokens[id_], score, tuple(encoder.encode_pieces([old.tokens[id_]])))
        for id_, score in scores.items()
    )
    pruning = Pruning(removed, {new: id_ for id_, new in new_of.items()}, sum(uses), after)
    _write(task, pruning, old)
    return pruning


def _write(task: PruneTask, pruning: Pruning, old: Vocabulary) -> None:
    """Write id-map.parquet, a row a token that stays, and removed.parquet, a row a token that goes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tokens, id_ = old.to_dict(), pa.uint32()
    of_map = pa.schema({"new_id": id_, "old_id": id_, "token": pa.binary()})
    of_removed = pa.schema({"old_id": id_, "token": pa.binary(), "score": pa.uint64(), "new_ids": pa.list_(id_)})
    ids = [{"new_id": new, "old_id": was, "token": tokens[was]} for new, was in pruning.id_map.items()]
    for name, rows, schema in ((MAP_NAME, ids, of_map), (REMOVED_NAME, map(vars, pruning.removed), of_removed)):
        with whole_file(task.output / name) as partial:
            pq.write_table(pa.Table.from_pylist(list(rows), schema), partial)
