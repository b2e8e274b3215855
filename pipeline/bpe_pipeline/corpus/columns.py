"""Columns of texts in Arrow's memory, of any type, as documents without Python strings.

Imported only where there is a column, since it imports Arrow.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.documents import Records, SkippedRecords, field_path
from bpe_pipeline.corpus.files import damaged
from bpe_pipeline.corpus.skipped_or_altered import MOST_EXAMPLES

MOST_BYTES = 4 << 20
_PLAIN = pa.string(), pa.large_string(), pa.binary(), pa.large_binary()


@contextmanager
def intact(path: str, action: str) -> Iterator[None]:
    """Raise `InputError` for what is raised where a file is damaged. action: what fails, with its location."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, IndexError, StopIteration, struct.error) as error:
        raise damaged(path, action, error) from None


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of this type are texts: strings or bytes, of any layout, also in a dictionary."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return kind in (*_PLAIN, pa.binary_view(), pa.string_view()) or pa.types.is_fixed_size_binary(kind)


def require_text(path: str, schema: pa.Schema, text_field: str) -> int:
    """Return the number of the top column that has the field; raise `InputError` unless it is there once, and text."""
    kind: Any = pa.struct(list(schema))
    names = field_path(text_field, schema.names)
    for name in names:
        if not pa.types.is_struct(kind) or len(kind.get_all_field_indices(name)) != 1:
            raise InputError(
                f"{path} has no column {text_field!r}: it has {', '.join(schema.names[:20])}; say which one is the "
                "text with --text-field"
            )
        kind = kind.field(name).type
    if not is_text(kind):
        raise InputError(
            f"{path}: the column {text_field!r} is {kind}, not text; say which one is the text with --text-field"
        )
    return int(schema.get_field_index(names[0]))


def field(records: Any, text_field: str) -> Any:
    """Return the field of structs with just this name, or to which its dots lead; nulls if there is none."""
    column = records
    for name in field_path(text_field, [field.name for field in column.type]):
        if not pa.types.is_struct(column.type) or not column.type.get_all_field_indices(name):
            return pa.nulls(len(records), pa.binary())
        column = pc.struct_field(column, name)
    return column


def plain(column: pa.Array, most_bytes: int = MOST_BYTES) -> Iterator[pa.Array]:
    """Yield a column of texts as parts whose texts are adjacent in memory, of a dictionary's at most `most_bytes`."""
    kind = column.type
    if kind in _PLAIN:
        yield column
    elif not pa.types.is_dictionary(kind):
        yield column.cast(pa.large_binary())
    else:
        [values] = plain(column.dictionary)
        sizes = pc.cast(pc.binary_length(values), pa.int64())
        parts = [column.indices]
        while parts:
            indices = parts.pop()
            if len(indices) > 1 and (pc.sum(pc.take(sizes, indices)).as_py() or 0) > most_bytes:
                half = len(indices) // 2
                parts += [indices.slice(half), indices.slice(0, half)]
            else:
                yield pc.take(values, indices)


def records_of(column: pa.Array, position: Callable[[int], int]) -> Records:
    """Return a plain column as records; a row without a value is an empty text."""
    skipped = skipped_rows("records_without_field", pc.is_null(column), position)
    if skipped:
        column = pc.fill_null(column, pa.scalar(b"", pa.binary()).cast(column.type))
    width = 8 if column.type in (pa.large_binary(), pa.large_string()) else 4
    _, offsets, data = column.buffers()
    if offsets is None or len(column) == 0:
        return Records(bytes(width), b"", width, position, skipped)
    offsets = offsets.slice(width * column.offset, width * (len(column) + 1))
    return Records(offsets, data or b"", width, position, skipped)


def skipped_rows(kind: str, selected: pa.Array, position: Callable[[int], int]) -> list[SkippedRecords]:
    """Describe the rows for which `selected` is true."""
    count = selected.true_count
    first = pc.indices_nonzero(selected).slice(0, MOST_EXAMPLES).to_pylist() if count else []
    return [SkippedRecords(kind, count, [position(row) for row in first])] if count else []
