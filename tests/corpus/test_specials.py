"""Special tokens in bytes: leftmost, then longest, against `regex`'s alternation."""

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bpe_pipeline import _core

TOKENS = st.lists(st.binary(min_size=1, max_size=4), min_size=1, max_size=12, unique=True)
SMALL = st.lists(st.text("ab<", min_size=1, max_size=4).map(str.encode), min_size=1, max_size=12, unique=True)
MANY = [bytes([65 + i, 66 + i, 67]) for i in range(20)] + [b"ZZZ"]  # of many first bytes


def found_one_after_the_other(tokens: list[bytes], text: bytes) -> list[tuple[int, int, int]]:
    special = _core.SpecialTokens(tokens)
    found, at = [], 0
    while match := special.find(text, at):
        found.append(match)
        at = match[1]
    return found


def found_by_regex(tokens: list[bytes], text: bytes) -> list[tuple[int, int, int]]:
    pattern = b"|".join(map(regex.escape, sorted(tokens, key=len, reverse=True))) or b"(?!)"
    return [(*match.span(), tokens.index(match.group())) for match in regex.finditer(pattern, text)]


@settings(max_examples=600, deadline=None)
@given(SMALL | TOKENS, st.text("ab<c", max_size=300).map(str.encode) | st.binary(max_size=400), st.data())
@example([b"<a", b"<ab", b"b<"], b"<ab<a<" * 40, None)
@example(MANY, b"".join(b"x" * (i * 7 % 90) + token for i, token in enumerate(MANY * 3)), None)
@example([b"<|end|>"], b"".join(b"<" * padding + b"<|end|>" + b"|" * 7 for padding in range(130)), None)
@example([], b"text", None)
def test_tokens_are_found_leftmost_and_longest(tokens, text, data):
    for _ in range(data.draw(st.integers(0, 4)) if data else 0):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(tokens)) + text[at:]
    assert found_one_after_the_other(tokens, text) == found_by_regex(tokens, text)


def test_ids_in_place_of_indices_and_the_longest_at_a_position():
    tokens = _core.SpecialTokens(["<a>", "<b>"], [7, 9])
    assert (tokens.find(b"x<b>"), tokens.match_at(b"<a>", 0)) == ((1, 4, 9), (0, 3, 7))
    tokens = _core.SpecialTokens([b"<|a", b"<|a|>"])
    found = [tokens.match_at(text, at) for text, at in ((b"x<|a|>", 1), (b"x<|a|", 1), (b"x<|a|>", 0), (b"x", 5))]
    assert found == [(1, 6, 1), (1, 4, 0), None, None]
    assert tokens.longest == 5
    for reason, *arguments in (("empty", [b""]), ("twice", [b"a", b"b", b"a"]), ("one id each", ["<a>", "<b>"], [7])):
        with pytest.raises(ValueError, match=reason):
            _core.SpecialTokens(*arguments)
