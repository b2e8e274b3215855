"""The stories of `import` and of `export --counts`: counts that came from elsewhere, and counts that go there.

Imported counts become an ordinary run that `merge` goes on with. What is imported is read in batches and written as
counters in parts, so that neither its size nor its order matters.
"""

import hashlib
import io
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from pipeline.base.errors import InputError, TrainingError, UsageError
from pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted, warn_of
from pipeline.base.units import format_count, parse_location
from pipeline.commands.train import Stages, at_work, directory_for, first_tokenizer, merge_and_export
from pipeline.corpus.formats import compression_marked
from pipeline.counts import count, counts_file, import_worker, sources
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.counts_file import MOST_COUNT, Batch
from pipeline.counts.import_worker import State, Taken, TakeTask
from pipeline.counts.sources import Opened
from pipeline.executors import Executor
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.report.summary import Summary
from pipeline.run import directory as run_directory
from pipeline.run import manifest, memory, plan
from pipeline.run.manifest import Run, Source
from pipeline.run.options import Options, make_options
from pipeline.run.workers import executor_here, worker_count
from pipeline.storage import Location, Remote, named, open_file
from pipeline.storage.atomic import whole_file
from pipeline.tokenizer.export import Trained, check_before_work
from pipeline.tokenizer.tokenizer import Tokenizer

STAGE = "importing"
_PART_SHARE = 4  # counts that wait to be written take one in so many bytes of a worker's room
_BAND_SHARE = 4  # pieces that are sorted take one in so many bytes of the room: filtered, joined, taken, as text
_MOST_BAND_BYTES = 256 << 20
_READ_BYTES = 1 << 20
_OWN_OF_PROCESSES = ("/dev/fd/", "/dev/std", "/proc/")
_Result = TypeVar("_Result")


def train_from_counts(counts: Any, **options: Any) -> Tokenizer:
    """Train a tokenizer on counts that exist already and return it.

    counts: a mapping from pieces (bytes, or text) to how often each occurs, such as `collections.Counter`; or a path
        or URI, or several, of TSV or Parquet files (see `pipeline.counts.counts_file`); or a pyarrow Table or
        RecordBatch
        with the columns `piece` and `count`.
    options: as of `pipeline.train`. `pattern` and `special_tokens` say what cut the pieces; the tokenizer will cut so.
        A piece that the pattern would not leave whole is worth a warning.

    Raises `InputError` naming the place of a count that is not positive or a piece that cannot be one, `TrainingError`
    for counts that add up to more than 2^63 - 1; and as `train` does.
    """
    settled = make_options(options)
    check_before_work(settled, compile_pattern(settled.pattern))

    def finish(*done: Any) -> Trained:
        run, *others = done
        return merge_and_export(manifest.with_merging(run, settled), *others)[1]

    with executor_here(settled) as executor:
        return first_tokenizer(_import(counts, settled, executor, warn_of, finish))


def import_counts(counts: Any, **options: Any) -> Location:
    """Make a run of counts that exist already, as `bpe-pipeline import` does; gives its directory.

    counts, options: as `train_from_counts` takes them. `merge_run` goes on with the run.
    """
    settled = make_options(options)
    with executor_here(settled) as executor:
        return run_import(counts, settled, executor, warn_of).directory


def run_import(counts: Any, options: Options, executor: Executor, listener: Listener) -> Summary:
    """Import and report."""
    return _import(counts, options, executor, listener, _summary)


def _summary(run: Run, counted: count.Counted, *others: Any) -> Summary:
    *_, listener, stages = others
    found: Summary = stages.summary(run, counted, listener)
    return found


def _import(
    counts: Any, options: Options, executor: Executor, listener: Listener, finish: Callable[..., _Result]
) -> _Result:
    """Import, then `finish(run, counted, pattern, options, executor, listener, stages)` while the run is locked."""
    if options.inputs is not None:
        raise UsageError("inputs are not read where counts are given; leave them out")
    pattern = compile_pattern(options.pattern, timeout_s=options.pattern_timeout)
    paths = _paths(counts)
    directory = directory_for(options)
    with at_work(directory, options, executor, listener) as stages:
        stages.untouched = True
        run_directory.refuse_corpus_inside(directory, (_absolute(path) for path in paths))
        states, source = _source_of_files(paths) if paths else ([], _source_of_batches(counts))
        cutting = plan.cut_by(pattern)
        opened = sources.open_run(directory, options.of_stage("count"), cutting, source, overwrite=options.overwrite)
        counted = None if opened.is_new else count.counted(opened.run, executor)
        if counted is None:
            files = list(zip(paths, states, strict=True))
            counted = _take(opened, counts, files, pattern, options, executor, listener, stages)
        stages.untouched = False
        with stages.logged(opened.run):
            return finish(opened.run, counted, pattern, options, executor, listener, stages)


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


def _absolute(path: Location) -> str:
    return str(path.absolute() if isinstance(path, Path) else path)


def _source_of_files(paths: Sequence[Location]) -> tuple[list[State], Source]:
    """Size and time of change of each file as it was digested, and what all of them are."""
    states, digests = [], []
    for path in paths:
        try:
            _require_regular(path)
            with io.BufferedReader(open_file(path), _READ_BYTES) as file:
                compression = compression_marked(file.peek(16)[:16])
                if compression != "none":
                    raise InputError(f"{path} is compressed with {compression}: decompress it and name the result")
                states.append(file.raw.state())
                digests.append(path.suffix + hashlib.file_digest(file, "sha256").hexdigest())
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}; give a readable file") from None
    description = ", ".join(map(str, paths[:3])) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return states, Source("counts", manifest.fingerprint(sorted(digests)), description)


def _require_regular(path: Location) -> None:
    """Raise `InputError` for a pipe or a device, which cannot be read twice, or is another one in a worker."""
    if not isinstance(path, Path) or path.is_dir():
        return
    if not stat.S_ISREG(path.stat().st_mode) or str(path.absolute()).startswith(_OWN_OF_PROCESSES):
        raise InputError(f"{path} is not a regular file: save its content to a file and name that")


def _source_of_batches(counts: Any) -> Source:
    """The digest is a sum over the pieces, so their order means nothing, and a piece given twice counts as one."""
    total = 0
    for batch in _batches(counts):
        for piece, number in zip(batch.pieces, batch.counts, strict=True):
            total += number * int.from_bytes(hashlib.blake2b(piece, digest_size=24).digest())
    kind = "a mapping" if isinstance(counts, Mapping) else "a table"
    return Source("counts", f"{total % (1 << 192):048x}", kind)


def _batches(counts: Any) -> Iterable[Batch]:
    if isinstance(counts, Mapping):
        return import_worker.mapping_counts(counts)
    return counts_file.table_counts(counts)


def _take(
    opened: Opened,
    counts: Any,
    files: Sequence[tuple[Location, State]],
    pattern: CompiledPattern,
    options: Options,
    executor: Executor,
    listener: Listener,
    stages: Stages,
) -> count.Counted:
    started = time.monotonic()
    run = opened.run
    with sources.beside(run) as place:
        whole = memory.budget(options.memory_limit)
        workers = whole.workers(max(1, min(worker_count(options), len(files))))
        room = whole.room(workers) - memory.WRITE_BYTES
        task = TakeTask(
            path=Path(),
            special_tokens=plan.special_bytes(run.manifest),
            pattern=replace(pattern, tree=None),
            part=place.part(0),
            fingerprint=run.manifest.counter_fingerprint(),
            part_bytes=room // _PART_SHARE,
            room_bytes=room - room // _PART_SHARE,
            limit_bytes=whole.limit_bytes,
            shares=workers * _PART_SHARE / (_PART_SHARE - 1),
        )
        if files:
            listener(StageStarted(STAGE, sum(size for _, (size, _) in files), "bytes"))
            tasks = [replace(task, path=path, state=state, part=place.part(i)) for i, (path, state) in enumerate(files)]
            taken = executor.run(
                import_worker.take_file, tasks, lambda amount: listener(Advanced(STAGE, amount)), at_once=workers
            )
            found = [one for _, one in sorted(taken, key=lambda pair: pair[0])]
        else:
            listener(StageStarted(STAGE, 1, "sources"))
            found = [import_worker.take(_batches(counts), task)]
        if not any(one.rows for one in found):
            raise InputError("there is not a single count to import; give at least one piece with its count")
        if sum(one.pieces for one in found) > MOST_COUNT:
            raise TrainingError("the counts add up to more than 2^63 - 1; give smaller counts")
        _tell_of_otherwise(found, options, listener)
        statistics = ChunkStatistics(pieces=sum(one.pieces for one in found))
        parts = [(part, task.fingerprint) for one in found for part in one.parts]
        rows = sources.combine_parts(run, parts, place, statistics, options, executor)
        stages.untouched = False
        sources.settle(opened, place)
    elapsed_s = time.monotonic() - started
    listener(StageEnded(STAGE, elapsed_s))
    stages.times[STAGE] = elapsed_s
    return count.as_counted(run, rows, statistics, {})


def _tell_of_otherwise(found: Sequence[Taken], options: Options, listener: Listener) -> None:
    otherwise = sum(one.cut_otherwise for one in found)
    if otherwise:
        example = next(one.example for one in found if one.cut_otherwise)
        listener(
            Notice(
                "warning",
                f"{format_count(otherwise, 'pieces')} of {sum(one.rows for one in found):,} would be cut otherwise by "
                f"the pattern {options.pattern}, such as {example[:60].decode(errors='backslashreplace')!r}: the "
                "tokenizer will not find them whole; name the pattern that cut them with --pattern",
            )
        )


def export_counts(
    run: str | PathLike[str] | Remote, path: str | PathLike[str] | Remote, *, memory_limit: int | str | None = None
) -> int:
    """Write the counts of a run for other tools; gives the number of pieces.

    path: a path or a URI; TSV, in the format that `import` reads, the most frequent piece
    first; or, where the name ends in `.parquet`, a copy of the run's combined counter. memory_limit: as of
    `pipeline.train`; with less of it the counter is read more often.

    Raises `RunDirectoryError` for a run that is not counted to its end, whose counter is damaged, or where the file
    cannot be written.
    """
    options = make_options({"workers": 1, "memory_limit": memory_limit})
    with executor_here(options) as executor:
        return run_export_counts(named(run), named(path), executor, options)


def run_export_counts(directory: Location, path: Location, executor: Executor, options: Options) -> int:
    """Write the counts of a run, in a worker."""
    whole = memory.budget(options.memory_limit)
    room = whole.room(whole.workers(1)) - memory.WRITE_BYTES
    band_bytes = min(_MOST_BAND_BYTES, room // _BAND_SHARE)
    counted = count.require_counted(manifest.require(directory), executor)
    task = counts_file.WriteTask(counted.path, counted.fingerprint, path, band_bytes)
    if path.suffix == ".parquet":
        list(executor.run(counts_file.read_whole, [task]))  # a damaged counter is not passed on
        with (
            whole_file(path, counts_file.EXPORT_REMEDY) as partial,
            open_file(counted.path) as counter,
            partial.open("wb") as copy,
        ):
            shutil.copyfileobj(counter, copy, 1 << 20)
        return counted.facts.different_pieces
    [(_, rows)] = executor.run(counts_file.write_tsv, [task])
    return rows
