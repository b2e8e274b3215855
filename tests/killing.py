"""Runs of the command that are killed, and what must hold afterwards, whatever they were doing.

A `Case` is a corpus and options; whoever adds a format, a compression or a place to write to adds a case to `CASES`,
and all kill tests run it. Processes are killed at a moment, or at the n-th change that they make to the run directory
(`kill_at.c`): in the middle of a write, before a flush to disk, on either side of a rename.
"""

import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import peers

EOT = "<|endoftext|>"
VOCAB_SIZE = 700


@dataclass(frozen=True)
class Case:
    """make: writes a corpus into a directory and gives the inputs. options: beside output, size and workers."""

    name: str
    make: Callable[[Path], list[str]]
    options: tuple[str, ...] = ()


def _one_text(directory: Path) -> list[str]:
    path = directory / "text.txt"
    path.write_text(f"\n{EOT}\n".join(peers.generated_text(seed, 1500) for seed in range(8)), newline="")
    return [str(path)]


def _many_files(directory: Path) -> list[str]:
    for seed in range(40):
        (directory / f"{seed:02}.txt").write_text(peers.generated_text(seed, 300), newline="")
    return [str(directory)]


CASES = [
    Case("one text", _one_text, ("--chunk-size", "12KiB")),
    Case("many files", _many_files, ("--chunk-size", "9KiB", "--pattern", "llama3")),
    Case("regex", _many_files, ("--chunk-size", "9KiB", "--pattern", r"(?<=x)y| ?\w+|\s+|[^\w\s]+")),
]


def command(case: Case, inputs: list[str], output: Path, workers: int) -> list[str]:
    options = ["--vocab-size", str(VOCAB_SIZE), "--workers", str(workers), "--quiet", *case.options]
    return [sys.executable, "-P", "-m", "pipeline", "train", *inputs, "--output", str(output), *options]


def start(words: list[str], **environment: str) -> "subprocess.Popen[bytes]":
    """Start a command as the head of a process group of its own."""
    return subprocess.Popen(
        words,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
    )


def ended(process: "subprocess.Popen[bytes]") -> int:
    """The exit status; nothing but a kill may be the reason of a failure, and no traceback is ever seen."""
    _, stderr = process.communicate(timeout=120)
    assert b"Traceback" not in stderr, stderr.decode()
    assert process.returncode in (0, -signal.SIGKILL), stderr.decode()
    return process.returncode


def model(run: Path) -> bytes:
    return (run / "tokenizer" / "tokenizer.json").read_bytes()


def counters(run: Path) -> dict[str, tuple[int, int]]:
    """The counters that are whole, each with what would change if it were written again."""
    there = (run / "counts").glob("[0-9]*.parquet")
    return {path.name: ((seen := path.stat()).st_ino, seen.st_mtime_ns) for path in there}


@dataclass(frozen=True)
class Kept:
    """What a run had when it was killed: its counters, and so many characters of log."""

    counters: dict[str, tuple[int, int]]
    logged: int

    @classmethod
    def of(cls, run: Path) -> "Kept":
        return cls(counters(run), len(_log(run)))

    def require(self, run: Path) -> None:
        """Counters that were whole were not written again, and the run set out to count only what was missing."""
        now = counters(run)
        assert {name: now[name] for name in self.counters} == self.counters
        for chunks, to_count in re.findall(r"(\d+) chunks, (\d+) to count\n", _log(run)[self.logged :]):
            assert int(to_count) == int(chunks) - len(self.counters)


def _log(run: Path) -> str:
    path = run / "log.txt"
    return path.read_text() if path.exists() else ""


def require_clean(run: Path) -> None:
    """Nothing half done is left."""
    assert [path.name for path in run.rglob(".*") if path.name != ".lock"] == []


class KillAt:
    """Kills a process group at the n-th change of a file below a directory; `changes` says how many there were."""

    def __init__(self, library: Path, counter: Path) -> None:
        self._library, self._counter = library, counter

    def environment(self, below: Path, at: int) -> dict[str, str]:
        self._counter.write_bytes(struct.pack("QQ", 0, at))
        return {"LD_PRELOAD": str(self._library), "KILL_BELOW": str(below), "KILL_COUNTER": str(self._counter)}

    @property
    def changes(self) -> int:
        return int(struct.unpack("QQ", self._counter.read_bytes())[0])
