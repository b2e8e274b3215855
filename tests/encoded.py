"""What shards must hold, and what they hold."""

import json
from array import array
from pathlib import Path

import pytest

from pipeline import Tokenizer

EOT = "<|endoftext|>"


def expected(tokenizer: Tokenizer, texts: list[bytes], separator: str = EOT) -> list[int]:
    """The definition: each file or record is encoded, and ends with the separator."""
    end = tokenizer.special_tokens[separator]
    ids: list[int] = []
    for text in texts:
        own = tokenizer.encode(text)
        ids += own if not own or own[-1] == end else [*own, end]
    return ids


def read_shards(directory: Path) -> list[int]:
    described = json.loads((directory / "shards.json").read_text())
    ids: list[int] = []
    for shard in described["shards"]:
        path = directory / shard["name"]
        own = _read_shard(path, described["dtype"])
        assert len(own) == shard["tokens"]
        assert path.stat().st_size == shard["bytes"]
        ids += own
    assert len(ids) == described["tokens"]
    return ids


def _read_shard(path: Path, dtype: str) -> list[int]:
    if path.suffix == ".npy":
        numpy = pytest.importorskip("numpy")
        mapped = numpy.load(path, mmap_mode="r", allow_pickle=False)
        assert mapped.dtype == dtype
        return list(mapped.tolist())
    if path.suffix == ".bin":
        return array("H" if dtype == "uint16" else "I", path.read_bytes()).tolist()
    import pyarrow.parquet as pq

    return [id_ for row in pq.read_table(path).column("input_ids").to_pylist() for id_ in row]


def everything(directory: Path) -> dict[str, bytes]:
    """What a directory of shards holds, apart from its plan and log."""
    assert not (directory / "parts").exists()
    assert [path.name for path in directory.rglob(".*") if path.name != ".lock"] == []
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.name not in ("encoding.json", "log.txt", ".lock")
    }
