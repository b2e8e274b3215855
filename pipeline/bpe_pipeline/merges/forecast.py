"""Forecast the memory that merging and exporting take, and how it fits.

The engine reads the counter partition by partition into words. Then come phases, each with an index of pairs and their
positions: the first is known from the pairs of bytes; later ones hold pairs that do not exist yet, the more the rarer
the pre-tokens are. The factors were measured; tests hold that the forecast is above what is taken, not far above it.
Compact words take half the memory and a fifth more time. Where these are too much, the engine keeps words on disk, in
any budget above a small one, and takes longer.
"""

from dataclasses import dataclass

from bpe_pipeline import _core

_WORDS_BYTES, _COMPACT_LATER_BYTES = 2.02, 1.56  # of a slot; compact ones take half, and more after a thousand merges
COMPACT_FROM = 1 << 28  # slots: memory is dearer than time
_FEW_SLOTS = 1 << 22  # that words on disk would save little of
_LANES, _LANE_SLOTS, _SMALL_LANE_SLOTS = 12_000, 128, 16  # of a thread, whose words end amid a block
_FIXED_BYTES, _THREAD_BYTES = 14 << 20, 4 << 20  # with half of the partition of the counter that was read
ENGINE_BYTES = _FIXED_BYTES + _THREAD_BYTES  # with one thread, before words and pairs
_FIRST_BYTES, _SHORT_LIST_BYTES, _LATER_BYTES = 2.6, 6, 3.6  # of a position: in a first index of long lists, of short
_LONG_LIST = 4096
_PAIR_BYTES, _PAIR_THREAD_BYTES = 80, 165  # of a pair that may still be merged
_RARE_PAIR_BYTES, _RARE_BYTES = 1300, 8 << 20  # if pre-tokens hardly ever repeat: most pairs occur only once
_ANY_PAIR_BYTES = 2400  # if there are only a few pre-tokens: they may be of any kind
_FEW_PRE_TOKENS = 1000
_MOST_PAIRS, _SOME_PAIRS = 1 << 19, 1 << 16  # in an index: at most, and of the first ones, as many as pairs of bytes
_LEAST_POSITIONS = 1 << 20  # that an index holds, if there are that many
_TOKEN_TABLE_BYTES, _TOKEN_THREAD_BYTES = 120, 80  # of each token, in the engine's tables
# Passes over words on disk. A phase that takes its words to memory covers counts by how much of all words fits; a pass
# that merges on the way makes the merges of pairs whose words do not fit, the fewer the less memory its counts have.
_PHASES, _STREAMED_PASSES = 18, 12
_LEAST_RESIDENT_BYTES, _SHARED_RESIDENT_BYTES = 8 << 20, 12 << 20  # of the only thread, of each of several
_TOKEN_BYTES, _TOKEN_COPIES = 900, 12.5  # exporting: for each token, and of its bytes
_USUAL_TOKEN_BYTES = 12

# A class of counts: the lowest, and of its pre-tokens how many, their bytes, their slots in the engine, how often they
# occur, and the bytes of text that they make up.
CountClass = tuple[int, int, int, int, float, float]


@dataclass(frozen=True)
class CounterShape:
    """The size of what is merged."""

    pre_tokens: int  # of the counter, like `bytes`
    bytes: int
    slots: int  # in the engine, one a byte and one a pre-token, of the pre-tokens that are merged
    rare: float = 1.0  # the fraction of their occurrences that are different pre-tokens
    first_pairs: int = 1  # in the first index
    first_positions: int = 0
    longest_list: int = 0  # positions of the most frequent pair of bytes
    text: bool = False  # which may be held in compact words; then what their first index holds:
    compact_pairs: int = 1
    compact_positions: int = 0


@dataclass(frozen=True)
class Merging:
    """A way to merge, and the most memory that it takes on top of the process itself."""

    bytes: int
    threads: int
    compact: bool = False  # words in half the memory
    resident_bytes: int = 0  # for words, lists and pairs, if words that a phase does not need are on disk
    passes: int = 0  # over words on disk


def surely_enough(pre_tokens: int, pre_token_bytes: int, merges: int, *, threads: int) -> int:
    """Return the forecast for the worst pre-tokens of this number and size; if it fits, their shape need not be
    known."""
    slots = pre_tokens + pre_token_bytes
    worst = CounterShape(pre_tokens, pre_token_bytes, slots, 1.0, max(_pairs(merges, slots), _SOME_PAIRS), slots, slots)
    return merging_bytes(worst, merges, threads=threads)


def shape_of(tally: _core.CountTally, merges: int, min_pre_token_count: int) -> CounterShape:
    """Return the shape of a counter that was tallied for this `min_pre_token_count`: rarer pre-tokens have no slots."""
    classes = tally.classes()
    merged = [one for one in classes if one[0] >= min_pre_token_count]
    slots, rare = sum(one[3] for one in merged), sum(one[1] for one in merged) / max(sum(one[4] for one in merged), 1.0)
    pairs, whole_pre_tokens = _pairs(merges, slots), (sum(one[1] for one in classes), sum(one[2] for one in classes))
    first = tally.first_index(pairs, max(_LEAST_POSITIONS, slots // 4))
    compact = tally.first_index(pairs, max(_LEAST_POSITIONS, slots // 6))
    return CounterShape(*whole_pre_tokens, slots, rare, *first, tally.is_text(), *compact[:2])


def merging_bytes(shape: CounterShape, merges: int, *, threads: int, compact: bool = False) -> int:
    """Return the most that merging takes on top of the process itself."""
    threads = min(threads, 1 + (shape.bytes + shape.pre_tokens) // (4 << 20))  # more do not pay
    pairs = _pairs(merges, shape.slots)
    usual = _PAIR_BYTES + threads * _PAIR_THREAD_BYTES
    if shape.pre_tokens > _FEW_PRE_TOKENS:
        rare = min(2 * shape.rare, 1.0)
        most = shape.slots * (8 + 3 * pairs / _SOME_PAIRS) / max(pairs, 1)  # little text has fewer pairs
        each = usual + rare * min(max(0, _RARE_PAIR_BYTES - usual), most)
    else:
        rare, each = 1.0, _ANY_PAIR_BYTES
    first_pairs = shape.compact_pairs if compact else shape.first_pairs
    first_positions = shape.compact_positions if compact else shape.first_positions
    first = (
        first_positions * (_FIRST_BYTES if first_positions > _LONG_LIST * first_pairs else _SHORT_LIST_BYTES)
        + shape.longest_list * _FIRST_BYTES  # which is followed by others half as long
        + first_pairs * each
    )
    later_slots = _COMPACT_LATER_BYTES / 2 * shape.slots if compact else shape.slots
    positions = min(max(_LEAST_POSITIONS, later_slots / (6 if compact else 4)), shape.slots)
    # If many pairs are indexed they are rare ones, and the words are shorter by then.
    later = max(
        positions * _LATER_BYTES + min(pairs, _SOME_PAIRS) * each,
        positions / 4 * _LATER_BYTES + pairs * each,
    )
    words, later_words = (_WORDS_BYTES / 2, _COMPACT_LATER_BYTES) if compact else (_WORDS_BYTES, _WORDS_BYTES)
    most_words = shape.slots * words + max(first, shape.slots * (later_words - words) + later)
    lane_slots = _SMALL_LANE_SLOTS if shape.slots // threads < _FEW_SLOTS else _LANE_SLOTS
    lanes = threads * min(shape.pre_tokens, _LANES) * lane_slots * words
    return int(
        _FIXED_BYTES
        + rare * _RARE_BYTES
        + threads * _THREAD_BYTES
        + lanes
        + 4 * _sketch_counters(shape.slots)
        + most_words
    )


def _pairs(merges: int, slots: int) -> int:
    return min(2 * merges + 256, _MOST_PAIRS, slots // 8)


def choose(shape: CounterShape, merges: int, *, threads: int, budget_bytes: int) -> Merging | None:
    """Return the fastest way to merge that fits the budget, or None if it is below the least."""
    for compact, team in ((False, threads), (True, threads), (False, 1), (True, 1)):
        if (compact and not shape.text) or (shape.text and not compact and shape.slots >= COMPACT_FROM):
            continue
        needed = merging_bytes(shape, merges, threads=team, compact=compact)
        if needed <= budget_bytes:
            return Merging(needed, team, compact)
    for team in range(threads, 0, -1):
        resident = budget_bytes - _beside_words(merges, team)  # besides what reading takes: words come after it
        enough = resident >= (_SHARED_RESIDENT_BYTES * team if team > 1 else _LEAST_RESIDENT_BYTES)
        if enough and not _hopeless(shape, merges, resident):
            return from_disk(shape, budget_bytes, team, resident)
    return None


def from_disk(shape: CounterShape, budget_bytes: int, threads: int, resident_bytes: int) -> Merging:
    """Return how to merge with words on disk: the fewer of them fit in memory, the more often these are read."""
    passes = passes_over_disk(resident_bytes / max(2 * shape.slots, 1))
    return Merging(budget_bytes, threads, False, resident_bytes, passes=round(passes))


def passes_over_disk(fitting: float) -> float:
    """Return the passes over words on disk if this share of them fits in memory."""
    return _PHASES / fitting + _STREAMED_PASSES / fitting**2


def _sketch_counters(slots: int) -> int:
    return int(1 << min(max((slots // 32).bit_length(), 14), 24))


def _beside_words(merges: int, threads: int) -> int:
    """Bytes that merging from disk takes besides words, their lists and pairs."""
    of_tokens = (merges + 256) * (_TOKEN_TABLE_BYTES + threads * _TOKEN_THREAD_BYTES)
    return _FIXED_BYTES + threads * _THREAD_BYTES + of_tokens  # a thread writes words, and counts pairs


def _hopeless(shape: CounterShape, merges: int, resident_bytes: int) -> bool:
    """Whether pairs are what does not fit: words on disk leave no memory for them, and few merges are made a pass."""
    return shape.slots < _FEW_SLOTS and _pairs(merges, shape.slots) > resident_bytes // _RARE_PAIR_BYTES


def least(merges: int, shape: CounterShape | None = None) -> int:
    """Return the least that merging takes on top of the process itself; without a shape, of a large counter."""
    if shape is not None and _hopeless(shape, merges, _LEAST_RESIDENT_BYTES):
        return whole(shape, merges)
    return _beside_words(merges, 1) + _LEAST_RESIDENT_BYTES


def later_bytes(merges: int) -> int:
    """Return what a command takes that merges and exports a large counter, on top of the process itself."""
    tokens = merges + 256
    return max(least(merges), exporting_bytes(tokens, tokens * _USUAL_TOKEN_BYTES))


def whole(shape: CounterShape, merges: int) -> int:
    """Return what merging takes with all words in memory and everything else as small as it can be."""
    return merging_bytes(shape, merges, threads=1, compact=shape.text)


def exporting_bytes(tokens: int, token_bytes: int) -> int:
    """Return what the coordinator takes for the vocabulary and the files made of it."""
    return int(tokens * _TOKEN_BYTES + token_bytes * _TOKEN_COPIES)
