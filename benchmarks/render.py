"""Turn records into Markdown between the markers of a document; the text around the markers does not change.

`<!-- benchmarks: begin -->` ... `<!-- benchmarks: end -->` encloses all tables; `<!-- benchmarks NAME: begin -->` one
table of `TABLES`. Figures are medians over the rounds of a task's newest session; ratios are medians of the ratios
within each round. The same records produce the same text, so a test compares the documents with the results file.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import cliffs, cluster, comparison, growth, ours, records
from benchmarks.corpora import size_text
from benchmarks.records import Record

BEGIN = "<!-- benchmarks: begin -->"
END = "<!-- benchmarks: end -->"
NOTHING = "not measured"
KINDS = ("train", "count", "encode", "files", "growth", "cliff", "memory", "cluster", "startup")


def seconds_text(seconds: Sequence[float]) -> str:
    """`2.51 s (2.48-2.60)`: median and extremes."""
    middle = statistics.median(seconds)
    if len(seconds) == 1:
        return f"{middle:.2f} s"
    return f"{middle:.2f} s ({min(seconds):.2f}-{max(seconds):.2f})"


def ratio_text(ratio: float | None) -> str:
    """`12.3x`."""
    if ratio is None:
        return "-"
    return f"{ratio:.0f}x" if ratio >= 99.5 else f"{ratio:.1f}x" if ratio >= 9.95 else f"{ratio:.2f}x"


def agreement(group: Sequence[Record], tool: str) -> str:
    """Say whether a tool learns the same tokens in the same order as ours, in every round of both."""
    digests = {r["tokens_digest"] for r in group if r["tool"] == tool and r["status"] == "ok"}
    reference = {r["tokens_digest"] for r in group if r["tool"] == ours.NAME and r["status"] == "ok"}
    if len(digests) > 1:
        return "differ from round to round"
    if tool == ours.NAME or not reference:
        return f"`{min(digests)[:8]}`"
    return "same" if digests == reference else f"other, `{min(digests)[:8]}`"


def failure_row(tool: str, version: str | None, group: Sequence[Record]) -> str:
    """The row of a tool that never finished; the reason is the last one."""
    last = [r for r in group if r["tool"] == tool][-1]
    reason = str(last["reason"]).replace("|", "\\|")
    return f"| {tool} {version or ''} | {last['status']}: {reason} | - | - | - | - | - |"


def training_table(group: Sequence[Record]) -> list[str]:
    """One row a tool, the fastest first, then those that did not finish."""
    rows: list[tuple[float, str]] = []
    for tool in dict.fromkeys(record["tool"] for record in group):
        version = next(record["version"] for record in group if record["tool"] == tool)
        walls = list(records.values(group, tool, "wall_s").values())
        if not walls:
            rows.append((float("inf"), failure_row(tool, version, group)))
            continue
        failed = sum(r["tool"] == tool and r["status"] != "ok" for r in group)
        cpu = statistics.median(r["user_s"] + r["system_s"] for r in group if r["tool"] == tool and r["status"] == "ok")
        memory = statistics.median(records.values(group, tool, "peak_memory_bytes").values())
        cells = [
            f"{tool} {version}" + (f" ({failed} rounds failed)" if failed else ""),
            seconds_text(walls),
            ratio_text(records.paired(group, tool, ours.NAME, "wall_s")),
            f"{cpu:.2f} s",
            size_text(memory),
            ratio_text(records.paired(group, tool, ours.NAME, "peak_memory_bytes")),
            agreement(group, tool),
        ]
        rows.append((statistics.median(walls), f"| {' | '.join(cells)} |"))
    head = [
        "| trainer | time: median (range) | times slower than bpe-pipeline | CPU | memory | times more | merges |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    return head + [row for _, row in sorted(rows, key=lambda row: row[0])]


def machine_text(record: Record) -> str:
    """One line on the machine of a record."""
    machine = record["machine"]
    memory = machine["memory_bytes"] / 2**30
    kind = "PSS" if record.get("memory_kind", "pss") == "pss" else "RSS"
    return (
        f"{machine['cpu']}, {machine['usable_cores']} cores, {memory:.0f} GiB; {machine['os']}; "
        f"Python {machine['python']}; {record['session'][:10]}; memory is {kind} of the whole process tree."
    )


def training_section(all_records: Sequence[Record]) -> list[str]:
    """A table for each task."""
    lines: list[str] = []
    for (corpus, pattern, vocab_size), group in records.latest(all_records).items():
        rounds = max(record["round"] for record in group)
        size = size_text(group[0]["corpus_bytes"])
        title = f"{corpus}, {size}, pattern {pattern}, vocabulary {vocab_size:,}, rounds: {rounds}"
        example = next((record for record in group if record["status"] == "ok"), group[0])
        lines += [f"**{title}**", "", *training_table(group), "", machine_text(example), ""]
    return lines


def counting_section(all_records: Sequence[Record]) -> list[str]:
    """One row a corpus and tool: MB of input a second, whole process and counting alone."""
    if not all_records:
        return []
    lines = [
        "**Counting on one core, MB of input a second**",
        "",
        "| corpus | pattern | tool | whole process | times slower | without start-up | times slower |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for (corpus, pattern, _), group in records.latest(all_records).items():
        for tool in dict.fromkeys(record["tool"] for record in group):
            walls = list(records.values(group, tool, "wall_mb_per_s").values())
            stages = list(records.values(group, tool, "stage_mb_per_s").values())
            wall = f"{statistics.median(walls):,.1f}" if walls else "failed"
            stage = f"{statistics.median(stages):,.1f}" if stages else "-"
            ratios = [ratio_text(records.paired(group, tool, ours.NAME, f)) for f in ("wall_s", "stage_s")]
            lines.append(f"| {corpus} | {pattern} | {tool} | {wall} | {ratios[0]} | {stage} | {ratios[1]} |")
    return [*lines, "", "'Times slower': than bpe-pipeline.", ""]


def encoding_section(all_records: Sequence[Record], title: str) -> list[str]:
    """One row a corpus and tool: MB of text a second, a short message, and whether the ids are the same."""
    if not all_records:
        return []
    lines = [
        f"**{title}, all cores, MB of text a second**",
        "",
        "| corpus | vocabulary | tool | encoding: median (range) | times slower | one message | ids |",
        "|---|---:|---|---:|---:|---:|---|",
    ]
    for (corpus, _, vocab_size), group in records.latest(all_records).items():
        rows: list[tuple[float, str]] = []
        expected = {r["ids_digest"] for r in group if r["tool"] == ours.NAME and r["status"] == "ok"}
        for tool in dict.fromkeys(record["tool"] for record in group):
            rates = list(records.values(group, tool, "mb_per_s").values())
            messages = list(records.values([r for r in group if "message_us" in r], tool, "message_us").values())
            message = f"{statistics.median(messages):.1f} µs" if messages else "-"
            version = next(record["version"] for record in group if record["tool"] == tool)
            start = f"| {corpus} | {vocab_size:,} | {tool} {version} |"
            if not rates:
                rows.append((0.0, f"{start} failed | - | - | - |"))
                continue
            digests = {r["ids_digest"] for r in group if r["tool"] == tool and r["status"] == "ok"}
            rate = f"{statistics.median(rates):,.1f} ({min(rates):,.1f}-{max(rates):,.1f})"
            ratio = ratio_text(records.paired(group, tool, ours.NAME, "encode_s"))
            same = "other" if expected and digests != expected else "same"
            row = f"{start} {rate} | {ratio} | {message} | {same} |"
            rows.append((statistics.median(rates), row))
        lines += [row for _, row in sorted(rows, key=lambda row: -row[0])]
    return [*lines, "", "'Times slower': than bpe-pipeline. Caches start empty.", ""]


def growth_section(all_records: Sequence[Record]) -> list[str]:
    """One row a curve, with its log-log slope."""
    drawn = [curve for curve in growth.curves(all_records) if curve.slope is not None]
    if not drawn:
        return []
    lines = ["**Growth of the time of bpe-pipeline**", "", "| corpus | over | stage | from - to | seconds | slope |"]
    lines.append("|---|---|---|---|---|---:|")
    for curve in drawn:
        (x0, y0), (x1, y1) = curve.points[0], curve.points[-1]
        over = {"corpus_bytes": "bytes", "vocab_size": "vocabulary"}.get(curve.over, curve.over)
        span = f"{size_text(x0)} - {size_text(x1)}" if over == "bytes" else f"{x0:,.0f} - {x1:,.0f}"
        lines.append(f"| {curve.corpus} | {over} | {curve.stage} | {span} | {y0:.2f} - {y1:.2f} | {curve.slope:.2f} |")
    return [
        *lines,
        "",
        "A slope of 1 is linear growth (log-log, least squares); -1 over workers is a perfect speed-up.",
        "",
    ]


def cliffs_section(all_records: Sequence[Record]) -> list[str]:
    """One row a kind of text."""
    found = cliffs.cliffs(all_records)
    if not found:
        return []
    lines = [
        "**Unusual texts**",
        "",
        "| text | pattern | sizes | seconds | slope | time for a byte, relative to the reference |",
    ]
    lines.append("|---|---|---|---|---:|---:|")
    for cliff in found:
        cells = [cliff.name, cliff.pattern, "-", cliff.failure or "-", "-", ratio_text(cliff.to_reference)]
        if cliff.points and cliff.failure is None:
            slope = cliff.slope
            cells[2] = ", ".join(size_text(x) for x, _ in cliff.points)
            cells[3] = ", ".join(f"{y:.2f}" for _, y in cliff.points)
            cells[4] = "-" if slope is None else f"{slope:.2f}"
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", f"The reference is a prefix of {all_records[-1]['source']}; times are of whole commands.", ""]


def memory_section(all_records: Sequence[Record]) -> list[str]:
    """One row a corpus and limit: time, measured peak, merges, or where it was refused."""
    if not all_records:
        return []
    lines = [
        "**Under a memory limit**",
        "",
        "| corpus | limit | time: median (range) | CPU | measured peak | of the limit | merges |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for (corpus, _, _), group in records.latest(all_records).items():
        digests = {r["tokens_digest"] for r in group if r["status"] == "ok"}
        for limit in sorted({record["limit"] for record in group}, reverse=True):
            same = [record for record in group if record["limit"] == limit]
            done = [record for record in same if record["status"] == "ok"]
            cells = [
                corpus,
                f"{limit / 2**20:,.0f} MiB",
                "-",
                "-",
                "-",
                "-",
                f"{same[-1]['status']}: {str(same[-1]['reason']).split(', ')[0].split(': ')[0]}",
            ]
            if len(done) == len(same):
                peak = max(record["peak_memory_bytes"] for record in done)
                cells[2] = seconds_text([record["wall_s"] for record in done])
                cpu = statistics.median(record["user_s"] + record["system_s"] for record in done)
                cells[3:6] = [f"{cpu:.1f} s", f"{peak / 2**20:,.0f} MiB", f"{peak / limit:.0%}"]
                cells[6] = f"`{done[0]['tokens_digest'][:8]}`" + ("" if len(digests) == 1 else ", not the same")
            lines.append(f"| {' | '.join(cells)} |")
    return [
        *lines,
        "",
        "The peak is that of all processes together (PSS), measured from outside, in the worst round. Others used the "
        "machine while mixed-250.txt was measured: its CPU time counts.",
        "",
    ]


def startup_section(all_records: Sequence[Record]) -> list[str]:
    """One row a command of the newest session."""
    if not all_records:
        return []
    newest = max(record["session"] for record in all_records)
    lines = ["**Start-up**", "", "| what | time: median (range) |", "|---|---:|"]
    for command in dict.fromkeys(record["command"] for record in all_records):
        walls = [
            record["wall_s"]
            for record in all_records
            if (record["session"], record["command"], record["status"]) == (newest, command, "ok")
        ]
        if walls:
            lines.append(f"| {command} | {seconds_text(walls)} |")
    return [*lines, ""]


def markdown(all_records: Sequence[Record]) -> str:
    """Return all tables."""
    by_kind = {kind: [r for r in all_records if r["kind"] == kind] for kind in KINDS}
    lines = training_section(by_kind["train"])
    lines += counting_section(by_kind["count"]) + encoding_section(
        by_kind["encode"], "Encoding documents to lists of ids"
    )
    lines += encoding_section(by_kind["files"], "From files to ids: an array in memory, or shards on disk")
    lines += growth_section(by_kind["growth"])
    lines += cliffs_section(by_kind["cliff"]) + memory_section(by_kind["memory"])
    lines += cluster.section(by_kind["cluster"]) + startup_section(by_kind["startup"])
    return "\n".join(lines).rstrip() or NOTHING


TABLES: dict[str, Callable[[Sequence[Record]], str]] = {
    "": markdown,
    "summary": comparison.summary,
    "trainers": comparison.trainers,
}


def names_in(document: str) -> list[str]:
    """Return the names of the tables for which a document has a first marker."""
    return [name for name in TABLES if _markers(name)[0] in document]


def _markers(name: str) -> tuple[str, str]:
    return (BEGIN, END) if not name else (BEGIN.replace(":", f" {name}:"), END.replace(":", f" {name}:"))


def replace_between_markers(document: str, texts: Mapping[str, str]) -> str:
    """Return the document with each named text between its markers, which must both occur once, in this order."""
    for name, text in texts.items():
        begin, end = _markers(name)
        if document.count(begin) != 1 or document.count(end) != 1 or document.index(begin) > document.index(end):
            raise ValueError(f"the document needs one line {begin} and, below it, one line {end}")
        before, rest = document.split(begin)
        document = f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"
    return document


def write_document(path: Path, texts: Mapping[str, str]) -> bool:
    """Write each named text between its markers in the file, atomically; return False if nothing changed."""
    document = path.read_text("utf-8")
    try:
        changed = replace_between_markers(document, texts)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if changed == document:
        return False
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
            out.write(changed)
        Path(temporary).chmod(path.stat().st_mode & 0o777)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return True
