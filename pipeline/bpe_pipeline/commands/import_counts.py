"""`import-counts` and `train_from_counts`: counts that exist already become a run that `merge` continues with.

What is imported is read in batches and written as counters in parts, so neither its size nor its order matters.
"""

import hashlib
import io
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError, TrainingError, UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands import report
from bpe_pipeline.commands.learn import keep_ids, merge_and_export
from bpe_pipeline.corpus.files import reading
from bpe_pipeline.counts import import_worker
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counted import Counted
from bpe_pipeline.counts.counter_file import PartPath, Parts
from bpe_pipeline.counts.counts_file import MOST_COUNT, counts_in
from bpe_pipeline.counts.elsewhere import take_counts
from bpe_pipeline.counts.import_worker import State, TakeTask
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.run.manifest import Manifest, Run
from bpe_pipeline.run.memory import WRITE_BYTES
from bpe_pipeline.run.open_run import special_bytes
from bpe_pipeline.run.options import ImportOptions, TrainOptions
from bpe_pipeline.run.patterns import cut_by, pattern_of
from bpe_pipeline.run.runner import Runner, Stage, opened
from bpe_pipeline.run.source import Source
from bpe_pipeline.storage import Location, Remote, open_file, parse_location
from bpe_pipeline.tokenizer.export import Trained, check_before_work

STAGE = "importing"
_PART_SHARE = 4  # counts that wait to be written take one in this many bytes of a worker's budget
_READ_BYTES = 1 << 20
_OWN_OF_PROCESSES = ("/dev/fd/", "/dev/std", "/proc/")


def train_on(counts: Any, options: TrainOptions, executor: Executor, listener: Listener) -> tuple[Summary, Trained]:
    """Import counts, merge and export."""
    check_before_work(options, listener)
    with _imported(counts, options, executor, listener) as (runner, run, counted):
        keep_ids(runner, run, options)
        return merge_and_export(runner, run, counted, options)


def run_import(counts: Any, options: ImportOptions, executor: Executor, listener: Listener) -> Summary:
    """Import and report."""
    with _imported(counts, options, executor, listener) as (runner, run, counted):
        return report.write_summary(runner, run, counted)


@contextmanager
def _imported(
    counts: Any, options: ImportOptions, executor: Executor, listener: Listener
) -> Iterator[tuple[Runner, Run, Counted]]:
    """Import; the block works in the run directory."""
    paths = _paths(counts)
    with opened(options, executor, listener) as (runner, directory):
        runner.kept = None
        directory.refuse_corpus_inside(str(path.absolute() if isinstance(path, Path) else path) for path in paths)
        states, source = _source_of_files(paths) if paths else ([], _source_of_objects(counts))
        read = partial(_read, runner, counts=list(zip(paths, states, strict=True)) or counts, options=options)
        new = Run(directory, Manifest(options.of_stage("count"), cut_by(pattern_of(options)), source=source))
        with take_counts(runner, new, options, read) as (run, counted):
            yield runner, run, counted


def _paths(counts: Any) -> list[Location]:
    """The files of counts, or none where the counts themselves are given."""
    if isinstance(counts, Mapping) or hasattr(counts, "schema"):
        return []
    names = [counts] if isinstance(counts, str | PathLike | Remote) else counts
    if not isinstance(names, Iterable) or isinstance(names, AbstractSet | bytes | bytearray):
        raise UsageError(
            f"counts are given as {type(counts).__name__}; give a mapping, a path, a list of paths, or a pyarrow Table"
        )
    paths = []
    for name in names:
        try:
            paths.append(parse_location(name))
        except ValueError as error:
            raise UsageError(f"{str(name)[:200]!r} is no file of counts: expected {error}") from None
    if not paths:
        raise UsageError("import needs files of counts; name one or more")
    doubled = next((path for path in paths if paths.count(path) > 1), None)
    if doubled is not None:
        raise UsageError(f"{doubled} is named twice; its counts would be added to themselves: name it once")
    return paths


def _source_of_files(paths: Sequence[Location]) -> tuple[list[State], Source]:
    """Return size and time of change of each file as it was digested, and what all of them are."""
    states, digests = [], []
    for path in paths:
        with reading(str(path)):
            if isinstance(path, Path) and not path.is_dir():  # others cannot be read twice, or not in a worker
                of_process = str(path.absolute()).startswith(_OWN_OF_PROCESSES)
                if of_process or not stat.S_ISREG(path.stat().st_mode):
                    raise InputError(f"{path} is not a regular file: save its content to a file and name that")
            with io.BufferedReader(open_file(path), _READ_BYTES) as file:
                states.append(file.raw.state()[:2])
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    description = ", ".join(map(str, paths[:3])) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return states, Source(manifest.IMPORTED, fingerprint(sorted(digests)), description)


def _source_of_objects(counts: Any) -> Source:
    """The digest is a sum over the pre-tokens, so their order means nothing, and a pre-token given twice counts as
    one."""
    total = 0
    for batch in counts_in(counts):
        for pre_token, number in zip(batch.pre_tokens, batch.counts, strict=True):
            total += number * int.from_bytes(hashlib.blake2b(pre_token, digest_size=24).digest())
    kind = "a mapping" if isinstance(counts, Mapping) else "a table"
    return Source(manifest.IMPORTED, f"{total % (1 << 192):048x}", kind)


def _read(runner: Runner, run: Run, part_path: PartPath, counts: Any, options: ImportOptions) -> Parts:
    """Read the counts into counters of a bounded size. counts: a list of files with their states, or an object."""
    files: Sequence[tuple[Location, State]] = counts if isinstance(counts, list) else ()
    workers = runner.reserve(len(files))
    work_bytes = workers.bytes - WRITE_BYTES
    task = TakeTask(
        path=Path(),
        special_tokens=special_bytes(run.manifest.counting),
        pattern=pattern_of(options),
        part=part_path(0),
        fingerprint=run.manifest.counter_fingerprint(),
        part_bytes=work_bytes // _PART_SHARE,
        budget_bytes=work_bytes - work_bytes // _PART_SHARE,
        grant=workers,
        copies=_PART_SHARE / (_PART_SHARE - 1),
    )
    if files:
        tasks = [replace(task, path=path, state=state, part=part_path(i)) for i, (path, state) in enumerate(files)]
        sizes = [size for _, (size, _) in files]
        taken = runner.run(Stage(STAGE, "bytes", import_worker.take_file, tasks, sizes, grant=workers))
    else:
        with runner.reporting(STAGE, 1, "sources"):
            taken = [import_worker.take(counts_in(counts), task)]
    rows, pre_tokens = sum(counters.rows for counters in taken), sum(counters.pre_tokens for counters in taken)
    if rows == 0:
        raise InputError("there is not a single count to import; give at least one pre-token with its count")
    if pre_tokens > MOST_COUNT:
        raise TrainingError("the counts add up to more than 2^63 - 1; give smaller counts")
    otherwise = sum(counters.cut_otherwise for counters in taken)
    if otherwise:
        example = next(counters.example for counters in taken if counters.cut_otherwise)
        runner.warn(
            f"the pattern {options.pattern} would split {format_count(otherwise, 'pre-tokens')} of {rows:,} "
            f"differently, such as {example[:60].decode(errors='backslashreplace')!r}: the tokenizer will not find "
            "them whole; name the pattern that split them with --pattern"
        )
    return Parts(
        [(part, task.fingerprint) for counters in taken for part in counters.parts],
        ChunkStatistics(pre_tokens=pre_tokens),
    )
