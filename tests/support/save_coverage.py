"""A plugin of coverage.py, which `.ci/coverage` runs with: what worker processes ran is kept task by task.

A worker ends by SIGKILL, as its coordinator wants it (`executors/local.py`), and so does the process that forks it:
neither comes to the end at which coverage.py would write. So a worker writes when it has done a task, before it
answers, and a process that forks writes before it does. Nothing of this is in the package.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import coverage


def coverage_init(*_: Any) -> None:
    """Called by coverage.py in every process, before anything is measured, and in a child of a fork at its start."""
    worker = sys.modules.get("bpe_pipeline.executors.worker")
    if worker is None:
        os.register_at_fork(before=_save, after_in_parent=_save)
    elif not hasattr(worker.answer, "__wrapped__"):
        worker.answer = _saving()(worker.answer)


@contextmanager
def _saving() -> Iterator[None]:
    try:
        yield
    finally:
        _save()


def _save() -> None:
    current = coverage.Coverage.current()
    if current is not None:
        current.save()
