"""What is measured on: identifies a corpus, and makes longer and shorter ones out of it."""

import hashlib
import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path

COPY_BYTES = 8 << 20


@dataclass(frozen=True)
class Corpus:
    """A file to train on. `name` has no directory: records are published."""

    path: Path
    name: str
    bytes: int
    digest: str


def parse_size(text: str) -> int:
    """`64MiB` -> 67108864, `1GB` -> 1000000000, `5000` -> 5000 (bytes)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", text.strip().upper())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a size; write 25MB, 1GB, 64MiB or a number of bytes")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " KMGT".index(match[2] or " "))


def size_text(size: float) -> str:
    """1234567 -> `1.23 MB`: three figures, powers of ten."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:,.0f} {unit}"


def open_corpus(path: Path, name: str | None = None) -> Corpus:
    """Reads the whole file once: for its digest, and so that every tool finds it in the page cache."""
    hasher = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(COPY_BYTES):
            hasher.update(block)
        size = file.tell()
    if not size:
        raise ValueError(f"{path}: empty; there is nothing to measure on it")
    return Corpus(path, name or path.name, size, hasher.hexdigest())


def read_from_disk(path: Path) -> None:
    """Drop a file from the page cache, so that the next one to read it reads from the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())  # pages that are not written yet stay
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_from_memory(path: Path) -> None:
    """Read a file, so that its pages are in the page cache as far as they fit."""
    with path.open("rb", buffering=0) as file:
        block = bytearray(COPY_BYTES)
        while file.readinto(block):
            pass


def prefix(source: Path, size: int, special_token: str, target: Path) -> Corpus:
    """Write the longest prefix of at most `size` bytes that ends with a document, else with a line."""
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = len(text)
        if size < end:
            separator = special_token.encode("utf-8")
            end = text.rfind(separator, 0, size + len(separator))
            end = end if end > 0 else text.rfind(b"\n", 0, size) + 1
        if end <= 0:
            raise ValueError(f"{source}: no document and no line ends within {size_text(size)}; take a larger size")
        with target.open("wb") as out:
            for start in range(0, end, COPY_BYTES):
                out.write(text[start : min(start + COPY_BYTES, end)])
    return open_corpus(target, f"{source.name} to {size_text(size)}")
