"""Explanations against encoding, the definition of merging, and tokenizers."""

import functools
import json

import published
import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import Tokenizer, explain
from pipeline.tokenizer.explain import Explainer, Explanation

SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>"]
TEXTS = st.one_of(st.text(), st.text(" \n\t'theofandr0é你<|a>"), st.sampled_from(samples.HARD_TEXTS))


@functools.cache
def _trained(pattern: str) -> Tokenizer:
    return Tokenizer.from_merges(samples.trained(pattern), SPECIALS, pattern=pattern)


@pytest.mark.parametrize("pattern", samples.PATTERNS)
@settings(max_examples=20, deadline=None)
@given(text=TEXTS)
def test_explained_ids_are_those_of_encode(pattern: str, text: str) -> None:
    tokenizer = _trained(pattern)
    explanation = explain(text, tokenizer)
    assert list(explanation.ids) == tokenizer.encode(text)
    assert b"".join(piece.piece for piece in explanation.pieces) == tokenizer.decode_bytes(explanation.ids)
    assert [piece.start for piece in explanation.pieces] == _starts(explanation)


def _starts(explanation: Explanation) -> list[int]:
    starts = [0]
    for piece in explanation.pieces:
        starts.append(starts[-1] + len(piece.piece))
    return starts[:-1]


@settings(max_examples=60, deadline=None)
@given(st.permutations(samples.trained("none", 40)[:12]), st.text("theoanrsi ", max_size=40))
def test_merges_in_any_order_are_explained_by_definition(merges: samples.Merges, text: str) -> None:
    """An order that no trainer makes: a merge may make a pair of a lower rank than its own."""
    made = {bytes([byte]) for byte in range(256)}
    kept = [pair for pair in merges if {*pair} <= made and not made.add(b"".join(pair))]  # type: ignore[func-returns-value]
    tokenizer = Tokenizer.from_merges(kept, pattern="none")
    for piece in explain(text, tokenizer).pieces:
        assert list(piece.tokens) == samples.naive_merge(piece.piece, kept)
        tokens = [piece.piece[at : at + 1] for at in range(len(piece.piece))]
        for merge in piece.merges:  # replayed one by one, they make the tokens
            assert kept[merge.rank] == (merge.left, merge.right)
            index = _index_at(tokens, merge.at)
            assert tokens[index : index + 2] == [merge.left, merge.right]
            tokens[index : index + 2] = [merge.left + merge.right]
        assert tokens == list(piece.tokens)


def _index_at(tokens: list[bytes], at: int) -> int:
    return next(index for index in range(len(tokens)) if len(b"".join(tokens[:index])) == at)


@pytest.mark.parametrize("name", ["space in front", "llama3", "qwen2", "deepseek"])
def test_explained_ids_of_published_shapes_are_those_of_tokenizers(name: str) -> None:
    theirs, ours = published.pair(name, "rules" if name == "qwen2" else "plain")
    for text in [*samples.HARD_TEXTS, *samples.all_planes(3, 20), f"a {published.BOS} e\u0301"]:
        assert list(explain(text, ours).ids) == theirs.encode(text).ids


def test_lost_merges_say_what_took_them() -> None:
    tokenizer = Tokenizer.from_merges([(b"b", b"c"), (b"a", b"b"), (b"a", b"bc")])
    [piece] = explain("abcab", tokenizer).pieces
    assert piece.tokens == (b"abc", b"ab")
    assert [(apart.at, apart.lost) for apart in piece.apart] == [(3, ())]
    [piece] = explain("abc", Tokenizer.from_merges([(b"b", b"c"), (b"a", b"b")])).pieces
    [apart] = piece.apart
    assert (apart.left, apart.right, apart.token) == (b"a", b"bc", None)
    [lost] = apart.lost
    assert (lost.rank, lost.left, lost.right, lost.taken_by) == (1, b"a", b"b", 0)


def test_a_token_made_of_other_parts_is_named() -> None:
    tokenizer = Tokenizer.from_merges([(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")])
    [apart] = explain("abc", tokenizer).pieces[0].apart
    assert (apart.left, apart.right, apart.token) == (b"ab", b"c", tokenizer.token_to_id("abc"))


def test_counts_are_those_given_and_json_is_in_letters() -> None:
    tokenizer = Tokenizer.from_merges([(b" ", b"a"), (b"b", b"c")])
    explanation = Explainer(tokenizer.model, [7]).explain(" a\nbc\xff")
    assert [merge.count for piece in explanation.pieces for merge in piece.merges] == [7, None]
    document = json.loads(json.dumps(explanation.to_json()))
    assert [piece["piece"] for piece in document["pieces"]] == ["Ġa", "Ċ", "bcÃ¿"]


def test_a_piece_of_forty_thousand_bytes_is_explained() -> None:
    tokenizer = Tokenizer.from_merges([(b"a", b"a"), (b"aa", b"aa")])
    text = "a" * 40_001
    explanation = explain(text, tokenizer)
    assert list(explanation.ids) == tokenizer.encode(text)
