"""How large the pages of a Parquet column are, told by their headers before anything in them is decompressed.

A page is held whole, and a few bytes may decompress to very many. The file's index only tells the sum of a column's
pages; their headers (https://parquet.apache.org/docs/file-format/metadata/) are read here, in Thrift's compact
protocol, as far as they tell sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.storage import OpenFile

_HEADER_BYTES, _MOST_HEADER_BYTES = 1 << 10, 1 << 24  # statistics in it may be long
_DICTIONARY_PAGE = 2
_TYPE, _SIZE, _COMPRESSED_SIZE = 1, 2, 3
_DATA_HEADERS = (5, 8)  # of both versions; their first field is the number of values
# Thrift's types
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 16
_REPEATING = "DELTA_BYTE_ARRAY"  # an encoding of values that begin as the one before


@dataclass(frozen=True)
class Page:
    """A page: the bytes it decompresses to, and its values; values: 0 for that of a dictionary."""

    size: int
    values: int


@dataclass(frozen=True)
class Sizes:
    """What decoding a column chunk may hold, in bytes.

    page, dictionary: its largest page of values, and of a dictionary. densest: a value on average, in the page where
    that is most. repeating: no value is longer that a page may hold again and again in few bytes.
    """

    page: int
    dictionary: int
    densest: float
    repeating: int

    def rows(self, batch_bytes: int, most: int) -> int:
        """How many rows to decode at once, at most, so that they are about so many bytes, a page aside."""
        return max(1, min(most, batch_bytes // max(self.repeating, int(self.densest), 1)))


def sizes(stream: OpenFile, column: Any) -> Sizes:
    """What a column chunk takes, given what the file's index says of it. Raises `ValueError` where that is wrong."""
    found = list(pages(stream, column))
    page = max((one.size for one in found if one.values), default=0)
    dictionary = max((one.size for one in found if not one.values), default=0)
    densest = max((one.size / one.values for one in found if one.values), default=0.0)
    return Sizes(page, dictionary, densest, page if _REPEATING in column.encodings else 0)


def pages(stream: OpenFile, column: Any) -> Iterator[Page]:
    """The pages of a column chunk, given what the file's index says of it. Raises `ValueError` where that is wrong."""
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    while at < end:
        page, header_bytes, compressed = _read(stream, at)
        yield page
        at += header_bytes + compressed


def _read(stream: OpenFile, at: int) -> tuple[Page, int, int]:
    """A page, the bytes of its header, and those of its content."""
    size = _HEADER_BYTES
    while True:
        data = stream.read_at(at, size)
        try:
            header, length = _struct(data, 0, 0)
        except IndexError:
            if len(data) < size or size >= _MOST_HEADER_BYTES:
                raise ValueError(f"the header of the page at byte {at} does not end") from None
            size *= 16
            continue
        kind, whole, compressed = (header.get(field) for field in (_TYPE, _SIZE, _COMPRESSED_SIZE))
        if not (isinstance(kind, int) and isinstance(whole, int) and isinstance(compressed, int)):
            raise ValueError(f"the header of the page at byte {at} has no sizes")
        if whole < 0 or compressed < 0:
            raise ValueError(f"the header of the page at byte {at} has a negative size")
        inner: Any = next((header[field] for field in _DATA_HEADERS if field in header), None)
        values = inner.get(1) if kind != _DICTIONARY_PAGE and isinstance(inner, dict) else 0
        return Page(whole, values if isinstance(values, int) else 0), length, compressed


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The numbers and structs of a struct, by field, and where it ends. Raises `IndexError` where the data ends."""
    if depth > _DEEPEST:
        raise ValueError("the header of a page is nested too deeply")
    fields: dict[int, Any] = {}
    field = 0
    while head := data[at]:
        at += 1
        kind = head & 0x0F
        if head >> 4:
            field += head >> 4
        else:
            field, at = _number(data, at)
        fields[field], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return None, at
    if kind == _BYTE:
        return None, at + 1
    if kind in (_I16, _I32, _I64):
        return _number(data, at)
    if kind == _DOUBLE:
        return None, at + 8
    if kind == _BINARY:
        size, at = _varint(data, at)
        return None, at + size
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    raise ValueError("the header of a page holds what no page has")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A signed number, and where it ends."""
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("the header of a page has a number that is too long")
