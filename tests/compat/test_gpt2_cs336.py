"""The GPT-2 style interface, and the adapters of the page on Stanford's CS336."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import samples
from tokenizers.models import BPE
from transformers import GPT2TokenizerFast

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.compat import GPT2Tokenizer
from bpe_pipeline.tokenizer.formats.gpt2_files import export

EOT = "<|endoftext|>"


# As on the page, with a directory for the run.
def run_train_bpe(input_path: Any, vocab_size: int, special_tokens: list[str], **options: Any) -> Any:
    options |= {"vocab_size": vocab_size, "special_tokens": special_tokens, "tie_break": "greatest-bytes"}
    trained = bpe_pipeline.train(input_path, **options)
    return trained.vocab, trained.merges


def get_tokenizer(vocab: Any, merges: Any, special_tokens: list[str] | None = None) -> Tokenizer:
    return bpe_pipeline.Tokenizer.from_vocab(vocab, merges, special_tokens)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    export(samples.tokenizer().model, tmp_path)
    return tmp_path


def test_ids_and_tokens_are_those_of_transformers(files: Path) -> None:
    ours = GPT2Tokenizer(files)
    assert (files / "merges.txt").read_text(encoding="utf-8").startswith("#version: 0.2\n")
    vocab, merges = BPE.read_file(str(files / "vocab.json"), str(files / "merges.txt"))
    assert (len(vocab), len(merges)) == (ours.vocab_size, len(ours.tokenizer.merges)) == (417, 160)
    theirs = GPT2TokenizerFast(vocab=vocab, merges=merges)
    texts = [*samples.HARD_TEXTS, *samples.all_planes(9, 300), f"the{EOT} low{EOT}{EOT}\n\n x"]
    for text in texts:
        assert ours.encode(text) == theirs.encode(text)
        assert ours.tokenize(text) == theirs.tokenize(text)
        assert ours.decode(ours.encode(text)) == text
    assert EOT in GPT2Tokenizer(files, special_tokens=[]).tokenizer.vocabulary.texts.values()
    assert ours.encode_batch(texts) == ours.encode_batch(texts, num_threads=1) == [ours.encode(text) for text in texts]


def test_arrays_and_tensors(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = GPT2Tokenizer(files)
    found = ours.encode("the low", return_type="numpy")
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.tolist()) == (np.int64, ours.encode("the low"))
    assert ours.decode(found) == ours.decode(found.tolist()) == "the low"
    assert ours.decode(found[0]) == ours.decode([int(found[0])])
    assert all(isinstance(ids, np.ndarray) for ids in ours.encode_batch(["a", ""], return_type="numpy"))
    made: Any = SimpleNamespace(int64="int64", tensor=lambda ids, dtype: np.array(ids, dtype))
    monkeypatch.setitem(sys.modules, "torch", made)  # stands in for torch, which is large
    assert ours.decode(ours.encode("the low", return_type="torch")) == "the low"
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="torch is not installed"):
        ours.encode("a", return_type="torch")


def test_cs336_worked_example(tmp_path: Path) -> None:
    words = {"low": 5, "lower": 2, "widest": 3, "newest": 6}
    (tmp_path / "a.txt").write_text("\n".join(word for word, count in words.items() for _ in range(count)))
    vocab, merges = run_train_bpe(tmp_path / "a.txt", 257 + 6, [EOT], output=tmp_path / "run", pattern=r"\w+|\s")
    assert [(left + right).decode() for left, right in merges] == ["st", "est", "ow", "low", "west", "ne"]
    assert list(vocab.values())[256:] == [*(left + right for left, right in merges), EOT.encode()]
    tokenizer, plain = get_tokenizer(vocab, merges, [EOT]), get_tokenizer(vocab, merges)
    assert tokenizer.encode(EOT) == [262]
    assert plain.decode(plain.encode(f"a{EOT}b")) == f"a{EOT}b"
    assert 262 not in plain.encode(f"a{EOT}b")
