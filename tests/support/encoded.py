"""A corpus of all formats, the ids that its shards must hold, and reading them back."""

import bz2
import gzip
import json
import re
import struct
from array import array
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import peers
import pytest
from command import files_in

from bpe_pipeline import Tokenizer

EOT = "<|endoftext|>"
IM = "<|im|>"
TOKENIZER = Tokenizer.from_merges([(b"a", b"b"), (b"e", b"r")], [EOT])


def write_lines(path: Path, texts: list[str]) -> Path:
    """Write texts as JSON Lines."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def corpus_texts() -> list[bytes]:
    """Return the texts of the corpus, with separators in all positions, file by file and record by record."""
    texts = [peers.generated_text(seed, 400) for seed in range(12)]
    listed = [
        *(EOT.join(texts[:4]), f"{EOT}{texts[4]}{EOT}{EOT}{IM}user\n{texts[5]}{EOT}"),
        b"\xff\xff" + texts[6].encode() + b"\xe2\x82",
        *(f"{texts[7]}{EOT}{texts[8]}", texts[9], "", f"{texts[10]}{EOT}", f"x{EOT}y", IM, texts[11]),
        *(*texts[:3], "", "end"),
    ]
    return [text if isinstance(text, bytes) else text.encode() for text in listed]


def write_corpus(home: Path) -> Path:
    """Write these texts as plain and compressed text, JSON Lines and Parquet, and an empty file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    home.mkdir()
    texts = corpus_texts()
    for name, text in zip(("a.txt", "b.txt", "c.txt", "d.txt.gz"), texts[:4], strict=True):
        (home / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    (home / "e.txt").write_bytes(b"")
    write_lines(home / "f.jsonl", [text.decode() for text in texts[4:9]])
    with (home / "f.jsonl").open("a") as file:
        file.write('{"other": 1}\n')
    (home / "g.jsonl.bz2").write_bytes(bz2.compress(json.dumps({"text": texts[9].decode()}).encode()))
    table = pa.table({"text": [*(text.decode() for text in texts[10:13]), None, "", "end"]})
    pq.write_table(table, home / "h.parquet", row_group_size=2)
    return home


def kept_documents(text: bytes, special_tokens: Iterable[str], separator: str) -> list[bytes]:
    """Return the documents of a text that are UTF-8, each with the separator that ends it, if one does."""
    tokens = sorted(map(str.encode, special_tokens), key=len, reverse=True)
    documents = [b""]
    for part in re.split(b"(%s)" % b"|".join(map(re.escape, tokens)), text):
        documents[-1] += part
        if part == separator.encode():
            documents.append(b"")
    return [document for document in documents if document.decode(errors="ignore").encode() == document]


def expected(tokenizer: Tokenizer, texts: list[bytes], separator: str = EOT, errors: str = "replace") -> list[int]:
    """Return the ids by definition: each file or record is encoded, and ends with the separator, each document once.

    What the tokenizer adds around a text is around each document that is not empty.
    """
    model, end = tokenizer.model, tokenizer.special_tokens[separator]
    front, behind = ([tokenizer.special_tokens[text] for text in added] for added in (model.front, model.behind))
    behind = behind[:-1] if behind[-1:] == [end] else behind
    ids: list[int] = []
    for text in texts:
        stretches = kept_documents(text, tokenizer.model.separating, separator) if errors == "skip" else [text]
        own = [id_ for stretch in stretches for id_ in tokenizer.encode(stretch, add_special_tokens=False)]
        inside = False
        for id_ in own if not own or own[-1] == end else [*own, end]:
            around = behind if inside and id_ == end else front if not inside and id_ != end else []
            ids += [*around, id_]
            inside = id_ != end
    return ids


def shard_borders(ids: int, ends: list[int], most: int, *, whole: bool, row: int | None) -> list[tuple[int, int]]:
    """Return where each shard of that many ids starts and stops, by definition. ends: of documents.

    whole: whether shards end with documents; row: where a longer one is cut, if it is.
    """
    borders = [0]
    while borders[-1] < ids:
        start, limit = borders[-1], min(borders[-1] + most, ids)
        inside = [end for end in ends if start < end <= limit]
        cut = next((end for end in ends if end > limit), ids) if row is None else limit - (limit - start) % row
        borders.append((inside[-1] if inside else cut) if whole and limit < ids else limit)
    return list(pairwise(borders)) or [(0, 0)]


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
    code = "H" if dtype == "uint16" else "I"
    if path.suffix == ".npy":
        mapped = pytest.importorskip("numpy").load(path, mmap_mode="r", allow_pickle=False)
        assert mapped.dtype == dtype
        return list(mapped.tolist())
    if path.suffix in (".bin", ".mds"):
        data = path.read_bytes()
        return array(code, data).tolist() if path.suffix == ".bin" else _read_samples(data, code)
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.ipc.open_stream(path).read_all() if path.suffix == ".arrow" else pq.read_table(path)
    return [id_ for row in table.column("input_ids").to_pylist() for id_ in row]


def _read_samples(data: bytes, code: str) -> list[int]:
    """Read the only column of MDS: the length of the column, five bytes of its shape, its values."""
    (samples,) = struct.unpack_from("<I", data)
    offsets = struct.unpack_from(f"<{samples + 1}I", data, 4)
    return [id_ for start, stop in pairwise(offsets) for id_ in array(code, data[start + 9 : stop])]


def everything(directory: Path) -> dict[str, bytes]:
    """Return the files of a directory of shards, without its plan and log."""
    assert not (directory / "parts").exists()
    assert not (directory / "dealt").exists()
    assert [path.name for path in directory.rglob(".*") if path.name != ".lock"] == []
    return files_in(directory, but=("encoding.json", "log.txt", ".lock"))
