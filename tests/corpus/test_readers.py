"""The same documents give the same counts in every format and compression; what contradicts itself is refused."""

import bz2
import gzip
import json
import lzma
import random
from pathlib import Path

import command
import oracle_counting
import peers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import FULL
from chunk_tasks import EOT, count
from corpus_files import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import InputError, InvalidTextError
from bpe_pipeline.corpus import readers
from bpe_pipeline.corpus.files import FileSpan, FileType
from bpe_pipeline.corpus.formats import lines
from bpe_pipeline.corpus.formats.lines import read_lines
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.readers import read_span

COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd, "": bytes}


def as_text(documents: list[str]) -> bytes:
    return EOT.join(document.encode() for document in documents)


def as_jsonl(documents: list[str], ascii_only: bool = True) -> bytes:
    records = ({"n": number, "text": document} for number, document in enumerate(documents))
    return b"".join(json.dumps(record, ensure_ascii=ascii_only).encode() + b"\n" for record in records)


DOCUMENTS = st.lists(st.text(st.sampled_from("ab's 1é日\n\"\\😀."), max_size=30), min_size=1, max_size=30)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DOCUMENTS, st.integers(20, 400), st.booleans())
def test_every_format_and_chunk_size_counts_the_same(tmp_path, documents, chunk_bytes, ascii_only):
    expected = sum((oracle_counting.count(document.encode()) for document in documents), oracle_counting.Counter())
    (tmp_path / "a.txt").write_bytes(as_text(documents) or b"\n")
    (tmp_path / "a.jsonl").write_bytes(as_jsonl(documents, ascii_only))
    pq.write_table(pa.table({"text": documents}), tmp_path / "a.parquet", row_group_size=3)
    for name in ("a.txt", "a.jsonl", "a.parquet")[not any(documents) :]:
        assert count(tmp_path, name, chunk_bytes=chunk_bytes)[:2] == (expected, sum(map(bool, documents)))


LINES = st.lists(st.sampled_from(["a", "b c", "'s", "\n", "\r\n", "\n\n", "\r", " ", "é日", EOT.decode()]), max_size=60)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES.map("".join), st.integers(5, 400), st.sampled_from(list(COMPRESS)), st.integers(1, 50))
def test_lines_with_their_endings_are_documents(tmp_path, text, chunk_bytes, suffix, block_bytes):
    expected, number = oracle_counting.Counter(), 0
    for line in text.split("\n"):
        ended = line.encode() + b"\n"
        expected.update(oracle_counting.count(ended, [EOT]))
        number += len(oracle_counting.documents(ended, [EOT]))
    data = text.encode() + b"\n"
    (tmp_path / f"a.txt{suffix}").write_bytes(COMPRESS[suffix](data))
    asked = FileType("lines")
    assert count(tmp_path, f"a.txt{suffix}", chunk_bytes=chunk_bytes, asked=asked)[:2] == (expected, number)
    blocks = [data[at : at + block_bytes] for at in range(0, len(data), block_bytes)]
    found = []
    for records in read_lines(describe(str(tmp_path / f"a.txt{suffix}"), asked), blocks, 0):
        for row in range(records.rows):
            start, stop = records.offsets[row : row + 2]
            found.append(records.data[start:stop])
            position = records.position(row)
            assert data[position : position + stop - start] == found[-1]
    assert found == [line + b"\n" for line in data.split(b"\n")[:-1]]


def test_last_line_need_not_end_and_long_lines_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = FileType("lines")
    (tmp_path / "a.txt").write_bytes(b"one two\none\n" + b"x" * 300 + b"\nlast")
    assert count(tmp_path, "a.txt", asked=asked)[1:] == (4, {})
    monkeypatch.setattr(lines, "MOST_LINE_BYTES", 200)
    monkeypatch.setattr(readers, "BLOCK_BYTES", 100)
    counter, documents, lost = count(tmp_path, "a.txt", asked=asked)
    assert (documents, counter[b"last"], sum(counter.values())) == (3, 1, 6)
    assert lost == {"records_too_long": {"count": 1, "examples": [f"{tmp_path}/a.txt, byte 12"]}}
    with pytest.raises(InputError, match=r"a\.txt ends at byte 317, before the planned 400: it changed while"):
        list(read_span(FileSpan(describe(str(tmp_path / "a.txt")), 0, 400), "text", [].append))


@pytest.mark.slow
def test_every_compression_counts_the_same_alone_and_mixed(tmp_path: Path) -> None:
    documents = [peers.generated_text(seed, 400) + " é日本😀" for seed in range(40)]
    documents += ["", f"one{EOT.decode()}two", "two " * 270_000]
    plain = as_text(documents)
    expected = oracle_counting.count(plain, [EOT])
    number = len(oracle_counting.documents(plain, [EOT]))
    names = ["a.parquet"]
    for suffix, compress in COMPRESS.items():  # streams that follow each other are one text
        streams = [b"", plain[:5000], b"", b"", plain[5000:], b""]
        (tmp_path / f"a.txt{suffix}").write_bytes(b"".join(map(compress, streams)))
        (tmp_path / f"a.json{suffix}").write_bytes(compress(as_jsonl(documents)))
        names += [f"a.txt{suffix}", f"a.json{suffix}"]
    pq.write_table(pa.table({"text": documents}), tmp_path / "a.parquet", row_group_size=7, compression="zstd")
    for name in names:
        assert count(tmp_path, name) == (expected, number, {}), name
        file, reported = describe(str(tmp_path / name)), list[int]()
        list(read_span(FileSpan(file, 0, 7 if file.format == "parquet" else file.size), "text", reported.append))
        assert file.format == "parquet" or sum(reported) == file.size
    both = count(tmp_path, *names, chunk_bytes=30_000)
    assert both == ({pre_token: times * len(names) for pre_token, times in expected.items()}, number * len(names), {})


def parquet(texts: list[bytes | None]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": pa.array(texts, pa.binary())}), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("no-suffix", gzip.compress(b"plain", mtime=0), "text gzip"),
        ("b.txt", bz2.compress(b"plain"), "text bzip2"),
        ("c.txt", parquet([b"a"]), "parquet none"),
        ("d.txt", b"BZh was here, PAR1 too", "text none"),
        ("f.ndjson.ZST", zstd(b"{}"), "jsonl zstd"),
        ("g.pq.txt", b"plain text", "text none"),
    ],
)
def test_content_decides_before_the_name(tmp_path, name, content, kind) -> None:
    (tmp_path / name).write_bytes(content)
    file = describe(str(tmp_path / name))
    assert f"{file.format} {file.compression}" == kind


@pytest.mark.parametrize(
    ("name", "content", "asked", "reason"),
    [
        ("a.txt.gz", b"no gzip", FileType(), "is named as gzip but does not begin as such: restore it"),
        ("a.parquet", b"no Parquet", FileType(), "is named as Parquet but does not begin as one: restore it"),
        ("a.gz", gzip.compress(b"PAR1\x15\x04", mtime=0), FileType(), "Parquet file compressed as a whole with gzip"),
        ("a.txt", b"text", FileType("parquet"), "cannot be read as Parquet"),
        ("a.txt", zstd(b"text"), FileType("parquet"), "is a Parquet file compressed as a whole"),
        ("a.json.gz", gzip.compress(b'{\n "text": "a"}', mtime=0), FileType(), "is JSON but not JSON Lines"),
    ],
)
def test_contradictory_files_are_errors(tmp_path: Path, name, content, asked, reason) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}.*{reason}"):
        count(tmp_path, name, asked=asked)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_damaged_stream_names_the_position(tmp_path: Path, suffix: str) -> None:
    whole = COMPRESS[suffix](random.Random(1).randbytes(200_000).hex().encode())
    middle = len(whole) // 2
    damaged = [(whole[:-cut], r" .* damaged or truncated before its end") for cut in (1, 9, middle)]
    damaged.append((whole + (b"BZh9 garbage" if suffix == ".bz2" else b"garbage"), ""))  # bzip2 ignores other bytes
    if suffix != ".zst":  # Arrow writes no checksum there; `zstd` does
        damaged.append((whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], ""))
    for content, reason in damaged:
        (tmp_path / f"a{suffix}").write_bytes(content)
        with pytest.raises(InputError, match=rf"a{suffix} cannot be decompressed{reason}"):
            count(tmp_path, f"a{suffix}")


RECORDS = b"""{"text":"fine"}\n{"text":"\\ud800 a\xff"}\nno JSON\n{"text":5}\n{"other":1}\n{"text":"yes"}"""


@pytest.mark.parametrize(
    ("name", "content", "options", "losses"),
    [
        (
            "a.txt",
            b"fine \xff and \xffff",
            {},
            {"replacements": [", byte 5", ", byte 11"]},
        ),
        (
            "b.gz",
            gzip.compress(b"ok" + EOT + b"bad \xff" + EOT + b"ok", mtime=0),
            {"errors": "skip"},
            {"documents_skipped": [", byte 19 of the decompressed text"]},
        ),
        (
            "c.jsonl",
            RECORDS,
            {"chunk_bytes": 20},
            {
                "replacements": [", byte 16", ", byte 16"],
                "records_not_json": [", byte 37"],
                "records_not_text": [", byte 45"],
                "records_without_field": [", byte 56"],
            },
        ),
        (
            "d.parquet",
            parquet([b"a", None, b"b\xff"]),
            {},
            {"records_without_field": [", row 1"], "replacements": [", row 2"]},
        ),
        ("e.gz", gzip.compress(b"", mtime=0), {}, {"files_empty": [""]}),
        ("f.jsonl", b" \n\r\n", {}, {"files_empty": [""]}),
    ],
)
def test_skipped_and_altered_input_has_locations(tmp_path: Path, name, content, options, losses) -> None:
    (tmp_path / name).write_bytes(content)
    counter, documents, lost = count(tmp_path, name, **options)
    assert lost == {
        kind: {"count": len(places), "examples": [f"{tmp_path}/{name}{place}" for place in places]}
        for kind, places in losses.items()
    }
    if name == "c.jsonl":
        assert (documents, counter[b"fine"], counter[b" a"], counter["\ufffd".encode()]) == (3, 1, 1, 2)
    if name == "d.parquet":
        with pytest.raises(InvalidTextError, match=r"invalid UTF-8 in .*d\.parquet, row 2; fix it"):
            count(tmp_path, name, errors="strict")


BOUNDED = """
import sys
from memory_peak import growth
from chunk_tasks import count
from pathlib import Path
grown = growth()
total, documents, lost = count(Path(sys.argv[1]), sys.argv[2])
print(sum(len(pre_token) * times for pre_token, times in total.items()), documents, *lost, grown() >> 20)
"""
MIB = 1 << 20
BOMBS = {  # the beginning, compression, what follows how often, the bytes of its pre-tokens, documents, losses
    "bomb.txt.gz": (b"", gzip.compress, (b"word \n" * 10 + b"abc\n") * (MIB // 64), 128, 128 * MIB, "1"),
    "bomb.jsonl.gz": (b"", gzip.compress, b" \n" * (MIB // 2), 128, 0, "0 files_empty"),
    "huge.txt.zst": (b"", zstd, b"words, and 12 more, in it " * (MIB // 26), 128, 26 * (MIB // 26) * 128, "1"),
    "line.jsonl.gz": (b'{"text":"', gzip.compress, b"a" * MIB, 128, 0, "0 records_too_long"),
}


@pytest.mark.one_of(4)
@pytest.mark.parametrize("times", [1, pytest.param(8 if FULL else 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BOMBS)
def test_decompression_bombs_and_huge_documents_need_little_memory(tmp_path: Path, name: str, times: int) -> None:
    """Up to a gigabyte of lines out of a megabyte, a document of as much, a line that does not end."""
    first, compress, text, repeated, found_bytes, rest = BOMBS[name]
    (tmp_path / name).write_bytes(compress(first) + compress(text) * repeated * times)
    *found, grown_mib = command.script(BOUNDED, tmp_path, name).split()
    assert found == [str(found_bytes * times), *rest.split()]
    assert int(grown_mib) < (160 if first else 80)
