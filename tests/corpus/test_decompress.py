"""Decompressors keep windows and dictionaries, whose sizes are read from headers and held of the budget."""

import lzma
import zlib
from pathlib import Path

import counter_files
import pyarrow as pa
import pytest
from chunk_tasks import chunk_task, counted_within, random_words
from corpus_files import xz_with, zstd_frame
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import InputError
from pipeline.corpus.decompress import ZstdWindows, xz_memory
from pipeline.counts.count_worker import count_chunk

MIB = 1 << 20


@given(st.lists(st.sampled_from([1, 2, 5, 30]), max_size=8), st.integers(1, 9), st.data())
def test_zstd_windows_do_not_depend_on_the_blocks(powers: list[int], step: int, data: st.DataObject) -> None:
    frames, largest = b"", 0
    for power in powers:
        frames += zstd_frame(10 + power % 18, data.draw(st.integers(1, 3)))
        largest = max(largest, 1 << 10 + power % 18)
        if data.draw(st.booleans()):  # a frame that is to be skipped
            frames += b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"
    windows: list[int] = [0]
    seen = ZstdWindows(windows.append)
    for start in range(0, len(frames), step):
        seen.see(frames[start : start + step])
    assert max(windows) == largest
    assert len(windows) == 1 + len(powers)


@pytest.mark.parametrize("level", [1, 3, 19])
def test_zstd_windows_of_real_frames(level: int) -> None:
    for size in (0, 100, 300, 70_000, 700_000):
        text = random_words(size, size)
        frame = pa.Codec("zstd", compression_level=level).compress(text, asbytes=True)
        windows: list[int] = []
        seen = ZstdWindows(windows.append)
        seen.see(frame + frame)
        assert len(windows) == 2
        assert max(windows) <= max(size, 8 * MIB)
        if size < 100_000:  # one block at once: the window is the text
            assert windows == [size, size]
        seen.see(zstd_frame(27, 1))  # seen if the frames before were followed to their last byte
        assert windows[2:] == [1 << 27]


@pytest.mark.parametrize("dictionary_bytes", [4096, 3 * MIB, 8 * MIB, 96 * MIB, 1 << 30])
def test_xz_memory_covers_the_dictionary(dictionary_bytes: int) -> None:
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


def test_larger_xz_dictionary_in_a_later_block_is_an_error_of_its_own(tmp_path: Path) -> None:
    text = random_words(1, 20_000)
    small, large = xz_with(4096, text), xz_with(12 * MIB, text)
    for name, streams in (("a", (large, small)), ("b", (small, large))):
        (tmp_path / f"{name}.txt.xz").write_bytes(one_stream(*streams))
        assert lzma.decompress(one_stream(*streams)) == 2 * text
    (tmp_path / "a.txt").write_bytes(2 * text)
    for name in ("a.txt", "a.txt.xz"):
        count_chunk(chunk_task(tmp_path / name, tmp_path / f"{name}.parquet", 32 * MIB))
    assert counter_files.read(tmp_path / "a.txt.parquet") == counter_files.read(tmp_path / "a.txt.xz.parquet")
    message = r"b\.txt\.xz: after \d+ bytes of its text there is a block of xz with a larger dictionary .* 1\.0 MiB"
    with pytest.raises(InputError, match=message):
        count_chunk(chunk_task(tmp_path / "b.txt.xz", tmp_path / "b.parquet", 32 * MIB))


def test_xz_streams_with_different_dictionaries_are_one_text(tmp_path: Path) -> None:
    text = random_words(1, 100_000)
    (tmp_path / "a.txt").write_bytes(text * 3)
    (tmp_path / "a.txt.xz").write_bytes(xz_with(4096, text) + bytes(4) + xz_with(12 * MIB, text) + xz_with(4096, text))
    for name in ("a.txt", "a.txt.xz"):
        count_chunk(chunk_task(tmp_path / name, tmp_path / f"{name}.parquet", 12 * MIB))
    assert counter_files.read(tmp_path / "a.txt.parquet") == counter_files.read(tmp_path / "a.txt.xz.parquet")


def test_small_file_with_a_large_window_fits(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.xz"
    path.write_bytes(xz_with(64 * MIB, random_words(1, 100_000)))
    counted_within(path, 12 * MIB)
    (tmp_path / "a.txt.zst").write_bytes(zstd_frame(27, 8))
    counted_within(tmp_path / "a.txt.zst", 12 * MIB)


def test_too_large_zstd_window_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.zst"
    path.write_bytes(zstd_frame(31, 8))
    with pytest.raises(InputError, match=r"a\.txt\.zst needs a window of 2\.0 GiB .* without --long"):
        counted_within(path, 1 << 30)
