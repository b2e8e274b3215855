"""Parquet files of our own: written so that every bit of them can be checked, decoded only after they were.

Parquet's page checksums cover what pages hold, not the pages' headers, and nothing covers the footer. So the footer
carries two more things: a checksum of each row group's columns as they are in memory, which no wrong header survives,
and a seal, the checksum of the footer itself with zeros in the seal's place. The seal is checked before Arrow sees the
footer: some footers that a flipped bit makes end the process that looks at them.

Nothing is compressed and there are no dictionaries, which bounds what a forged file can make of itself: decoding takes
at most a few times the bytes that lie there.
"""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import _core
from pipeline.storage import Location, open_file

WRITE_OPTIONS = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
# What a damaged or forged file makes Arrow, JSON and ourselves raise.
DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, MemoryError, NotImplementedError)
_CHECKSUMS, _SEAL = b"bpe_pipeline.checksums", b"bpe_pipeline.seal"
_MARK = b"sealed by "
_NO_SEAL = b"0" * 16
_END_BYTES = 8  # of a Parquet file: the footer's length and PAR1


def refused(error: BaseException) -> str | None:
    """Why the system did not let a file be read, which says nothing of what is in it; None where Arrow or we raised."""
    return error.strerror if isinstance(error, OSError) and error.errno is not None else None


def checksum(*columns: Any) -> str:
    """A checksum of buffers: 16 hexadecimal digits for each, by the core's own hash (by which it orders counters)."""
    return "".join(f"{_core.hash64(column):016x}" for column in columns)


def seals(checksums: Sequence[str]) -> dict[bytes, bytes]:
    """What the footer needs beside its other metadata: each row group's checksum, and room for the seal."""
    return {_CHECKSUMS: json.dumps(list(checksums)).encode(), _SEAL: _MARK + _NO_SEAL}


def seal(path: Path) -> None:
    """Seal a file that is written to its end."""
    with path.open("r+b") as file:
        footer, at = _footer(file)
        file.seek(at + footer.rindex(_MARK) + len(_MARK))
        file.write(checksum(footer).encode())


def check_seal(where: Location) -> int:
    """Check that a file's footer is as it was written; the file's size. Raises `ValueError` where it is not."""
    with io.BufferedReader(open_file(where)) as file:
        footer, at = _footer(file)
    begin = footer.rfind(_MARK) + len(_MARK)
    end = begin + len(_NO_SEAL)
    if begin < len(_MARK) or footer[begin:end] != checksum(footer[:begin] + _NO_SEAL + footer[end:]).encode():
        raise ValueError("its footer is not as it was written")
    return at + len(footer) + _END_BYTES


def check(file: Any, columns: Mapping[str, str], size: int) -> list[str]:
    """Check an open `pyarrow.parquet.ParquetFile` whose seal is whole before anything is decoded: it may be forged.

    columns: the name and Arrow type of each that there must be. size: the file's bytes. Gives the checksums of its row
    groups. Raises `ValueError` where it is not one of ours, or claims to hold more than it can.
    """
    footer = file.metadata
    if {field.name: str(field.type) for field in file.schema_arrow} != columns or footer.num_columns != len(columns):
        raise ValueError(f"its columns are not {' and '.join(columns)}")
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(footer.num_columns)):
            if column.compression != "UNCOMPRESSED" or column.has_dictionary_page:
                raise ValueError("its columns are not encoded as they were written")
            if max(column.total_compressed_size, column.total_uncompressed_size, column.num_values) > size:
                raise ValueError("it claims to hold more than it does")
    checksums = json.loads(footer.metadata[_CHECKSUMS])
    if len(checksums) != footer.num_row_groups:
        raise ValueError("its row groups are not those that were written")
    return [str(one) for one in checksums]


def _footer(file: Any) -> tuple[bytes, int]:
    """The footer of an open file and where it begins."""
    size = file.seek(0, 2)
    file.seek(max(size - _END_BYTES, 0))
    end = file.read(_END_BYTES)
    at = size - _END_BYTES - int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or at < 0:
        raise ValueError("it is not a whole Parquet file")
    file.seek(at)
    return file.read(size - _END_BYTES - at), at
