"""Web archives, WARC 1.0 and 1.1 (https://iipc.github.io/warc-specifications/): a document a record of plain text.

These are the `conversion` records of WET files and the HTTP responses whose type is text/plain. Responses of HTML and
of other media are counted as skipped; records about others (requests, metadata, ...) are no documents.

Only lengths say where a record ends. A cut is where one seems to start, behind an empty line. The reader of the part
before it finds by lengths whether one does: text that only looks so is an error, never a document.
"""

import io
import re
from collections.abc import Iterator
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus.chunks import Cutting, SearchedText
from bpe_pipeline.corpus.documents import Records, joined
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats.byte_format import byte_format
from bpe_pipeline.corpus.formats.lines import TOO_LONG
from bpe_pipeline.corpus.frames import text_bytes
from bpe_pipeline.corpus.read_budget import SMALL_BYTES, ReadBudget
from bpe_pipeline.corpus.skipped_or_altered import MOST_LINE_BYTES

_READ_BYTES = 1 << 16
_BATCH_BYTES, _BATCH_ROWS = 1 << 20, 1 << 14
_MOST_HEAD_BYTES = 1 << 16  # of a record, and of the response in it
_COPIES = 4  # of a record: as read, its body, and joined with others
_BEGIN = re.compile(rb"WARC/1\.\d\r\n")
_START = b"\r\n\r\nWARC/1."
_END = b"\r\n\r\n"  # of a head
_FIELD = re.compile(
    rb"^(WARC-Type|Content-Type|Content-Length|Content-Encoding|Transfer-Encoding)[ \t]*:[ \t]*([^\r\n;]*)", re.I | re.M
)
_LENGTH = re.compile(rb"\d{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[^\r\n]*\r\n")
_PLAIN, _HTML = b"text/plain", (b"text/html", b"application/xhtml+xml")


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file, the first of which starts at an offset."""

    def __init__(self, blocks: Iterator[bytes], at: int) -> None:
        self._blocks, self._at, self._left = blocks, at, memoryview(b"")

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, out: Any) -> int:
        self._left = self._left or memoryview(next(self._blocks, b""))
        size = min(len(out), len(self._left))
        out[:size], self._left = self._left[:size], self._left[size:]
        self._at += size
        return size


def read_records(
    file: CorpusFile, blocks: Iterator[bytes], at: int, _text_field: str, budget: ReadBudget
) -> Iterator[Records]:
    """Yield the records that are documents, and those that are skipped."""
    source = io.BufferedReader(_Blocks(blocks, at), _READ_BYTES)
    texts, positions, skipped, size = list[bytes](), list[int](), dict[str, list[int]](), 0
    while (start := _next_record(source)) is not None:
        fields = _fields(source, _MOST_HEAD_BYTES)
        kind, length = fields.get(b"warc-type"), fields.get(b"content-length", b"")
        if not _BEGIN.match(fields[b""]) or not _LENGTH.fullmatch(length):
            raise InputError(f"{file.location(start)}: no WARC record starts here; restore the file, or leave it out")
        end = source.tell() + int(length)
        is_response = kind == b"response" and fields.get(b"content-type") == b"application/http"
        if is_response:
            fields = _fields(source, min(int(length), _MOST_HEAD_BYTES))
        why, text = _why_skipped(fields, end - source.tell()), b""
        if not why and (is_response or kind == b"conversion"):
            left = end - source.tell()
            what = f"{file.location(start)}: the record of {format_bytes(left)} that starts here"
            budget.require("record", _COPIES * left if left > SMALL_BYTES else 0, what)
            text = source.read(left)
        while source.tell() < end and source.read(min(end - source.tell(), _READ_BYTES)):
            pass
        if source.tell() < end:
            raise InputError(
                f"{file.location(start)}: the WARC record that starts here does not end; restore the file or, if it "
                f"has another archive in it, read it at once (--chunk-size {text_bytes(file)})"
            )
        if not (is_response or kind == b"conversion"):
            continue
        if why:
            skipped.setdefault(why, []).append(len(texts))
        texts.append(_joined_chunks(text) if fields.get(b"transfer-encoding") == b"chunked" else text)
        positions.append(start)
        size += len(text)
        del text
        if size >= _BATCH_BYTES or len(texts) >= _BATCH_ROWS:
            yield joined(texts, skipped, positions.__getitem__)
            texts, positions, skipped, size = [], [], {}, 0
            budget.hold("record", 0)
    if texts:
        yield joined(texts, skipped, positions.__getitem__)


def _next_record(source: "io.BufferedReader[_Blocks]") -> int | None:
    """Return where the next record starts, behind line ends; None if there is none."""
    while (next_ := source.peek(1)[:1]) in (b"\r", b"\n"):
        source.read(1)
    return source.tell() if next_ else None


def _fields(source: "io.BufferedReader[_Blocks]", most: int) -> dict[bytes, bytes]:
    """Read a head of at most that many bytes, its empty line included; return its first line as b"", and its fields."""
    head = b""
    while len(head) < most and (line := source.readline(most - len(head))):
        head += line
        if line == b"\r\n":
            return {b"": head} | {name.lower(): value.strip().lower() for name, value in _FIELD.findall(head)}
    return {b"": b""}


def _why_skipped(fields: dict[bytes, bytes], size: int) -> str:
    """Return the kind of what is skipped if a record with these fields is no text; none if it is one."""
    media = fields.get(b"content-type")
    if media in _HTML:
        return "records_html"
    if media != _PLAIN or fields.get(b"content-encoding", b"identity") != b"identity":
        return "records_other_media"
    return TOO_LONG if size > MOST_LINE_BYTES else ""


def _joined_chunks(body: bytes) -> bytes:
    """Return a body that was transferred in chunks; as it is if it has none: some archives store it so."""
    chunks, at = list[bytes](), 0
    while chunk := _CHUNK.match(body, at):
        size, begin = int(chunk[1], 16), chunk.end()
        if not size:
            return b"".join(chunks)
        chunks.append(body[begin : begin + size])
        at = begin + size + len(b"\r\n")
    return body


def _cut(_cutting: Cutting, text: SearchedText, reach: int, wanted: int) -> int | None:
    return text.first(wanted, min(wanted + reach, text.size), _find_start)


def _find_start(data: bytes, low: int, high: int) -> int | None:
    """Return the first position in a range where a record seems to start, or None."""
    at = data.find(_START, max(low - len(_END), 0), high + len(_START)) + len(_END)
    return at if len(_END) <= at < high else None


WARC = byte_format(
    read_records,
    title="WARC",
    suffixes=(".warc", ".wet"),
    magic=(b"WARC/1.",),
    marks=lambda head, _tail: _BEGIN.match(head) is not None,
    cut=_cut,
    has_fields=False,
)
