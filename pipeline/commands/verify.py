"""The story of `verify`: everything in a run directory that can be checked, is.

Checksums of all counters and of the merge list; the combined counter against those of the chunks; every merge against
a second, plain implementation; the tokenizers' files against the merge list, byte by byte. Nothing is written. It says
what it checked, or raises at the first thing that is wrong.
"""

import tempfile
import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pipeline.base.errors import RunDirectoryError, TrainingError
from pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted, warn_of
from pipeline.base.units import format_bytes, format_count
from pipeline.executors import Executor
from pipeline.merges import forecast, replay_worker
from pipeline.merges.merge_list import MergeList
from pipeline.merges.replay_worker import ReplayTask, Sum, SumTask
from pipeline.pattern import compile_pattern
from pipeline.run import manifest, memory
from pipeline.run.ids import merge_budget, with_pad_token
from pipeline.run.manifest import Run
from pipeline.run.options import Options, make_options
from pipeline.run.work import watched
from pipeline.run.workers import executor_here, worker_count
from pipeline.storage import Location, exists, named
from pipeline.storage.bounded import read_bounded
from pipeline.tokenizer.export import export_model, model_of
from pipeline.tokenizer.formats.save import write_model

_READING, _REPLAYING = "reading", "replaying"
_MODULUS = 1 << 64


def verify_run(run: str | PathLike[str], **options: Any) -> dict[str, str]:
    """Verify a run directory as `bpe-pipeline verify` does; gives what was verified, by name.

    options: `workers`, `memory_limit`. Raises `RunDirectoryError` naming the first thing that is wrong,
    `TrainingError` where there is not memory enough.
    """
    settled = make_options(options)
    with executor_here(settled) as executor:
        return run_verify(named(run), settled, executor, warn_of)


def run_verify(directory: Location, options: Options, executor: Executor, listener: Listener) -> dict[str, str]:
    """Verify counters, merge list and tokenizers. No other process should work on the run meanwhile."""
    with watched(options.memory_limit, listener):
        return _verify(manifest.require(directory), options, executor, listener)


def _verify(run: Run, options: Options, executor: Executor, listener: Listener) -> dict[str, str]:
    verified = {"run": f"{run.directory}, {_origin(run)}"}
    whole = _verify_counters(run, options, executor, listener, verified)
    if run.manifest.merging is None or not exists(run.merges_path):
        homes = _homes(run)
        if homes:
            raise RunDirectoryError(f"{run.merges_path} is missing, but {homes[0]} is there; run merge again")
        return verified | {"merges": "none were learned yet"}
    merges = _verify_merges(run, whole, options, executor, listener, verified)
    _verify_tokenizers(run, merges, options, verified)
    return verified


def _origin(run: Run) -> str:
    if run.manifest.source is not None:
        return f"counts from {run.manifest.source.description}"
    plan = run.manifest.plan
    return f"{format_count(len(plan.files), 'files')}, {format_count(len(plan.chunks), 'chunks')}"


def _verify_counters(
    run: Run, options: Options, executor: Executor, listener: Listener, verified: dict[str, str]
) -> Sum:
    """Read every counter, and hold the combined one against the others; gives what it holds."""
    plan, chunks = run.manifest, range(len(run.manifest.plan.chunks))
    whole_budget = memory.budget(options.memory_limit)
    workers = whole_budget.workers(min(worker_count(options), 1 + len(chunks)))
    room = whole_budget.room(workers)
    tasks = [SumTask(run.counter_path, plan.counter_fingerprint(), room)] + [
        SumTask(run.chunk_path(index), plan.chunk_fingerprint(index), room) for index in chunks
    ]
    started = time.monotonic()
    listener(StageStarted(_READING, len(tasks), "counters"))
    sums: dict[int, Sum] = {}
    for index, found in executor.run(replay_worker.add_up, tasks, at_once=workers):
        sums[index] = found
        listener(Advanced(_READING, 1))
    listener(StageEnded(_READING, time.monotonic() - started))
    whole, parts = sums.pop(0), list(sums.values())
    verified["counter"] = f"{whole.pieces:,} pieces, {whole.rows:,} different; checksums and order are right"
    if parts:
        for name in ("pieces", "bytes", "digest"):
            together = sum(getattr(part, name) for part in parts) % _MODULUS
            if together != getattr(whole, name):
                raise RunDirectoryError(
                    f"{run.counter_path} is not the sum of the counters in {run.directory / 'counts'}: their "
                    f"{name} are {together:,}, its {getattr(whole, name):,}; remove it and run again, which "
                    "combines them anew"
                )
        verified["chunks' counters"] = f"{len(parts):,}; checksums are right, and their sum is the counter"
    return whole


def _verify_merges(
    run: Run, whole: Sum, options: Options, executor: Executor, listener: Listener, verified: dict[str, str]
) -> MergeList:
    merging = run.manifest.merging or {}
    room, together = _room_for("replaying the merges", whole.replay_bytes, f"{whole.rows:,} different pieces", options)
    task = ReplayTask(
        counter=run.counter_path,
        counter_fingerprint=run.manifest.counter_fingerprint(),
        merges=run.merges_path,
        fingerprint=run.manifest.merge_fingerprint(),
        tie_break=merging["tie_break"],
        min_frequency=merging["min_frequency"],
        max_token_bytes=merging["max_token_bytes"],
        min_piece_count=merging.get("min_piece_count") or 1,
        budget_bytes=room,
    )
    [(_, stored)] = executor.run(replay_worker.load, [task])
    listener(Notice("info", f"replaying {len(stored):,} merges; it takes about {format_bytes(together)} of memory"))
    started = time.monotonic()
    listener(StageStarted(_REPLAYING, len(stored), "merges"))
    [(_, merges)] = executor.run(replay_worker.replay, [task], lambda amount: listener(Advanced(_REPLAYING, amount)))
    elapsed_s = time.monotonic() - started
    listener(StageEnded(_REPLAYING, elapsed_s))
    end = "and then no pair is left" if merges.exhausted else "as many as were asked for"
    verified["merges"] = (
        f"{len(merges):,}, each the right one with the right count, {end} (replayed in {elapsed_s:.1f} s)"
    )
    return merges


def _room_for(what: str, needed: int, of_what: str, options: Options) -> tuple[int, int]:
    """The room of one process, and what all take together with so much needed; `TrainingError` where it is too much."""
    whole = memory.budget(options.memory_limit)
    room = whole.room(1)
    together = whole.taken_bytes + memory.WORKER_BYTES + needed
    if needed > room:
        raise TrainingError(
            f"{what} would take about {format_bytes(together)} for all processes together, and there are "
            f"{format_bytes(whole.limit_bytes)}: it is of {of_what}; give --memory-limit {-(-together >> 20)}MiB"
        )
    return room, together


def _homes(run: Run) -> list[Location]:
    return [home for home in run.tokenizers() if exists(home)]


def _verify_tokenizers(run: Run, merges: MergeList, asked: Options, verified: dict[str, str]) -> None:
    """Hold every file of every tokenizer against what the merge list gives."""
    manifest_ = run.manifest
    pattern = compile_pattern(manifest_.counting["pattern"])
    homes = _homes(run)
    if run.directory / "tokenizer" not in homes:
        verified["tokenizer"] = "none"
    for name in run.directory.names_in(run.directory.location):
        if name.startswith("tokenizer-") and run.directory / name not in homes:
            verified[name] = "not one of this run's: run.json does not list it"
    for home in homes:
        size = manifest_.vocab_size if home.name == "tokenizer" else int(home.name.removeprefix("tokenizer-"))
        options = make_options({**manifest_.counting, **(manifest_.merging or {}), "vocab_size": size})
        _require_served(merges, home, options)
        tokens = options.vocab_size[0]
        needed = forecast.exporting_bytes(tokens, merges.token_bytes())
        _room_for(f"looking at {home}", needed, format_count(tokens, "tokens"), asked)
        model = model_of(merges, options.vocab_size[0], pattern, options)
        try:
            scratch = tempfile.TemporaryDirectory()
        except OSError as error:
            raise _no_scratch(error) from None
        with scratch:
            there = Path(scratch.name)
            try:
                export_model(model, there, None)
                if not (there / "tokenizer.json").exists():
                    write_model(model, there)
            except RunDirectoryError as error:
                raise _no_scratch(error.__context__ or error) from None
            compared = _compare(home, there)
            missing = sorted(path.name for path in there.iterdir() if path.name not in compared)
        verified[str(home.name)] = (
            f"{model.vocabulary.size:,} tokens; as the merge list gives them: {', '.join(compared)}"
            + (f"; not there: {', '.join(missing)}" if missing else "")
        )


def _no_scratch(error: BaseException) -> RunDirectoryError:
    """The tokenizers are written anew among temporary files, to be compared; where they cannot be, nothing is wrong."""
    reason = getattr(error, "strerror", None) or error
    return RunDirectoryError(
        f"temporary files cannot be written: {reason}; make room there, or name another directory with TMPDIR"
    )


def _require_served(merges: MergeList, home: Location, options: Options) -> None:
    wanted = merge_budget(options.vocab_size[0], with_pad_token(options.special_tokens, options.pad_token))
    if not merges.serves(wanted):
        raise RunDirectoryError(
            f"{home} needs {wanted:,} merges, but the list ends after {len(merges):,} although pairs are left; run "
            f"merge --vocab-size {options.vocab_size[0]} again"
        )


def _compare(home: Location, right: Path) -> Sequence[str]:
    """The names of the files in `home` that are as in `right`; raises for one that is not."""
    compared = []
    for expected in sorted(right.iterdir()):
        found = home / expected.name
        try:
            if not exists(found) and expected.name != "tokenizer.json":
                continue  # a format that was not asked for
            right_bytes = expected.read_bytes()
            same = read_bounded(found, len(right_bytes)) == right_bytes
        except ValueError:
            same = False  # it is longer
        except PermissionError as error:
            raise RunDirectoryError(f"{found} cannot be read: {error.strerror}; check its permissions") from None
        except OSError as error:
            raise RunDirectoryError(f"{found} cannot be read: {error.strerror or error}; run merge again") from None
        if not same:
            raise RunDirectoryError(f"{found} is not what the merge list gives; remove {home} and run merge again")
        compared.append(found.name)
    return compared
