"""Dealing out the documents that start in one part to buckets, by keys: what a worker process does.

A key depends on the seed and the number of the document in the corpus; validation is chosen by a hash of
the document's ids. A document that continues in the next parts is read there.
"""

import logging
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, takewhile

from bpe_pipeline import _core
from bpe_pipeline.executors import ignore
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.shards.ids_file import IdsWriter, StoredIds
from bpe_pipeline.shards.ids_in_order import Slice, documents_in, open_part
from bpe_pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """What is taken of a part's documents, and in which order, as the core's Dealer takes it.

    key: of the seed; documents: of the corpus; held_out: hashes below it are validation's.
    """

    shuffled: bool
    key: int
    documents: int
    held_out: int


@dataclass(frozen=True)
class Documents:
    """The documents that start in the first of some parts, each with its number of ids; the last ends in the last part.

    inside: whether the first part starts inside of a document.
    """

    parts: tuple[tuple[StoredIds, int], ...]
    inside: bool
    id_bytes: int

    def __str__(self) -> str:
        return f"part {self.parts[0][0].path}"

    def slices(self) -> tuple[list[tuple[StoredIds, Slice]], int]:
        """Return where they are, and how many documents end in the first part before them."""
        (part, ids), *later = self.parts
        start, before = _first_end(part, ids) if self.inside else (0, 0)
        slices = [(part, Slice(0, start, ids, with_start=not self.inside))]
        for number, (part_after, part_ids) in enumerate(later, 1):
            stop = _first_end(part_after, part_ids)[0] if number == len(later) else part_ids
            slices.append((part_after, Slice(0, 0, stop, with_start=True)))
        return slices, before


def _first_end(part: StoredIds, ids: int) -> tuple[int, int]:
    """Return the first position where documents end, and how many do; the end of the part if none does."""
    with open_part(part) as reader:
        ends = chain.from_iterable(reader.ends())
        first = next(ends, None)
        return (ids, 0) if first is None else (first, 1 + sum(1 for _ in takewhile(first.__eq__, ends)))


@dataclass(frozen=True, kw_only=True)
class DealTask(Documents):
    """Documents to deal out. number: of the first that ends in their part; buckets: of training and of validation.

    run_bytes: memory for a run.
    """

    output: StoredIds
    selection: Selection
    number: int
    buckets: tuple[int, int]
    run_bytes: int


def deal_part(task: DealTask) -> "array[int]":
    """Write the dealt file of a part; returns the number of ids in each bucket."""
    id_bytes = task.id_bytes
    slices, before = task.slices()
    expected = min(sum(slice_.stop - slice_.start for _, slice_ in slices), task.run_bytes // id_bytes)
    dealer = _core.Dealer(
        id_bytes, task.selection, buckets=task.buckets[0], validation_buckets=task.buckets[1], expected=expected
    )
    number, at, dealt = task.number + before, 0, array("Q", bytes(8 * sum(task.buckets)))
    with whole_file(task.output.path) as path, path.open("wb") as file:
        writer = IdsWriter(file, id_bytes)
        hashes = _hashes(slices, id_bytes) if task.selection.held_out else None
        known = array("Q")
        for ids, ends in documents_in(slices, report_progress):
            documents = len(ends) + ((ends[-1] if ends else at) < at + len(ids))
            while hashes is not None and len(known) < documents:
                known.extend(next(hashes))
            dealer.add(ids, ends, at, known[:documents], number)
            del known[: len(ends)]
            number += len(ends)
            at += len(ids)
            if dealer.memory() >= task.run_bytes:
                _write_run(dealer, writer, id_bytes, dealt)
        _write_run(dealer, writer, id_bytes, dealt)
        writer.finish(task.output.fingerprint, dealt=dealt.tolist())
    _log.info("%s: dealt out %d ids, %d documents end", task, at, number - task.number - before)
    return dealt


def _write_run(dealer: _core.Dealer, writer: IdsWriter, id_bytes: int, dealt: "array[int]") -> None:
    """Write a run, a block for each bucket, and add its ids to those that are dealt out."""
    entries, ids, sizes = dealer.take()
    words, data = entries.cast("B"), ids
    word = id_ = 0
    for bucket, (count, ids_in_bucket) in enumerate(zip(sizes[::2], sizes[1::2], strict=True)):
        next_word, next_id = word + 16 * count, id_ + id_bytes * ids_in_bucket
        writer.add(data[id_:next_id], words[word:next_word])
        dealt[bucket] += ids_in_bucket
        word, id_ = next_word, next_id


def _hashes(slices: list[tuple[StoredIds, Slice]], id_bytes: int) -> Iterator["array[int]"]:
    """Yield the hashes of documents in order, ahead of what is dealt out."""
    state = at = 0
    for ids, ends in documents_in(slices, ignore):
        hashes, state = _core.hash_documents(ids, ends, id_bytes, at, state)
        yield array("Q", hashes)
        at += len(ids)
    yield array("Q", _core.hash_documents(b"", array("Q", [at]), id_bytes, at, state)[0])  # of one without an end
