"""Count a chunk: a file that changes is noticed at any time, and skipped or altered input is located."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.base.errors import InputError, InvalidTextError
from pipeline.corpus.files import describe
from pipeline.counts import feeding
from pipeline.counts.count_worker import CountTask, count_chunk
from pipeline.pattern import compile_pattern


def task_of(path: Path, **changes: object) -> CountTask:
    listed = describe(str(path))
    task = CountTask(
        name="chunk 0",
        spans=((listed, 0, listed.size),),
        pattern=compile_pattern("gpt2"),
        special_tokens=(b"<|endoftext|>",),
        errors="replace",
        max_piece_bytes=None,
        output=path.with_suffix(".parquet"),
        fingerprint="f",
        budget_bytes=64 << 20,
    )
    return replace(task, **changes)


def test_a_chunk_is_counted_and_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two two<|endoftext|>three")
    statistics = count_chunk(task_of(tmp_path / "a.txt"))
    assert (statistics.documents, statistics.pieces, statistics.special_tokens) == (2, 4, 1)
    assert (tmp_path / "a.parquet").exists()


def test_a_file_changed_before_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text")
    task = task_of(path)
    path.write_text("same size")
    os.utime(path, ns=(1, 1))
    with pytest.raises(InputError, match=r"a\.txt changed since the run was planned"):
        count_chunk(task)
    assert not task.output.exists()


def test_a_file_changed_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text " * 100)
    task = task_of(path)
    monkeypatch.setattr(feeding, "report_progress", lambda _: os.utime(path, ns=(1, 1)))
    with pytest.raises(InputError, match=r"a\.txt changed"):
        count_chunk(task)
    assert not task.output.exists()


def test_skipped_or_altered_input_is_located_in_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"valid")
    (tmp_path / "b.txt").write_bytes(b"bad \xff")
    one, two = describe(str(tmp_path / "a.txt")), describe(str(tmp_path / "b.txt"))
    task = task_of(tmp_path / "a.txt", spans=((one, 0, 5), (two, 0, 5)))
    assert count_chunk(task).losses == {"replacements": {"count": 1, "examples": [f"{tmp_path / 'b.txt'}, byte 4"]}}
    with pytest.raises(InvalidTextError, match=r"invalid UTF-8 in .*b\.txt, byte 4"):
        count_chunk(replace(task, errors="strict"))
