"""Measures tools in interleaved rounds: one tool, one fresh process, one record.

A round does every step once, one after the other; the next round starts with the next step. So whatever the machine
does meanwhile (heat, neighbours) falls on all, and ratios are taken within a round.
"""

import importlib.metadata
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import machine, ours, records
from benchmarks.adapters import TRAINERS, Job
from benchmarks.corpora import Corpus, size_text
from benchmarks.process import Measurement, measure
from benchmarks.records import Record

ADAPTERS = {"files": "file_adapters.py"}  # of a kind of task; otherwise adapters.py
ONCE_S = 300  # what takes longer is measured in one round only

# The patterns that every peer's engine cuts alike; possessive ones would need a translation for each.
PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
TOOLS = (*ours.HOW, *TRAINERS)
ONLY_GPT2 = ("gigatoken", "gigabpe")


@dataclass(frozen=True)
class Session:
    """What all measurements of one command share. results: None keeps nothing."""

    results: Path | None
    rounds: int
    timeout_s: float
    most_bytes: float
    special_token: str
    started: str
    machine: dict[str, Any]
    ends: float = math.inf  # on the clock of time.monotonic: nothing is repeated that would take longer

    def keep(self, record: Record) -> Record:
        """Append a record to the results."""
        if self.results is not None:
            records.append(self.results, record)
        return record


@dataclass(frozen=True)
class Task:
    """What one child does. Words after the tool's name say how it is used."""

    kind: str
    tool: str
    corpus: Corpus
    pattern: str
    vocab_size: int


Step = tuple[str, Callable[[], Record]]  # what a line on the terminal calls it
Answer = Callable[[Path, Measurement], dict[str, Any]]  # the child's directory and how it ended -> fields of the record


def version(tool: str) -> str | None:
    """The installed version of a tool, None if it is not installed."""
    try:
        return importlib.metadata.version(tool.partition(" ")[0])
    except importlib.metadata.PackageNotFoundError:
        return None


def refusal(tool: str, pattern: str) -> str | None:
    """Why a tool cannot train with a pattern, None if it can."""
    if tool in ours.HOW or (pattern in PATTERNS and (pattern == "gpt2" or tool not in ONLY_GPT2)):
        return None
    return "takes no other pattern than gpt2" if pattern in PATTERNS else f"{pattern} is not translated for its engine"


def record_of(session: Session, task: Task, measured: Measurement | None) -> Record:
    """The fields that every record of a child has; None: it cannot do the task."""
    fields: dict[str, Any] = asdict(measured) if measured else {"status": "unsupported"}
    fields.pop("stdout", None)
    last_words = fields.pop("stderr", "").strip().splitlines()[-1:] or ["no message"]
    minutes, seconds = divmod(session.timeout_s, 60)
    reasons = {
        "failed": f"exit code {fields.get('exit_code')}: {last_words[0][:300]}",
        "timeout": "stopped after " + (f"{session.timeout_s:g} s" if seconds else f"{minutes:g} minutes"),
        "memory": f"killed at {size_text(session.most_bytes)}",
        "unsupported": refusal(task.tool, task.pattern),
    }
    corpus = task.corpus
    return {
        "kind": task.kind,
        "session": session.started,
        "tool": task.tool,
        "version": version(task.tool),
        "corpus": corpus.name,
        "corpus_bytes": corpus.bytes,
        "corpus_digest": corpus.digest,
        "pattern": task.pattern,
        "vocab_size": task.vocab_size,
        "special_token": session.special_token,
        "reason": reasons.get(fields["status"]),
        **fields,
        "machine": session.machine,
    }


def in_child(session: Session, task: Task, argv: Callable[[Path], Sequence[str]], answer: Answer) -> Record:
    """One fresh process in a directory of its own. What it did is read after the clock has stopped."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        directory, found = Path(temporary), {}
        measured = measure(
            argv(directory),
            timeout_s=session.timeout_s,
            directory=directory,
            environment=ours.environment() | {"TOKENIZERS_PARALLELISM": "true"},
            most_bytes=session.most_bytes,
            until=directory / Job.done,
        )
        if measured.status == "ok":
            try:
                found = answer(directory, measured)
            except (OSError, ValueError, KeyError) as error:
                measured = replace(measured, status="failed", stderr=f"its answer cannot be read: {error}")
    return record_of(session, task, measured) | found


def answer_of(measured: Measurement) -> dict[str, Any]:
    """The child's JSON line: the last one that is one, since some tools print as well."""
    for line in reversed(measured.stdout.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    raise ValueError("the child printed no JSON line")


def by_adapter(session: Session, task: Task, tokenizer: Path | None = None) -> Record:
    """A peer trains, or any tool encodes with a tokenizer, in a Python that does not see the checkout."""
    source, pattern = str(task.corpus.path.resolve()), PATTERNS.get(task.pattern, "")
    job = Job(task.kind, task.tool, source, session.special_token, pattern, task.vocab_size, str(tokenizer or ""))

    def answer(_: Path, measured: Measurement) -> dict[str, Any]:
        found = answer_of(measured)
        if "encode_s" in found:
            return found | {"mb_per_s": task.corpus.bytes / 1e6 / found["encode_s"]}
        return found | {"wall_s": measured.wall_s - found["report_s"]}

    script = Path(__file__).with_name(ADAPTERS.get(task.kind, "adapters.py"))
    return in_child(session, task, lambda _: [sys.executable, "-P", str(script), json.dumps(asdict(job))], answer)


def by_ours(session: Session, task: Task, *options: str) -> Record:
    """Our own command trains."""
    corpus, token = task.corpus.path.resolve(), session.special_token

    def argv(directory: Path) -> list[str]:
        return [*ours.train_argv(corpus, directory / "run", task.vocab_size, task.pattern, token), *options]

    def answer(directory: Path, _: Measurement) -> dict[str, Any]:
        run = directory / "run"
        counted = ours.counted(run) if task.kind == "growth" else {}
        return ours.learned(run) | {"stages": ours.stage_seconds(run)} | counted

    return in_child(session, task, argv, answer)


def train(session: Session, tool: str, corpus: Corpus, pattern: str, vocab_size: int) -> Record:
    """One tool trains."""
    task = Task("train", tool, corpus, pattern, vocab_size)
    if refusal(tool, pattern):
        return record_of(session, task, None)
    return by_ours(session, task, *ours.HOW[tool]) if tool in ours.HOW else by_adapter(session, task)


def line_of(record: Record) -> str:
    """What was measured, for the person who waits."""
    if record["status"] != "ok":
        return f"{record['status']}: {record['reason']}"
    parts = [f"{record['wall_s']:8.2f} s", f"{size_text(record['peak_memory_bytes']):>8}"]
    if "mb_per_s" in record:
        parts.append(f"{record['mb_per_s']:,.1f} MB/s")
    if "merges" in record:
        parts.append(f"{record['merges']:,} merges {record['tokens_digest'][:8]}")
    return "  ".join(parts)


def rounds(session: Session, steps: Sequence[Step], *, compared: bool = False) -> list[Record]:
    """Do every step once a round; each record is on disk before the next child starts.

    A step is not repeated if it was stopped, cannot do its task, or took more than five minutes. `compared`: the
    reference loop runs before and after each round.
    """
    done: list[Record] = []
    gone: set[str] = set()
    for number in range(1, session.rounds + 1):
        before_s = machine.reference_s() if compared else 0.0
        turn = (number - 1) % len(steps)
        for name, step in [*steps[turn:], *steps[:turn]]:
            if name in gone:
                continue
            done.append(session.keep(step() | {"round": number}))
            print(f"round {number}  {name:<36}  {line_of(done[-1])}", flush=True)
            took = math.inf if done[-1]["status"] in ("timeout", "memory", "unsupported") else done[-1]["wall_s"]
            if took > ONCE_S or took > session.ends - time.monotonic():
                gone.add(name)
        if compared:
            names = ("session", "round", "corpus", "pattern", "vocab_size")
            loop = {"kind": "reference", "of": done[-1]["kind"], "before_s": before_s, "after_s": machine.reference_s()}
            session.keep(loop | {name: done[-1][name] for name in names})
        if len(gone) == len(steps):
            break
    return done


def compare(session: Session, corpora: Sequence[Corpus], tools: Sequence[str], pattern: str, size: int) -> list[Record]:
    """Every tool trains on every corpus."""
    found = []
    for corpus in corpora:
        steps = [
            (f"{tool}, {corpus.name}", lambda tool=tool, corpus=corpus: train(session, tool, corpus, pattern, size))
            for tool in tools
        ]
        found += rounds(session, steps, compared=True)
    return found
