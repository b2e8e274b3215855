"""Shards that are written in place: whatever is in them early and whatever comes from parts, they are the same."""

import random
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import peers
import pytest
from encoded import EOT, everything, expected, read_shards
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.base import system
from pipeline.base.errors import RunDirectoryError, WorkerError
from pipeline.shards.begun_shards import BegunShards, KeptIds, crc32_of_both
from pipeline.shards.write_worker import write_shard


@given(one=st.binary(), other=st.binary())
def test_crc32_of_two_texts_is_that_of_both_together(one: bytes, other: bytes) -> None:
    assert crc32_of_both(zlib.crc32(one), zlib.crc32(other), len(other)) == zlib.crc32(one + other)


def text_of(path: Path, documents: int, words: int = 150) -> Path:
    texts = [peers.generated_text(seed, words) if seed % 4 else "" for seed in range(documents)]
    path.write_text(EOT.join(texts), newline="")
    return path


@pytest.mark.parametrize("name", ["shards", "all.bin"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shard_size=st.integers(100, 1500) | st.integers(1, 7),
    chunk_size=st.integers(150, 3000),
    most=st.integers(0, 9) | st.just(1000),
    late=st.floats(0, 1),
    kept_bytes=st.sampled_from([0, 300, 2000, 1 << 20]),
    seed=st.integers(0, 99),
)
def test_shards_do_not_depend_on_what_is_in_place(
    tokenizer: pipeline.Tokenizer,
    tmp_path_factory,
    monkeypatch,
    name: str,
    shard_size: int,
    chunk_size: int,
    most: int,
    late: float,
    kept_bytes: int,
    seed: int,
) -> None:
    """Some chunks end before others in front of them, some have too many ids, some shards must not be begun."""
    home, chance = tmp_path_factory.mktemp("home"), random.Random(seed)
    small = shard_size < 100  # a shard is a few ids, so that most borders of chunks are borders of shards
    text, offset = text_of(home / "a.txt", 7, words=8 if small else 150), BegunShards.offset
    chunk_size //= 10 if small else 1
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.shards.begun_shards._MOST_SHARDS", most)
        patched.setattr("pipeline.shards.encode.MOST_KEPT_BYTES", kept_bytes)
        patched.setattr(BegunShards, "offset", lambda *own: None if chance.random() < late else offset(*own))
        sizes = {"shard_size": shard_size, "chunk_size": chunk_size}
        encode = partial(pipeline.encode_corpus, text, tokenizer, home / name, workers=1, **sizes)
        result = encode()
        before = everything(home)
        assert encode() == result  # it reads all files: their checksums are right
    assert everything(home) == before
    wanted = expected(tokenizer, [text.read_bytes()])
    if name == "shards":
        assert read_shards(home / name) == wanted
        assert [shard.tokens for shard in result.shards[:-1]] == [shard_size] * (len(result.shards) - 1)
    else:
        assert memoryview((home / name).read_bytes()).cast("H").tolist() == wanted
    at = 0
    for shard in result.shards:
        assert shard.documents == wanted[at : at + shard.tokens].count(tokenizer.special_tokens[EOT])
        at += shard.tokens
    assert not list(home.rglob(".*.begun"))


@pytest.mark.parametrize("in_part", [0, 1])
def test_border_of_a_shard_is_that_of_a_chunk_whose_neighbour_is_in_its_part(
    tokenizer: pipeline.Tokenizer, tmp_path: Path, monkeypatch, in_part: int
) -> None:
    """One shard has all ids of a chunk in place, the other one all of the next or the previous chunk from its part."""
    texts = [text_of(tmp_path / name, 3) for name in ("a.txt", "b.txt")]
    wanted = expected(tokenizer, [text.read_bytes() for text in texts])
    sizes = {"chunk_size": texts[0].stat().st_size, "shard_size": len(wanted) // 2}
    take = BegunShards.take
    with monkeypatch.context() as patched:
        patched.setattr(
            BegunShards, "take", lambda own, at, ids: at != in_part * len(wanted) // 2 and take(own, at, ids)
        )
        result = pipeline.encode_corpus(texts, tokenizer, tmp_path / "out", workers=1, **sizes)
    assert [shard.tokens for shard in result.shards] == [len(wanted) // 2] * 2
    assert read_shards(tmp_path / "out") == wanted


@pytest.mark.parametrize("shard_format", ["npy", "parquet"])
def test_directories_are_synced_for_chunks_and_stages_not_for_shards(
    tokenizer: pipeline.Tokenizer, tmp_path: Path, monkeypatch, shard_format: str
) -> None:
    text, flush, synced = text_of(tmp_path / "a.txt", 4, words=30), system.flush, list[Path]()
    monkeypatch.setattr(system, "flush", lambda path: synced.append(path) or flush(path))
    options = {"shard_format": shard_format, "shard_size": 5, "chunk_size": 200, "workers": 1}
    result = pipeline.encode_corpus(text, tokenizer, tmp_path / "out", **options)
    chunks = -(-text.stat().st_size // 200)
    assert len(result.shards) > 4 * chunks
    assert chunks < synced.count(tmp_path / "out") + synced.count(tmp_path / "out" / "parts") < 3 * chunks + 9


def test_what_is_damaged_while_shards_are_written_is_found(tokenizer, tmp_path: Path, monkeypatch) -> None:
    """A stop while shards are completed, and then each kind of damage: nothing wrong is written, and a remedy works."""
    text, output = text_of(tmp_path / "a.txt", 9), tmp_path / "out"
    encode = partial(pipeline.encode_corpus, text, tokenizer, output, shard_size=900, chunk_size=700, workers=1)
    encode()
    whole = everything(output)

    def stop() -> list[Path]:  # after the first shard
        with monkeypatch.context() as patched:
            patched.setattr(
                "pipeline.shards.encode.write_shard", lambda task: write_shard(task) if "00000" in str(task) else 1 // 0
            )
            with pytest.raises(WorkerError, match="ZeroDivisionError"):
                encode(overwrite=True)
        assert all(path.stat().st_size < 1000 for path in output.glob("parts/*"))  # the ids are in the shards
        return sorted(output.glob(".*.begun"))

    complete = output / "shard-00000.npy"
    for damage in ("nothing", "a begun shard", "a complete shard", "a short shard", "no shard", "a part"):
        begun = stop()
        assert len(begun) == len(whole) - 2
        time_ns = complete.stat().st_mtime_ns
        if damage in ("a begun shard", "a complete shard"):
            path = complete if damage == "a complete shard" else begun[1]
            data = bytearray(path.read_bytes())
            data[-9] ^= 1
            path.write_bytes(data)
            with pytest.raises(
                RunDirectoryError, match=rf"{path.name} is damaged .* remove that file and run the same"
            ):
                encode()
            path.unlink()
        elif damage == "a short shard":
            begun[1].write_bytes(begun[1].read_bytes()[:-40])
        elif damage == "no shard":
            begun[0].unlink()
            complete.unlink()
        elif damage == "a part":
            (output / "parts" / "000002.ids").write_bytes(b"")
        encode()
        assert everything(output) == whole, damage
        if damage in ("nothing", "a begun shard", "a short shard", "a part"):
            assert complete.stat().st_mtime_ns == time_ns  # what is complete is not written again


@pytest.mark.parametrize("kind", ["gone", "a link", "another name"])
def test_begun_shard_that_others_change_is_refused(tokenizer, tmp_path: Path, monkeypatch, kind: str) -> None:
    text, output, finish = text_of(tmp_path / "a.txt", 9), tmp_path / "out", KeptIds.finish
    begun, other = output / ".shard-00000.npy.begun", tmp_path / "other"
    calls, before = iter(range(99)), []

    def change(*own: Any) -> Any:
        if third := next(calls) == 2:
            before.append(begun.read_bytes())
            begun.rename(other)
        if third and kind != "gone":
            (begun.symlink_to if kind == "a link" else begun.hardlink_to)(other)
        return finish(*own)

    encode = partial(pipeline.encode_corpus, text, tokenizer, output, chunk_size=700, workers=1)
    refused = pytest.raises((RunDirectoryError, WorkerError), match=rf"{begun.name} .*remove")
    with monkeypatch.context() as patched, refused:
        patched.setattr(KeptIds, "finish", change)
        encode()
    assert before == [other.read_bytes()]  # nothing was written behind the name
    begun.unlink()
    encode()
    assert read_shards(output) == expected(tokenizer, [text.read_bytes()])
