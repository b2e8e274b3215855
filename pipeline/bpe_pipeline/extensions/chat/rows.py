"""The rows of chat data files, in bounded memory: JSON Lines, other JSON, Parquet, Arrow.

A row is a mapping of columns with its position: a byte of JSON Lines, the number of a row elsewhere. What is no JSON
object is skipped and counted. Other JSON are arrays of rows, and rows over several lines, one after the other. Of
Parquet and Arrow only the columns that are needed are read; a null in a struct there stands for an absent member.
"""

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus.contents import BYTE_ORDER_MARK
from bpe_pipeline.corpus.files import CorpusFile, FileSpan, damaged
from bpe_pipeline.corpus.formats.lines import TOO_LONG, lines_that_fit
from bpe_pipeline.corpus.read_budget import SMALL_BYTES, UNLIMITED, ReadBudget
from bpe_pipeline.corpus.readers import blocks_of_span, unchanged
from bpe_pipeline.corpus.skipped_or_altered import MOST_LINE_BYTES
from bpe_pipeline.executors import ignore
from bpe_pipeline.storage import OpenFile

Record = tuple[dict[str, Any] | str, int]  # a row, or the kind of what was skipped; its position
# Record batches, the names of all columns, the number of the first row, and what progress adds up to.
_Batches = tuple[Iterable[Any], list[str], int, int]
_BLANK = " \t\r\n"
_BLANKS = re.compile(f"[{_BLANK}]*")
_AFTER: dict[str, dict[str, str]] = {  # what is awaited in JSON, and what is awaited after a mark there
    "value": {"[": "member or end"},
    "member or end": {"]": "value"},
    "member": {},
    "comma": {",": "member", "]": "value"},
}
_ROWS_AT_ONCE, _BATCH_BYTES = 256, 4 << 20
_HEAD_BYTES = 1 << 16
_ROW_COPIES = 32  # of a row that is larger than `SMALL_BYTES`: as read and decoded, its texts and its ids
_member = json.JSONDecoder().raw_decode


def as_chat_file(file: CorpusFile) -> CorpusFile:
    """Return the file with the format that its rows are in; raises `InputError` for one that has no rows."""
    if file.format not in _READERS:
        raise InputError(
            f"{file.path} holds {file.kind.title}, and chat data are rows: name .jsonl, .json, .parquet or .arrow "
            "files, or say what it is with --input-format jsonl"
        )
    if file.kind.compresses_itself:
        return file
    stop = file.size if file.compression != "none" else min(file.size, _HEAD_BYTES)
    with blocks_of_span(FileSpan(file, 0, stop), ignore) as (_, blocks):
        head = next(blocks, b"")[:_HEAD_BYTES]
    if b"\0" in head[:4]:
        raise InputError(
            f"{file.path} is not UTF-8: convert it, such as with iconv -f UTF-16 -t UTF-8 FILE > rows.jsonl"
        )
    return replace(file, format="json") if _over_several_lines(head) else file


def _over_several_lines(head: bytes) -> bool:
    """Return whether JSON starts with an array, or with an object that is not one line that ends with a line feed."""
    text = head.removeprefix(BYTE_ORDER_MARK).decode(errors="replace").lstrip(_BLANK)
    try:
        first = text[: _member(text)[1]]
    except (ValueError, RecursionError):  # not all of it is in the head
        first = text.partition("\n")[0].strip()
        return first[:1] == "[" or first == "{"
    return first[0] == "[" or "\n" in first or "\r" in text.partition("\n")[0].rstrip()


def read_rows(
    span: FileSpan, progress: Callable[[int], None], names: Collection[str], budget: ReadBudget = UNLIMITED
) -> Iterator[Record]:
    """Read the rows of a span: bytes of whole lines, row groups of Parquet, or a whole file. names: columns to read."""
    file, read = span.file, _READERS[span.file.format]
    if file.kind.compresses_itself:
        yield from _batch_rows(read, span, progress, names, budget)
        return
    with blocks_of_span(span, progress, budget) as (first, blocks):
        yield from read(file, blocks, first, budget)


def rows_of(file: CorpusFile, names: Collection[str], budget: ReadBudget) -> Iterator[tuple[dict[str, Any], int]]:
    """Read the rows of a file, and their positions."""
    rows = read_rows(FileSpan(file, 0, file.size), ignore, names, budget)
    return ((row, position) for row, position in rows if isinstance(row, dict))


def _hold_row(file: CorpusFile, position: int, size: int, budget: ReadBudget, most: int = 0) -> None:
    """Hold what reading and encoding a row of that many bytes takes; `TrainingError` if it does not fit the budget.

    most: bytes that the row may have in the end, if it is not read to its end.
    """
    held = 0 if size <= SMALL_BYTES else _ROW_COPIES * size
    if not budget.hold("row", held):
        what = f"{file.location(position)}: a row of {'up to ' if most else ''}{format_bytes(max(size, most))}"
        raise budget.too_large("row", _ROW_COPIES * max(size, most), what)


def _line_rows(file: CorpusFile, blocks: Iterable[bytes], at: int, budget: ReadBudget) -> Iterator[Record]:
    for position, lines in lines_that_fit(file, blocks, at, budget, _ROW_COPIES):
        if lines is None:
            yield TOO_LONG, position
            continue
        for line in (lines if position else lines.removeprefix(BYTE_ORDER_MARK)).split(b"\n"):
            if line.strip():
                yield _row_of(line), position
            position += len(line) + 1


def _row_of(line: bytes) -> dict[str, Any] | str:
    try:
        row = json.loads(line)  # also with a byte order mark, or not in UTF-8
    except (ValueError, RecursionError):
        return "records_not_json"
    return row if isinstance(row, dict) else "records_not_json"


def _value_rows(file: CorpusFile, blocks: Iterable[bytes], _at: int, budget: ReadBudget) -> Iterator[Record]:
    """Read values, one after the other, and the members of arrays; an unfinished one waits for more blocks."""
    text, number, awaited, wanted = "", 0, "value", 0
    try:
        for more in chain(codecs.iterdecode(blocks, "utf-8-sig"), ("",)):  # an empty text at the end
            text, at = text + more, 0
            while not more or len(text) >= wanted:
                at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
                mark = text[at : at + 1]
                if not mark:
                    break
                if mark in _AFTER[awaited]:
                    awaited, at = _AFTER[awaited][mark], at + 1
                    continue
                if awaited == "comma":
                    raise ValueError(f"a comma is missing before {text[at : at + 20]!r}")
                try:
                    row, stop = _member(text, at)
                except json.JSONDecodeError as error:
                    wanted = (len(text) - at) * 3 // 2  # a long member is not tried again with every block
                    if not more or len(text) - at > MOST_LINE_BYTES:
                        raise ValueError(f"{error.msg} at {text[error.pos : error.pos + 20]!r}") from None
                    _hold_row(file, number, len(text) - at, budget, _most_row_bytes(file))
                    break
                _hold_row(file, number, stop - at, budget)
                yield (row if isinstance(row, dict) else "records_not_json"), number
                number, at, wanted = number + 1, stop, 0
                awaited = "value" if awaited == "value" else "comma"
            text = text[at:]
        if awaited != "value":
            raise ValueError("its array does not end")
    except (ValueError, RecursionError) as error:
        raise damaged(file.path, f"read as JSON after {number:,} rows", error) from None


def _most_row_bytes(file: CorpusFile) -> int:
    return min(file.size, MOST_LINE_BYTES) if file.compression == "none" else MOST_LINE_BYTES


def _parquet_batches(span: FileSpan, stream: OpenFile, names: Collection[str]) -> _Batches:
    from bpe_pipeline.corpus.parquet import parquet_file

    parquet = parquet_file(stream)
    groups = list(map(parquet.metadata.row_group, range(min(span.stop, parquet.num_row_groups))))
    before, groups = groups[: span.start], groups[span.start :]
    read = partial(parquet.iter_batches, columns=_of(parquet.schema_arrow.names, names), use_threads=False)
    sizes = enumerate(map(_batch_size, groups), span.start)
    batches = chain.from_iterable(read(size, row_groups=[group]) for group, size in sizes)
    first, total = sum(group.num_rows for group in before), sum(group.total_byte_size for group in groups)
    return batches, parquet.schema_arrow.names, first, total


def _arrow_batches(span: FileSpan, stream: OpenFile, _names: Collection[str]) -> _Batches:
    import pyarrow as pa

    batches: Any
    if stream.read_at(0, 6) == b"ARROW1":  # a file of batches, which has a mark
        table = pa.ipc.open_file(stream)
        schema, batches = table.schema, map(table.get_batch, range(table.num_record_batches))
    else:  # a stream of them, as `datasets` writes it
        batches = pa.ipc.open_stream(stream)
        schema = batches.schema
    return batches, schema.names, 0, span.file.size


def _batch_rows(
    open_batches: Callable[[FileSpan, OpenFile, Collection[str]], _Batches],
    span: FileSpan,
    progress: Callable[[int], None],
    names: Collection[str],
    budget: ReadBudget,
) -> Iterator[Record]:
    """Read the rows of Parquet or Arrow; of Parquet those of row groups, whose sizes are what progress adds up to."""
    import pyarrow as pa

    file = span.file
    with unchanged(file) as stream:
        try:
            batches, all_names, number, left = open_batches(span, stream, names)
            nulls = dict.fromkeys(all_names)
            for batch in batches:
                large = batch.nbytes > SMALL_BYTES
                what = f"{file.path}: the batch of {format_bytes(batch.nbytes)} with row {number}"
                budget.require("batch", batch.nbytes if large else 0, what)
                rows = batch.select(_of(batch.schema.names, names))
                for at in range(0, len(rows), step := 1 if large else _ROWS_AT_ONCE):
                    some = rows.slice(at, step)
                    _hold_row(file, number, some.nbytes if large else 0, budget)
                    for row in some.to_pylist():
                        yield nulls | {name: _without_nulls(value) for name, value in row.items()}, number
                        number += 1
                progress(done := min(batch.nbytes, left))
                left -= done
        except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:  # a key: a name used twice
            raise damaged(file.path, f"read as {file.kind.title}", error) from None
    progress(left)


def _of(all_names: Iterable[str], names: Collection[str]) -> list[str]:
    return [name for name in all_names if name in names]


def _batch_size(group: Any) -> int:
    """Return how many rows of a row group are decoded at once."""
    return int(max(min(_BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1), _ROWS_AT_ONCE), 1))


def _without_nulls(value: Any) -> Any:
    """Return a value without members that are null: Arrow has them in every struct where one row has them."""
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


_READERS: dict[str, Any] = {  # by the format of a file
    "jsonl": _line_rows,
    "json": _value_rows,
    "parquet": _parquet_batches,
    "arrow": _arrow_batches,
}
