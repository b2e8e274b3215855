"""`encode` in any form while something goes wrong: what it leaves in the end are the same bytes, and nothing else."""

import errno
import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amount import FULL
from command import files_in, refused, succeeded
from encoding_faults import Case, Encoding, choices, write_corpus
from killing import ended

Encode = Callable[[Case], Encoding]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def encode(corpus: Path, library: Path, tmp_path: Path) -> Encode:
    return lambda case: Encoding(corpus, case, library, tmp_path)


def slow(sample: int, times: int, all_of_them: int, all_times: int) -> list[Any]:
    """Return cases, and how often something goes wrong with each: of a sample, or if `FULL` of all."""
    cases = choices(all_of_them)[: None if FULL else sample]
    return [pytest.param(case, all_times if FULL else times, id=str(case), marks=pytest.mark.slow) for case in cases]


def finished_shards(output: Path) -> dict[Path, int]:
    """Return the times of complete shards; files next to them are written before or after them."""
    found = [path for path in output.rglob("*") if path.name.startswith(("shard-", "data-"))]
    shards = [path for path in found if ".documents." not in path.name and path.suffix not in (".idx", ".json")]
    return {path: path.stat().st_mtime_ns for path in shards}


@pytest.mark.parametrize(
    ("case", "runs"), [pytest.param(Case("--shard-format npy"), 1, id="quick"), *slow(10, 3, 70, 5)]
)
def test_kills_at_any_moment_change_no_byte(encode: Encode, case: Case, runs: int) -> None:
    """Each run is killed up to three times, at changes of files or between them; one that ends before is made again."""
    encoding, choose, kills = encode(case), random.Random(f"kills {case}"), 0
    for number in range(9 * runs):
        if number >= runs and kills:
            break
        output = encoding.fresh()
        for _ in range(choose.choice([1, 1, 2, 3])):
            result, _ = encoding.interrupted(choose, output)
            encoding.require_whole(output)
            if result.returncode != -signal.SIGKILL:
                succeeded(result)
                break
            kills += 1
        kept = finished_shards(output)
        succeeded(encoding.run(output, choose.randint(1, 3)))
        assert kept.items() <= finished_shards(output).items()
        encoding.require_finished(output)
    assert kills


@pytest.mark.parametrize(("case", "runs"), slow(2, 3, 30, 5))
def test_power_failure_changes_no_byte(encode: Encode, case: Case, runs: int) -> None:
    """What was not flushed is cut, zeros, as before, or its pages are from different times; names go back likewise."""
    encoding, choose = encode(case), random.Random(f"power {case}")
    for _ in range(runs):
        output = encoding.fresh()
        for _ in range(choose.choice([1, 1, 2, 3])):
            result, faults = encoding.interrupted(choose, output, logged=True)
            faults.fail_power(output, choose)
            encoding.require_whole(output)
            if result.returncode != -signal.SIGKILL:
                succeeded(result)  # and what it has finished is on the disk
                assert encoding.whole.items() <= encoding.written(output).items()
                break
        succeeded(encoding.run(output, choose.randint(1, 3)))
        encoding.require_finished(output)


@pytest.mark.parametrize(("case", "runs"), slow(2, 4, 30, 6))
def test_failing_disk_is_one_line_and_changes_no_byte(encode: Encode, case: Case, runs: int) -> None:
    """A disk is full from some write on, or one change fails, and then the power; a failed flush is no success."""
    encoding, choose, failed = encode(case), random.Random(f"disk {case}"), 0
    for _ in range(runs):
        output, faults, at = encoding.fresh(), encoding.faults(), choose.randint(1, encoding.changes)
        if choose.random() < 0.4:
            encoding.interrupted(choose, output)
        error = choose.choice([errno.ENOSPC, errno.EIO])
        environment = faults.environment(output, at, error, lasting=error == errno.ENOSPC, logged=True)
        result = encoding.run(output, choose.randint(1, 3), **environment)
        faults.fail_power(output, choose)
        encoding.require_whole(output)
        assert "Logging error" not in result.stderr
        if result.returncode:
            failed += 1
            assert os.strerror(error) in refused(result, 1)
        else:
            assert encoding.whole.items() <= encoding.written(output).items()
        succeeded(encoding.run(output, choose.randint(1, 3)))
        encoding.require_finished(output)
    assert failed


@pytest.mark.parametrize(("case", "runs"), slow(1, 2, 12, 3))
def test_second_command_is_refused_while_the_first_is_stopped(encode: Encode, case: Case, runs: int) -> None:
    encoding, choose = encode(case), random.Random(f"second {case}")
    for _ in range(runs):
        output, faults, at = encoding.fresh(), encoding.faults(), choose.randint(5, encoding.changes - 9)
        process = encoding.start(output, choose.randint(1, 3), **faults.environment(output, at, -signal.SIGSTOP))
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        before = files_in(output, but=())
        line = refused(encoding.run(output, choose.randint(1, 3)), 1)
        assert re.search(f"another process is working on {output}", line)
        assert files_in(output, but=()) == before
        os.killpg(process.pid, signal.SIGCONT)
        assert ended(process) == 0
        encoding.require_finished(output)
