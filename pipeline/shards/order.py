"""The order of documents in the shards: the corpus's own, or one that is shuffled, weighted, repeated or held out.

Two passes bound the memory: workers deal the documents of each part out to buckets by keys, and then sort each bucket.
Keys depend on the seed, the epoch and the number of the document alone, so the order does not depend on
parts, buckets, workers or memory. Validation is chosen by a hash of a document's ids: equal documents are on one side,
and stay there when the corpus grows.
"""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import accumulate

from pipeline import _core
from pipeline.run import memory
from pipeline.run.directory import fingerprint
from pipeline.run.work import Work
from pipeline.run.workers import worker_count
from pipeline.shards.deal_worker import DealTask, Selection, Survey, SurveyTask, deal_part, smallest_of, survey_part
from pipeline.shards.dealt_file import Bucket, Source, dealt_ids
from pipeline.shards.formats.shard_format import ID_BYTES
from pipeline.shards.manifest import Encoding, holds_out, is_dealt
from pipeline.shards.part_file import Part, StoredPart
from pipeline.storage.atomic import make_directory

SURVEY_STAGE, ORDERING_STAGE = "choosing validation", "ordering documents"
_ALL = 1 << 64  # hashes
_LARGE, _SMALL = 16 << 20, 4 << 20  # bytes of a bucket
_BUCKETS_IN_MEMORY = 6  # of a worker


@dataclass(frozen=True)
class Split:
    """Training or validation: where its ids are, and how many are in each source, in order."""

    name: str
    sources: tuple[Source, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True)
class _HeldOut:
    """Which documents are validation's. states: of the document that continues in each part; last: hash of its last."""

    below: int
    states: Sequence[int]
    last: Sequence[int]


def bucket_memory(work_bytes: int) -> int:
    """Return what a worker takes for dealing out, and for reading a bucket."""
    return _BUCKETS_IN_MEMORY * (_LARGE if work_bytes >= _BUCKETS_IN_MEMORY * _LARGE else _SMALL)


def put_in_order(work: Work, encoding: Encoding, parts: Sequence[Part]) -> list[Split]:
    """Deal out the parts, if the order asks for it; returns the splits, training first."""
    options, stored = encoding.options, encoding.parts()
    documents = sum(part.documents for part in parts)
    if not is_dealt(options) or not documents:
        repeat = options.get("repeat") or 1
        return [Split("train", tuple(stored) * repeat, tuple(part.ids for part in parts) * repeat)]
    whole = memory.budget(work.options.memory_limit, work.nodes)
    count = whole.workers(max(1, min(worker_count(work.options), len(parts))))
    work_bytes = bucket_memory(whole.per_worker(count))
    bucket_bytes, workers = work_bytes // _BUCKETS_IN_MEMORY, memory.Workers(whole, count, count, work_bytes)
    held_out = _held_out(work, encoding, parts, workers)
    make_directory(work.directory / "dealt")
    train: list[tuple[Source, int]] = []
    validation: list[tuple[Source, int]] = []
    for epoch in range(len(encoding.owned_dealt())):
        tasks = list(_deal_tasks(encoding, parts, held_out, epoch, bucket_bytes))
        buckets = tasks[0].buckets
        totals = _deal(work, tasks, workers)
        files = tuple(StoredPart(task.output, task.output_fingerprint) for task in tasks)
        id_bytes = ID_BYTES[options["dtype"]]
        found = [(Bucket(files, index, id_bytes, workers.work_bytes), ids) for index, ids in enumerate(totals)]
        train += found[: buckets[0]]
        validation += found[buckets[0] :] if epoch == 0 else []
    if holds_out(options):
        _warn_of_empty(work, documents, sum(ids for _, ids in train), sum(ids for _, ids in validation))
    splits = {"train": train, **({"validation": validation} if holds_out(options) else {})}
    return [Split(name, tuple(s for s, _ in found), tuple(ids for _, ids in found)) for name, found in splits.items()]


def _warn_of_empty(work: Work, documents: int, train_ids: int, validation_ids: int) -> None:
    """Warn if all documents are on one side."""
    options = work.options
    asked = f"--val-tokens {options.val_tokens:,}" if options.val_tokens else f"--val-fraction {options.val_fraction}"
    if not train_ids:
        work.warn(
            f"{asked} holds out all {documents:,} documents, which leaves none for training: give a smaller number"
        )
    elif not validation_ids:
        work.warn(f"{asked} holds out none of {documents:,} documents, so validation is empty: give a larger share")


def _deal_tasks(
    encoding: Encoding,
    parts: Sequence[Part],
    held_out: _HeldOut,
    epoch: int,
    bucket_bytes: int,
) -> Iterator[DealTask]:
    """Yield the task of each part."""
    options, stored, names = encoding.options, encoding.parts(), encoding.owned_dealt()[epoch]
    weights, id_bytes = _weights(encoding), ID_BYTES[options["dtype"]]
    seed = hashlib.sha256(f"{options.get('shuffle')} {epoch}".encode()).digest()
    ids = sum(part.ids * weight for part, weight in zip(parts, weights, strict=True)) * id_bytes
    share = options.get("val_fraction") or (options.get("val_tokens") or 0) * id_bytes / max(ids, 1)
    buckets = tuple(int(one // bucket_bytes) + 1 for one in (ids, float(ids) * min(share, 1)))
    *numbers, documents = accumulate((part.documents for part in parts), initial=0)
    for index, (number, weight) in enumerate(zip(numbers, weights, strict=True)):
        selection = Selection(
            shuffled=options.get("shuffle") is not None,
            key=int.from_bytes(seed[:8], "little"),
            documents=documents,
            passes=-(-max(weights) // 1),
            copies=weight // 1,
            share=int(weight % 1 * _ALL),
            held_out=held_out.below,
            validation=epoch == 0,
        )
        own = [asdict(selection), number, held_out.states[index], held_out.last[index], buckets]
        yield DealTask(
            *(*stored[index], parts[index].ids, id_bytes),
            state=held_out.states[index],
            output=encoding.directory / names[index],
            output_fingerprint=fingerprint(stored[index][1], own),
            selection=selection,
            number=number,
            last_hash=held_out.last[index],
            buckets=(buckets[0], buckets[1]),
            run_bytes=2 * bucket_bytes,
        )


def _deal(work: Work, tasks: Sequence[DealTask], workers: memory.Workers) -> "array[int]":
    """Write the dealt files that are missing; returns the number of ids in each bucket."""
    totals = array("Q", bytes(8 * sum(tasks[0].buckets)))
    found = [dealt_ids(task.output, task.output_fingerprint) for task in tasks]
    missing = [task for task, ids in zip(tasks, found, strict=True) if ids is None]
    all_ids = sum(task.part_ids for task in tasks)
    with work.stage(ORDERING_STAGE, all_ids, "tokens", all_ids - sum(task.part_ids for task in missing)) as advance:
        run = work.executor.run(deal_part, missing, advance, at_once=workers.at_once, need=workers.need)
        for ids in [*(one for one in found if one is not None), *(one for _, one in run)]:
            for bucket, count in enumerate(ids):
                totals[bucket] += count
    return totals


def _weights(encoding: Encoding) -> list[Fraction]:
    """Return the weight of each part."""
    if encoding.options.get("weights") is None:
        return [Fraction(1)] * len(encoding.plan.chunks)
    weights = map(Fraction, encoding.options["weights"])
    return [weight for weight, chunks in zip(weights, encoding.inputs, strict=True) for _ in range(chunks)]


def _held_out(work: Work, encoding: Encoding, parts: Sequence[Part], workers: memory.Workers) -> _HeldOut:
    """Return which documents are held out."""
    options, none = encoding.options, [0] * len(parts)
    if not holds_out(options):
        return _HeldOut(0, none, none)
    first = _survey(work, encoding, parts, workers, list(zip(none, none, strict=True)))
    states = _carried(first, parts)
    tokens = options.get("val_tokens")
    below = int(Fraction(str(options.get("val_fraction") or 0)) * _ALL)
    if tokens is not None:
        smallest: list[tuple[int, int]] = []
        for survey in _survey(work, encoding, parts, workers, states, tokens):
            smallest = smallest_of([*smallest, *survey.smallest], tokens)
        below = smallest[-1][0] + 1
    return _HeldOut(below, [state for state, _ in states], _last_hashes(first, parts, states))


def _survey(
    work: Work,
    encoding: Encoding,
    parts: Sequence[Part],
    workers: memory.Workers,
    states: Sequence[tuple[int, int]],
    smallest: int = 0,
) -> list[Survey]:
    id_bytes = ID_BYTES[encoding.options["dtype"]]
    tasks = [
        SurveyTask(*stored, part.ids, id_bytes, *state, smallest=smallest)
        for stored, part, state in zip(encoding.parts(), parts, states, strict=True)
    ]
    with work.stage(SURVEY_STAGE, sum(part.ids for part in parts), "tokens") as advance:
        found = dict(work.executor.run(survey_part, tasks, advance, at_once=workers.at_once, need=workers.need))
    return [found[index] for index in range(len(tasks))]


def _joined(before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int]:
    """Return hash and number of ids of one sequence after another."""
    return (before[0] * pow(_core.hash_step(), after[1], _ALL) + after[0]) % _ALL, before[1] + after[1]


def _carried(surveys: Sequence[Survey], parts: Sequence[Part]) -> list[tuple[int, int]]:
    """Return hash and number of ids of the document that continues in each part."""
    states = [(0, 0)]
    for survey, part in zip(surveys, parts, strict=True):
        states.append(survey.last if survey.ends else _joined(states[-1], (survey.last[0], part.ids)))
    return states[:-1]


def _last_hashes(surveys: Sequence[Survey], parts: Sequence[Part], states: Sequence[tuple[int, int]]) -> list[int]:
    """Return the hash of the document that continues after each part."""
    hashes = [0] * len(parts)
    rest = (0, 0)  # of that document: its ids after the part
    for index in range(len(parts) - 1, -1, -1):
        survey, whole = surveys[index], (surveys[index].last[0], parts[index].ids)
        before = survey.last if survey.ends else _joined(states[index], whole)
        state = _joined(before, rest)[0]
        hashes[index] = _core.hash_documents(b"", array("Q", [0]), 2, 0, state)[0][0]
        rest = survey.first if survey.ends else _joined(whole, rest)
    return hashes
