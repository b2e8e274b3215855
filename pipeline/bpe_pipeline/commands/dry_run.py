"""`--dry-run`: what would be counted or combined, and the time, memory and disk that it would take."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.machine import MemoryWatch
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.commands.combine import require_addable, weigh
from bpe_pipeline.commands.corpus_sample import Sample, sample
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.counts.combine import SHARE_BYTES
from bpe_pipeline.counts.combine_worker import COMBINE_BYTES
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.counts.counter_file import look_at
from bpe_pipeline.counts.feeding import RegexCutter
from bpe_pipeline.merges import forecast
from bpe_pipeline.merges.merge import merges_for
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.reports.progress import duration
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.memory import WRITE_BYTES, Broker
from bpe_pipeline.run.mixture import Mixture
from bpe_pipeline.run.open_run import open_run, special_bytes
from bpe_pipeline.run.options import OutputOptions, TrainOptions
from bpe_pipeline.run.patterns import on_regex, pattern_of
from bpe_pipeline.run.plan import corpus_bytes
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.run.source import rows_of
from bpe_pipeline.run.workers import executor_for, executor_here, nodes
from bpe_pipeline.storage import Location, location
from bpe_pipeline.tokenizer.export import check_before_work

_SAMPLE_BYTES, _SLOW_SAMPLE_BYTES = 16 << 20, 256 << 10
_LOW, _HIGH = 0.6, 1.6  # of what a forecast says
_UNKNOWN = {"time": "unknown: the sample has too little text"}
_SECOND_COUNT = (
    "the corpus is read again; its counters, about as large as the text, and their time are not in the forecast"
)
_CUT = "truncated at {:,} characters; the forecast is of whole ones"
_START_S = 1.0  # of the command, its workers, and the files that are made at its end
_ROW_S = 0.4e-6  # to combine a row of a counter, by one thread
_PACKED_BYTES, _FILE_BYTES = 2.2, 4096  # a count and a length in a counter's file; its footer
_TABLE_BYTES, _SLOT_BYTES = 3 << 20, 36  # of a counter in memory, without the pre-tokens' bytes
_PARTITION_BYTES = 3 << 20  # of a counter


def plan(given: Mapping[str, Any], listener: Listener) -> Facts:
    """Plan a run with these options, and return the plan as `--dry-run` prints it."""
    facts = Facts(run_dry(make_options(TrainOptions, given), listener), "plan")
    return replace(facts, short=str(facts))


def run_dry(options: TrainOptions, listener: Listener) -> dict[str, str]:
    """Plan a run, write nothing, and return the plan by name."""
    broker = check_before_work(options, listener)
    if options.ray and not nodes(options):
        raise UsageError("no node of the cluster has cores, so there is nothing to plan for; add one to it")
    directory = Directory(options.output or location("runs/NEW"), RUN)
    with executor_for(options, TRAINING) as executor:
        runner = Runner(executor, listener, MemoryWatch(), broker, options.workers)
        return _described(runner, open_run(runner, directory, options), options)


def plan_combination(
    locations: Sequence[Location],
    weights: Sequence[Any],
    options: OutputOptions,
    listener: Listener,
    mixture: Mixture | None = None,
) -> Facts:
    """Return what `combine --dry-run` prints: what adding the counters of these runs takes; nothing is written."""
    runs = [manifest.require(where) for where in locations]
    require_addable(runs, listener)
    with executor_here(options, TRAINING) as executor:
        runner = Runner(executor, listener, MemoryWatch(), Broker.of(options.memory_limit), options.workers)
        pre_tokens = [require_counted(run, executor).facts.different_pre_tokens for run in runs]
        mixed = weigh(locations, weights, executor, mixture)
        grant, team = runner.reserve(wanted=2 * COMBINE_BYTES + WRITE_BYTES), runner.threads
    sizes = [run.counter_path.stat().st_size for run in runs]
    columns = len(runs) * min(_PARTITION_BYTES, max(sizes)) * (team + 1)
    memory = grant.taken_bytes + grant.worker_bytes + min(COMBINE_BYTES, columns) + WRITE_BYTES
    shares = ", and as much while its shares are joined" if sum(sizes) >= 2 * SHARE_BYTES else ""
    facts = {
        "runs": f"{len(runs):,}, whose counters are {format_bytes(sum(sizes))}",
        **{
            name: f"{format_bytes(size)} x {by}, {share:.2%} of what is learned from"
            for name, size, by, share in rows_of(list(map(str, locations)), mixed)
        },
        "time": f"about {duration(_START_S + _ROW_S * (sum(pre_tokens) + max(pre_tokens)) / team)}",
        "different pre-tokens": f"{max(pre_tokens):,} to {sum(pre_tokens):,}",
        "disk": f"{format_bytes(max(sizes))} to {format_bytes(sum(sizes))} for the counter{shares}",
        "memory": _range(memory),
        "memory limit": format_bytes(grant.limit_bytes),
    }
    shown = Facts(facts, "plan")
    return replace(shown, short=str(shown))


def _described(runner: Runner, run: Run, options: TrainOptions) -> dict[str, str]:
    pattern, nodes, plan, first = pattern_of(options), runner.nodes, run.manifest.plan, options.first_stage
    workers = runner.reserve(len(plan.chunks))
    cutter = pattern.automaton or RegexCutter(pattern)
    counter = _core.ChunkCounter(cutter, list(special_bytes(run.manifest.counting)), form=pattern.form)
    sample_bytes = _SLOW_SAMPLE_BYTES if on_regex(pattern) else _SAMPLE_BYTES
    counted = sample(plan, options.text_field, counter, sample_bytes)
    judge = DocumentJudge.of(run.manifest.counting)
    if counted is not None and judge.sample is not None:
        counted = replace(counted, share=judge.sample)
    size = ", ".join(
        [format_count(len(plan.files), "files"), format_bytes(corpus_bytes(plan.files))]
        + ([] if counted is None else [f"about {format_bytes(counted.text_bytes)} of text"])
    )
    on_each = " on each node" if nodes else ""
    largest = max((chunk.bytes for chunk in plan.chunks), default=0)
    return {
        "run": str(run.directory),
        "corpus": size,
        "chunks": f"{len(plan.chunks):,}, the largest {format_bytes(largest)}",
        "workers": f"{workers.count} on {format_count(len(nodes), 'nodes')}" if nodes else f"{workers.count}",
        **(_UNKNOWN if counted is None else _forecasts(runner, run, workers, counted, options)),
        "memory limit": f"{format_bytes(workers.limit_bytes)}{on_each}",
        **({} if judge.sample is None else {"sample": f"{judge.sample:.3g} of the documents, seed {judge.seed}"}),
        **({} if judge.max_document_chars is None else {"longer documents": _CUT.format(judge.max_document_chars)}),
        **({} if first is None else {"superwords": f"from {first:,} tokens on: {_SECOND_COUNT}"}),
        "vocabulary": f"{' and '.join(f'{size:,}' for size in options.vocab_size)} tokens, pattern {options.pattern}",
    }


def _forecasts(runner: Runner, run: Run, workers: Grant, counted: Sample, options: TrainOptions) -> dict[str, str]:
    """Forecast time, disk and memory from a sample that was counted here and now, and from counters that exist."""
    plan = run.manifest.plan
    whole, *parts = look_at([run.counter, *run.chunk_counters()], runner.executor)
    text_share = counted.text_bytes / max(plan.bytes, 1)  # of what is read
    counters = [
        (part.rows, part.pre_token_bytes) if part else counted.pre_tokens(chunk.bytes * text_share)
        for chunk, part in zip(plan.chunks, parts, strict=True)
    ]
    pre_tokens, pre_token_bytes = (
        (whole.rows, whole.pre_token_bytes) if whole else counted.pre_tokens(counted.text_bytes)
    )
    missing = [chunk.bytes for chunk, part in zip(plan.chunks, parts, strict=True) if not (whole or part)]
    counting_s = counted.counting_s * max(sum(missing) / workers.count, *missing, 0) / max(plan.bytes, 1)
    rows = sum(one for one, _ in counters)
    team = runner.threads
    combining_s = _ROW_S * (rows + pre_tokens) / team if len(counters) > 1 and not whole else 0.0
    disk = sum(_counter_bytes(*counter) for counter in counters) + _counter_bytes(pre_tokens, pre_token_bytes)
    in_table = max(_TABLE_BYTES + _SLOT_BYTES * one + size for one, size in counters)
    each = workers.worker_bytes + min(workers.bytes - WRITE_BYTES, int(in_table)) + WRITE_BYTES
    combining = (
        len(counters) * min(_PARTITION_BYTES, max(_counter_bytes(*counter) for counter in counters)) * (team + 1)
    )
    counting = workers.taken_bytes + max(
        workers.on_one * each, workers.worker_bytes + min(COMBINE_BYTES, int(combining)) + WRITE_BYTES
    )
    merging, merging_s, of_merging = _merging(runner, counted, workers, (pre_tokens, pre_token_bytes), options)
    merging += workers.other_bytes
    of_stages = f"counting {duration(counting_s + combining_s)}, merging {duration(merging_s)}"
    time_s = _START_S + counting_s + combining_s + merging_s
    exist = (
        "and the counter that exists" if whole else f"and {len(parts) - len(missing)} counters" if any(parts) else ""
    )
    source = f"from a sample of {format_bytes(counted.points[1][0])} {exist}".rstrip()
    return {
        "time": f"{duration(_LOW * time_s)} to {duration(_HIGH * time_s)} ({of_stages}), {source}",
        "different pre-tokens": f"about {float(f'{pre_tokens:.2g}'):,.0f}, {format_bytes(pre_token_bytes)}",
        "disk": _range(disk, "for counters"),
        "memory while counting": _range(counting),
        "memory while merging": _range(merging, of_merging),
    }


def _range(size: float, what: str = "") -> str:
    return f"{format_bytes(_LOW * size)} to {format_bytes(_HIGH * size)} {what}".rstrip()


def _counter_bytes(pre_tokens: float, pre_token_bytes: float) -> float:
    """Return the size of a counter's file: lengths and counts are packed."""
    return pre_token_bytes + _PACKED_BYTES * pre_tokens + _FILE_BYTES


def _merging(
    runner: Runner, counted: Sample, workers: Grant, size: tuple[float, float], options: TrainOptions
) -> tuple[int, float, str]:
    """Forecast memory and time of merging a counter that is like the sample's, and say how it merges.

    size: of the counter, in pre-tokens and their bytes.
    """
    merges, (pre_tokens, pre_token_bytes) = merges_for(options), size
    tally = _core.CountTally(options.min_pre_token_count)
    tally.add(counted.columns)
    of_sample = forecast.shape_of(tally, merges, options.min_pre_token_count)
    grown = pre_tokens / counted.points[1][1]
    text_grown = counted.text_bytes / counted.points[1][0]
    shape = replace(
        of_sample,
        pre_tokens=int(pre_tokens),
        bytes=int(pre_token_bytes),
        slots=int(of_sample.slots * grown),
        rare=min(of_sample.rare * grown / max(text_grown, 1e-9), 1.0),
        first_positions=int(of_sample.first_positions * grown),
        compact_positions=int(of_sample.compact_positions * grown),
        longest_list=int(of_sample.longest_list * grown),
    )
    budget_bytes = workers.limit_bytes - workers.other_bytes
    team = runner.threads
    way = forecast.choose(shape, merges, threads=team, budget_bytes=budget_bytes)
    engine, started = _core.MergeEngine(), time.monotonic()
    engine.add(*counted.columns)
    engine.run(merges, MergeRules(tie_break=options.tie_break), threads=team)
    sample_s = time.monotonic() - started  # merging takes time for different pre-tokens
    seconds = sample_s * max(grown, 1) * (way.times_longer if way else 1.0)
    if way is None:
        return forecast.least(merges, shape), seconds, "at least, which is more than the limit"
    return way.bytes, seconds, f"in about {way.passes} passes over words on disk" if way.passes else ""
