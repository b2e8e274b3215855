"""Shards back to text: damage is an error that names the file, never text; long rows are decoded in blocks."""

import json
import zlib
from array import array
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.base.errors import InputError

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


@pytest.mark.parametrize("shard_format", ["npy", "bin", "parquet"])
@pytest.mark.parametrize("documents", ["separator", "offsets"])
def test_flipped_bit_is_detected_before_any_text(
    corpus: Path, tmp_path: Path, shard_format: str, documents: str
) -> None:
    output = encoded(corpus, tmp_path / "shards", shard_format=shard_format, documents=documents)
    assert b"".join(pipeline.decode_shards(output, TOKENIZER)) == f"one{EOT}one on{EOT}end{EOT}".encode()
    for path in output.glob("shard-*"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InputError, match=rf"shard-00000\.{shard_format} is damaged: .*CRC-32"):
            next(pipeline.decode_shards(output, TOKENIZER))
        path.write_bytes(whole)


@pytest.mark.parametrize("ends", [[6, 1, 10], [1, 6, 2**40]])
def test_offsets_out_of_order_are_refused(corpus: Path, tmp_path: Path, ends: list[int]) -> None:
    output = encoded(corpus, tmp_path / "shards", documents="offsets")
    path = output / "shard-00000.documents.npy"
    path.write_bytes(path.read_bytes()[:128] + array("Q", [0, *ends]).tobytes())
    described = json.loads((output / "shards.json").read_text())
    described["shards"][0]["offsets_crc32"] = f"{zlib.crc32(path.read_bytes()):08x}"
    (output / "shards.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match="its offsets are not in order"):
        list(pipeline.decode_shards(output, TOKENIZER))


@pytest.mark.parametrize("id_bytes", [2, 4])
def test_parquet_shard_is_decoded_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id_bytes: int) -> None:
    text, output = tmp_path / "a.txt", tmp_path / "shards"
    text.write_text(EOT.join(["x" * 25, "", "one", "", "y" * 8, "", "z" * 5]))
    tokenizer = TOKENIZER
    if id_bytes == 4:
        tokenizer = pipeline.Tokenizer.from_merges([], special_tokens=[f"<{n}>" for n in range(66_000)] + [EOT])
    pipeline.encode_corpus(text, tokenizer, output, workers=1, shard_format="parquet", separator=EOT)
    whole = list(pipeline.decode_shards(output, tokenizer))
    monkeypatch.setattr("pipeline.shards.formats.parquet.BLOCK_IDS", 10)
    blocks = list(pipeline.decode_shards(output, tokenizer))
    assert b"".join(blocks) == b"".join(whole) == text.read_bytes() + EOT.encode()
    assert max(len(block.replace(EOT.encode(), b"")) for block in blocks) <= 10 * 3
    assert len(blocks) > 4


def test_wrong_values_in_shards_json_are_refused(corpus: Path, tmp_path: Path) -> None:
    output = encoded(corpus, tmp_path / "shards", documents="offsets")
    written = (output / "shards.json").read_text()
    wrong: dict[str, list[Any]] = {
        "format": ["zip", []], "dtype": ["int8"], "documents_by": [None], "tokens": ["5", -1], "separator": [5],
        "tokenizer": [None], "losses": [3, {"a": 1}], "shards": [5],
    }  # fmt: skip
    wrong_of_shard: dict[str, list[Any]] = {
        "name": [5, "../a", "log.txt"], "offsets": ["../a", 5], "tokens": [True], "documents": [1.0],
        "bytes": [None], "crc32": [1], "offsets_crc32": [1], "offsets_bytes": [""],
    }  # fmt: skip
    for named, in_shard in ((wrong, False), (wrong_of_shard, True)):
        for name, value in [(name, value) for name, values in named.items() for value in values]:
            described = json.loads(written)
            (described["shards"][0] if in_shard else described)[name] = value
            (output / "shards.json").write_text(json.dumps(described))
            with pytest.raises(InputError, match=r"shards\.json cannot be read .*; encode the corpus again"):
                list(pipeline.decode_shards(output, TOKENIZER))


def test_shards_of_another_encoding_than_the_manifest_are_refused(corpus: Path, tmp_path: Path) -> None:
    output, other = encoded(corpus, tmp_path / "shards"), encoded(corpus, tmp_path / "other", documents="offsets")
    (output / "encoding.json").write_bytes((other / "encoding.json").read_bytes())
    with pytest.raises(InputError, match=r"shards\.json is of another encoding than encoding\.json"):
        list(pipeline.decode_shards(output, TOKENIZER))
    (output / "encoding.json").unlink()  # shards alone, as they are copied
    assert list(pipeline.decode_shards(output, TOKENIZER))
