"""Web archives, WARC 1.0 and 1.1 (https://iipc.github.io/warc-specifications/): a document a record of plain text.

These are the `conversion` records of WET files and the HTTP responses whose type is text/plain. Responses of HTML and
of other media are counted as skipped; records about others (requests, metadata, ...) are no documents.

Only lengths say where a record ends. A cut is where one seems to start, behind an empty line. The reader of the part
before it finds by lengths whether one does: text that only looks so is an error, never a document.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus.chunks import Cutting, SearchedText
from bpe_pipeline.corpus.documents import Records, joined
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats.byte_format import ByteFormat
from bpe_pipeline.corpus.lines import TOO_LONG
from bpe_pipeline.corpus.read_budget import SMALL_BYTES, ReadBudget
from bpe_pipeline.corpus.skipped_or_altered import MOST_LINE_BYTES

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


class Warc(ByteFormat):
    """Records of a web archive. Positions are where a record starts in the text, also in members of gzip."""

    title = "WARC"
    suffixes = (".warc", ".wet")
    magic = (b"WARC/1.",)
    has_fields = False

    def marks(self, head: bytes, tail: bytes) -> bool:
        return _BEGIN.match(head) is not None

    def cut(self, cutting: Cutting, text: SearchedText, reach: int, wanted: int) -> int | None:
        return text.first(wanted, min(wanted + reach, text.size), _find_start)

    def parse(
        self, file: CorpusFile, blocks: Iterator[bytes], at: int, text_field: str, budget: ReadBudget
    ) -> Iterator[Records]:
        texts, positions, skipped, size = list[bytes](), list[int](), dict[str, list[int]](), 0
        for record in _documents(file, _Bytes(blocks, at), budget):
            if record.skipped:
                skipped.setdefault(record.skipped, []).append(len(texts))
            texts.append(record.text)
            positions.append(record.position)
            size += len(record.text)
            if size >= _BATCH_BYTES or len(texts) >= _BATCH_ROWS:
                del record
                yield joined(texts, skipped, positions.__getitem__)
                texts, positions, skipped, size = [], [], {}, 0
                budget.hold("record", 0)
        if texts:
            yield joined(texts, skipped, positions.__getitem__)


class _Document(NamedTuple):
    """The text of a record, or the kind of what was skipped, and where the record starts."""

    text: bytes
    skipped: str
    position: int


class _Bytes:
    """Blocks of bytes, which are taken in order. at: the offset of the next byte."""

    def __init__(self, blocks: Iterator[bytes], at: int) -> None:
        self._blocks, self.at = blocks, at
        self._data, self._next = b"", 0

    def take(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        parts = list(self._parts(size))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def skip(self, size: int) -> int:
        """Pass over bytes; return how many there were."""
        return sum(map(len, self._parts(size)))

    def take_head(self, most: int) -> bytes:
        """Take a head with the empty line that ends it; no bytes if there is none within `most`."""
        while (end := self._data.find(_END, self._next, self._next + most)) < 0:
            if len(self._data) - self._next >= most or not (block := next(self._blocks, b"")):
                return b""
            self._data, self._next = self._data[self._next :] + block, 0
        return self.take(end + len(_END) - self._next)

    def skip_line_ends(self) -> bool:
        """Pass over line ends; return whether anything is behind them."""
        while self.take(1) in (b"\r", b"\n"):
            pass
        self._next, self.at = max(self._next - 1, 0), self.at - bool(self._data)
        return bool(self._data)

    def _parts(self, size: int) -> Iterator[bytes]:
        while size > 0:
            if self._next == len(self._data):
                self._data, self._next = next(self._blocks, b""), 0
                if not self._data:
                    return
            part = self._data[self._next : self._next + size]
            self._next, self.at, size = self._next + len(part), self.at + len(part), size - len(part)
            yield part


def _documents(file: CorpusFile, source: _Bytes, budget: ReadBudget) -> Iterator[_Document]:
    """Yield the records that are documents, and those that are skipped."""
    while source.skip_line_ends():
        start = source.at
        head = source.take_head(_MOST_HEAD_BYTES)
        fields = _fields(head) if _BEGIN.match(head) else {}
        if not _LENGTH.fullmatch(length := fields.get(b"content-length", b"")):
            raise InputError(f"{file.location(start)}: no WARC record starts here; restore the file, or leave it out")
        kind, left = fields.get(b"warc-type"), int(length)
        is_response = kind == b"response" and fields.get(b"content-type") == b"application/http"
        if is_response:
            head = source.take_head(min(left, _MOST_HEAD_BYTES))
            fields, left = _fields(head), left - len(head)
        skipped = _why_skipped(fields, left)
        if skipped or not (is_response or kind == b"conversion"):
            text, size = b"", source.skip(left)
        else:
            what = f"{file.location(start)}: the record of {format_bytes(left)} that begins here"
            budget.require("record", _COPIES * left if left > SMALL_BYTES else 0, what)
            text = source.take(left)
            size = len(text)
        if size < left:
            raise InputError(
                f"{file.location(start)}: the WARC record that starts here does not end; restore the file or, if it "
                f"has another archive in it, read it at once (--chunk-size {file.size})"
            )
        if is_response or kind == b"conversion":
            chunked = fields.get(b"transfer-encoding") == b"chunked"
            yield _Document(_joined_chunks(text) if chunked else text, skipped, start)
        del text


def _fields(head: bytes) -> dict[bytes, bytes]:
    return {name.lower(): value.strip().lower() for name, value in _FIELD.findall(head)}


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


def _find_start(data: bytes, low: int, high: int) -> int | None:
    """Return the first position in a range where a record seems to start, or None."""
    at = data.find(_START, max(low - len(_END), 0), high + len(_START)) + len(_END)
    return at if len(_END) <= at < high else None


WARC = Warc()
