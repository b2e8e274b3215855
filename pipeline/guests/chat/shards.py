"""The two stages of encoding chat data, run by workers: chunks become parts, and rows of parts become shards."""

from array import array
from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any

from pipeline.guests.chat.assemble import assemble, cut
from pipeline.guests.chat.assemble_worker import AssemblyTask, write_rows
from pipeline.guests.chat.dataset import DataSet
from pipeline.guests.chat.encoder import ID_BYTES
from pipeline.guests.chat.mixing import order_rows
from pipeline.guests.chat.plan import Chat
from pipeline.guests.chat.rows_worker import RowsTask, encode_rows
from pipeline.run.plan import Plan
from pipeline.run.runner import Runner
from pipeline.shards.encode import Writing, encode_missing, write_missing
from pipeline.shards.encode_worker import packed
from pipeline.shards.formats.shard_format import ShardFacts
from pipeline.shards.ids_file import Part
from pipeline.shards.manifest import Encoding, FileFacts
from pipeline.shards.plan import encoding_workers
from pipeline.shards.sources import open_part
from pipeline.tokenizer.model import Model


def encode_conversations(
    runner: Runner, encoding: Encoding, model: Model, chat: Chat, sets: Sequence[DataSet]
) -> list[Part]:
    """Encode the chunks without parts; returns all parts, in order."""
    plan = encoding.plan
    workers = encoding_workers(runner.broker, runner.workers, model, len(plan.chunks), runner.nodes)
    owners = {file.path: owner for file, owner in zip(plan.files, plan.owners, strict=True)}
    task = partial(
        RowsTask,
        template=chat.template,
        settings=chat.settings,
        model=runner.executor.broadcast(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        cache_bytes=workers.cache_bytes,
        budget_bytes=workers.text_bytes,
        grant=workers.grant,
    )

    def task_of(**own: Any) -> RowsTask:
        return task(data_set=sets[owners[own["spans"][0].file.path]], **own)

    return encode_missing(runner, encoding, encode_rows, task_of, workers.grant)


def write_conversations(
    runner: Runner, encoding: Encoding, chat: Chat, sets: Sequence[DataSet]
) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Put the rows in order, pack them, and write the shards that are missing; returns all files."""
    lengths, firsts = _lengths(encoding)
    order = order_rows(_sizes(encoding.plan, len(sets), firsts), chat.mixing)
    compatible = bool(encoding.options["compatible"])
    bags = [assemble(rows, lengths, chat.capacity, compatible=compatible) for rows in order]
    parts = tuple(zip(encoding.parts(), firsts, strict=False))
    pad = chat.pad_id.to_bytes(ID_BYTES, "little")
    tasks = {}
    names, row_tokens = ["train", "validation"] if chat.mixing.validation else ["train"], chat.layout.row_tokens
    for name, (rows, ends) in zip(names, bags, strict=False):
        sizes = repeat(row_tokens, len(ends)) if row_tokens else (lengths[row] for row in rows)
        shards = cut(rows, ends, sizes, encoding.options["shard_size"])
        task = partial(AssemblyTask, pack=chat.pack, pad=pad, parts=parts)
        tasks[name] = [partial(task, rows=own.tobytes(), ends=stops.tobytes()) for own, stops in shards]
    writing = Writing(write_rows, tasks, "conversations", lambda task: task.conversations)
    return write_missing(runner, encoding, chat.layout, writing)


def _lengths(encoding: Encoding) -> "tuple[array[int], list[int]]":
    """Return the ids of each row, 0 for one that was dropped, and the number of the first row of each part."""
    lengths, firsts = array("I"), []
    for stored in encoding.parts():
        firsts.append(len(lengths))
        with open_part(stored) as reader:
            for before, end in pairwise(chain([0], *reader.ends())):
                lengths.append((end - before) // 2)
    return lengths, [*firsts, len(lengths)]


def _sizes(plan: Plan, sets: int, firsts: Sequence[int]) -> list[int]:
    """Return the rows of each data set. firsts: of each chunk, and the number of all rows."""
    sizes = [0] * sets
    for index, (first, after) in enumerate(pairwise(firsts)):
        sizes[plan.owner(index)] += after - first
    return sizes
