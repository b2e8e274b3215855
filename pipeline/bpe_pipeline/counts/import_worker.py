"""Check counts from other tools and write them as counters, in parts of bounded size.

Runs in a worker process for files, in the caller's process for objects that are there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, PatternTimeoutError, TrainingError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.corpus.files import opened
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.counts.counter_file import counter_partitions, write_counter
from bpe_pipeline.counts.counts_file import COUNT_WANTED, MOST_COUNT, Batch, read_counts, shown
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.storage import Location

State: TypeAlias = tuple[int, int]  # of a file: its size and time of change (ns)


@dataclass(frozen=True)
class Taken:
    """The counters made of imported counts. cut_otherwise: pre-tokens that the pattern would cut, and an example."""

    parts: tuple[Path, ...]
    rows: int
    pre_tokens: int
    cut_otherwise: int
    example: bytes


@dataclass(frozen=True)
class TakeTask:
    """A file of pre-token counts for a worker, and what the pre-tokens must be.

    state: the file's when it was digested; None: any. part: the parts are named after it. part_bytes: memory of the
    counts that become one part. budget_bytes: memory for reading them; None: unlimited. It is one of `shares` equal
    parts of the memory limit.
    """

    path: Location
    special_tokens: tuple[bytes, ...]
    pattern: CompiledPattern
    part: Path
    fingerprint: str
    part_bytes: int
    budget_bytes: int | None = None
    grant: Grant | None = None
    copies: float = 1
    state: State | None = None

    def __str__(self) -> str:
        return f"taking the counts of {self.path}"


def take_file(task: TakeTask) -> Taken:
    """Import the counts of a file; `InputError` if it changed since it was digested."""
    budget = ReadBudget(task.budget_bytes, lambda _: None, task.grant, task.copies)
    taken = take(read_counts(task.path, budget), task)
    with opened(task.path) as stream:
        state = stream.state()[:2]
    if task.state not in (None, state):
        raise InputError(f"{task.path} changed while it was read; import it again when no one writes it")
    return taken


def take(batches: Iterable[Batch], task: TakeTask) -> Taken:
    """Check counts and write them as counters, repeated pre-tokens added; errors name the location of a count or
    pre-token."""
    parts: list[Path] = []
    rows = pre_tokens = cut = 0
    example = b""
    counter = _core.ChunkCounter(lambda text: [text], [])  # of pre-tokens that were cut elsewhere

    def write_part() -> None:
        parts.append(path := task.part.with_name(f"{task.part.stem}.{len(parts):04d}.part"))
        write_counter(path, counter_partitions(counter), fingerprint=task.fingerprint)
        counter.clear_counts()

    for batch in batches:
        for fault in _faults(batch, task.special_tokens):
            raise InputError(fault)
        try:
            counter.add_pre_tokens(batch.pre_tokens, batch.counts)
        except OverflowError:
            where = f"{batch.location(0)} and after"
            raise TrainingError(
                f"the counts of a pre-token together are more than 2^63 - 1 ({where}); give smaller counts"
            ) from None
        except ValueError as error:
            raise InputError(f"{error} ({batch.location(0)} and after)") from None
        rows += len(batch.pre_tokens)
        pre_tokens += sum(batch.counts)
        otherwise = cut_otherwise(batch.pre_tokens, task.pattern, batch.location)
        cut += len(otherwise)
        example = example or b"".join(otherwise[:1])
        if counter.memory_bytes() > task.part_bytes // 2:  # it may double before the next batch is added
            write_part()
    if len(counter):
        write_part()
    return Taken(tuple(parts), rows, pre_tokens, cut, example)


def _faults(batch: Batch, special_tokens: tuple[bytes, ...]) -> Iterator[str]:
    """Yield what of a batch is no pre-token with its count, each with its location."""
    for index, (pre_token, count) in enumerate(zip(batch.pre_tokens, batch.counts, strict=True)):
        if not 1 <= count <= MOST_COUNT:
            yield f"{batch.location(index)}: the count {count} is not {COUNT_WANTED}; leave the pre-token out"
        if not pre_token:
            yield f"{batch.location(index)}: the pre-token is empty; leave it out"
    joined = b"".join(batch.pre_tokens)
    for token in special_tokens:
        if token not in joined:  # true of most batches, for all their pre-tokens at once
            continue
        for index, pre_token in enumerate(batch.pre_tokens):
            if token in pre_token:
                yield (
                    f"{batch.location(index)}: {shown(pre_token)} holds the special token {shown(token)}, "
                    "which is never counted; leave it out, or choose other special tokens"
                )


def cut_otherwise(
    pre_tokens: Sequence[bytes], pattern: CompiledPattern, location: Callable[[int], str] = "pre-token {}".format
) -> list[bytes]:
    """Return the pre-tokens that the pattern would cut or alter, if it read the one at this location as a document."""
    cut = []
    for index, pre_token in enumerate(pre_tokens):
        try:
            text = pre_token.decode()
            ends = pattern.cut(text) if pattern.automaton is None else pattern.automaton.cut(pre_token)
            whole = len(ends) == 1 and not (pattern.nfc and nfc(text) != text)
        except UnicodeDecodeError:
            whole = False
        except PatternTimeoutError as error:
            raise PatternTimeoutError(f"{location(index)}: {error}") from None
        if not whole:
            cut.append(pre_token)
    return cut
