"""Every method of encoding, compared with `encode`, for loaded files that prepare text or cut it in several steps."""

import re
from collections.abc import Iterator
from typing import Any, AnyStr

import numpy as np
import peers
import pytest
import samples
from amount import FULL
from hypothesis import given, settings
from hypothesis import strategies as st
from published import ADDED, BOS, DEEPSEEK, EOT, SHAPES, TEXTS, pair

from bpe_pipeline import Tokenizer, _core
from bpe_pipeline.base.errors import InputError, SpecialTokenError
from bpe_pipeline.pattern.compiled import in_sequence
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.tokenizer.encode import TextEncoder

SPECIALS = ("<|endoftext|>", "<|a|>", "<|a|><|b|>", "é<", "<|1|>", "<|1|>\r\n2", "é<1")
LOOKBEHIND = r"(?<=x)y|[^y]+|y"  # only the `regex` package runs it
# What makes trouble: all planes, lone halves of pairs, specials and their parts, runs, words that have tokens.
CHARACTERS = st.one_of(
    st.characters(),
    st.integers(0xD800, 0xDFFF).map(chr),
    st.sampled_from(["\x00", " ", "\n", "'", "\r\n", "\u3000", "\u0085", "<|", "|>", *SPECIALS, *peers.WORDS]),
)
HALVES = st.lists(st.one_of(TEXTS, CHARACTERS), max_size=30).map("".join)
STEPS = ["line ends", "coder"]  # shapes
SIZES = st.lists(st.integers(0, 9), max_size=12)
CHOICES: list[dict[str, Any]] = [{}, {"allowed_special": "all"}, {"disallowed_special": ()}]
CHOICES += [{"allowed_special": {EOT}, "disallowed_special": ()}]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpe_pipeline.tokenizer.encode._BLOCK_BYTES", 1)


def in_blocks(text: AnyStr, sizes: list[int]) -> Iterator[AnyStr]:
    at = 0
    for size in sizes:
        yield text[at : at + size]
        at += size
    yield text[at:]


def agree(ours: Tokenizer, text: str, sizes: list[int], choice: dict[str, Any]) -> None:
    expected = ours.encode(text, **choice)
    valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    data = text.encode("utf-8", "surrogatepass")
    assert ours.encode(valid, **choice) == ours.encode(valid.encode(), **choice) == expected
    assert list(ours.encode_iterable(in_blocks(text, sizes), **choice)) == expected, (text, sizes)
    invalid = ours.encode(data.decode(errors="replace"), **choice)
    assert list(ours.encode_iterable(in_blocks(data, sizes), **choice)) == ours.encode(data, **choice) == invalid
    assert ours.count_tokens(text, **choice) == len(expected)
    numbers = ours.encode_to_numpy(text, **choice)
    assert (numbers.dtype, numbers.tolist()) == (np.int64, expected)
    assert ours.encode_batch([text, "", text], num_threads=2, **choice) == [expected, ours.encode(""), expected]
    written = ours.decode_bytes(expected)
    offsets = ours.token_byte_offsets(numbers)
    assert [written[start:end] for start, end in offsets] == [ours.decode_bytes([id_]) for id_ in expected]
    ordinary = ours.encode_ordinary(text)
    assert ours.encode_ordinary_batch([text, EOT]) == [ordinary, ours.encode_ordinary(EOT)]
    assert ordinary == ours.encode(text, disallowed_special=(), add_special_tokens=False)


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=250, deadline=None)
@given(st.sampled_from(SHAPES), st.sampled_from(list(ADDED)), HALVES, SIZES, st.sampled_from(CHOICES))
def test_every_method_has_the_ids_of_encode(shape, added, text, sizes, choice):
    agree(pair(shape, added)[1], text, sizes, choice)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(SHAPES), st.sampled_from(["plain", "mixed"]), TEXTS)
def test_text_between_special_tokens_is_that_of_tokenizers(shape: str, added: str, text: str) -> None:
    theirs, ours = pair(shape, added)
    special = {id_: token.content for id_, token in theirs.get_added_tokens_decoder().items() if token.special}
    found = list(TextEncoder(ours.model).text_stretches(text))
    ids = theirs.encode(text, add_special_tokens=False).ids
    assert [id_ for ids, _ in found for id_ in ids] == [id_ for id_ in ids if id_ not in special]
    if added == "plain":  # no other token is searched before the text is normalized
        parts = re.split("|".join(sorted(map(re.escape, special.values()), key=len, reverse=True)), text)
        expected = [theirs.normalizer.normalize_str(part) if theirs.normalizer else part for part in parts]
        assert [data.decode() for _, data in found] == [part for part in expected if part]


@pytest.mark.one_of(2)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("pattern", [*samples.PATTERNS, LOOKBEHIND, *STEPS])
def test_every_method_of_trained_tokenizers_has_the_ids_of_encode(pattern: str) -> None:
    """Special tokens are found before any step of a pattern cuts."""
    merges = samples.trained(pattern if pattern in samples.PATTERNS else "none")
    steps = pair(pattern, "plain")[1].pattern if pattern in STEPS else pattern
    ours = Tokenizer.from_merges(merges, SPECIALS, pattern=steps)

    @settings(max_examples=120 if FULL else 30, deadline=None)
    @given(HALVES, SIZES)
    def check(text: str, sizes: list[int]) -> None:
        agree(ours, text, sizes, {})
        valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert ours.decode(ours.encode(text)) == valid

    check()
    for size in range(1, 5):
        agree(ours, "<|1|>\r\n2é<1<|1\r\n2漢 <|1|>a<|1|><|1|>\r\n", [size] * 40, {})


def methods(ours: Tokenizer) -> list[Any]:
    """What takes a text, and which special tokens it may hold."""
    return [
        *(ours.encode, ours.count_tokens, ours.encode_to_numpy),
        lambda text, **choice: ours.encode_batch([text], **choice),
        lambda text, **choice: list(ours.encode_iterable(iter(text), **choice)),
    ]


@pytest.mark.parametrize("shape", ["gpt2", "qwen2", "deepseek", "coder", "space in front"])
def test_every_method_refuses_disallowed_special_tokens(shape: str) -> None:
    ours = pair(shape, "mixed")[1]
    for way in methods(ours):
        with pytest.raises(SpecialTokenError, match="disallowed special token"):
            way(f"a {EOT} b", allowed_special={BOS})
    assert ours.encode_to_numpy("12 é low", dtype="uint16").dtype == np.uint16


@pytest.mark.parametrize("shape", ["gpt2", "qwen2", "deepseek", "coder"])
def test_blocks_are_read_only_as_needed(shape: str) -> None:
    """NFC and patterns of several steps do not need the end of the text."""
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "a line of words, e\u0301 12\n"

    ours = pair(shape, "plain")[1]
    ids = ours.encode_iterable(endless())
    assert [next(ids) for _ in range(10)] == ours.encode("a line of words, e\u0301 12\n" * 10)[:10]
    assert taken < 10_000


@pytest.mark.parametrize("shape", ["qwen2", "deepseek", "coder"])
def test_long_texts_in_large_blocks(shape: str) -> None:
    theirs, ours = pair(shape, "plain")
    text = "".join(samples.all_planes(7, 400)) + f"{EOT}" + "low e\u0301\u0316 12345 漢字\n" * 4000 + "a" * 33_333
    expected = theirs.encode(text).ids
    for size in (999, 23_001, 1 << 20):
        assert list(ours.encode_iterable(in_blocks(text, [size] * (len(text) // size)))) == expected
    assert ours.encode_to_numpy(text).tolist() == expected
    assert ours.encode_batch([text] * 3, num_threads=2) == [expected] * 3


@pytest.mark.usefixtures("small_blocks")
def test_too_long_pre_token_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("a pre-token of 7 bytes is beyond the limit")

    class Refusing:
        encode = encode_part = count = encode_batch = encode_to_buffer = encode_cut = encode_pre_tokens = refuse

    listed = [Tokenizer.from_model(pair(shape, "plain")[1].model) for shape in ("qwen2", "deepseek", "coder")]
    for ours in [*listed, *(Tokenizer.from_merges([], pattern=pattern) for pattern in ("gpt2", LOOKBEHIND))]:
        monkeypatch.setattr(ours._encoder, "_native", Refusing())
        for call in methods(ours):
            with pytest.raises(InputError, match="cannot be encoded: a pre-token of 7 bytes"):
                call("text")


def test_sequence_knows_which_pre_tokens_are_final() -> None:
    pattern: Any = in_sequence(list(map(compile_pattern, DEEPSEEK)))
    data = ("low 12345 漢字 the  \n x" * 3).encode()
    for size in range(len(data) + 1):
        part = data[:size].decode(errors="ignore").encode()
        ends, rest = pattern.ends_of_part(part)
        assert rest == (ends[-1] if ends else 0)
        for later in ("", "1", "x", " ", "\n", "é", "漢"):
            assert pattern.ends(part + later.encode())[: len(ends)] == ends
    assert isinstance(pattern.steps[0].automaton, _core.Automaton)
