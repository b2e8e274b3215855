"""The project's own Parquet files: every bit is checked, and nothing is decoded before it is checked.

Parquet's page checksums cover neither the headers of pages nor the footer. So the footer has two more entries: a
checksum of each row group's columns as they are in memory, and a seal: the checksum of the footer, computed with zeros
in the seal's position. It is checked before Arrow parses the footer, since some damaged footers crash the process that
parses them. Nothing is compressed and there are no dictionaries, so decoding a forged file takes at most a few times
its size.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.storage import Location, OpenFile, open_file, unreadable

WRITE_OPTIONS = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
# What Arrow, JSON and our own readers raise for a damaged or forged file.
DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, MemoryError, NotImplementedError)
_CHECKSUMS, _SEAL = b"bpe_pipeline.checksums", b"bpe_pipeline.seal"
_MARK = b"sealed by "
_NO_SEAL = b"0" * 16
_MAGIC = b"PAR1"
_END_BYTES = 8  # at the end of a Parquet file: the footer's length and PAR1
_TAIL_BYTES = 64 << 10  # more than most footers have


def require_damage(where: Location, error: BaseException) -> None:
    """Raise `StorageError` if an error is not of Arrow or ours about a file's content: it may not be read."""
    if isinstance(error, OSError) and error.errno is not None:
        raise unreadable(where, error) from None


def checksum(*columns: Any) -> str:
    """Return a checksum of buffers, 16 hexadecimal digits each, by the core's hash (which also orders counters)."""
    return "".join(f"{_core.hash64(column):016x}" for column in columns)


def seals(checksums: Sequence[str]) -> dict[bytes, bytes]:
    """Return metadata that the footer needs: each row group's checksum, and zeros in the seal's position."""
    return {_CHECKSUMS: json.dumps(list(checksums)).encode(), _SEAL: _MARK + _NO_SEAL}


def seal(path: Path) -> None:
    """Write the seal into a complete file."""
    with path.open("r+b") as file:
        size = file.seek(0, io.SEEK_END)
        with open_file(path) as written:
            footer = _footer(written, size)
        file.seek(size - _END_BYTES - len(footer) + footer.rindex(_MARK) + len(_MARK))
        file.write(checksum(footer).encode())


def open_sealed(
    where: Location, columns: Mapping[str, str], look: Callable[[Mapping[bytes, bytes]], None] = lambda _: None
) -> tuple[Any, list[str]]:
    """Open a file as `pyarrow.parquet.ParquetFile`, nothing decoded yet, with the checksums of its row groups.

    columns: name and Arrow type of each expected column. look: sees the metadata before the columns are checked, and
    raises if the file is of another kind. Raises one of `DAMAGE`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as closing:
        source = open_file(where)
        closing.callback(source.close)
        size = source.seek(0, io.SEEK_END)
        footer = _footer(source, size)
        start = footer.rfind(_MARK) + len(_MARK)
        stop = start + len(_NO_SEAL)
        if start < len(_MARK) or footer[start:stop] != checksum(footer[:start] + _NO_SEAL + footer[stop:]).encode():
            raise ValueError("its footer is not as it was written")
        ending = len(footer).to_bytes(4, "little") + _MAGIC
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer + ending))  # does not read the file again
        look(metadata.metadata or {})
        checksums = _check(metadata, columns, size)
        if isinstance(where, Path):  # Arrow reads local files without Python
            return pq.ParquetFile(where, metadata=metadata, page_checksum_verification=True), checksums
        file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
        closing.pop_all()  # the caller closes it with the ParquetFile
        return file, checksums


def _check(footer: Any, columns: Mapping[str, str], size: int) -> list[str]:
    """Check the metadata of a file of `size` bytes; return its row groups' checksums."""
    types = {field.name: str(field.type) for field in footer.schema.to_arrow_schema()}
    if types != columns or footer.num_columns != len(columns):
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
    return list(map(str, checksums))


def _footer(file: OpenFile, size: int) -> bytes:
    """Read the footer of an open file of `size` bytes."""
    tail = file.read_at(max(size - _TAIL_BYTES, 0), _TAIL_BYTES)
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    if tail[-4:] != _MAGIC or length > size - _END_BYTES:
        raise ValueError("it is not a whole Parquet file")
    if length > len(tail) - _END_BYTES:
        return file.read_at(size - _END_BYTES - length, length)
    return tail[len(tail) - _END_BYTES - length : len(tail) - _END_BYTES]
