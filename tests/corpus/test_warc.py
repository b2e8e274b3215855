"""Web archives: the texts that warcio, another reader, has; what is no text is counted; damage is an error."""

import gzip
import io
import json
import re
from pathlib import Path

import archives
import pytest
from chunk_tasks import count
from command import refused, run, succeeded
from corpus_files import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus import readers
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.formats import warc
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.read_budget import UNLIMITED
from bpe_pipeline.corpus.readers import read_span

TEXT = st.text(st.sampled_from("ab 1é日\r\n"), max_size=40).map(str.encode)
STARTS = st.sampled_from([b"WARC/1.0\r\n", b"\r\n\r\nWARC-Type: conversion\r\n", b"\r\n\r\n"])
FILE = CorpusFile("a.warc", 0, 0, "", "warc")
CHUNKED = {"Transfer_Encoding": "chunked"}


def chunked(body: bytes, size: int = 7) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


RECORDS = st.one_of(
    st.one_of(TEXT, STARTS).map(lambda text: archives.record("conversion", "text/plain", text)),
    TEXT.map(lambda text: archives.response("text/plain; charset=utf-8", text)),
    TEXT.map(lambda text: archives.response("Text/Plain", chunked(text), **CHUNKED)),
    TEXT.map(lambda text: archives.response("text/html", b"<p>" + text)),
    TEXT.map(lambda text: archives.response("image/png", text)),
    st.just(archives.record("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n")),
    TEXT.map(lambda text: archives.record("metadata", "application/warc-fields", text)),
)


def by_warcio(data: bytes) -> tuple[list[bytes], dict[str, int]]:
    """The texts and what is skipped, by another reader."""
    iterator = pytest.importorskip("warcio.archiveiterator")
    texts, skipped = [], dict.fromkeys(("records_html", "records_other_media"), 0)
    for record in iterator.ArchiveIterator(io.BytesIO(data), arc2warc=False):
        kind, headers = record.rec_type, record.rec_headers
        media = headers.get_header("Content-Type") if kind == "conversion" else ""
        if kind == "response":
            media = record.http_headers.get_header("Content-Type")
        media = media.partition(";")[0].lower()
        content = record.content_stream().read()
        if kind in ("conversion", "response"):
            if media == "text/plain":
                texts.append(content)
            else:
                skipped["records_html" if media == "text/html" else "records_other_media"] += 1
    return texts, {kind: number for kind, number in skipped.items() if number}


def read(path: Path) -> tuple[list[bytes], dict[str, int]]:
    texts, skipped = [], {}
    file = describe(str(path))
    for records in read_span(FileSpan(file, 0, file.size), "text", lambda _: None):
        left_out = {position for kind in records.skipped for position in kind.positions}
        starts = records.starts
        rows = [row for row in range(records.rows) if records.position(row) not in left_out]
        texts += [bytes(records.data)[starts[row] : starts[row + 1]] for row in rows]
        for kind in records.skipped:
            skipped[kind.kind] = skipped.get(kind.kind, 0) + kind.count
    return texts, skipped


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORDS, min_size=1, max_size=7), st.sampled_from(["", "members", "whole"]), st.integers(1, 400))
def test_texts_are_those_of_another_reader(tmp_path: Path, records: list[bytes], way: str, block_bytes: int) -> None:
    data = b"".join(records)
    packed = {"": data, "members": archives.members(records), "whole": gzip.compress(data)}[way]
    path = tmp_path / ("a.warc.gz" if way else "a.warc")
    path.write_bytes(packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BLOCK_BYTES", block_bytes)
        patch.setattr("bpe_pipeline.corpus.decompress._BLOCK_BYTES", block_bytes)
        patch.setattr(readers, "FIRST_BYTES", block_bytes)
        assert read(path) == by_warcio(data)


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, max_size=4), st.integers(0, 3000), st.binary(max_size=3), st.integers(1, 300))
def test_damaged_archives_are_read_alike_in_any_blocks(
    records: list[bytes], at: int, damage: bytes, block_bytes: int
) -> None:
    data = b"".join(records)
    at %= len(data) + 1
    data = data[:at] + damage + data[at + len(damage) :]
    results: list[object] = []
    for size in (block_bytes, len(data) + 1):
        blocks = (data[start : start + size] for start in range(0, len(data), size))
        try:
            read = list(warc.read_records(FILE, blocks, 0, "", UNLIMITED))
            results.append([(bytes(part.data), part.starts.tolist(), part.skipped) for part in read])
        except InputError as error:
            results.append(str(error))
    assert results[0] == results[1]


def test_what_is_skipped_is_in_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pages = [archives.response("text/html; charset=utf-8", b"<p>page</p>"), archives.response("image/png", b"\x89PNG")]
    pages.append(archives.response("text/plain", b"\x1f\x8b", Content_Encoding="gzip"))
    texts = [f"the map of house {number} " * 9 for number in range(200)]
    path = tmp_path / "CC-MAIN-1.warc.wet.gz"
    path.write_bytes(archives.members([*archives.wet(text.encode() for text in texts), *pages]))
    (tmp_path / "same.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    shown = succeeded(run("train", path.name, "--output", "run", "--vocab-size", "300")).stdout
    assert re.search(r"1 record skipped: HTML, not plain text; 2 records skipped: neither plain text nor HTML", shown)
    assert "200 documents" in shown
    succeeded(run("train", "same.jsonl", "--output", "same", "--vocab-size", "300"))
    for name in ("merges.txt", "tokenizer.json"):
        assert (tmp_path / f"run/tokenizer/{name}").read_bytes() == (tmp_path / f"same/tokenizer/{name}").read_bytes()
    assert "1 record skipped: HTML" in refused(run("count", path.name, "--output", "x", "--fail-on-loss"), 1)
    for name in (path.name, "same.jsonl"):
        succeeded(run("encode", name, "--tokenizer", "run", "--output", f"shards-{name}"))
    shards = [sorted(tmp_path.glob(f"shards-{name}/*.npy")) for name in (path.name, "same.jsonl")]
    assert [one.read_bytes() for one in shards[0]] == [one.read_bytes() for one in shards[1]] != []


def test_long_records_are_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "MOST_LINE_BYTES", 100)
    (tmp_path / "a.warc").write_bytes(b"".join(archives.wet([b"a" * 100, b"b" * 101, b"c"])))
    counter, documents, lost = count(tmp_path, "a.warc")
    assert (documents, counter[b"c"], lost["records_too_long"]["count"]) == (2, 1, 1)
    start = len(archives.wet([])[0]) + len(archives.wet([b"a" * 100])[1])
    assert lost["records_too_long"]["examples"] == [f"{tmp_path}/a.warc, byte {start}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"".join(archives.wet([b"one", b"two"]))[:-5], "the WARC record that starts here does not end; restore"),
        (b"".join(archives.wet([b"one"])) + b"garbage", "no WARC record starts here; restore the file"),
        (archives.wet([])[0].replace(b"Content-Length", b"Content-Size"), "no WARC record starts here"),
        (re.sub(rb"(?<=Length: )", b"9" * 5000, archives.wet([])[0]), "no WARC record starts here"),
        (b"WARC/1.0\r\n" + b"a: b\r\n" * 20_000, "no WARC record starts here"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_damage_is_an_error_with_its_location(content: bytes, message: str, suffix: str, tmp_path: Path) -> None:
    name = f"a.warc{suffix}"
    (tmp_path / name).write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(InputError, match=rf"{name}, byte \d+.*{message}"):
        count(tmp_path, name)


def test_an_archive_in_an_archive_is_read_at_once_or_refused(tmp_path: Path) -> None:
    inner = b"".join(archives.wet([b"inner text " * 9] * 9))
    content = b"".join([*archives.wet([b"one"]), archives.record("conversion", "text/plain", b"\r\n\r\n" + inner)])
    (tmp_path / "a.warc").write_bytes(content)
    assert count(tmp_path, "a.warc")[1] == 2
    with pytest.raises(InputError, match=rf"does not end.* read it at once \(--chunk-size {len(content)}\)"):
        count(tmp_path, "a.warc", chunk_bytes=300)
    (tmp_path / "a.warc.zst").write_bytes(zstd(content))
    file = describe(str(tmp_path / "a.warc.zst"))
    with pytest.raises(InputError, match=rf"read it at once \(--chunk-size {len(content)}\)"):
        list(warc.read_records(file, iter([content[:-9]]), 0, "", UNLIMITED))


def test_an_archive_under_another_name_in_a_compression_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(archives.members(archives.wet([b"one"])))
    with pytest.raises(InputError, match=r"a\.txt\.gz is WARC, compressed with gzip, and not by its name: name it"):
        count(tmp_path, "a.txt.gz")
    (tmp_path / "a.txt").write_bytes(b"".join(archives.wet([b"one"])))
    assert count(tmp_path, "a.txt")[1] == 1
