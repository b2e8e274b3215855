"""Columns of texts in Arrow's memory: of whatever type they came, as documents without nulls, without Python strings.

Imported where there is a column, for it imports Arrow.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES = 4 << 20


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are texts: strings or bytes, of any layout, also in a dictionary."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    of_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    of_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(of_bytes or of_text or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def plain(column: pa.Array, most_bytes: int = MOST_BYTES) -> Iterator[pa.Array]:
    """A column of texts as one or more, in order, whose texts lie end to end in memory; nulls stay.

    most_bytes: of texts that a dictionary's column is decoded to at once; a single text may be longer.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield from _decoded(column, most_bytes)
    elif kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        yield column
    else:
        yield column.cast(pa.large_binary())


def _decoded(column: pa.DictionaryArray, most_bytes: int) -> Iterator[pa.Array]:
    """A dictionary's column in parts: few entries may stand for very much text."""
    [values] = plain(column.dictionary)
    sizes = pc.cast(pc.binary_length(values), pa.int64())
    yield from _taken(values, sizes, column.indices, most_bytes)


def _taken(values: pa.Array, sizes: pa.Array, indices: pa.Array, most_bytes: int) -> Iterator[pa.Array]:
    if len(indices) > 1 and (pc.sum(pc.take(sizes, indices)).as_py() or 0) > most_bytes:
        half = len(indices) // 2
        yield from _taken(values, sizes, indices.slice(0, half), most_bytes)
        yield from _taken(values, sizes, indices.slice(half), most_bytes)
    else:
        yield pc.take(values, indices)


def null_rows(column: pa.Array, most: int) -> list[int]:
    """The first rows without a value."""
    found: list[int] = pc.indices_nonzero(pc.is_null(column)).slice(0, most).to_pylist()
    return found


def buffers(column: pa.Array) -> tuple[Any, Any, int]:
    """Offsets, data and the bytes of an offset, of a plain column; a row without a value is an empty text."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(b"", pa.binary()).cast(column.type))
    kind = column.type
    width = 8 if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind) else 4
    _, offsets, data = column.buffers()
    if offsets is None or len(column) == 0:
        return bytes(width), b"", width
    return offsets.slice(width * column.offset, width * (len(column) + 1)), data or b"", width
