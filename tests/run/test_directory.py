"""A run directory deletes what is a run's own, and nothing else, and keeps what it would need again."""

import fcntl
import re
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import peers
import pytest
from command import files_in, refused, run, run_here

import bpe_pipeline
from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, StorageError
from bpe_pipeline.commands.report import EXTENT
from bpe_pipeline.counts import combine
from bpe_pipeline.run import directory, manifest
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.shards import manifest as shards
from bpe_pipeline.shards.encoded_corpus import RESULT, load_result
from bpe_pipeline.shards.manifest import SHARDS
from bpe_pipeline.storage import named


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (path := tmp_path / "c.txt").write_text(peers.generated_text(3, 4000))
    return path


@pytest.fixture
def output(corpus: Path, tmp_path: Path) -> Path:
    """The directory of a run with two tokenizers."""
    bpe_pipeline.train(corpus, output=tmp_path / "run", vocab_size=[300, 280])
    return tmp_path / "run"


def _counted(corpus: Path, output: Path, *options: str) -> Path:
    assert run("count", corpus, "--output", output, "--quiet", *options).returncode == 0
    return output


def test_overwrite_deletes_what_the_manifest_lists(corpus: Path, output: Path, monkeypatch) -> None:
    monkeypatch.setenv(EXTENT, "page")  # with a model card
    monkeypatch.setattr("bpe_pipeline.reports.drawing.can_draw", lambda: False)
    bpe_pipeline.train(corpus, output=output, vocab_size=300, chunk_size=1000, overwrite=True)
    assert run_here("merge", output, "--vocab-size", 280).returncode == 0
    assert len(list((output / "counts").iterdir())) > 1
    assert (output / "tokenizer-280" / "README.md").exists()
    bpe_pipeline.train(corpus, output=output, vocab_size=310, overwrite=True)
    assert [path.name for path in (output / "counts").iterdir()] == manifest.require(output).manifest.chunk_names
    assert not (output / "tokenizer-280").exists()


@pytest.mark.parametrize("path", ["s3://b/runs/a/counts/x.txt", "s3://b/runs/a/log.txt", "s3://b/runs/a/tokenizer-9/x"])
def test_corpus_inside_a_remote_run_is_refused(path: str) -> None:
    run_ = Directory(named("s3://b/runs/a"), RUN)
    with pytest.raises(RunDirectoryError, match="is part of the corpus"):
        run_.refuse_corpus_inside(["s3://b/c/counts/y.txt", path])
    run_.refuse_corpus_inside(["s3://other/runs/a/counts/x", "/runs/a/counts/x"])
    run_.refuse_corpus_inside(["s3://b/runs/a/texts/x", "s3://b/runs/ab/counts/x"])


def test_overwrite_needs_the_corpus_and_not_the_run_itself(corpus: Path, output: Path) -> None:
    with pytest.raises(RunDirectoryError, match="this command writes to"):
        bpe_pipeline.combine([output / "counter.parquet"], output=output, overwrite=True)
    assert "name the corpus again" in refused(run("train", "--output", output, "--overwrite"), 2)
    bpe_pipeline.train(corpus, output=output, vocab_size=310, overwrite=True)
    assert manifest.require(output).manifest.vocab_size == 310


def test_directory_of_another_run_names_the_option(corpus: Path, output: Path) -> None:
    before = files_in(output)
    for option, value in (
        *(("--pattern", "llama3"), ("--errors", "skip"), ("--special-token", "<s>")),
        *(("--tie-break", "greatest-bytes"), ("--min-frequency", 2)),
    ):
        line = refused(run("train", corpus, "--output", output, "--vocab-size", 300, option, value), 1)
        assert re.search(f"was done with {option} .*--overwrite", line)
    assert files_in(output) == before


def test_a_size_that_was_never_learned_is_not_the_first(corpus: Path, tmp_path: Path) -> None:
    output = _counted(corpus, tmp_path / "run")
    options = make_options(TrainOptions, {"vocab_size": 100_000})
    manifest.store_merging(manifest.require(output), options)  # then it was killed, or did not fit
    for size, name in ((300, "tokenizer"), (290, "tokenizer-290")):
        bpe_pipeline.merge(output, vocab_size=size)
        assert (output / name / "tokenizer.json").exists()
    assert not (output / "tokenizer-300").exists()


def test_tokenizers_of_a_lost_merge_list_are_deleted(output: Path) -> None:
    (output / "merges.parquet").unlink()
    bpe_pipeline.merge(f"file://{output}", vocab_size=290, tie_break="greatest-bytes")
    assert not (output / "tokenizer-280").exists()
    assert "the checksum is right" in bpe_pipeline.verify(output)["merges"]


def test_stopped_while_it_is_replaced_a_run_keeps_a_manifest(corpus: Path, output: Path, monkeypatch) -> None:
    monkeypatch.setattr(directory, "remove", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        bpe_pipeline.train(corpus, output=output, vocab_size=300, overwrite=True)
    monkeypatch.undo()
    assert manifest.require(output).manifest.plan.files
    bpe_pipeline.train(corpus, output=output, vocab_size=300)
    assert "the checksum is right" in bpe_pipeline.verify(output)["merges"]


@pytest.mark.parametrize("whole", [False, True])
def test_lock_on_a_deleted_file_is_taken_again(tmp_path: Path, monkeypatch, whole: bool) -> None:
    home, flock, tries = tmp_path / "run", fcntl.flock, []

    def after_its_end(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        tries.append(descriptor)
        if len(tries) <= 2:
            (home / ".lock").unlink()
            if whole:
                home.rmdir()

    monkeypatch.setattr(fcntl, "flock", after_its_end)
    with Directory(home, RUN).locked():
        assert len(tries) == 3
        with pytest.raises(RunDirectoryError, match="another process"), Directory(home, RUN).locked():
            pass
        assert (home / ".lock").exists()
    assert not home.exists()


@pytest.mark.parametrize("name", ["counts", "counts/deep", "tokenizer-9"])
def test_a_run_is_not_combined_into_its_parent(corpus: Path, tmp_path: Path, name: str) -> None:
    source = tmp_path / "run" / name
    bpe_pipeline.train(corpus, output=source, vocab_size=300)
    (tmp_path / "link").symlink_to(source)
    for named_so in (source, tmp_path / "link"):
        with pytest.raises(RunDirectoryError, match="is one of the runs to combine, but this command writes to"):
            bpe_pipeline.combine([named_so], output=tmp_path / "run", overwrite=True)
    assert (source / "counter.parquet").exists()


@pytest.mark.parametrize(
    ("interrupted", "message"),
    [
        ("combine_counters", "^interrupted; nothing was changed: start again$"),
        ("replace_run", "is kept: the same"),  # when the counts are whole
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_interruption_promises_nothing_before_counts_are_whole(
    tmp_path: Path, monkeypatch, overwrite: bool, interrupted: str, message: str
) -> None:
    source = bpe_pipeline.combine({"ab": 3}, output=tmp_path / "source")
    monkeypatch.setattr(combine, interrupted, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt, match=message):
        bpe_pipeline.combine([source, {"b": 3}], output=tmp_path / "run", overwrite=overwrite)


def test_unreadable_files_are_not_called_damaged(corpus: Path, output: Path, tmp_path: Path) -> None:
    train = partial(bpe_pipeline.train, corpus, output=output)
    for path, load in (
        *((output / name, train) for name in ("merges.parquet", "counter.parquet", RUN.manifest)),
        (tmp_path / SHARDS.manifest, partial(shards.load, Directory(tmp_path, SHARDS))),
        (tmp_path / RESULT, partial(load_result, tmp_path / RESULT)),
    ):
        kept = path.rename(tmp_path / "kept") if path.exists() else None
        path.mkdir()  # which no one may read as a file, not even the superuser
        with pytest.raises(StorageError, match=rf"{path.name} cannot be read: Is a directory; make it readable"):
            load()
        path.rmdir()
        if kept:
            kept.rename(path)


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("missing.txt", {}, "does not exist"),
        ("broken.parquet", {}, "damaged"),
        ("c.txt", {"memory_limit": "20MiB"}, "--memory-limit"),
        ("c.txt", {"vocab_size": 100}, "too small"),
        ("c.txt", {"pattern": "("}, "pattern"),
        ("c.txt", {"pattern": "llama3", "export": "gpt2"}, "llama3"),
    ],
)
def test_refused_options_cost_nothing(tmp_path, corpus, output, overwrite, name, options, reason) -> None:
    before = files_in(output, but=())
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    inputs = [tmp_path / name] if overwrite else [corpus, tmp_path / name]
    with pytest.raises(PipelineError, match=reason):
        bpe_pipeline.train(inputs, **{"vocab_size": 300, **options}, output=output, overwrite=overwrite)
    assert files_in(output, but=()) == before


def test_results_stay_until_another_corpus_is_counted(tmp_path: Path, corpus: Path) -> None:
    output, wrong = tmp_path / "run", tmp_path / "wrong.txt"
    train = partial(bpe_pipeline.train, errors="strict")
    train(corpus, output=output, vocab_size=[300, 280])
    learned = {name: data for name, data in files_in(output).items() if name.startswith("tokenizer")}
    assert len({name.partition("/")[0] for name in learned}) == 2
    wrong.write_bytes(b"text \xff text")
    for options in ({"inputs": [corpus, wrong]}, {"inputs": wrong, "overwrite": True}):
        with pytest.raises(PipelineError, match="invalid UTF-8"):
            train(**options, output=output, vocab_size=300)
        assert learned.items() <= files_in(output, but=()).items()
    wrong.write_text("other text")
    _counted(wrong, output, "--errors", "strict", "--overwrite")
    assert not any((output / name).exists() for name in learned)
    train(wrong, output=tmp_path / "again", vocab_size=260)
    bpe_pipeline.merge(output, vocab_size=260)
    for name in ("merges.parquet", "tokenizer/tokenizer.json"):
        assert (output / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert not (output / "tokenizer-280").exists()
