"""A remote location behaves as a local one does, over any file system of Arrow."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from command import run_here

import bpe_pipeline
from bpe_pipeline import _core, storage
from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, StorageError
from bpe_pipeline.counts import counter_file
from bpe_pipeline.merges import merge_list
from bpe_pipeline.run import manifest
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.storage import Location, Remote, RemoteError, atomic, location
from bpe_pipeline.storage import remote as stores
from bpe_pipeline.storage.remote import reason_of
from bpe_pipeline.tokenizer.formats.files import tokenizer_home

pytest.importorskip("fsspec")  # `fsspec+file://` is an object store to the package, and a directory to the tests


def remote(path: Path) -> Remote:
    where = location(f"fsspec+file://{path}")
    assert isinstance(where, Remote)
    return where


def test_remote_location_has_the_operations_of_a_path(tmp_path: Path) -> None:
    here = remote(tmp_path)
    atomic.make_directory(here / "a" / "b")
    atomic.write_whole(here / "a" / "b" / "c.txt", "text")
    atomic.write_whole(here / "a" / "b" / "c.txt", "other text")
    for root in (tmp_path, here):
        file = root / "a" / "b" / "c.txt"
        assert (file.exists(), file.is_file(), file.is_dir(), file.suffix) == (True, True, False, ".txt")
        assert (file.parent.exists(), file.parent.is_file(), file.parent.is_dir()) == (True, False, True)
        assert ((root / "no").exists(), (root / "no").is_file(), (root / "no").is_dir()) == (False, False, False)
        assert (file.read_bytes(), file.stat().st_size) == (b"other text", 10)
        assert storage.names_in(file.parent) == ["c.txt"]
        assert storage.names_in(root / "no") == []
        assert storage.existing([file, root / "no", file.parent / "d"]) == [True, False, False]
        for ask in ((root / "no").stat, (root / "no").read_bytes):
            with pytest.raises(FileNotFoundError, match="No such file or directory"):
                ask()
        with pytest.raises(FileNotFoundError):
            storage.open_file(root / "no")
        storage.remove(root / "no")
    storage.remove(here / "a" / "b" / "c.txt")
    assert storage.names_in(tmp_path / "a" / "b") == []
    storage.remove(here / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("small_bytes", [0, 1 << 20])
def test_remote_file_reads_as_a_local_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_bytes: int) -> None:
    for name, value in {"_SMALL_BYTES": small_bytes, "_LEAST_AHEAD": 10, "_MOST_AHEAD": 300}.items():
        monkeypatch.setattr(stores, name, value)
    data, path, moves = random.Random(1).randbytes(10_000), tmp_path / "data", random.Random(2)
    path.write_bytes(data)
    with storage.open_file(path) as ours, storage.open_file(remote(path)) as other:
        assert ours.state()[0] == other.state()[0] == len(data)
        for _ in range(600):
            move, amount, position = (moves.randrange(most) for most in (5, moves.choice([8, 700]), 11_000))
            for file in (ours, other):
                if move == 0:
                    assert file.seek(position) == position
                elif move == 1:
                    assert file.seek(0, os.SEEK_END) == len(data)
                elif move == 2:
                    assert file.read_at(position, amount) == data[position : position + amount]
            if move > 2:
                start, buffer = other.tell(), bytearray(amount)
                assert ours.tell() == start
                got = other.readinto(buffer)
                assert got == min(amount, max(len(data) - start, 0))
                assert buffer[:got] == data[start : start + got]
                ours.seek(start + got)
        other.seek(0)
        assert other.read() == data


def test_failing_store_is_not_a_damaged_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where Arrow reads through our file object: nothing is counted again because of it."""
    counter = _core.ChunkCounter(lambda document: [document], [])
    counter.add_pre_tokens([b"a", b"b"], [1, 2])
    path = remote(tmp_path) / "counter.parquet"
    counter_file.write_counter(path, counter_file.counter_partitions(counter), fingerprint="f")
    task = counter_file.LookTask([(path, "f"), (path, "g"), (path.with_name("no"), "f")])
    assert [facts and facts.rows for facts in counter_file.look(task)] == [2, None, None]

    down = Mock(side_effect=RemoteError(5, "the network is down", str(path)))
    monkeypatch.setattr(stores.RemoteFile, "_read_at", down)
    for ask in (lambda: counter_file.look(task), lambda: merge_list.load(path, "f")):
        with pytest.raises(StorageError, match=r"counter\.parquet cannot be read: the network is down"):
            ask()


@pytest.mark.parametrize(
    "command",
    [
        ["merge", "s3://b/r"],
        ["train", "s3://b/k", "--output", "HERE/run"],
        ["train", "HERE/a.txt", "--output", "s3://b/r"],
        ["train", "HERE/a.txt", "--config", "s3://b/c.yaml"],
        ["encode", "--tokenizer", "s3://b/k", "--text", "a"],
        ["encode", "--tokenizer", "s3://b/k", "s3://b/a.txt"],
        ["export", "s3://b/k"],
    ],
)
def test_refusal_of_a_store_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    denied = OSError("When doing so: AWS Error ACCESS_DENIED during HeadObject operation: No response body.")
    refuse = Mock(side_effect=denied)
    refusing = Mock(type_name="s3", get_file_info=refuse, open_input_file=refuse, delete_file=refuse)
    monkeypatch.setattr("bpe_pipeline.storage.remote._filesystem", Mock(return_value=(refusing, "b/")))
    monkeypatch.setattr("pyarrow.fs.copy_files", refuse)
    (tmp_path / "a.txt").write_text("text")
    done = run_here(*(word.replace("HERE", str(tmp_path)) for word in command))
    [line] = done.stderr.splitlines()
    assert done.returncode in (1, 2)
    assert "ACCESS_DENIED: No response body (check the credentials" in line
    assert "defect" not in line


def test_partly_written_file_never_appears_but_appended_text_does(tmp_path: Path) -> None:
    refused = pytest.raises(RunDirectoryError, match=r"/a cannot be written: No space left on device")
    with refused, atomic.whole_file(remote(tmp_path) / "a") as partial:
        partial.write_text("half")
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    for text in ("one ", "two ", "three"):
        interrupted = text == "two "
        raising = pytest.raises(KeyboardInterrupt) if interrupted else contextlib.nullcontext()
        with raising, atomic.appendable(remote(tmp_path) / "log.txt") as path:
            with path.open("a") as file:
                file.write(text)
            if interrupted:
                raise KeyboardInterrupt
    assert (tmp_path / "log.txt").read_text() == "one two three"


def test_json_round_trip_and_its_errors(tmp_path: Path) -> None:
    for file in (tmp_path / "a.json", remote(tmp_path) / "a.json"):
        atomic.write_json(file, {"é": [1]})
        assert storage.read_json(file) == {"é": [1]}
        with pytest.raises(ValueError, match="larger than 0 KiB"):
            storage.read_json(file, 5)
        for content, reason in (("[" * 100_000, "nested too deeply"), ("{", "Expecting property name")):
            atomic.write_whole(file, content)
            with pytest.raises(ValueError, match=reason):
                storage.read_json(file)
    with pytest.raises(FileNotFoundError):
        storage.read_json(tmp_path / "no.json")
    with pytest.raises(NotADirectoryError):
        storage.read_json(tmp_path / "a.json" / "no.json")
    with pytest.raises(StorageError, match=rf"{tmp_path} cannot be read: Is a directory; make it readable"):
        storage.read_json(tmp_path)


def test_store_that_does_not_answer_is_a_pipeline_error_of_one_line(tmp_path: Path, monkeypatch) -> None:
    run = remote(tmp_path / "run")
    bpe_pipeline.train([__file__], output=run, vocab_size=258)
    stored = manifest.require(run)

    monkeypatch.setattr(Remote, "_info", Mock(side_effect=RemoteError(5, "no answer", str(run))))
    for ask in (
        *(bpe_pipeline.verify, tokenizer_home, bpe_pipeline.Tokenizer.load),
        lambda _: manifest.store_merging(stored, make_options(TrainOptions, {"vocab_size": 258})),
        lambda _: bpe_pipeline.merge(run, vocab_size=257),
    ):
        with pytest.raises(PipelineError, match=r"no answer") as caught:
            ask(run)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", [Path, remote], ids=["local", "remote"])
def test_same_bytes_are_not_written_again(tmp_path: Path, place: Callable[[Path], Location]) -> None:
    """Only with `keep_same`; a byte more, less or of another value is written."""
    file, before = tmp_path / "a", 1_000_000_000
    for stored in (b"", b"some", b"some tex", b"some text", b"some text.", b"some tExt"):
        for keep_same in (False, True):
            file.write_bytes(stored)
            os.utime(file, ns=(before, before))
            with atomic.whole_file(place(tmp_path) / "a", keep_same=keep_same) as partial:
                partial.write_bytes(b"some text")
            assert file.read_bytes() == b"some text"
            assert (file.stat().st_mtime_ns == before) == (keep_same and stored == b"some text")
            assert list(tmp_path.iterdir()) == [file]
    with atomic.whole_file(place(tmp_path) / "b", keep_same=True) as partial:
        partial.write_bytes(b"")
    assert (tmp_path / "b").read_bytes() == b""


def test_transfer_that_breaks_off_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 4000
    refused = pytest.raises(RemoteError, match="it breaks off; run the same command again")
    for sent, ends in (([700_000, 0, 0, 3, 10**6], contextlib.nullcontext()), ([700_000, 0, 0], refused)):
        sent_bytes = iter(sent)

        def read_at(size: int, start: int, sent_bytes: Iterator[int] = sent_bytes) -> bytes:
            return data[start : start + min(size, next(sent_bytes, 0))]

        file = SimpleNamespace(size=lambda: len(data), read_at=read_at, close=lambda: None)
        monkeypatch.setattr(Remote, "open_input", lambda _, file=file: file)
        with storage.open_file(Remote("s3://b", "", "k")) as file, ends:
            assert file.read_at(7, len(data)) == data[7:]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Could not connect; Details: Failed",
            "cannot reach the store: curlCode: 7, Could not connect; Details: Failed (check the network",
        ),
        (
            "ACCESS_DENIED [code 15] during GetObject operation: Access\nDenied.",
            "ACCESS_DENIED: Access Denied (check the credentials",
        ),
        (
            "NO_SUCH_BUCKET during ListObjectsV2 operation: The bucket does not exist (Request ID: x)",
            "NO_SUCH_BUCKET: The bucket does not exist (check the bucket's name)",
        ),
        (
            "INTERNAL_FAILURE during ListObjectsV2 operation: No response body.",
            "INTERNAL_FAILURE: No response body (the store failed or was busy, after several attempts: run the same",
        ),
        ("UNKNOWN (HTTP status 503) during PutObject operation: Busy", "UNKNOWN: Busy (the store failed"),
    ],
)
def test_store_messages_become_one_line(message: str, reason: str) -> None:
    for front in ("", "When getting information for key 'x' in bucket 'b': ", "When reading '': "):
        found = reason_of(OSError(f"{front}AWS Error {message}"))
        assert found.startswith(reason)
        assert len(found) < 400
    assert (reason_of(OSError("")), reason_of(OSError("x" * 1000))) == ("OSError", "x" * 239 + "…")
