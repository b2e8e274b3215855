"""The buckets of one split, written block by block: where shards end, and what a stopped writer resumes with."""

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from encoded import shard_borders
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.shards.blocks import IdBlock, SourceItem
from bpe_pipeline.shards.bucket import BucketFiles
from bpe_pipeline.shards.route import Route
from bpe_pipeline.shards.writer import BucketWriter, Journal, Position, ShardWriter

# Blocks of a chunk, each of the lengths of its documents and of an unfinished one.
BLOCKS = st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=4), st.integers(0, 3)), min_size=1, max_size=5)
CHUNKS = st.lists(BLOCKS, min_size=1, max_size=4)


def blocks_of(chunks: list[list[tuple[list[int], int]]]) -> Iterator[tuple[memoryview, memoryview, int]]:
    """Yield the ids of blocks, where documents end in their chunk, and the position of the first id there."""
    id_ = 0
    for blocks in chunks:
        first = 0
        for lengths, rest in blocks:
            ends = array("Q", (first + end for end in accumulate(lengths)))
            ids = array("H", range(id_, id_ + sum(lengths) + rest))
            yield memoryview(ids), memoryview(ends), first
            id_, first = id_ + len(ids), first + len(ids)


def rows(*, whole: bool, cut: int | None) -> Any:
    return SimpleNamespace(unit=1, least=1, whole=whole, cut=cut)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chunks=CHUNKS,
    most=st.integers(1, 12),
    whole=st.booleans(),
    row=st.integers(1, 12) | st.none(),
    stops=st.sets(st.integers(0, 12)),
)
def test_shards_depend_on_the_ids_alone(
    tmp_path_factory, chunks, most: int, whole: bool, row: int | None, stops: set[int]
) -> None:
    """Also of a writer that resumes where another one was stopped, which wrote more."""
    home: Path = tmp_path_factory.mktemp("home")
    most = max(most, row or 1)

    def files(index: int) -> BucketFiles:
        return BucketFiles(home, str(index), 2, b"head")

    make = partial(BucketWriter, files, rows(whole=whole, cut=row), most)
    writer, closed = make(), []
    blocks = list(blocks_of(chunks))
    for number, block in enumerate(blocks):
        if number in stops:
            writer.sync()
            closed += writer.take_closed()
            state = writer.state
            writer.add(*block)
            writer.close()
            writer = make()
            assert writer.resume(state)
        writer.add(*block)
    assert writer.end() == 0
    writer.sync()
    closed += writer.take_closed()

    total, ends, at = 0, [], 0
    for ids, chunk_ends, first in blocks:
        ends += [total - first + end for end in chunk_ends]
        total += len(ids)
    wanted = shard_borders(total, ends, most, whole=whole, row=row)
    assert [shard.ids for shard in closed] == [stop - start for start, stop in wanted]
    for shard, (start, stop) in zip(closed, wanted, strict=True):
        inside = [end - start for end in ends if start < end <= stop or start == end == 0]
        written = list(files(shard.index).blocks(0, shard.ids, shard.documents))
        assert [id_ for ids, _ in written for id_ in ids] == list(range(at, at + shard.ids))
        assert [end for _, block_ends in written for end in block_ends] == inside
        assert shard.documents == len(inside)
        files(shard.index).cut(shard.ids, shard.documents)
        assert files(shard.index).size() == (shard.ids, shard.documents)
        at += shard.ids


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks=CHUNKS, known=st.integers(0, 4), most=st.integers(4, 9), stop=st.integers(0, 12))
def test_each_document_that_is_the_longest_so_far_is_asked_about(
    tmp_path_factory, monkeypatch, chunks, known: int, most: int, stop: int
) -> None:
    """Before its ids are written, also by a writer that resumes; one that is too long for any row, before it ends."""
    monkeypatch.setattr("bpe_pipeline.shards.writer.MOST_ROW", most)
    home: Path = tmp_path_factory.mktemp("home")
    asked: list[tuple[int, int]] = []
    keeper: Any = SimpleNamespace(
        accept=lambda *document: asked.append(document), seal=lambda *_: None, saved=lambda _: None
    )
    sources = [[*(IdBlock(*block[:2]) for block in blocks_of([blocks])), ChunkStatistics()] for blocks in chunks]
    lengths = [0]
    for documents, rest in (block for blocks in chunks for block in blocks):
        for length in documents:
            lengths[-1] += length
            lengths.append(0)
        lengths[-1] += rest

    position = Position(longest=known)
    for upto in (stop, None):
        of_rows = rows(whole=True, cut=1)
        buckets = {"train": BucketWriter(lambda index: BucketFiles(home, str(index), 2), of_rows, 99)}
        with ShardWriter(Journal(home / "journal", ""), Route(), buckets, keeper, position) as writer:
            items = chain.from_iterable(sources[position.source :])
            with suppress(InterruptedError):
                writer.write(items if upto is None else stopping(islice(items, upto), writer.save))
            position = writer.position
    longest = [max([known, *lengths[:number]]) for number in range(len(lengths))]
    records = {(number, length) for number, length in enumerate(lengths) if length > longest[number]}
    assert records <= {*asked}
    assert all(most < length < lengths[number] for number, length in {*asked} - records)
    assert position.longest == max([known, *lengths])


def stopping(items: Iterator[SourceItem], save: Callable[[], object]) -> Iterator[SourceItem]:
    """Yield the items, save what was made of them, and stop."""
    yield from items
    save()
    raise InterruptedError
