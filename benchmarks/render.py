"""Turn records into Markdown between the markers of a document; the text around the markers does not change.

`<!-- benchmarks: begin -->` ... `<!-- benchmarks: end -->` encloses all tables; `<!-- benchmarks NAME: begin -->` one
text of `TABLES`. Figures are medians over the rounds of a task's newest session; ratios are medians of the ratios
within each round. The same records produce the same text, so a test compares the documents with the results file.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import comparison, cost_text, kinds, ours, records
from benchmarks.corpora import size_text
from benchmarks.records import Record
from benchmarks.texts import ratio_text, seconds_text, table

BEGIN = "<!-- benchmarks: begin -->"
END = "<!-- benchmarks: end -->"
PAGES = (
    "README.md",
    "benchmarks/RESULTS.md",
    "docs/pages/index.md",
    "docs/pages/explanation/comparison.md",
    "docs/pages/explanation/costs.md",
    "docs/pages/reference/benchmarks.md",
    "docs/pages/how-to/ray.md",
)


def agreement(group: Sequence[Record], tool: str) -> str:
    """Say whether a tool learns the same tokens in the same order as ours, in every round of both."""
    digests = {r["tokens_digest"] for r in group if r["tool"] == tool and r["status"] == "ok"}
    if len(digests) > 1:
        return "differ from round to round"
    for own, answer in ((ours.NAME, "same"), (ours.BY_LINES, "same as by lines")):
        if tool in comparison.same_merges(group)[own]:
            return answer
    return f"{'' if tool in ours.HOW else 'other, '}`{min(digests)[:8]}`"


def training_rows(group: Sequence[Record]) -> list[str]:
    """One row a tool, the fastest first, then those that did not finish."""
    rows: list[tuple[float, str]] = []
    for tool in dict.fromkeys(record["tool"] for record in group):
        same = [record for record in group if record["tool"] == tool]
        done = [record for record in same if record["status"] == "ok"]
        name = f"{tool} {same[0]['version'] or ''}"
        if not done:
            reason = str(same[-1]["reason"]).replace("|", "\\|")
            rows.append((float("inf"), f"| {name} | {reason} | - | - | - | - | - |"))
            continue
        walls = [record["wall_s"] for record in done]
        cells = [
            name + (f" ({len(same) - len(done)} rounds failed)" if len(done) < len(same) else ""),
            seconds_text(walls),
            ratio_text(comparison.times(group, tool, "wall_s")),
            f"{statistics.median(r['user_s'] + r['system_s'] for r in done):.2f} s",
            size_text(statistics.median(r["peak_memory_bytes"] for r in done)),
            ratio_text(comparison.times(group, tool, "peak_memory_bytes")),
            agreement(group, tool),
        ]
        rows.append((statistics.median(walls), f"| {' | '.join(cells)} |"))
    return [row for _, row in sorted(rows, key=lambda row: row[0])]


def _day(record: Record) -> str:
    return str(record["session"][:10])


def machine_text(record: Record) -> str:
    """One line on the machine of a record."""
    machine = record["machine"]
    kind = "PSS" if record.get("memory_kind", "pss") == "pss" else "RSS"
    return (
        f"{machine['cpu']}, {machine['usable_cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; "
        f"{machine['os']}; Python {machine['python']}; {record['session'][:10]}; memory is {kind} of all its processes."
    )


def reference_text(all_records: Sequence[Record], group: Sequence[Record]) -> str:
    """How much the machine changed during the rounds of a task; empty if the reference loop did not run."""
    change = records.change_of_machine(all_records, group)
    return "" if change is None else f" A reference loop before and after each round varied by {change:.0%}."


def training_section(all_records: Sequence[Record]) -> list[str]:
    """A table for each task."""
    lines, told = list[str](), ""
    head = "trainer | time: median (range): | times slower than bpe-pipeline: | CPU: | memory: | times more: | merges"
    for group in records.tasks(all_records, "train"):
        first, most = group[0], max(record["round"] for record in group)
        title = f"{first['corpus']}, {size_text(first['corpus_bytes'])}, pattern {first['pattern']}, "
        title += f"vocabulary {first['vocab_size']:,}, rounds: {most}"
        example = next((record for record in group if record["status"] == "ok"), first)
        machine, told = machine_text(example), told or machine_text(example)
        note = (machine if not lines or machine != told else "The same machine.") + reference_text(all_records, group)
        lines += table(title, head, training_rows(group), note)
    return lines


def encoding_section(all_records: Sequence[Record], kind: str, title: str) -> list[str]:
    """One row a corpus and tool: MB of text a second, memory, CPU or a short message, whether ids are the same.

    Parts of a corpus are in the table of growth only.
    """
    rows, notes = [], ["'Times slower': than bpe-pipeline. Caches start empty."]
    name, field, unit = ("CPU", "cpu_s", "s") if kind == "files" else ("one message", "message_us", "µs")
    whole = [record for record in all_records if record.get("source", record.get("corpus")) == record.get("corpus")]
    for group in records.tasks(whole, kind):
        found: list[tuple[float, str]] = []
        expected = {r["ids_digest"] for r in group if r["tool"] == ours.NAME and r["status"] == "ok"}
        for tool in dict.fromkeys(record["tool"] for record in group):
            same = [record for record in group if record["tool"] == tool]
            done = [record for record in same if record["status"] == "ok"]
            corpus = same[0]["corpus"] + (", cold" if same[0].get("cold") else "")
            start = f"| {corpus} | {same[0]['vocab_size']:,} | {tool} {same[0]['version']} |"
            if not done:
                found.append((0.0, f"{start} {same[-1]['reason']} | - | - | - | - |"))
                continue
            rates = [record["mb_per_s"] for record in done]
            fields = [record[field] for record in done if field in record]
            memory = [
                record["peak_memory_bytes"] for record in done if kind != "files" or "memory_of" in record
            ]  # earlier records of files: of the comparison, too
            cells = [
                f"{statistics.median(rates):,.1f} ({min(rates):,.1f}-{max(rates):,.1f})",
                ratio_text(records.paired(group, tool, ours.NAME, "encode_s")),
                size_text(statistics.median(memory)) if memory else "-",
                f"{statistics.median(fields):.1f} {unit}" if fields else "-",
                "other" if expected and {record["ids_digest"] for record in done} != expected else "same",
            ]
            found.append((statistics.median(rates), f"{start} {' | '.join(cells)} |"))
        rows += [row for _, row in sorted(found, key=lambda row: -row[0])]
        notes.append(f"{group[0]['corpus']}: {_day(group[0])}.{reference_text(all_records, group)}")
    head = f"corpus | vocabulary: | tool | encoding: median (range): | times slower: | memory: | {name}: | ids"
    return table(f"{title}, all cores, MB of text a second", head, rows, " ".join(dict.fromkeys(notes)))


def encoding_summary(all_records: Sequence[Record]) -> str:
    """One row a tool, one column a corpus: from files to ids, MB of text a second and peak memory."""
    cells: dict[str, dict[str, str]] = {}
    for group in records.tasks(all_records, "files"):
        corpus = group[0]["corpus"]
        if group[0].get("cold") or group[0].get("source", corpus) != corpus:
            continue
        for tool in dict.fromkeys(record["tool"] for record in group):
            done = [one for one in group if (one["tool"], one["status"]) == (tool, "ok")]
            why = next(str(one["reason"]) for one in group if one["tool"] == tool)
            rate, memory = (
                statistics.median([one[field] for one in done] or [0]) for field in ("mb_per_s", "peak_memory_bytes")
            )
            cells.setdefault(corpus, {})[tool] = f"{rate:,.0f} MB/s, {size_text(memory)}" if done else why
    tools = dict.fromkeys(tool for found in cells.values() for tool in found)
    rows = [f"| {tool} | {' | '.join(found.get(tool, '-') for found in cells.values())} |" for tool in tools]
    return "\n".join([f"| | {' | '.join(cells)} |", f"|---|{'---:|' * len(cells)}", *rows])


def encoding_growth_section(all_records: Sequence[Record]) -> list[str]:
    """One row a corpus and tool that encoded files of several sizes: the seconds, and their log-log slope."""
    times: dict[tuple[str, str], dict[float, list[float]]] = {}
    for record in all_records:
        if record["kind"] == "files" and record["status"] == "ok" and "source" in record:
            source = record["source"] + (", cold" if record.get("cold") else "")
            sizes = times.setdefault((source, record["tool"]), {})
            sizes.setdefault(float(record["corpus_bytes"]), []).append(record["encode_s"])
    rows = []
    for (source, tool), sizes in times.items():
        points = [(size, statistics.median(seconds)) for size, seconds in sorted(sizes.items())]
        slope = records.log_log_slope(points)
        if slope is not None:
            shown = ", ".join(size_text(size) for size, _ in points), ", ".join(f"{s:.2f}" for _, s in points)
            rows.append(f"| {source} | {tool} | {' | '.join(shown)} | {slope:.2f} |")
    return table("Growth of the time from files to ids", "corpus | tool | sizes | seconds | slope:", rows)


def growth_section(all_records: Sequence[Record]) -> list[str]:
    """One row a curve, with its log-log slope."""
    rows = []
    for curve in kinds.curves(all_records):
        (x0, y0), (x1, y1) = curve.points[0], curve.points[-1]
        over = "bytes" if curve.over == "corpus_bytes" else "vocabulary"
        span = f"{size_text(x0)} - {size_text(x1)}" if over == "bytes" else f"{x0:,.0f} - {x1:,.0f}"
        rows.append(f"| {curve.corpus} | {over} | {curve.stage} | {span} | {y0:.2f} - {y1:.2f} | {curve.slope:.2f} |")
    note = "A slope of 1 is linear growth (log-log, least squares)."
    return table(
        "Growth of the time of bpe-pipeline", "corpus | over | stage | from - to | seconds | slope:", rows, note
    )


def cliffs_section(all_records: Sequence[Record]) -> list[str]:
    """One row a kind of text."""
    rows = []
    for cliff in kinds.found_cliffs(all_records):
        cells = [cliff.name, cliff.pattern, "-", cliff.failure or "-", "-", ratio_text(cliff.to_reference)]
        if cliff.points and cliff.failure is None:
            slope = records.log_log_slope(cliff.points)
            cells[2] = ", ".join(size_text(x) for x, _ in cliff.points)
            cells[3] = ", ".join(f"{y:.2f}" for _, y in cliff.points)
            cells[4] = "-" if slope is None else f"{slope:.2f}"
        rows.append(f"| {' | '.join(cells)} |")
    done = [record for record in all_records if record["kind"] == "cliff"]
    sources = {record["source"] for record in done}
    days = ", ".join(sorted({_day(record) for record in done}))
    note = f"{days}. The reference is a prefix of {', '.join(sources)}; times are of whole commands."
    head = "text | pattern | sizes | seconds | slope: | time for a byte, relative to the reference:"
    return table("Unusual texts", head, rows, note)


def memory_section(all_records: Sequence[Record]) -> list[str]:
    """One row a corpus and limit: time, measured peak, merges, or where it was refused."""
    rows, days = [], list[str]()
    for group in records.tasks(all_records, "memory"):
        days.append(f"{group[0]['corpus']}: {_day(group[0])}.")
        digests = {r["tokens_digest"] for r in group if r["status"] == "ok"}
        for limit in sorted({record["limit"] for record in group}, reverse=True):
            same = [record for record in group if record["limit"] == limit]
            done = [record for record in same if record["status"] == "ok"]
            cells = ["-"] * 4 + [f"{same[-1]['status']}: {str(same[-1]['reason']).split(', ')[0].split(': ')[0]}"]
            if len(done) == len(same):
                peak = max(record["peak_memory_bytes"] for record in done)
                cpu = statistics.median(record["user_s"] + record["system_s"] for record in done)
                cells = [seconds_text([record["wall_s"] for record in done]), f"{cpu:.1f} s"]
                cells += [f"{peak / 2**20:,.0f} MiB", f"{peak / limit:.0%}"]
                cells += [f"`{done[0]['tokens_digest'][:8]}`" + ("" if len(digests) == 1 else ", not the same")]
            rows.append(f"| {group[0]['corpus']} | {limit / 2**20:,.0f} MiB | {' | '.join(cells)} |")
    note = f"The peak is that of all processes (PSS), measured from outside, in the worst round. {' '.join(days)}"
    head = "corpus | limit: | time: median (range): | CPU: | measured peak: | of the limit: | merges"
    return table("Under a memory limit", head, rows, note)


def on_ray(all_records: Sequence[Record]) -> list[tuple[str, float, float, float, bool]]:
    """Corpus, median seconds of local workers and on Ray, median ratio within a round, whether merges are the same."""
    found = []
    for group in records.tasks(all_records, "cluster"):
        done = {(r["executor"], r["round"]): r for r in group if r["status"] == "ok"}
        rounds = [number for executor, number in done if executor == "ray" and ("local", number) in done]
        if rounds:
            local, ray = ([done[executor, number]["wall_s"] for number in rounds] for executor in ("local", "ray"))
            ratio = statistics.median(b / a for a, b in zip(local, ray, strict=True))
            same = len({r["tokens_digest"] for r in done.values()}) == 1
            found.append((group[0]["corpus"], statistics.median(local), statistics.median(ray), ratio, same))
    return found


def cluster_section(all_records: Sequence[Record]) -> list[str]:
    """One row a corpus."""
    rows = [
        f"| {corpus} | {local:.1f} s | {ray:.1f} s | {ratio:.2f}x | {'yes' if same else 'no'} |"
        for corpus, local, ray, ratio, same in on_ray(all_records)
    ]
    head = "corpus | local workers: | Ray: | ratio within a round: | same merges"
    return table("On a Ray cluster of one node", head, rows)


def ray_text(all_records: Sequence[Record]) -> str:
    """What Ray costs, for its page."""
    return "\n".join(
        f"On the same two cores, {corpus} takes {ray:.1f} s on Ray and {local:.1f} s with local workers; most of the "
        f"difference is Ray's start."
        for corpus, local, ray, _, _ in on_ray(all_records)
    )


def startup_section(all_records: Sequence[Record]) -> list[str]:
    """One row a command."""
    walls: dict[str, list[float]] = {}
    for record in all_records:
        if record["kind"] == "startup" and record["status"] == "ok":
            walls.setdefault(record["command"], []).append(record["wall_s"])
    rows = [f"| {command} | {seconds_text(seconds)} |" for command, seconds in walls.items()]
    return table("Start-up", "what | time: median (range):", rows)


def markdown(all_records: Sequence[Record]) -> str:
    """Return all tables."""
    lines = training_section(all_records)
    lines += encoding_section(all_records, "encode", "Encoding documents to lists of ids")
    lines += encoding_section(all_records, "files", "From files to ids: an array in memory, or shards on disk")
    lines += encoding_growth_section(all_records)
    lines += growth_section(all_records) + cliffs_section(all_records) + memory_section(all_records)
    lines += cluster_section(all_records) + startup_section(all_records)
    return "\n".join(lines).rstrip()


TABLES: dict[str, Callable[[Sequence[Record]], str]] = {
    "": markdown,
    "headline": comparison.headline,
    "caption": comparison.caption,
    "fast": comparison.fast,
    "summary": comparison.summary,
    "trainers": comparison.trainers,
    "ray": ray_text,
    "encoding": encoding_summary,
    "one machine": cost_text.on_one_machine,
    "cluster": cost_text.on_a_cluster,
    "model": cost_text.of_the_model,
}


def names_in(document: str) -> list[str]:
    """Return the names of the texts for which a document has a first marker."""
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
