"""What a format of shards does. Whole files, checksums and progress are its callers' work."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from pipeline.storage import Location

Block = tuple[memoryview, "array[int]"]
"""Ids, and where documents end among them: numbers of ids from the first of the shard, uint64."""

BLOCK_IDS = 1 << 18  # of a shard that is read
ID_BYTES = {"uint16": 2, "uint32": 4}
ID_CODES: dict[int, Literal["H", "I"]] = {2: "H", 4: "I"}  # of `array` and `memoryview`


class ShardFormat(Protocol):
    """A format of shards, whose ids take 2 or 4 bytes each. Equal ids give equal bytes, however blocks are cut.

    rows: whether the format itself separates documents, so that a shard needs no file of offsets and ends with a
    document.
    """

    rows: ClassVar[bool]

    def write(self, path: Path, offsets: Path | None, id_bytes: int, tokens: int, blocks: Iterable[Block]) -> int:
        """Write a shard of that many tokens, and the offsets of its documents; returns how many documents end in it."""
        ...

    def read(
        self, where: Location, offsets: Location | None, id_bytes: int, tokens: int, documents: int
    ) -> Iterator[Block]:
        """Yield the blocks of a shard; with `offsets` or `rows` also where documents end. `ValueError` for damage."""
        ...
