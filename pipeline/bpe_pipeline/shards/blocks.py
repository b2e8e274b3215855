"""Blocks of ids: what every source makes, and every writer takes."""

from collections.abc import Callable
from typing import NamedTuple

from bpe_pipeline.counts.chunk_statistics import ChunkStatistics


class IdBlock(NamedTuple):
    """Ids that follow one another in a source, and the ends of documents among all ids of that source, uint64.

    A source is a chunk of the corpus, or a bucket whose documents were sorted.
    """

    ids: memoryview
    ends: memoryview

    @property
    def nbytes(self) -> int:
        """Memory that the block takes."""
        return self.ids.nbytes + self.ends.nbytes


Made = IdBlock | ChunkStatistics
"""The next block of a source or, at its end, what was read in it."""


class Rest:
    """Passes on what follows the first `ids` ids and the first `ends` ends of a source; counts all of both."""

    def __init__(self, sink: Callable[[IdBlock], object], ids: int = 0, ends: int = 0) -> None:
        self._sink, self._without_ids, self._without_ends = sink, ids, ends
        self.ids, self.ends = ids, ends

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """Take the next block of the source."""
        known_ids, known_ends = min(self._without_ids, len(ids)), min(self._without_ends, len(ends))
        self._without_ids -= known_ids
        self._without_ends -= known_ends
        ids, ends = ids[known_ids:], ends[known_ends:]
        if len(ids) or len(ends):
            self._sink(IdBlock(ids, ends))
            self.ids += len(ids)
            self.ends += len(ends)
