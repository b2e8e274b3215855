"""The order of documents in the shards: the corpus's own, or one that is shuffled or held out.

Two passes bound the memory: workers deal the documents of each part out to buckets by keys, and then sort each bucket.
Keys depend on the seed and the number of the document alone, so the order does not depend on parts, buckets,
workers or memory. Validation is chosen by a hash of a document's ids: equal documents are on one side,
and stay there when the corpus grows.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

from bpe_pipeline.base.memory import Grant
from bpe_pipeline.run.directory import Directory, fingerprint
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.shards.deal_worker import (
    DealTask,
    Documents,
    Selection,
    deal_part,
)
from bpe_pipeline.shards.formats.shard_format import ID_BYTES
from bpe_pipeline.shards.ids_file import EncodedChunk, StoredIds, found_ids
from bpe_pipeline.shards.ids_in_order import Bucket, Source
from bpe_pipeline.shards.manifest import Encoding, holds_out, is_dealt
from bpe_pipeline.storage.atomic import make_directory

ORDERING_STAGE = "ordering documents"
_ALL = 1 << 64  # hashes
_LARGE, _SMALL = 16 << 20, 4 << 20  # bytes of a bucket
_BUCKETS_IN_MEMORY = 6  # of a worker


@dataclass(frozen=True)
class Split:
    """Training or validation: where its ids are, and how many are in each source, in order."""

    name: str
    sources: tuple[Source, ...]
    ids: tuple[int, ...]


def writers(
    runner: Runner, tasks: int, *, dealt: bool = True, more_bytes: int = 0, what: str = "writing shards"
) -> Grant:
    """Return the workers for that many files. dealt: they deal out or sort buckets, large ones if memory allows it.

    more_bytes: memory that the named work takes in addition.
    """
    small, large = _BUCKETS_IN_MEMORY * _SMALL + more_bytes, _BUCKETS_IN_MEMORY * _LARGE + more_bytes
    wanted = large if dealt else small
    grant = runner.reserve(tasks, small, wanted, what)
    return grant if grant.bytes == wanted else replace(grant, bytes=small)


def put_in_order(runner: Runner, encoding: Encoding, parts: Sequence[EncodedChunk]) -> list[Split]:
    """Deal out the parts, if the order asks for it; returns the splits, training first."""
    options, stored = encoding.options, encoding.parts()
    documents = sum(part.documents for part in parts)
    if not is_dealt(options) or not documents:
        return [Split("train", tuple(stored), tuple(part.ids for part in parts))]
    workers = writers(runner, len(parts))
    bucket_bytes = workers.bytes // _BUCKETS_IN_MEMORY
    make_directory(encoding.directory / "dealt")
    tasks = list(_deal_tasks(encoding, parts, bucket_bytes))
    totals, files = _deal(runner, encoding.directory, tasks, workers), tuple(task.output for task in tasks)
    sources: list[tuple[Source, int]] = [
        (Bucket(files, index, len(totals), workers.bytes), ids) for index, ids in enumerate(totals)
    ]
    train, validation = sources[: tasks[0].buckets[0]], sources[tasks[0].buckets[0] :]
    splits = {"train": train, **({"validation": validation} if holds_out(options) else {})}
    return [
        Split(name, tuple(source for source, _ in of_split), tuple(ids for _, ids in of_split))
        for name, of_split in splits.items()
    ]


def warn_of_empty(runner: Runner, options: Mapping[str, Any], documents: str, ids: Iterable[int]) -> None:
    """Warn if all documents are on one side. documents: how many; ids: of training and of validation."""
    option, (train, validation) = f"--val-fraction {options.get('val_fraction')}", ids
    if not train:
        runner.warn(f"{option} holds out all {documents}, which leaves none for training: give a smaller number")
    elif not validation:
        runner.warn(f"{option} holds out none of {documents}, so validation is empty: give a larger share")


def _documents(encoding: Encoding, parts: Sequence[EncodedChunk]) -> Iterator[Documents]:
    """Yield the documents that start in each part: also those that end in a later one."""
    stored, id_bytes, inside = encoding.parts(), ID_BYTES[encoding.options["dtype"]], False
    sized = [(part_file, part.ids) for part_file, part in zip(stored, parts, strict=True)]
    for index, part in enumerate(parts):
        continues = part.rest > 0 or (inside and not part.documents)
        stop = index + 1
        while continues and (part.documents or not inside) and stop < len(parts):
            stop += 1
            if parts[stop - 1].documents:
                break
        yield Documents(tuple(sized[index:stop]), inside, id_bytes)
        inside = continues


def _deal_tasks(
    encoding: Encoding,
    parts: Sequence[EncodedChunk],
    bucket_bytes: int,
) -> Iterator[DealTask]:
    """Yield the task of each part."""
    options, id_bytes = encoding.options, ID_BYTES[encoding.options["dtype"]]
    seed = hashlib.sha256(f"{options['seed']} 0".encode()).digest()
    size = sum(part.ids for part in parts) * id_bytes
    buckets = size // bucket_bytes + 1, int(size * (options["val_fraction"] or 0) // bucket_bytes) + 1
    names, (*numbers, documents) = encoding.owned_dealt(), accumulate((part.documents for part in parts), initial=0)
    selection = Selection(
        shuffled=options["shuffle"],
        key=int.from_bytes(seed[:8], "little"),
        documents=documents,
        held_out=0,
    )
    for index, documents_here in enumerate(_documents(encoding, parts)):
        number, name = numbers[index], names[index]
        selection = replace(selection, held_out=held_out_below(encoding, index))
        parts_of = [part.fingerprint for part, _ in documents_here.parts]
        made_of = fingerprint(parts_of, documents_here.inside, asdict(selection), number, buckets)
        output = StoredIds(encoding.directory / name, made_of)
        yield DealTask(
            **vars(documents_here),
            output=output,
            selection=selection,
            number=number,
            buckets=buckets,
            run_bytes=2 * bucket_bytes,
        )


def _deal(runner: Runner, directory: Directory, tasks: Sequence[DealTask], workers: Grant) -> "array[int]":
    """Write the dealt files that are missing; returns the number of ids in each bucket."""

    def stored(tasks: Sequence[DealTask]) -> list[Any]:
        footers = (found_ids(*task.output) for task in tasks)
        dealt = [footer and footer["dealt"] for footer in footers]
        directory.refuse_replaced([task.output.path for task in tasks], dealt)
        return dealt

    stage = Stage(
        ORDERING_STAGE,
        "tokens",
        deal_part,
        tasks,
        weights=[task.parts[0][1] for task in tasks],
        stored=stored,
        grant=workers,
    )
    totals = array("Q", bytes(8 * sum(tasks[0].buckets)))
    for _, dealt in runner.each(stage):
        for bucket, count in enumerate(dealt):
            totals[bucket] += count
    return totals


def held_out_below(encoding: Encoding, chunk: int) -> int:
    """Return the hash below which the documents that start in a chunk are validation's."""
    if encoding.plan.held_out:
        return _ALL - 1 if chunk >= encoding.plan.held_out else 0
    return hash_held_out(encoding.options)


def hash_held_out(options: Mapping[str, Any]) -> int:
    """Return the hash below which documents are validation's: those of a share."""
    return int(Fraction(str(options["val_fraction"] or 0)) * _ALL)
