"""The texts of the pages that compare all trainers: measured figures, and what the comparison page shows.

A cell is the median time and peak memory of a trainer on a corpus, or why there is none. All cells of a row come from
one session.
"""

import statistics
import textwrap
from collections.abc import Sequence
from datetime import date

from benchmarks import ours, records
from benchmarks.corpora import size_text
from benchmarks.records import Record

CORPORA = {  # in the order of the tables; languages with a megabyte or more
    "multilingual-250.txt": "translations and documentation in 94 languages",
    "multilingual.txt": "translations and documentation in 94 languages",
    "english.txt": "English manuals, from web pages",
    "kernel.txt": "Linux kernel source",
}
ELSEWHERE = {
    "tokenizers": "Hugging Face tokenizers",
    ours.BY_LINES: f"{ours.NAME}, by lines",
    "sentencepiece": "SentencePiece",
}
PATTERN, VOCAB_SIZE = "gpt2", 32000

# By trainer, in the order of the tables: whether it learns the merges of `BpeTrainer`, compared in the same sessions,
# and the patterns that `benchmarks/adapters.py` could ask of it.
FEATURES = {
    "tokenizers": ("itself", "your own"),
    ours.NAME: ("yes", "your own"),
    ours.BY_LINES: ("yes, of lines", "your own"),
    "gigabpe": ("yes, of lines", "GPT-2's"),
    "gigatoken": ("yes", "GPT-2's"),
    "ffbpe": ("yes, with options", "your own"),
    "rustbpe": ("no: other order of ties", "your own"),
    "sentencepiece": ("no: characters, words", "none"),
}


def tasks(all_records: Sequence[Record]) -> list[list[Record]]:
    """The records of each corpus on which several trainers were compared, in the order of CORPORA."""
    found = [
        group
        for group in records.tasks(all_records, "train")
        if (group[0]["pattern"], group[0]["vocab_size"]) == (PATTERN, VOCAB_SIZE)
        and len({r["tool"] for r in group}) > 1
    ]
    return sorted(found, key=lambda group: [*CORPORA, group[0]["corpus"]].index(group[0]["corpus"]))


def name_of(group: Sequence[Record]) -> str:
    """`1.25 GB of Linux kernel source`."""
    return f"{size_text(group[0]['corpus_bytes'])} of {CORPORA.get(group[0]['corpus'], group[0]['corpus'])}"


def _figures(group: Sequence[Record], tool: str) -> tuple[str, str] | None:
    """Time and memory of a tool that did the task."""
    done = [record for record in group if (record["tool"], record["status"]) == (tool, "ok")]
    if not done:
        return None
    seconds, memory = (statistics.median(one[name] for one in done) for name in ("wall_s", "peak_memory_bytes"))
    return f"{seconds:.3g} s", size_text(memory)


def cell(group: Sequence[Record], tool: str) -> str:
    """Return time and memory, or why there are none."""
    found = _figures(group, tool)
    if found:
        return ", ".join(found)
    return next((str(record["reason"]) for record in group if record["tool"] == tool), "not measured")


def _table(all_records: Sequence[Record], *more: str) -> str:
    """Return a row of time and memory for each trainer, a column for each corpus, and more columns of FEATURES."""
    groups = tasks(all_records)
    rows = [f"| | {' | '.join([*map(name_of, groups), *more])} |", f"|---|{'---|' * (len(groups) + len(more))}"]
    for tool, features in FEATURES.items():
        cells = [ELSEWHERE.get(tool, tool), *(cell(group, tool) for group in groups), *features[: len(more)]]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def summary(all_records: Sequence[Record]) -> str:
    """Return the time and memory of each trainer on each corpus: the table of the README."""
    return _table(all_records)


def trainers(all_records: Sequence[Record]) -> str:
    """Return the same with the features of each trainer."""
    return _table(all_records, "same merges as `BpeTrainer`", "patterns")


def same_merges(group: Sequence[Record]) -> dict[str, set[str]]:
    """Return the other trainers that learned the merges that we did, by our name: from documents, or from lines."""
    done = [record for record in group if record["status"] == "ok"]
    found = dict[str, set[str]]()
    for own in ours.HOW:
        merges = {record["tokens_digest"] for record in done if record["tool"] == own}
        found[own] = {record["tool"] for record in done if record["tokens_digest"] in merges} - {*ours.HOW}
    return found


def own_of(group: Sequence[Record], tool: str) -> str:
    """Return which of ours a tool is compared with: the one of the same merges, else the one of documents."""
    return next((own for own, tools in same_merges(group).items() if tool in tools or tool == own), ours.NAME)


def times(group: Sequence[Record], tool: str, field: str) -> float | None:
    """Return how many times ours a tool took: the median of the ratios of the rounds, as in text, table and chart."""
    return records.paired(group, tool, own_of(group, tool), field)


def headline(all_records: Sequence[Record]) -> str:
    """Return the first sentence of the README: compared with `BpeTrainer`."""
    group = tasks(all_records)[0]
    faster, smaller = (times(group, "tokenizers", field) or 0 for field in ("wall_s", "peak_memory_bytes"))
    return _filled(
        f"**Learns exactly the merges of Hugging Face's `BpeTrainer`, {faster:.0f} times as fast, in 1/{smaller:.0f} "
        "of the memory**, from text that need not fit in memory."
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, 125, break_long_words=False, break_on_hyphens=False)


def caption(all_records: Sequence[Record]) -> str:
    """Return what the chart shows, and how to repeat it."""
    group = tasks(all_records)[0]
    day, rounds = date.fromisoformat(group[0]["session"][:10]), max(one["round"] for one in group)
    return _filled(
        f"*{name_of(group)}, GPT-2's pattern, {VOCAB_SIZE:,} tokens, {group[0]['machine']['usable_cores']} cores, "
        f"{day.day} {day:%B %Y}, medians of {rounds} rounds. `data/build_debian.py` makes the corpus from public "
        "packages; repeat the chart with `python -m benchmarks compare FILE`.*"
    )


def fast(all_records: Sequence[Record]) -> str:
    """Return the bullets on speed, of the largest corpora, and on memory, under the lowest limit of the first one."""
    parts = []
    for group in tasks(all_records):
        figures = _figures(group, ours.NAME)
        if figures and group[0]["corpus_bytes"] > 5e8:
            parts.append(f"{name_of(group)} take {' and '.join(figures)}")
    first = next(iter(CORPORA))
    limited = [one for one in all_records if (one["kind"], one.get("corpus")) == ("memory", first)]
    limited = [one for one in limited if one["status"] == "ok"]
    least = min(limited, key=lambda record: float(record["limit"]))
    under = (
        f"under a limit of {least['limit'] / 2**20:.0f} MiB, the corpus of the chart takes {least['wall_s']:.3g} s and"
    )
    bullets = (
        f"- **Fast and small**: {'; '.join(parts)}.",
        f"- **Within a memory limit**: {under} {size_text(least['peak_memory_bytes'])}.",
    )
    return "\n".join(_filled(text).replace("\n", "\n  ") for text in bullets)
