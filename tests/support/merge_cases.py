"""Counters to merge, and how tests hand them to the core."""

import itertools
import random
import struct
from typing import Any

from hypothesis import strategies as st

from pipeline import _core

Counter = dict[bytes, int]
Merges = list[tuple[int, int, int]]


def arrays(counter: Counter) -> tuple[bytes, bytes, bytes]:
    """The counter in the layout that MergeEngine.add takes."""
    ends = itertools.accumulate((len(piece) for piece in counter), initial=0)
    return (
        struct.pack(f"={len(counter) + 1}q", *ends),
        b"".join(counter),
        struct.pack(f"={len(counter)}Q", *counter.values()),
    )


def engine_of(*counters: Counter) -> Any:
    engine = _core.MergeEngine()
    for counter in counters:
        engine.add(*arrays(counter))
    return engine


def merges_of(result: Any) -> Merges:
    # What was joined is the count, but for pairs of a token with itself.
    for left, right, count, joined in zip(result.left, result.right, result.counts, result.joined, strict=True):
        assert joined == count if left != right else (count + 1) // 2 <= joined <= count
    return list(zip(result.left, result.right, result.counts, strict=True))


def counters(alphabet: str, max_count: int) -> st.SearchStrategy[Counter]:
    pieces = st.text(alphabet, max_size=30).map(str.encode)
    return st.dictionaries(pieces, st.integers(0, max_count), max_size=12)


small_counters = st.one_of(
    counters("a", 5),
    counters("ab", 5),
    counters("abc", 2**40),
    counters("abcdé", 3),
    counters(" etaoin", 1000),
    counters("éèêa日本 語🙂", 9),
    st.dictionaries(
        st.lists(st.sampled_from(b"a\xc3\xa9\xe0\xa0\x80\xed\xf0\x9f\xc1"), max_size=9).map(bytes), st.integers(0, 9)
    ),
)


def natural_counter(seed: int, n_pieces: int) -> Counter:
    """Pieces with the long tail of natural text: syllables put together, counts falling as 1 / rank."""
    chance = random.Random(seed)
    syllables = ["".join(chance.choices("etaoinshrdlu äß中文字", k=chance.randint(1, 3))) for _ in range(300)]
    counter: Counter = {}
    for rank in range(1, n_pieces + 1):
        piece = " " + "".join(syllables[int(300 * chance.random() ** 3)] for _ in range(chance.randint(1, 6)))
        counter[piece.encode()] = 1 + 3000 // rank
    return counter
