"""Encoding against the definition, special tokens against tiktoken, decoding, and what is refused."""

import random
from array import array
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import samples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import Tensor

from bpe_pipeline import Tokenizer, _core
from bpe_pipeline.base.errors import InputError, PipelineError, UsageError
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.merges.vocabulary import Vocabulary

EOT, PAD = "<|endoftext|>", "<|pad|>"
SPECIALS = (EOT, "<|a|>", "<|a|><|b|>")
LOOKBEHIND = r"(?<=x)y|[^y]+|y"  # outside of the automaton's subset


def tokenizer(pattern: str = "gpt2", **options: Any) -> Tokenizer:
    return samples.tokenizer(pattern, SPECIALS, **options)


@st.composite
def merge_lists(draw: st.DrawFn) -> samples.Merges:
    """Lists over few letters; every second one in an order that no trainer produces."""
    tokens, merges = [b"a", b"b", b"c"], []
    for _ in range(draw(st.integers(0, 12))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        if pair not in merges:
            merges.append(pair)
            if pair[0] + pair[1] not in tokens:
                tokens.append(pair[0] + pair[1])
    return draw(st.permutations(merges)) if draw(st.booleans()) else merges


@settings(max_examples=150, deadline=None)
@given(merge_lists(), st.lists(st.text("aaabbc", min_size=1, max_size=40), min_size=1, max_size=8))
@example([(b"b", b"c"), (b"a", b"b")], ["abc"])  # the longest token that it begins with is not its first one
def test_short_pre_tokens_are_merged_by_definition(merges: samples.Merges, pre_tokens: list[str]) -> None:
    expected = [token for pre_token in pre_tokens for token in samples.naive_merge(pre_token.encode(), merges)]
    for options in ({}, {"cache_bytes": 0}):
        encoder, tokens = samples.encoder_of(merges, **options)
        for _ in range(2):  # the second time from the cache
            assert [tokens[id_] for id_ in encoder.encode_pre_tokens(pre_tokens)] == expected


@settings(max_examples=60, deadline=None)
@given(merge_lists(), st.integers(129, 400), st.integers(0, 1 << 30), st.sampled_from(["a", "ab", "aab", "aaabbc"]))
def test_long_pre_tokens_are_merged_by_definition(merges: samples.Merges, size: int, seed: int, letters: str) -> None:
    pre_token = "".join(random.Random(seed).choices(letters, k=size))
    encoder, tokens = samples.encoder_of(merges)
    assert [tokens[id_] for id_ in encoder.encode_pre_tokens([pre_token])] == samples.naive_merge(
        pre_token.encode(), merges
    )


@pytest.mark.parametrize("merges", [[(b"aa", b"aa"), (b"a", b"a")], [(b"a", b"a"), (b"aa", b"aa")]])
def test_pre_token_of_megabytes_takes_seconds(merges: samples.Merges) -> None:
    """A quadratic algorithm would not finish; the result shows that every merge was applied."""
    encoder, tokens = samples.encoder_of(merges)
    ids = encoder.encode_pre_tokens(["a" * 3_000_001])
    assert [tokens[id_] for id_ in ids[-2:]] == [b"aaaa", b"a"]
    assert len(ids) == 750_001


@pytest.mark.parametrize("pattern", [*samples.PATTERNS, LOOKBEHIND])
def test_encode_is_cutting_and_merging(pattern: str) -> None:
    ours, merges = tokenizer(pattern), samples.trained(pattern)
    assert (ours.pattern.automaton is None) == (pattern == LOOKBEHIND)
    ids = {token: id_ for id_, token in ours.vocab.items()}
    for text in samples.HARD_TEXTS[:-1] + samples.all_planes(1, 30) + ["axyyé"]:
        pre_tokens = ours.pattern.cut(text)
        expected = [ids[token] for pre_token in pre_tokens for token in samples.naive_merge(pre_token.encode(), merges)]
        assert ours.encode(text) == ours.encode(text.encode()) == ours.encode_ordinary(text) == expected
        assert ours.decode(expected) == text


def test_special_tokens_are_leftmost_longest() -> None:
    ours = tokenizer()
    a, ab = ours.special_tokens["<|a|>"], ours.special_tokens["<|a|><|b|>"]
    assert ours.encode("<|a|><|b|><|a|><|a|><|b|>") == [ab, a, ab]
    assert ours.encode("<|a|> <|b|><|a|>") == [a, *ours.encode_ordinary(" <|b|>"), a]
    assert ours.encode("a   <|a|>b") == [*ours.encode("a   "), a, *ours.encode("b")]  # white space ends a document
    assert ours.decode(ours.encode_ordinary("x<|a|>y")) == "x<|a|>y"
    assert a not in ours.encode_ordinary("x<|a|>y")
    with pytest.raises(ValueError, match=r"token '<\|a\|>'.*allowed_special"):  # the first of two
        ours.encode("b <|a|> <|endoftext|>", allowed_special=set())


@pytest.mark.parametrize("allowed", [None, "all", set(), {"<|a|>"}, {"<|a|>", "<|c|>", "<|unknown|>"}])
@pytest.mark.parametrize("disallowed", [None, "all", (), ["<|c|>"], {"ordinary"}])
@pytest.mark.parametrize("text", ["x y", "x<|a|>y", "<|c|>", "<|c|><|a|>\ud83d\ude00\ud800", "ordinary text"])
def test_allowed_and_disallowed_as_in_tiktoken(allowed: object, disallowed: object, text: str) -> None:
    ours = samples.tokenizer(specials=("<|a|>", "<|c|>"))
    given_options = {"allowed_special": allowed, "disallowed_special": disallowed}
    options: Any = {name: value for name, value in given_options.items() if value is not None}
    try:
        expected = ours.to_tiktoken().encode(text, **(options or {"allowed_special": "all"}))
    except ValueError:
        with pytest.raises(ValueError, match="allowed_special") as caught:
            ours.encode(text, **options)
        assert isinstance(caught.value, PipelineError)
    else:
        assert ours.encode(text, **options) == expected


def test_invalid_text_becomes_replacement_characters() -> None:
    ours = tokenizer()
    assert ours.decode(ours.encode(b"a\xff\xe2\x82b<|a|>\xc3")) == "a\ufffd\ufffdb<|a|>\ufffd"
    for text in (b"a\xffb", "a\ud800b", bytearray(b"a\xffb"), memoryview(b"a\xffb")):
        assert ours.encode(text) == ours.encode_batch([text])[0] == ours.encode("a\ufffdb")
    assert ours.encode("\ud83d\ude00") == ours.encode("😀")


GPT2 = samples.tokenizer()
WORDS = "the words, <|endoftext|>é"


@pytest.mark.parametrize(
    "hold",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda ids: np.array(ids, "uint16"),
        Tensor,
        lambda ids: array("I", ids),
        "torch",
    ],
)
def test_ids_in_any_container(hold: Any) -> None:
    hold = pytest.importorskip("torch").tensor if hold == "torch" else hold
    ids = GPT2.encode(WORDS)
    assert GPT2.decode(hold(ids)) == "".join(GPT2.decode_stream(hold(ids))) == WORDS
    assert GPT2.decode_batch([hold(ids), hold([])]) == [WORDS, ""]
    assert GPT2.token_byte_offsets(hold(ids))[-1][1] == len(WORDS.encode())
    assert GPT2.decode(memoryview(array("I", ids))) == WORDS
    assert GPT2.decode(list(hold(ids))) == GPT2.stream_decoder().push(*hold(ids)) == WORDS  # also tensors of one id


def test_matrix_is_a_batch() -> None:
    matrix = np.array([GPT2.encode("ab"), GPT2.encode("ba")])
    assert GPT2.decode_batch(matrix) == ["ab", "ba"]
    for ids in (matrix, 7, [[1]]):
        with pytest.raises(InputError, match="one row"):
            GPT2.decode(ids)  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", [np.array([1.0, 2.0]), Tensor(1), list(Tensor([[1]]))])  # type: ignore[list-item]
def test_ids_must_be_whole_numbers(ids: Any) -> None:
    with pytest.raises(InputError, match="whole numbers in one row"):
        GPT2.decode(ids)
    for wrong in (-1, 999):
        with pytest.raises(InputError, match=f"{wrong} is not an id of this vocabulary, whose 417 tokens"):
            list(GPT2.decode_stream([1, wrong]))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.integers(0, GPT2.vocab_size - 1), max_size=60))
def test_stream_joined_is_decode(ids: list[int]) -> None:
    for skip in (False, True):
        parts = list(GPT2.decode_stream(iter(ids), skip_special_tokens=skip))
        assert "".join(parts) == GPT2.decode(ids, skip_special_tokens=skip)
        assert all(parts)
    decoder = GPT2.stream_decoder()
    assert decoder.push(*ids[:7]) + "".join(map(decoder.push, ids[7:])) + decoder.finish() == GPT2.decode(ids)
    assert decoder.push(GPT2.encode("a")[0]) == "a"


def test_stream_never_yields_half_a_character() -> None:
    ids = [GPT2.encode(bytes([byte]).decode("latin-1"))[0] for byte in b"ab"]
    half = [next(id_ for id_, token in GPT2.vocab.items() if token == bytes([byte])) for byte in "é😀".encode()]
    assert list(GPT2.decode_stream([*half, *ids])) == ["é", "😀", "a", "b"]
    assert list(GPT2.decode_stream([half[0], *ids])) == ["\ufffda", "b"]
    assert list(GPT2.decode_stream(half[2:5])) == ["\ufffd"]
    assert (GPT2.decode_bytes(half[:1]), GPT2.decode(half[:1])) == (b"\xc3", "\ufffd")
    with pytest.raises(UnicodeDecodeError):
        GPT2.decode(half[:1], errors="strict")


def test_properties() -> None:
    ours = tokenizer(special_ids="first", pad_token=PAD)
    assert list(ours.special_tokens.items()) == [(text, id_) for id_, text in enumerate([*SPECIALS, PAD])]
    assert (len(ours.vocab), ours.vocab[0], ours.vocab[4]) == (ours.vocab_size, EOT.encode(), b"!")
    assert (ours.merges, ours.model.eos_token, ours.model.pad_token) == (samples.trained("gpt2"), EOT, PAD)
    with pytest.raises(UsageError, match="pad token"):
        Tokenizer(Vocabulary.from_merges([]), pad_token=PAD)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=14).map(str.encode), st.integers(1, 9), min_size=1, max_size=8),
    st.sampled_from(["lowest-ids", "greatest-bytes"]),
    st.none() | st.integers(2, 9),
)
def test_no_trained_token_is_unreachable(counter: dict[bytes, int], tie_break: str, longest: int | None) -> None:
    """`Model.trained` relies on this."""
    engine = _core.MergeEngine()
    offsets = array("q", accumulate(map(len, counter), initial=0))
    engine.add(offsets, b"".join(counter), array("Q", counter.values()))
    result = engine.run(40, MergeRules(tie_break=tie_break, max_token_bytes=longest))
    vocabulary = Vocabulary.from_id_pairs(result.left, result.right)
    assert Tokenizer(vocabulary).model.unreachable_tokens() == []
    assert len(vocabulary.tokens) == 256 + len(result.left)


def test_from_vocab_keeps_ids_and_appends_special_tokens() -> None:
    vocab = {1000 + byte: bytes([byte]) for byte in range(256)} | {5: b"ab", 7: EOT.encode()}
    ours = Tokenizer.from_vocab(vocab, [(b"a", b"b")], [EOT, "<|new|>", "<|newer|>"])
    assert ours.encode("ab" + EOT + "<|new|>") == [5, 7, 1256]
    assert ours.special_tokens == {EOT: 7, "<|new|>": 1256, "<|newer|>": 1257}
    assert vocab[7] == EOT.encode()
    assert Tokenizer.from_vocab(vocab, [(b"a", b"b")]).encode(EOT)[0] == 1000 + ord("<")


def test_whole_pre_tokens_are_looked_up_before_merging() -> None:
    vocabulary = Vocabulary.from_tokens(samples.tokens_by_id(b"ab", b"abc"), [(b"a", b"b")], {})
    assert Tokenizer(vocabulary).encode("abc abc") == [256, 66, 220, 256, 66]
    assert Tokenizer(vocabulary, whole_pre_tokens=True).encode("abc abc") == [257, 220, 256, 66]
    assert Tokenizer(vocabulary).model.unreachable_tokens() == [257]
