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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline import _core
from pipeline.storage import Location, OpenFile, open_file

WRITE_OPTIONS = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
# What a damaged or forged file makes Arrow, JSON and ourselves raise.
DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, MemoryError, NotImplementedError)
_CHECKSUMS, _SEAL = b"bpe_pipeline.checksums", b"bpe_pipeline.seal"
_MARK = b"sealed by "
_NO_SEAL = b"0" * 16
_MAGIC = b"PAR1"
_END_BYTES = 8  # of a Parquet file: the footer's length and PAR1
_TAIL_BYTES = 64 << 10  # in which most footers lie


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
        size = file.seek(0, io.SEEK_END)
        with open_file(path) as written:
            footer = _footer(written, size)
        file.seek(size - _END_BYTES - len(footer) + footer.rindex(_MARK) + len(_MARK))
        file.write(checksum(footer).encode())


def open_sealed(
    where: Location, columns: Mapping[str, str], look: Callable[[Mapping[bytes, bytes]], None] = lambda _: None
) -> tuple[Any, list[str]]:
    """Open a file of ours: a `pyarrow.parquet.ParquetFile`, of which nothing is decoded yet, and its checksums.

    columns: the name and Arrow type of each that there must be. look: sees the metadata before they are looked for, and
    raises where the file is none of those that have them. The checksums are those of its row groups. Raises
    `ValueError` where its footer is not as it was written, where it is not one of ours, or claims to hold more than it
    can: it may be forged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _closed_after_failure(open_file(where)) as source:
        size = source.seek(0, io.SEEK_END)
        footer = _footer(source, size)
        _check_seal(footer)
        ending = len(footer).to_bytes(4, "little") + _MAGIC
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer + ending))  # it is not fetched a second time
        look(metadata.metadata or {})
        checksums = _check(metadata, columns, size)
        if isinstance(where, Path):
            source.close()
            return open_known(where, metadata), checksums
        return pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True), checksums


def open_known(where: Location, metadata: Any) -> Any:
    """Open a file once more, whose footer was checked: as `open_sealed`, with the metadata that it gave."""
    import pyarrow.parquet as pq

    if isinstance(where, Path):  # Arrow reads local files by itself
        return pq.ParquetFile(where, metadata=metadata, page_checksum_verification=True)
    with _closed_after_failure(open_file(where)) as source:
        return pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)


@contextmanager
def _closed_after_failure(source: OpenFile) -> Iterator[OpenFile]:
    try:
        yield source
    except BaseException:
        source.close()
        raise


def _check_seal(footer: bytes) -> None:
    """Raise `ValueError` where a footer is not as it was written."""
    begin = footer.rfind(_MARK) + len(_MARK)
    end = begin + len(_NO_SEAL)
    if begin < len(_MARK) or footer[begin:end] != checksum(footer[:begin] + _NO_SEAL + footer[end:]).encode():
        raise ValueError("its footer is not as it was written")


def _check(footer: Any, columns: Mapping[str, str], size: int) -> list[str]:
    """Check the metadata of a file of so many bytes, as `open_sealed` does; gives its checksums."""
    found = {field.name: str(field.type) for field in footer.schema.to_arrow_schema()}
    if found != columns or footer.num_columns != len(columns):
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


def _footer(file: OpenFile, size: int) -> bytes:
    """The footer of an open file of so many bytes."""
    tail = file.read_at(max(size - _TAIL_BYTES, 0), _TAIL_BYTES)
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    if tail[-4:] != _MAGIC or length > size - _END_BYTES:
        raise ValueError("it is not a whole Parquet file")
    if length > len(tail) - _END_BYTES:
        return file.read_at(size - _END_BYTES - length, length)
    return tail[len(tail) - _END_BYTES - length : len(tail) - _END_BYTES]
