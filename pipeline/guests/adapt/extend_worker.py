"""Learn the tokens that extend a vocabulary, in a worker process: pieces as the base encodes them, then merges."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline import _core
from pipeline.base.errors import TrainingError
from pipeline.base.memory import Grant
from pipeline.counts.counter_file import CounterFile, open_counter
from pipeline.executors.worker import report_progress, report_totals
from pipeline.guests.adapt.extension import Learned, Start, learned_of, start_of
from pipeline.merges.forecast import surely_enough
from pipeline.merges.rules import MergeRules
from pipeline.merges.vocabulary import tokens_to_texts
from pipeline.storage import Location
from pipeline.storage.atomic import whole_file
from pipeline.tokenizer.model import Model

PLAN_NAME = "new-tokens.parquet"
_BYTES_PER_WORD = 32  # of a piece that is encoded, without its ids


@dataclass(frozen=True)
class ExtendTask:
    """A counter and the tokenizer whose encoding of it learning starts from.

    asked: as an origin has it; output: the table of new tokens.
    """

    counter: Location
    counter_fingerprint: str
    model: Model
    asked: Mapping[str, Any]
    threads: int
    grant: Grant
    output: Location

    def __str__(self) -> str:
        return f"extending with {self.counter}"


def learn(task: ExtendTask) -> Learned:
    """Learn the new merges and write the table of new tokens; `TrainingError` if there is nothing to learn."""
    asked, least, engine = task.asked, task.asked["min_frequency"], _core.MergeEngine()
    start = start_of(task.model, asked["add"], asked["first_id"])
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        _take(task, start, counter, engine)
    result = engine.run(
        asked["add"],
        MergeRules(min_frequency=least, whole_characters=asked["whole_characters"]),
        threads=task.threads,
        progress=report_totals(),
        start=(start.tokens, start.ids, start.first_new_id, start.forbidden, start.again),
    )
    if asked["add"] and not len(result.left):
        often = "" if least == 1 else f" {least:,} times"
        raise TrainingError(
            f"nothing to learn: no two neighbouring tokens that may be joined occur{often} in the pieces of "
            f"{task.counter}; count another corpus, or give a smaller --min-frequency"
        )
    learned = learned_of(start, result)
    _write(task, learned)
    return learned


def _take(task: ExtendTask, start: Start, counter: CounterFile, engine: _core.MergeEngine) -> None:
    """Give the engine all pieces as the base encodes them."""
    base = task.model.vocabulary
    numbers = {id_: number for number, id_ in enumerate(base.tokens)}
    merges = base.left, base.right, base.result
    left, right, result = (array("I", map(numbers.__getitem__, ids)) for ids in merges)
    encoder = _core.Encoder(None, dict(enumerate(start.tokens)), left, right, result, task.model.whole_pieces, 0, 1)
    words = slots = 0
    for columns in counter.read_all():
        ends, ids = encoder.encode_rows(columns)
        words, slots = words + len(ends), slots + len(ids) + len(ends)
        if _needed(task, words, slots) > task.grant.bytes:
            needed = _needed(task, counter.rows, counter.rows + counter.piece_bytes)
            raise task.grant.refusal(needed, f"extending with {counter.rows:,} pieces", ", or count less text")
        engine.add(ends, ids, columns[2])
        report_progress(memoryview(columns[2]).nbytes // 8)


def _needed(task: ExtendTask, words: int, slots: int) -> int:
    """Return the most bytes that words take, while they are encoded and merged."""
    return surely_enough(words, slots, task.asked["add"], threads=task.threads) + _BYTES_PER_WORD * words + 4 * slots


def _write(task: ExtendTask, learned: Learned) -> None:
    """Write new-tokens.parquet, a row a token."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids, count = pa.uint32(), pa.uint64()
    kinds = {"id": ids, "token": pa.binary(), "text": pa.string(), "left_id": ids, "right_id": ids, "count": count}
    texts = tokens_to_texts(one.token for one in learned.new)
    rows = [{**vars(one), "text": text} for one, text in zip(learned.new, texts, strict=True)]
    with whole_file(task.output) as partial:
        pq.write_table(pa.Table.from_pylist(rows, pa.schema({**kinds, "old_ids": pa.list_(ids)})), partial)
