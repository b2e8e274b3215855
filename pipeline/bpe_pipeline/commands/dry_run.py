"""`--dry-run`: the options, what would be counted or combined, and the most disk and memory that it can take."""

import json
from dataclasses import replace
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.machine import MemoryWatch
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.commands.combine import combination_asked
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.counts.combine import SHARE_BYTES
from bpe_pipeline.counts.combine_worker import COMBINE_BYTES
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.memory import WRITE_BYTES, Broker
from bpe_pipeline.run.open_run import open_run
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.plan import corpus_bytes
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.run.stored import plain
from bpe_pipeline.run.texts import mixed_texts
from bpe_pipeline.run.workers import executor_for, executor_here, nodes
from bpe_pipeline.storage import location
from bpe_pipeline.tokenizer.export import check_before_work

# Counters of chunks, and their sum, each hold a pre-token's bytes, length and count; different ones have 3 bytes or
# more on average.
_MOST_DISK = 3.5
_FOOTER_BYTES = 4096  # of a counter


def plan(options: TrainOptions, listener: Listener) -> Facts:
    """Plan a run with these options, write nothing, and return the plan as `--dry-run` prints it."""
    broker = check_before_work(options, listener)
    if options.ray and not nodes(options):
        raise UsageError("no node of the cluster has cores, so there is nothing to plan for; add one to it")
    directory = Directory(options.output or location("runs/NEW"), RUN)
    with executor_for(options, TRAINING) as executor:
        runner = Runner(executor, listener, MemoryWatch(), broker, options.workers)
        return _facts(_described(runner, open_run(runner, directory, options), options))


def _facts(facts: dict[str, str]) -> Facts:
    shown = Facts(facts, "plan")
    return replace(shown, short=str(shown))


def plan_combination(options: Any, listener: Listener) -> Facts:
    """Return what `combine --dry-run` prints: what adding these counts takes; nothing is written."""
    with executor_here(options, TRAINING) as executor:
        combination = combination_asked(options, executor, listener)
        runner = Runner(executor, listener, MemoryWatch(), Broker.of(options.memory_limit), options.workers)
        pre_tokens = [require_counted(run, executor).facts.different_pre_tokens for run in combination.runs]
        grant = runner.reserve(wanted=2 * COMBINE_BYTES + WRITE_BYTES)
    runs, texts = combination.runs, combination.manifest.texts
    files = {*combination.locations} - {run.directory.location for run in runs}
    disk = sum(path.stat().st_size for path in (*files, *(run.counter_path for run in runs)))
    shares = ", and as much while its shares are joined" if disk >= 2 * SHARE_BYTES else ""
    return _facts(
        {
            "runs": f"{len(combination.addends):,}, whose counters are {format_bytes(disk)}",
            **{
                text.name: f"{format_bytes(text.bytes)} x {text.weight}, {text.share:.2%} of what is learned from"
                for text in mixed_texts([text.name for text in texts], texts)
            },
            **({"unique pre-tokens": f"{max(pre_tokens):,} to {sum(pre_tokens):,}"} if pre_tokens else {}),
            "disk": f"at most {format_bytes(disk)} for the counter{shares}",
            "memory": f"at most {format_bytes(grant.taken_bytes + grant.need_bytes)}",
        }
    )


def _described(runner: Runner, run: Run, options: TrainOptions) -> dict[str, str]:
    nodes, files, chunks = runner.nodes, run.manifest.plan.files, run.manifest.plan.chunks
    workers = runner.reserve(len(chunks))
    judge, first = DocumentJudge.of(run.manifest.counting), options.first_size
    return {
        "run": str(run.directory),
        "options": _not_default(options),
        "corpus": f"{format_count(len(files), 'files')}, {format_bytes(corpus_bytes(files))}",
        "chunks": f"{len(chunks):,}, the largest {format_bytes(max((chunk.bytes for chunk in chunks), default=0))}",
        "workers": f"{workers.count} on {format_count(len(nodes), 'nodes')}" if nodes else f"{workers.count}",
        "disk": f"at most {_most_disk(run, counts=1 if first is None else 2)} for counters",
        "memory": f"at most {format_bytes(workers.limit_bytes)}{' on each node' if nodes else ''}",
        **({} if judge.sample is None else {"sample": f"{judge.sample:.3g} of the documents, seed {judge.seed}"}),
        **({} if first is None else {"superwords": f"from {first:,} tokens on: the corpus is read twice"}),
    }


def _not_default(options: TrainOptions) -> str:
    """Return the options that differ from their defaults, each as a configuration file may have it."""
    return ", ".join(
        f"{name}: {json.dumps(plain(value), ensure_ascii=False, default=str)}"
        for name, record in TrainOptions.records.items()
        if not record.command_only and (value := getattr(options, name)) != record.default
    )


def _most_disk(run: Run, counts: int) -> str:
    """Return the size that counters cannot exceed: in bytes, or times the text where that is compressed."""
    plan, most = run.manifest.plan, counts * _MOST_DISK
    if any(file.is_compressed for file in plan.files):
        return f"{most:g} times the decompressed text"
    return format_bytes(most * corpus_bytes(plan.files) + counts * _FOOTER_BYTES * (len(plan.chunks) + 1))
