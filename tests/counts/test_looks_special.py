"""Warnings of well-known special tokens that were counted as text."""

import json
import warnings
from pathlib import Path

import pytest
from command import run

import pipeline

EOT = "<|endoftext|>"


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
    assert "looks like" not in warned(pipeline.train, corpus, **named)
    assert "looks like" not in warned(pipeline.train, corpus, special_tokens_as_text=True, **named)
    assert "'<s>' 9 times, '[INST]' 9 times; if" in warned(pipeline.train, corpus, **options)


def test_records_and_iterators_are_searched(tmp_path: Path) -> None:
    texts, path = ["low<|im_start|>er", "new", "<|im_start|>"], tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for number, (train, corpus) in enumerate(((pipeline.train, path), (pipeline.train_from_iterator, texts))):
        text = warned(train, corpus, output=tmp_path / str(number), vocab_size=270, workers=1)
        assert "'<|im_start|>' 2 times" in text


def test_the_first_mebibyte_of_a_chunk_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("<pad> low\n" * (3 << 20 >> 3))
    options = {"output": tmp_path / "r", "vocab_size": 270, "chunk_size": "64MiB", "workers": 1}
    text = warned(pipeline.train, tmp_path / "a.txt", **options)
    assert any(f"'<pad>' {(1 << 20) // 10 + more:,} times" in text for more in (0, 1))
    assert "(in 1.0 MiB of 3.8 MiB that were searched)" in text


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("pattern", ["gpt2", "none"])
def test_encoding_warns_of_what_is_text_for_its_tokenizer(pattern: str, corpus: Path, tmp_path: Path) -> None:
    whole = pipeline.Tokenizer.from_merges([], [EOT, "<s>", "[INST]"], pattern=pattern)
    other = pipeline.Tokenizer.from_merges([], ["</s>"], pattern=pattern)
    for number, (tokenizer, found) in enumerate([(whole, ""), (other, "'<s>' 9 times, '[INST]' 9 times; if they")]):
        written = warned(pipeline.encode_corpus, corpus, tokenizer, tmp_path / str(number))
        held = warned(pipeline.encode_files, corpus, tokenizer)
        for text in (written, held):
            assert found in text
            assert ("encoded as text: '<|endoftext|>' 26 times" in text) == bool(found)
