"""Naive, obviously right oracles that the fast code is raced against. Slow on purpose; used by tests only."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
GPT2_BYTES = [*PRINTABLE, *(byte for byte in range(256) if byte not in PRINTABLE)]  # token id -> byte


Words = list[tuple[list[int], int]]  # ids of tokens, and how often they come


def words_of(counter: Mapping[bytes, int]) -> Words:
    """Begin with the bytes: {b"!!": 5} -> [([0, 0], 5)]."""
    id_of = {byte: token for token, byte in enumerate(GPT2_BYTES)}
    return [([id_of[byte] for byte in pre_token], count) for pre_token, count in counter.items()]


def count_pairs(words: Words) -> Counter[tuple[int, int]]:
    """Each adjacent position counts, weighted with its word: [([1, 1, 1], 5)] -> {(1, 1): 10}."""
    pairs: Counter[tuple[int, int]] = Counter()
    for ids, count in words:
        for pair in itertools.pairwise(ids):
            pairs[pair] += count
    return pairs


def merge_word(ids: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Left to right, not overlapping: merge_word([1, 1, 1], (1, 1), 2) -> [2, 1]."""
    merged: list[int] = []
    at = 0
    while at < len(ids):
        found = tuple(ids[at : at + 2]) == pair
        merged.append(new if found else ids[at])
        at += 1 + found
    return merged


def whole_or_begun(token: bytes) -> bool:
    """Whether bytes are characters, or some bytes after them make them one character."""
    tails = (bytes(tail) for size in (1, 2, 3) for tail in itertools.product((0x80, 0x90, 0xA0), repeat=size))
    return _decodes(token) or any(_decodes(token + tail) and len((token + tail).decode()) == 1 for tail in tails)


def _decodes(token: bytes) -> bool:
    return token.decode(errors="ignore").encode() == token


@dataclass(frozen=True)
class TokenRule:
    """What a rule of merging allows, and the values that tests give it, its default first."""

    allows: Callable[[bytes, Any], bool]
    values: Sequence[Any]


TOKEN_RULES = {
    "max_token_bytes": TokenRule(lambda token, most: most is None or len(token) <= most, [None, *range(9)]),
    "whole_characters": TokenRule(lambda token, whole: not whole or whole_or_begun(token), [False, True]),
    "max_words": TokenRule(lambda token, most: most == 0 or sum(map(bool, token.split(b" "))) <= most, range(5)),
    "no_colon": TokenRule(lambda token, without: not without or b": " not in token, [False, True]),
}


def may_be_made(token: bytes, **rules: Any) -> bool:
    """Whether the rules of merging allow a token."""
    return all(TOKEN_RULES[name].allows(token, value) for name, value in rules.items())


def train_reference(
    counter: dict[bytes, int],
    n_merges: int,
    tie_break: str = "lowest-ids",
    min_frequency: int = 1,
    known: Sequence[tuple[int, int, int]] = (),
    **rules: Any,
) -> list[tuple[int, int, int]]:
    """Byte-level BPE with a full recount before each merge: (left id, right id, count) of each, in order.

    Ids: 0..255 the bytes in GPT-2's order, then the merges. known: merges that are made first, whatever their counts.
    rules: those of `may_be_made`.
    """
    token_bytes = [bytes([byte]) for byte in GPT2_BYTES]
    words = words_of(counter)
    merges: list[tuple[int, int, int]] = []
    for left, right, count in known:
        words = [(merge_word(ids, (left, right), len(token_bytes)), weight) for ids, weight in words]
        token_bytes.append(token_bytes[left] + token_bytes[right])
        merges.append((left, right, count))
    while len(merges) < n_merges:
        pairs = {
            pair: count
            for pair, count in count_pairs(words).items()
            if count >= max(min_frequency, 1) and may_be_made(token_bytes[pair[0]] + token_bytes[pair[1]], **rules)
        }
        if not pairs:
            break
        highest = max(pairs.values())
        equals = [pair for pair, count in pairs.items() if count == highest]
        greatest = max(equals, key=lambda pair: (token_bytes[pair[0]], token_bytes[pair[1]]))
        best = min(equals) if tie_break == "lowest-ids" else greatest
        joined = token_bytes[best[0]] + token_bytes[best[1]]
        assert joined not in token_bytes, "two merges never give the same bytes"
        words = [(merge_word(ids, best, len(token_bytes)), count) for ids, count in words]
        token_bytes.append(joined)
        merges.append((*best, highest))
    return merges


def joined_reference(counter: Mapping[bytes, int], merges: Sequence[tuple[int, int, int]]) -> list[int]:
    """How many occurrences each merge makes one token of."""
    words, joined = words_of(counter), list[int]()
    for rank, (left, right, _) in enumerate(merges):
        merged = [(merge_word(ids, (left, right), 256 + rank), count) for ids, count in words]
        joined.append(sum(count * (len(ids) - len(new)) for (ids, count), (new, _) in zip(words, merged, strict=True)))
        words = merged
    return joined
