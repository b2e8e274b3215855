"""The story of `count`: count each planned chunk in a worker, combine the counters.

Every chunk's counter is a checkpoint. What is counted stays counted: a run that was stopped goes on with the chunks
whose counters are missing, and a run whose corpus got new files counts only those. What was learned from other counts
gives way when all chunks are counted, not before.
"""

import logging
import time
from dataclasses import dataclass, replace

from pipeline.base.errors import InputError, RunDirectoryError
from pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted
from pipeline.base.units import format_bytes, format_count
from pipeline.corpus import losses
from pipeline.counts import combine, counter_file
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.count_worker import CountTask, count_chunk
from pipeline.executors import Executor, Need
from pipeline.pattern import CompiledPattern
from pipeline.report.summary import CorpusFacts
from pipeline.run import directory
from pipeline.run import plan as planning
from pipeline.run.manifest import Manifest, Run
from pipeline.run.options import Options
from pipeline.run.workers import worker_count
from pipeline.storage import Location

_log = logging.getLogger(__name__)
STAGE, COMBINING = "counting", "combining"


@dataclass(frozen=True)
class Counted:
    """A combined counter that lies complete on the disk.

    times: seconds that each stage took, None where its output was there already.
    """

    path: Location
    fingerprint: str
    facts: CorpusFacts
    times: dict[str, float | None]


def counted(run: Run, executor: Executor) -> Counted | None:
    """The combined counter of a run, if it is complete."""
    [facts] = counter_file.look_at([(run.counter_path, run.manifest.counter_fingerprint())], executor)
    return None if facts is None else as_counted(run, facts.rows, facts.statistics, {STAGE: None})


def require_counted(run: Run, executor: Executor) -> Counted:
    """The combined counter of a run; `RunDirectoryError` where it is not complete, saying how it will be."""
    complete = counted(run, executor)
    if complete is None:
        again = "`count` or `train`" if run.manifest.source is None else "command"
        raise RunDirectoryError(
            f"{run.directory} is not counted to its end; run the {again} that began it again, then go on"
        )
    return complete


def as_counted(run: Run, rows: int, statistics: ChunkStatistics, times: dict[str, float | None]) -> Counted:
    """What a combined counter that was just written, or looked at, says of a run's corpus."""
    facts = CorpusFacts(
        files=statistics.files or len(run.manifest.files),
        bytes=statistics.bytes,
        documents=statistics.documents,
        pieces=statistics.pieces,
        different_pieces=rows,
        losses=losses.for_people(losses.add_up([empty_files(run.manifest), statistics.losses])),
        concerned_characters=statistics.concerned_characters,
        source=run.manifest.source.description if run.manifest.source is not None else "",
    )
    return Counted(run.counter_path, run.manifest.counter_fingerprint(), facts, times)


def empty_files(plan: Manifest) -> losses.Losses:
    """The files of which no worker sees anything: without a byte, or Parquet without a row."""
    planned = {span.file for chunk in plan.chunks for span in chunk.spans}
    empty = losses.Tally()
    empty.add("files_empty", len(plan.empty), plan.empty)
    without_rows = [file.path for index, file in enumerate(plan.files) if index not in planned]
    empty.add("files_empty", len(without_rows), without_rows)
    return empty.found


def count(run: Run, pattern: CompiledPattern, options: Options, executor: Executor, listener: Listener) -> Counted:
    """Count what is not counted yet and combine; gives the combined counter.

    Raises what `count_chunk` raises, `WorkerError` where a chunk fails again and again, and `InputError` where the
    corpus turns out to hold nothing to count, or (`fail_on_loss`) something was not taken as it stood.
    """
    complete = counted(run, executor)
    if complete is None:
        if pattern.refusal is not None:
            listener(Notice("warning", f"the pattern runs on the regex package, slower: {pattern.refusal}"))
        started = time.monotonic()
        statistics = _count_chunks(run, pattern, options, executor, listener)
        counting_s = time.monotonic() - started
        listener(StageEnded(STAGE, counting_s))
        check_facts(as_counted(run, statistics.pieces, statistics, {}).facts, options)
        directory.require_ours(run.directory)
        if run.manifest.merging is None:  # nothing was learned from these counts: what there is came of others
            directory.remove_results(run.directory)
        started = time.monotonic()
        listener(StageStarted(COMBINING, len(run.manifest.chunks), "counters"))
        parts = [
            (run.chunk_path(index), run.manifest.chunk_fingerprint(chunk))
            for index, chunk in enumerate(run.manifest.chunks)
        ]
        rows = combine.combine_counters(run, parts, statistics, options, executor)
        combining_s = time.monotonic() - started
        listener(StageEnded(COMBINING, combining_s))
        complete = as_counted(run, rows, statistics, {STAGE: counting_s, COMBINING: combining_s})
    check_facts(complete.facts, options)
    return complete


def check_facts(facts: CorpusFacts, options: Options) -> None:
    """Raise `InputError` where nothing was counted, or (`fail_on_loss`) not everything as it stood."""
    lost = ", ".join(map(str, facts.losses))
    if facts.different_pieces == 0:
        nothing = "there is nothing but special tokens" if facts.bytes else "all of it is empty"
        why = f": {lost or nothing}"
        hint = "; is --text-field right?" if any(loss.kind == "records_without_field" for loss in facts.losses) else ""
        raise InputError(f"the corpus holds no text to count{why}{hint}")
    if options.fail_on_loss and facts.losses:
        raise losses.refusal(facts.losses)


def _count_chunks(
    run: Run, pattern: CompiledPattern, options: Options, executor: Executor, listener: Listener
) -> ChunkStatistics:
    """Count the chunks without counters; gives the statistics of all chunks together."""
    plan = run.manifest
    pattern = replace(pattern, tree=None)  # a fresh value without the native automaton: each worker makes its own
    nodes = executor.nodes()
    share = planning.share_of(options, len(plan.chunks), nodes)
    if not nodes and share.workers < min(worker_count(options), len(plan.chunks)):
        listener(
            Notice(
                "info",
                f"{format_count(share.workers, 'workers')} instead of {worker_count(options)}: the memory limit of "
                f"{format_bytes(share.budget.limit_bytes)} has no room for more",
            )
        )
    planned = [_task(run, index, pattern, share) for index in range(len(plan.chunks))]
    there = counter_file.look_at([(task.output, task.fingerprint) for task in planned], executor)
    found = {index: facts.statistics for index, facts in enumerate(there) if facts is not None}
    tasks = [(index, task) for index, task in enumerate(planned) if index not in found]
    total = sum(chunk.bytes for chunk in plan.chunks)
    missing = sum(plan.chunks[index].bytes for index, _ in tasks)
    listener(StageStarted(STAGE, total, "bytes", done=total - missing))
    _log.info("%d chunks, %d to count", len(plan.chunks), len(tasks))

    def advanced(amount: int) -> None:
        listener(Advanced(STAGE, amount))

    # How many fit a cluster is the executor's to know: nodes join and leave.
    at_once = None if nodes else share.workers
    need = Need(memory_bytes=share.budget.worker_bytes + share.room_bytes)
    counting = executor.run(count_chunk, [task for _, task in tasks], advanced, at_once=at_once, need=need)
    for position, statistics in counting:
        found[tasks[position][0]] = statistics
    return sum((found[index] for index in range(len(plan.chunks))), ChunkStatistics())


def _task(run: Run, index: int, pattern: CompiledPattern, share: planning.Share) -> CountTask:
    plan = run.manifest
    chunk = plan.chunks[index]
    return CountTask(
        name=f"chunk {index}",
        spans=tuple((plan.files[span.file], span.start, span.stop) for span in chunk.spans),
        text_field=plan.counting["text_field"],
        pattern=pattern,
        special_tokens=planning.special_bytes(plan),
        errors=plan.counting["errors"],
        max_piece_bytes=plan.counting["max_piece_bytes"],
        output=run.chunk_path(index),
        fingerprint=plan.chunk_fingerprint(chunk),
        room_bytes=share.room_bytes,
        limit_bytes=share.budget.limit_bytes,
        workers=share.on_one,
    )
