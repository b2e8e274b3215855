"""The one writer: the same bytes wherever it stops, and whatever the threads do."""

import contextlib
import errno
import fcntl
import json
import os
import random
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import peers
import pytest
from amount import FULL
from command import files_in
from encoded import EOT, everything, expected, read_shards
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base import system
from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.shards import writer
from bpe_pipeline.shards.bucket import OpenBucket
from bpe_pipeline.shards.finish import ShardPlace
from bpe_pipeline.shards.writer import Journal, Position


def text_of(path: Path, documents: int, words: int = 150) -> Path:
    texts = [peers.generated_text(seed, words) if seed % 4 else "" for seed in range(documents)]
    path.write_text(EOT.join(texts), newline="")
    return path


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is saved for each block, and blocks are small; so are buckets, and the memory to sort them."""
    monkeypatch.setattr(writer, "_PAUSE_S", -1.0)
    monkeypatch.setattr(writer, "_SAVING_SHARE", 0)
    monkeypatch.setattr("bpe_pipeline.shards.route._BUCKET_BYTES", 1000)
    monkeypatch.setattr("bpe_pipeline.shards.route._ENTRY_BYTES", 1 << 27)
    monkeypatch.setattr("bpe_pipeline.shards.encode_worker._BLOCK_IDS", 100)
    monkeypatch.setattr("bpe_pipeline.shards.encode_worker._BLOCK_BYTES", 300)


FORMATS = ["npy", "bin", "parquet", "arrow", "megatron", "mds"]
ROWS = st.fixed_dictionaries(
    {"sequence_length": st.integers(3, 90)},
    optional={"pack": st.sampled_from(["concat", "best-fit", "none"])},
)
OPTIONS = st.fixed_dictionaries(
    {"shard_format": st.sampled_from(FORMATS), "shard_size": st.integers(100, 1500) | st.integers(3, 12)},
    optional={
        "documents": st.sampled_from(["offsets", "separator"]),
        "val_fraction": st.floats(0.1, 0.9),
        "shuffle": st.booleans(),
        "sample": st.just("60%"),
        "max_document_chars": st.integers(20, 700),
    },
)


class Stopped(BaseException):
    """A stop where the journal is saved, before it or after, or where a shard is finished."""


def stopping(at: int, step: Any, *, after: bool) -> Any:
    """Return what does a step until the one with this number."""
    number = count()

    def stop(*own: Any) -> Any:
        last = next(number) == at
        done = None if last and not after else step(*own)
        if last:
            raise Stopped
        return done

    return stop


def spoil(home: Path, seed: int) -> None:
    """Append to the journal and the files of open buckets: they may have anything behind what the journal says."""
    position = json.loads((home / "journal").read_bytes())[1] if (home / "journal").exists() else {}
    if (lines := home / ".finished").exists():
        lines.write_bytes(lines.read_bytes() + b'\n["train", 0')
    shards = position.get("shards", {})
    for path in home.rglob(".*-*.*"):
        if path.suffix in (".ids", ".ends"):
            split, _, index = path.name[1:].partition(".")[0].rpartition("-")
            first = shards.get(split, {}).get("index", 0) if split != "bucket" else 0
            if int(index) >= first and (split != "bucket" or position.get("dealt") is None):
                with path.open("ab") as file:
                    file.write(random.Random(seed).randbytes(37))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.filterwarnings("ignore:--val-:UserWarning")
@settings(max_examples=300 if FULL else 8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=OPTIONS, rows=ROWS | st.just({}), chunk_size=st.integers(150, 3000), data=st.data())
def test_a_writer_that_was_stopped_resumes_with_the_same_bytes(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path_factory, options, rows, chunk_size: int, data: st.DataObject
) -> None:
    """It stops at up to three states of its journal, with other numbers of threads; what it wrote later is spoilt."""
    home = tmp_path_factory.mktemp("home")
    small = options["shard_size"] < 100
    documents = data.draw(st.sampled_from([7, 24]), "documents")  # too few to choose among, and enough
    text = text_of(home / "a.txt", documents, words=max((56 if small else 1050) // documents, 8))
    options = {**options, **rows, "chunk_size": chunk_size // (10 if small else 1)}
    encode = partial(bpe_pipeline.encode, text, tokenizer, **options)
    try:
        whole, output = encode(home / "whole", workers=1), home / "stopped"
    except InputError:  # a side of validation is empty
        reject()
    for at in data.draw(st.lists(st.integers(0, 25), min_size=1, max_size=3), "states"):
        with pytest.MonkeyPatch.context() as patched:
            kind, name = data.draw(
                st.sampled_from([(Journal, "save"), (Journal, "save"), (ShardPlace, "seal")]), "step"
            )
            step = stopping(at, getattr(kind, name), after=data.draw(st.booleans(), "after"))
            patched.setattr(kind, name, lambda *own: step(*own))  # noqa: B023 - of this round
            with contextlib.suppress(Stopped):
                encode(output, workers=data.draw(st.integers(1, 3), "workers"))
        if not (output / "shards.json").exists():
            spoil(output, at)
    assert encode(output, workers=2) == whole
    assert everything(output) == everything(home / "whole")


def test_directories_are_synced_when_the_journal_is_saved_not_for_shards(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, monkeypatch
) -> None:
    text, flush, synced = text_of(tmp_path / "a.txt", 4, words=30), system.flush, list[Path]()
    monkeypatch.setattr(system, "flush", lambda path: synced.append(path) or flush(path))
    result = bpe_pipeline.encode(text, tokenizer, tmp_path / "out", shard_size=5, chunk_size=200, workers=1)
    assert len(result.shards) > 50
    assert synced.count(tmp_path / "out") < 15


@pytest.fixture
def stopped(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """What encodes a text into shards; it was stopped once, when two shards were finished and a third one begun."""
    request.getfixturevalue("small_blocks")
    text, output = text_of(tmp_path / "a.txt", 9), tmp_path / "out"
    encode = partial(bpe_pipeline.encode, text, tokenizer, output, shard_size=900, chunk_size=700, workers=1)
    with pytest.MonkeyPatch.context() as patched:
        save = Journal.save

        def stop(journal: Journal, position: Position) -> None:
            save(journal, position)
            shard = position.shards["train"]
            if shard.index == 2 and shard.extent.ids > 100 and not position.closed:
                raise Stopped

        patched.setattr(Journal, "save", stop)
        with pytest.raises(Stopped):
            encode()
    assert len([*output.glob(".train-00001.*.ids")]) == 1
    assert not (output / "shard-00000.npy").exists()
    yield encode
    assert read_shards(output) == expected(tokenizer, [text.read_bytes()])


@pytest.mark.parametrize("damage", ["a changed id", "a short file", "no file", "a damaged journal"])
def test_damage_of_what_the_journal_speaks_of_is_found(stopped, tmp_path: Path, damage: str) -> None:
    output = tmp_path / "out"
    *_, begun = sorted(output.glob(".*.ids"))
    whole = bytearray(begun.read_bytes())
    whole[140] ^= 1
    if damage == "a changed id":
        begun.write_bytes(whole)
    elif damage == "a short file":
        begun.write_bytes(whole[:140])
    elif damage == "no file":
        begun.unlink()
    else:
        (output / "journal").write_bytes(b"{}\n" + (output / "journal").read_bytes())
        stopped()
        return
    with pytest.warns(UserWarning, match=r"what .*journal speaks of is not as it was written: encoding from the start"):
        stopped()


def test_what_is_written_is_not_encoded_again(stopped) -> None:
    written, resume = [], OpenBucket.resume

    def resumed(shard: OpenBucket, extent: Any) -> bool:
        written.append((shard.files.name, extent.ids))
        return resume(shard, extent)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(OpenBucket, "resume", resumed)
        stopped()
    [(name, ids)] = written
    assert name > "train-00000"
    assert ids > 0


@pytest.mark.parametrize("kind", ["a link", "another name"])
def test_begun_shard_with_another_name_is_refused(stopped, tmp_path: Path, kind: str) -> None:
    *_, begun = sorted((tmp_path / "out").glob(".*.ids"))
    begun.rename(other := tmp_path / "other")
    (begun.symlink_to if kind == "a link" else begun.hardlink_to)(other)
    before = other.read_bytes()
    with pytest.raises(RunDirectoryError, match=rf"{begun.name} .*remove"):
        stopped()
    assert other.read_bytes() == before
    begun.unlink()
    with pytest.warns(UserWarning, match="encoding from the start"):
        stopped()


@pytest.mark.usefixtures("small_blocks")
def test_the_rest_that_fills_no_row_is_left_out(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    """No shard is closed at the end then."""
    text = text_of(tmp_path / "a.txt", 3, words=20)
    ids = expected(tokenizer, [text.read_bytes()])
    for row in (size for size in range(2, 9) if len(ids) % size):
        options = {"sequence_length": row, "shard_size": row, "chunk_size": 100, "workers": 1}
        encoded = bpe_pipeline.encode(text, tokenizer, tmp_path / str(row), **options)
        assert encoded.tokens == len(ids) - len(ids) % row
        assert sum(shard.dropped or 0 for shard in encoded.shards) == len(ids) % row


@pytest.mark.one_of(2)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True}, {"shard_format": "parquet"}, {"val_fraction": 0.3}], ids=str
)
def test_the_journal_does_not_grow_with_the_corpus(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, monkeypatch, options: dict[str, Any]
) -> None:
    sizes: dict[int, list[int]] = {}
    save = Journal.save

    def saved(journal: Journal, position: Position) -> None:
        save(journal, position)
        sizes[documents].append(journal.path.stat().st_size)

    monkeypatch.setattr(Journal, "save", saved)
    for documents in (30, 90):
        sizes[documents] = []
        text = text_of(tmp_path / f"{documents}.txt", documents)
        output = tmp_path / str(documents)
        bpe_pipeline.encode(text, tokenizer, output, shard_size=900, chunk_size=700, workers=1, **options)
    assert len(sizes[90]) > 2 * len(sizes[30])
    assert max(sizes[90]) < (64 * 120 if "shuffle" in options else 1.1 * max(sizes[30]))  # of 64 buckets


@pytest.mark.usefixtures("small_blocks")
def test_a_writer_that_lost_its_directory_writes_nothing_more(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file system has no locks: while it was suspended, somebody removed its lock, and another began."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / "a.txt").write_text(EOT.join(peers.generated_text(seed, 300) for seed in range(9)))
    output, save, there = tmp_path / "out", Journal.save, dict[str, bytes]()
    encode = partial(bpe_pipeline.encode, tmp_path / "a.txt", tokenizer, output, chunk_size="1KiB", workers=1)

    def lose(journal: Journal, position: Position) -> None:
        save(journal, position)
        if position.source > 1 and not there:
            owner = json.loads((output / ".locked-by").read_text())
            (output / ".locked-by").write_text(json.dumps(owner | {"host": "elsewhere"}))
            there.update(files_in(output))

    monkeypatch.setattr(Journal, "save", lose)
    with pytest.raises(RunDirectoryError, match="was removed while this process worked"):
        encode(shard_size=700)
    assert files_in(output) == there
    assert all(len(path.name.split(".")[2]) == 16 for path in output.glob(".train-*.ids"))
