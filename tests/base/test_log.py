"""The run's log: records of all processes arrive, also when workers are killed while they log."""

import logging
import multiprocessing.queues
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import worker_tasks

from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.base.log import log_to


@pytest.mark.parametrize("sized", [True, False], ids=["queues have a size", "queues have none, as on macOS"])
def test_records_of_all_processes_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, sized: bool
) -> None:
    if not sized:
        monkeypatch.setattr(multiprocessing.queues.Queue, "qsize", Mock(side_effect=NotImplementedError))
    path = tmp_path / "log.txt"
    with log_to(path) as logger:
        for number in range(50):
            logger.info("coordinator's line %d", number)
        results = worker_tasks.results_of(2, worker_tasks.log_lines, [range(300), range(300, 600)])
    assert results == {0: 300, 1: 300}
    text = path.read_text()
    assert all(f"bpe_pipeline: coordinator's line {number}\n" in text for number in range(50))
    assert all(f"line {number} of process" in text for number in range(600))
    assert capfd.readouterr().err == ""


def test_killed_worker_blocks_no_other_and_loses_no_finished_line(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    markers = [tmp_path / name for name in "abcd"]
    with log_to(path):
        results = worker_tasks.results_of(2, worker_tasks.log_and_die, markers)
    assert set(results.values()) == {"survived"}
    lines = path.read_text().splitlines()
    assert sum("second attempt" in line for line in lines) == 4
    assert sum("killed by signal 9" in line for line in lines) == 4
    assert any("before the kill 0 " in line for line in lines)


def test_a_short_run_does_not_wait_for_its_log_and_appends_to_it(tmp_path: Path) -> None:
    """Ten times 0.2 s were lost to a thread that waited for another queue. The text may be undecodable."""
    times = []
    for number in range(10):
        started = time.monotonic()
        with log_to(tmp_path / "log.txt") as logger:
            logger.info("run %d caf\udce9", number)
        times.append(time.monotonic() - started)
    assert min(times) < 0.1
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split(": ")[-1] for line in lines] == [f"run {number} caf\\udce9" for number in range(10)]


def test_logger_has_its_previous_settings_after_overlapping_runs(tmp_path: Path) -> None:
    logger = logging.getLogger("bpe_pipeline")
    before = (logger.level, logger.propagate, list(logger.handlers))
    first, second = log_to(tmp_path / "a.txt"), log_to(tmp_path / "b.txt")
    first.__enter__()
    assert logger.handlers != before[2]
    second.__enter__()
    first.__exit__(None, None, None)
    logger.info("to the second")
    second.__exit__(None, None, None)
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert "to the second" in (tmp_path / "b.txt").read_text()
    with pytest.raises(RunDirectoryError, match="cannot be written: Is a directory; make"), log_to(tmp_path):
        pass
