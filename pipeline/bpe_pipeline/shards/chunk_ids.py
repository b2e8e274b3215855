"""What is made of a chunk, part by part: what threads and workers pass to the writer of shards."""

from collections.abc import Callable

from bpe_pipeline.counts.chunk_statistics import ChunkStatistics

IdsOfChunk = tuple[memoryview, memoryview]
"""Ids that follow one another in a chunk, and where documents end among all of its ids, uint64."""
Made = IdsOfChunk | ChunkStatistics
"""Ids of a chunk or, at its end, what was read in it."""


class Rest:
    """Passes on the ids of a chunk that follow the first `ids`, and the ends of documents that follow the first `ends`.

    It counts both, with those that it leaves out.
    """

    def __init__(self, sink: Callable[[IdsOfChunk], object], ids: int = 0, ends: int = 0) -> None:
        self._sink, self._without_ids, self._without_ends = sink, ids, ends
        self.ids, self.ends = ids, ends

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """Take what follows in the chunk."""
        known_ids, known_ends = min(self._without_ids, len(ids)), min(self._without_ends, len(ends))
        self._without_ids -= known_ids
        self._without_ends -= known_ends
        ids, ends = ids[known_ids:], ends[known_ends:]
        if len(ids) or len(ends):
            self._sink((ids, ends))
            self.ids += len(ids)
            self.ends += len(ends)
