"""Decompressors keep windows and dictionaries, whose sizes are read from headers and held of the budget."""

import bz2
import gzip
import lzma
import zlib
from collections import Counter
from pathlib import Path

import counter_files
import pyarrow as pa
import pytest
from chunk_tasks import chunk_task, counted_within, random_words
from corpus_files import xz_with, zstd_frame
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.decompress import ZstdWindows, decompress, xz_memory
from bpe_pipeline.corpus.files import opened
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.read_budget import UNLIMITED
from bpe_pipeline.counts.count_worker import count_chunk

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


def pre_tokens(path: Path, data: bytes, budget_bytes: int) -> Counter[bytes]:
    path.write_bytes(data)
    count_chunk(chunk_task(path, path.with_name("counter"), budget_bytes))
    return counter_files.read(path.with_name("counter"))


def test_xz_blocks_and_streams_with_different_dictionaries_are_one_text(tmp_path: Path) -> None:
    text = random_words(1, 100_000)
    small, large = xz_with(4096, text), xz_with(12 * MIB, text)
    expected = pre_tokens(tmp_path / "a.txt", 3 * text, 32 * MIB)
    assert pre_tokens(tmp_path / "blocks.txt.xz", one_stream(large, small, small), 32 * MIB) == expected
    assert pre_tokens(tmp_path / "streams.txt.xz", small + bytes(4) + large + small, 12 * MIB) == expected
    assert lzma.decompress(one_stream(small, large)) == 2 * text
    message = r"a\.txt\.xz: after \d+ bytes of its text there is a block of xz with a larger dictionary .* 1\.0 MiB"
    with pytest.raises(InputError, match=message):
        pre_tokens(tmp_path / "a.txt.xz", one_stream(small, large), 32 * MIB)


def test_large_window_of_a_small_file_fits_and_too_large_a_window_is_an_error(tmp_path: Path) -> None:
    for name, data in (("a.txt.xz", xz_with(64 * MIB, random_words(1, 100_000))), ("a.txt.zst", zstd_frame(27, 8))):
        (tmp_path / name).write_bytes(data)
        counted_within(tmp_path / name, 12 * MIB)
    (tmp_path / "a.txt.zst").write_bytes(zstd_frame(31, 8))
    with pytest.raises(InputError, match=r"a\.txt\.zst needs a window of 2\.0 GiB .* without --long"):
        counted_within(tmp_path / "a.txt.zst", 1 << 30)


def decompressed(path: Path) -> bytes:
    file = describe(str(path))
    with opened(file.path) as stream:
        return b"".join(decompress(file, stream, UNLIMITED))


MEMBERS = st.lists(
    st.binary(max_size=30) | st.sampled_from([b"", b"ab " * 50_000, bytes(3 * MIB)]), min_size=1, max_size=5
)


@given(MEMBERS, st.lists(st.integers(0, 200_000), min_size=5, max_size=5))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_zeros_behind_and_between_gzip_members_are_ignored_as_python_does(tmp_path: Path, members, zeros) -> None:
    data = b"".join(gzip.compress(text, 1) + bytes(size) for text, size in zip(members, zeros, strict=False))
    (tmp_path / "a.gz").write_bytes(data)
    assert decompressed(tmp_path / "a.gz") == gzip.decompress(data) == b"".join(members)


@pytest.mark.parametrize("behind", [b"\0" * 512, b"trailing text", b"\0BZh9", b"x" * 200_000, b"\x1f\x8b\x08", b"\n"])
def test_what_is_behind_bzip2_is_ignored_as_python_does(tmp_path: Path, behind: bytes) -> None:
    data = bz2.compress(b"one ") + bz2.compress(b"") + bz2.compress(b"two") + behind
    (tmp_path / "a.bz2").write_bytes(data)
    assert decompressed(tmp_path / "a.bz2") == bz2.decompress(data) == b"one two"


@pytest.mark.parametrize(
    "behind", [b"B", b"BZh", bz2.compress(b"two")[:-1], gzip.compress(b"two", mtime=0)[:-1], b"text"]
)
def test_a_stream_that_is_cut_short_behind_another_is_an_error(tmp_path: Path, behind: bytes) -> None:
    first = bz2.compress(b"one") if behind.startswith(b"B") else gzip.compress(b"one")
    (tmp_path / "a").write_bytes(first + behind)
    with pytest.raises(InputError, match="cannot be decompressed"):
        decompressed(tmp_path / "a")
