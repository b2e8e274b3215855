"""`run`: every tool on every corpus in interleaved rounds; `list`: the tools and whether they are installed.

A round measures each tool once, one after the other; the next round starts with the next tool. So whatever
the machine does meanwhile (heat, neighbours) falls on all, and ratios are taken within a round.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine, ours, records
from benchmarks.adapters import Job
from benchmarks.corpora import Corpus, size_text
from benchmarks.process import Measurement, measure
from benchmarks.tools import PATTERNS, TOOLS, Tool, child_argv


@dataclass(frozen=True)
class Session:
    """What all measurements of one command share."""

    results: Path
    rounds: int
    timeout_s: float
    special_token: str
    started: str
    machine: dict[str, Any]


def start_session(results: Path, rounds: int, timeout_s: float, special_token: str) -> Session:
    """A session that starts now, on this machine."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return Session(results, rounds, timeout_s, special_token, started, machine.describe())


def record_of(
    session: Session,
    kind: str,
    tool: Tool,
    corpus: Corpus,
    pattern: str,
    vocab_size: int,
    measurement: Measurement | None,
) -> records.Record:
    """The fields that every kind of record has."""
    measured: dict[str, Any] = asdict(measurement) if measurement else {"status": "unsupported"}
    measured.pop("stdout", None)
    last_words = measured.pop("stderr", "").strip().splitlines()[-1:] or ["no message"]
    reason = None
    if measured["status"] == "failed":
        reason = f"exit code {measured['exit_code']}: {last_words[0][:300]}"
    elif measured["status"] == "timeout":
        reason = f"longer than {session.timeout_s:g} s"
    return {
        "kind": kind,
        "session": session.started,
        "tool": tool.name,
        "version": tool.version,
        "corpus": corpus.name,
        "corpus_bytes": corpus.bytes,
        "corpus_digest": corpus.digest,
        "pattern": pattern,
        "vocab_size": vocab_size,
        "special_token": session.special_token,
        "reason": reason,
        **measured,
        "machine": session.machine,
    }


def answer_of(stdout: str) -> dict[str, Any]:
    """The child's JSON line: the last one that is one, since some tools print as well."""
    for line in reversed(stdout.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    raise ValueError("the child printed no JSON line")


def train_once(
    session: Session,
    tool: Tool,
    corpus: Corpus,
    pattern: str,
    vocab_size: int,
    kind: str = "train",
    workers: int | None = None,
) -> records.Record:
    """One tool, one fresh process, one record. What it learned is read after the clock has stopped.

    workers: for our own command; None: its own choice.
    """
    refusal = tool.refusal(pattern)
    if refusal:
        return {
            **record_of(session, kind, tool, corpus, pattern, vocab_size, None),
            "reason": refusal,
        }
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        directory = Path(temporary)
        run_directory = directory / "run"
        source = corpus.path.resolve()
        if tool.name == ours.NAME:
            argv = ours.train_argv(source, run_directory, vocab_size, pattern, session.special_token)
            argv += [] if workers is None else [f"--workers={workers}"]
        else:
            job = Job("train", tool.name, str(source), vocab_size, PATTERNS[pattern], session.special_token)
            argv = child_argv(job)
        measured = measure(argv, timeout_s=session.timeout_s, directory=directory, environment=ours.environment())
        learned: dict[str, Any] = {}
        if measured.status == "ok":
            try:
                if tool.name == ours.NAME:
                    learned = ours.learned(run_directory) | {"stages": ours.stage_seconds(run_directory)}
                    learned |= ours.counted(run_directory) if kind == "growth" else {}
                else:
                    learned = answer_of(measured.stdout)
                    # telling us what was learned is not the tool's work
                    measured = replace(measured, wall_s=measured.wall_s - learned["report_s"])
            except (OSError, ValueError, KeyError) as error:
                measured = replace(measured, status="failed", stderr=f"its answer cannot be read: {error}")
    return record_of(session, kind, tool, corpus, pattern, vocab_size, measured) | learned


def line_of(record: records.Record) -> str:
    """One record in one line, for the person who waits."""
    start = f"round {record['round']}  {record['corpus']}  {record['tool']:<12}"
    if record["status"] != "ok":
        return f"{start}  {record['status']}: {record['reason']}"
    memory = size_text(record["peak_memory_bytes"])
    learned = f"{record['merges']:,} merges {record['tokens_digest'][:8]}" if "merges" in record else ""
    return f"{start}  {record['wall_s']:8.2f} s  {memory:>8}  {learned}".rstrip()


def run(
    session: Session,
    corpora: Sequence[Corpus],
    tools: Sequence[Tool],
    pattern: str,
    vocab_sizes: Sequence[int],
) -> list[records.Record]:
    """All rounds; each record is on disk before the next child starts."""
    done = []
    for corpus in corpora:
        for vocab_size in vocab_sizes:
            gone = set()  # a tool that timed out or refused is not run again
            for number in range(1, session.rounds + 1):
                turn = (number - 1) % len(tools)
                for tool in [*tools[turn:], *tools[:turn]]:
                    if tool.name in gone:
                        continue
                    record = train_once(session, tool, corpus, pattern, vocab_size) | {"round": number}
                    if record["status"] in ("timeout", "unsupported"):
                        gone.add(tool.name)
                    records.append(session.results, record)
                    print(line_of(record), flush=True)
                    done.append(record)
    return done


def list_tools() -> None:
    """Prints each tool, its installed version, and the patterns it accepts."""
    for tool in TOOLS.values():
        patterns = ", ".join(tool.patterns or (*PATTERNS, "any" if tool.name == ours.NAME else "")).strip(", ")
        print(f"{tool.name:<14}{tool.version or 'not installed':<16}patterns: {patterns}")
