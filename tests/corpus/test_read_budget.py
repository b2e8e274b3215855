"""What reading holds is of the worker's room: windows, long lines, pages; what has no place is refused in one line."""

import lzma
import re
import sys
import weakref
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import peers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chunk_tasks import chunk_task, pieces_of, random_words
from command import refused, run
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from benchmarks.process import HAS_PSS, measure
from pipeline import _core
from pipeline.base import machine
from pipeline.base.errors import InputError, TrainingError
from pipeline.commands import train
from pipeline.corpus import parquet as parquet_reader
from pipeline.corpus.decompress import ZstdWindows, xz_memory
from pipeline.corpus.files import describe
from pipeline.corpus.lines import whole_lines
from pipeline.corpus.pages import pages, sizes
from pipeline.corpus.read_budget import LEAST_COUNTING_BYTES, UNLIMITED, ReadBudget
from pipeline.counts.count_worker import count_chunk
from pipeline.counts.counts_file import read_counts
from pipeline.merges import replay_worker
from pipeline.run import manifest
from pipeline.run.options import make_options
from pipeline.run.workers import executor_for
from pipeline.storage import LocalFile
from pipeline.tokenizer import export
from pipeline.tokenizer.model import Model

MIB = 1 << 20
_ZSTD_BLOCK = 1 << 17


def zstd_frame(window_power: int, blocks: int) -> bytes:
    """A frame of blocks that are each one byte, repeated: four bytes for 128 KiB of text."""
    frame = bytearray(b"\x28\xb5\x2f\xfd" + bytes([0, (window_power - 10) << 3]))
    for number in range(blocks):
        frame += (_ZSTD_BLOCK << 3 | 1 << 1 | (number == blocks - 1)).to_bytes(3, "little") + b"a\n "[number % 3 :][:1]
    return bytes(frame)


def line(size: int, end: bytes = b'"}\n') -> bytes:
    return b'{"text":"' + b"the quick brown fox " * (size // 20) + end


def xz_with(dictionary_bytes: int, text: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": dictionary_bytes}]
    return lzma.compress(text, format=lzma.FORMAT_XZ, filters=filters)


@given(st.lists(st.sampled_from([1, 2, 5, 30]), max_size=8), st.integers(1, 9), st.data())
def test_windows_are_seen_however_the_bytes_come(powers: list[int], step: int, data: st.DataObject) -> None:
    frames, largest = b"", 0
    for power in powers:
        frames += zstd_frame(10 + power % 18, data.draw(st.integers(1, 3)))
        largest = max(largest, 1 << 10 + power % 18)
        if data.draw(st.booleans()):  # a frame that is to be skipped
            frames += b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"
    seen = ZstdWindows()
    for start in range(0, len(frames), step):
        seen.see(frames[start : start + step])
    assert seen.window_bytes == largest


@pytest.mark.parametrize("level", [1, 3, 19])
def test_windows_of_frames_that_zstd_wrote(level: int) -> None:
    for size in (0, 100, 300, 70_000, 3_000_000):
        text = random_words(size, size)
        frame = pa.Codec("zstd", compression_level=level).compress(text, asbytes=True)
        seen = ZstdWindows()
        seen.see(frame + frame)
        assert (seen._skip, seen._wanted, bytes(seen._header)) == (0, 4, b"")  # the next frame
        assert seen.window_bytes <= max(size, 8 * MIB)
        if size < 100_000:  # one block at once: the window is the text
            assert seen.window_bytes == size


@pytest.mark.parametrize("dictionary_bytes", [4096, 3 * MIB, 8 * MIB, 96 * MIB, 1 << 30])
def test_the_dictionary_of_xz_is_found(dictionary_bytes: int) -> None:
    memory = xz_memory(xz_with(dictionary_bytes, b"text"))
    assert dictionary_bytes <= memory <= dictionary_bytes + 2 * MIB
    lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=memory).decompress(xz_with(dictionary_bytes, b"text"))


def one_stream(*streams: bytes) -> bytes:
    """The blocks of several xz streams as those of one, which no encoder of the library's writes."""
    blocks, records = b"", b""
    for stream in streams:
        index_bytes = 4 * (int.from_bytes(stream[-8:-4], "little") + 1)
        blocks += stream[12 : -12 - index_bytes]
        index = stream[-12 - index_bytes : -12]
        assert index[:2] == b"\x00\x01"  # of one block
        body = index[2:-4]
        ends = [at + 1 for at, byte in enumerate(body) if byte < 0x80][:2]  # of two numbers of several bytes
        records += body[: ends[-1]]
    index = bytes([0, len(streams)]) + records
    index += bytes(-len(index) % 4)
    index += zlib.crc32(index).to_bytes(4, "little")
    tail = (len(index) // 4 - 1).to_bytes(4, "little") + streams[0][-4:-2]
    return streams[0][:12] + blocks + index + zlib.crc32(tail).to_bytes(4, "little") + tail + b"YZ"


def test_a_block_of_xz_with_a_larger_dictionary_is_no_damage(tmp_path: Path) -> None:
    text = random_words(1, 20_000)
    small, large = xz_with(4096, text), xz_with(12 * MIB, text)
    for name, streams in (("a", (large, small)), ("b", (small, large))):
        (tmp_path / f"{name}.txt.xz").write_bytes(one_stream(*streams))
        assert lzma.decompress(one_stream(*streams)) == 2 * text
    (tmp_path / "a.txt").write_bytes(2 * text)
    for name in ("a.txt", "a.txt.xz"):
        count_chunk(chunk_task(tmp_path / name, tmp_path / f"{name}.parquet", 32 * MIB))
    assert pieces_of(tmp_path / "a.txt.parquet") == pieces_of(tmp_path / "a.txt.xz.parquet")
    message = r"b\.txt\.xz: after \d+ bytes of its text there is a block of xz with a larger dictionary .* 1\.0 MiB"
    with pytest.raises(InputError, match=message):
        count_chunk(chunk_task(tmp_path / "b.txt.xz", tmp_path / "b.parquet", 32 * MIB))


def test_streams_of_xz_with_other_dictionaries_follow_each_other(tmp_path: Path) -> None:
    text = random_words(1, 100_000)
    (tmp_path / "a.txt").write_bytes(text * 3)
    (tmp_path / "a.txt.xz").write_bytes(xz_with(4096, text) + bytes(4) + xz_with(12 * MIB, text) + xz_with(4096, text))
    for name in ("a.txt", "a.txt.xz"):
        count_chunk(chunk_task(tmp_path / name, tmp_path / f"{name}.parquet", 12 * MIB))
    assert pieces_of(tmp_path / "a.txt.parquet") == pieces_of(tmp_path / "a.txt.xz.parquet")


class _Watched:
    """A budget that notes how little was left for counting."""

    def __init__(self, budget_bytes: int) -> None:
        self.least = budget_bytes
        self.budget = ReadBudget(budget_bytes, self._note, limit_bytes=2 * budget_bytes, workers=2)

    def _note(self, left: int) -> None:
        self.least = min(self.least, left)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3000), max_size=8), st.integers(300, 2000), st.integers(4, 20))
def test_the_room_decides_no_loss(lengths: list[int], block_kb: int, budget_mib: int) -> None:
    text = b"".join(b"x" * (1000 * length) + b"\n" for length in lengths)
    blocks = [text[start : start + 1000 * block_kb] for start in range(0, len(text), 1000 * block_kb)]

    def too_long(budget: ReadBudget) -> list[int]:
        places, told = [], 0
        for at, found in whole_lines(blocks, 0, 2_000_000, budget):
            assert at == told
            if isinstance(found, bytes):
                assert found == text[at : at + len(found)]
                told += len(found)
            else:
                end = text.index(b"\n", at)
                told = end + 1
                if found is None:
                    places.append(at)
                    assert end - at > 2_000_000
                else:
                    assert found == end - at <= 2_000_000
        return places

    assert too_long(UNLIMITED) == too_long(ReadBudget(budget_mib * MIB, lambda _: None))


def counted_within(path: Path, room_bytes: int) -> None:
    output = path.with_name(f"{path.name}.{room_bytes}.parquet")
    count_chunk(replace(chunk_task(path, output, room_bytes), limit_bytes=100 * MIB + room_bytes))
    whole = path.with_name(f"{path.name}.parquet")
    count_chunk(chunk_task(path, whole, 1 << 31))
    assert pieces_of(output) == pieces_of(whole)


READ = {
    "a.jsonl": lambda: line(1000) + line(9_000_000) + line(500),
    "decided by json.jsonl": lambda: line(4_000_000, b'","x":[1,-NaN]}\n') + line(5000),
    "many values.jsonl": lambda: line(20) + b'{"text":1,"x":[' + b"{}," * 400_000 + b"0]}\n",
    "a.txt.zst": lambda: zstd_frame(26, 700),
    "a.txt.xz": lambda: xz_with(48 * MIB, random_words(3, 100_000) + b"abcdefghi " * 6_000_000),
}


@pytest.mark.parametrize("name", READ)
def test_what_has_no_place_is_told_with_the_limit_that_would_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(READ[name]())
    room = 12 * MIB
    for _ in range(4):  # the line, then the record
        try:
            counted_within(path, room)
        except TrainingError as error:
            told = re.fullmatch(
                rf"{re.escape(str(path))}, byte \d+.* would take \d.* to read, and a worker has .*; "
                r"give --memory-limit (\d+)MiB", str(error)
            )  # fmt: skip
            more = int(told[1]) * MIB - 100 * MIB if told else 0
            if more <= room:
                raise
            room = more
        else:
            break
    else:
        raise AssertionError("it is never enough")
    assert room > 12 * MIB


def test_a_small_file_takes_little_whatever_its_header_says(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.xz"
    path.write_bytes(xz_with(64 * MIB, random_words(1, 100_000)))
    counted_within(path, 12 * MIB)
    (tmp_path / "a.txt.zst").write_bytes(zstd_frame(27, 8))
    counted_within(tmp_path / "a.txt.zst", 12 * MIB)


def test_a_window_that_zstd_readers_refuse_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.zst"
    path.write_bytes(zstd_frame(31, 8))
    with pytest.raises(InputError, match=r"a\.txt\.zst needs a window of 2\.0 GiB .* without --long"):
        counted_within(path, 1 << 30)


def test_a_line_that_is_a_loss_is_one_in_any_room(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(600) + line(70_000_000) + line(500))
    statistics = count_chunk(chunk_task(path, tmp_path / "c.parquet", 12 * MIB))
    assert statistics["losses"]["records_too_long"]["count"] == 1
    assert statistics["documents"] == 2


def test_counting_gives_way_to_reading(tmp_path: Path) -> None:
    """The counter is written in parts, and has its room again afterwards."""
    path = tmp_path / "a.jsonl"
    words = random_words(4, 3_000_000)
    records = b"".join(b'{"text":"%s"}\n' % words[start : start + 500] for start in range(0, len(words), 500))
    path.write_bytes(records + line(5_000_000) + records)
    counted_within(path, 40 * MIB)
    spilled: list[int] = []
    counter = _core.ChunkCounter(
        chunk_task(path, path, 1).pattern.automaton, [], room_bytes=40 * MIB, spill=lambda one: spilled.append(len(one))
    )
    counter.feed(random_words(5, 3_000_000), True)
    assert not spilled
    pieces = len(counter)
    counter.set_room(3 * MIB)
    assert (spilled, len(counter)) == ([pieces], 0)
    with pytest.raises(ValueError, match="no room to change"):
        _core.ChunkCounter(chunk_task(path, path, 1).pattern.automaton, []).set_room(5)


def test_the_sum_of_what_is_held() -> None:
    watched = _Watched(40 * MIB)
    assert watched.budget.hold("window", 20 * MIB)
    assert not watched.budget.hold("line", 20 * MIB)
    assert watched.budget.left_bytes == watched.least == 20 * MIB
    error = str(watched.budget.too_large("line", 30 * MIB, "it"))
    short = 20 * MIB + 30 * MIB + LEAST_COUNTING_BYTES - 40 * MIB
    assert f"--memory-limit {(80 * MIB + 2 * short) // MIB}MiB, or fewer --workers" in error
    watched.budget.hold("window", 0)
    assert watched.budget.hold("line", 30 * MIB)


def parquet(path: Path, pieces: list[bytes], **options: object) -> Path:
    table = pa.table({"piece": pa.array(pieces, pa.large_binary()), "count": pa.array([1] * len(pieces), pa.uint64())})
    pq.write_table(table, path, compression="zstd", **options)
    return path


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_headers_of_pages_say_what_the_index_sums_up(tmp_path: Path, version: str, dictionary: bool) -> None:
    pieces = [f"{number % 700} words".encode() for number in range(20_000)]
    path = parquet(tmp_path / "a.parquet", pieces, use_dictionary=dictionary, data_page_version=version,
                   data_page_size=2000, row_group_size=9000, write_page_checksum=True)  # fmt: skip
    metadata = pq.read_metadata(path)
    with LocalFile(str(path)) as stream:
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(2)):
                found = list(pages(stream, column))
                assert sum(page.values for page in found) == group.num_rows
                # The index counts the headers, too.
                assert 0 <= column.total_uncompressed_size - sum(page.size for page in found) < 100 * len(found)
                assert (sizes(stream, column).dictionary > 0) == column.has_dictionary_page


def test_headers_of_pages_that_another_writer_made(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    duckdb.sql(f"copy (select 'a' || (i % 5000) as piece, 1 as count from range(300000) t(i)) to '{path}'")
    metadata = pq.read_metadata(path)
    with LocalFile(str(path)) as stream:
        found = list(pages(stream, metadata.row_group(0).column(0)))
    assert sum(page.values for page in found) == metadata.row_group(0).num_rows


@settings(deadline=None)
@given(data=st.data())
def test_headers_of_pages_that_are_damaged(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = parquet(tmp_path_factory.getbasetemp() / "damaged.parquet", [b"a%d" % number for number in range(500)])
    column = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, 60))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with LocalFile(str(path)) as stream:
        try:
            list(pages(stream, column))
        except ValueError as error:
            assert "header" in str(error)  # noqa: PT017 - or none at all


COUNTS: dict[str, Callable[[Path], Path]] = {
    "dictionary": lambda home: parquet(home / "a.parquet", [b"x" * 3 * MIB] * 60, dictionary_pagesize_limit=1 << 30),
    "pages": lambda home: parquet(home / "a.parquet", [bytes([97 + i]) * 4 * MIB for i in range(20)],
                                  use_dictionary=False),
    "prefixes": lambda home: parquet(home / "a.parquet", [b"y" * 3 * MIB] * 60, use_dictionary=False,
                                     column_encoding={"piece": "DELTA_BYTE_ARRAY"}),
    "line": lambda home: Path(home / "a.tsv"),
}  # fmt: skip


@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
@pytest.mark.parametrize(
    "name", ["dictionary", "line", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pages", "prefixes"))]
)
def test_import_is_within_the_limit(name: str, tmp_path: Path) -> None:
    path = COUNTS[name](tmp_path)
    if path.suffix == ".tsv":
        path.write_bytes(b"".join(b"x%d\t3\n" % number for number in range(70_000)) + b"y" * 4 * MIB + b"\t5\n")
    limit, refusals = 150, 0
    for _ in range(3):
        argv = [sys.executable, "-P", "-m", "pipeline", "import", str(path), "--output", str(tmp_path / "run"),
                "--pattern=none", "--overwrite", "--workers=1", "--quiet", f"--memory-limit={limit}MiB"]  # fmt: skip
        measured = measure(argv, timeout_s=300, directory=tmp_path, environment=None)
        assert measured.peak_memory_bytes <= limit * MIB
        if measured.status == "ok":
            break
        told = re.search(
            rf"error: {re.escape(str(path))}, .* to read, .*; give --memory-limit (\d+)MiB\n", measured.stderr
        )
        assert told, measured.stderr
        assert measured.stderr.count("error") == 1
        limit, refusals = int(told[1]), refusals + 1
    assert measured.status == "ok"
    assert refusals > 0


@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
def test_a_page_of_a_corpus_is_within_the_limit(tmp_path: Path) -> None:
    """A page of 40 MB in a few kB is refused with the limit that would do, and read within that."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [b"some words and " * 100] * 27_000})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=1 << 30)
    assert path.stat().st_size < 40_000
    argv = [sys.executable, "-P", "-m", "pipeline", "count", str(path), "--output", str(tmp_path / "run"),
            "--workers=1", "--quiet"]  # fmt: skip
    small = measure([*argv, "--memory-limit=160MiB"], timeout_s=300, directory=tmp_path, environment=None)
    told = re.search(
        rf"error: {re.escape(str(path))}, row group 0: a page .* of \d+\.\d MiB would take .*; "
        r"give --memory-limit (\d+)MiB\n",
        small.stderr,
    )
    assert told, small.stderr
    assert small.peak_memory_bytes <= 160 * MIB
    limit = int(told[1])
    measured = measure([*argv, f"--memory-limit={limit}MiB"], timeout_s=300, directory=tmp_path, environment=None)
    assert measured.status == "ok", measured.stderr
    assert measured.peak_memory_bytes <= limit * MIB


def test_pages_that_cannot_matter_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [b"some words and " * 100] * 2000}), path, use_dictionary=False)
    looked = []
    sizes = parquet_reader.pages.sizes
    monkeypatch.setattr(parquet_reader.pages, "sizes", lambda *given: looked.append(given) or sizes(*given))
    rows = path.with_suffix(".counter"), path.with_suffix(".other")
    for room, output in zip((1 << 30, 24 * MIB), rows, strict=True):
        assert not looked
        count_chunk(replace(chunk_task(path, output, room), spans=((describe(str(path)), 0, 1),)))
    assert len(looked) == 1
    assert pieces_of(rows[0]) == pieces_of(rows[1])


def test_a_dictionary_of_pieces_reads_as_what_it_stands_for(tmp_path: Path) -> None:
    pieces = [peers.generated_text(number % 50, 30).encode() for number in range(3000)]
    path = parquet(tmp_path / "a.parquet", pieces, row_group_size=1000)
    for budget in (UNLIMITED, ReadBudget(4 * MIB, lambda _: None)):
        batches = list(read_counts(path, budget))
        assert [piece for batch in batches for piece in batch.pieces] == pieces
        for batch in batches[:2]:
            place = int(batch.place(0).rsplit(" ", 1)[1])
            assert pieces[place - 1] == batch.pieces[0]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of more pieces than a row group holds, merged."""
    run = tmp_path_factory.mktemp("imported") / "run"
    words = random_words(6, 1_500_000).split(b" ")
    pipeline.import_counts({b" " + word: 1 + len(word) % 7 for word in words if word}, output=run)
    pipeline.merge_run(run, vocab_size=1500)
    return run


def test_a_part_of_many_pieces_is_whole(imported: Path) -> None:
    assert "different; checksums and order are right" in pipeline.verify_run(imported)["counter"]


@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
def test_verify_is_within_the_limit(imported: Path, tmp_path: Path) -> None:
    assert "--memory-limit 50.0 MiB is too small" in refused(run("verify", imported, "--memory-limit", "50MiB"), 2)
    line = refused(run("verify", imported, "--memory-limit", "125MiB"), 1)
    told = re.search(
        r"replaying the merges would take about .*, and there are 125.0 MiB: .*; give --memory-limit (.*)$", line
    )
    assert told
    argv = [sys.executable, "-P", "-m", "pipeline", "verify", str(imported), f"--memory-limit={told[1]}"]
    measured = measure(argv, timeout_s=300, directory=tmp_path, environment=None)
    assert measured.status == "ok", measured.stderr
    assert measured.peak_memory_bytes <= int(told[1].removesuffix("MiB")) * MIB
    assert "each the right one" in measured.stdout


def test_a_replay_that_outgrows_its_room_ends(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter(range(0, 1 << 40, 1 << 36))
    monkeypatch.setattr(replay_worker, "_REPORT_EVERY_S", 0)
    monkeypatch.setattr(machine, "own_memory", lambda: next(taken))
    here = manifest.require(imported)
    task = replay_worker.ReplayTask(here.counter_path, here.manifest.counter_fingerprint(), here.merges_path,
                             here.manifest.merge_fingerprint(), "lowest-ids", 1, None, 1, 1 << 30)  # fmt: skip
    with pytest.raises(TrainingError, match=r"takes more than the 1\.0 GiB that there are, at merge 1 of"):
        replay_worker.replay(task)


def test_sizes_are_exported_one_at_a_time(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Model]] = []
    real = export.model_of

    def model_of(*arguments: Any) -> Model:
        assert not any(model() for model in made)
        model = real(*arguments)
        made.append(weakref.ref(model))
        return model

    monkeypatch.setattr(export, "model_of", model_of)
    with executor_for(make_options({"workers": 1})) as executor:
        _, trained = train.run_merge(imported, {"vocab_size": [1500, 700, 400]}, executor, lambda _: None)
    assert len(made) == 3
    assert not any(model() for model in made)
    assert [trained.model(size).vocabulary.size for size in trained.options.vocab_size] == [1500, 700, 400]


def test_every_command_says_when_the_limit_was_passed(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "process_tree_memory", lambda: 3 << 30)
    for work in (
        lambda: pipeline.verify_run(imported, memory_limit="2GiB"),
        lambda: pipeline.merge_run(imported, vocab_size=400, memory_limit="2GiB"),
        lambda: pipeline.combine_runs(
            [imported], output=imported.parent / "other", overwrite=True, memory_limit="2GiB"
        ),
        lambda: pipeline.import_counts({"a": 1}, output=imported.parent / "more", memory_limit="2GiB"),
    ):
        with pytest.warns(UserWarning, match=r"memory passed the limit of 2\.0 GiB: all processes .* 3\.0 GiB"):
            work()
    with (
        pytest.warns(UserWarning, match=r"memory passed the limit of 2\.0 GiB"),
        pytest.raises(InputError, match="the piece is empty"),
    ):
        pipeline.import_counts({"": 1}, output=imported.parent / "empty", memory_limit="2GiB")
