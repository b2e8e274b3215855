"""Counters for tests, in memory and as files."""

from pipeline import _core
from pipeline.counts import counter_file
from pipeline.counts.chunk_statistics import ChunkStatistics


def columns_of(counts, partitions=1):
    counter = _core.ChunkCounter(lambda document: [document], [])
    counter.add_pieces(list(counts), list(counts.values()))
    return [counter.columns(i, partitions) for i in range(partitions)]


def write(path, counts, partitions=1, fingerprint="f", **statistics):
    counter_file.write_counter(
        path, columns_of(counts, partitions), fingerprint=fingerprint, statistics=ChunkStatistics(**statistics)
    )
    return path
