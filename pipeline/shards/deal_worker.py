"""Dealing out the documents of one part to buckets, by keys: what a worker process does.

A key depends on the seed, the epoch and the number of the document in the corpus; validation is chosen by a hash of
the document's ids. A document may start in an earlier part and end in a later one: the task says what its hash is.
"""

import logging
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline import _core
from pipeline.executors.worker import report_progress
from pipeline.shards.dealt_file import DealtWriter
from pipeline.shards.part_file import PartReader, Slice, open_part
from pipeline.storage import Location
from pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """What is taken of a part's documents, and in which order, as the core's Dealer takes it.

    key: of the seed and the epoch; documents: of the corpus; passes: over it, if it is not shuffled; copies, share: of
    each document, and of 2**64 documents that get one more; held_out: hashes below it are validation's.
    """

    shuffled: bool
    key: int
    documents: int
    passes: int
    copies: int
    share: int
    held_out: int
    validation: bool


@dataclass(frozen=True)
class PartTask:
    """A part for a worker. state, tokens: hash and ids of the document that continues in it; part_ids: its size."""

    part: Location
    fingerprint: str
    part_ids: int
    id_bytes: int
    state: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        return f"part {self.part}"


@dataclass(frozen=True, kw_only=True)
class DealTask(PartTask):
    """A part to deal out. number: of the first document; last_hash: of the document that continues in the next part.

    buckets: of training and of validation; run_bytes: memory for a run.
    """

    output: Location
    output_fingerprint: str
    selection: Selection
    number: int
    last_hash: int
    buckets: tuple[int, int]
    run_bytes: int


@dataclass(frozen=True, kw_only=True)
class SurveyTask(PartTask):
    """A part whose hashes are needed. smallest: ids of the documents with the smallest hashes that are needed."""

    smallest: int = 0


@dataclass(frozen=True)
class Survey:
    """Hashes and sizes of the two documents of a part that may go on elsewhere.

    ends: whether a document ends in the part; else `first` is all of it, and `last` too. smallest: hash and number of
    ids of documents.
    """

    ends: bool
    first: tuple[int, int]
    last: tuple[int, int]
    smallest: list[tuple[int, int]] = field(default_factory=list)


def survey_part(task: SurveyTask) -> Survey:
    """Hash the documents of a part. Runs in a worker process; raises `RunDirectoryError` for a damaged part."""
    first: tuple[int, int] | None = None
    state, at, begin = task.state, 0, -task.tokens
    smallest: list[tuple[int, int]] = []
    with open_part(task.part, task.fingerprint) as reader:
        for ids, ends in _blocks(reader):
            hashes, first_state, state = _core.hash_documents(ids, ends, task.id_bytes, at, state)
            if ends and first is None:
                first = first_state, ends[0]
            if task.smallest:
                lengths = (end - start for start, end in zip([begin, *ends], ends, strict=False))
                smallest = smallest_of([*smallest, *zip(hashes, lengths, strict=True)], task.smallest)
            begin = ends[-1] if ends else begin
            at += len(ids)
            report_progress(len(ids))
    last = state, at - (begin if first else 0)
    return Survey(first is not None, first or last, last, smallest)


def smallest_of(found: list[tuple[int, int]], tokens: int) -> list[tuple[int, int]]:
    """Return the pairs of hash and size with the smallest hashes that have this many tokens together."""
    found.sort()
    total = 0
    for index, (_, size) in enumerate(found):
        if total >= tokens:
            return found[:index]
        total += size
    return found


def deal_part(task: DealTask) -> "array[int]":
    """Write the dealt file of a part; returns the number of ids in each bucket."""
    values = vars(task.selection)
    expected = min(task.part_ids, task.run_bytes // task.id_bytes)
    dealer = _core.Dealer(
        task.id_bytes, buckets=task.buckets[0], validation_buckets=task.buckets[1], **values, expected=expected
    )
    number, at = task.number, 0
    with open_part(task.part, task.fingerprint) as reader, whole_file(task.output) as path, path.open("wb") as file:
        writer = DealtWriter(file, task.id_bytes, sum(task.buckets))
        hashes = _hashes(task, reader) if task.selection.held_out else None
        known = array("Q")
        for ids, ends in _blocks(reader):
            documents = len(ends) + ((ends[-1] if ends else at) < at + len(ids))
            while hashes is not None and len(known) < documents:
                known.extend(next(hashes))
            dealer.add(ids, ends, at, known[:documents], number)
            del known[: len(ends)]
            number += len(ends)
            at += len(ids)
            if dealer.memory() >= task.run_bytes:
                writer.add(*dealer.take())
            report_progress(len(ids))
        writer.add(*dealer.take())
        dealt = writer.finish(task.output_fingerprint)
    _log.info("%s: dealt out %d ids, %d documents end", task, at, number - task.number)
    return dealt


def _hashes(task: DealTask, reader: PartReader) -> Iterator["array[int]"]:
    """Yield the hashes of the part's documents in order, ahead of what is dealt out."""
    state, at = task.state, 0
    for ids, ends in _blocks(reader):
        hashes, _, state = _core.hash_documents(ids, ends, task.id_bytes, at, state)
        yield array("Q", hashes)
        at += len(ids)
    yield array("Q", [task.last_hash])


def _blocks(reader: PartReader) -> Iterator[tuple[memoryview, "array[int]"]]:
    return reader.blocks(Slice(0, 0, reader.part.ids, with_start=True))
