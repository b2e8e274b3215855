"""Check counts of other programs and write them as counters, in parts of bounded size.

A Parquet file of them has the columns `pre_token` (text or bytes) and `count` (whole numbers), in any order, and a
pre-token may be in several rows. Runs in a worker process for files, in the caller's process for a mapping. Errors name
the file and the row.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, PatternTimeoutError, TrainingError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus import pages
from bpe_pipeline.corpus.files import opened
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.counts.counter_file import MOST_COUNT, PRE_TOKENS, counter_partitions, write_counter
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.storage import Location, OpenFile, sha256_of

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20
_COPIES = 10  # of a pre-token until it is written, and of a batch
_ROW_BYTES = 160  # of a pre-token in a batch, besides its bytes
_COUNT_WANTED = "a whole number from 1 to 2^63 - 1"


@dataclass(frozen=True)
class ForeignTask:
    """Counts of another program for a worker, and what their pre-tokens must be.

    counts: a file, or a mapping. key: the file's digest. pre_tokens: what they are in the run, in JSON. part: the parts
    are named after it; part_bytes: memory of the counts that become one part. budget_bytes: memory for reading.
    """

    counts: Location | Mapping[Any, Any]
    key: str
    pre_tokens: str
    special_tokens: tuple[bytes, ...]
    pattern: CompiledPattern
    part: Path
    fingerprint: str
    part_bytes: int
    budget_bytes: int | None = None
    grant: Grant | None = None
    copies: float = 1

    def __str__(self) -> str:
        return f"reading the counts in {'a mapping' if isinstance(self.counts, Mapping) else self.counts}"


@dataclass(frozen=True)
class ForeignCounts:
    """The counters made of foreign counts. cut_otherwise: pre-tokens that the pattern would cut, and an example."""

    parts: tuple[Path, ...]
    rows: int
    pre_tokens: int
    cut_otherwise: int
    example: bytes


@dataclass(frozen=True)
class Batch:
    """Some pre-tokens and their counts, not yet checked; `location(i)` is the location of the i-th for messages."""

    pre_tokens: Sequence[bytes]
    counts: Sequence[int]
    location: Callable[[int], str]


def read_foreign(task: ForeignTask) -> ForeignCounts:
    """Write the counts of a file or a mapping as counters; `InputError` for what cannot be a count, with its location.

    Pre-tokens that occur several times are added up.
    """
    counts, parts = task.counts, list[Path]()
    rows = pre_tokens = cut = 0
    example = b""
    counter = _core.ChunkCounter(lambda text: [text], [])  # of pre-tokens that were cut elsewhere

    def write_part() -> None:
        parts.append(path := task.part.with_name(f"{task.part.stem}.{len(parts):04d}.part"))
        write_counter(path, counter_partitions(counter), fingerprint=task.fingerprint)
        counter.clear_counts()

    budget = ReadBudget(task.budget_bytes, lambda _: None, task.grant, task.copies)
    batches = counts_in(counts) if isinstance(counts, Mapping) else read_parquet(counts, budget, task.pre_tokens)
    for batch in batches:
        if fault := next(_faults(batch, task.special_tokens), ""):
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
    if not isinstance(counts, Mapping) and sha256_of(counts) != task.key:
        raise InputError(f"{counts} changed while it was read; combine it again when no one writes it")
    return ForeignCounts(tuple(parts), rows, pre_tokens, cut, example)


def read_parquet(path: Location, budget: ReadBudget, pre_tokens: str = "{}") -> Iterator[Batch]:
    """Read the counts in a Parquet file within a memory budget; `InputError` for a counter of other pre-tokens."""
    import pyarrow as pa

    try:
        with opened(path) as stream:
            yield from _read_parquet(path, stream, budget, pre_tokens)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{path} is no Parquet file that can be read ({str(error).splitlines()[0]})") from None


def _read_parquet(path: Location, stream: OpenFile, budget: ReadBudget, pre_tokens_are: str) -> Iterator[Batch]:
    from bpe_pipeline.corpus.columns import plain
    from bpe_pipeline.corpus.parquet import PAGE_COPIES, parquet_file

    file = parquet_file(stream)
    _require_columns(file.schema_arrow, path)
    _require_alike(path, file.metadata.metadata or {}, pre_tokens_are)
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    chunks = [
        {chunk.path_in_schema: chunk for chunk in map(group.column, range(group.num_columns))} for group in groups
    ]
    if any(columns["pre_token"].has_dictionary_page for columns in chunks):  # a few of its bytes may become very many
        file = parquet_file(stream, read_dictionary=["pre_token"])
    first = 1
    for number, columns in enumerate(chunks):
        if not groups[number].num_rows:
            continue  # without pages: their offsets are undefined
        pre_token, count = (pages.sizes(stream, columns[name]) for name in ("pre_token", "count"))
        held = pre_token.page + pre_token.dictionary + count.page + count.dictionary
        what = f"{path}, row group {number}: a page with its dictionary of {format_bytes(held)}"
        budget.require("page", PAGE_COPIES * held, what)
        batch_bytes = _batch_bytes(budget)
        rows = pre_token.rows(batch_bytes, min(BATCH_ROWS, 1 + batch_bytes // (_ROW_BYTES // _COPIES)))
        for batch in file.iter_batches(rows, row_groups=[number], columns=["pre_token", "count"], use_threads=False):
            counts = batch.column("count")
            for pre_tokens in plain(batch.column("pre_token"), batch_bytes):
                if len(pre_tokens) == 1:
                    what = f"{path}, row {first}: the pre-token of {format_bytes(pre_tokens.nbytes)}"
                    budget.require("pre-token", _COPIES * pre_tokens.nbytes, what)
                yield _arrow_batch(pre_tokens, counts, str(path), first)
                counts = counts.slice(len(pre_tokens))
                first += len(pre_tokens)


def _batch_bytes(budget: ReadBudget) -> int:
    """Return the bytes of a batch, of which half of the budget holds the copies."""
    if budget.left_bytes is None:
        return _BATCH_BYTES
    return max(min(_BATCH_BYTES, budget.left_bytes // (2 * _COPIES)), 1)


def _require_columns(schema: Any, path: Location) -> None:
    import pyarrow.types as types

    from bpe_pipeline.corpus.columns import is_text

    if any(schema.names.count(column) != 1 for column in ("pre_token", "count")):
        raise InputError(f"{path} needs the columns pre_token and count; it has {', '.join(schema.names) or 'none'}")
    for column, fits, wanted in (("pre_token", is_text, "text or bytes"), ("count", types.is_integer, "whole numbers")):
        kind = schema.field(column).type
        if not fits(kind):
            raise InputError(f"{path}: the column {column} is of type {kind}, not {wanted}")


def _require_alike(path: Location, metadata: Mapping[bytes, bytes], pre_tokens_are: str) -> None:
    """Raise `InputError` for a counter of ours that says that its pre-tokens are others."""
    there, here = (json.loads(text) for text in (metadata.get(PRE_TOKENS, pre_tokens_are), pre_tokens_are))
    for name in (name for name in there if there[name] != here.get(name, there[name])):
        raise InputError(
            f"{path} has other pre-tokens: {name} is {there[name]!r} there and {here[name]!r} here; give the "
            "options that it was counted with, or combine the run that it is of"
        )


def _arrow_batch(pre_token: Any, count: Any, name: str, first: int) -> Batch:
    """Convert Arrow columns, of counts as far as there are pre-tokens. first: the number of the first row, from 1."""
    pre_tokens, counts = pre_token.to_pylist(), count.slice(0, len(pre_token)).to_pylist()
    if None in pre_tokens or None in counts:
        row = min(column.index(None) for column in (pre_tokens, counts) if None in column)
        raise InputError(f"{name}, row {first + row} has no pre-token or no count")
    as_bytes = [pre_token.encode() if isinstance(pre_token, str) else pre_token for pre_token in pre_tokens]
    return Batch(as_bytes, counts, lambda i: f"{name}, row {first + i}")


def counts_in(counts: Mapping[Any, Any]) -> Iterator[Batch]:
    """Read the counts in a mapping from pre-tokens, bytes or text, to numbers."""
    items = iter(counts.items())
    while rows := list(islice(items, BATCH_ROWS)):
        location = partial(lambda rows, index: f"the count of {str(rows[index][0])[:60]!r}", rows)
        yield Batch([_as_bytes(key) for key, _ in rows], [_as_count(*row) for row in rows], location)


def _as_bytes(key: object) -> bytes:
    if isinstance(key, bytes):
        return key
    wrong = f"is of type {type(key).__name__}, not str or bytes"
    if isinstance(key, str):
        with suppress(UnicodeEncodeError):
            return key.encode()
        wrong = "holds a lone surrogate; give its bytes instead"
    raise InputError(f"the pre-token {str(key)[:60]!r} {wrong}")


def _as_count(key: object, count: Any) -> int:
    try:
        return operator.index(count)
    except TypeError:
        raise InputError(f"the count of {str(key)[:60]!r} is {count!r:.60}, not {_COUNT_WANTED}") from None


def _faults(batch: Batch, special_tokens: Iterable[bytes]) -> Iterator[str]:
    """Yield what of a batch is no pre-token with its count, each with its location."""
    for index, (pre_token, count) in enumerate(zip(batch.pre_tokens, batch.counts, strict=True)):
        if not 1 <= count <= MOST_COUNT:
            yield f"{batch.location(index)}: the count {count} is not {_COUNT_WANTED}; leave the pre-token out"
        if not pre_token:
            yield f"{batch.location(index)}: the pre-token is empty; leave it out"
    joined = b"".join(batch.pre_tokens)
    for token in (token for token in special_tokens if token in joined):  # hardly ever, for all pre-tokens at once
        for index, pre_token in enumerate(batch.pre_tokens):
            if token in pre_token:
                yield (
                    f"{batch.location(index)}: {_shown(pre_token)} holds the special token {_shown(token)}, "
                    "which is never counted; leave it out, or choose other special tokens"
                )


def _shown(text: bytes) -> str:
    return repr(text[:60].decode(errors="backslashreplace"))


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
