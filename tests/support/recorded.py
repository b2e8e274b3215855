"""Recorded results of other programs, read where they are stored, next to BPE_PIPELINE_TEST_DATA."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(os.environ.get("BPE_PIPELINE_TEST_DATA") or "/nowhere/data")
FILES = sorted(DATA.glob("*.txt"))
needs_files = pytest.mark.skipif(not FILES, reason="BPE_PIPELINE_TEST_DATA names no directory with *.txt files")


def home(folder: str) -> Path:
    """Return the folder of such results, which only exists on some machines."""
    return DATA.parent / "cases" / folder


def recorded(folder: str, names: str) -> Iterator[tuple[Path, Any]]:
    """Yield the path and content of each JSON file of a folder with such a name; skip the test without the folder."""
    if not home(folder).is_dir():
        pytest.skip(f"the recorded cases of {folder} are not on this machine")
    paths = sorted(home(folder).glob(names))
    assert paths
    yield from ((path, json.loads(path.read_text())) for path in paths)
