"""Special tokens counted as text: how often one that is added can have been, and warnings of well-known ones."""

import json
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from command import refused, run, run_here
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.counts.as_text import certain_pre_tokens
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.normalization import nfc

MARKS = ["<|im_start|>", "<|im_end|>", "[INST]", "</s>", "<start_of_turn>", "<|a b|>", "<\uff5cUser\uff5c>", "of", "<>"]
MARKS += ["<x cafe\u0301 e>", "\u0301a > =\u0338 e"]
PATTERNS = ["gpt2", "cl100k", "o200k", "llama3", "qwen2", "none"]
EOT = "<|endoftext|>"
AROUND = st.text(" \n\r'|<>[]/_sdma1\u0130é\u0301\u0338", max_size=6)


@pytest.mark.parametrize("name", [*PATTERNS, "[a-z]+|[^a-z]+"])
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MARKS), st.lists(AROUND, min_size=2, max_size=4), st.booleans())
@example("<x cafe\u0301 e>", ["", "\u0301 b"], True)
def test_certain_pre_tokens_are_in_every_text_with_the_mark(
    name: str, mark: str, around: list[str], form: bool
) -> None:
    pattern = replace(compile_pattern(name), nfc=form)
    text = mark.join(around)
    pre_tokens = Counter(pre_token.encode() for pre_token in pattern.cut(nfc(text) if form else text))
    for pre_token, times in certain_pre_tokens(mark, pattern).items():
        assert pre_tokens[pre_token] >= times * (len(around) - 1)
    some = {"gpt2": [b"im", b"_", b"start"], "cl100k": [b"_start"], "none": []}
    if name in some:
        assert certain_pre_tokens("<|im_start|>", pattern) == Counter(some[name])


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("<|im_end|>", "'<|im_end|>' was never counted as text: the pre-token "),
        ("[INST]", "warning: '[INST]' was counted as text at most 3 times, as often as the pre-token 'INST'"),
        ("<low,low>", "warning: '<low,low>' was counted as text at most 1 time, as often as the pre-token 'low'"),
        ("<>", "warning: how often '<>' was counted as text is unknown"),
    ],
)
def test_marks_are_added_to_counts_with_the_most_often_they_were_text(mark: str, said: str, tmp_path: Path) -> None:
    run, exported = tmp_path / "run", tmp_path / "exported"
    counts = {"[": 5, "INST": 3, "]": 4, "low": 3, ",": 9, "wide": 7}
    bpe_pipeline.merge(bpe_pipeline.combine(counts, output=run), vocab_size=264)
    found = run_here("merge", run, "--vocab-size", 263, "--special-token", mark)
    assert (found.returncode, said in found.stderr) == (0, True)
    tokenizer = Tokenizer.load(run / "tokenizer-263")
    assert list(tokenizer.special_tokens) == ["<|endoftext|>", mark]
    assert tokenizer.encode(f"low{mark}")[-1] == tokenizer.special_tokens[mark]
    assert run_here("merge", run, "--vocab-size", 263, "--special-token", "<new>").returncode == 1
    bpe_pipeline.verify(run)
    found = run_here("export", run, "--special-token", mark, "--output", exported, "--export", "hf")
    assert said.removeprefix("warning: ") in found.stderr
    assert Tokenizer.load(exported).special_tokens == {"<|endoftext|>": 263, mark: 264}


@pytest.mark.parametrize("reserved", ["<|reserved_special_token_0|>", "<unused7>", "[unused7]", "<|extra_0|>", "<m>"])
def test_a_reserved_token_of_a_downloaded_base_is_taken_first(reserved: str, tmp_path: Path) -> None:
    Tokenizer.from_merges([(b"l", b"o")], ["<s>", "</s>", reserved]).save(tmp_path / "base")
    export = ["export", tmp_path / "base", "--chat-template", "chatml", "--export", "hf", "--output", tmp_path / "chat"]
    advice = refused(run_here(*export), 2)
    assert "add --special-token '<|im_start|>' --special-token '<|im_end|>'" in advice
    found = run_here(*export, "--special-token", "<|im_start|>", "--special-token", "<|im_end|>")
    assert found.returncode == 0, found.stderr
    kept = ["<m>"] if reserved == "<m>" else []
    names = ["<s>", "</s>", *kept, "<|im_start|>", "<|im_end|>"]
    assert Tokenizer.load(tmp_path / "chat").special_tokens == {name: 257 + at for at, name in enumerate(names)}
    assert (f"'<|im_start|>' is 259, which was {reserved!r}" in found.stderr) == (not kept)
    assert "a new id: the model needs a row for it" in found.stderr


def warned(call, *arguments, **options) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **options)
    return "\n".join(str(one.message) for one in caught)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(EOT.join(["low lower <s>[INST] new", "wide", "newest"] * 9))
    return tmp_path / "a.txt"


def test_every_well_known_token_is_counted(corpus: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second run takes the counts, and the numbers, from the first
        found = run("train", corpus, "--output", tmp_path / "r", "--vocab-size", 270, "--no-special-tokens")
        [line] = [line for line in found.stderr.splitlines() if "looks like special tokens" in line]
        assert "'<|endoftext|>' 26 times, '<s>' 9 times, '[INST]' 9 times; if they" in line


def test_named_tokens_are_not_warned_of(corpus: Path, tmp_path: Path) -> None:
    options = {"output": tmp_path / "r", "vocab_size": 270, "overwrite": True}
    named = options | {"special_tokens": [EOT, "<s>", "[INST]"]}
    assert "looks like" not in warned(bpe_pipeline.train, corpus, **named)
    assert "looks like" not in warned(bpe_pipeline.train, corpus, special_tokens_as_text=True, **named)
    assert "'<s>' 9 times, '[INST]' 9 times; if" in warned(bpe_pipeline.train, corpus, **options)


def test_records_and_iterators_are_searched(tmp_path: Path) -> None:
    texts, path = ["low<|im_start|>er", "new", "<|im_start|>"], tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for number, (train, corpus) in enumerate(((bpe_pipeline.train, path), (bpe_pipeline.train_from_iterator, texts))):
        text = warned(train, corpus, output=tmp_path / str(number), vocab_size=270, workers=1)
        assert "'<|im_start|>' 2 times" in text


def test_the_first_mebibyte_of_a_chunk_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("<pad> low\n" * (3 << 20 >> 3))
    options = {"output": tmp_path / "r", "vocab_size": 270, "chunk_size": "64MiB", "workers": 1}
    text = warned(bpe_pipeline.train, tmp_path / "a.txt", **options)
    assert any(f"'<pad>' {(1 << 20) // 10 + more:,} times" in text for more in (0, 1))
    assert "(in 1.0 MiB of 3.8 MiB that were searched)" in text


@pytest.mark.parametrize("pattern", ["gpt2", "none"])
def test_encoding_warns_of_what_is_text_for_its_tokenizer(pattern: str, corpus: Path, tmp_path: Path) -> None:
    whole = bpe_pipeline.Tokenizer.from_merges([], [EOT, "<s>", "[INST]"], pattern=pattern)
    other = bpe_pipeline.Tokenizer.from_merges([], ["</s>"], pattern=pattern)
    for number, (tokenizer, found) in enumerate([(whole, ""), (other, "'<s>' 9 times, '[INST]' 9 times; if they")]):
        written = warned(bpe_pipeline.encode, corpus, tokenizer, tmp_path / str(number))
        held = warned(bpe_pipeline.encode, corpus, tokenizer)
        for text in (written, held):
            assert found in text
            assert ("encoded as text: '<|endoftext|>' 26 times" in text) == bool(found)
