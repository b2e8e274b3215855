"""Any iterable of documents as blocks for the native core: strings, bytes, columns of Arrow, rows of a data set.

Each item is one document; of an Arrow array each element, of a table each row of its text column. Text goes from
Arrow's memory to the core as it is, and strings are joined to blocks of about a mebibyte, so memory holds a few blocks
whatever the iterable gives. A record whose field is not there, or is no text, is lost as one of JSON Lines is, and told
with its kind and the number of its item.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.base.errors import InputError, InvalidTextError, UsageError
from pipeline.corpus.losses import MOST_EXAMPLES
from pipeline.corpus.records import Lost

_BLOCK_BYTES, _BLOCK_ROWS = 1 << 20, 1 << 16
_SURROGATE = re.compile("[\ud800-\udfff]")
_BATCH_ROWS = 1000  # of a data set at a time
_Kind = str | None  # of loss, where a record is no document


@dataclass(frozen=True)
class Block:
    """Documents end to end: document i is data[offsets[i]:offsets[i + 1]], offsets of 32 or 64 bits.

    first: the number of the first one's item, from 1. replaced, skipped: lone surrogates that became U+FFFD, and
    documents left out because of one; examples: the first places of both. lost: records that are no documents, each an
    empty row here; their places are numbers of items.
    """

    first: int
    offsets: Any
    data: Any
    rows: int
    replaced: int = 0
    skipped: int = 0
    examples: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()


def blocks(items: Iterable[Any], text_field: str, errors: str) -> Iterator[Block]:
    """The documents of an iterable, in blocks.

    items: strings or bytes, or mappings that have one in `text_field`; pyarrow Arrays, RecordBatches or Tables, whose
    column `text_field` is taken; or one such object; or a `datasets.Dataset`. A field is called just that, or it is
    where the dots of `text_field` lead. None is a record without its field. errors: what becomes of a lone surrogate
    in a string, as of invalid UTF-8: "replace" by one U+FFFD, "strict" raises, "skip" leaves the document out.

    Raises `UsageError` for what is no iterable of documents, `InputError` naming the item that is none of these or the
    columns that one object or a data set has, `InvalidTextError` under "strict".
    """
    joiner = _Joiner(errors)
    number = 1
    for item in _documents(items, text_field):
        if _is_scalar(item):
            raise InputError(
                f"item {number} is of type {type(item).__name__}, one value of a pyarrow column; give the whole "
                "column, or the value's as_py()"
            )
        lost: _Kind = None
        if isinstance(item, Mapping):
            item, lost = _field(item, text_field)
        elif item is None:
            lost = "records_without_field"
        if lost is not None:
            yield from joiner.lose(lost, number)
            number += 1
        elif isinstance(item, _TEXTS):
            yield from joiner.add(item, number)
            number += 1
        elif _is_arrow(item):
            yield from joiner.flush()
            for block in _arrow_blocks(item, text_field, number):
                yield block
                number += block.rows
        else:
            raise InputError(
                f"item {number} is of type {type(item).__name__}; give str, bytes, records with a text in "
                f"{text_field!r}, or pyarrow columns of them"
            )
    yield from joiner.flush()


_TEXTS = (str, bytes, bytearray, memoryview)


def _documents(items: Any, text_field: str) -> Iterable[Any]:
    """What to iterate over; refuses what would give something else than its documents."""
    if isinstance(items, _TEXTS):
        raise UsageError(
            "the documents are one single text, which would be read letter by letter; give a list of texts"
        )
    if isinstance(items, Mapping) or _is_scalar(items):
        raise UsageError(
            f"the documents are one {type(items).__name__}, which would be read as its keys or not at all; give a list "
            "of records or texts, of a set of data sets one"
        )
    if hasattr(items, "with_format") and hasattr(items, "select_columns"):  # a datasets.Dataset
        return _data_set(items, text_field)
    if _is_arrow(items):
        _require_field("the table", text_field, items)
        return [items]
    if not hasattr(items, "__iter__") and not hasattr(items, "__getitem__"):
        raise UsageError(
            f"the documents are of type {type(items).__name__}, which gives no items; give a list of texts"
        )
    _require_field("the table", text_field, items)
    documents: Iterable[Any] = items
    return documents


def _of_arrow(item: object) -> bool:
    return type(item).__module__.split(".")[0] == "pyarrow"


def _is_arrow(item: object) -> bool:
    return _of_arrow(item) and (hasattr(item, "column") or hasattr(item, "null_count"))


def _is_scalar(item: object) -> bool:
    return _of_arrow(item) and hasattr(item, "as_py")


def _require_field(name: str, text_field: str, items: Any) -> None:
    """Refuse Arrow's records whose schema, known before the first of them, has no such field."""
    if _of_arrow(items) and hasattr(items, "schema"):
        _first_name(name, text_field, items.schema.names)


def _first_name(name: str, text_field: str, names: Iterable[str]) -> str:
    """The column in which the field lies."""
    first = text_field if text_field in names else text_field.split(".")[0]
    if first not in names:
        raise InputError(
            f"{name} has no column {text_field!r}, only {', '.join(map(str, names)) or 'none'}; name it with text_field"
        )
    return first


def _data_set(items: Any, text_field: str) -> Iterator[Any]:
    names = items.column_names  # None: nobody knows before the first row
    first = text_field if names is None else _first_name("the data set", text_field, names)
    columns = items if names is None else items.select_columns([first])
    batches: Iterator[Any] = columns.with_format("arrow").iter(batch_size=_BATCH_ROWS)
    return batches


def _field(item: Any, text_field: str) -> tuple[Any, _Kind]:
    """The text of a record, or the kind of loss that it is."""
    for name in (text_field,) if text_field in item else text_field.split("."):
        item = item.get(name) if isinstance(item, Mapping) else None
    if item is None:
        return None, "records_without_field"
    return item, None if isinstance(item, _TEXTS) else "records_not_text"


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
        self._lost: dict[str, tuple[int, list[int]]] = {}

    def lose(self, kind: str, number: int) -> Iterator[Block]:
        """Take a record that is no document."""
        count, places = self._lost.get(kind, (0, []))
        self._lost[kind] = count + 1, [*places, number][:MOST_EXAMPLES]
        return self.add(b"", number)

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
        if len(self._examples) < MOST_EXAMPLES:
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
            surrogates = self._replaced, self._skipped, tuple(self._examples)
            lost = tuple(Lost(kind, count, places) for kind, (count, places) in self._lost.items())
            yield Block(self._first, self._offsets, b"".join(self._parts), rows, *surrogates, lost)
        self._start()


def _arrow_blocks(item: Any, text_field: str, number: int) -> Iterator[Block]:
    """The rows of an Arrow object, the first of which is item `number`; rows of text end to end."""
    import pyarrow as pa

    from pipeline.corpus import columns

    if hasattr(item, "schema"):
        item = item.to_struct_array()
    is_record = pa.types.is_struct(item.type)
    try:
        for chunk in item.chunks if isinstance(item, pa.ChunkedArray) else [item]:
            for start in range(0, len(chunk), _BLOCK_ROWS):
                column = chunk.slice(start, _BLOCK_ROWS)
                if is_record:
                    column = _column(column, text_field)
                if columns.is_text(column.type) or pa.types.is_null(column.type):
                    for part in columns.plain(column):
                        yield _arrow_block(part, number)
                        number += len(part)
                elif is_record:
                    yield _lost_block(column, number)
                    number += len(column)
                else:
                    raise InputError(f"the column at item {number} is of type {column.type}, not text or bytes")
    except pa.ArrowException as error:
        raise InputError(f"the column at item {number} cannot be read as text: {str(error).splitlines()[0]}") from None


def _column(records: Any, text_field: str) -> Any:
    """The column of records that has the text, of nulls where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = records
    named = column.type.get_all_field_indices(text_field)
    for name in (text_field,) if named else text_field.split("."):
        if not pa.types.is_struct(column.type) or not column.type.get_all_field_indices(name):
            return pa.nulls(len(records), pa.binary())
        column = pc.struct_field(column, name)
    return column


def _arrow_block(column: Any, first: int) -> Block:
    from pipeline.corpus import columns

    offsets, data, offset_bytes = columns.buffers(column)
    places = memoryview(offsets).cast("B").cast("i" if offset_bytes == 4 else "q")
    lost = _rows_lost("records_without_field", columns.null_rows(column, MOST_EXAMPLES), column.null_count, first)
    return Block(first, places, data, len(column), lost=lost)


def _lost_block(column: Any, first: int) -> Block:
    """Rows of something else than text."""
    import pyarrow.compute as pc

    from pipeline.corpus import columns

    empty = column.null_count
    others = pc.indices_nonzero(pc.is_valid(column)).slice(0, MOST_EXAMPLES).to_pylist()
    lost = (
        *_rows_lost("records_without_field", columns.null_rows(column, MOST_EXAMPLES), empty, first),
        *_rows_lost("records_not_text", others, len(column) - empty, first),
    )
    return Block(first, array("q", bytes(8 * (len(column) + 1))), b"", len(column), lost=lost)


def _rows_lost(kind: str, rows: list[int], count: int, first: int) -> tuple[Lost, ...]:
    return (Lost(kind, count, [first + row for row in rows]),) if count else ()
