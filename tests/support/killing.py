"""Kill runs of the command, and check what must hold afterwards.

A `Case` is a corpus and options. A new format, compression or kind of location is a new case in `CASES`, which all kill
tests run. Processes are killed at a moment, or at the n-th change that they make to the run directory (`faults.py`): in
the middle of a write, before a flush to disk, on either side of a rename.
"""

import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import archives
import peers
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from chunk_tasks import random_words

EOT = "<|endoftext|>"
# In a report: what is not the run's. What a killed command had replaced, the one that resumes it did not.
_OF_A_COMMAND = ("stages", "peak_memory_bytes", "stage_peak_bytes", "retries", "changed_ids", "removed")


@dataclass(frozen=True)
class Case:
    """A corpus, and the command that reads it.

    make: writes the corpus into a directory and returns the inputs.
    command: `train`; or one that overwrites a finished run: `merge`, `combine`. options: in addition to output
    and workers. spills: whether counters are written in parts.
    """

    name: str
    make: Callable[[Path], list[str]]
    options: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (700,)
    command: str = "train"
    spills: bool = False

    @property
    def overwrites(self) -> bool:
        return self.command != "train"


def _one_text(directory: Path) -> list[str]:
    path = directory / "text.txt"
    path.write_text(f"\n{EOT}\n".join(peers.generated_text(seed, 1500) for seed in range(8)), newline="")
    return [str(path)]


def _many_files(directory: Path) -> list[str]:
    for seed in range(40):
        (directory / f"{seed:02}.txt").write_text(peers.generated_text(seed, 300), newline="")
    return [str(directory)]


def _many_formats(directory: Path) -> list[str]:
    """Compressed records, one of them none; a table of several row groups; an archive; and a file without a byte."""
    for seed in range(5):
        lines = [json.dumps({"text": peers.generated_text(100 * seed + n, 60)}) for n in range(20)]
        (directory / f"{seed}.jsonl.gz").write_bytes(gzip.compress("\n".join([*lines, "no JSON"]).encode()))
    texts = [peers.generated_text(seed, 60) for seed in range(60)]
    pq.write_table(pa.table({"text": texts}), directory / "table.parquet", row_group_size=15)
    texts = [peers.generated_text(200 + seed, 60) for seed in range(20)]
    (directory / "pages.warc.gz").write_bytes(archives.members(archives.wet(text.encode() for text in texts)))
    (directory / "empty.txt").touch()
    return [str(directory)]


def _lines(directory: Path) -> list[str]:
    """A plain file that is cut at line starts, and a compressed one; special tokens in both are text."""
    lines = [f"{peers.generated_text(seed, 40)}{EOT}\r\n" for seed in range(150)]
    (directory / "a.txt").write_text("".join(lines), newline="")
    (directory / "b.txt.gz").write_bytes(gzip.compress("".join(lines[:50]).encode()))
    return [str(directory)]


def _many_pre_tokens(directory: Path) -> list[str]:
    """Text in which hardly a word comes twice, and some in which they do."""
    for seed in range(2):
        text = peers.generated_text(seed, 3000).encode() + b" "
        (directory / f"{seed}.txt").write_bytes(text + random_words(seed, 3_000_000))
    return [str(directory)]


def _counts(directory: Path) -> list[str]:
    path = directory / "counts.parquet"
    rows = [(f"{word}{number}", number) for word in "abcdefgh" for number in range(1, 500)]
    pq.write_table(pa.table({"pre_token": [word for word, _ in rows], "count": [count for _, count in rows]}), path)
    return [str(path)]


_LESS, _SPILLS = ("--chunk-size", "9KiB"), ("--chunk-size", "3MiB", "--memory-limit", "132MiB")
CASES = [
    Case("one text", _one_text, ("--chunk-size", "12KiB")),
    Case("many files", _many_files, (*_LESS, "--pattern", "llama3")),
    Case("superwords", _one_text, (*_LESS, "--superwords-from", "80%")),
    Case("regex", _many_files, (*_LESS, "--pattern", r"(?<=x)y| ?\w+|\s+|[^\w\s]+")),
    Case("many formats", _many_formats, _LESS),
    Case("lines", _lines, ("--chunk-size", "4KiB", "--input-format", "lines", "--special-tokens-as-text")),
    Case("selected", _many_formats, (*_LESS, "--sample", "60%", "--seed", "2", "--max-document-chars", "50")),
    Case("several sizes", _one_text, (*_LESS, "--min-pre-token-count", "2"), sizes=(500, 300, 700)),
    Case("spills", _many_pre_tokens, (*_SPILLS, "--min-pre-token-count", "2"), spills=True),
    Case("another vocabulary", _one_text, ("--min-frequency", "3"), sizes=(600, 400), command="merge"),
    Case("other counts", _counts, ("--pattern", "none"), (), command="combine"),
]


def command(case: Case, inputs: list[str], output: Path, workers: int) -> list[str]:
    """Return the command that is killed; one that overwrites a finished run does so each time."""
    paths = [str(output)] if case.command == "merge" else [*inputs, "--output", str(output)]
    options = [*case.options, *(["--vocab-size", ",".join(map(str, case.sizes))] if case.sizes else [])]
    options += ["--overwrite"] if case.overwrites else []
    words = [sys.executable, "-P", "-m", "bpe_pipeline", case.command, *paths, *options]
    return [*words, "--workers", str(workers), "--quiet"]


def start(words: list[str], **environment: str) -> "subprocess.Popen[bytes]":
    """Start a command as the head of a process group of its own.

    What is unfinished is saved whenever it can be, as it is once a second: so that a kill within a second finds it.
    """
    env = os.environ | {"BPE_PIPELINE_CHECKPOINT_S": "0"} | environment
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, env=env, start_new_session=True, **streams)


def kill(coordinator: int, target: str, choose: random.Random | None = None) -> None:
    """Kill all processes of a command, or one: its `coordinator`, the `server` of its workers, or a `worker`."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):  # it had ended
        if target == "all":
            os.killpg(coordinator, signal.SIGKILL)
        process = psutil.Process(coordinator)
        servers = process.children()
        workers = [worker for server in servers for worker in server.children()]
        candidates = {"all": [], "coordinator": [process], "server": servers[:1], "worker": workers}[target]
        if candidates:
            (choose or random.Random(0)).choice(candidates).kill()


def ended(process: "subprocess.Popen[bytes]") -> int:
    """Return the exit status; require that only a kill made it fail, without a traceback."""
    _, stderr = process.communicate(timeout=120)
    assert b"Traceback" not in stderr, stderr.decode()
    assert process.returncode in (0, -signal.SIGKILL), stderr.decode()
    return process.returncode


def results(run: Path) -> dict[str, Any]:
    """Return the results of a run by name: the bytes of its files, and its report without times, memory and machine."""
    files = [path for path in run.glob("tokenizer*/*") if path.is_file()]
    contents: dict[str, Any] = {str(path.relative_to(run)): path.read_bytes() for path in files}
    for path in (run / "merges.parquet", run / "counter.parquet"):
        if path.exists():
            contents[path.name] = path.read_bytes()
    report = json.loads((run / "report.json").read_text().replace(str(run), "RUN"))
    (report["numbers"] or {}).pop("machine", None)
    contents["report"] = {name: value for name, value in report.items() if name not in _OF_A_COMMAND}
    return contents


def counters(run: Path) -> dict[str, tuple[int, int]]:
    """Return the complete counters, each with its inode and time, which change if it is written again."""
    status = {path.name: path.stat() for path in (run / "counts").glob("[0-9]*.parquet")}
    return {name: (file.st_ino, file.st_mtime_ns) for name, file in status.items()}


class Kept:
    """What a run had when it was killed: counters, those of its first stage, and the lengths of their logs."""

    def __init__(self, run: Path) -> None:
        homes = run, run.with_name(f"{run.name}-first-stage")
        self._counters = [(home, counters(home), len(_log_of(home))) for home in homes]

    def require(self) -> None:
        """Require that complete counters were not written again, and that only missing ones were planned."""
        for home, kept, logged in self._counters:
            assert kept.items() <= counters(home).items()
            for chunks, to_count in re.findall(r"counting: (\d+) tasks, (\d+) to do\n", _log_of(home)[logged:]):
                assert int(chunks) - int(to_count) == len(kept)


def _log_of(run: Path) -> str:
    return (run / "log.txt").read_text() if (run / "log.txt").exists() else ""


def require_clean(run: Path) -> None:
    """Require that no partial file is left."""
    assert [path.name for path in run.rglob(".*") if path.name != ".lock"] == []
