"""Any iterable of documents as blocks for the native core: strings, bytes, columns of Arrow, rows of a data set.

Each item is one document; of an Arrow array each element, of a table each row of its text column. Text goes from
Arrow's memory to the core as it is, and strings are joined to blocks of about a mebibyte, so memory holds a few blocks
whatever the iterable gives.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import InputError, InvalidTextError, UsageError

_BLOCK_BYTES, _BLOCK_ROWS = 1 << 20, 1 << 16
_SURROGATE = re.compile("[\ud800-\udfff]")
_BATCH_ROWS = 1000  # of a data set at a time


@dataclass(frozen=True)
class Block:
    """Documents end to end: document i is data[offsets[i]:offsets[i + 1]], offsets of 32 or 64 bits.

    first: the number of the first one's item, from 1. replaced, skipped: lone surrogates that became U+FFFD, and
    documents left out because of one; examples: the first places of both. missing: rows without text.
    """

    first: int
    offsets: Any
    data: Any
    rows: int
    replaced: int = 0
    skipped: int = 0
    examples: tuple[str, ...] = ()
    missing: int = 0


def blocks(items: Iterable[Any], text_field: str, errors: str) -> Iterator[Block]:
    """The documents of an iterable, in blocks.

    items: strings or bytes, or mappings that have one in `text_field`; pyarrow Arrays, RecordBatches or Tables, whose
    column `text_field` is taken; or one such object; or a `datasets.Dataset`. errors: what becomes of a lone surrogate
    in a string, as of invalid UTF-8: "replace" by one U+FFFD, "strict" raises, "skip" leaves the document out.

    Raises `InputError` naming the item that is none of these, `InvalidTextError` under "strict".
    """
    if isinstance(items, str | bytes | bytearray):
        raise UsageError(
            "the documents are one single text, which would be read letter by letter; give a list of texts"
        )
    if hasattr(items, "with_format") and hasattr(items, "select_columns"):  # a datasets.Dataset
        items = _data_set(items, text_field)
    elif _is_arrow(items):
        items = [items]
    joiner = _Joiner(errors)
    number = 1
    for item in items:
        if isinstance(item, Mapping):
            item = _field(item, text_field, number)
        if isinstance(item, str | bytes | bytearray | memoryview):
            yield from joiner.add(item, number)
            number += 1
        elif _is_arrow(item):
            yield from joiner.flush()
            for column in _columns(item, text_field, number):
                yield _arrow_block(column, number)
                number += len(column)
        else:
            raise InputError(
                f"item {number} is of type {type(item).__name__}; give str, bytes, or pyarrow columns of them"
            )
    yield from joiner.flush()


def _is_arrow(item: object) -> bool:
    return type(item).__module__.split(".")[0] == "pyarrow" and (hasattr(item, "column") or hasattr(item, "null_count"))


def _data_set(items: Any, text_field: str) -> Iterator[Any]:
    names = items.column_names
    if names is not None and text_field not in names:
        raise InputError(_no_field("the data set", text_field, names))
    batches: Iterator[Any] = items.select_columns([text_field]).with_format("arrow").iter(batch_size=_BATCH_ROWS)
    return batches


def _no_field(name: str, text_field: str, names: Iterable[str]) -> str:
    return f"{name} has no column {text_field!r}, only {', '.join(map(str, names)) or 'none'}; name it with text_field"


def _field(item: Mapping[Any, Any], text_field: str, number: int) -> Any:
    if text_field not in item:
        raise InputError(_no_field(f"item {number}", text_field, item))
    return item[text_field]


class _Joiner:
    """Joins strings and bytes to blocks."""

    def __init__(self, errors: str) -> None:
        self._errors = errors
        self._first = 1
        self._start()

    def _start(self) -> None:
        self._parts: list[Any] = []
        self._offsets = array("q", [0])
        self._replaced = self._skipped = 0
        self._examples: list[str] = []

    def add(self, item: Any, number: int) -> Iterator[Block]:
        """Take one more document; gives a block when it is full."""
        if isinstance(item, str):
            try:
                data: Any = item.encode()
            except UnicodeEncodeError as error:
                data = self._repaired(item, number, error.start)
        else:
            data = item if isinstance(item, bytes) else bytes(item)
        if not self._parts:
            self._first = number
        self._parts.append(data)  # an empty document is none, but keeps the numbers of those after it
        self._offsets.append(self._offsets[-1] + len(data))
        if self._offsets[-1] >= _BLOCK_BYTES or len(self._parts) >= _BLOCK_ROWS:
            yield from self.flush()

    def _repaired(self, item: str, number: int, at: int) -> bytes:
        place = f"item {number}, character {at}"
        if self._errors == "strict":
            raise InvalidTextError(f"{place} is a lone surrogate; mend it, or choose errors='replace' or 'skip'")
        if len(self._examples) < 8:
            self._examples.append(place)
        if self._errors == "skip":
            self._skipped += 1
            return b""
        text, times = _SURROGATE.subn("\ufffd", item)
        self._replaced += times
        return text.encode()

    def flush(self) -> Iterator[Block]:
        """What is waiting."""
        if self._parts:
            rows = len(self._parts)
            lost = self._replaced, self._skipped, tuple(self._examples)
            yield Block(self._first, self._offsets, b"".join(self._parts), rows, *lost)
        self._start()


def _columns(item: Any, text_field: str, number: int) -> Iterator[Any]:
    """The arrays of text in an Arrow object, in parts that are documents end to end."""
    import pyarrow as pa

    from pipeline.corpus import columns

    if hasattr(item, "schema"):
        if text_field not in item.schema.names:
            raise InputError(_no_field(f"the table at item {number}", text_field, item.schema.names))
        item = item.column(text_field)
    try:
        for chunk in item.chunks if isinstance(item, pa.ChunkedArray) else [item]:
            if not columns.is_text(chunk.type):
                raise InputError(f"the column at item {number} is of type {chunk.type}, not text or bytes")
            for start in range(0, len(chunk), _BLOCK_ROWS):
                yield from columns.plain(chunk.slice(start, _BLOCK_ROWS))
    except pa.ArrowException as error:
        raise InputError(f"the column at item {number} cannot be read as text: {str(error).splitlines()[0]}") from None


def _arrow_block(column: Any, first: int) -> Block:
    from pipeline.corpus import columns

    offsets, data, offset_bytes = columns.buffers(column)
    places = memoryview(offsets).cast("B").cast("i" if offset_bytes == 4 else "q")
    return Block(first, places, data, len(column), missing=column.null_count)
