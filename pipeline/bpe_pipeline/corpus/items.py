"""Any iterable of documents -> records for the native core: strings, bytes, columns of Arrow, rows of a data set.

Text goes from Arrow's memory to the core without a copy, and strings are joined to records of about a mebibyte, so
memory holds a few of them at a time. What is no text is skipped, and a lone surrogate becomes one invalid byte, as of
JSON Lines.
"""

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.corpus.documents import Records, field_path, joined

_BLOCK_BYTES, _BLOCK_ROWS = 1 << 20, 1 << 16
_SURROGATE = re.compile("[\ud800-\udfff]")
_INVALID_BYTE = "\udcff"  # as `surrogateescape` has it
_BATCH_ROWS = 1000  # of a data set at a time
_TEXTS = (str, bytes, bytearray, memoryview)


def blocks(items: Iterable[Any], text_field: str) -> Iterator[Records]:
    """Yield the documents of an iterable; their positions are numbers of items, from 1.

    items: strings or bytes, mappings that have one in `text_field`, lists of these; pyarrow Arrays, RecordBatches or
    Tables, or data frames, whose column `text_field` is read; or one such object; or a `datasets.Dataset`. A field has
    just that name, or the dots of `text_field` lead to it. None is a record without its field.

    Raises `UsageError` for what is not an iterable of documents, `InputError` naming the item that is none of these or
    the columns that one object or a data set has.
    """
    number = 1  # of the next item
    texts: list[bytes] = []
    skipped: dict[str, list[int]] = {}
    size = 0
    for item in _unbatched(_documents(items, text_field), text_field):
        is_arrow = _is_arrow(item)
        if not is_arrow:
            text, kind = _text_of(item, text_field, number)
            if kind:
                skipped.setdefault(kind, []).append(len(texts))
            texts.append(text)  # also an empty one: later documents keep their numbers
            number += 1
            size += len(text)
        if texts and (is_arrow or size >= _BLOCK_BYTES or len(texts) >= _BLOCK_ROWS):
            records = joined(texts, skipped, (number - len(texts)).__add__)
            texts, skipped, size = [], {}, 0
            yield records
            del records
        if is_arrow:
            for records in _arrow_records(item, text_field, number):
                yield records
                number += records.rows
    if texts:
        yield joined(texts, skipped, (number - len(texts)).__add__)


def _documents(items: Any, text_field: str) -> Iterable[Any]:
    """Return what to iterate over; refuse what would yield something else than its documents."""
    if is_table(items):
        return [items]
    is_data_set = hasattr(items, "with_format") and hasattr(items, "select_columns")  # of `datasets`
    kind = type(items).__name__
    misuse = ""
    if isinstance(items, _TEXTS):
        misuse = "are one single text, which would be read letter by letter; give a list of texts"
    elif isinstance(items, Mapping | ItemsView) or _is_scalar(items):
        misuse = f"are one {kind}, which would be read as its keys or not at all; give a list of records or texts, "
        misuse += "of a set of data sets one"
    elif not (is_data_set or _is_arrow(items) or hasattr(items, "__iter__") or hasattr(items, "__getitem__")):
        misuse = f"are of type {kind}, which has no items; give a list of texts"
    if misuse:
        raise UsageError(f"the documents {misuse}")
    if is_data_set:
        known = items.column_names  # None: they are not known before the first row
        columns = items if known is None else items.select_columns([_column_name("the data set", text_field, known)])
        return cast("Iterable[Any]", columns.with_format("arrow").iter(batch_size=_BATCH_ROWS))
    if _of_arrow(items) and hasattr(items, "schema"):
        _column_name("the table", text_field, items.schema.names)
    return [items] if _is_arrow(items) else cast("Iterable[Any]", items)


def is_table(items: object) -> bool:
    """Return whether it is a data frame of pandas, polars, ..., which by itself is an iterable of its columns."""
    interchanged = hasattr(items, "__dataframe__") or hasattr(items, "__arrow_c_stream__")
    return interchanged and hasattr(items, "columns") and not _of_arrow(items)


def _unbatched(items: Iterable[Any], text_field: str) -> Iterator[Any]:
    """Yield the members of lists in their place, of a data frame the column of texts, and every other item."""
    for item in items:
        if isinstance(item, list | tuple):
            yield from item
        else:
            yield _column_of(item, text_field) if is_table(item) else item


def _column_of(table: Any, text_field: str) -> Any:
    """Return the column of texts of a data frame, in Arrow's memory."""
    import pyarrow as pa

    try:
        return pa.table(table[[_column_name("the table", text_field, table.columns)]])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"the column {text_field!r} of the table is not all text: {str(error).splitlines()[0]}"
        ) from None


def _of_arrow(item: object) -> bool:
    return type(item).__module__.split(".")[0] == "pyarrow"


def _is_arrow(item: object) -> bool:
    return _of_arrow(item) and (hasattr(item, "column") or hasattr(item, "null_count"))


def _is_scalar(item: object) -> bool:
    return _of_arrow(item) and hasattr(item, "as_py")


def _column_name(owner: str, text_field: str, known: Iterable[str]) -> str:
    """Return the column that has the field; raise `InputError` if there is none."""
    column = field_path(text_field, list(known))[0]
    if column not in known:
        names = ", ".join(map(str, known)) or "none"
        raise InputError(f"{owner} has no column {text_field!r}, only {names}; name it with text_field")
    return column


def _text_of(item: Any, text_field: str, number: int) -> tuple[bytes, str]:
    """Return the text of an item, or no text and the kind of skipped record that it is."""
    if not isinstance(item, _TEXTS):
        if _is_scalar(item) or not (item is None or isinstance(item, Mapping)):
            remedy = f"; give str, bytes, records with a text in {text_field!r}, lists of these, or pyarrow columns"
            if _is_scalar(item):
                remedy = ", one value of a pyarrow column; give the whole column, or the value's as_py()"
            raise InputError(f"item {number} is of type {type(item).__name__}{remedy}")
        item = _value_of(item, text_field)
        if not isinstance(item, _TEXTS):
            return b"", "records_without_field" if item is None else "records_not_text"
    return _encoded(item), ""


def _value_of(item: Mapping[Any, Any] | None, name: str) -> Any:
    """Return the value of a field with just this name, or to which its dots lead; None if there is none."""
    value: Any = item
    for part in field_path(name, item or ()):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _encoded(text: Any) -> bytes:
    if not isinstance(text, str):
        return bytes(text)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(_INVALID_BYTE, text).encode(errors="surrogateescape")


def _arrow_records(item: Any, text_field: str, number: int) -> Iterator[Records]:
    """Yield the rows of an Arrow object, the first of which is item `number`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from bpe_pipeline.corpus import columns

    if hasattr(item, "schema"):
        item = item.to_struct_array()
    is_record = pa.types.is_struct(item.type)
    try:
        for chunk in item.chunks if isinstance(item, pa.ChunkedArray) else [item]:
            for start in range(0, len(chunk), _BLOCK_ROWS):
                column = chunk.slice(start, _BLOCK_ROWS)
                if is_record:
                    column = columns.field(column, text_field)
                skipped = []
                if not columns.is_text(column.type) and not pa.types.is_null(column.type):
                    if not is_record:
                        raise InputError(f"the column at item {number} is of type {column.type}, not text or bytes")
                    skipped = columns.skipped_rows("records_not_text", pc.is_valid(column), number.__add__)
                    column = pc.if_else(pc.is_valid(column), pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary()))
                for texts in columns.plain(column):
                    records = columns.records_of(texts, number.__add__)
                    yield replace(records, skipped=[*records.skipped, *skipped]) if skipped else records
                    number += len(texts)
    except pa.ArrowException as error:
        raise InputError(f"the column at item {number} cannot be read as text: {str(error).splitlines()[0]}") from None
