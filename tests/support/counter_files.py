"""Counters for tests, in memory and as files."""

from collections import Counter

from oracle_counting import as_counter

from bpe_pipeline import _core
from bpe_pipeline.counts import counter_file
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics


def columns_of(counts, partitions=1):
    counter = _core.ChunkCounter(lambda document: [document], [])
    counter.add_pre_tokens(list(counts), list(counts.values()))
    return [counter.columns(i, partitions) for i in range(partitions)]


def write(path, counts, partitions=1, fingerprint="f", **statistics):
    columns, found = columns_of(counts, partitions), ChunkStatistics(**statistics)
    counter_file.write_counter(path, columns, fingerprint=fingerprint, statistics=found)
    return path


def read(path, **options):
    with counter_file.open_counter(path, **options) as counter:
        found = sum((as_counter(counter.read(i)) for i in range(counter.partitions)), Counter())
        assert counter.rows == len(found)
    return found
