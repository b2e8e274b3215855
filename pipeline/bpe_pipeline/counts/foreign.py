"""Counts of other programs, in Parquet files or a mapping, as terms: counters of a bounded size, next to the sum's."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from bpe_pipeline.base.errors import InputError, TrainingError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.corpus.files import opened, reading
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counter_file import MOST_COUNT, Counter, PartPath
from bpe_pipeline.counts.foreign_worker import ForeignCounts, ForeignTask, counts_in, read_foreign
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.memory import WRITE_BYTES
from bpe_pipeline.run.open_run import special_bytes
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.run.texts import Text
from bpe_pipeline.storage import Location, absolute, sha256_of

Foreign: TypeAlias = Location | Mapping[Any, Any]
STAGE = "reading counts"
_PART_SHARE = 4  # counts that wait to be written take one in this many bytes of a worker's budget


def text_of_foreign(foreign: Foreign) -> Text:
    """Return foreign counts as a text: the key of a file is its digest, that of a mapping independent of its order."""
    if isinstance(foreign, Mapping):
        total = 0
        for batch in counts_in(foreign):
            for pre_token, number in zip(batch.pre_tokens, batch.counts, strict=True):
                total += number * int.from_bytes(hashlib.blake2b(pre_token, digest_size=24).digest())
        return Text("a mapping", f"{total % (1 << 192):048x}")
    if isinstance(foreign, Path) and foreign.exists() and not foreign.is_file():
        raise InputError(f"{foreign} is not a regular file: save its content to a file and name that")
    with opened(foreign), reading(str(foreign)):
        return Text(absolute(foreign), sha256_of(foreign) or "")


def read_all(
    runner: Runner, run: Run, part_path: PartPath, foreign: Sequence[tuple[Foreign, str]]
) -> list[tuple[Sequence[Counter], ChunkStatistics]]:
    """Return counters of each of these counts of a run, which have keys, with their statistics."""
    workers = runner.reserve(len(foreign))
    work_bytes, options = workers.bytes - WRITE_BYTES, make_options(CountOptions, run.manifest.counting)
    task = ForeignTask(
        counts={},
        key="",
        pre_tokens=json.dumps(run.manifest.pre_tokens),
        special_tokens=special_bytes(run.manifest.counting),
        pattern=pattern_of(options),
        part=part_path(0),
        fingerprint=run.manifest.counter_fingerprint,
        part_bytes=work_bytes // _PART_SHARE,
        budget_bytes=work_bytes - work_bytes // _PART_SHARE,
        grant=workers,
        copies=_PART_SHARE / (_PART_SHARE - 1),
    )
    tasks = [replace(task, counts=counts, key=key, part=part_path(i)) for i, (counts, key) in enumerate(foreign)]
    read = {index: read_foreign(one) for index, one in enumerate(tasks) if isinstance(one.counts, Mapping)}
    sizes = [0 if isinstance(counts, Mapping) else counts.stat().st_size for counts, _ in foreign]
    read |= runner.each(Stage(STAGE, "bytes", read_foreign, tasks, sizes, done=[*read], grant=workers))
    counts = [read[index] for index in range(len(tasks))]
    _check(runner, counts, options.pattern)
    parts: list[Sequence[Counter]] = [[(part, task.fingerprint) for part in one.parts] for one in counts]
    return [(some, ChunkStatistics(pre_tokens=one.pre_tokens)) for some, one in zip(parts, counts, strict=True)]


def _check(runner: Runner, counts: Sequence[ForeignCounts], pattern: str) -> None:
    """Raise if there is no count, or too many; warn of pre-tokens that the pattern would split."""
    rows = sum(one.rows for one in counts)
    if rows == 0:
        raise InputError("there is not a single count to combine; give at least one pre-token with its count")
    if sum(one.pre_tokens for one in counts) > MOST_COUNT:
        raise TrainingError("the counts add up to more than 2^63 - 1; give smaller counts")
    if otherwise := sum(one.cut_otherwise for one in counts):
        example = next(one.example for one in counts if one.cut_otherwise)
        runner.warn(
            f"the pattern {pattern} would split {format_count(otherwise, 'pre-tokens')} of {rows:,} differently, such "
            f"as {example[:60].decode(errors='backslashreplace')!r}: the tokenizer will not find them whole; name the "
            "pattern that split them with --pattern"
        )
