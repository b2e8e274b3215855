"""`--dry-run`: what would be counted, by how many workers, and the time, memory and disk that it would take."""

import math
import time

from pipeline import _core
from pipeline.base.errors import UsageError
from pipeline.base.events import Listener
from pipeline.base.machine import MemoryWatch
from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.sampling import choose, read_chosen
from pipeline.counts.feeding import RegexCutter
from pipeline.merges import forecast
from pipeline.merges.merge import merges_for
from pipeline.pattern import compile_pattern
from pipeline.report.progress import duration
from pipeline.run.directory import Directory
from pipeline.run.manifest import RUN, Run
from pipeline.run.memory import WORKER_BYTES_PER_CHUNK_BYTE, counting_workers, threads
from pipeline.run.open_run import open_run, special_bytes
from pipeline.run.options import Options
from pipeline.run.plan import corpus_bytes
from pipeline.run.work import Work, on_regex
from pipeline.run.workers import executor_for, nodes
from pipeline.storage import location
from pipeline.tokenizer.export import check_before_work

_READ_BYTES = 64 << 20  # of memory, at most, to read the sample
_SAMPLE_BYTES, _SLOW_SAMPLE_BYTES = 8 << 20, 256 << 10
_COMPRESSED_TO_TEXT = 4  # bytes of text for a byte of a compressed file, about


def run_dry(options: Options, listener: Listener) -> dict[str, str]:
    """Plan a run, write nothing, and return the plan by name."""
    pattern = compile_pattern(options.pattern)
    check_before_work(options, pattern)
    if options.executor != "local" and not nodes(options):
        raise UsageError("no node of the cluster has cores, so there is nothing to plan for; add one to it")
    directory = Directory(options.output or location("runs/NEW"), RUN)
    with executor_for(options) as executor:
        work = Work(options, pattern, executor, listener, directory, MemoryWatch())
        return _described(work, open_run(work))


def _described(work: Work, run: Run) -> dict[str, str]:
    options, nodes, plan = work.options, work.nodes, run.manifest.plan
    workers = counting_workers(options, len(plan.chunks), nodes)
    budget = workers.budget
    sizes = [chunk.bytes for chunk in plan.chunks]
    largest, total = max(sizes, default=0), sum(sizes)
    counter = min(workers.work_bytes, int(largest * WORKER_BYTES_PER_CHUNK_BYTE))
    counting = budget.taken_bytes + workers.on_one * (budget.worker_bytes + counter)
    # If all pieces were different: one every six bytes.
    shape = forecast.CounterShape(total // 6, total, total + total // 6)
    merging = forecast.whole(shape, merges_for(options)) + budget.taken_bytes + budget.worker_bytes
    on_each = " on each node" if nodes else ""
    return {
        "run": str(run.directory),
        "corpus": f"{format_count(len(plan.files), 'files')}, {format_bytes(corpus_bytes(plan.files))}",
        "chunks": f"{len(sizes):,}, the largest {format_bytes(largest)}",
        "workers": f"{workers.count} on {format_count(len(nodes), 'nodes')}" if nodes else f"{workers.count}",
        "time": _time(work, run, workers.count),
        "disk at most": f"about {format_bytes(2 * total)} for counters",
        "memory limit": f"{format_bytes(budget.limit_bytes)}{on_each}",
        "memory while counting": f"at most about {format_bytes(counting)}; a counter beyond "
        f"{format_bytes(workers.work_bytes)} is written in parts",
        "memory while merging": f"at most about {format_bytes(min(merging, budget.limit_bytes))}; "
        "words that do not fit are kept on disk, which takes time",
        "vocabulary": f"{' and '.join(f'{size:,}' for size in options.vocab_size)} tokens, pattern {options.pattern}",
    }


def _time(work: Work, run: Run, workers: int) -> str:
    """Forecast the time of a run: count and merge a sample of the corpus here and now."""
    plan, options = run.manifest.plan, work.options
    chosen = choose(plan.files, _SLOW_SAMPLE_BYTES if on_regex(work.pattern) else _SAMPLE_BYTES)
    cutter = work.pattern.automaton or RegexCutter(work.pattern)
    counter = _core.ChunkCounter(cutter, list(special_bytes(run.manifest.counting)))
    read_chosen(chosen[:1], options.text_field, most_bytes=_READ_BYTES)  # imports what reading takes
    started = time.monotonic()
    texts = [drawn.text for drawn in read_chosen(chosen, options.text_field, most_bytes=_READ_BYTES)]
    for text in texts:
        counter.feed(text[: len(text) // 2].encode(), end=True)
    half_bytes, half = counter.fed_bytes(), len(counter)
    for text in texts:
        counter.feed(text[len(text) // 2 :].encode(), end=True)
    columns, counted_s, read = counter.columns(), time.monotonic() - started, counter.fed_bytes()
    if half == 0:
        return "unknown: the sample has too little text"
    engine, started = _core.MergeEngine(), time.monotonic()
    engine.add(*columns)
    engine.run(merges_for(options), threads=threads(options, work.nodes), tie_break=options.tie_break)
    merged_s = time.monotonic() - started
    total = sum(file.size * (1 if file.compression == "none" else _COMPRESSED_TO_TEXT) for file in plan.files)
    # Different pieces grow as a power of the text (Heaps' law), and merging takes time for different pieces.
    power = math.log(len(counter) / half) / math.log(read / half_bytes)
    counting_s, merging_s = counted_s * total / read / workers, merged_s * max(total / read, 1) ** power
    stages = f"counting {duration(counting_s)}, merging {duration(merging_s)}"
    return f"about {duration(counting_s + merging_s)} ({stages}), from a sample of {format_bytes(read)}"
