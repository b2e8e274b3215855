"""A file is what its bytes say: archives, other encodings and records are never read as plain text without a word."""

import bz2
import codecs
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from chunk_tasks import EOT, count
from command import refused, run, succeeded
from corpus_files import zstd
from hypothesis import example, given
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, InvalidTextError
from bpe_pipeline.corpus.contents import object_lines, refuse_other, refuse_records
from bpe_pipeline.corpus.files import FileType
from bpe_pipeline.corpus.listing import describe, find_files

ENGLISH, RUSSIAN, JAPANESE = (
    "The map of the old house.\n" * 9,
    "Карта старого дома\n" * 9,
    "地図と川、\n古い家　の\n" * 9,
)
gzipped = partial(gzip.compress, mtime=0)  # names of cases hold what it makes
COMPRESS = {"": bytes, ".gz": gzipped, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
JSON_LINES = b"".join(b'{"id": %d, "text": "a\\u00e9 {%d}"}\n' % (number, number) for number in range(30))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(name: str, content: bytes, asked: FileType = FileType(), **changes: object):  # noqa: B008 - a constant
    Path(name).write_bytes(content)
    return count(Path.cwd(), name, asked=asked, **changes)


@pytest.mark.one_of(7)
@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("text", [ENGLISH, RUSSIAN, JAPANESE, "hi", JSON_LINES.decode()], ids=ascii)
def test_text_in_another_encoding_is_refused_with_its_name(text: str, suffix: str, encoding: str) -> None:
    for name in ("a.txt", "b.jsonl"):
        with pytest.raises(InvalidTextError, match=rf"is text in {encoding}.*iconv -f {encoding} -t UTF-8"):
            read(name + suffix, COMPRESS[suffix](text.encode(encoding)))
        marked = codecs.lookup(encoding[:6]).encode("\ufeff")[0][: int(encoding[4:6]) // 8]
        marked = {"UTF-16BE": codecs.BOM_UTF16_BE, "UTF-32BE": codecs.BOM_UTF32_BE}.get(encoding, marked)
        with pytest.raises(InvalidTextError, match=f"is text in {encoding[:6]},"):
            read(name + suffix, COMPRESS[suffix](marked + text.encode(encoding)), FileType("text"))


@given(st.text(max_size=200) | st.text("ab\n é日\x1b", max_size=200))
def test_text_in_utf8_is_never_taken_for_something_else(text: str) -> None:
    refuse_other("a.txt", text.replace("\0", "").encode())


@given(st.lists(st.text("abc ", min_size=2, max_size=30), min_size=9))
def test_texts_between_nuls_are_not_in_another_encoding(texts: list[str]) -> None:
    refuse_other("names", "\0".join(texts).encode())


@given(st.text("abcdefgh \n", min_size=2), st.sampled_from(["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"]))
def test_english_without_a_mark_is_recognized(text: str, encoding: str) -> None:
    with pytest.raises(InvalidTextError, match=encoding):
        refuse_other("a.txt", text.encode(encoding)[:4096])


def tar(format_: int) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=format_) as archive:
        member = tarfile.TarInfo("docs/a.txt")
        member.size = len(ENGLISH)
        archive.addfile(member, io.BytesIO(ENGLISH.encode()))
    return sink.getvalue()


def zipped() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt"), ENGLISH)  # of one date
    return sink.getvalue()


OLD_TAR = tar(tarfile.USTAR_FORMAT)
OLD_TAR = OLD_TAR[:257] + bytes(8) + OLD_TAR[265:]  # without the mark, as V7 wrote it
OLD_TAR = OLD_TAR[:148] + b"%06o\0 " % (sum(OLD_TAR[:148]) + 256 + sum(OLD_TAR[156:512])) + OLD_TAR[156:]


@pytest.mark.parametrize("content", [tar(tarfile.GNU_FORMAT), tar(tarfile.PAX_FORMAT), OLD_TAR])
@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_tar_archive_is_refused_whatever_it_is_named(content: bytes, suffix: str) -> None:
    for name, asked in (
        ("a.tar", FileType()),
        ("part_aa", FileType()),
        ("a.jsonl", FileType()),
        ("b", FileType("text")),
    ):
        with pytest.raises(InvalidTextError, match=r"is a tar archive.*extract it \(tar -xf\)"):
            read(name + suffix, COMPRESS[suffix](content), asked)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.zip", zipped(), "is a ZIP archive, not text in UTF-8: extract it"),
        ("a.zip.gz", gzipped(zipped()), "is a ZIP archive, compressed with gzip"),
        ("a.txt.gz", gzipped(gzipped(b"text")), "holds gzip in gzip: decompress it once"),
        ("a.jsonl.zst", zstd(bz2.compress(JSON_LINES)), "holds bzip2 in zstd: decompress it once"),
        ("a.db", b"SQLite format 3\0" + bytes(99), "is an SQLite database"),
    ],
)
def test_archives_and_archives_in_archives_are_refused(name: str, content: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=rf"{name} {reason}"):
        read(name, content)


@pytest.mark.one_of(7)
@pytest.mark.parametrize("name", ["x.txt", "part_aa", "x.jsonl.1", "x"])
@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize(
    "content",
    [
        JSON_LINES,
        b"\xef\xbb\xbf" + JSON_LINES.replace(b"\n", b"\r\n"),
        b"\n" + JSON_LINES[:-1],
        b'{"text": "%s"}\n' % (b"long " * 9000) + JSON_LINES,
        JSON_LINES[20:],
        JSON_LINES + b"no JSON",
    ],
)
def test_json_lines_under_another_name_are_refused(name: str, suffix: str, content: bytes) -> None:
    data = COMPRESS[suffix](content)
    with pytest.raises(InvalidTextError, match=r"JSON Lines by its content.*--input-format jsonl.*--text-field"):
        read(name + suffix, data)
    _, documents, lost = read(name + suffix, data, FileType("text"))
    assert (documents, lost) == (1, {})  # as it was named
    assert read(name + suffix, data, FileType("jsonl"))[1] >= 29


RECORDS = [{"id": number, "text": f"document {number}"} for number in range(30)]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_an_array_of_records_under_another_name_is_refused(suffix: str, indent: int | None, mark: bytes) -> None:
    data = COMPRESS[suffix](mark + json.dumps(RECORDS, indent=indent).encode())
    with pytest.raises(InvalidTextError, match=r"x\.txt\S* is a JSON array of records.*jq -c \.\[\] FILE"):
        read("x.txt" + suffix, data)
    assert read("x.txt" + suffix, data, FileType("text"))[2] == {}


@pytest.mark.parametrize("text", [b'[{"id": 1}]', b'[link] {"text": 1}', b'["text", {"text": 1}]', b"[{ text: 1 }]"])
def test_an_array_of_something_else_is_text(text: bytes) -> None:
    assert read("x.txt", text)[1:] == (1, {})


MIXED = JSON_LINES + b"no JSON\n" * 20


def as_texts(parts: int, between: bytes) -> bytes:
    return between.join([b"some words here"] * parts)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("content", "kind", "numbers"),
    [
        (MIXED, "files_like_json", "30 of 50 lines"),
        (b'{"one": "record"}', "files_like_json", "1 of 1 line"),
        (JSON_LINES + b"no JSON\n" * 29, "files_like_json", "30 of 59 lines"),
        (JSON_LINES + b"no JSON\n" * 31, "", ""),
        (b"{\n  words\n}\n" * 9, "", ""),
        (as_texts(30, b"\0"), "files_with_nuls", "29 of 479 bytes"),
        (as_texts(30, b"\n"), "", ""),
        (b"a" * 99 + b"\0", "", ""),
    ],
)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_is_likely_no_text_is_counted_with_numbers(content: bytes, kind: str, numbers: str, suffix: str) -> None:
    lost = read(f"a{suffix}", COMPRESS[suffix](content))[2]
    location = f"{Path.cwd()}/a{suffix}, {numbers}"
    assert lost == ({kind: {"count": 1, "examples": [location]}} if kind else {})
    assert read("cut", content, chunk_bytes=50)[2].keys() <= {kind}


@pytest.mark.parametrize("command", [("count",), ("encode", "--tokenizer", "tiny"), ("train", "--vocab-size", 260)])
def test_what_is_likely_no_text_is_warned_of_and_fails_on_loss(command: tuple[object, ...]) -> None:
    Path("a.txt").write_text("some words")
    succeeded(run("train", "a.txt", "-o", "trained", "--vocab-size", 260))
    Path("trained/tokenizer").rename("tiny")
    Path("part_ab").write_bytes(MIXED)
    done = succeeded(run(*command, "part_ab", "-o", "out"))
    assert "warning: 1 file read as text of which most lines begin with { and end with }" in done.stderr
    assert "30 of 50 lines" in done.stderr
    assert "30 of 50 lines" in refused(run(*command, "part_ab", "-o", "strict", "--fail-on-loss"), 1)
    with pytest.warns(UserWarning, match="30 of 50 lines"):
        bpe_pipeline.encode("part_ab", tokenizer="tiny")


@example(["text", '{"a": 1}', " {x} ", '{"a": 1}'])
@given(st.lists(st.sampled_from(['{"a": 1}', "{}", " {x} ", "text", "", "{", "}", "a}", "{ 1, 2 },"]), max_size=12))
def test_lines_like_objects_are_counted_as_a_simple_count_has_them(texts: list[str]) -> None:
    lines = [line.strip() for line in texts if line.strip()]
    expected = sum(line.startswith("{") and line.endswith("}") and len(line) > 1 for line in lines), len(lines)
    found = object_lines("\n".join(texts).encode())
    assert found == expected or (found == (0, 0) and expected[0] * 2 <= max(expected[1], 1) + 1)


CSV = b'id,text\n1,"hello, there"\n'


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        ("a.csv", CSV, "text"),
        ("a.CSV", CSV, "text"),
        ("a.csv.gz", gzipped(CSV), "text"),
        ("a.tsv", b"id\tbody\n1\thello\n", "body"),
        ("a.csv", b'"text"\n"a"\n', "text"),
        ("a.csv", CSV, "body"),
    ],
)
def test_a_table_with_the_column_of_texts_is_refused(name: str, content: bytes, field: str) -> None:
    with pytest.raises(InvalidTextError, match=rf"{name} is a table.*'{field}' alone: convert it"):
        read(name, content, FileType(text_field=field), text_field=field)
    assert read(name, content, FileType("text", text_field=field), text_field=field)[2] == {}


def test_another_table_is_text_and_warned_of() -> None:
    Path("a.tsv").write_bytes(b"id\tbody\n1\thello\n")
    assert "read as plain text, with all of its columns: " in succeeded(run("count", "a.tsv", "-o", "run")).stderr
    quiet = succeeded(run("count", "a.tsv", "-o", "text", "--input-format", "text"))
    assert "warning" not in quiet.stderr


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("asked", [FileType(), FileType("lines"), FileType("jsonl")], ids=str)
def test_a_byte_order_mark_at_the_start_is_not_learned(asked: FileType, suffix: str) -> None:
    text = (
        json.dumps({"text": "Word \udcff"}).encode() if asked.format == "jsonl" else b"Word \xff\n\xef\xbb\xbfx" + EOT
    )
    plain, marked = (read(f"a{suffix}", COMPRESS[suffix](mark + text), asked) for mark in (b"", codecs.BOM_UTF8))
    assert marked[:2] == plain[:2]
    assert plain[0][b"Word"] == 1
    assert isinstance(plain[0], Counter)
    if asked.format != "jsonl":  # the place of the byte in the file
        wrong = marked[2]["replacements"]["examples"]
        assert wrong[0].partition(" of ")[0] == f"{Path.cwd()}/a{suffix}, byte {8 if asked.format == 'auto' else 3}"


def test_more_than_one_file_that_cannot_be_read_is_named() -> None:
    for number in range(3):
        Path(f"{number}.zip").write_bytes(zipped())
    Path("a.txt").write_text("text")
    with pytest.raises(
        InvalidTextError, match=r"0\.zip is a ZIP.*\(2 other files cannot be read either: .*1\.zip, .*2"
    ):
        find_files(["."])


def test_content_is_not_judged_where_nothing_is_wanted_of_it() -> None:
    refuse_records("a.csv", CSV, "", whole=True)  # chat data, of which all columns are read
    Path("x.txt").write_bytes(b'{"one": "record"}\n')
    assert describe("x.txt").format == "text"
