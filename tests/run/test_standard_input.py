"""`-` among the inputs: kept in the run directory, whole or not at all, and the same content is the same run."""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import peers
import pytest
from command import refused, run, succeeded

TEXT = peers.generated_text(3, 3000).encode()
COUNT = ("count", "-", "--output", "run")
TRAIN = ("train", "-", "--vocab-size", 400, "--output")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def piped(data: bytes, *arguments: object) -> str:
    """Return what the command printed."""
    done = succeeded(run(*arguments, stdin=data))
    assert "warning" not in done.stderr
    return done.stdout


def copies(directory: str | Path = "run") -> list[Path]:
    return list((Path(directory) / "stdin").iterdir())


def copy_of_killed(data: bytes) -> Path:
    """Write what a killed command leaves: a copy of standard input, named by the digest of its content."""
    copy = Path("run", "stdin", f"input-{hashlib.sha256(data).hexdigest()[:32]}")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(data)
    return copy


def test_standard_input_is_a_file_of_the_corpus() -> None:
    Path("a.txt").write_bytes(TEXT)
    assert run("train", "a.txt", "--output", "file", "--vocab-size", 400).returncode == 0
    made, expected = (Path(name, "tokenizer", "tokenizer.json") for name in ("piped", "file"))
    records = json.dumps({"text": TEXT.decode()}).encode()
    for data, options in ((TEXT, ()), (gzip.compress(TEXT), ()), (records, ("--input-format", "jsonl"))):
        piped(data, *TRAIN, "piped", "--overwrite", *options)
        assert made.read_bytes() == expected.read_bytes()


def test_same_input_resumes_the_run() -> None:
    """What killed commands left is deleted."""
    copy_of_killed(b"of a run that never was")
    Path("run/.stdin.1.partial").write_text("half")
    piped(b"one two", *COUNT)
    [copy] = copies()
    assert copy.read_bytes() == b"one two"
    assert list(Path("run").glob(".*.partial")) == []
    written = copy.stat().st_mtime_ns
    assert "counting kept" in piped(b"one two", *COUNT)
    assert copy.stat().st_mtime_ns == written
    assert run("count", "--output", "run").returncode == 0
    assert "holds another run: its corpus has" in refused(run(*COUNT, stdin=b"other"), 1)
    assert copies() == [copy]  # what was refused is not kept
    copy_of_killed(b"of a command that was killed")
    assert run("merge", "run", "--vocab-size", 258).returncode == 0
    assert copies() == [copy]
    piped(b"other", *COUNT, "--overwrite")
    assert [copy.read_bytes() for copy in copies()] == [b"other"]
    assert list(Path("run").glob(".*.partial")) == []


def test_moved_directory_is_resumed_by_the_same_input() -> None:
    piped(TEXT, *TRAIN, "made")
    encode = ("encode", "-", "--tokenizer", "made", "--output")
    for words, kept in ((TRAIN, "counting kept, merging kept"), (encode, "encoding kept")):
        piped(TEXT, *words, "before")
        Path("elsewhere").mkdir()
        moved = Path("before").rename("elsewhere/after")
        assert kept in piped(TEXT, *words, moved)
        copied = shutil.copytree(moved, Path("copied"), copy_function=shutil.copyfile)  # with other times
        shutil.rmtree(copied / "stdin")  # piped again, it is there again
        assert kept in piped(TEXT, *words, copied)
        assert "holds another" in refused(run(*words, copied, stdin=b"other"), 1)
        if words is TRAIN:
            assert kept in run("train", "--output", copied, "--vocab-size", 400).stdout
            assert run("verify", copied).returncode == 0
        shutil.rmtree(copied)
        shutil.rmtree(moved.parent)


def test_copy_of_refused_text_is_deleted() -> None:
    assert run("train", __file__, "--output", "made", "--vocab-size", 300).returncode == 0
    encode = ("encode", "-", "--tokenizer", "made", "--output", "ids", "--documents", "offsets")
    for name, words in (("run", COUNT), ("ids", encode)):
        refusal = refused(run(*words, "--errors", "strict", stdin=b"text \xff text"), 1)
        assert "invalid UTF-8 in standard input, byte 5; fix it and start from scratch with --overwrite" in refusal
        assert "stdin" not in refusal
        assert not Path(name, "stdin").exists()
        piped(b"text and text", *words, "--errors", "strict", "--overwrite")
        assert len(copies(name)) == 1


def test_file_with_a_copys_name_is_not_trusted() -> None:
    """Nor is a file with another name of 32 digits, as digests have, one of ours."""
    piped(b"one two", *COUNT)
    [copy] = copies()
    theirs = copy.with_name("0" * 32)
    theirs.write_text("precious")
    copy.write_text("two one")
    assert "changed since" in refused(run("count", "--output", "run"), 1)
    piped(b"one two", *COUNT, "--overwrite")
    assert (copy.read_text(), theirs.read_text()) == ("one two", "precious")


def test_empty_input_and_dry_run_are_refused() -> None:
    for data, options, code, reason in (
        (b"", (), 1, "standard input has no data"),
        (b"no Parquet", ("--input-format", "parquet"), 1, "standard input cannot be read as Parquet"),
        (b"text", ("--dry-run",), 2, "--dry-run"),
    ):
        words = ("train", "-") if "--dry-run" in options else COUNT
        assert reason in refused(run(*words, *options, stdin=data), code)
        assert not Path("run").exists()
    closed = ["bash", "-c", f"'{sys.executable}' -P -m bpe_pipeline count - --output run <&-"]
    done = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert (done.returncode, "standard input is closed" in done.stderr) == (1, True)
