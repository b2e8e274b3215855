"""Counter files: what is written is read, combined exactly, refused where damaged, and readable by others."""

import contextlib
import gc
import json
import random
import resource
import weakref
from array import array
from collections import Counter
from itertools import accumulate
from pathlib import Path

import duckdb
import fsspec
import oracle_counting
import pyarrow.parquet as pq
import pytest
from counter_files import columns_of, read, write
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import _core
from pipeline.base.errors import RunDirectoryError, TrainingError
from pipeline.counts import combine_worker, counter_file
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine_worker import CombineTask, combine, join
from pipeline.counts.counter_file import open_counter
from pipeline.storage import named, sealed_parquet

LOSSES = {"pieces_cut": {"count": 1, "examples": ["a.txt, byte 2"]}}


def is_there(path, fingerprint):
    [facts] = counter_file.look(counter_file.LookTask([(path, fingerprint)]))
    return facts is not None


def combine_files(paths, output, **options):
    return combine(CombineTask([(path, None) for path in paths], output, "s", **options)).rows


def random_counts(seed, pieces, most=40):
    generator = random.Random(seed)
    return Counter(
        {generator.randbytes(generator.randint(1, most)): generator.randint(1, 1 << 40) for _ in range(pieces)}
    )


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_a_counter_file_is_read_as_it_was_written(tmp_path, partitions):
    counts = random_counts(1, 5000) | Counter({b"\x00" * 9: (1 << 63) - 1, b"x" * 100_000: 1})
    path = write(tmp_path / "c.parquet", counts, partitions, bytes=17)
    assert read(path) == counts
    with counter_file.open_counter(path, fingerprint="f") as counter:
        assert (counter.partitions, counter.fingerprint, counter.statistics) == (
            partitions,
            "f",
            ChunkStatistics(bytes=17),
        )
    assert list(tmp_path.iterdir()) == [path]


def test_empty_counter_and_empty_partitions(tmp_path):
    assert read(write(tmp_path / "none.parquet", Counter())) == {}
    assert read(write(tmp_path / "one.parquet", Counter({b"a": 1}), 4)) == {b"a": 1}
    empty = [tmp_path / "none.parquet"] * 2
    assert combine_files(empty, tmp_path / "sum.parquet") == 0
    assert read(tmp_path / "sum.parquet") == {}


def test_duckdb_reads_it(tmp_path):
    path = write(tmp_path / "c.parquet", random_counts(2, 20_000) + Counter({b" the": 5_000_000_000}), 2)
    rows = duckdb.execute("select piece, count from read_parquet(?) order by hash(piece)", [str(path)]).fetchall()
    assert dict(rows) == read(path)
    found = duckdb.execute(f"select count from '{path}' where piece = ' the'::blob").fetchall()
    assert found == [(5_000_000_000,)]


COUNTS = st.dictionaries(
    st.one_of(st.text("ab", min_size=1, max_size=3).map(str.encode), st.binary(min_size=1, max_size=20)),
    st.integers(1, 1 << 50),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(COUNTS, max_size=6))
def test_native_combination_is_a_sum(parts):
    combined = _core.combine([columns_of(part)[0] for part in parts])
    expected = sum(map(Counter, parts), Counter())
    result = oracle_counting.as_counter(combined)
    assert result == expected
    assert [_core.hash64(piece) for piece in result] == sorted(map(_core.hash64, expected))


@pytest.mark.parametrize("memory_bytes", [1, 1 << 30])
@pytest.mark.parametrize("threads", [1, 2])
def test_files_of_different_partitions_are_combined(tmp_path, monkeypatch, memory_bytes, threads):
    monkeypatch.setattr(counter_file, "PARTITION_ROWS", 512)
    parts = [random_counts(i // 2, 3000 + 1000 * i) for i in range(5)]
    paths = [write(tmp_path / f"{i}.parquet", part, 2**i) for i, part in enumerate(parts)]
    output = tmp_path / "sum.parquet"
    rows = combine_files(
        paths, output, statistics=ChunkStatistics(pieces=1), threads=threads, memory_bytes=memory_bytes
    )
    expected = sum(parts, Counter())
    assert rows == len(expected)
    assert read(output, fingerprint="s") == expected
    assert len(list(tmp_path.iterdir())) == 6
    whole = oracle_counting.as_counter(_core.combine([columns_of(part)[0] for part in parts]))
    assert list(whole.items()) == list(read(output).items())


@pytest.mark.parametrize(
    ("memory_bytes", "planned"), [(1 << 20, 0), (3 << 19, 1), (2 << 20, 2), (5 << 20, 2), (1 << 30, 2)]
)
def test_threads_hold_no_more_than_planned(tmp_path, monkeypatch, memory_bytes, planned):
    monkeypatch.setattr(counter_file, "PARTITION_ROWS", 4096)
    paths = [write(tmp_path / f"{i}.parquet", random_counts(i, 50_000), 16) for i in range(2)]
    paths.append(write(tmp_path / "coarse.parquet", random_counts(9, 50), 1))
    held = []
    add = _core.combine

    def measured(*given):
        columns = add(*given)
        held.append(sum(memoryview(column).nbytes for column in columns))
        return columns

    sources = [combine_worker._Source(path, None) for path in paths]
    extents = [source.extent() for source in sources]
    combine_worker._close(sources)
    threads = combine_worker.threads_for(extents, 1, 2, memory_bytes)
    groups = combine_worker.groups_of(extents, threads, memory_bytes)
    assert (threads, len(groups)) == (planned, 1)
    monkeypatch.setattr(_core, "combine", measured)
    combine_files(paths, tmp_path / "sum.parquet", threads=2, memory_bytes=memory_bytes)
    read_bytes = sum(path.stat().st_size for path in paths) // 16
    assert threads * read_bytes + (threads + 2) * max(held) <= memory_bytes


@pytest.mark.parametrize("shares", [1, 2, 8])
@pytest.mark.parametrize("files", [1024, 4])
def test_shares_of_the_hashes_are_combined_apart_and_joined(tmp_path, monkeypatch, shares, files):
    monkeypatch.setattr("pipeline.counts.combine_worker._MOST_OPEN_FILES", files)
    monkeypatch.setattr(counter_file, "PARTITION_ROWS", 512)
    counted = [random_counts(i // 2, 500 + 1000 * i) for i in range(7)]
    paths = [write(tmp_path / f"{i}.parquet", part, 2 ** (i % 3)) for i, part in enumerate(counted)]
    parts = [tmp_path / f"share-{index}.parquet" for index in range(shares)]
    rows = [combine_files(paths, part, share=(index, shares)) for index, part in enumerate(parts)]
    joined = tmp_path / "joined.parquet"
    assert join(CombineTask([(part, "s") for part in parts], joined, "s")).rows == sum(rows)
    expected = sum(counted, Counter())
    assert read(joined, fingerprint="s") == expected
    assert shares == 1 or max(rows) < sum(rows)
    of_weights = CombineTask([(part, "s") for part in parts], joined, "s", weights={paths[0]: (1, 1)})
    assert join(of_weights).statistics.pieces == expected.total()
    combine_files(paths, tmp_path / "whole.parquet")
    assert list(read(joined)) == list(read(tmp_path / "whole.parquet"))


@pytest.mark.parametrize("files", [4, 64])
def test_many_counters_are_combined_with_few_open_files(tmp_path, monkeypatch, files):
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    parts = [random_counts(i % 7, 50) for i in range(200)]
    paths = [write(tmp_path / f"{i}.parquet", part) for i, part in enumerate(parts)]
    used = len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2 * files, allowed[1]))
    monkeypatch.setattr("pipeline.counts.combine_worker._MOST_OPEN_FILES", files)
    try:
        combine_files(paths, tmp_path / "sum.parquet", threads=2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    assert read(tmp_path / "sum.parquet") == sum(parts, Counter())
    assert len(list(tmp_path.iterdir())) == 201


def test_pieces_are_written_twice_at_most_in_a_small_budget(tmp_path, monkeypatch):
    source = random.Random(3)
    paths = []
    for number in range(60):
        pieces = list({source.randbytes(9) for _ in range(15_000)})
        paths.append(tmp_path / f"{number}.parquet")
        columns = [_core.sorted_counter(pieces, [1] * len(pieces))]
        counter_file.write_counter(paths[-1], columns, fingerprint="s")
    written = []
    write_sum = combine_worker.write_counter
    monkeypatch.setattr(
        combine_worker, "write_counter", lambda *a, **k: written.append(facts := write_sum(*a, **k)) or facts
    )
    rows = combine_files(paths, tmp_path / "small.parquet", memory_bytes=6 << 20, threads=1)
    assert len(written) > 5
    assert sum(facts.rows for facts in written) <= 2.05 * rows
    combine_files(paths, tmp_path / "large.parquet")
    assert (tmp_path / "small.parquet").read_bytes() == (tmp_path / "large.parquet").read_bytes()


@pytest.mark.parametrize(("memory_bytes", "known"), [(64 << 20, True), (1 << 10, False)])
def test_footers_are_read_once_if_memory_allows(tmp_path, monkeypatch, memory_bytes, known):
    """On a store each of them is a request, for every share of the hashes."""
    counts = [random_counts(seed, 300) for seed in range(5)]
    paths = [write(tmp_path / f"{number}.parquet", one, 4) for number, one in enumerate(counts)]
    read_footers = []
    footer = sealed_parquet._footer
    monkeypatch.setattr(sealed_parquet, "_footer", lambda *given: read_footers.append(1) or footer(*given))
    combine_files(paths, tmp_path / "sum.parquet", memory_bytes=memory_bytes, threads=1)
    sealed = 1  # what was written
    assert (len(read_footers) == len(paths) + sealed) == known
    assert read(tmp_path / "sum.parquet") == sum(counts, Counter())


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_no_counter_stays_open_when_memory_is_short_or_all_is_combined(tmp_path, monkeypatch, memory_bytes):
    """Nor does an object of a store stay in memory."""
    opened = []
    filesystem = fsspec.filesystem("memory")
    counts = [random_counts(number, 300) for number in range(3)]
    for number in range(3):
        path = write(tmp_path / f"{number}.parquet", counts[number], 4)
        filesystem.pipe(f"/looked/{number}.parquet", path.read_bytes())
    remote = [named(f"fsspec+memory:///looked/{number}.parquet") for number in range(3)]
    sources = [combine_worker._Source(path, "f") for path in remote]
    taken = sealed_parquet.open_file
    monkeypatch.setattr(
        sealed_parquet, "open_file", lambda where: opened.append(weakref.ref(file := taken(where))) or file
    )
    combine_worker._extents(sources, memory_bytes)
    gc.collect()
    assert len(opened) == 3
    assert [one() is not None for one in opened] == [memory_bytes > 0] * 3
    combine_worker._close(sources)
    assert combine_files(remote, tmp_path / "sum.parquet") == len(sum(counts, Counter()))
    gc.collect()
    assert [one() for one in opened] == [None] * len(opened)
    assert sum(map(oracle_counting.as_counter, map(sources[1].open().read, range(4))), Counter()) == counts[1]
    sources[1].close()


def test_sum_beyond_63_bits_is_refused(tmp_path):
    paths = [write(tmp_path / f"{i}.parquet", Counter({b"a": 1 << 62})) for i in range(2)]
    output = tmp_path / "sum.parquet"
    with pytest.raises(TrainingError, match="2\\^63"):
        combine_files(paths, output)
    assert not output.exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_failure_in_the_middle_leaves_the_old_file(tmp_path):
    path = write(tmp_path / "c.parquet", Counter({b"a": 1}))

    def failing():
        yield columns_of(random_counts(3, 1000))[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        counter_file.write_counter(path, failing(), fingerprint="g")
    assert read(path, fingerprint="f") == {b"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_flipped_bits_are_noticed(tmp_path):
    good = write(tmp_path / "good.parquet", random_counts(4, 2000), 2).read_bytes()
    expected = read(tmp_path / "good.parquet")
    bad = tmp_path / "bad.parquet"
    generator = random.Random(5)
    for place in [0, len(good) - 1, len(good) - 6, *generator.sample(range(len(good)), 150)]:
        damaged = bytearray(good)
        damaged[place] ^= 1 << generator.randrange(8)
        bad.write_bytes(damaged)
        with contextlib.suppress(RunDirectoryError):
            assert read(bad) == expected, place  # where it is not noticed, the bit says nothing


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_truncated_files(tmp_path, size):
    path = write(tmp_path / "c.parquet", random_counts(6, 500))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(RunDirectoryError, match=r"c\.parquet is damaged [^\n]*$"):
        read(path)
    assert not is_there(path, "f")


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(RunDirectoryError, match="is missing"):
        read(tmp_path / "none.parquet")
    assert not is_there(tmp_path / "none.parquet", "f")
    path = write(tmp_path / "c.parquet", Counter({b"a": 1}))
    assert is_there(path, "f")
    assert not is_there(path, "g")
    with pytest.raises(RunDirectoryError, match="something else"):
        read(path, fingerprint="g")
    table = pq.read_table(path)
    metadata = sealed_parquet.seals(["0" * 48])
    pq.write_table(table.replace_schema_metadata(metadata), path)
    sealed_parquet.seal(path)
    with pytest.raises(RunDirectoryError, match="format unknown"):
        read(path)
    metadata |= {counter_file._FORMAT: b"1", counter_file._FINGERPRINT: b"f", counter_file._STATISTICS: b"{}"}
    pq.write_table(table.rename_columns(["piece", "number"]).replace_schema_metadata(metadata), path)
    sealed_parquet.seal(path)
    with pytest.raises(RunDirectoryError, match="columns"):
        read(path)
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(RunDirectoryError, match="footer is not as it was written"):
        read(path)


def test_rows_out_of_order_are_refused(tmp_path):
    paths = [write(tmp_path / f"{i}.parquet", random_counts(i, 300)) for i in range(2)]
    pieces = list(oracle_counting.as_counter(columns_of(random_counts(0, 300))[0]).items())[::-1]
    offsets = array("q", accumulate((len(piece) for piece, _ in pieces), initial=0))
    columns = offsets, b"".join(piece for piece, _ in pieces), array("Q", (count for _, count in pieces))
    counter_file.write_counter(paths[0], [columns], fingerprint="f")
    with pytest.raises(RunDirectoryError, match="order of their hash"):
        combine_files(paths, tmp_path / "sum.parquet")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (([0, 2, 1], b"ab", [1, 1]), "decrease"),
        (([0, 0], b"", [1]), "is empty"),
        (([0, 9], b"ab", [1]), "beyond the data"),
        (([-1, 1], b"ab", [1]), "negative"),
        (([0], b"ab", [1]), "one number more"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, reason):
    offsets, data, counts = columns
    packed = b"".join(x.to_bytes(8, "little", signed=True) for x in offsets)
    with pytest.raises(ValueError, match=reason):
        _core.combine([(packed, data, b"".join(x.to_bytes(8, "little") for x in counts))])


def test_statistics_are_json(tmp_path):
    path = write(tmp_path / "c.parquet", Counter({b"a": 1}), bytes=3, losses=LOSSES, concerned_characters="é")
    stored = json.loads(pq.read_schema(path).metadata[counter_file._STATISTICS])
    assert {name: value for name, value in stored.items() if value} == {
        "bytes": 3,
        "losses": LOSSES,
        "concerned_characters": "é",
    }
    assert {name for name, value in stored.items() if not value} == {
        *("documents", "pieces", "special_tokens", "replacements", "invalid_bytes"),
        *(
            "documents_skipped",
            "bytes_skipped",
            "pieces_cut",
            "files",
            "searched_bytes",
            "special_found",
            "looks_special",
        ),
    }
    with open_counter(path) as counter:
        assert counter.statistics == ChunkStatistics(bytes=3, losses=LOSSES, concerned_characters="é")


def test_adding_statistics_adds_every_field():
    one = ChunkStatistics(bytes=3, documents=1, losses=LOSSES, concerned_characters="éa")
    other = ChunkStatistics(
        bytes=4, files=2, losses={"pieces_cut": {"count": 2, "examples": ["b.txt, byte 4"]}}, concerned_characters="aéƀ"
    )
    assert one + other == ChunkStatistics(
        bytes=7,
        documents=1,
        files=2,
        losses={"pieces_cut": {"count": 3, "examples": ["a.txt, byte 2", "b.txt, byte 4"]}},
        concerned_characters="aéƀ",
    )


def test_partitions_follow_the_rows():
    assert [counter_file.partitions_for(n) for n in (0, 1, 1 << 16, (1 << 16) + 1, 1 << 20)] == [1, 1, 1, 2, 16]
    assert [counter_file.partitions_for(rows, 40 << 20) for rows in (1, 2, 1000)] == [1, 2, 16]
