"""Parquet files of our own: written so that every bit of them can be checked, decoded only after they were.

Parquet's page checksums cover what pages hold, not the pages' headers, and nothing covers the footer. So the footer's
metadata carries two more things: a checksum of each row group's columns as they are in memory, which no wrong header
survives, and a seal over the metadata, the numbers of rows and these checksums.

Nothing is compressed and there are no dictionaries, which bounds what a forged file can make of itself: decoding takes
at most a few times the bytes that lie there.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import _core

WRITE_OPTIONS = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
# What a damaged or forged file makes Arrow, JSON and ourselves raise.
DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, MemoryError, NotImplementedError)
_ROWS, _CHECKSUMS, _SEAL = b"bpe_pipeline.rows", b"bpe_pipeline.checksums", b"bpe_pipeline.seal"
_ARROW = b"ARROW:schema"  # Arrow's own; the columns are compared with those that are expected


def checksum(*columns: Any) -> str:
    """A checksum of buffers: 16 hexadecimal digits for each, by the core's own hash (by which it orders counters)."""
    return "".join(f"{_core.hash64(column):016x}" for column in columns)


def sealed(metadata: Mapping[bytes, bytes], rows: Sequence[int], checksums: Sequence[str]) -> dict[bytes, bytes]:
    """What `check` needs in the footer beside the other metadata: rows and checksum of each row group."""
    added = {_ROWS: json.dumps(list(rows)).encode(), _CHECKSUMS: json.dumps(list(checksums)).encode()}
    return {**added, _SEAL: _seal({**metadata, **added})}


def check(file: Any, columns: Mapping[str, str], size: int) -> tuple[dict[bytes, bytes], list[str]]:
    """Check an open `pyarrow.parquet.ParquetFile` before anything of it is decoded.

    columns: the name and Arrow type of each that there must be. size: the file's bytes. Gives its metadata and the
    checksums of its row groups. Raises `ValueError` where the footer is not as it was written, or asks for more than
    the file can hold.
    """
    footer = file.metadata
    if {field.name: str(field.type) for field in file.schema_arrow} != columns or footer.num_columns != len(columns):
        raise ValueError(f"its columns are not {' and '.join(columns)}")
    stored: dict[bytes, bytes] = dict(footer.metadata or {})
    stored.pop(_ARROW, None)
    if stored.pop(_SEAL, b"") != _seal(stored):
        raise ValueError("its footer is not as it was written")
    rows, checksums = json.loads(stored[_ROWS]), json.loads(stored[_CHECKSUMS])
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    if rows != [group.num_rows for group in groups] or len(rows) != len(checksums):
        raise ValueError("its row groups are not those that were written")
    for group in groups:
        for column in map(group.column, range(footer.num_columns)):
            if column.compression != "UNCOMPRESSED" or column.has_dictionary_page:
                raise ValueError("its columns are not encoded as they were written")
            if max(column.total_compressed_size, column.total_uncompressed_size, column.num_values) > size:
                raise ValueError("it claims to hold more than it does")
    return stored, [str(one) for one in checksums]


def _seal(metadata: Mapping[bytes, bytes]) -> bytes:
    return checksum(b"".join(b"%d %b %d %b" % (len(k), k, len(v), v) for k, v in sorted(metadata.items()))).encode()
