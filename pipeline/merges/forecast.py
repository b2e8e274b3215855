"""What merging and exporting will take of memory, told before they begin, and what to do where it is too much.

The sums follow the merge engine. First the pieces and the words made of them lie side by side. Then come phases, each
with an index of pairs and the positions where they stand. The first one's is known from the pairs of bytes; those that
follow are of pairs that nobody has seen yet, and the rarer the pieces, the more of them there are. The factors were
measured on prose, code, many scripts, one single piece and random ones; tests hold that the forecast is above what is
really taken, and not far above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline import _core
from pipeline.base.units import format_bytes

_ROW_BYTES = 16  # an offset and a count
_READ_BYTES = 16 << 20  # for a range of the counter that is being read; half of it stays
_FIXED_BYTES, _THREAD_BYTES = 6 << 20, 3 << 20
_FIRST_BYTES, _SHORT_LIST_BYTES, _LATER_BYTES = 4.6, 8, 5.5  # of a position: in a first index of long lists, of short
_LONG_LIST = 4096
_LISTED_BYTES = 7.5  # of a position of the longest list, which is copied, and followed by others half as long
_PAIR_BYTES, _PAIR_THREAD_BYTES = 80, 165  # of a pair that may still be merged
_RARE_PAIR_BYTES, _RARE_BYTES = 1400, 16 << 20  # where pieces hardly ever come again: most pairs are met only once
_ANY_PAIR_BYTES = 2200  # where a few pieces are everything: they may be of any kind
_FEW_PIECES = 1000
_MOST_PAIRS, _SOME_PAIRS = 1 << 19, 1 << 16  # in an index: at most, and of the first ones
_LEAST_POSITIONS = 1 << 20  # that an index holds, where there are so many
_SURELY_PER_SLOT, _SURELY_PER_PAIR = 24, 2500  # more than the engine ever takes
_TOKEN_BYTES, _TOKEN_COPIES = 900, 12.5  # exporting: for each token, and of its bytes
_EXACT_COUNTS = 1024  # up to which a tally tells every count apart

# A class of counts: the lowest, and of its pieces how many, their bytes, their slots in the engine, how often they were
# found, and the bytes of text that they make up.
CountClass = tuple[int, int, int, int, float, float]


@dataclass(frozen=True)
class CounterShape:
    """How much there is to merge.

    pieces, bytes: of the counter. slots: in the engine, one a byte and one a piece, of the pieces that are merged.
    rare: what share of them, as they were found, is a different one. first_pairs, first_positions: what the first index
    holds. longest_list: positions of the pair of bytes that stands most often.
    """

    pieces: int
    bytes: int
    slots: int
    rare: float = 1.0
    first_pairs: int = 1
    first_positions: int = 0
    longest_list: int = 0


@dataclass(frozen=True)
class Merging:
    """A way to merge, and what it takes at most beside the process itself.

    streamed: the counter is read while the engine takes it in, three times, rather than held in memory.
    """

    bytes: int
    threads: int
    streamed: bool


def surely_enough(pieces: int, piece_bytes: int, merges: int) -> int:
    """More than merging ever takes, whatever the pieces are: where there is so much, nobody need look at them."""
    slots = pieces + piece_bytes
    return 2 * _FIXED_BYTES + _ROW_BYTES * pieces + _SURELY_PER_SLOT * slots + _SURELY_PER_PAIR * _pairs(merges, slots)


def shape_of(tally: _core.CountTally, merges: int, min_piece_count: int) -> CounterShape:
    """The shape of a counter that was tallied for this `min_piece_count`.

    A piece that is left out of merging is read all the same: it is not among the slots alone.
    """
    classes = tally.classes()
    kept = [one for one in classes if one[0] >= min_piece_count]
    slots = sum(one[3] for one in kept)
    first = tally.first_index(_pairs(merges, slots), max(_LEAST_POSITIONS, slots // 4))
    return CounterShape(
        sum(one[1] for one in classes),
        sum(one[2] for one in classes),
        slots,
        sum(one[1] for one in kept) / max(sum(one[4] for one in kept), 1.0),
        *first,
    )


def merging_bytes(shape: CounterShape, merges: int, *, threads: int, streamed: bool) -> int:
    """What merging takes at most beside the process itself, the counter among it where it is not streamed."""
    threads = min(threads, 1 + shape.bytes // (4 << 20))  # more would not repay it
    words = 2 * shape.slots
    counter = _READ_BYTES if streamed else _ROW_BYTES * shape.pieces + shape.bytes
    taking_in = counter + words + words // 8
    long_lists = shape.first_positions > _LONG_LIST * shape.first_pairs
    pairs = _pairs(merges, shape.slots)
    usual = _PAIR_BYTES + threads * _PAIR_THREAD_BYTES
    if shape.pieces > _FEW_PIECES:
        rare = min(2 * shape.rare, 1.0)
        most = shape.slots * (8 + 3 * pairs / _SOME_PAIRS) / max(pairs, 1)  # there are not so many pairs in little text
        each = usual + rare * min(max(0, _RARE_PAIR_BYTES - usual), most)
    else:
        rare, each = 1.0, _ANY_PAIR_BYTES
    first = (
        shape.first_positions * (_FIRST_BYTES if long_lists else _SHORT_LIST_BYTES)
        + shape.longest_list * _LISTED_BYTES
        + shape.first_pairs * each
    )
    sketch = 4 << min(max((shape.slots // 32).bit_length(), 14), 24)
    positions = min(max(_LEAST_POSITIONS, shape.slots // 4), shape.slots)
    # Where many pairs are indexed they are rare ones, and the words are shorter by then.
    middle = positions * _LATER_BYTES + min(pairs, _SOME_PAIRS) * each
    last = positions // 4 * _LATER_BYTES + pairs * each
    fixed = _FIXED_BYTES + threads * _THREAD_BYTES + rare * _RARE_BYTES + (_READ_BYTES // 2 if streamed else 0)
    return int(fixed + max(taking_in, words + sketch + max(first, middle, last)))


def _pairs(merges: int, slots: int) -> int:
    return min(2 * merges + 256, _MOST_PAIRS, slots // 8)


def ways(shape: CounterShape, merges: int, threads: int) -> list[Merging]:
    """The ways to merge, the fastest first."""
    return [
        Merging(merging_bytes(shape, merges, threads=team, streamed=streamed), team, streamed)
        for streamed, team in dict.fromkeys([(False, threads), (True, threads), (False, 1), (True, 1)])
    ]


def choose(shape: CounterShape, merges: int, *, threads: int, room_bytes: int) -> Merging | None:
    """The fastest way to merge that fits the room; None where none does."""
    return next((way for way in ways(shape, merges, threads) if way.bytes <= room_bytes), None)


def least(shape: CounterShape, merges: int) -> int:
    """What merging takes where memory is short."""
    return min(way.bytes for way in ways(shape, merges, 1))


def smallest_count(classes: Sequence[CountClass], shape: CounterShape, merges: int, room_bytes: int) -> int | None:
    """About the smallest `min_piece_count` with which merging fits the room; None where there is none.

    The pairs of what is left are taken to be distributed as those of `shape`.
    """
    for below, one in zip([None, *classes], classes, strict=False):
        kept = [other for other in classes if other[0] >= one[0]]
        slots = sum(other[3] for other in kept)
        part = slots / max(shape.slots, 1)
        smaller = CounterShape(
            shape.pieces,
            shape.bytes,
            slots,
            sum(other[1] for other in kept) / max(sum(other[4] for other in kept), 1.0),
            shape.first_pairs,
            int(shape.first_positions * part),
            int(shape.longest_list * part),
        )
        if least(smaller, merges) <= room_bytes * 0.95:
            return one[0] if below is None or below[0] >= _EXACT_COUNTS else below[0] + 1
    return None


def too_large(
    classes: Sequence[CountClass], shape: CounterShape, merges: int, *, room_bytes: int, beside_bytes: int
) -> str:
    """What to tell where merging cannot fit: the numbers, and what can be done."""
    needed = least(shape, merges) + beside_bytes
    text = (
        f"merging would take {format_bytes(needed)} for all processes together, and there are "
        f"{format_bytes(room_bytes + beside_bytes)}: the counter holds {shape.pieces:,} different pieces, "
        f"{format_bytes(shape.bytes)}; give --memory-limit {-(-needed >> 20)}MiB, take a smaller corpus, "
    )
    lowest = smallest_count(classes, shape, merges, room_bytes)
    if lowest is None:
        return text + "or a smaller --vocab-size (no --min-piece-count would be enough)"
    dropped = [one for one in classes if one[0] < lowest]
    share = sum(one[5] for one in dropped) / sum(one[5] for one in classes)
    return (
        f"{text}or --min-piece-count {lowest}, which leaves out {sum(one[1] for one in dropped):,} of "
        f"{shape.pieces:,} different pieces, {share:.2%} of the text"
    )


def exporting_bytes(tokens: int, token_bytes: int) -> int:
    """What the coordinator takes for the vocabulary and the files made of it."""
    return int(tokens * _TOKEN_BYTES + token_bytes * _TOKEN_COPIES)
