"""The main road from files to a tokenizer: the merges of Hugging Face's trainer, and one answer however it is done."""

from pathlib import Path
from typing import Any

import oracle_counting
import peers
import pytest
from command import model

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.pattern.compiler import compile_pattern

EOT = "<|endoftext|>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    parts = [peers.generated_text(seed, 4000) for seed in range(12)]
    path.write_text(f"\n{EOT}\n".join(parts), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", "qwen2"])
def test_merges_are_those_of_hugging_face(corpus: Path, tmp_path: Path, pattern: str) -> None:
    tokenizer = bpe_pipeline.train(corpus, output=tmp_path / "run", vocab_size=3000, pattern=pattern, workers=1)
    ours = [(token_to_text(left), token_to_text(right)) for left, right in tokenizer.merges]
    texts = oracle_counting.documents(corpus.read_bytes(), [EOT.encode()])
    assert ours == peers.hugging_face_merges(texts, compile_pattern(pattern).expression, 3000 - 257)


@pytest.mark.filterwarnings("ignore:the corpus has what looks like special tokens")
@pytest.mark.parametrize("special_tokens", [pytest.param([EOT], marks=pytest.mark.processes), []])
def test_one_answer_for_any_workers_and_chunks(corpus: Path, tmp_path: Path, special_tokens: list[str]) -> None:
    models = set()
    for workers, chunk_size in [(1, "64MiB"), (2, "64KiB"), (3, "1MiB"), (2, "100KiB")][: 2 if special_tokens else 4]:
        options = {"output": tmp_path / f"{workers}-{chunk_size}", "workers": workers, "chunk_size": chunk_size}
        bpe_pipeline.train(corpus, vocab_size=2000, special_tokens=special_tokens, **options)
        models.add(model(options["output"]))
    assert len(models) == 1
    assert len(list((tmp_path / "2-64KiB" / "counts").glob("*.parquet"))) > 4


def test_added_files_are_counted_alone_and_all_is_learned_again(corpus: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text(peers.generated_text(99, 3000))
    run = tmp_path / "run"
    bpe_pipeline.train(corpus, output=run, vocab_size=[800, 500])
    assert (run / "tokenizer-500").exists()
    kept = {path: path.stat().st_mtime_ns for path in (run / "counts").iterdir()}
    bpe_pipeline.train([corpus, more], output=run, vocab_size=800, export="hf")
    assert not any((run / name).exists() for name in ("tokenizer-500", "tokenizer/merges.txt"))  # of the smaller corpus
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(list((run / "counts").iterdir())) > len(kept)
    bpe_pipeline.train([corpus, more], output=tmp_path / "fresh", vocab_size=800)
    assert model(run) == model(tmp_path / "fresh")


@pytest.mark.parametrize("train", [bpe_pipeline.train, bpe_pipeline.train_from_iterator])
def test_a_pattern_outside_the_subset_trains_with_a_warning(train: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("xa ya xa za " * 20)
    options = {"output": tmp_path / "run", "vocab_size": 260, "pattern": r"(?<=x)a|.|\s"}
    with pytest.warns(UserWarning, match="the pattern runs on the regex package"):
        tokenizer = train(tmp_path / "a.txt" if train is bpe_pipeline.train else ["xa ya xa za "] * 20, **options)
    assert tokenizer.decode(tokenizer.encode("xa ya")) == "xa ya"
    assert bpe_pipeline.load(tmp_path / "run").encode("xa") == tokenizer.encode("xa")


def test_counting_and_then_merging_is_training(trained: Path, text: Path, tmp_path: Path) -> None:
    counted = bpe_pipeline.count(text, output=tmp_path / "run")
    assert (counted.directory, counted.vocabulary) == (tmp_path / "run", None)
    assert str(counted).splitlines()[0].startswith("corpus")
    assert bpe_pipeline.merge(counted.directory, vocab_size=600)[600] == bpe_pipeline.load(trained)
    for name, value in (("vocab_size", 600), ("export", "hf"), ("dry_run", True)):
        with pytest.raises(UsageError, match=name):
            bpe_pipeline.count(text, output=tmp_path / "run", **{name: value})
