"""Counter files: what is written is read, combined exactly, refused where damaged, and readable by others."""

import contextlib
import gc
import json
import random
import resource
import weakref
from array import array
from collections import Counter
from dataclasses import asdict, replace
from itertools import accumulate
from pathlib import Path
from textwrap import dedent

import duckdb
import fsspec
import pyarrow.parquet as pq
import pytest
from command import script
from counter_files import columns_of, read, write
from hypothesis import strategies as st
from oracle_counting import as_counter

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError, TrainingError
from bpe_pipeline.counts import combine_worker, counter_file
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine_worker import CombineTask, combine, join
from bpe_pipeline.counts.counter_file import Term, open_counter
from bpe_pipeline.storage import named, sealed_parquet

LOSSES = {"replacements": {"count": 1, "examples": ["a.txt, byte 2"]}}


def is_there(path, fingerprint):
    [facts] = counter_file.look(counter_file.LookTask([(path, fingerprint)]))
    return facts is not None


def combine_files(paths, output, **options):
    return combine(CombineTask([Term([(path, None) for path in paths])], output, "s", **options)).rows


def random_counts(seed, pre_tokens):
    source = random.Random(seed)
    return Counter({source.randbytes(source.randint(1, 40)): source.randint(1, 1 << 40) for _ in range(pre_tokens)})


def write_many(directory, counts, partitions=lambda _: 1):
    return [write(directory / f"{i}.parquet", one, partitions(i)) for i, one in enumerate(counts)]


@pytest.mark.parametrize(
    ("counts", "partitions"),
    [
        *((random_counts(1, 5000) | Counter({b"\x00" * 9: (1 << 63) - 1, b"x" * 100_000: 1}), n) for n in (1, 2, 8)),
        (Counter(), 1),
        (Counter({b"a": 1}), 4),
    ],
    ids=["many, 1", "many, 2", "many, 8", "none", "empty partitions"],
)
def test_a_counter_file_is_read_as_it_was_written(tmp_path, counts, partitions):
    counted_bytes = sum(len(pre_token) * count for pre_token, count in counts.items())
    totals = {"pre_tokens": sum(counts.values()), "counted_bytes": counted_bytes}
    statistics = ChunkStatistics(bytes=17, losses=LOSSES, concerned_characters="é", **totals)
    path = write(tmp_path / "c.parquet", counts, partitions, **vars(statistics))
    assert json.loads(pq.read_metadata(path).metadata[counter_file._STATISTICS]) == json.loads(
        json.dumps(asdict(statistics))
    )
    assert read(path) == counts
    with open_counter(path, fingerprint="f") as counter:
        found = counter.partitions, counter.fingerprint, counter.statistics
        assert found == (partitions, "f", statistics)
    assert list(tmp_path.iterdir()) == [path]


def test_statistics_are_added_while_a_thread_imports() -> None:
    """An abstract class that is not complete is asked with the cache of its first base, so tuples become mappings."""
    printed = script(
        dedent("""
        from collections.abc import Hashable, Mapping
        from bpe_pipeline.counts.chunk_statistics import ChunkStatistics

        class Begun:
            def __init_subclass__(cls):
                isinstance((), Mapping)

        Mapping.register(Begun)
        assert isinstance((), Hashable)

        class Both(Begun, Hashable, Mapping):
            pass

        statistics = ChunkStatistics(cut=(1, 2, 3), special_found={"a": 1})
        print((statistics + statistics).cut, (statistics + statistics).special_found)
        """)
    )
    assert printed == "(2, 4, 6) {'a': 2}\n"


def test_duckdb_reads_it(tmp_path):
    path = write(tmp_path / "c.parquet", random_counts(2, 20_000) + Counter({b" the": 5_000_000_000}), 2)
    rows = duckdb.execute(
        "select pre_token, count from read_parquet(?) order by hash(pre_token)", [str(path)]
    ).fetchall()
    assert dict(rows) == read(path)
    found = duckdb.execute(f"select count from '{path}' where pre_token = ' the'::blob").fetchall()
    assert found == [(5_000_000_000,)]


PRE_TOKENS = st.one_of(st.text("ab", min_size=1, max_size=3).map(str.encode), st.binary(min_size=1, max_size=20))
COUNTS = st.dictionaries(PRE_TOKENS, st.integers(1, 1 << 50), max_size=30)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("memory_bytes", "planned"), [(2, 0), (3, 1), (4, 2), (10, 2), (2048, 2)])
def test_threads_hold_no_more_than_planned(tmp_path, monkeypatch, memory_bytes, planned):
    memory_bytes <<= 19
    monkeypatch.setattr(counter_file, "PARTITION_ROWS", 4096)
    counts = random_counts(0, 50_000), random_counts(1, 50_000), random_counts(9, 50)  # the last is coarse
    paths, held, add = write_many(tmp_path, counts, lambda i: 16 if i < 2 else 1), [], _core.combine

    def measured(*given):
        columns = add(*given)
        held.append(sum(memoryview(column).nbytes for column in columns))
        return columns

    sources = [combine_worker._Source(path, None) for path in paths]
    extents = [source.extent() for source in sources]
    combine_worker._close(sources)
    threads = combine_worker.threads_for(extents, 1, 2, memory_bytes)
    assert (threads, len(combine_worker.groups_of(extents, threads, memory_bytes))) == (planned, 1)
    monkeypatch.setattr(_core, "combine", measured)
    combine_files(paths, tmp_path / "sum.parquet", threads=2, memory_bytes=memory_bytes)
    read_bytes = sum(path.stat().st_size for path in paths) // 16
    assert threads * read_bytes + (threads + 2) * max(held) <= memory_bytes


@pytest.mark.one_of(6)
@pytest.mark.parametrize("memory_bytes", [1, 1 << 30])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("shares", "files"), [(1, 1024), (1, 4), (2, 1024), (8, 4)])
def test_partitions_are_combined_in_shares_and_joined(tmp_path, monkeypatch, shares, files, threads, memory_bytes):
    monkeypatch.setattr("bpe_pipeline.counts.combine_worker._MOST_OPEN_FILES", files)
    monkeypatch.setattr(counter_file, "PARTITION_ROWS", 512)
    counted = [*(random_counts(i // 2, 500 + 1000 * i) for i in range(6)), Counter()]
    paths, joined = write_many(tmp_path, counted, lambda i: 2 ** (i % 3)), tmp_path / "joined.parquet"
    parts = [tmp_path / f"share-{index}.parquet" for index in range(shares)]
    how = {"statistics": ChunkStatistics(pre_tokens=1), "threads": threads, "memory_bytes": memory_bytes}
    rows = [combine_files(paths, part, share=(index, shares), **how) for index, part in enumerate(parts)]
    assert join(CombineTask([Term([(part, "s") for part in parts])], joined, "s")).rows == sum(rows)
    expected = sum(counted, Counter())
    assert read(joined, fingerprint="s") == expected
    assert shares == 1 or max(rows) < sum(rows)
    whole = as_counter(_core.combine([columns_of(part)[0] for part in counted]))
    assert list(read(joined).items()) == list(whole.items())
    assert len(list(tmp_path.iterdir())) == len(paths) + shares + 1


@pytest.mark.parametrize(("memory_bytes", "files"), [(1 << 30, 1024), (1, 1024), (1 << 30, 4)])
def test_the_sum_of_a_term_is_rounded_not_its_counters(tmp_path, monkeypatch, memory_bytes, files):
    monkeypatch.setattr("bpe_pipeline.counts.combine_worker._MOST_OPEN_FILES", files)
    counted = [random_counts(i, 500) for i in range(6)]
    paths = write_many(tmp_path, counted, lambda i: 2 ** (i % 3))
    expected, terms = Counter(), []
    for weight, some in (((3, 2), (0, 1, 2)), ((1, 1), (3,)), ((2, 3), (4, 5))):
        terms.append(Term([(paths[i], None) for i in some], weight))
        for pre_token, count in sum((counted[i] for i in some), Counter()).items():
            expected[pre_token] += max(1, (2 * count * weight[0] + weight[1]) // (2 * weight[1]))
    task = CombineTask(terms, tmp_path / "whole.parquet", "s", memory_bytes=memory_bytes)
    facts = combine(task)
    assert (read(task.output), facts.statistics.pre_tokens) == (expected, expected.total())
    parts = [tmp_path / f"share-{index}.parquet" for index in range(2)]
    for index, part in enumerate(parts):
        combine(replace(task, output=part, share=(index, 2)))
    joined = replace(task, terms=[Term([(part, "s") for part in parts])], output=tmp_path / "joined.parquet")
    assert (join(joined), read(joined.output)) == (facts, expected)


@pytest.mark.parametrize("files", [4, 64])
def test_many_counters_are_combined_with_few_open_files(tmp_path, monkeypatch, files):
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    parts = [random_counts(i % 7, 50) for i in range(200)]
    paths = write_many(tmp_path, parts)
    used = len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2 * files, allowed[1]))
    monkeypatch.setattr("bpe_pipeline.counts.combine_worker._MOST_OPEN_FILES", files)
    try:
        combine_files(paths, tmp_path / "sum.parquet", threads=2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    assert read(tmp_path / "sum.parquet") == sum(parts, Counter())
    assert len(list(tmp_path.iterdir())) == 201


@pytest.mark.slow
def test_pre_tokens_are_written_twice_at_most_in_a_small_budget(tmp_path, monkeypatch):
    source, written, write_sum = random.Random(3), [], combine_worker.write_counter
    paths = write_many(tmp_path, [Counter({source.randbytes(9): 1 for _ in range(15_000)}) for _ in range(60)])
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
    paths, read_footers, footer = write_many(tmp_path, counts, lambda _: 4), [], sealed_parquet._footer
    monkeypatch.setattr(sealed_parquet, "_footer", lambda *given: read_footers.append(1) or footer(*given))
    combine_files(paths, tmp_path / "sum.parquet", memory_bytes=memory_bytes, threads=1)
    assert (len(read_footers) == len(paths) + 1) == known  # that of what was written, too
    assert read(tmp_path / "sum.parquet") == sum(counts, Counter())


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_no_counter_stays_open_when_memory_is_short_or_all_is_combined(tmp_path, monkeypatch, memory_bytes):
    """Nor does an object of a store stay in memory."""
    opened, taken = [], sealed_parquet.open_file
    counts = [random_counts(number, 300) for number in range(3)]
    for path in write_many(tmp_path, counts, lambda _: 4):
        fsspec.filesystem("memory").pipe(f"/looked/{path.name}", path.read_bytes())
    remote = [named(f"fsspec+memory:///looked/{number}.parquet") for number in range(3)]
    sources = [combine_worker._Source(path, "f") for path in remote]
    monkeypatch.setattr(
        sealed_parquet, "open_file", lambda where: opened.append(weakref.ref(file := taken(where))) or file
    )
    combine_worker._extents(sources, memory_bytes)
    gc.collect()
    assert [one() is not None for one in opened] == [memory_bytes > 0] * 3
    combine_worker._close(sources)
    assert combine_files(remote, tmp_path / "sum.parquet") == len(sum(counts, Counter()))
    gc.collect()
    assert [one() for one in opened] == [None] * len(opened)
    assert sum(map(as_counter, map(sources[1].open().read, range(4))), Counter()) == counts[1]
    sources[1].close()


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
        bad.write_bytes(good[:place] + bytes([good[place] ^ 1 << generator.randrange(8)]) + good[place + 1 :])
        with contextlib.suppress(RunDirectoryError):
            assert read(bad) == expected, place  # where it is not noticed, the bit says nothing
    for size in (0, 3, 100, -1):
        bad.write_bytes(good[:size])
        with pytest.raises(RunDirectoryError, match=r"bad\.parquet is damaged [^\n]*$"):
            read(bad)
        assert not is_there(bad, "f")


def test_missing_and_foreign_files(tmp_path):
    path = tmp_path / "c.parquet"
    with pytest.raises(RunDirectoryError, match="is missing"):
        read(path)
    assert not is_there(path, "f")
    write(path, Counter({b"a": 1}))
    assert (is_there(path, "f"), is_there(path, "g")) == (True, False)
    with pytest.raises(RunDirectoryError, match="something else"):
        read(path, fingerprint="g")
    table, no_format = pq.read_table(path), sealed_parquet.seals(["0" * 48])
    metadata = {counter_file._FORMAT: b"1", counter_file._FINGERPRINT: b"f", counter_file._STATISTICS: b"{}"}
    for columns, stored, sealed, reason in (
        (["pre_token", "count"], no_format, True, "format unknown"),
        (["pre_token", "number"], no_format | metadata, True, "columns"),
        (["pre_token", "count"], no_format | metadata, False, "footer is not as it was written"),
    ):
        pq.write_table(table.rename_columns(columns).replace_schema_metadata(stored), path)
        if sealed:
            sealed_parquet.seal(path)
        with pytest.raises(RunDirectoryError, match=reason):
            read(path)


def test_counted_bytes_are_exact_beyond_64_bits(tmp_path):
    counts = {b"a" * 1000: (1 << 63) - 1, b"xyz": 7}
    offsets, numbers = array("q", [0, 1000, 1003]), array("Q", counts.values())
    written = counter_file.write_counter(tmp_path / "c", [(offsets, b"".join(counts), numbers)], fingerprint="f")
    assert written.statistics.counted_bytes == 1000 * ((1 << 63) - 1) + 3 * 7
    with open_counter(tmp_path / "c") as counter:
        assert counter.statistics == written.statistics


def test_rows_out_of_order_and_sums_beyond_63_bits_are_refused(tmp_path):
    paths = write_many(tmp_path, [Counter({b"a": 1 << 62})] * 2)
    with pytest.raises(TrainingError, match="2\\^63"):
        combine_files(paths, tmp_path / "sum.parquet")
    assert sorted(tmp_path.iterdir()) == paths
    paths = write_many(tmp_path, [random_counts(i, 300) for i in range(2)])
    rows = list(as_counter(columns_of(random_counts(0, 300))[0]).items())[::-1]
    offsets = array("q", accumulate((len(pre_token) for pre_token, _ in rows), initial=0))
    columns = offsets, b"".join(pre_token for pre_token, _ in rows), array("Q", (count for _, count in rows))
    counter_file.write_counter(paths[0], [columns], fingerprint="f")
    with pytest.raises(RunDirectoryError, match="order of their hash"):
        combine_files(paths, tmp_path / "sum.parquet")


@pytest.mark.parametrize(
    ("offsets", "data", "counts", "reason"),
    [
        ([0, 2, 1], b"ab", [1, 1], "decrease"),
        ([0, 0], b"", [1], "is empty"),
        ([0, 9], b"ab", [1], "beyond the data"),
        ([-1, 1], b"ab", [1], "negative"),
        ([0], b"ab", [1], "one number more"),
    ],
)
def test_columns_that_do_not_fit_are_refused(offsets, data, counts, reason):
    with pytest.raises(ValueError, match=reason):
        _core.combine([(array("q", offsets).tobytes(), data, array("Q", counts).tobytes())])


def test_adding_statistics_adds_every_field():
    more = {"replacements": {"count": 2, "examples": ["b.txt, byte 4"]}}
    both = {"replacements": {"count": 3, "examples": ["a.txt, byte 2", "b.txt, byte 4"]}}
    one = ChunkStatistics(bytes=3, documents=1, losses=LOSSES, concerned_characters="éa")
    other = ChunkStatistics(bytes=4, files=2, losses=more, concerned_characters="aéƀ")
    assert one + other == ChunkStatistics(bytes=7, documents=1, files=2, losses=both, concerned_characters="aéƀ")


def test_partitions_follow_the_rows():
    assert [counter_file.partitions_for(n) for n in (0, 1, 1 << 16, (1 << 16) + 1, 1 << 20)] == [1, 1, 1, 2, 16]
    assert [counter_file.partitions_for(rows, 40 << 20) for rows in (1, 2, 1000)] == [1, 2, 16]
