"""Where shards start and end in the ids of a corpus, which are the ids of all parts end to end.

That depends on the ids and the ends of documents alone, not on the parts: chunks of any size make the same shards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

LastEnd = Callable[[int, int], int | None]  # of the part with this index: the last end of a document up to a position


@dataclass(frozen=True)
class Slice:
    """The ids [start, stop) of one part. with_start: documents that end at `start` are counted here, not before."""

    part: int
    start: int
    stop: int
    with_start: bool


def plan_shards(part_ids: Sequence[int], shard_tokens: int, last_end: LastEnd | None) -> list[tuple[Slice, ...]]:
    """Return the slices of each shard of parts with these numbers of ids, none larger than `shard_tokens`.

    With `last_end` a shard ends with the last document that ends within it; a document longer than a shard is cut.
    Without it every shard but the last has exactly `shard_tokens`.

    >>> [[(one.part, one.start, one.stop) for one in shard] for shard in plan_shards([5, 4], 4, None)]
    [[(0, 0, 4)], [(0, 4, 5), (1, 0, 3)], [(1, 3, 4)]]
    """
    offsets = list(accumulate(part_ids, initial=0))
    total = offsets[-1]
    borders = [0]
    while borders[-1] < total:
        start = borders[-1]
        limit = min(start + shard_tokens, total)
        end = limit if last_end is None or limit == total else _last_end(offsets, start, limit, last_end)
        borders.append(limit if end is None else end)
    if not total and part_ids:
        borders.append(0)  # one shard, of documents without ids
    return [_slices(offsets, start, stop) for start, stop in pairwise(borders)]


def _last_end(offsets: Sequence[int], start: int, limit: int, last_end: LastEnd) -> int | None:
    """Return the last position in (start, limit] where a document ends."""
    for part in range(len(offsets) - 2, -1, -1):
        if offsets[part] > limit:
            continue
        if offsets[part + 1] < start:
            break
        end = last_end(part, limit - offsets[part])
        if end is not None:
            return end + offsets[part] if end + offsets[part] > start else None
    return None


def _slices(offsets: Sequence[int], start: int, stop: int) -> tuple[Slice, ...]:
    """Return the slices of parts in [start, stop]; a part from `stop` on may start with the end of a document."""
    return tuple(
        Slice(part, max(start - first, 0), min(stop, after) - first, with_start=first > start or start == 0)
        for part, (first, after) in enumerate(pairwise(offsets))
        if first <= stop and after >= start
    )
