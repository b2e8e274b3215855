"""The tables that compare all trainers: measured rows from the results file, and what the comparison page shows.

A cell is the median time and peak memory of a trainer on a corpus, from the newest session that measured the trainer
there. An empty cell was not measured or not tested; nothing is claimed about it.
"""

import statistics
from collections.abc import Sequence

from benchmarks import ours
from benchmarks.corpora import size_text
from benchmarks.records import Record

CORPORA = {
    "english13.txt": "English",
    "c13.txt": "C code",
    "mixed-250.txt": "many languages and code",
    "kernel.txt": "Linux kernel source",
}
TRAINERS = (ours.NAME, "ffbpe", "gigatoken", "rustbpe", "bpeasy", "sentencepiece", "tokenizers")
ELSEWHERE = {"sentencepiece": "SentencePiece", "tokenizers": "Hugging Face tokenizers"}
PATTERN, VOCAB_SIZE = "gpt2", 32000

# What the comparison page shows with a snippet that the tests run, or what `benchmarks/adapters.py` had to work around.
FEATURES = (
    ("same merges as `BpeTrainer`", ("yes", "yes, with options", "yes", "no: other order of ties",
                                     "no: other order of ties", "no: characters, words", "itself")),
    ("patterns", ("your own", "your own", "GPT-2's", "your own", "your own", "none", "your own")),
    ("special tokens separate documents", ("yes", "", "yes", "no", "no", "no: lines", "")),
    ("[resumes a stopped run](#stopping)", ("yes", "", "", "", "", "", "no")),
    ("[another vocabulary size without the text](#counts-are-kept)", ("yes", "", "", "", "", "", "no")),
    ("[counts beyond 32 bits](how-it-works.md#counts-are-exact)", ("yes", "", "", "", "", "", "")),
    ("[text without spaces](#one-long-piece)", ("linear time", "", "", "", "", "", "quadratic time")),
    ("[invalid UTF-8](#invalid-text)", ("replaced, counted, located", "", "", "", "", "",
                                       "an error without a location")),
    ("[memory limit](#memory)", ("kept or refused", "", "", "", "", "", "none")),
    ("[exports](../how-to/exporting.md)", ("tokenizers, transformers, tiktoken, GPT-2 tools; checked in each",
                                           "", "", "", "", "", "tokenizers, transformers")),
)  # fmt: skip


def _sessions(all_records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """(corpus, trainer) -> finished records of the newest session that measured the trainer there."""
    found: dict[tuple[str, str], list[Record]] = {}
    for one in all_records:
        if (one["kind"], one["pattern"], one["vocab_size"], one["status"]) == ("train", PATTERN, VOCAB_SIZE, "ok"):
            found.setdefault((one["corpus"], one["tool"]), []).append(one)
    for key, group in found.items():
        newest = max(one["session"] for one in group)
        found[key] = [one for one in group if one["session"] == newest]
    return found


def _cell(group: Sequence[Record], newest: str) -> str:
    """Return time and memory; a session that is not the corpus's newest one is marked."""
    if not group:
        return ""
    earlier = "" if group[0]["session"] == newest else " (earlier session)"
    seconds = statistics.median(one["wall_s"] for one in group)
    return f"{seconds:.3g} s, {size_text(statistics.median(one['peak_memory_bytes'] for one in group))}{earlier}"


def _rows(all_records: Sequence[Record], trainers: Sequence[str]) -> list[str]:
    sessions = _sessions(all_records)
    head = " | ".join(ELSEWHERE.get(name, name) for name in trainers)
    rows = [f"| | {head} |", f"|---|{'---|' * len(trainers)}"]
    for corpus, name in CORPORA.items():
        measured = [sessions.get((corpus, trainer), []) for trainer in trainers]
        if any(measured):
            size = size_text(next(group[0]["corpus_bytes"] for group in measured if group))
            newest = max(group[0]["session"] for group in measured if group)
            rows.append(f"| {size} of {name} | {' | '.join(_cell(group, newest) for group in measured)} |")
    return rows


def summary(all_records: Sequence[Record]) -> str:
    """Return a row of time and memory for each corpus: the table of the README and of the landing page."""
    return "\n".join(_rows(all_records, [name for name in TRAINERS if name != "bpeasy"]))


def trainers(all_records: Sequence[Record]) -> str:
    """Return all trainers in one table: measurements, then features."""
    features = [f"| {name} | {' | '.join(cells)} |" for name, cells in FEATURES]
    return "\n".join([*_rows(all_records, TRAINERS), *features])
