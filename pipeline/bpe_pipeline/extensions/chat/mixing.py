"""The order of the rows of one or several data sets: samples, mixing, the split, packing, and where shards are cut.

Every choice is made as LLaMA-Factory makes it, with NumPy's generators, so the same seed gives the same rows. Only
numbers and lengths of rows are needed; a row is the number that it has when the data sets follow one another. A set is
packed as one batch before any of its rows is written; with `compatible` as batches of 1,000 rows.
"""

import math
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError, refuse_if
from bpe_pipeline.extensions.chat.options import ChatOptions

_DRAWN_AT_ONCE = 1000  # the generator's numbers depend on it
_BATCH_ROWS = 1000
_SUM_DIFFERS = 1e-8  # NumPy refuses a little more
Samples = Sequence[int | None]  # rows to draw of each data set, if not all as they are


def check_mixing(options: ChatOptions, sets: int) -> None:
    """Raise `UsageError` for probabilities that do not fit the strategy or that many data sets."""
    shares = options.interleave_probs or ()
    used = shares and sets > 1
    refuse_if(
        (
            shares and options.mix_strategy == "concat",
            "--interleave-probs is for an interleaving --mix-strategy: choose one, or leave it out",
        ),
        (
            used and len(shares) != sets,
            f"--interleave-probs has {len(shares)} numbers for {sets} data sets: give each one",
        ),
        (
            used and abs(math.fsum(shares) - 1) > _SUM_DIFFERS,
            f"--interleave-probs {','.join(map(str, shares))}: give numbers with the sum 1",
        ),
    )


def order_rows(sizes: Sequence[int], options: ChatOptions, wanted: Samples = ()) -> "array[int]":
    """Return the rows in order, of data sets with these numbers of rows."""
    sets, strategy = _samples(sizes, options, wanted or (None,) * len(sizes)), options.mix_strategy
    if len(sets) == 1:
        return sets[0]
    if strategy == "concat":
        return array("Q", (row for rows in sets for row in rows))
    if empty := [number for number, rows in enumerate(sets, 1) if not rows]:
        raise InputError(f"data set {empty[0]} has no rows, so nothing can be interleaved with it: leave it out")
    enough: Callable[[list[bool]], bool] = any if strategy == "interleave_under" else all
    sources = _drawn(len(sets), options)
    if not options.interleave_probs:
        lengths = [len(rows) for rows in sets]
        rounds = min(lengths) if strategy == "interleave_under" else max(lengths)
        sources, enough = (source for _ in range(rounds) for source in range(len(sets))), lambda _: False
    return array("Q", _taken(sets, sources, enough, once=strategy == "interleave_once"))


def split_at_random(order: "array[int]", options: ChatOptions) -> "tuple[array[int], array[int]]":
    """Return the rows for training and for validation in a random order, as `val_size` asks for."""
    count, share = len(order), options.val_size
    held = int(share) if share > 1 else -int(-share * count // 1)
    if not 0 < held < count:
        raise UsageError(
            f"val_size {share:g} leaves {max(count - held, 0):,} of {count:,} rows for training: give a "
            "smaller number of rows, or a share below 1"
        )
    permutation = _numpy().random.default_rng(options.seed).permutation(count).tolist()
    rows = array("Q", (order[place] for place in permutation))
    return rows[held:], rows[:held]


def _samples(sizes: Sequence[int], options: ChatOptions, wanted: Samples) -> "list[array[int]]":
    """Return the rows that are taken of each data set, in order."""
    samples = []
    generator = _numpy().random.RandomState(options.seed % (1 << 32)) if any(wanted) else None
    for first, size, number in zip(accumulate(sizes, initial=0), sizes, wanted, strict=False):
        rows = array("Q", range(first, first + size))
        if number is not None and generator is not None and size:
            places = generator.permutation(size)[:number].tolist()
            if number > size:
                places += generator.choice(size, number - size).tolist()
            rows = array("Q", (first + place for place in places))
        samples.append(rows[: options.max_samples])
    return samples


def _taken(
    sets: "list[array[int]]", sources: Iterable[int], enough: Callable[[list[bool]], bool], *, once: bool
) -> Iterator[int]:
    """Yield rows of the sets in the order of the sources, until that is enough; a set starts over unless `once`."""
    places, exhausted = [0] * len(sets), [False] * len(sets)
    for source in sources:
        if enough(exhausted):
            break
        if once and exhausted[source]:
            continue
        yield sets[source][places[source]]
        places[source] += 1
        if places[source] == len(sets[source]):
            places[source], exhausted[source] = 0, True


def _drawn(sets: int, options: ChatOptions) -> Iterator[int]:
    """Yield sets at random, each with its probability."""
    generator = _numpy().random.default_rng(options.seed)
    while True:
        yield from generator.choice(sets, size=_DRAWN_AT_ONCE, p=options.interleave_probs).tolist()


def _numpy() -> Any:
    """Import NumPy, whose generators decide."""
    try:
        import numpy as np
    except ImportError:
        raise UsageError("samples, probabilities and splits are drawn by NumPy: pip install numpy") from None
    return np


def assemble(
    order: "array[int]", lengths: Sequence[int], capacity: int | None, *, compatible: bool
) -> "tuple[array[int], array[int]]":
    """Return the rows in an order as bags, and where each ends among them. capacity: of a bag; None: one row each."""
    rows, ends = array("Q"), array("Q")
    if capacity is None:
        rows.extend(row for row in order if lengths[row])
        return rows, array("Q", range(1, len(rows) + 1))
    step = _BATCH_ROWS if compatible else max(len(order), 1)
    for start in range(0, len(order), step):
        batch = order[start : start + step]
        packed, stops = pack_rows([lengths[row] for row in batch], capacity)
        ends.extend(len(rows) + stop for stop in stops)
        rows.extend(batch[place] for place in packed)
    return rows, ends


def pack_rows(lengths: Sequence[int], capacity: int) -> "tuple[array[int], array[int]]":
    """Return the rows of all bags, and where each bag ends among them: LLaMA-Factory's greedy knapsack.

    A bag takes the longest row that fits again and again, of equally long ones the last, until none fits. Rows that
    are longer than a bag are left out.

    >>> rows, ends = pack_rows([7, 3, 4, 2, 5], 9)
    >>> list(rows), list(ends)
    ([0, 3, 4, 2, 1], [2, 4, 5])
    """
    waiting: dict[int, array[int]] = defaultdict(lambda: array("Q"))  # the rows of each length
    for row, length in enumerate(lengths):
        if 0 < length <= capacity:
            waiting[length].append(row)
    left, rows, ends = sorted(waiting), array("Q"), array("Q")
    while left:
        fits = capacity
        while at := bisect_right(left, fits):
            length = left[at - 1]
            rows.append(waiting[length].pop())
            fits -= length
            if not waiting[length]:
                del left[at - 1]
        ends.append(len(rows))
    return rows, ends


def cut(
    rows: "array[int]", ends: "array[int]", sizes: Iterable[int], shard_tokens: int
) -> "Iterator[tuple[array[int], array[int]]]":
    """Yield the rows of each shard, and where bags of these sizes end among them: as many as `shard_tokens` holds."""
    first = first_row = tokens = 0  # the shard's first bag and row, and its ids
    for bag, size in enumerate(sizes):
        if bag > first and tokens + size > shard_tokens:
            stop = ends[bag - 1]
            yield rows[first_row:stop], array("Q", (end - first_row for end in ends[first:bag]))
            first, first_row, tokens = bag, stop, 0
        tokens += size
    yield rows[first_row:], array("Q", (end - first_row for end in ends[first:]))
