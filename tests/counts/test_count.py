"""Count a chunk: a file that changes is noticed at any time, and skipped or altered input is located."""

import gc
import os
from dataclasses import replace
from pathlib import Path

import pytest
from chunk_tasks import chunk_task

from pipeline import _core
from pipeline.base.errors import InputError, InvalidTextError
from pipeline.corpus.files import FileSpan
from pipeline.corpus.listing import describe
from pipeline.counts import feeding
from pipeline.counts.count_worker import CountTask, count_chunk


@pytest.fixture
def task(tmp_path: Path) -> CountTask:
    (tmp_path / "a.txt").write_text("one two two<|endoftext|>three")
    return chunk_task(tmp_path / "a.txt", tmp_path / "a.parquet", 64 << 20)


def test_a_chunk_is_counted_and_its_counter_is_freed(task: CountTask) -> None:
    """The memory of the counter would otherwise stay allocated in parallel with that of the next chunk."""
    gc.disable()
    try:
        statistics = count_chunk(task)
        assert not any(type(held) is _core.ChunkCounter for held in gc.get_objects())
    finally:
        gc.enable()
    assert (statistics.documents, statistics.pieces, statistics.special_tokens) == (2, 4, 1)
    assert task.output.exists()


@pytest.mark.parametrize("while_it_is_read", [False, True])
def test_a_changed_file_is_refused(
    task: CountTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, while_it_is_read: bool
) -> None:
    if while_it_is_read:
        monkeypatch.setattr(feeding, "report_progress", lambda _: os.utime(tmp_path / "a.txt", ns=(1, 1)))
    else:  # of the same size
        os.utime(tmp_path / "a.txt", ns=(1, 1))
    with pytest.raises(InputError, match=r"a\.txt changed" + " since the run was planned" * (not while_it_is_read)):
        count_chunk(task)
    assert not task.output.exists()


def test_skipped_or_altered_input_is_located_in_its_own_file(task: CountTask, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"bad \xff")
    task = replace(task, spans=(*task.spans, FileSpan(describe(str(tmp_path / "b.txt")), 0, 5)))
    assert count_chunk(task).losses == {"replacements": {"count": 1, "examples": [f"{tmp_path / 'b.txt'}, byte 4"]}}
    with pytest.raises(InvalidTextError, match=r"invalid UTF-8 in .*b\.txt, byte 4"):
        count_chunk(replace(task, errors="strict"))
