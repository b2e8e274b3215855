"""The generated tables against the engines that read our exports, over every code point."""

import pytest
import regex
from make_unicode import ALL_CHARACTERS as CHARACTERS
from make_unicode import matched_by_tiktoken as by_tiktoken
from make_unicode import matched_by_tokenizers as by_tokenizers

from bpe_pipeline.pattern import classes
from bpe_pipeline.pattern.by_regex import differing_characters
from bpe_pipeline.pattern.classes import CATEGORY_NAMES, LONG_NAMES, UNICODE_VERSION, fold_orbits
from bpe_pipeline.pattern.compiler import compile_pattern


def ours(name):
    found = classes.partition((classes.property_set(name),))
    ends = [*found.starts[1:], 0x110000]
    spans = zip(found.starts, ends, found.ids, strict=True)
    members = {chr(code) for start, stop, cls in spans if found.masks[0] >> cls & 1 for code in range(start, stop)}
    return members.difference(map(chr, range(0xD800, 0xE000)))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", [*sorted({*CATEGORY_NAMES} - {"Cs"}), "L", "N", "White_Space", "Han"])
def test_categories_and_properties_agree_with_the_engines(name):
    """Every code point has one category, so of these it is enough that no engine denies ours."""
    found = ours(name)
    members = "".join(sorted(found))
    assert by_tiktoken(rf"\P{{{name}}}", members) == set()
    assert by_tokenizers(rf"\P{{{name}}}", members) == set()
    if name not in CATEGORY_NAMES:
        others = "".join(character for character in CHARACTERS if character not in found)
        assert by_tiktoken(rf"\p{{{name}}}", others) == set()
        assert by_tokenizers(rf"\p{{{name}}}", others[::3]) == set()  # it takes long


def test_case_folding_agrees_with_the_engines():
    orbits = fold_orbits()
    cased = "\n".join(sorted(map(chr, orbits)))  # apart: Oniguruma folds one character to several, too
    for letter in "sSkKabizßµåΣıǆﬆⅣⓐЯ\u0345\U00010400":
        expected = {letter, *map(chr, orbits.get(ord(letter), ()))}
        assert by_tiktoken(f"(?i:[{letter}])", cased + letter) == expected
        assert by_tokenizers(f"(?i:[{letter}])", cased + letter) == expected
    assert orbits[ord("s")] == tuple(map(ord, "Ssſ"))
    assert orbits[ord("k")] == (ord("K"), ord("k"), 0x212A)


def test_version_stamp_and_word_characters_are_those_of_the_engines():
    assert by_tiktoken(r"\w") == ours("Word")
    major, minor, _ = UNICODE_VERSION.split(".")
    assert by_tiktoken(rf"\p{{Age={major}.{minor}}}", "a") == {"a"}
    with pytest.raises(ValueError, match="error parsing"):
        by_tiktoken(rf"\p{{Age={int(major) + 1}.0}}", "a")
    assert compile_pattern("gpt2").unicode_version == UNICODE_VERSION


def test_differing_characters_are_exactly_where_regex_differs():
    differing = differing_characters()
    assert {"İ"} <= differing
    assert not differing & set(map(chr, range(128)))
    for name in ("L", "N", "M", "White_Space", "Word", "Lu"):
        theirs = set(regex.findall(rf"\p{{{name}}}", CHARACTERS))
        assert theirs ^ ours(name) <= differing
    old = next(character for character in differing if regex.match(r"\p{L}", character) and character not in ours("L"))
    assert classes.category_of(ord(old)) == "Cn"


def test_property_names_may_be_spelled_loosely():
    assert classes.property_set("uppercase letter") == classes.property_set("Lu")
    assert classes.property_set("white-space") == classes.property_set("White_Space")
    assert {*LONG_NAMES} >= set(CATEGORY_NAMES)
    with pytest.raises(KeyError):
        classes.property_set("Greek")
    nothing = classes.partition(())
    assert (nothing.count, nothing.ids, list(nothing.starts)) == (1, b"\0", [0])
