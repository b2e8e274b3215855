"""Pre-token counts of other tools: Parquet files, mappings and tables.

A file or a table has the columns `pre_token` (text or bytes) and `count` (whole numbers). Files are read in batches of
bounded size. Errors name the file and the number of the row.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus import pages
from bpe_pipeline.corpus.files import opened
from bpe_pipeline.corpus.read_budget import UNLIMITED, ReadBudget
from bpe_pipeline.storage import Location, OpenFile

BATCH_ROWS = 1 << 16
MOST_COUNT = (1 << 63) - 1
COUNT_WANTED = "a whole number from 1 to 2^63 - 1"
_BATCH_BYTES = 16 << 20
_COPIES = 10  # of a pre-token until it is written, and of a batch
_ROW_BYTES = 160  # of a pre-token in a batch, besides its bytes


@dataclass(frozen=True)
class Batch:
    """Some pre-tokens and their counts, not yet checked; `location(i)` is the location of the i-th for messages."""

    pre_tokens: Sequence[bytes]
    counts: Sequence[int]
    location: Callable[[int], str]


def read_counts(path: Location, budget: ReadBudget = UNLIMITED) -> Iterator[Batch]:
    """Read the pre-token counts in a Parquet file within a memory budget."""
    import pyarrow as pa

    try:
        with opened(path) as stream:
            yield from _read_parquet(path, stream, budget)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{path} is no Parquet file that can be read ({str(error).splitlines()[0]})") from None


def _batch_bytes(budget: ReadBudget) -> int:
    """Return the bytes of a batch, of which half of the budget holds the copies."""
    if budget.left_bytes is None:
        return _BATCH_BYTES
    return max(min(_BATCH_BYTES, budget.left_bytes // (2 * _COPIES)), 1)


def shown(text: bytes) -> str:
    """Return the start of a text for messages."""
    return repr(text[:60].decode(errors="backslashreplace"))


def _read_parquet(path: Location, stream: OpenFile, budget: ReadBudget) -> Iterator[Batch]:
    from bpe_pipeline.corpus.columns import plain
    from bpe_pipeline.corpus.parquet import PAGE_COPIES, parquet_file

    file = parquet_file(stream)
    _require_columns(file.schema_arrow, str(path))
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


def counts_in(counts: Any) -> Iterator[Batch]:
    """Read the pre-token counts in a pyarrow Table or RecordBatch, or a mapping from pre-tokens (bytes or text) to
    numbers."""
    if isinstance(counts, Mapping):
        items = iter(counts.items())
        while rows := list(islice(items, BATCH_ROWS)):
            location = partial(lambda rows, index: f"the count of {str(rows[index][0])[:60]!r}", rows)
            yield Batch([_as_bytes(key) for key, _ in rows], [_as_count(*row) for row in rows], location)
        return
    _require_columns(counts.schema, "the table")
    first = 1
    for batch in counts.select(["pre_token", "count"]).to_batches() if hasattr(counts, "to_batches") else [counts]:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            yield _arrow_batch(part["pre_token"], part["count"], "the table", first + start)
        first += batch.num_rows


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
        raise InputError(f"the count of {str(key)[:60]!r} is {count!r:.60}, not {COUNT_WANTED}") from None


def _require_columns(schema: Any, name: str) -> None:
    import pyarrow.types as types

    from bpe_pipeline.corpus.columns import is_text

    if any(schema.names.count(column) != 1 for column in ("pre_token", "count")):
        raise InputError(f"{name} needs the columns pre_token and count; it has {', '.join(schema.names) or 'none'}")
    for column, fits, wanted in (("pre_token", is_text, "text or bytes"), ("count", types.is_integer, "whole numbers")):
        kind = schema.field(column).type
        if not fits(kind):
            raise InputError(f"{name}: the column {column} is of type {kind}, not {wanted}")


def _arrow_batch(pre_token: Any, count: Any, name: str, first: int) -> Batch:
    """Convert Arrow columns, of counts as far as there are pre-tokens; `first` is the number of their first row, from
    1."""
    pre_tokens, counts = pre_token.to_pylist(), count.slice(0, len(pre_token)).to_pylist()
    if None in pre_tokens or None in counts:
        row = min(column.index(None) for column in (pre_tokens, counts) if None in column)
        raise InputError(f"{name}, row {first + row} has no pre-token or no count")
    as_bytes = [pre_token.encode() if isinstance(pre_token, str) else pre_token for pre_token in pre_tokens]
    return Batch(as_bytes, counts, lambda i: f"{name}, row {first + i}")
