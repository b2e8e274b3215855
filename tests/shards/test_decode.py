"""Shards back to text: damage is an error that names the file, never text; long rows are decoded in blocks."""

import json
import zlib
from array import array
from pathlib import Path
from typing import Any

import pytest

import bpe_pipeline
from bpe_pipeline.base.errors import InputError

EOT = "<|endoftext|>"
TOKENIZER = bpe_pipeline.Tokenizer.from_merges([(b"o", b"n"), (b"on", b"e")], special_tokens=[EOT])


def encoded(output: Path, **options: Any) -> Path:
    output.with_name("a.txt").write_text(f"one{EOT}one on{EOT}end")
    bpe_pipeline.encode(output.with_name("a.txt"), TOKENIZER, output, workers=1, **options)
    return output


@pytest.mark.parametrize("shard_format", ["npy", "bin", "parquet"])
@pytest.mark.parametrize("documents", ["separator", "offsets"])
def test_flipped_bit_is_detected_before_any_text(tmp_path: Path, shard_format: str, documents: str) -> None:
    output = encoded(tmp_path / "shards", shard_format=shard_format, documents=documents)
    assert b"".join(bpe_pipeline.decode(output, TOKENIZER)) == f"one{EOT}one on{EOT}end{EOT}".encode()
    for path in output.glob("shard-*"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InputError, match=rf"shard-00000\.{shard_format} is damaged: .*CRC-32"):
            next(bpe_pipeline.decode(output, TOKENIZER))
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("shard_format", "file", "change", "reason"),
    [
        *((name, "name", lambda data: data[:-2], "it holds 9 tokens, not 10") for name in ("npy", "bin", "mds")),
        *((name, "name", lambda data: data[:-2], "") for name in ("arrow", "parquet")),
        ("npy", "name", lambda data: data[1:], "its header is not as it was written"),
        *(("mds", "name", lambda data, size=size: data[:size], "its samples are not") for size in (0, 20, -1)),
        ("megatron", "offsets", lambda data: data[:20], "the header of its index is not as it was written"),
        ("npy", "offsets", lambda data: b"x" + data[1:], "the header of its offsets is not as it was written"),
        ("npy", "offsets", lambda data: data[:128] + array("Q", [0, 6, 1, 10]), "its offsets are not in order"),
        ("npy", "offsets", lambda data: data[:128] + array("Q", [0, 1, 6, 1 << 40]), "its offsets are not in order"),
        ("npy", "offsets", {"documents": 9}, "there are fewer offsets than documents"),
        ("parquet", "name", {"tokens": 11}, "it holds 10 tokens, not 11"),
    ],
)
def test_damage_under_a_right_checksum_is_refused(tmp_path: Path, shard_format, file, change, reason) -> None:
    documents = "offsets" if (shard_format, file) == ("npy", "offsets") else "separator"
    output = encoded(tmp_path / "shards", shard_format=shard_format, documents=documents)
    described = json.loads((output / "shards.json").read_text())
    facts = described["shards"][0]
    path = output / facts[file]
    path.write_bytes(changed := change(path.read_bytes()) if callable(change) else path.read_bytes())
    facts |= {"crc32" if file == "name" else "offsets_crc32": f"{zlib.crc32(changed):08x}"}
    facts |= {} if callable(change) else change
    (output / "shards.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match=rf"is damaged: .*{reason}.*; restore it"):
        list(bpe_pipeline.decode(output, TOKENIZER))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("shard_format", ["parquet", "mds"])
@pytest.mark.parametrize("id_bytes", [2, 4])
def test_long_rows_are_decoded_in_blocks(tmp_path: Path, monkeypatch, id_bytes: int, shard_format: str) -> None:
    text, output = tmp_path / "a.txt", tmp_path / "shards"
    text.write_text(EOT.join(["x" * 25, "", "one", "", "y" * 8, "", "z" * 5]))
    tokenizer = TOKENIZER
    if id_bytes == 4:
        tokenizer = bpe_pipeline.Tokenizer.from_merges([], special_tokens=[f"<{n}>" for n in range(66_000)] + [EOT])
    bpe_pipeline.encode(text, tokenizer, output, workers=1, shard_format=shard_format, separator=EOT)
    whole = list(bpe_pipeline.decode(output, tokenizer))
    monkeypatch.setattr("bpe_pipeline.shards.read.BLOCK_IDS", 10)
    blocks = list(bpe_pipeline.decode(output, tokenizer))
    assert b"".join(blocks) == b"".join(whole) == text.read_bytes() + EOT.encode()
    assert max(len(block.replace(EOT.encode(), b"")) for block in blocks) <= 10 * 3
    assert len(blocks) > 4


@pytest.mark.parametrize("shard_format", ["arrow", "parquet", "mds"])
@pytest.mark.parametrize("order", [{}, {"val_fraction": 0.4}, {"shuffle": True}], ids=str)
@pytest.mark.filterwarnings("ignore:--val-:UserWarning")
def test_rows_with_more_columns_are_decoded(tmp_path: Path, shard_format: str, order: dict[str, Any]) -> None:
    options = {"sequence_length": 4, "pack": "best-fit", **order}
    output = encoded(tmp_path / "shards", shard_format=shard_format, **options)
    text = b"".join(bpe_pipeline.decode(output, TOKENIZER)).decode()
    documents = [document for document in text.split(EOT) if document]
    assert sorted(documents) == sorted(["one", "one on", "end"])


def test_wrong_values_in_shards_json_are_refused(tmp_path: Path) -> None:
    output = encoded(tmp_path / "shards", documents="offsets")
    written = (output / "shards.json").read_text()
    wrong: dict[str, list[Any]] = {
        "format": ["zip", []],
        "dtype": ["int8"],
        "documents_by": [None],
        "tokens": ["5", -1],
        "separator": [5],
        "tokenizer": [None],
        "losses": [3, {"a": 1}, {"a": {"count": 1, "examples": [5]}}],
        "shards": [5],
        "separator_id": [None],
        "columns": [{"x": "int8"}],
        "format_version": [99],
    }
    wrong_of_shard: dict[str, list[Any]] = {
        "name": [5, "../a", "log.txt"],
        "offsets": ["../a", 5],
        "tokens": [True],
        "documents": [1.0],
        "bytes": [None],
        "crc32": [1],
        "offsets_crc32": [1],
        "offsets_bytes": [""],
    }
    for named, in_shard in ((wrong, False), (wrong_of_shard, True)):
        for name, value in [(name, value) for name, values in named.items() for value in values]:
            described = json.loads(written)
            (described["shards"][0] if in_shard else described)[name] = value
            (output / "shards.json").write_text(json.dumps(described))
            with pytest.raises(InputError, match=r"shards\.json cannot be read .*; encode the corpus again"):
                list(bpe_pipeline.decode(output, TOKENIZER))


def test_shards_of_another_encoding_than_the_manifest_are_refused(tmp_path: Path) -> None:
    output, other = encoded(tmp_path / "shards"), encoded(tmp_path / "other", documents="offsets")
    (output / "encoding.json").write_bytes((other / "encoding.json").read_bytes())
    with pytest.raises(InputError, match=r"shards\.json is of another encoding than encoding\.json"):
        list(bpe_pipeline.decode(output, TOKENIZER))
    (output / "encoding.json").unlink()  # shards alone, as they are copied
    assert list(bpe_pipeline.decode(output, TOKENIZER))
    (output / "shard-00009.npy").write_bytes((output / "shard-00000.npy").read_bytes())
    with pytest.raises(InputError, match=r"shard-00009\.npy is not among the shards of .*: name one that shards\.json"):
        list(bpe_pipeline.decode(output / "shard-00009.npy", TOKENIZER))
