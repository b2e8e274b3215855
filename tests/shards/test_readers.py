"""Each format read by the library that it is made for: the same ids over a whole set, with ids of 2 and 4 bytes."""

import json
import sys
import types
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from encoded import EOT
from peers import generated_text

import pipeline
from pipeline.base.errors import InputError, UsageError
from pipeline.shards.formats.shard_format import Layout, Rows


def tokenizer_of(id_bytes: int) -> pipeline.Tokenizer:
    """Return a tokenizer whose ids take that many bytes."""
    seconds = range(256) if id_bytes == 4 else range(101, 111)
    merges = [(bytes([first]), bytes([second])) for first in range(256) for second in seconds]
    return pipeline.Tokenizer.from_merges(merges, [EOT])


@pytest.fixture(scope="module", params=[2, 4], ids=["uint16", "uint32"])
def tokenizer(request: pytest.FixtureRequest) -> pipeline.Tokenizer:
    return tokenizer_of(request.param)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [generated_text(seed, 100 + 40 * seed) for seed in range(20)] + ["", "日本語のテキスト", "x"]


@pytest.fixture
def corpus(texts: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def rows_of(tokenizer: pipeline.Tokenizer, texts: list[str]) -> list[list[int]]:
    return [[*tokenizer.encode(text), tokenizer.special_tokens[EOT]] for text in texts if text]


def test_datasets_reads_arrow(tokenizer: pipeline.Tokenizer, texts: list[str], corpus: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra [readers] is not installed")
    output = tmp_path / "set"
    pipeline.encode_corpus(corpus, tokenizer, output, shard_format="arrow", shard_size=9000, workers=2)
    rows = datasets.load_from_disk(str(output))
    assert len(list(output.glob("data-*.arrow"))) > 1
    assert list(rows["input_ids"]) == rows_of(tokenizer, texts)
    assert rows.column_names == ["input_ids"]


def test_megatron_reads_an_indexed_dataset(
    tokenizer: pipeline.Tokenizer, texts: list[str], corpus: Path, tmp_path: Path
) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", reason="[readers] is not installed")
    output = tmp_path / "set"
    pipeline.encode_corpus(corpus, tokenizer, output, shard_format="megatron", shard_size=9000, workers=2)
    found = []
    for path in sorted(output.glob("*.bin")):
        for mmap in (True, False):
            own = indexed.IndexedDataset(str(path.with_suffix("")), mmap=mmap)
            rows = [own[at].tolist() for at in range(len(own))]
            assert own.document_indices.tolist() == list(range(len(own) + 1))
        found += rows
    assert found == rows_of(tokenizer, texts)


def test_streaming_reads_mds(tokenizer: pipeline.Tokenizer, texts: list[str], corpus: Path, tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming.base.dataset", reason="[readers] is not installed")
    output = tmp_path / "set"
    options = {"shard_format": "mds", "shard_size": 9000, "val_fraction": 0.3, "workers": 2}
    pipeline.encode_corpus(corpus, tokenizer, output, **options)
    found = []
    for split in ("train", "validation"):
        own = streaming.StreamingDataset(local=str(output), split=split, shuffle=False, batch_size=1)
        found += [own[at]["input_ids"].tolist() for at in range(len(own))]
        assert len(found) > 3
    assert sorted(found) == sorted(rows_of(tokenizer, texts))


def test_datasets_reads_both_splits_and_columns(
    tokenizer: pipeline.Tokenizer, texts: list[str], corpus: Path, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra [readers] is not installed")
    output = tmp_path / "set"
    options = {"shard_format": "arrow", "val_fraction": 0.3, "sequence_length": 64, "pack": "best-fit", "workers": 2}
    encoded = pipeline.encode_corpus(corpus, tokenizer, output, shuffle=1, **options)
    read = datasets.load_from_disk(str(output))
    assert list(read) == ["train", "validation"]
    rows = [row for split in read.values() for row in split]
    assert {len(values) for row in rows for values in row.values()} == {64}
    assert [*rows[0]] == ["input_ids", "position_ids", "document_ids"]
    kept = [id_ for row in rows for id_, part in zip(row["input_ids"], row["document_ids"], strict=True) if part]
    assert sorted(kept) == sorted(id_ for row in rows_of(tokenizer, texts) for id_ in row)
    assert sum(row["document_ids"].count(0) for row in rows) == sum(shard.padded or 0 for shard in encoded.shards)


def test_datasets_reads_parquet_and_numpy_reads_blocks(
    tokenizer: pipeline.Tokenizer, texts: list[str], corpus: Path, tmp_path: Path
) -> None:
    numpy = pytest.importorskip("numpy")
    ids = [id_ for row in rows_of(tokenizer, texts) for id_ in row]
    blocks = [ids[start : start + 128] for start in range(0, len(ids) // 128 * 128, 128)]
    dtype = "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32"
    for name in ("train.npy", "train.bin", "train.parquet"):
        pipeline.encode_corpus(corpus, tokenizer, tmp_path / name, sequence_length=128, workers=1)
    assert numpy.load(tmp_path / "train.npy", mmap_mode="r").tolist() == blocks
    assert numpy.memmap(tmp_path / "train.bin", dtype=dtype, mode="r").reshape(-1, 128).tolist() == blocks
    datasets = pytest.importorskip("datasets", reason="the extra [readers] is not installed")
    rows = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "train.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert list(rows["input_ids"]) == blocks


class Lines:
    """A format of another package: ids as text, a line per row."""

    rows = True
    columns = False
    alone = False
    split_directories = False

    def names(self, index: int, shards: int, *, offsets: bool) -> tuple[str, str | None]:
        assert shards > index
        assert not offsets
        return f"shard-{index:05d}.txt", None

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        assert second is None
        ids, ends = [], []
        for more in rows:
            ids += memoryview(more.columns["input_ids"]).tolist()
            ends += more.ends
        assert layout.id_bytes == 2
        path.write_text("".join(f"{ids[start:stop]}\n" for start, stop in pairwise([0, *ends])))
        return len(ends)

    def index(self, layout: Layout, splits: object) -> dict[str, str]:
        assert layout.documents
        assert splits
        return {}


def test_another_package_adds_a_format(
    texts: list[str], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "lines-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: lines\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[bpe_pipeline.shard_formats]\nlines = test_readers_lines:LINES\n")
    module = types.ModuleType("test_readers_lines")
    module.LINES = Lines()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "test_readers_lines", module)
    monkeypatch.syspath_prepend(str(package.parent))
    tokenizer = tokenizer_of(2)
    pipeline.encode_corpus(corpus, tokenizer, tmp_path / "set", shard_format="lines", shard_size=10**6)
    rows = [json.loads(line) for line in (tmp_path / "set" / "shard-00000.txt").read_text().splitlines()]
    assert rows == rows_of(tokenizer, texts)
    with pytest.raises(UsageError, match="one of npy, bin, parquet, arrow, megatron, mds, lines"):
        pipeline.encode_corpus(corpus, tokenizer, tmp_path / "other", shard_format="line")
    monkeypatch.undo()
    with pytest.raises(
        InputError, match=r"shards.json cannot be read .the shard format 'lines' is none of npy, .*: install the"
    ):
        pipeline.open_shards(tmp_path / "set")
