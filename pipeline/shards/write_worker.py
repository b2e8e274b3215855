"""Writing one shard from parts: what a worker process does. Raw ids, a .npy file, or Parquet with a row a document.

Ids go from the parts' bytes to the shard's without becoming Python numbers. Arrow comes in for Parquet only.
"""

import logging
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pipeline.base.errors import RunDirectoryError
from pipeline.executors.worker import report_progress
from pipeline.shards.layout import Slice
from pipeline.shards.manifest import checksum
from pipeline.shards.part_file import PartReader
from pipeline.storage import Location, open_file
from pipeline.storage.atomic import whole_file
from pipeline.storage.scratch import scratch_directory

_log = logging.getLogger(__name__)
_NPY_HEADER_BYTES = 128
_ROW_GROUP_IDS, _ROW_GROUP_ROWS = 1 << 20, 1 << 16
COLUMN = "input_ids"  # of a Parquet shard


@dataclass(frozen=True)
class ShardTask:
    """One shard for a worker.

    parts: those that the slices name, with their fingerprints. offsets: where the places of the documents go, None for
    nowhere.
    """

    output: Location
    offsets: Location | None
    format: str
    id_bytes: int
    tokens: int
    slices: tuple[Slice, ...]
    parts: tuple[tuple[Location, str], ...]

    def __str__(self) -> str:
        return f"shard {self.output}"


@dataclass(frozen=True)
class Shard:
    """A shard that lies whole: documents are those that end in it, `crc32` is of the file's bytes.

    offsets_bytes, offsets_crc32: of the file with the places of its documents, where there is one.
    """

    name: str
    tokens: int
    documents: int
    bytes: int
    crc32: str
    offsets_bytes: int | None
    offsets_crc32: str | None


def write_shard(task: ShardTask) -> Shard:
    """Write a shard, and the places of its documents before it, unless both are there as they would be written.

    Runs in a worker process.

    Raises `RunDirectoryError` for a part that is not as it was written.
    """
    try:
        kept = _kept(task)
        if kept is None:
            documents = _WRITERS[task.format](task)
        else:
            documents = kept
            if task.format != "parquet":
                report_progress(task.tokens)
        size, crc32 = checksum(task.output)
        of_offsets = (None, None) if task.offsets is None else checksum(task.offsets)
    except ValueError as error:
        raise RunDirectoryError(
            f"{error}; remove that file and run the same command again, which makes it anew"
        ) from None
    _log.info("%s: %d ids, %d documents", task, task.tokens, documents)
    return Shard(task.output.name, task.tokens, documents, size, crc32, *of_offsets)


def _kept(task: ShardTask) -> int | None:
    """The documents of a shard that lies there whole, every bit as it would be written; None where it does not."""
    if not task.output.exists() or (task.offsets is not None and not task.offsets.exists()):
        return None
    if task.format == "parquet":  # no telling without writing it
        with scratch_directory() as directory:
            anew = replace(task, output=directory / task.output.name)
            documents = _write_parquet(anew)
            return documents if checksum(anew.output) == checksum(task.output) else None
    documents = last = crc32 = 0
    places = zlib.crc32(array("Q", [0]))
    for ids, ends in _blocks(task):
        crc32 = zlib.crc32(ids, crc32)
        places = zlib.crc32(ends, places)
        documents += len(ends)
        last = ends[-1] if ends else last
    whole = _is(task.output, _header(task), crc32)
    if task.offsets is not None:
        unfinished = last < task.tokens
        if unfinished:
            places = zlib.crc32(array("Q", [task.tokens]), places)
        whole = whole and _is(task.offsets, _npy_header("u8", documents + 1 + unfinished), places)
    return documents if whole else None


def _is(where: Location, header: bytes, crc32: int) -> bool:
    """Whether a file is this header and then bytes of this CRC-32."""
    with open_file(where) as file:
        begins = file.read_at(0, len(header)) == header
    return begins and checksum(where, len(header))[1] == f"{crc32:08x}"


def _blocks(task: ShardTask) -> Iterator[tuple[memoryview, "array[int]"]]:
    """The ids of the shard, and where documents end in it, block by block."""
    before = 0
    for slice_, (path, fingerprint) in zip(task.slices, task.parts, strict=True):
        with PartReader(path, fingerprint) as reader:
            for ids, ends in reader.blocks(slice_.start, slice_.stop, with_start=slice_.with_start):
                shift = before - slice_.start
                yield ids, array("Q", (end + shift for end in ends)) if shift else ends
        before += slice_.stop - slice_.start


def _write_raw(task: ShardTask) -> int:
    """Ids end to end, behind a header for .npy."""
    documents = 0
    with whole_file(task.output) as path, path.open("wb") as file:
        file.write(_header(task))
        if task.offsets is None:
            for ids, ends in _blocks(task):
                file.write(ids)
                documents += len(ends)
                report_progress(len(ids))
        else:
            documents = _write_with_offsets(task, task.offsets, file)
    return documents


def _write_with_offsets(task: ShardTask, where: Location, file: Any) -> int:
    """The same, and beside them where each document begins and the last one ends, as .npy of uint64."""
    documents = last = 0
    with whole_file(where) as path, path.open("wb") as places:
        places.write(bytes(_NPY_HEADER_BYTES))
        places.write(array("Q", [0]))
        for ids, ends in _blocks(task):
            file.write(ids)
            places.write(ends)
            documents += len(ends)
            last = ends[-1] if ends else last
            report_progress(len(ids))
        unfinished = last < task.tokens  # a document that goes on in the next shard
        if unfinished:
            places.write(array("Q", [task.tokens]))
        places.seek(0)
        places.write(_npy_header("u8", documents + 1 + unfinished))
    return documents


def _write_parquet(task: ShardTask) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.uint16() if task.id_bytes == 2 else pa.uint32()
    schema = pa.schema([pa.field(COLUMN, pa.list_(pa.field("element", kind, nullable=False)), nullable=False)])
    documents = 0
    with (
        whole_file(task.output) as path,
        pq.ParquetWriter(
            path, schema, compression="zstd", compression_level=1, use_dictionary=False, write_statistics=False
        ) as writer,
    ):
        for ids, ends, ended in _row_groups(task):
            offsets = array("i", [0, *ends])
            values = pa.Array.from_buffers(kind, len(ids) // task.id_bytes, [None, pa.py_buffer(ids)])
            rows = pa.ListArray.from_buffers(
                schema.field(0).type, len(ends), [None, pa.py_buffer(offsets)], children=[values]
            )
            writer.write_table(pa.Table.from_arrays([rows], schema=schema))
            documents += ended
            report_progress(len(ids) // task.id_bytes)
    return documents


def _row_groups(task: ShardTask) -> Iterator[tuple[bytes, list[int], int]]:
    """The bytes of the ids of some whole documents, where each of them ends in these, and how many end.

    Only a document that goes on in the next shard is a row without ending.
    """
    waiting, first = bytearray(), 0  # ids that belong to no row group yet, and where they begin in the shard
    ends: list[int] = []
    for ids, more in _blocks(task):
        waiting += ids
        ends += more
        # Where a row group ends must not depend on the blocks.
        while (rows := min(bisect_left(ends, first + _ROW_GROUP_IDS) + 1, _ROW_GROUP_ROWS)) <= len(ends):
            size = (ends[rows - 1] - first) * task.id_bytes
            yield bytes(waiting[:size]), [end - first for end in ends[:rows]], rows
            first = ends[rows - 1]
            del waiting[:size], ends[:rows]
    last = ends[-1] if ends else first
    unfinished = [] if last == task.tokens else [task.tokens]
    if ends or unfinished:
        yield bytes(waiting), [end - first for end in [*ends, *unfinished]], len(ends)


_WRITERS = {"npy": _write_raw, "bin": _write_raw, "parquet": _write_parquet}


def _header(task: ShardTask) -> bytes:
    """What stands before the ids of a shard."""
    return _npy_header("u2" if task.id_bytes == 2 else "u4", task.tokens) if task.format == "npy" else b""


def _npy_header(kind: str, count: int) -> bytes:
    """The header of a .npy file of version 1.0 with one dimension, always of one size."""
    text = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': ({count},), }}"
    rest = _NPY_HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + rest.to_bytes(2, "little") + f"{text:<{rest - 1}}\n".encode("latin-1")
