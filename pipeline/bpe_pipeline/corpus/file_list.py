"""The names of inputs in a file or in standard input: one a line, or each ended by a NUL byte as `find -print0` does.

Each is what an INPUT may be: a path that exists is that file or directory, whatever letters it has, others may be globs
or URIs. Relative paths are those of the working directory. There are no comments, and empty lines are skipped.
"""

import os
import sys
from functools import cache

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.files import opened
from bpe_pipeline.storage import Location

_STANDARD_INPUT = "-"
_BLOCK_BYTES = 1 << 24


def read_list(where: Location) -> list[str]:
    """Return the names in a list; raise `InputError` if it cannot be read or has none."""
    shown = "standard input" if str(where) == _STANDARD_INPUT else str(where)
    data = _read_standard_input() if str(where) == _STANDARD_INPUT else _read(where)
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"PAR1", b"\x1f\x8b")):
        raise InputError(
            f"{shown} is no list of paths: --files-from takes one path a line, or paths that NUL bytes end"
        )
    lines = data.split(b"\0" if b"\0" in data else b"\n")
    names = [os.fsdecode(line) for line in lines if line.strip()]
    if not names:
        raise InputError(f"{shown} names no files: --files-from takes one path a line")
    return names


def _read(where: Location) -> bytes:
    with opened(where) as file:
        return b"".join(iter(lambda: file.read(_BLOCK_BYTES), b""))


@cache
def _read_standard_input() -> bytes:
    """Return standard input, which can be read once."""
    if sys.stdin is None:
        raise InputError("standard input is closed: give it something to read, or name files")
    return sys.stdin.buffer.read()
