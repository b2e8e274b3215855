"""Ids end to end: `.bin` is nothing else, `.npy` has NumPy's header before them.

The offsets of documents are another `.npy` file, of uint64: where each document starts and the last one ends.
"""

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from pipeline.shards.formats.shard_format import BLOCK_IDS, ID_CODES, Block
from pipeline.storage import Location, open_file

_HEADER_BYTES = 128


@dataclass(frozen=True)
class IdsEndToEnd:
    """The formats npy and bin."""

    rows: ClassVar[bool] = False
    npy: bool

    def write(self, path: Path, offsets: Path | None, id_bytes: int, tokens: int, blocks: Iterable[Block]) -> int:
        """Write the files; ids are never Python numbers here."""
        documents = last = 0
        with path.open("wb") as file, (offsets or Path(os.devnull)).open("wb") as positions:
            file.write(_npy_header(id_bytes, tokens) if self.npy else b"")
            positions.write(bytes(_HEADER_BYTES) + array("Q", [0]).tobytes())
            for ids, ends in blocks:
                file.write(ids)
                positions.write(ends)
                documents += len(ends)
                last = ends[-1] if ends else last
            unfinished = last < tokens  # a document that continues in the next shard
            positions.write(array("Q", [tokens] * unfinished))
            positions.seek(0)
            positions.write(_npy_header(8, documents + 1 + unfinished))
        return documents

    def read(
        self, where: Location, offsets: Location | None, id_bytes: int, tokens: int, documents: int
    ) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        ends = array("Q") if offsets is None else _read_ends(offsets, tokens, documents)
        header = _npy_header(id_bytes, tokens) if self.npy else b""
        with open_file(where) as file:
            if file.read_at(0, len(header)) != header:
                raise ValueError("its header is not as it was written")
            size = file.seek(0, 2) - len(header)
            if size != tokens * id_bytes:
                raise ValueError(f"it holds {size // id_bytes:,} tokens, not {tokens:,}")
            done = 0
            for first in range(0, max(tokens, 1), BLOCK_IDS):
                data = file.read_at(len(header) + first * id_bytes, BLOCK_IDS * id_bytes)
                ids = memoryview(array(ID_CODES[id_bytes], data))
                stop = bisect_right(ends, first + len(ids), done)
                yield ids, ends[done:stop]
                done = stop


def _read_ends(where: Location, tokens: int, documents: int) -> "array[int]":
    """Read where the documents of a shard end, without one that continues in the next shard."""
    with open_file(where) as file:
        positions = array("Q", file.read_at(_HEADER_BYTES, file.seek(0, 2)))
        if file.read_at(0, _HEADER_BYTES) != _npy_header(8, len(positions)):
            raise ValueError("the header of its offsets is not as it was written")
    if len(positions) < documents + 1:
        raise ValueError("there are fewer offsets than documents")
    ends = positions[1 : documents + 1]
    if any(end < before for before, end in pairwise([0, *ends, tokens])):
        raise ValueError("its offsets are not in order, or exceed its tokens")
    return ends


def _npy_header(item_bytes: int, count: int) -> bytes:
    """Return the header of a .npy file of version 1.0 with one dimension of unsigned numbers, always of one size."""
    text = f"{{'descr': '<u{item_bytes}', 'fortran_order': False, 'shape': ({count},), }}"
    rest = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + rest.to_bytes(2, "little") + f"{text:<{rest - 1}}\n".encode("latin-1")
