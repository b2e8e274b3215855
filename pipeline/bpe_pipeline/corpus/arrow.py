"""Arrow, files and streams (as `datasets` writes them): record batches -> documents, one per row of one column.

A file holds a stream, so both are read as one, message by message; the headers of messages say where a file can be cut:
where a record batch starts. A batch is held in memory whole. A row whose text is null has no field.
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus.columns import field, intact, plain, records_of, require_text
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan, opened
from bpe_pipeline.corpus.read_budget import SMALL_BYTES, ReadBudget
from bpe_pipeline.storage import OpenFile, is_uri

_FILE_MARK = b"ARROW1"
_MARK_BYTES = 8  # before the stream in a file, and before a message: a continuation and the length of its header
_CONTINUATION = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3  # kinds of messages
_HEADER_BYTES, _MOST_HEADER_BYTES = 1 << 12, 1 << 28
_READ = "read as Arrow: it is damaged"
_BINARY = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}


class _Message(NamedTuple):
    """A message: where it starts, its header with its length, its bytes of body; of a batch also its rows and buffers.

    buffers: where they start in the body if they are compressed, each with its size before its content.
    """

    start: int
    header: bytes
    body_bytes: int
    kind: int
    rows: int = 0
    buffers: tuple[int, ...] = ()

    @property
    def stop(self) -> int:
        return self.start + len(self.header) + self.body_bytes


def batch_cuts(file: CorpusFile, text_field: str, chunk_bytes: int) -> list[int]:
    """Return where to cut a file between record batches, for chunks of about this size; none in an object store.

    Raises `InputError` if it is damaged, or has no column of texts with this name.
    """
    with opened(file.path) as stream, intact(file.path, _READ):
        messages = _messages(file, stream)
        schema = _schema(next(messages))
        require_text(file.path, schema, text_field)
        if is_uri(file.path) or file.size <= chunk_bytes:
            return []
        starts = list[int]()
        for message in messages:
            if message.kind == _BATCH:
                starts.append(message.start)
            elif starts:
                return []  # a later batch needs this dictionary
    cuts, wanted = list[int](), chunk_bytes
    for start in starts[1:]:
        if start >= wanted:
            cuts.append(start)
            wanted = start + chunk_bytes
    return cuts


def read_batches(
    span: FileSpan, stream: OpenFile, text_field: str, progress: Callable[[int], None], budget: ReadBudget
) -> Iterator[Records]:
    """Read the rows of the record batches that start in a span; `progress` is called with bytes."""
    file, start, _ = span
    with intact(file.path, _READ):
        schema = _schema(next(_messages(file, stream)))
        index = require_text(file.path, schema, text_field)
        before = _messages(file, stream) if start else ()
        at = sum(message.rows for message in before if message.start < start)
        source = pa.PythonFile(_PreTokens(_content(span, stream, progress, budget)), mode="r")
        with pa.ipc.open_stream(source, options=pa.ipc.IpcReadOptions(included_fields=[index])) as reader:
            for batch in reader:
                batch.validate()
                column = field(batch.to_struct_array(), text_field)
                _require_sound(column)
                for texts in plain(column):
                    yield records_of(texts, at.__add__)
                    at += len(texts)
                del batch, column


def _content(span: FileSpan, stream: OpenFile, progress: Callable[[int], None], budget: ReadBudget) -> Iterator[bytes]:
    """Yield headers and bodies of the messages of a span: its batches, and what comes before the first one."""
    file, start, stop = span
    reported = start
    for message in _messages(file, stream):
        if message.start >= stop:
            break
        if message.kind == _BATCH and message.start < start:
            continue
        yield message.header
        _hold(file, budget, message, message.body_bytes)
        body = stream.read_at(message.stop - message.body_bytes, message.body_bytes)
        if message.buffers:
            sizes = (int.from_bytes(body[at : at + 8], "little", signed=True) for at in message.buffers)
            _hold(file, budget, message, len(body) + sum(size for size in sizes if size > 0))
        yield body
        del body
        done = max(min(message.stop, stop), reported)
        progress(done - reported)
        reported = done
    progress(stop - reported)


def _hold(file: CorpusFile, budget: ReadBudget, message: _Message, size: int) -> None:
    name = "batch" if message.kind == _BATCH else f"dictionary at byte {message.start}"
    if size > SMALL_BYTES:
        budget.require(name, size, f"{file.path}, byte {message.start}: the {name.split()[0]} of {format_bytes(size)}")


class _PreTokens:
    """Parts of bytes for Arrow to read, which asks for just these parts, so that they are hardly ever
    copied."""

    closed = False

    def __init__(self, pre_tokens: Iterator[bytes]) -> None:
        self._pre_tokens, self._left = pre_tokens, memoryview(b"")

    def close(self) -> None:
        """Leave the file open, which its owner closes."""

    def read(self, size: int) -> memoryview:
        """Return the next bytes; fewer at the end."""
        while len(self._left) < size and (pre_token := next(self._pre_tokens, None)) is not None:
            self._left = memoryview(bytes(self._left) + pre_token if self._left else pre_token)
        data, self._left = self._left[:size], self._left[size:]
        return data


def _messages(file: CorpusFile, stream: OpenFile) -> Iterator[_Message]:
    """Yield the messages of a file or stream, the first of which is its schema, by reading their headers."""
    at, stop = 0, file.size
    if stream.read_at(0, len(_FILE_MARK)) == _FILE_MARK:
        end = stream.read_at(stop - 4 - len(_FILE_MARK), 4 + len(_FILE_MARK))  # of the footer: its length, the mark
        if end[4:] != _FILE_MARK:
            raise ValueError("its end is missing")
        at, stop = _MARK_BYTES, stop - len(end) - int.from_bytes(end[:4], "little")
    while at < stop:
        head = stream.read_at(at, _HEADER_BYTES)
        marks = 8 if head.startswith(_CONTINUATION) else 4  # the latter before Arrow 0.15
        size = int.from_bytes(head[marks - 4 : marks], "little")
        if size == 0:
            break
        if size > _MOST_HEADER_BYTES:
            raise ValueError(f"no message starts at byte {at}")
        header = (head if len(head) >= marks + size else stream.read_at(at, marks + size))[: marks + size]
        message = _parsed(at, header, marks)
        if len(header) < marks + size or message.stop > file.size:
            raise ValueError(f"the message at byte {at} does not end")
        yield message
        at = message.stop


def _parsed(at: int, header: bytes, marks: int) -> _Message:
    """Read the header of a message, a FlatBuffer (https://arrow.apache.org/docs/format/Columnar.html)."""
    table = marks + struct.unpack_from("<I", header, marks)[0]
    kind_at, content_at, size_at = (_field(header, table, number) for number in (1, 2, 3))
    body_bytes = struct.unpack_from("<q", header, size_at)[0] if size_at else 0
    kind = header[kind_at] if kind_at else 0
    if kind not in (_DICTIONARY, _BATCH):
        return _Message(at, header, body_bytes, kind)
    content = content_at + struct.unpack_from("<I", header, content_at)[0]
    if kind == _DICTIONARY:
        content_at = _field(header, content, 1)
        content = content_at + struct.unpack_from("<I", header, content_at)[0]
    rows_at, buffers_at, compression_at = (_field(header, content, number) for number in (0, 2, 3))
    rows = struct.unpack_from("<q", header, rows_at)[0] if rows_at else 0
    buffers: tuple[int, ...] = ()
    if compression_at and buffers_at:
        vector = buffers_at + struct.unpack_from("<I", header, buffers_at)[0]
        pairs = struct.iter_unpack("<qq", header[vector + 4 :][: 16 * struct.unpack_from("<I", header, vector)[0]])
        buffers = tuple(offset for offset, size in pairs if size)
    return _Message(at, header, body_bytes, kind, rows if kind == _BATCH else 0, buffers)


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a table of a FlatBuffer is; 0 if it has the default value."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    at = offsets + 4 + 2 * number
    offset = struct.unpack_from("<H", data, at)[0] if 4 + 2 * number < struct.unpack_from("<H", data, offsets)[0] else 0
    return table + offset if offset else 0


def _schema(message: _Message) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(message.header))


def _require_sound(column: pa.Array) -> None:
    """Raise an error of Arrow unless the offsets of a column are within its memory; what is text is not decoded."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    values.cast(_BINARY.get(values.type, values.type)).validate(full=True)
