"""Look-ahead of any length in the native core, against the `regex` package."""

import random
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pattern_texts import assert_cut_alike, assert_proved_cuts_change_nothing

from bpe_pipeline.pattern.ahead import LookAhead
from bpe_pipeline.pattern.automaton import Machine, Program
from bpe_pipeline.pattern.by_regex import cut_with_regex
from bpe_pipeline.pattern.compiler import compile_pattern as compile_anew
from bpe_pipeline.pattern.parse import parse
from bpe_pipeline.pattern.presets import PRESETS, superword_presets

compile_pattern = cache(compile_anew)
PATTERNS = [
    PRESETS["digits-from-right"].expression,
    superword_presets()["superbpe-digits"].expression,
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))|\P{N}",
    r"\p{L}+?(?=\p{Lu}\p{Ll}|\P{L}|$)|[^\p{L}]+",  # two letters
    r"a+(?!a*b)|.",
    r"(?s:.)(?=.*x)|y",  # the end of the line decides
    r"\w+(?=(?:ab)+c|$)|\W|\w",
    r"(?=ab|1\s)\w+|(?!\n\n)\s+",
]
TEXT = st.text(st.sampled_from("aaabbcxyAB112 \n語３\ufffd.'"), max_size=60)


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(deadline=None, max_examples=60)
@given(text=TEXT, stop=st.integers(0, 200))
def test_text_is_cut_as_regex_cuts_it_whole_and_in_parts(pattern, text, stop):
    compiled = compile_pattern(pattern)
    assert compiled.refusal is None
    assert compiled.cut(text) == list(cut_with_regex(pattern, text))
    assert_cut_alike(compiled.automaton, text.encode(), stop, (1, 70))
    assert_proved_cuts_change_nothing(compiled.automaton, text.encode())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_long_texts_with_windows_of_ascii_are_cut_as_regex_cuts_them(pattern):
    rng = random.Random(7)
    compiled = compile_pattern(pattern)
    for alphabet in ("abc  .\n", "abcAB 12345678901234567890", "0123456789", "abx1 '語é\n"):
        for _ in range(8):
            text = "".join(rng.choices(alphabet, k=rng.randint(100, 1000)))
            assert compiled.cut(text) == list(cut_with_regex(pattern, text))


def test_digits_are_grouped_from_the_right_in_a_time_that_grows_with_them_only():
    compiled = compile_pattern("digits-from-right")
    expected = ["in", " ", "1", "234", "567", " or", " ", "12", " of", " ", "123", "456"]
    assert compiled.cut("in 1234567 or 12 of 123456") == expected
    start = time.process_time()
    assert compiled.automaton.cut(b"7" * 3_000_002)[:2] == [2, 5]
    assert time.process_time() - start < 20  # hours if each pre-token looked at the rest
    data = b"a " + b"1" * 5000  # a number waits for its end
    assert compiled.automaton.cut_part(data)[1] <= 2
    assert compiled.automaton.cut_part(data + b" ")[1] == len(data)


def test_a_look_ahead_that_one_character_decides_adds_no_class():
    ahead = Machine(Program(parse("a(?=b|bb)|."))).ahead
    assert isinstance(ahead, LookAhead)
    assert ahead.variants == {}
