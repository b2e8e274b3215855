"""Shards that are not as they were written give an error that names them, never text."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import InputError

EOT = "<|endoftext|>"
TOKENIZER = pipeline.Tokenizer.from_merges([(b"o", b"n"), (b"on", b"e")], special_tokens=[EOT])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(f"one{EOT}one on{EOT}end")
    return path


def encoded(corpus: Path, output: Path, **options: Any) -> Path:
    pipeline.encode_corpus(corpus, TOKENIZER, output, workers=1, **options)
    return output


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("shard_format", ["npy", "bin", "parquet"])
@pytest.mark.parametrize("documents", ["separator", "offsets"])
def test_a_bit_is_seen_before_any_text(corpus: Path, tmp_path: Path, shard_format: str, documents: str) -> None:
    output = encoded(corpus, tmp_path / "shards", shard_format=shard_format, documents=documents)
    assert b"".join(pipeline.decode_shards(output, TOKENIZER)) == f"one{EOT}one on{EOT}end{EOT}".encode()
    for path in output.glob("shard-*"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InputError, match=rf"shard-00000\.{shard_format} is damaged: .*CRC-32"):
            next(pipeline.decode_shards(output, TOKENIZER))
        path.write_bytes(whole)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("ends", [[6, 1, 10], [1, 6, 2**40]])
def test_offsets_out_of_order_are_refused(corpus: Path, tmp_path: Path, ends: list[int]) -> None:
    output = encoded(corpus, tmp_path / "shards", documents="offsets")
    described = json.loads((output / "shards.json").read_text())
    described["shards"][0]["offsets_crc32"] = None  # as a directory of before has none
    (output / "shards.json").write_text(json.dumps(described))
    path = output / "shard-00000.documents.npy"
    path.write_bytes(path.read_bytes()[:128] + array("Q", [0, *ends]).tobytes())
    with pytest.raises(InputError, match="its offsets are not in order"):
        list(pipeline.decode_shards(output, TOKENIZER))
