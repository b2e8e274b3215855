"""The results file (JSON lines) and the statistics drawn from it.

A record is a flat JSON object. All kinds have: format, kind (`train`, `encode`, `files`, `growth`, `cliff`, `memory`,
`cluster`, `startup`), session (when the command was started), round, tool, version, corpus, corpus_bytes,
corpus_digest, pattern, vocab_size, status, reason, the fields of a Measurement, and machine. A tool that failed,
exceeded its time or memory, or cannot do the task has its record too. `cold`: the corpus was not in the page cache. A
record of kind `reference` has the seconds of `machine.reference_s` before and after a round.
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


def write(path: Path, records: Iterable[Record]) -> None:
    """Replace the file by these records."""
    lines = [json.dumps({"format": FORMAT, **record}, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read(path: Path) -> list[Record]:
    """All records in the order of writing; names the line that is none."""
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            record = json.loads(line)
            if record["format"] != FORMAT:
                raise ValueError(f"format {record['format']}, this version reads {FORMAT}")
            task(record)
            found.append(record)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a benchmark record ({error})") from error
    return found


def task(record: Record) -> tuple[str, ...]:
    """What was to be done; records of one task may be compared, and only those of its newest session are shown."""
    kind = record["kind"]
    if kind == "growth":
        return kind, record["source"], record["over"]
    if kind in ("cliff", "startup"):
        return (kind,)
    corpus = record["corpus"] + (", cold" if record.get("cold") else "")
    return kind, corpus, record["pattern"], str(record["vocab_size"]), record.get("of", "")


def newest(records: Sequence[Record]) -> list[Record]:
    """The records of each task's newest session: figures of different sessions are never mixed."""
    sessions: dict[tuple[str, ...], str] = {}
    for record in records:
        sessions[task(record)] = max(record["session"], sessions.get(task(record), ""))
    return [record for record in records if record["session"] == sessions[task(record)]]


def tasks(records: Iterable[Record], kind: str) -> list[list[Record]]:
    """The records of a kind by task, in the order of writing."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record["kind"] == kind:
            groups.setdefault(task(record), []).append(record)
    return list(groups.values())


def change_of_machine(records: Iterable[Record], group: Sequence[Record]) -> float | None:
    """How much longer the slowest reference loop of a task took than the fastest, 0.1 for a tenth; None: none ran."""
    wanted = task({**group[0], "kind": "reference", "of": group[0]["kind"], "cold": False})
    loops = [one for one in records if one["kind"] == "reference" and task(one) == wanted]
    times = [one[name] for one in loops if one["session"] == group[0]["session"] for name in ("before_s", "after_s")]
    return max(times) / min(times) - 1 if times else None


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
