"""Functions that the executor's tests run in worker processes (workers import them by name)."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.counts.count_worker import CountTask, count_chunk
from bpe_pipeline.executors import ignore
from bpe_pipeline.executors.local import LocalExecutor
from bpe_pipeline.executors.worker import report_progress

_log = logging.getLogger("bpe_pipeline.tests")


def results_of(
    workers: int, function: Callable[[Any], Any], tasks: Sequence[Any], on_progress: Callable[[int], None] = ignore
) -> dict[int, Any]:
    """Run tasks in this number of worker processes; return results by the tasks' indices."""
    with LocalExecutor(lambda: workers) as executor:
        return dict(executor.run(function, tasks, on_progress))


def square(number: int) -> int:
    report_progress(number)
    return number * number


def is_loaded(module: str) -> bool:
    return sys.modules.get(module) is not None


def process_id(_: int) -> int:
    return os.getpid()


def refuse(number: int) -> int:
    if number == 3:
        raise InputError("three.txt cannot be read; give another")
    return number


def raise_value_error(number: int) -> int:
    raise ValueError(f"unlucky {number}")


def die_first_time(marker: Path) -> str:
    """Kill this process at the first attempt, after half the progress."""
    report_progress(5)
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    report_progress(5)
    return marker.name


def process_but_not_the_first(marker: Path | None) -> int:
    """Return this process; with a marker, fail first, after the other tasks have ended."""
    if marker is not None and not marker.exists():
        time.sleep(0.5)
        marker.touch()
        raise ValueError("the first attempt")
    return os.getpid()


def die_always(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def count_but_die_at_chunk_7(task: CountTask) -> object:
    if task.output.name.startswith("000007-"):
        os.kill(os.getpid(), signal.SIGKILL)
    return count_chunk(task)


def log_lines(numbers: range) -> int:
    for number in numbers:
        _log.info("line %d of process %d", number, os.getpid())
    return len(numbers)


def log_and_die(marker: Path) -> str:
    """Log as fast as possible; at the first attempt a forked process kills this one meanwhile."""
    if marker.exists():
        _log.info("second attempt")
        return "survived"
    marker.touch()
    if os.fork() == 0:
        time.sleep(0.05)
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    number = 0
    while True:
        _log.info("before the kill %d %s", number, "x" * 2000)
        number += 1


def sleep_for_ever(marker: Path) -> None:
    marker.write_text(str(os.getpid()))
    time.sleep(3600)


def process_after_a_while(_: int) -> int:
    time.sleep(0.3)
    return os.getpid()


def pool_of_arrow(_: object) -> str:
    """Return the name of Arrow's memory pool."""
    import pyarrow as pa

    return str(pa.default_memory_pool().backend_name)


def import_wave() -> object:
    import wave

    return wave


def import_colorsys() -> object:
    import colorsys

    return colorsys


def import_what_is_missing() -> object:
    import no_such_module  # type: ignore[import-not-found]

    return no_such_module
