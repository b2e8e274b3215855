"""The results file (JSON lines, only ever appended to) and the statistics drawn from it.

A record is a flat JSON object. All kinds have: format, kind (`train`, `growth`, `count`, `encode`, `files`, `cliff`,
`startup`, `memory`),
session (when the command was started), round, tool, version, corpus, corpus_bytes, corpus_digest, pattern,
vocab_size, status, reason, the fields of a Measurement, and machine. A tool that failed, exceeded its time or
cannot do the task has its record too.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

FORMAT = 1

Record = dict[str, Any]


def append(path: Path, record: Record) -> None:
    """Adds one line; what was measured before an interruption stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps({"format": FORMAT, **record}, ensure_ascii=False) + "\n")


def read(path: Path, kind: str | None = None) -> list[Record]:
    """All records, or those of one kind, in the order of writing; names the line that is none."""
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            record = json.loads(line)
            if record["format"] != FORMAT:
                raise ValueError(f"format {record['format']}, this version reads {FORMAT}")
            if kind is None or record["kind"] == kind:
                found.append(record)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a benchmark record ({error})") from error
    return found


def task(record: Record) -> tuple[str, str, int]:
    """What was to be done; records of one task may be compared."""
    return record["corpus"], record["pattern"], record["vocab_size"]


def latest(records: Iterable[Record]) -> dict[tuple[str, str, int], list[Record]]:
    """The records of each task, from its newest session only: figures of different days are never mixed."""
    groups: dict[tuple[str, str, int], list[Record]] = {}
    for record in records:
        groups.setdefault(task(record), []).append(record)
    newest = {key: max(record["session"] for record in group) for key, group in groups.items()}
    return {key: [r for r in group if r["session"] == newest[key]] for key, group in groups.items()}


def values(records: Iterable[Record], tool: str, field: str) -> dict[int, float]:
    """round -> value of the rounds in which the tool did its task."""
    return {
        record["round"]: float(record[field])
        for record in records
        if record["tool"] == tool and record["status"] == "ok" and record.get(field) is not None
    }


def paired(
    records: Sequence[Record],
    tool: str,
    against: str,
    field: str,
    combine: Callable[[Sequence[float]], float] = statistics.median,
) -> float | None:
    """Median of `tool / against` over the rounds that both finished: each pair was measured side by side."""
    ours, theirs = values(records, against, field), values(records, tool, field)
    ratios = [theirs[number] / ours[number] for number in sorted(ours.keys() & theirs.keys()) if ours[number]]
    return combine(ratios) if ratios else None


def log_log_slope(points: Iterable[tuple[float, float]]) -> float | None:
    """Least-squares slope of log(y) over log(x): 1 is linear, 2 quadratic; None without two different x."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    return statistics.linear_regression(*zip(*logs, strict=True)).slope
