"""Each format read by the library that it is made for: the same ids over a whole set, with ids of 2 and 4 bytes."""

import json
from pathlib import Path

import pytest
from encoded import EOT
from peers import generated_text

import pipeline


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
