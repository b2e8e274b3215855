"""Count each planned chunk in a worker, and combine the counters.

Every chunk's counter is a checkpoint: a resumed run counts the chunks whose counters are missing, a run whose corpus
got new files counts only those. Results of other counts are deleted when all chunks are counted, not before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pipeline.base.errors import InputError, RunDirectoryError
from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.documents import DocumentJudge
from pipeline.corpus.fit_worker import SampleTask, misfit_of
from pipeline.corpus.sampling import choose
from pipeline.corpus.skipped_or_altered import add_up, fail_on_loss_error, in_words, warnings_of
from pipeline.counts.chunk_statistics import ChunkStatistics, CorpusFacts
from pipeline.counts.combine import combine_counters, look_at, own_counters
from pipeline.counts.count_worker import count_chunk
from pipeline.counts.counter_file import CounterFacts, Parts
from pipeline.counts.feeding import CountTask
from pipeline.counts.prepared import PreparedCountTask
from pipeline.executors import Executor
from pipeline.pattern.compiled import CompiledPattern
from pipeline.pattern.token_rules import Preparation
from pipeline.run import manifest
from pipeline.run.manifest import KEPT, Run
from pipeline.run.memory import WRITE_BYTES
from pipeline.run.open_run import rules_of, special_bytes
from pipeline.run.options import CountOptions
from pipeline.run.patterns import on_regex, pattern_of, slowness
from pipeline.run.runner import Runner, Stage
from pipeline.storage import Location, named
from pipeline.storage.atomic import make_directory

STAGE = "counting"
_FIT_BYTES = 32 << 10  # of the sample that shows whether the pattern fits


@dataclass(frozen=True)
class Counted:
    """A combined counter that is complete on the disk, with what was found in all files of the plan.

    coarse: the second count, if there are superwords.
    """

    path: Location
    fingerprint: str
    facts: CorpusFacts
    statistics: ChunkStatistics
    coarse: "Counted | None" = None


def find_counted(run: Run, executor: Executor) -> Counted | None:
    """Return the combined counter of a run, if it is complete."""
    [facts] = look_at([run.counter], executor)
    return None if facts is None else as_counted(run, facts)


def require_counted(run: Run, executor: Executor) -> Counted:
    """Return the combined counter of a run; `RunDirectoryError` with the remedy if it is not complete."""
    complete = find_counted(run, executor)
    if complete is None:
        again = "`count` or `train`" if run.manifest.source is None else "command"
        raise RunDirectoryError(
            f"{run.directory} is not completely counted; run the {again} that started it again, then continue"
        )
    return complete


def as_counted(run: Run, counter: CounterFacts) -> Counted:
    """Describe the combined counter of a run."""
    plan, source = run.manifest.plan, run.manifest.source
    losses = add_up([plan.files_without_text(), counter.statistics.losses])
    statistics = replace(counter.statistics, files=counter.statistics.files or len(plan.files), losses=losses)
    facts = CorpusFacts(
        files=statistics.files,
        bytes=statistics.bytes,
        documents=statistics.documents,
        pieces=statistics.pieces,
        different_pieces=counter.rows,
        losses=in_words(losses),
        concerned_characters=statistics.concerned_characters,
        source=source.description if source is not None else "",
        weights=plan.described(run.manifest.weights),
        weighted=run.manifest.weighted,
    )
    return Counted(*run.counter, facts, statistics)


def count(runner: Runner, run: Run, options: CountOptions) -> tuple[Run, Counted]:
    """Count the chunks that are missing and combine; returns the run, without results of other counts."""
    complete = find_counted(run, runner.executor)
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
    return run, combine_chunks(runner, run, statistics)


def _warn_of_misfit(runner: Runner, run: Run, pattern: CompiledPattern) -> None:
    """Warn if most of a sample is in long pieces or not matched; a worker takes what may need memory."""
    if pattern.preset and pattern.preset.has_long_pieces:
        return
    chosen = choose(run.manifest.plan.files, _FIT_BYTES)
    task = SampleTask(pattern, chosen, run.manifest.counting["text_field"])
    plain = all(one.file.format == "text" and one.file.compression == "none" for one in task.chosen)
    here = plain and not on_regex(pattern)
    for text in misfit_of(task) if here else runner.executor.one(misfit_of, task):
        runner.warn(text)


def combine_chunks(runner: Runner, run: Run, statistics: ChunkStatistics) -> Counted:
    """Combine the counters of all chunks."""
    weighted = run.manifest.weights
    parts = _add_up_inputs(runner, run, statistics) if weighted else Parts(run.chunk_counters(), statistics)
    return as_counted(run, combine_counters(runner, run, parts))


def _add_up_inputs(runner: Runner, run: Run, statistics: ChunkStatistics) -> Parts:
    """Return one counter for each input with a weight, so that the count of a piece in it is rounded once."""
    of_inputs = list(run.manifest.plan.weighted(run.manifest.weights))
    parts = [counter_of(run, chunks) for chunks, _ in of_inputs]
    whole = own_counters(run, parts, runner.executor)
    for (chunks, _), part, facts in zip(of_inputs, parts, whole, strict=True):
        if facts is None:
            counters = run.chunk_counters(chunks)
            of_input = [counter.statistics for counter in look_at(counters, runner.executor) if counter is not None]
            combine_counters(runner, run, Parts(counters, sum(of_input, ChunkStatistics())), part)
    weights = {path: by for (_, by), (path, _) in zip(of_inputs, parts, strict=True)}
    return Parts(parts, statistics, weights)


def counter_of(run: Run, chunks: Sequence[int]) -> tuple[Location, str]:
    """Return the counter of all chunks of an input, and its fingerprint."""
    if len(chunks) == 1:
        return run.chunk_counters(chunks)[0]
    name = manifest.INPUT_NAME.format(run.manifest.plan.owner(chunks[0]))
    return run.directory / name, run.manifest.chunks_fingerprint(chunks)


def text_counters(run: Run, *, coarse: bool = False) -> list[tuple[Location, str]]:
    """Return the counters that add up to the text of a run, without any weights; raises for a run that is gone.

    coarse: those of its second count, for superwords.
    """
    source = run.manifest.source
    if not run.manifest.weighted:
        return [manifest.require(run.coarse_location).counter if coarse else run.counter]
    if source is None:
        return [counter_of(run, chunks) for chunks, _ in run.manifest.plan.weighted(run.manifest.weights)]
    counters = []
    for weighted in source.parts:
        part = manifest.require(named(weighted.run))
        if part.manifest.counter_fingerprint() != weighted.counts:
            raise RunDirectoryError(f"{part.directory} has other counts than those that were combined")
        counters += text_counters(part, coarse=coarse)
    return counters


def combine_again(runner: Runner, run: Run) -> Counted:
    """Combine the counters of all chunks with other weights."""
    counters = run.chunk_counters()
    looked_at = look_at(counters, runner.executor)
    for (path, _), facts in zip(counters, looked_at, strict=True):
        if facts is None:
            raise RunDirectoryError(f"the counter {path} is missing or damaged; remove it and run `count` again")
    statistics = sum((facts.statistics for facts in looked_at if facts), ChunkStatistics())
    return combine_chunks(runner, run, statistics)


def check_facts(facts: CorpusFacts, *, fail_on_loss: bool) -> None:
    """Raise `InputError` if nothing was counted, or (`fail_on_loss`) input was skipped or altered."""
    lost = ", ".join(map(str, facts.losses))
    if facts.pieces == 0:
        nothing = "there is nothing but special tokens" if facts.bytes else "all of it is empty"
        why = f": {lost or nothing}"
        hint = "; is --text-field right?" if any(loss.kind == "records_without_field" for loss in facts.losses) else ""
        raise InputError(f"the corpus holds no text to count{why}{hint}")
    if fail_on_loss and facts.losses:
        raise fail_on_loss_error(facts.losses)


def warn_of_special_text(runner: Runner, statistics: ChunkStatistics, options: CountOptions) -> None:
    """Warn of well-known special tokens that were counted as text, unless that was asked for."""
    if statistics.looks_special and not options.special_tokens_as_text:
        remedy = "if they are special, name them with --special-token and count again"
        remedy += " (with --split-at, if the tokenizer is not to have them)"
        runner.warn(f"{statistics.special_text('counted')}; {remedy}")


def count_chunks(runner: Runner, run: Run, pattern: CompiledPattern) -> ChunkStatistics:
    """Count the chunks without counters; returns the statistics of all chunks together."""
    stored, plan = run.manifest.counting, run.manifest.plan
    make_directory(run.directory / "counts")
    workers = runner.reserve(len(plan.chunks))
    if workers.count < workers.most and not runner.nodes:
        runner.inform(
            f"{format_count(workers.count, 'workers')} instead of {workers.most}: the memory limit of "
            f"{format_bytes(workers.limit_bytes)} is too small for more"
        )
    rules, separators = rules_of(stored), special_bytes(stored)
    searches = Preparation(pattern.nfc, rules=rules).searches([*(text.decode() for text in separators), *rules])
    task_of = partial(
        PreparedCountTask if searches else CountTask,
        text_field=stored["text_field"],
        pattern=pattern,
        special_tokens=separators,
        rules=rules,
        judge=DocumentJudge.of(stored),
        max_piece_bytes=stored["max_piece_bytes"],
        budget_bytes=workers.bytes - WRITE_BYTES,
        grant=workers,
    )

    def stored_statistics(tasks: Sequence[CountTask]) -> list[ChunkStatistics | None]:
        counters = own_counters(run, [(task.output, task.fingerprint) for task in tasks], runner.executor)
        return [None if facts is None else facts.statistics for facts in counters]

    stage = Stage(
        STAGE,
        "bytes",
        count_chunk,
        plan.tasks(task_of, run.chunk_counters()),
        weights=[chunk.bytes for chunk in plan.chunks],
        stored=stored_statistics,
        kept="counted",
        grant=workers,
    )
    found = runner.run(stage)
    run.directory.remove_partial(run.manifest.owned_counts(), endings=(KEPT,))
    return sum(found, ChunkStatistics())
