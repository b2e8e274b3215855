"""The shards of chat data, by the writer of `encode`: parts of rows, what of them is validation, and rows in shards.

All that encoding chat data takes from how shards are written is here and in the two workers.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, pairwise, repeat
from typing import Any

from bpe_pipeline.base.units import format_count
from bpe_pipeline.extensions.chat.encoder import ID_BYTES
from bpe_pipeline.extensions.chat.packing import bags_of, shards_of
from bpe_pipeline.extensions.chat.plan import Chat
from bpe_pipeline.extensions.chat.rows_worker import MOST_CACHE_BYTES, RowsTask, budget_of, encode_rows, hash_rows
from bpe_pipeline.extensions.chat.shard_worker import MAKING_BYTES, ShardFile, ShardOfRows, write_shard
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.shards.chunk_file import EncodedChunk, open_part
from bpe_pipeline.shards.encode import WRITING_STAGE, complete, named_shards, writers
from bpe_pipeline.shards.encode_worker import packed
from bpe_pipeline.shards.encoded_corpus import FileFacts
from bpe_pipeline.shards.encoding_tasks import encoding_stage, encoding_workers
from bpe_pipeline.shards.formats import shard_format
from bpe_pipeline.shards.formats.shard_format import Layout, ShardFacts
from bpe_pipeline.shards.manifest import Encoding, holds_out
from bpe_pipeline.shards.packing import LongRow
from bpe_pipeline.shards.route import hash_held_out
from bpe_pipeline.tokenizer.model import Model

_HOLDING_OUT_STAGE = "choosing validation"


def encode_parts(runner: Runner, encoding: Encoding, model: Model, chat: Chat) -> list[EncodedChunk]:
    """Encode the chunks without parts; returns all parts, or those of the runner's share, in order."""
    plan = encoding.plan
    workers = encoding_workers(runner.broker, runner.workers, model, len(plan.chunks), runner.nodes)
    if workers.grant.given and (spared := workers.cache_bytes - MOST_CACHE_BYTES) > 0:
        workers = replace(workers, cache_bytes=MOST_CACHE_BYTES, text_bytes=workers.text_bytes + spared)
    budget = budget_of(workers.text_bytes, workers.cache_bytes, workers.grant)
    owners = {file.path: owner for file, owner in zip(plan.files, plan.owners, strict=True)}
    for number, data_set in enumerate(chat.sets):
        data_set.require_columns((file for file in plan.files if owners[file.path] == number), budget)
    broadcast = runner.executor.broadcast(packed(model))

    def task_of(**chunk: Any) -> RowsTask:
        return RowsTask(
            **chunk,
            data_set=chat.sets[owners[chunk["spans"][0].file.path]],
            chat=chat,
            model=broadcast,
            tokenizer=encoding.options["tokenizer"],
            cache_bytes=workers.cache_bytes,
            budget_bytes=workers.text_bytes,
            grant=workers.grant,
        )

    return runner.run(encoding_stage(encoding, encode_rows, task_of, workers.grant))


def written_shards(runner: Runner, encoding: Encoding, chat: Chat) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Pack the rows and write the shards that are missing; returns all files."""
    lengths, firsts = _lengths(encoding)
    splits = {"train": array("Q", range(len(lengths)))}
    if holds_out(vars(chat.options)):
        splits = _held_out(runner, encoding, chat, lengths, firsts)
    row_tokens = chat.layout.row_tokens
    longest = row_tokens or max(lengths, default=0)
    task = partial(
        ShardOfRows,
        pack=chat.pack,
        pad=chat.pad_id.to_bytes(ID_BYTES, "little"),
        parts=tuple(zip(encoding.parts(), firsts, strict=False)),
        longest=longest,
    )
    tasks = {}
    for name, of_split in splits.items():
        rows, ends = bags_of(of_split, lengths, chat.options.sequence_length if chat.pack else None)
        sizes = repeat(row_tokens, len(ends)) if row_tokens else (lengths[row] for row in rows)
        shards = shards_of(rows, ends, sizes, chat.options.shard_size)
        tasks[name] = [partial(task, rows=shard.tobytes(), ends=stops.tobytes()) for shard, stops in shards]
    return _write(runner, encoding, chat.layout, tasks, LongRow(longest, longest, MAKING_BYTES))


def _write(
    runner: Runner,
    encoding: Encoding,
    layout: Layout,
    tasks: Mapping[str, Sequence[Callable[..., ShardOfRows]]],
    longest: LongRow,
) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Write the shards that are missing, and the files of their format. tasks: of each split, but for the file."""
    format_name = encoding.options["shard_format"]
    format_ = shard_format(format_name)
    named = named_shards(encoding, layout, {split: len(of_split) for split, of_split in tasks.items()})
    shards = [
        task(file=ShardFile(encoding.directory.location, *names, format_, layout))
        for split, of_split in tasks.items()
        for task, names in zip(of_split, named[split], strict=True)
    ]
    what = f"writing {format_name} with a row of {format_count(longest.tokens, 'tokens')}"
    grant = writers(runner, len(shards), longest.memory_bytes(format_, layout), what)
    weights = [shard.conversations for shard in shards]
    facts = runner.run(Stage(WRITING_STAGE, "conversations", write_shard, shards, weights, grant=grant))
    rest = iter(facts)
    return facts, complete(encoding, layout, {split: [*islice(rest, len(named[split]))] for split in named})


def _held_out(
    runner: Runner, encoding: Encoding, chat: Chat, lengths: "array[int]", firsts: list[int]
) -> "dict[str, array[int]]":
    """Return the rows for training, and for validation those with small hashes."""
    sizes = [sum(lengths[first:after]) for first, after in pairwise(firsts)]
    parts = encoding.parts()
    grant = writers(runner, len(parts))
    hashed = runner.run(Stage(_HOLDING_OUT_STAGE, "tokens", hash_rows, parts, sizes, grant=grant))
    below, hashes = hash_held_out(vars(chat.options)), array("Q", chain(*hashed))
    rows = array("Q", (row for row, length in enumerate(lengths) if length))
    splits = {
        "train": array("Q", (row for row in rows if hashes[row] >= below)),
        "validation": array("Q", (row for row in rows if hashes[row] < below)),
    }
    _warn_of_empty(runner, vars(chat.options), format_count(len(rows), "conversations"), map(len, splits.values()))
    return splits


def _lengths(encoding: Encoding) -> "tuple[array[int], list[int]]":
    """Return the ids of each row, 0 for one that was dropped, and the number of the first row of each part."""
    lengths, firsts = array("I"), []
    for part in encoding.parts():
        firsts.append(len(lengths))
        with open_part(part) as reader:
            for before, end in pairwise(chain([0], *reader.ends())):
                lengths.append(end - before)
    return lengths, [*firsts, len(lengths)]


def _warn_of_empty(runner: Runner, options: Mapping[str, Any], documents: str, ids: Iterable[int]) -> None:
    """Warn if all documents are on one side. documents: how many; ids: of training and of validation."""
    option, (train, validation) = f"--val-fraction {options.get('val_fraction')}", ids
    if not train:
        runner.warn(f"{option} holds out all {documents}, which leaves none for training: give a smaller number")
    elif not validation:
        runner.warn(f"{option} holds out none of {documents}, so validation is empty: give a larger share")
