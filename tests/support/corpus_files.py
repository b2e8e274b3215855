"""Files that need much memory to read, in few bytes."""

import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_ZSTD_BLOCK = 1 << 17


def zstd_frame(window_power: int, blocks: int) -> bytes:
    """A frame of blocks that are each one byte, repeated: four bytes for 128 KiB of text."""
    frame = bytearray(b"\x28\xb5\x2f\xfd" + bytes([0, (window_power - 10) << 3]))
    for number in range(blocks):
        frame += (_ZSTD_BLOCK << 3 | 1 << 1 | (number == blocks - 1)).to_bytes(3, "little") + b"a\n "[number % 3 :][:1]
    return bytes(frame)


def zstd(text: bytes, size: int = 1 << 20) -> bytes:
    """Frames of `size` bytes of the text each."""
    parts = [text[at : at + size] for at in range(0, max(1, len(text)), size)]
    return b"".join(pa.compress(part, "zstd", asbytes=True) for part in parts)


def xz_with(dictionary_bytes: int, text: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": dictionary_bytes}]
    return lzma.compress(text, format=lzma.FORMAT_XZ, filters=filters)


def pre_tokens_file(path: Path, pre_tokens: list[bytes], **options: object) -> Path:
    table = pa.table(
        {"pre_token": pa.array(pre_tokens, pa.large_binary()), "count": pa.array([1] * len(pre_tokens), pa.uint64())}
    )
    pq.write_table(table, path, compression="zstd", **options)
    return path
