"""The tools that are measured: what they are called, what they can do, how a child of each is started."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import machine, ours
from benchmarks.adapters import TASKS, Job

ADAPTERS = Path(__file__).with_name("adapters.py")

# The patterns that every peer's engine cuts alike; possessive ones would need a translation for each.
PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


@dataclass(frozen=True)
class Tool:
    """A measured tool; `patterns` None: any of PATTERNS. Words after its name say how it is used."""

    name: str
    patterns: tuple[str, ...] | None = None

    @property
    def version(self) -> str | None:
        """The installed version, None when it is not installed."""
        return machine.version(self.name.partition(" ")[0])

    def refusal(self, pattern: str) -> str | None:
        """Why it cannot do the task, None if it can."""
        if self.name == ours.NAME:
            return None
        if pattern not in PATTERNS:
            return f"pattern {pattern} is not translated for its engine"
        if self.patterns is not None and pattern not in self.patterns:
            return f"takes no other pattern than {', '.join(self.patterns)}"
        return None


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(ours.NAME),
        Tool("gigatoken", patterns=("gpt2",)),
        Tool("ffbpe"),
        Tool("rustbpe"),
        Tool("bpeasy"),
        Tool("sentencepiece"),
        Tool("tokenizers"),
    )
}
COUNTERS = (ours.NAME, *(tool for task, tool in TASKS if task == "count"))


def installed(names: Sequence[str] | None = None) -> list[Tool]:
    """The installed ones among `names` (all when None), ours first: the others are compared with it."""
    chosen = TOOLS if names is None else [name for name in TOOLS if name in names]
    return [TOOLS[name] for name in chosen if TOOLS[name].version is not None]


def child_argv(job: Job) -> list[str]:
    """The command of a peer's child: a Python that sees neither the checkout nor this package."""
    return [sys.executable, "-P", str(ADAPTERS), json.dumps(asdict(job))]
