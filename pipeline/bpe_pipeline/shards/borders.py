"""Where shards start and end. That depends on the ids and the ends of documents alone, not on how parts were cut."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from bpe_pipeline.shards.ids_file import EncodedChunk
from bpe_pipeline.shards.ids_in_order import BucketReader, PartReader, Slice


@dataclass(frozen=True)
class Whole:
    """How shards end with documents.

    open: opens a part by its index; cut: the multiple of ids at which a document that is longer than a shard is cut,
    or None if it is not.
    """

    open: Callable[[int], AbstractContextManager[BucketReader | PartReader]]
    cut: int | None = 1

    def border(self, offsets: Sequence[int], start: int, limit: int) -> int:
        """Return where a shard ends that starts at `start`, and is cut at `limit` at the latest."""
        for part in reversed(_touched(offsets, start, limit)):
            with self.open(part) as reader:
                end = reader.last_end(limit - offsets[part])
            if end is not None:
                if offsets[part] + end > start:
                    return offsets[part] + end
                break
        if self.cut is not None:
            return start + (limit - start) // self.cut * self.cut
        for part in _touched(offsets, limit, offsets[-1]):
            with self.open(part) as reader:
                end = reader.next_end(limit - offsets[part])
            if end is not None:
                return offsets[part] + end
        return offsets[-1]


def plan_shards(part_ids: Sequence[int], shard_tokens: int, whole: Whole | None = None) -> list[tuple[Slice, ...]]:
    """Return the slices of each shard of parts with these numbers of ids, none larger than `shard_tokens`.

    With `whole` a shard ends with the last document that ends within it; a document longer than a shard is cut at a
    multiple of a row, or has a shard of its own. Otherwise every shard but the last has exactly `shard_tokens`.

    >>> [[(slice_.part, slice_.start, slice_.stop) for slice_ in shard] for shard in plan_shards([5, 4], 4)]
    [[(0, 0, 4)], [(0, 4, 5), (1, 0, 3)], [(1, 3, 4)]]
    """
    offsets = list(accumulate(part_ids, initial=0))
    borders = [0]
    while borders[-1] < offsets[-1]:
        start, limit = borders[-1], min(borders[-1] + shard_tokens, offsets[-1])
        if whole is not None and limit < offsets[-1]:
            limit = whole.border(offsets, start, limit)
        borders.append(limit)
    if not offsets[-1] and part_ids:
        borders.append(0)  # one shard, of documents without ids
    return [
        tuple(  # a part from `stop` on may start with the end of a document
            Slice(
                part,
                max(start - offsets[part], 0),
                min(stop, offsets[part + 1]) - offsets[part],
                with_start=offsets[part] > start or start == 0,
            )
            for part in _touched(offsets, start, stop)
        )
        for start, stop in pairwise(borders)
    ]


def _touched(offsets: Sequence[int], start: int, stop: int) -> range:
    """Return the parts that end at `start` or later, and start at `stop` or before."""
    return range(max(bisect_left(offsets, start) - 1, 0), min(bisect_right(offsets, stop), len(offsets) - 1))


def without_rest(planned: Sequence[tuple[Slice, ...]], rest: int) -> list[tuple[Slice, ...]]:
    """Return the slices of each shard without the last `rest` ids; of a shard without any left, only if it is alone.

    >>> [[(slice_.start, slice_.stop) for slice_ in shard] for shard in without_rest([(Slice(0, 0, 4, True),)], 1)]
    [[(0, 3)]]
    """
    shards = list(planned)
    while rest and shards:
        slices = []
        for slice_ in reversed(shards.pop()):
            ids = slice_.stop - slice_.start
            if rest <= ids:  # after the cut there are no ends of documents either
                slices.append(replace(slice_, stop=slice_.stop - rest))
            rest = max(rest - ids, 0)
        if any(slice_.stop > slice_.start for slice_ in slices) or not shards:
            shards.append(tuple(reversed(slices)))
            break
    return shards


def longest_document(parts: Iterable[EncodedChunk]) -> int:
    """Return the ids of the longest document, or fewer than a part looks for if all are short."""
    longest = open_ids = 0
    for part in parts:
        longest = max(longest, part.longest, open_ids + part.first)
        open_ids = part.rest if part.documents else open_ids + part.ids
    return max(longest, open_ids)
