"""Count each planned chunk in a worker, and combine the counters.

Every chunk's counter is a checkpoint: a resumed run counts the chunks whose counters are missing, a run whose corpus
got new files counts only those. Results of other counts are deleted when all chunks are counted, not before.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.corpus.fit_worker import SampleTask, misfit_of
from bpe_pipeline.corpus.sampling import choose
from bpe_pipeline.corpus.skipped_or_altered import warnings_of
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine import combine_counters
from bpe_pipeline.counts.count_worker import count_chunk
from bpe_pipeline.counts.counted import Counted, as_counted, check_facts, find_counted, statistics_of, terms_of
from bpe_pipeline.counts.counter_file import CounterFacts, Sum, counters_of, look_at
from bpe_pipeline.counts.feeding import CountTask
from bpe_pipeline.executors import Executor
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.compiler import line_tables
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import COUNTS
from bpe_pipeline.run.ids import ending_bytes
from bpe_pipeline.run.manifest import KEPT, Run
from bpe_pipeline.run.memory import WRITE_BYTES
from bpe_pipeline.run.open_run import rules_of, special_bytes
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.run.patterns import on_regex, pattern_of, slowness
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.storage.atomic import make_directory

STAGE = "counting"
_FIT_BYTES = 32 << 10  # of the sample that shows whether the pattern fits


def count(runner: Runner, run: Run, options: CountOptions) -> tuple[Run, Counted]:
    """Count the chunks that are missing and combine; returns the run, without results of other counts."""
    known = run.manifest.mixture is None or all(text.bytes is not None for text in run.manifest.texts)
    complete = find_counted(run, runner.executor) if known else None
    if complete is not None:
        runner.skip(STAGE)
        if options.inputs:
            warn_of_special_text(runner, complete.statistics, options)
        check_facts(complete.facts, fail_on_loss=options.fail_on_loss)
        return run, complete
    pattern = pattern_of(options)
    runner.warn(slowness(pattern))
    _warn_of_misfit(runner, run, pattern)
    statistics = count_chunks(runner, run, pattern)
    for warning in warnings_of(statistics.losses):
        runner.warn(warning)
    check_facts(as_counted(run, CounterFacts(0, statistics)).facts, fail_on_loss=options.fail_on_loss)
    if options.inputs:  # otherwise it is the sample corpus, or one that was warned of before
        warn_of_special_text(runner, statistics, options)
    run.directory.require_lock()
    if run.manifest.merging is None:  # what there is was learned from other counts
        without = manifest.remove_results(run)
        if without != run:
            manifest.save(without)
        run = without
    if run.manifest.mixture is not None or run.manifest.weighted:
        run = replace(run, manifest=run.manifest.with_bytes(input_bytes(run, runner.executor)))
        manifest.save(run)
    return run, combine_chunks(runner, run, statistics)


def input_bytes(run: Run, executor: Executor) -> list[int]:
    """Return the counted bytes of each input, without weights; `RunDirectoryError` if a counter is missing."""
    sizes = [statistics.counted_bytes for statistics in statistics_of(run.chunk_counters(), executor)]
    of_inputs = run.manifest.plan.chunks_of_inputs(len(run.manifest.texts))
    return [sum(sizes[index] for index in chunks) for chunks in of_inputs]


def _warn_of_misfit(runner: Runner, run: Run, pattern: CompiledPattern) -> None:
    """Warn if most of a sample is in long pre-tokens or not matched; a worker takes what may need memory."""
    if pattern.preset and pattern.preset.has_long_pre_tokens:
        return
    chosen = choose(run.manifest.plan.files, _FIT_BYTES)
    task = SampleTask(pattern, chosen, run.manifest.counting["text_field"])
    here = all(one.file.is_plain for one in task.chosen) and not on_regex(pattern)
    for text in misfit_of(task) if here else runner.executor.one(misfit_of, task):
        runner.warn(text)


def combine_chunks(runner: Runner, run: Run, statistics: ChunkStatistics) -> Counted:
    """Combine the counters of all chunks."""
    return as_counted(run, combine_counters(runner, run, Sum(terms_of(run), statistics)))


def combine_again(runner: Runner, run: Run) -> Counted:
    """Combine the terms of a run with other weights."""
    # Those of weight 0 were read, too.
    every = run.chunk_counters() if run.manifest.source is None else counters_of(terms_of(run))
    return combine_chunks(runner, run, sum(statistics_of(every, runner.executor), ChunkStatistics()))


def warn_of_special_text(runner: Runner, statistics: ChunkStatistics, options: CountOptions) -> None:
    """Warn of well-known special tokens that were counted as text, unless that was asked for."""
    if statistics.looks_special and not options.special_tokens_as_text:
        remedy = "if they are special, name them with --special-token and count again"
        remedy += " (with --split-at, if the tokenizer is not to have them)"
        runner.warn(f"{statistics.special_text('counted')}; {remedy}")


def count_chunks(runner: Runner, run: Run, pattern: CompiledPattern) -> ChunkStatistics:
    """Count the chunks without counters; returns the statistics of all chunks together."""
    statistics, _ = _counted(runner, run, pattern, range(len(run.manifest.plan.chunks)))
    run.directory.remove_partial(run.owned_counts(), endings=(KEPT,))
    return statistics


def count_part(runner: Runner, run: Run, pattern: CompiledPattern) -> tuple[PartDone, ChunkStatistics]:
    """Count the chunks of the runner's part that have no counters; returns the statistics of the part's chunks."""
    assert runner.part is not None, "a part"
    chunks = len(run.manifest.plan.chunks)
    of_part = [index for index in range(chunks) if runner.part.has(index)]
    statistics, new = _counted(runner, run, pattern, of_part)
    there = len(run.chunks_there())
    complete = "the counter is complete" if there == chunks and run.counter_path.exists() else ""
    return PartDone(str(runner.part), len(of_part), new, there, chunks, complete=complete), statistics


def _counted(runner: Runner, run: Run, pattern: CompiledPattern, chunks: Sequence[int]) -> tuple[ChunkStatistics, int]:
    """Count those of the chunks that have no counter; returns the statistics of all, and how many were counted now.

    A counter that is damaged, or of something else in spite of its name, is counted again; behind a link it is named.
    """
    new = dict(runner.each(_counting(runner, run, pattern)))
    before = [index for index in chunks if index not in new]
    facts = dict(zip(before, look_at(run.chunk_counters(before), runner.executor), strict=True))
    if damaged := [index for index, found in facts.items() if found is None]:
        run.directory.remove(f"{COUNTS}/{run.manifest.chunk_names[index]}" for index in damaged)
        new |= runner.each(_counting(runner, run, pattern))
        statistics_of(run.chunk_counters(index for index in damaged if index not in new), runner.executor)
    of_chunks = {index: found.statistics for index, found in facts.items() if found} | new
    return sum((of_chunks[index] for index in chunks), ChunkStatistics()), len(new)


def _counting(runner: Runner, run: Run, pattern: CompiledPattern) -> Stage[CountTask, ChunkStatistics]:
    """Return the stage that counts the chunks of a run."""
    stored, plan = run.manifest.counting, run.manifest.plan
    make_directory(run.directory / COUNTS)
    workers = runner.reserve(len(plan.chunks))
    if workers.count < workers.most and not runner.nodes:
        runner.inform(
            f"{format_count(workers.count, 'workers')} instead of {workers.most}: the memory limit of "
            f"{format_bytes(workers.limit_bytes)} is too small for more"
        )
    if any(file.kind.are_lines for file in plan.files):
        pattern = replace(pattern, line_tables=line_tables(pattern))
    task_of = partial(
        CountTask,
        text_field=stored["text_field"],
        pattern=pattern,
        special_tokens=special_bytes(stored),
        ending=len(ending_bytes(stored)),
        rules=rules_of(stored),
        judge=DocumentJudge.of(stored),
        budget_bytes=workers.bytes - WRITE_BYTES,
        grant=workers,
    )

    return Stage(
        STAGE,
        "bytes",
        count_chunk,
        plan.tasks(task_of, run.chunk_counters()),
        weights=[chunk.bytes for chunk in plan.chunks],
        done=run.chunks_there(),
        kept="counted",
        grant=workers,
    )
