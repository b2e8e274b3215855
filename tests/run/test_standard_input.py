"""`-` among the inputs: kept in the run directory, whole or not at all, and the same content is the same run."""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import peers
from command import refused, run

from pipeline.run.directory import fingerprint

TEXT = peers.generated_text(3, 3000)


def piped(data: bytes, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(*arguments, cwd=cwd, stdin=data)


def copy_of(directory: Path, data: bytes) -> Path:
    """Write what a killed command leaves: a copy of standard input, named by the digest of its content."""
    directory.mkdir(parents=True, exist_ok=True)
    copy = directory / f"input-{hashlib.sha256(data).hexdigest()[:32]}"
    copy.write_bytes(data)
    return copy


def model(run_directory: Path) -> bytes:
    return (run_directory / "tokenizer" / "tokenizer.json").read_bytes()


def test_standard_input_is_a_file_of_the_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    assert run("train", "a.txt", "--output", "file", "--vocab-size", 400, cwd=tmp_path).returncode == 0
    command = ["train", "-", "--vocab-size", 400, "--output"]
    assert piped(TEXT.encode(), *command, "piped", cwd=tmp_path).returncode == 0
    assert piped(gzip.compress(TEXT.encode()), *command, "gzip", cwd=tmp_path).returncode == 0
    records = json.dumps({"text": TEXT}).encode()
    assert piped(records, *command, "jsonl", "--input-format", "jsonl", cwd=tmp_path).returncode == 0
    assert (
        model(tmp_path / "piped") == model(tmp_path / "gzip") == model(tmp_path / "jsonl") == model(tmp_path / "file")
    )


def test_same_input_resumes_the_run(tmp_path: Path) -> None:
    command = ["count", "-", "--output", "run"]
    assert piped(b"one two", *command, cwd=tmp_path).returncode == 0
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*") if path.suffix != ".txt"}
    again = piped(b"one two", *command, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "counting kept" in again.stdout
    [copy] = (tmp_path / "run" / "stdin").iterdir()
    assert copy.stat().st_mtime_ns == kept[copy]
    assert run("count", "--output", "run", cwd=tmp_path).returncode == 0
    assert "holds another run: its corpus has" in refused(piped(b"other", *command, cwd=tmp_path), 1)
    assert list((tmp_path / "run" / "stdin").iterdir()) == [copy]  # what was refused is not kept
    copy_of(tmp_path / "run" / "stdin", b"of a command that was killed")
    assert run("merge", "run", "--vocab-size", 258, cwd=tmp_path).returncode == 0
    assert list((tmp_path / "run" / "stdin").iterdir()) == [copy]
    assert piped(b"other", *command, "--overwrite", cwd=tmp_path).returncode == 0
    [copy] = (tmp_path / "run" / "stdin").iterdir()
    assert copy.read_bytes() == b"other"
    assert list((tmp_path / "run").glob(".*.partial")) == []


def test_moved_directory_is_resumed_by_the_same_input(tmp_path: Path) -> None:
    text = TEXT.encode()
    train = ["train", "-", "--vocab-size", 400, "--output"]
    encode = ["encode", "-", "--tokenizer", "made", "--output"]
    assert piped(text, *train, "made", cwd=tmp_path).returncode == 0
    for words, kept in ((train, "counting kept, merging kept"), (encode, "encoding kept")):
        assert piped(text, *words, "before", cwd=tmp_path).returncode == 0
        (tmp_path / "elsewhere").mkdir()
        moved = tmp_path / "elsewhere" / "after"
        (tmp_path / "before").rename(moved)
        again = piped(text, *words, moved, cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert kept in again.stdout
        assert "warning" not in again.stderr
        copied = shutil.copytree(moved, tmp_path / "copied", copy_function=shutil.copyfile)  # with other times
        shutil.rmtree(copied / "stdin")  # piped again, it is there again
        assert kept in piped(text, *words, copied, cwd=tmp_path).stdout
        assert "holds another" in refused(piped(b"other", *words, copied, cwd=tmp_path), 1)
        if words is train:
            assert kept in run("train", "--output", copied, "--vocab-size", 400, cwd=tmp_path).stdout
            assert run("verify", copied).returncode == 0
        shutil.rmtree(copied)
        shutil.rmtree(moved.parent)


def test_copy_of_a_run_that_named_its_path_is_found(tmp_path: Path) -> None:
    """As earlier releases stored it: the path of the copy, by which its counters are identified, too."""
    command = ["train", "-", "--vocab-size", 400, "--output", "run"]
    assert piped(TEXT.encode(), *command, cwd=tmp_path).returncode == 0
    before = model(tmp_path / "run")
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    [file] = document["files"]
    assert file["path"].startswith("stdin/input-")
    file["path"] = str(tmp_path / "run" / file["path"])
    del document["digest"], file["ctime_ns"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(document | {"digest": fingerprint(document)}))
    again = piped(TEXT.encode(), *command, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert model(tmp_path / "run") == before
    [kept] = json.loads((tmp_path / "run" / "run.json").read_text())["files"]
    assert {"ctime_ns": 0, **kept} == {"ctime_ns": 0, **file}  # 0: not known


def test_copy_of_refused_text_is_deleted(tmp_path: Path) -> None:
    assert run("train", __file__, "--output", "made", "--vocab-size", 300, cwd=tmp_path).returncode == 0
    for name, words in (
        ("run", ["count", "-", "--output", "run"]),
        ("ids", ["encode", "-", "--tokenizer", "made", "--output", "ids", "--documents", "offsets"]),
    ):
        refusal = refused(piped(b"text \xff text", *words, "--errors", "strict", cwd=tmp_path), 1)
        assert "invalid UTF-8 in standard input, byte 5; fix it and start from scratch with --overwrite" in refusal
        assert "stdin" not in refusal
        assert not (tmp_path / name / "stdin").exists()
        again = piped(b"text and text", *words, "--errors", "strict", "--overwrite", cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert len(list((tmp_path / name / "stdin").iterdir())) == 1


def test_file_with_a_copys_name_is_not_trusted(tmp_path: Path) -> None:
    """Nor is a file with another name of 32 digits, as digests have, one of ours."""
    command = ["count", "-", "--output", "run"]
    assert piped(b"one two", *command, cwd=tmp_path).returncode == 0
    [copy] = (tmp_path / "run" / "stdin").iterdir()
    theirs = copy.with_name("0" * 32)
    theirs.write_text("precious")
    copy.write_text("two one")
    assert "changed since" in refused(run("count", "--output", "run", cwd=tmp_path), 1)
    assert piped(b"one two", *command, "--overwrite", cwd=tmp_path).returncode == 0
    assert copy.read_text() == "one two"
    assert theirs.read_text() == "precious"


def test_empty_input_and_dry_run_are_refused(tmp_path: Path) -> None:
    assert "standard input has no data" in refused(piped(b"", "count", "-", "--output", "run", cwd=tmp_path), 1)
    assert not (tmp_path / "run").exists()
    wrong = ["count", "-", "--input-format", "parquet", "--output", "run"]
    assert "stdin/" in refused(piped(b"no Parquet", *wrong, cwd=tmp_path), 1)
    assert not (tmp_path / "run").exists()
    assert "--dry-run" in refused(piped(b"text", "train", "-", "--dry-run", cwd=tmp_path), 2)
    closed = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -P -m pipeline count - --output run <&-"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert closed.returncode == 1
    assert "standard input is closed" in closed.stderr


def test_copies_of_killed_commands_are_deleted(tmp_path: Path) -> None:
    left = copy_of(tmp_path / "run" / "stdin", b"of a run that never was")
    (tmp_path / "run" / ".stdin.1.partial").write_text("half")
    assert piped(b"one two", "count", "-", "--output", "run", cwd=tmp_path).returncode == 0
    assert not left.exists()
    assert not (tmp_path / "run" / ".stdin.1.partial").exists()
