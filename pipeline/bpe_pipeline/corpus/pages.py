"""How large the pages of a Parquet column are, read from their headers before anything in them is decompressed.

The file's index only has the sum of a column's pages. Their headers are in Thrift's compact protocol
(https://parquet.apache.org/docs/file-format/metadata/), which is read as far as it gives sizes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from bpe_pipeline.storage import OpenFile

_HEADER_BYTES, _MOST_HEADER_BYTES = 1 << 10, 1 << 24  # statistics in it may be long
_DICTIONARY_PAGE = 2
_TYPE, _SIZE, _COMPRESSED_SIZE = 1, 2, 3  # fields of a header
_DATA_HEADERS = (5, 8)  # of both versions; their first field is the number of values
# Thrift's types: those of a fixed number of bytes, and others.
_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}  # true, false, a byte, a double
_NUMBERS, _BINARY, _STRUCT = (4, 5, 6), 8, 12
_DEEPEST = 16
_REPEATING = "DELTA_BYTE_ARRAY"  # an encoding of values that begin as the one before


class Page(NamedTuple):
    """A page: the bytes it decompresses to, and its number of values (0 for the page of a dictionary)."""

    size: int
    values: int


class Sizes(NamedTuple):
    """What decoding a column chunk may hold: bytes of its largest page of values, of a dictionary, and of a value."""

    page: int
    dictionary: int
    value: int  # the average where that is largest, or a page if values may begin as the one before

    def rows(self, batch_bytes: int, most: int) -> int:
        """Return how many rows, at most `most`, to decode at once for about `batch_bytes`, a page aside."""
        return max(1, min(most, batch_bytes // max(self.value, 1)))


def sizes(stream: OpenFile, column: Any) -> Sizes:
    """Return the sizes of a column chunk, given its entry in the file's index. Raises `ValueError` if that is wrong."""
    all_pages = list(pages(stream, column))
    data = [page for page in all_pages if page.values]
    largest = max((page.size for page in data), default=0)
    dictionary = max((page.size for page in all_pages if not page.values), default=0)
    average = max((page.size // page.values for page in data), default=0)
    return Sizes(largest, dictionary, largest if _REPEATING in column.encodings else average)


def pages(stream: OpenFile, column: Any) -> Iterator[Page]:
    """Yield the pages of a column chunk, given its entry in the file's index. Raises `ValueError` if that is wrong."""
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    while at < end:
        header, header_bytes = _read_header(stream, at)
        size, compressed = header.get(_SIZE), header.get(_COMPRESSED_SIZE)
        known = isinstance(header.get(_TYPE), int)
        if not (known and isinstance(size, int) and isinstance(compressed, int)) or min(size, compressed) < 0:
            raise ValueError(f"the header of the page at byte {at} has no sizes")
        inner = next((header[field] for field in _DATA_HEADERS if field in header), None)
        values = inner.get(1) if header[_TYPE] != _DICTIONARY_PAGE and isinstance(inner, dict) else 0
        yield Page(size, values if isinstance(values, int) else 0)
        at += header_bytes + compressed


def _read_header(stream: OpenFile, at: int) -> tuple[dict[int, Any], int]:
    """Read the header of the page at byte `at`; return it with its length."""
    size = _HEADER_BYTES
    while True:
        data = stream.read_at(at, size)
        try:
            return _struct(data, 0, 0)
        except IndexError:
            if len(data) < size or size >= _MOST_HEADER_BYTES:
                raise ValueError(f"the header of the page at byte {at} does not end") from None
            size *= 16


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the numbers and structs of a struct, by field, and where it ends. Raises `IndexError` past the data."""
    if depth > _DEEPEST:
        raise ValueError("the header of a page is nested too deeply")
    fields: dict[int, Any] = {}
    field = 0
    while head := data[at]:
        at += 1
        kind = head & 0x0F
        field, at = (field + (head >> 4), at) if head >> 4 else _number(data, at)
        fields[field] = None
        if kind in _NUMBERS:
            fields[field], at = _number(data, at)
        elif kind == _STRUCT:
            fields[field], at = _struct(data, at, depth + 1)
        elif kind == _BINARY:
            size, at = _varint(data, at)
            at += size
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise ValueError("the header of a page holds what no page has")
    return fields, at + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a signed number, and where it ends."""
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number, at
    raise ValueError("the header of a page has a number that is too long")
