"""What merging and exporting will take of memory, told before they begin, and what to do where it is too much.

The sums follow the merge engine: first the pieces and the words made of them lie side by side, then the words and, phase
after phase, an index of where pairs stand. The factors were measured on prose, code, many scripts, one single piece
and random ones; tests hold that the forecast is above what is really taken, and not far above it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.values import format_bytes

_LEAST_POSITIONS = 1 << 20  # that the engine indexes at once
_ROW_BYTES = 16  # an offset and a count
_READ_BYTES = 12 << 20  # for a range of the counter that is being read
_FIXED_BYTES = 2 << 20
_POSITION_BYTES, _PAIR_BYTES, _PAIR_THREAD_BYTES, _THREAD_BYTES = 6.5, 120, 60, 6 << 20
_TOKEN_BYTES, _TOKEN_COPIES = 1400, 12  # exporting: for each token, and of its bytes

# A class of counts: the lowest, and of its pieces how many, their bytes, their slots in the engine, and the bytes of text
# that they make up.
CountClass = tuple[int, int, int, int, float]


@dataclass(frozen=True)
class CounterShape:
    """How much there is to merge. slots: in the engine, one a byte and one a piece, of pieces of two bytes or more."""

    pieces: int
    bytes: int
    slots: int


@dataclass(frozen=True)
class Merging:
    """A way to merge, and what it takes at most beside the process itself.

    streamed: the counter is read while the engine takes it in, three times, rather than held in memory.
    index_positions: of pairs that are indexed at once.
    """

    bytes: int
    threads: int
    streamed: bool
    index_positions: int


def counter_shape(classes: Sequence[CountClass], min_piece_count: int = 1) -> CounterShape:
    """The shape of what is left of a counter without the pieces that occur less often.

    A piece that is left out is still read: it counts among the pieces and their bytes, not among the slots.
    """
    return CounterShape(
        sum(pieces for _, pieces, *_ in classes),
        sum(piece_bytes for _, _, piece_bytes, *_ in classes),
        sum(slots for lowest, _, _, slots, _ in classes if lowest >= min_piece_count),
    )


def merging_bytes(shape: CounterShape, merges: int, *, threads: int, streamed: bool, index_positions: int) -> int:
    """What merging takes at most beside the process itself, the counter among it where it is not streamed."""
    threads = min(threads, 1 + shape.bytes // (4 << 20))  # more would not repay it
    words = 2 * shape.slots
    counter = _READ_BYTES if streamed else _ROW_BYTES * shape.pieces + shape.bytes
    taking_in = counter + words + words // 16
    sketch = 4 << min(max((shape.slots // 32).bit_length(), 14), 24)
    pairs = min(2 * merges + 256, 1 << 19, shape.slots)
    index = _POSITION_BYTES * min(index_positions, shape.slots) + pairs * (_PAIR_BYTES + threads * _PAIR_THREAD_BYTES)
    return int(_FIXED_BYTES + threads * _THREAD_BYTES + max(taking_in, words + sketch + index))


def ways(shape: CounterShape, merges: int, threads: int) -> Iterator[Merging]:
    """The ways to merge, the fastest first, each taking less than the one before, down to the least there is."""
    usual = max(_LEAST_POSITIONS, shape.slots // 4)
    least_bytes = None
    for streamed, positions, team in (
        (False, usual, threads),
        (True, usual, threads),
        (True, max(_LEAST_POSITIONS, usual // 4), threads),
        (True, max(_LEAST_POSITIONS, usual // 4), 1),
        (True, max(_LEAST_POSITIONS, usual // 16), 1),
    ):
        total = merging_bytes(shape, merges, threads=team, streamed=streamed, index_positions=positions)
        if least_bytes is None or total < least_bytes:
            least_bytes = total
            yield Merging(total, team, streamed, positions)


def choose(shape: CounterShape, merges: int, *, threads: int, room_bytes: int) -> Merging | None:
    """The fastest way to merge that fits the room; None where none does."""
    return next((way for way in ways(shape, merges, threads) if way.bytes <= room_bytes), None)


def least(shape: CounterShape, merges: int) -> int:
    """What merging takes where memory is short."""
    return min(way.bytes for way in ways(shape, merges, 1))


def exporting_bytes(tokens: int, token_bytes: int) -> int:
    """What the coordinator takes for the vocabulary and the files made of it."""
    return tokens * _TOKEN_BYTES + _TOKEN_COPIES * token_bytes


def too_large(
    classes: Sequence[CountClass], merges: int, *, min_piece_count: int, room_bytes: int, beside_bytes: int
) -> str:
    """What to tell where merging cannot fit: the numbers, and what can be done."""
    shape = counter_shape(classes, min_piece_count)
    needed = least(shape, merges) + beside_bytes
    text = (
        f"merging would take {format_bytes(needed)} for all processes together, and there are "
        f"{format_bytes(max(room_bytes, 0) + beside_bytes)}: the counter holds {shape.pieces:,} different pieces, "
        f"{format_bytes(shape.bytes)}; "
    )
    remedies = [f"give --memory-limit {_rounded_up(needed)}", "take a smaller corpus"]
    lowest = smallest_count(classes, merges, room_bytes)
    if lowest is not None and lowest > min_piece_count:
        dropped = [one for one in classes if one[0] < lowest]
        share = sum(one[4] for one in dropped) / sum(one[4] for one in classes)
        pieces = sum(one[1] for one in dropped)
        remedies.append(
            f"or --min-piece-count {lowest}, which leaves out {pieces:,} of {shape.pieces:,} different pieces, "
            f"{share:.2%} of the text"
        )
    else:
        remedies[-1] = "or " + remedies[-1] + " (no --min-piece-count would be enough)"
    return text + ", ".join(remedies)


def smallest_count(classes: Sequence[CountClass], merges: int, room_bytes: int) -> int | None:
    """The smallest `min_piece_count` with which merging fits the room (above 1,024: to an eighth); None: there is none."""
    low, high = 0, len(classes)
    while low < high:
        middle = (low + high) // 2
        if least(counter_shape(classes, classes[middle][0]), merges) <= room_bytes:
            high = middle
        else:
            low = middle + 1
    if low == len(classes):
        return None
    return classes[low - 1][0] + 1 if low and classes[low - 1][0] < 1024 else classes[low][0]


def _rounded_up(size: int) -> str:
    """A size to ask for, in whole MiB."""
    return f"{-(-size >> 20)}MiB"
