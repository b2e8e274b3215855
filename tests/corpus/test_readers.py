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
from chunk_tasks import EOT, PATTERN, count
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import _core
from pipeline.base.errors import InputError, InvalidTextError
from pipeline.corpus import lines, readers
from pipeline.corpus.files import describe
from pipeline.corpus.formats import FileType
from pipeline.corpus.lines import read_lines
from pipeline.corpus.readers import read_span


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


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
    if any(documents):
        assert count(tmp_path, "a.txt", chunk_bytes=chunk_bytes)[:2] == (expected, sum(map(bool, documents)))
    assert count(tmp_path, "a.jsonl", chunk_bytes=chunk_bytes)[:2] == (expected, sum(map(bool, documents)))
    assert count(tmp_path, "a.parquet", chunk_bytes=chunk_bytes)[:2] == (expected, sum(map(bool, documents)))


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


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return [peers.generated_text(seed, 400) + " é日本😀" for seed in range(40)] + ["", f"one{EOT.decode()}two"]


def test_every_compression_counts_the_same_alone_and_mixed(tmp_path: Path, documents: list[str]) -> None:
    plain = as_text(documents)
    expected = oracle_counting.count(plain, [EOT])
    number = len(oracle_counting.documents(plain, [EOT]))
    names = []
    for suffix, compress in COMPRESS.items():
        (tmp_path / f"a.txt{suffix}").write_bytes(compress(plain[:5000]) + compress(plain[5000:]))
        (tmp_path / f"a.json{suffix}").write_bytes(compress(as_jsonl(documents)))
        names += [f"a.txt{suffix}", f"a.json{suffix}"]
    pq.write_table(pa.table({"text": documents}), tmp_path / "a.parquet", row_group_size=7, compression="zstd")
    names.append("a.parquet")
    for name in names:
        assert count(tmp_path, name) == (expected, number, {}), name
        file, reported = describe(str(tmp_path / name)), list[int]()
        list(read_span(file, 0, 6 if file.format == "parquet" else file.size, "text", reported.append))
        assert file.format == "parquet" or sum(reported) == file.size
    both = count(tmp_path, *names, chunk_bytes=30_000)
    assert both == ({piece: times * len(names) for piece, times in expected.items()}, number * len(names), {})


def test_content_decides_before_the_name(tmp_path: Path) -> None:
    plain = b"plain text"
    (tmp_path / "no-suffix").write_bytes(gzip.compress(plain))
    (tmp_path / "b.txt").write_bytes(bz2.compress(plain))
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "c.txt")
    (tmp_path / "d.txt").write_bytes(b"BZh was here, PAR1 too")
    (tmp_path / "e.txt").write_bytes(b"PAR1 begins a text")
    (tmp_path / "f.ndjson.ZST").write_bytes(zstd(b"{}"))
    (tmp_path / "g.pq.txt").write_bytes(plain)
    kinds = {path.name: describe(str(path)) for path in sorted(tmp_path.iterdir())}
    assert {name: (file.format, file.compression) for name, file in kinds.items()} == {
        "no-suffix": ("text", "gzip"),
        "b.txt": ("text", "bzip2"),
        "c.txt": ("parquet", "none"),
        "d.txt": ("text", "none"),
        "e.txt": ("text", "none"),
        "f.ndjson.ZST": ("jsonl", "zstd"),
        "g.pq.txt": ("text", "none"),
    }
    forced = describe(str(tmp_path / "c.txt"), FileType("text", "none"))
    assert (forced.format, forced.compression) == ("text", "none")


@pytest.mark.parametrize(
    ("name", "content", "asked", "reason"),
    [
        ("a.txt.gz", b"no gzip", FileType(), "is named as gzip but does not begin as such.*--compression"),
        ("a.parquet", b"no Parquet", FileType(), "is named as Parquet but does not begin as one.*--input-format"),
        ("a.parquet.gz", gzip.compress(b"PAR1", mtime=0), FileType(), "Parquet file compressed as a whole with gzip"),
        ("a.gz", gzip.compress(b"PAR1\x15\x04", mtime=0), FileType(), "Parquet file compressed as a whole with gzip"),
        ("a.txt", b"text", FileType("parquet"), "cannot be read as Parquet"),
        ("a.txt", b"text", FileType("parquet", "zstd"), "is a Parquet file compressed as a whole"),
        ("a.txt", b"text", FileType(compression="gzip"), "cannot be decompressed as gzip.*damaged or cut short"),
        ("a.txt", b"text", FileType(compression="xz"), "cannot be decompressed as xz"),
        ("a.json", b'[{"text": "a"}]', FileType(), "is JSON but not JSON Lines"),
        ("a.json.gz", gzip.compress(b'{\n "text": "a"}', mtime=0), FileType(), "is JSON but not JSON Lines"),
    ],
)  # fmt: skip
def test_contradictory_files_are_errors(
    tmp_path: Path, name: str, content: bytes, asked: FileType, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}.*{reason}"):
        count(tmp_path, name, asked=asked)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_streams_that_follow_each_other_are_one_text(tmp_path: Path, suffix: str) -> None:
    parts = [b"", b"one ", b"", b"", b"two " * 270_000, b"three" * 9, b""]
    (tmp_path / f"a{suffix}").write_bytes(b"".join(map(COMPRESS[suffix], parts)))
    assert count(tmp_path, f"a{suffix}")[0] == oracle_counting.count(b"".join(parts))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_damaged_stream_names_the_position(tmp_path: Path, suffix: str) -> None:
    plain = random.Random(1).randbytes(200_000).hex().encode()
    whole = COMPRESS[suffix](plain)
    for cut in (1, 9, len(whole) // 2):
        (tmp_path / f"a{suffix}").write_bytes(whole[:-cut])
        with pytest.raises(InputError, match=rf"a{suffix} cannot be decompressed .* cut short before its end"):
            count(tmp_path, f"a{suffix}")
    (tmp_path / f"a{suffix}").write_bytes(whole + b"garbage")
    with pytest.raises(InputError, match=rf"a{suffix} cannot be decompressed"):
        count(tmp_path, f"a{suffix}")
    if suffix != ".zst":  # Arrow writes no checksum there; `zstd` does
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        (tmp_path / f"a{suffix}").write_bytes(flipped)
        with pytest.raises(InputError, match=rf"a{suffix} cannot be decompressed"):
            count(tmp_path, f"a{suffix}")


def test_skipped_and_altered_input_has_locations(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine \xff and \xffff " + b"x" * 20 + EOT + "é".encode() * 9)
    assert count(tmp_path, "a.txt", max_piece_bytes=8)[2] == {
        "replacements": {"count": 2, "examples": [f"{tmp_path}/a.txt, byte 5", f"{tmp_path}/a.txt, byte 11"]},
        "pieces_cut": {"count": 2, "examples": [f"{tmp_path}/a.txt, byte 14", f"{tmp_path}/a.txt, byte 48"]},
    }
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"ok" + EOT + b"bad \xff" + EOT + b"ok"))
    assert count(tmp_path, "b.txt.gz", errors="skip")[2] == {
        "documents_skipped": {"count": 1, "examples": [f"{tmp_path}/b.txt.gz, byte 19 of the decompressed text"]}
    }
    lines = [
        b'{"text":"fine"}', b'{"text":"\\ud800 a\xff"}', b"no JSON", b'{"text":5}', b'{"other":1}',
        b'{"text":"yes"}',
    ]  # fmt: skip
    (tmp_path / "c.jsonl").write_bytes(b"\n".join(lines))
    locations = [f"{tmp_path}/c.jsonl, byte {len(b'.'.join(lines[:n])) + 1}" for n in range(1, 6)]
    counter, documents, lost = count(tmp_path, "c.jsonl", chunk_bytes=20)
    assert lost == {
        "replacements": {"count": 2, "examples": [locations[0], locations[0]]},
        "records_not_json": {"count": 1, "examples": [locations[1]]},
        "records_not_text": {"count": 1, "examples": [locations[2]]},
        "records_without_field": {"count": 1, "examples": [locations[3]]},
    }
    assert documents == 3
    assert counter["\ufffd".encode()] == 2 or counter[b" a"] == 1
    pq.write_table(pa.table({"text": pa.array([b"a", None, b"b\xff"], pa.binary())}), tmp_path / "d.parquet")
    assert count(tmp_path, "d.parquet")[2] == {
        "records_without_field": {"count": 1, "examples": [f"{tmp_path}/d.parquet, row 1"]},
        "replacements": {"count": 1, "examples": [f"{tmp_path}/d.parquet, row 2"]},
    }
    with pytest.raises(InvalidTextError, match=r"invalid UTF-8 in .*d\.parquet, row 2; fix it"):
        count(tmp_path, "d.parquet", errors="strict")
    (tmp_path / "e.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "f.jsonl").write_bytes(b" \n\r\n")
    assert count(tmp_path, "e.gz", "f.jsonl")[2] == {
        "files_empty": {"count": 2, "examples": [f"{tmp_path}/e.gz", f"{tmp_path}/f.jsonl"]}
    }


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"abcdefghij", b" ", "é日".encode(), b"\xff", b"\xe6\x97", EOT]), max_size=40),
    st.integers(1, 60),
)
def test_cut_pieces_have_their_offsets(parts, window):
    """The text between replacements has the offsets of the input, whatever the window."""
    text = b"".join(parts)
    counter = _core.ChunkCounter(PATTERN.automaton, [EOT], max_piece_bytes=8, window_bytes=window)
    counter.feed(text, end=True)
    expected, at, fed = [], 0, [0]
    decoded = text.decode(errors="replace")
    for part in _as_decoded(text):
        fed += [fed[-1] + len(part)]  # one entry a character
    for document in decoded.split(EOT.decode()):
        for piece in oracle_counting.cut(document):
            if len(piece.encode()) > 8:
                expected.append(fed[at])
            at += len(piece)
        at += len(EOT)
    assert counter.statistics()["cut_offsets"] == expected[:8]


def _as_decoded(text: bytes) -> list[bytes]:
    """The bytes that each character of the repaired text comes from."""
    parts, at = [], 0
    while at < len(text):
        size = next((n for n in range(1, 5) if len(text[at : at + n].decode(errors="ignore")) == 1), 0)
        if not size or text[at : at + size].decode(errors="replace")[0] == "\ufffd":
            size = next(
                n
                for n in range(1, 5)
                if text[at : at + n + 1].decode(errors="replace")[1:] != "" or at + n == len(text)
            )
        parts.append(text[at : at + size])
        at += size
    return parts


BOUNDED = """
import sys
from memory_peak import growth
from chunk_tasks import EOT, PATTERN, count
from pathlib import Path
grown = growth()
total, documents, lost = count(Path(sys.argv[1]), sys.argv[2])
print(sum(len(piece) * times for piece, times in total.items()), documents, lost and sorted(lost), grown() >> 20)
"""


def grown_mib(directory: Path, name: str) -> tuple[str, int]:
    """Count a file in a process of its own: what came of it, and the MiB that the process grew by."""
    found = command.script(BOUNDED, directory, name).split()
    return " ".join(found[:-1]), int(found[-1])


@pytest.mark.parametrize("times", [1, pytest.param(8 if FULL else 2, marks=pytest.mark.slow)])
def test_decompression_bombs_and_huge_documents_need_little_memory(tmp_path: Path, times: int) -> None:
    """Up to a gigabyte of lines out of a megabyte, a document of as much, a line that does not end."""
    mib = 1 << 20
    lines = (b"word \n" * 10 + b"abc\n") * (mib // 64)
    (tmp_path / "bomb.txt.gz").write_bytes(gzip.compress(lines) * 128 * times)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b" \n" * (mib // 2)) * 128 * times)
    (tmp_path / "huge.txt.zst").write_bytes(zstd(b"words, and 12 more, in it " * mib) * 5 * times)
    (tmp_path / "line.jsonl.gz").write_bytes(gzip.compress(b'{"text":"') + gzip.compress(b"a" * mib) * 128 * times)
    found, grown = grown_mib(tmp_path, "bomb.txt.gz")
    assert (found.split()[:2], grown < 80) == ([str(128 * times * mib), "1"], True), grown
    found, grown = grown_mib(tmp_path, "bomb.jsonl.gz")
    assert (found, grown < 80) == ("0 0 ['files_empty']", True), grown
    found, grown = grown_mib(tmp_path, "huge.txt.zst")
    assert (found.split()[:2], grown < 80) == ([str(26 * 5 * times * mib), "1"], True), grown
    found, grown = grown_mib(tmp_path, "line.jsonl.gz")
    assert (found, grown < 160) == ("0 0 ['records_too_long']", True), grown
