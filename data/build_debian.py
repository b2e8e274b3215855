#!/usr/bin/env python3
"""Builds a mixed corpus of code and languages from archives of Debian's sources: text, JSONL.zst and Parquet.

    python data/build_debian.py corpus chromium_*.tar.xz firefox-esr_*.tar.xz libreoffice_*.tar.xz gcc-12_*.tar.gz

Every file in the archives (also in archives within them) that is UTF-8 without control characters is a document. A
document's output is chosen by a hash of its name: of five outputs three are text, one is JSONL.zst, one is Parquet. The
same archives give the same bytes. `--max-bytes` ends early. Needs pyarrow, which bpe-pipeline brings along.
"""

import argparse
import hashlib
import io
import json
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

SEPARATOR = b"<|endoftext|>"
ARCHIVE = re.compile(r"\.tar\.(xz|gz|bz2)$")
NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
ROWS = 2000  # of a row group
FILES, MOST_BYTES = 33, 8 << 20
Write = Callable[[str], None]


def documents(archive: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Name and text of every document in an archive."""
    with tarfile.open(fileobj=archive, mode="r|*") as members:
        for member in members:
            file = members.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            if ARCHIVE.search(member.name):
                yield from documents(io.BytesIO(file.read()))
            elif 0 < member.size <= MOST_BYTES:
                data = file.read()
                if NO_TEXT.search(data) is None and SEPARATOR not in data:
                    try:
                        yield member.name, data.decode()
                    except UnicodeDecodeError:
                        continue


def text_writer(path: Path, closing: ExitStack) -> Write:
    """Write documents with the separator between them."""
    out = closing.enter_context(path.with_suffix(".txt").open("wb"))
    return lambda text: void(out.write((SEPARATOR if out.tell() else b"") + text.encode()))


def jsonl_writer(path: Path, closing: ExitStack) -> Write:
    """Write records, compressed with zstd."""
    out = closing.enter_context(pa.CompressedOutputStream(str(path.with_suffix(".jsonl.zst")), "zstd"))
    return lambda text: void(out.write(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n"))


def parquet_writer(path: Path, closing: ExitStack) -> Write:
    """Write rows."""
    schema = pa.schema([("text", pa.string())])
    out = closing.enter_context(pq.ParquetWriter(path.with_suffix(".parquet"), schema, compression="zstd"))
    rows: list[str] = []

    def flush() -> None:
        if rows:
            out.write_table(pa.table({"text": rows}, schema=schema))
        rows.clear()

    closing.callback(flush)

    def write(text: str) -> None:
        rows.append(text)
        if len(rows) == ROWS:
            flush()

    return write


def void(_: Any) -> None:
    """Drop a value."""


def build(output: Path, archives: list[Path], files: int, max_bytes: int | None) -> tuple[int, int]:
    """Write the corpus; returns its documents and their bytes."""
    output.mkdir(parents=True, exist_ok=True)
    kinds = (text_writer, text_writer, text_writer, jsonl_writer, parquet_writer)
    number = size = 0
    with ExitStack() as closing:
        writers = [kinds[index % len(kinds)](output / f"{index:02d}", closing) for index in range(files)]
        for path in archives:
            if path.suffix == ".asc":  # the signature of an archive, which the same pattern of names finds
                continue
            with path.open("rb") as archive:
                for name, text in documents(archive):
                    chosen = int.from_bytes(hashlib.sha256(name.encode(errors="replace")).digest()[:8], "big")
                    writers[chosen % files](text)
                    number, size = number + 1, size + len(text.encode())
                    if max_bytes is not None and size >= max_bytes:
                        return number, size
    return number, size


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("archives", type=Path, nargs="+")
    parser.add_argument("--files", type=int, default=FILES, help=f"outputs (default {FILES})")
    parser.add_argument("--max-bytes", type=int, help="of text; the last document is whole")
    asked = parser.parse_args()
    try:
        number, size = build(asked.output, asked.archives, asked.files, asked.max_bytes)
    except (OSError, EOFError, TypeError, tarfile.TarError) as error:  # tarfile raises all of them for damage
        sys.stderr.write(f"build_debian.py: error: {error or type(error).__name__}; download the archive again\n")
        return 1
    sys.stdout.write(f"{number:,} documents, {size:,} bytes in {asked.output}\n")
    return 0 if number else 1


if __name__ == "__main__":
    sys.exit(main())
