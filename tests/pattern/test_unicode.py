"""The generated tables against the engines that read our exports, over every code point."""

import pytest
import regex
from make_unicode import ALL_CHARACTERS as CHARACTERS
from make_unicode import matched_by_tiktoken as by_tiktoken
from make_unicode import matched_by_tokenizers as by_tokenizers

from pipeline.pattern import compile_pattern, differing_characters
from pipeline.pattern.classes import (
    CATEGORY_NAMES,
    LONG_NAMES,
    UNICODE_VERSION,
    category_of,
    fold_orbits,
    partition,
    property_set,
)


def ours(name):
    classes = partition((property_set(name),))
    stops = [*classes.starts[1:], 0x110000]
    members = set()
    for start, stop, cls in zip(classes.starts, stops, classes.ids, strict=True):
        if classes.masks[0] >> cls & 1:
            members.update(map(chr, range(start, stop)))
    return members.difference(map(chr, range(0xD800, 0xE000)))


@pytest.mark.parametrize("name", [name for name in sorted(set(CATEGORY_NAMES)) if name != "Cs"])
def test_categories_agree_with_the_engines(name):
    """Every code point has one category, so it is enough that no engine denies ours."""
    assert_members(name)


def assert_members(name):
    members = "".join(sorted(ours(name)))
    assert by_tiktoken(rf"\P{{{name}}}", members) == set()
    assert by_tokenizers(rf"\P{{{name}}}", members) == set()


@pytest.mark.parametrize("name", ["L", "N", "White_Space", "Han"])
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
    assert category_of(ord(old)) == "Cn"


def test_property_names_may_be_spelled_loosely():
    assert property_set("uppercase letter") == property_set("Lu")
    assert property_set("white-space") == property_set("White_Space")
    assert {*LONG_NAMES} >= set(CATEGORY_NAMES)
    with pytest.raises(KeyError):
        property_set("Greek")


def test_classes_of_ascii_come_first():
    classes = partition(())
    assert (classes.count, classes.ids, list(classes.starts)) == (1, b"\0", [0])
