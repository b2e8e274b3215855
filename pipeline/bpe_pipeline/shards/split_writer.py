"""Writing the ids of training or of validation to shards, in their order: where a shard ends, the next one begins.

Where that is depends on the ids and the ends of documents alone, not on the blocks in which they come.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.shards.blocks import NO_ENDS
from bpe_pipeline.shards.bucket import BucketFiles, Extent, OpenBucket
from bpe_pipeline.shards.packing import ShardRows

MOST_OPEN = 64  # shards that are closed, but not yet on disk


@dataclass(frozen=True)
class ClosedShard:
    """A shard that gets no more ids: its ids, and the documents that end in it. crc32: of its file, if it is known."""

    index: int
    ids: int
    documents: int
    crc32: int | None = None


@dataclass(frozen=True)
class OpenShard:
    """The state of the shard that is written. extent: of its files.

    last_end, ended: the last end of a document that is not behind the most ids of a shard, and how many ends are not;
    next_end: the first one behind. row_start: where the document starts that has not ended; documents: that ended in
    earlier shards.
    """

    index: int = 0
    extent: Extent = field(default_factory=Extent)
    last_end: int = 0
    ended: int = 0
    next_end: int | None = None
    row_start: int = 0
    documents: int = 0


class SplitWriter:
    """Writes the shards of one split. files: of a shard by its index; most: ids of a shard; most_row: of a row."""

    def __init__(
        self,
        files: Callable[[int], BucketFiles],
        rows: ShardRows,
        most: int,
        most_row: int | None = None,
    ) -> None:
        self._files, self._rows, self._most, self._most_row = files, rows, rows.shard_tokens(most), most_row
        self.index = self._documents = 0
        self._begin_shard()
        self._unsynced: list[OpenBucket] = []  # of closed shards
        self._closed: list[ClosedShard] = []

    def _begin_shard(self) -> None:
        """Forget what is known of the shard before."""
        self._shard: OpenBucket | None = None
        self._last_end = self._ended = self._row_start = 0
        self._next_end: int | None = None

    @property
    def state(self) -> OpenShard:
        """What `resume` needs."""
        extent = self._shard.extent if self._shard else Extent()
        border = self._last_end, self._ended, self._next_end
        return OpenShard(self.index, extent, *border, self._row_start, self._documents)

    def resume(self, state: OpenShard) -> bool:
        """Resume with this shard; returns whether its files are as they were written."""
        self.index, self._row_start, self._documents = state.index, state.row_start, state.documents
        self._last_end, self._ended, self._next_end = state.last_end, state.ended, state.next_end
        return state.extent == Extent() or self._opened().resume(state.extent)

    def add(self, ids: memoryview, ends: memoryview, first: int) -> None:
        """Write ids; `ends`, where documents end, are counted as `first` is, the position of the first id."""
        at, done, after = first, 0, first + len(ids)
        while True:
            shard = self._opened()
            shift = shard.extent.ids - at
            border = self._border(ends, done, shift, after + shift)
            if border is None:
                self._append(ids[at - first :], ends[done:], shift)
                return
            if border < shard.extent.ids:  # what is behind it, in which no document ends, begins the next shard
                shard.flush()
                self._close(border, self._ended)
                for rest, _ in shard.files.blocks(border, shard.extent.ids):
                    self._append(rest, NO_ENDS, 0)
                continue
            upto = bisect_right(ends, border - shift, done)
            self._append(ids[at - first : border - shift - first], ends[done:upto], shift)
            at, done = border - shift, upto
            self._close(border, shard.extent.numbers)

    def _border(self, ends: memoryview, done: int, shift: int, after: int) -> int | None:
        """Return where the shard ends; None if that is not before `after`: more documents may end there."""
        upto = bisect_right(ends, self._most - shift, done)
        if upto > done:
            self._last_end, self._ended = ends[upto - 1] + shift, self._ended + upto - done
        if after <= self._most:
            return None
        border: int | None = self._most
        if self._rows.whole:
            if self._next_end is None and upto < len(ends):
                self._next_end = ends[upto] + shift
            cut = self._rows.cut
            border = self._last_end or (self._next_end if cut is None else self._most // cut * cut)
        return border if border is not None and border < after else None

    def _opened(self) -> OpenBucket:
        if self._shard is None:
            self._shard = OpenBucket(self._files(self.index))
        return self._shard

    def _append(self, ids: memoryview, ends: memoryview, shift: int) -> None:
        shard = self._opened()
        numbers = memoryview(array("Q", (end + shift for end in ends))) if shift and shard.files.with_numbers else ends
        shard.append(ids, numbers)
        self._require_short_rows(ends, shift)
        self._row_start = ends[-1] + shift if ends else self._row_start

    def _require_short_rows(self, ends: memoryview, shift: int) -> None:
        """Raise `InputError` if a document in the ids that were appended is too long for a row."""
        most, begun = self._most_row, self._row_start - shift
        if most is None or self._opened().extent.ids - self._row_start <= most:
            return
        if any(end - before > most for before, end in pairwise([begun, *ends, self._opened().extent.ids - shift])):
            number = self._documents + self._opened().extent.numbers
            raise InputError(
                f"document {number:,} of the shards has more than {most:,} ids, the most of a row: give "
                f"--sequence-length, --shard-size {most}, or --shard-format npy"
            )

    def _close(self, ids: int, documents: int) -> None:
        shard = self._opened()
        crc32 = shard.extent.ids_crc32 if shard.extent.ids == ids else None
        self._closed.append(ClosedShard(self.index, ids, documents, crc32))
        self._unsynced.append(shard)
        self.index += 1
        self._documents += documents
        self._begin_shard()
        if len(self._unsynced) > MOST_OPEN:
            self._sync_closed()

    def _sync_closed(self) -> None:
        for shard in self._unsynced:
            shard.sync()
            shard.close()
        self._unsynced.clear()

    def sync(self) -> None:
        """Wait until all that was written is on disk."""
        self._sync_closed()
        if self._shard is not None:
            self._shard.sync()

    def close(self) -> None:
        """Close all files."""
        for shard in (*self._unsynced, *([self._shard] if self._shard else [])):
            shard.close()

    def take_closed(self) -> list[ClosedShard]:
        """Return the shards that were closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def end(self) -> int:
        """Close the last shard, the first even if it is empty; returns how many of its ids fill no row."""
        if self._shard is None and self.index:
            return 0
        shard = self._opened()
        left_out = self._rows.left_out(shard.extent.ids)
        ids, documents = shard.extent.ids - left_out, shard.extent.numbers
        shard.flush()
        if left_out:
            documents = sum(len(ends) for _, ends in shard.files.blocks(0, ids, documents))
        if ids or documents or not self.index:
            self._close(ids, documents)
        else:
            shard.close()
            self._begin_shard()
        return left_out
