"""Explanations against encoding, the definition of merging, and tokenizers; and what `explain` prints."""

import json
import shutil
import sys
from itertools import accumulate
from pathlib import Path

import published
import pytest
import samples
from command import run, succeeded
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import bpe_pipeline
from bpe_pipeline import Tokenizer, explain
from bpe_pipeline.extensions.inspect.explain import Explainer

SPECIALS = ("<|endoftext|>", "<|a|>", "<|a|><|b|>")
TEXTS = st.one_of(st.text(), st.text(" \n\t'theofandr0é你<|a>"), st.sampled_from(samples.HARD_TEXTS))


def test_an_explanation_is_shown_in_words() -> None:
    tokenizer = Tokenizer.from_merges([(b"a", b"b")], [])
    assert repr(explain("ab c", tokenizer)).split("\n")[:4] == [
        "ab: 256 ab",
        "  a + b  rank 0",
        "",
        "␣c: 220 ␣, 66 c",
    ]


@pytest.mark.parametrize("pattern", samples.PATTERNS)
@settings(max_examples=20, deadline=None)
@given(text=TEXTS)
def test_explained_ids_are_those_of_encode(pattern: str, text: str) -> None:
    tokenizer = samples.tokenizer(pattern, SPECIALS)
    explanation = explain(text, tokenizer)
    assert list(explanation.ids) == tokenizer.encode(text)
    pre_tokens = [pre_token.pre_token for pre_token in explanation.pre_tokens]
    assert b"".join(pre_tokens) == tokenizer.decode_bytes(explanation.ids)
    assert [pre_token.start for pre_token in explanation.pre_tokens] == [*accumulate(map(len, pre_tokens), initial=0)][
        :-1
    ]


@settings(max_examples=60, deadline=None)
@given(st.permutations(samples.trained("none", 40)[:12]), st.text("theoanrsi ", max_size=40))
def test_merges_in_any_order_are_explained_by_definition(merges: samples.Merges, text: str) -> None:
    """An order that no trainer makes: a merge may make a pair of a lower rank than its own."""
    made = {bytes([byte]) for byte in range(256)}
    kept = [pair for pair in merges if {*pair} <= made and not made.add(b"".join(pair))]  # type: ignore[func-returns-value]
    for pre_token in explain(text, Tokenizer.from_merges(kept, pattern="none")).pre_tokens:
        assert list(pre_token.tokens) == samples.naive_merge(pre_token.pre_token, kept)
        tokens = [pre_token.pre_token[at : at + 1] for at in range(len(pre_token.pre_token))]
        for merge in pre_token.merges:  # replayed one by one, they make the tokens
            assert kept[merge.rank] == (merge.left, merge.right)
            index = [*accumulate(map(len, tokens), initial=0)].index(merge.at)
            assert tokens[index : index + 2] == [merge.left, merge.right]
            tokens[index : index + 2] = [merge.left + merge.right]
        assert tokens == list(pre_token.tokens)


@pytest.mark.parametrize("name", ["space in front", "llama3", "qwen2", "deepseek"])
def test_explained_ids_of_published_shapes_are_those_of_tokenizers(name: str) -> None:
    theirs, ours = published.pair(name, "rules" if name == "qwen2" else "plain")
    for text in [*samples.HARD_TEXTS, *samples.all_planes(3, 20), f"a {published.BOS} e\u0301"]:
        assert list(explain(text, ours).ids) == theirs.encode(text).ids


def test_lost_merges_say_what_took_them() -> None:
    [pre_token] = explain("abcab", Tokenizer.from_merges([(b"b", b"c"), (b"a", b"b"), (b"a", b"bc")])).pre_tokens
    assert pre_token.tokens == (b"abc", b"ab")
    assert [(apart.at, apart.lost) for apart in pre_token.apart] == [(3, ())]
    [pre_token] = explain("abc", Tokenizer.from_merges([(b"b", b"c"), (b"a", b"b")])).pre_tokens
    [apart] = pre_token.apart
    assert (apart.left, apart.right, apart.token) == (b"a", b"bc", None)
    [lost] = apart.lost
    assert (lost.rank, lost.left, lost.right, lost.taken_by) == (1, b"a", b"b", 0)
    other = Tokenizer.from_merges([(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")])  # a token made of other parts
    [apart] = explain("abc", other).pre_tokens[0].apart
    assert (apart.left, apart.right, apart.token) == (b"ab", b"c", other.token_to_id("abc"))


def test_counts_are_those_given_and_json_is_in_letters() -> None:
    tokenizer = Tokenizer.from_merges([(b" ", b"a"), (b"b", b"c")])
    explanation = Explainer(tokenizer.model, [7]).explain(" a\nbc\xff")
    assert [merge.count for pre_token in explanation.pre_tokens for merge in pre_token.merges] == [7, None]
    document = json.loads(json.dumps(explanation.to_json()))
    assert [pre_token["pre_token"] for pre_token in document["pre_tokens"]] == ["Ġa", "Ċ", "bcÃ¿"]


def test_a_pre_token_of_forty_thousand_bytes_is_explained() -> None:
    tokenizer, text = Tokenizer.from_merges([(b"a", b"a"), (b"aa", b"aa")]), "a" * 40_001
    assert list(explain(text, tokenizer).ids) == tokenizer.encode(text)


def test_a_tokenizer_is_prepared_once_for_all_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer.from_merges([(b"x", b"y"), (b"xy", b"z")])
    assert explain("xyz", tokenizer).ids == (257,)
    monkeypatch.delattr(sys.modules["bpe_pipeline.extensions.inspect.explain"], "Explainer")
    assert list(explain("xyx", tokenizer).ids) == tokenizer.encode("xyx")


def test_counts_are_those_of_the_run_if_it_has_the_merges(trained: Path, tmp_path: Path) -> None:
    text = "the <|endoftext|> lower case xy"
    counts = parquet.read_table(trained / "merges.parquet")["count"].to_pylist()
    for home in (trained, trained / "tokenizer", trained / "tokenizer" / "tokenizer.json"):
        document = json.loads(succeeded(run("explain", "--tokenizer", home, text, "--json")).stdout)
        assert document["ids"] == bpe_pipeline.load(trained).encode(text)
        merges = [merge for pre_token in document["pre_tokens"] for merge in pre_token["merges"]]
        assert merges
        assert [merge["count"] for merge in merges] == [counts[merge["rank"]] for merge in merges]
    other = shutil.copytree(trained, tmp_path / "run") / "other"
    Tokenizer.from_merges([(b"e", b" "), (b"x", b"y")], ["<|endoftext|>"]).save(other)
    bpe_pipeline.load(trained).save(tmp_path / "saved")
    for home, merge in ((tmp_path / "saved", "h + e"), (other, "x + y")):
        shown = succeeded(run("explain", "--tokenizer", home, text)).stdout
        assert f"\n  {merge}" in shown
        assert "in training" not in shown


def test_text_may_be_empty(trained: Path) -> None:
    assert "no ids" in run("explain", "--tokenizer", trained, "").stdout
