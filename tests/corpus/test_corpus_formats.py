"""Everything that is asked of a format of corpus files is asked of every registered one."""

import bz2
import gzip
import io
import json
import lzma
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import archives
import oracle_counting
import peers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chunk_tasks import EOT, PATTERN, count
from corpus_files import zstd

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.contents import BYTE_ORDER_MARK
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan, FileType
from bpe_pipeline.corpus.formats import corpus_format, corpus_formats, input_formats, marked_format
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.readers import read_span, text_range
from bpe_pipeline.corpus.sampling import choose, read_chosen
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.values import parse_input_format

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
DOCUMENTS = [f"{number}. {' '.join(peers.generated_text(number, 60).split())} é日" for number in range(40)]
PAGE = Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "formats.md"


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": DOCUMENTS}), sink, row_group_size=3)
    return sink.getvalue()


def _arrow() -> bytes:
    table, sink = pa.table({"text": DOCUMENTS}), io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table, max_chunksize=3)
    return sink.getvalue()


MADE = {  # the documents in a file of each format
    "text": EOT.decode().join(DOCUMENTS).encode(),
    "lines": "".join(f"{text}\n" for text in DOCUMENTS).encode(),
    "jsonl": "".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS).encode(),
    "parquet": _parquet(),
    "arrow": _arrow(),
    "warc": b"".join(archives.wet(text.encode() for text in DOCUMENTS)),
}
READABLE = [
    (name, suffix) for name in MADE for suffix in COMPRESS if not (suffix and corpus_format(name).compresses_itself)
]


def made(directory: Path, name: str, suffix: str = "") -> CorpusFile:
    path = directory / f"{name}{suffix}"
    path.write_bytes(COMPRESS[suffix](MADE[name]))
    return describe(str(path), FileType(name))


def texts_of(blocks: object) -> tuple[list[bytes], list[int]]:
    """The documents of what a reader yields, and their positions; of text one."""
    texts, positions = [], []
    for block in blocks:
        if isinstance(block, Records):
            texts += [bytes(block.data)[start:stop] for start, stop in pairwise(block.starts)]
            positions += map(block.position, range(block.rows))
        else:
            texts[:1] = [b"".join([*texts, block])]
    return texts, positions


def expected(name: str) -> Counter[bytes]:
    ending = "\n" if name == "lines" else ""
    return sum((oracle_counting.count((text + ending).encode()) for text in DOCUMENTS), Counter())


def test_every_offered_format_is_made_here_and_can_be_named() -> None:
    assert [*MADE] == input_formats()
    for name in corpus_formats():
        if name in MADE:
            assert parse_input_format(name) == name
        else:
            with pytest.raises(ValueError, match="one of auto, text, "):
                parse_input_format(name)
    assert all(re.search(rf"\b{name}\b", CountOptions.records["input_format"].help) for name in MADE)
    with pytest.raises(InputError, match=r"the corpus format 'csv' is none of text, .*: install the package with it"):
        corpus_format("csv")


@pytest.mark.parametrize("name", corpus_formats())
def test_what_a_format_says_of_itself_fits_together(name: str) -> None:
    format_ = corpus_format(name)
    assert all(re.fullmatch(r"\.[a-z]+", suffix) for suffix in format_.suffixes)
    assert format_.position in ("byte", "row")
    assert not (format_.begins_anywhere and (format_.has_fields or format_.are_lines or format_.position == "row"))
    assert not format_.compresses_itself or format_.magic
    others = [other for other in corpus_formats() if other != name]
    assert not {*format_.suffixes} & {suffix for other in others for suffix in corpus_format(other).suffixes}
    [documented] = re.findall(r"^\| format .*\n\|[-|]*\n((?:\|.*\n)*)", PAGE.read_text(), re.MULTILINE)
    for said in (name, *format_.suffixes) if format_.offered else ():
        assert f"`{said}`" in documented


@pytest.mark.parametrize("name", MADE)
def test_content_shows_a_format_that_has_a_mark_and_a_name_one_that_has_none(name: str, tmp_path: Path) -> None:
    format_, content = corpus_format(name), MADE[name]
    assert (marked_format(content[:4096], content[-4096:]) == name) == bool(format_.magic)
    for suffix in ("", *format_.suffixes):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(content)
        is_shown = bool(suffix or format_.magic or format_.begins_anywhere)
        if is_shown:
            assert describe(str(path)).format == name
        if suffix and format_.magic:
            path.write_bytes(b"plain text")
            with pytest.raises(InputError, match=f"is named as {format_.title} but does not begin as one"):
                describe(str(path))
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    if format_.compresses_itself:
        with pytest.raises(InputError, match=f"{format_.title} file compressed as a whole with gzip: decompress it"):
            describe(str(tmp_path / "a.gz"), FileType(name))
    if format_.magic:
        with pytest.raises(InputError, match=format_.title):
            count(tmp_path, "a.gz")


@pytest.mark.parametrize(("name", "suffix"), READABLE)
def test_chunks_of_any_size_count_the_documents_once(name: str, suffix: str, tmp_path: Path) -> None:
    file = made(tmp_path, name, suffix)
    for chunk_bytes in (170, 700, 1 << 30):  # the first is less than a document
        counter, documents, lost = count(tmp_path, Path(file.path).name, chunk_bytes=chunk_bytes, asked=FileType(name))
        assert (counter, documents, lost) == (expected(name), len(DOCUMENTS), {})
    parts = file.kind.cuts(file, Cutting((EOT,), PATTERN.automaton), 700)
    assert (len(parts) > 1) == (not suffix)
    assert [start for start, _, _ in parts] == [0, *(stop for _, stop, _ in parts[:-1])]


@pytest.mark.parametrize(("name", "suffix"), READABLE)
def test_all_of_a_file_is_from_0_to_its_size_and_resumes_at_a_byte(name: str, suffix: str, tmp_path: Path) -> None:
    file, reported = made(tmp_path, name, suffix), list[int]()
    texts, positions = texts_of(read_span(FileSpan(file, 0, file.size), "text", reported.append))
    ending = b"\n" if name == "lines" else b""
    all_of = [EOT.join(text.encode() for text in DOCUMENTS)] if file.is_plain or name == "text" else None
    assert texts == (all_of or [text.encode() + ending for text in DOCUMENTS])
    assert file.kind.position == "row" or sum(reported) == file.size
    assert file.location(7).endswith((f", {file.kind.position} 7", ", byte 7 of the decompressed text"))
    if file.kind.position == "row":
        assert positions == [*range(len(DOCUMENTS))]
    for number, position in enumerate(positions) if suffix else ():
        resumed = read_span(FileSpan(file, 0, file.size), "text", reported.append, text=(position, None))
        assert texts_of(resumed)[0] == texts[number:]


@pytest.mark.parametrize("name", [name for name in MADE if not corpus_format(name).compresses_itself])
def test_frames_are_cut_where_a_document_starts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpe_pipeline.corpus.frames._LEAST_TEXT_BYTES", 1)
    (tmp_path / "a.zst").write_bytes(zstd(MADE[name], 100))
    file = describe(str(tmp_path / "a.zst"), FileType(name))
    cutting = Cutting((EOT,), PATTERN.automaton, between_frames=True)
    parts = file.kind.cuts(file, cutting, 400)
    assert len(parts) > 3
    ranges = [text_range(FileSpan(file, start, stop), cutting) for start, stop, _ in parts]
    end = len(MADE[name])
    assert [first for first, _ in ranges[1:]] == [end if last is None else last for _, last in ranges[:-1]]
    read = [
        read_span(FileSpan(file, start, stop), "text", lambda _: None, text=range_)
        for (start, stop, _), range_ in zip(parts, ranges, strict=True)
        if range_[0] != range_[1]
    ]
    texts = [text for part in read for text in texts_of(part)[0]]
    whole = texts_of(read_span(FileSpan(file, 0, file.size), "text", lambda _: None))[0]
    assert b"".join(texts) == b"".join(whole)
    assert corpus_format(name).begins_anywhere or texts == whole


@pytest.mark.parametrize(("name", "suffix"), READABLE)
def test_a_sample_is_text_of_the_documents(name: str, suffix: str, tmp_path: Path) -> None:
    file = made(tmp_path, name, suffix)
    drawn = read_chosen(choose([file], 1 << 10), "text", skip_changed=False)
    assert 500 < sum(len(one.text.encode()) for one in drawn) <= 3000
    whole = "\n".join(DOCUMENTS) if name == "lines" else EOT.decode().join(DOCUMENTS)
    assert all(one.text.strip() in whole for one in drawn)


@pytest.mark.parametrize("name", [name for name in MADE if not corpus_format(name).has_fields])
def test_a_format_without_fields_has_none_to_name(name: str, tmp_path: Path) -> None:
    file = made(tmp_path, name)
    other = texts_of(read_span(FileSpan(file, 0, file.size), "no.such.field", lambda _: None))
    assert other == texts_of(read_span(FileSpan(file, 0, file.size), "text", lambda _: None))
    assert not MADE[name].startswith(BYTE_ORDER_MARK)
