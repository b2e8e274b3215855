"""Each format read by the library that it is made for: the same ids over a whole set, with ids of 2 and 4 bytes."""

import json
import sys
import types
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from encoded import EOT, write_lines
from peers import generated_text

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.run.values import shard_formats
from bpe_pipeline.shards.formats import Block, Layout, Rows, ShardFacts, ShardFormat, shard_format
from bpe_pipeline.storage import Location

MISSING = "the extra [readers] is not installed"


@pytest.fixture(scope="module", params=[range(101, 111), range(256)], ids=["uint16", "uint32"])
def tokenizer(request: pytest.FixtureRequest) -> bpe_pipeline.Tokenizer:
    merges = [(bytes([first]), bytes([second])) for first in range(256) for second in request.param]
    return bpe_pipeline.Tokenizer.from_merges(merges, [EOT])


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [generated_text(seed, 100 + 40 * seed) for seed in range(20)] + ["", "日本語のテキスト", "x"]


@pytest.fixture
def corpus(texts: list[str], tmp_path: Path) -> Path:
    return write_lines(tmp_path / "a.jsonl", texts)


@pytest.fixture
def rows(tokenizer: bpe_pipeline.Tokenizer, texts: list[str]) -> list[list[int]]:
    return [[*tokenizer.encode(text), tokenizer.special_tokens[EOT]] for text in texts if text]


@pytest.fixture
def encode(tokenizer: bpe_pipeline.Tokenizer, corpus: Path, tmp_path: Path) -> Any:
    """Return what encodes the corpus to the directory `set`, in several shards."""
    return partial(bpe_pipeline.encode, corpus, tokenizer, tmp_path / "set", shard_size=9000, workers=2)


def test_datasets_reads_arrow(encode: Any, rows: list[list[int]], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason=MISSING)
    encode(shard_format="arrow")
    found = datasets.load_from_disk(str(tmp_path / "set"))
    assert len(list((tmp_path / "set").glob("data-*.arrow"))) > 1
    assert list(found["input_ids"]) == rows
    assert found.column_names == ["input_ids"]


def test_megatron_reads_an_indexed_dataset(encode: Any, rows: list[list[int]], tmp_path: Path) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", reason=MISSING)
    encode(shard_format="megatron")
    for mmap in (True, False):
        found = []
        for path in sorted((tmp_path / "set").glob("*.bin")):
            own = indexed.IndexedDataset(str(path.with_suffix("")), mmap=mmap)
            found += [own[at].tolist() for at in range(len(own))]
            assert own.document_indices.tolist() == list(range(len(own) + 1))
        assert found == rows


def test_streaming_reads_mds(encode: Any, rows: list[list[int]], tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming.base.dataset", reason=MISSING)
    encode(shard_format="mds", val_fraction=0.3)
    found = []
    for split in ("train", "validation"):
        own = streaming.StreamingDataset(local=str(tmp_path / "set"), split=split, shuffle=False, batch_size=1)
        found += [own[at]["input_ids"].tolist() for at in range(len(own))]
        assert len(found) > 3
    assert sorted(found) == sorted(rows)


def test_datasets_reads_both_splits_and_columns(encode: Any, rows: list[list[int]], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason=MISSING)
    encoded = encode(shard_format="arrow", val_fraction=0.3, sequence_length=64, pack="best-fit", shuffle=True)
    read = datasets.load_from_disk(str(tmp_path / "set"))
    assert list(read) == ["train", "validation"]
    packed = [row for split in read.values() for row in split]
    assert {len(values) for row in packed for values in row.values()} == {64}
    assert [*packed[0]] == ["input_ids", "position_ids", "document_ids"]
    kept = [id_ for row in packed for id_, part in zip(row["input_ids"], row["document_ids"], strict=True) if part]
    assert sorted(kept) == sorted(id_ for row in rows for id_ in row)
    assert sum(row["document_ids"].count(0) for row in packed) == sum(shard.padded or 0 for shard in encoded.shards)


def test_datasets_reads_parquet_and_numpy_reads_blocks(
    tokenizer: bpe_pipeline.Tokenizer, rows: list[list[int]], corpus: Path, tmp_path: Path
) -> None:
    numpy = pytest.importorskip("numpy")
    ids = [id_ for row in rows for id_ in row]
    blocks = [ids[start : start + 128] for start in range(0, len(ids) // 128 * 128, 128)]
    dtype = "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32"
    for name in ("npy", "bin", "parquet"):
        options = {"sequence_length": 128, "workers": 1, "single": True, "shard_format": name}
        bpe_pipeline.encode(corpus, tokenizer, tmp_path / name, **options)
    assert numpy.load(tmp_path / "npy" / "train.npy", mmap_mode="r").tolist() == blocks
    assert numpy.memmap(tmp_path / "bin" / "train.bin", dtype=dtype, mode="r").reshape(-1, 128).tolist() == blocks
    datasets, files = pytest.importorskip("datasets", reason=MISSING), str(tmp_path / "parquet" / "train.parquet")
    found = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert list(found["input_ids"]) == blocks


class Lines(ShardFormat):
    """A format of another package: ids as text, a line per row."""

    columns = False
    extension = "txt"

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        assert (second, layout.id_bytes) in ((None, 2), (None, 4))
        ids, ends = [], []
        for more in rows:
            ids += memoryview(more.columns["input_ids"]).tolist()
            ends += more.ends
        path.write_text("".join(f"{ids[start:stop]}\n" for start, stop in pairwise([0, *ends])))
        return len(ends)

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        raise AssertionError((where, second, layout, facts))


def test_another_package_adds_a_format(encode: Any, rows: list[list[int]], tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "packages" / "lines-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: lines\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[bpe_pipeline.shard_formats]\nlines = test_readers_lines:LINES\n")
    module = types.ModuleType("test_readers_lines")
    module.LINES = Lines()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "test_readers_lines", module)
    monkeypatch.syspath_prepend(str(package.parent))
    shard_formats.cache_clear()
    encode(shard_format="lines", shard_size=10**6)
    lines = (tmp_path / "set" / "shard-00000.txt").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    with pytest.raises(UsageError, match="one of lines, npy, bin, parquet, arrow, megatron, mds"):
        encode(shard_format="line")
    monkeypatch.undo()
    shard_formats.cache_clear()
    shard_format.cache_clear()
    with pytest.raises(InputError, match=r"shards.json cannot be read .the shard format 'lines' is none of npy, .*:"):
        bpe_pipeline.open_shards(tmp_path / "set")
