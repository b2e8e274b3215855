"""The generated tables against the engines that read our exports, over every code point."""

import pytest
import regex
import tiktoken
from tokenizers import Regex, pre_tokenizers

from pipeline.pattern import compile_pattern, differing_characters
from pipeline.pattern.classes import (
    CATEGORIES,
    LONG_NAMES,
    UNICODE_VERSION,
    CharSet,
    category_of,
    fold_orbits,
    partition,
    property_item,
)

CHARACTERS = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def ours(name):
    classes = partition((CharSet((property_item(name, negated=False),)),))
    stops = [*classes.starts[1:], 0x110000]
    members = set()
    for start, stop, cls in zip(classes.starts, stops, classes.ids, strict=True):
        if classes.masks[0] >> cls & 1:
            members.update(map(chr, range(start, stop)))
    return members.difference(map(chr, range(0xD800, 0xE000)))


def by_tiktoken(expression, text=CHARACTERS):
    ranks = {bytes([value]): value for value in range(256)}
    encoding = tiktoken.Encoding("t", pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    return set(bytes(encoding.encode_ordinary(text)).decode())


def by_tokenizers(expression, text=CHARACTERS):
    split = pre_tokenizers.Split(Regex(expression), behavior="removed")
    parts = [text[start : start + 1000] for start in range(0, len(text), 1000)]  # long ones take it very long
    left = {character for part in parts for piece, _ in split.pre_tokenize_str(part) for character in piece}
    return set(text) - left


@pytest.mark.parametrize("name", [name for name in CATEGORIES if name != "Cs"])
def test_categories_agree_with_the_engines(name):
    """Every code point has one category, so it is enough that no engine denies ours."""
    assert_members(name)


def assert_members(name):
    members = "".join(filter(ours(name).__contains__, CHARACTERS))
    assert by_tiktoken(rf"\P{{{name}}}", members) == set()
    assert by_tokenizers(rf"\P{{{name}}}", members) == set()


@pytest.mark.parametrize("name", ["L", "N", "White_Space"])
def test_properties_agree_with_the_engines(name):
    assert_members(name)
    members = ours(name)
    others = "".join(character for character in CHARACTERS if character not in members)
    assert by_tiktoken(rf"\p{{{name}}}", others) == set()
    assert by_tokenizers(rf"\p{{{name}}}", others[::3]) == set()  # it takes long


def test_word_characters_agree_with_tiktoken():
    assert by_tiktoken(r"\w") == ours("Word")


def test_case_folding_agrees_with_the_engines():
    cased = "\n".join(sorted(map(chr, fold_orbits())))  # apart: Oniguruma folds one character to several, too
    for letter in "sSkKabizßµåΣıǆﬆⅣⓐЯ\u0345\U00010400":
        orbit = set(map(chr, fold_orbits().get(ord(letter), ())))
        expression = f"(?i:[{letter}])"
        assert (
            by_tiktoken(expression, cased + letter)
            == by_tokenizers(expression, cased + letter)
            == orbit | ({letter} - orbit)
        )
    assert fold_orbits()[ord("s")] == tuple(map(ord, "Ssſ"))
    assert fold_orbits()[ord("k")] == (ord("K"), ord("k"), 0x212A)


def test_version_stamp_is_that_of_the_engines():
    major, minor, _ = UNICODE_VERSION.split(".")
    assert by_tiktoken(rf"\p{{Age={major}.{minor}}}", "a") == {"a"}
    with pytest.raises(ValueError, match="error parsing"):
        by_tiktoken(rf"\p{{Age={int(major) + 1}.0}}", "a")
    assert compile_pattern("gpt2").unicode_version == UNICODE_VERSION


def test_white_space_has_25_characters():
    assert len(ours("White_Space")) == 25
    assert not ours("White_Space") & set("\u180e\u200b\ufeff\x1c\x1d\x1e\x1f")
    assert "\u0085" in ours("White_Space")


def test_differing_characters_are_exactly_where_regex_differs():
    differing = differing_characters()
    assert {"İ"} <= differing
    assert not differing & set(map(chr, range(128)))
    for name in ("L", "N", "M", "White_Space", "Word", "Lu"):
        theirs = set(regex.findall(rf"\p{{{name}}}", CHARACTERS))
        assert theirs ^ ours(name) <= differing
    old = next(character for character in differing if regex.match(r"\p{L}", character) and character not in ours("L"))
    assert category_of(ord(old)) == CATEGORIES.index("Cn")


def test_property_names_may_be_spelled_loosely():
    assert property_item("uppercase letter", negated=False) == property_item("Lu", negated=False)
    assert property_item("white-space", negated=True) == property_item("White_Space", negated=True)
    assert {*LONG_NAMES} >= set(CATEGORIES)
    with pytest.raises(KeyError):
        property_item("Han", negated=False)


def test_classes_of_ascii_come_first():
    classes = partition(())
    assert (classes.count, classes.ids, list(classes.starts)) == (1, b"\0", [0])
