"""Batches that threads share, long texts among them, and long texts alone: the ids are those of one thread."""

import gc
from array import array

import pytest
import samples
from amount import FULL
from hypothesis import given, settings
from hypothesis import strategies as st
from pattern_texts import ALPHABETS
from published import ADDED, SHAPES, pair

from bpe_pipeline import Tokenizer, _core

# Among them tokens that start inside of others, or continue what is one by itself.
SPECIALS = ("<|endoftext|>", "<|a|>", "<|a|><|b|>", "|><|", " 1", "é<", "<|1|>\r\n2", "ab", "abcab")
BEGUN = [*SPECIALS, *(token[:-1] for token in SPECIALS), "abcabc", "\ufffd", "12345", "  \n", "the words"]
MIXED = st.lists(st.one_of(st.sampled_from(BEGUN), *(st.text(alphabet, max_size=12) for alphabet in ALPHABETS)))
RUNS = st.builds(str.__mul__, st.sampled_from(["a", "é", "語", "1", " ", "ab", "abc"]), st.integers(0, 300))
MOST_ALONE = 1 << 20  # bytes of a text that one thread encodes alone


@pytest.mark.parametrize("pattern", [*samples.PATTERNS, "digits-from-right"])
def test_ids_are_the_same_for_any_turns_and_threads(pattern: str) -> None:
    encoder = Tokenizer.from_merges(samples.trained(pattern), SPECIALS, pattern=pattern).model.encoder()
    texts = st.lists(st.one_of(MIXED.map("".join), RUNS), max_size=6)

    @settings(max_examples=200 if FULL else 40, deadline=None)
    @given(texts, st.integers(1, 90), st.integers(1, 4), st.sets(st.sampled_from(SPECIALS)))
    def check(texts: list[str], turn_bytes: int, threads: int, chosen: set[str]) -> None:
        specials = _core.SpecialTokens(sorted(chosen)) if chosen else None
        expected = [encoder.encode(text, specials) for text in texts]
        assert encoder.encode_batch(texts, specials, threads, turn_bytes) == expected

    check()


LONG = {
    "lines": "the words of a line, and 12 more: 日本語 é<|a|><|b|>\n" * 40_000,
    "one run of letters": "a" * (MOST_ALONE + 1),
    "repaired": b"bytes \xff and \xe6\x97 half, \xf0\x9f\n" * 60_000,
    "lone surrogates": "\ud800 and \udc00\n" * 120_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_a_long_text_has_the_ids_of_one_thread(text: str | bytes) -> None:
    ours = samples.tokenizer("gpt2", SPECIALS)
    few: list[str | bytes] = ["a few words"] * 500
    expected = ours.encode_batch([text], num_threads=1)[0]
    assert ours.encode(text) == ours.encode_to_numpy(text).tolist() == expected
    short = ours.encode("a few words")
    for threads in (2, 5):
        assert ours.encode_batch([*few, text, *few], num_threads=threads) == [*[short] * 500, expected, *[short] * 500]


@pytest.mark.one_of(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("added", ADDED)
def test_long_texts_of_loaded_files_have_the_ids_of_one_thread(shape: str, added: str) -> None:
    """Some are prepared before they may be cut: composed, with a space in front, stripped around tokens."""
    ours = pair(shape, added)[1]
    text = "the e\u0301 low \u1100\u1161 \u0344 <|end|> 12 and <|begin|>  日本\n" * 1_500
    assert ours.encode_batch([text, "a", text], num_threads=2) == [
        ours.encode(text),
        ours.encode("a"),
        ours.encode(text),
    ]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        samples.tokenizer("gpt2").encode_batch(["the words\n" * 20_000] * 9, num_threads=2)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_a_text_that_is_refused_ends_the_batch() -> None:
    """No token stands for z; other batches are encoded before and after."""
    tokens, merges = {byte: bytes([byte]) for byte in range(256)}, array("I")
    automaton = samples.tokenizer("gpt2").pattern.automaton
    encoder = _core.Encoder(automaton, tokens, merges, merges, merges, lost_bytes=b"z", unknown=2**32 - 1)
    line = "abc ab\n" * 20_000
    for _ in range(3):
        assert encoder.encode_batch([line] * 9, None, 3) == [encoder.encode(line)] * 9
        with pytest.raises(RuntimeError, match="no token stands for the byte 0x7A"):
            encoder.encode_batch([*[line] * 7, line + "z" + line, line], None, 3)
