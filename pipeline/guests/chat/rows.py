"""Data sets and the rows of their files, in bounded memory: JSON Lines, one JSON array, CSV, Parquet, Arrow.

A row is a mapping of columns with its position: a byte of JSON Lines, the number of a row elsewhere. What is no JSON
object is skipped and counted. The cells of CSV are texts; an empty one is null, as LLaMA-Factory's reader has it.
"""

import codecs
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePath
from typing import Any, cast

from pipeline.base.errors import InputError, UsageError
from pipeline.corpus.contents import BYTE_ORDER_MARK
from pipeline.corpus.files import CorpusFile, FileSpan, damaged, opened
from pipeline.corpus.lines import TOO_LONG, lines_that_fit
from pipeline.corpus.read_budget import UNLIMITED, ReadBudget
from pipeline.corpus.readers import blocks_of_span, unchanged
from pipeline.corpus.skipped_or_altered import MOST_LINE_BYTES
from pipeline.guests.chat.align import FORMATTINGS, MESSAGES
from pipeline.run.stored import stored
from pipeline.storage import Location, is_uri, named, read_json

Found = tuple[dict[str, Any] | str, int]  # a row, or the kind of what was skipped; its position
_BLANK = " \t\r\n"
_ROWS_AT_ONCE = 256
_FIRST_ROWS = 1000
_decode = json.JSONDecoder().decode


def as_chat_file(file: CorpusFile) -> CorpusFile:
    """Return the file with the format that its rows are in; raises `InputError` for one that has no rows."""
    if file.format in ("text", "lines"):
        suffixes = [suffix.lower() for suffix in PurePath(named(file.path).name).suffixes]
        if file.format == "text" and suffixes[-1:] == [".arrow"]:
            return replace(file, format="arrow")
        if file.format == "text" and ".csv" in suffixes[-1 if file.compression == "none" else -2 :]:
            return replace(file, format="csv")
        raise InputError(
            f"{file.path} holds text, and chat data are rows: name .jsonl, .json, .csv, .parquet or .arrow files, or "
            "say what it is with --input-format jsonl"
        )
    if file.format != "jsonl" or file.compression != "none":
        return file
    with opened(file.path) as stream:
        first = stream.read_at(0, 4096).lstrip(BYTE_ORDER_MARK + _BLANK.encode())[:1]
    return replace(file, format="json") if first == b"[" else file


def read_rows(span: FileSpan, progress: Callable[[int], None], budget: ReadBudget = UNLIMITED) -> Iterator[Found]:
    """Read the rows of a span: bytes of whole lines, row groups of Parquet, or a whole file."""
    file = span.file
    if file.format in ("parquet", "arrow"):
        yield from _batch_rows(span, progress)
        return
    with blocks_of_span(span, progress, budget) as (first, blocks):
        if file.format == "json":
            yield from _array_rows(file, blocks)
        elif file.format == "csv":
            yield from _csv_rows(file, blocks)
        else:
            yield from _line_rows(file, blocks, first, budget)


def first_rows(file: CorpusFile) -> Iterator[tuple[dict[str, Any], int]]:
    """Read the first rows of a file, and their positions."""
    stop = 1 if file.format == "parquet" else file.size
    rows = islice(read_rows(FileSpan(file, 0, stop), lambda _: None), _FIRST_ROWS)
    return ((row, position) for row, position in rows if isinstance(row, dict))


def _line_rows(file: CorpusFile, blocks: Iterable[bytes], at: int, budget: ReadBudget) -> Iterator[Found]:
    for position, lines in lines_that_fit(file, blocks, at, budget):
        if lines is None:
            yield TOO_LONG, position
            continue
        for line in (lines if position else lines.removeprefix(BYTE_ORDER_MARK)).split(b"\n"):
            if line.strip():
                yield _row_of(line), position
            position += len(line) + 1


def _row_of(line: bytes) -> dict[str, Any] | str:
    try:
        try:
            row = _decode(line.decode("utf-8", "surrogatepass"))
        except ValueError:
            row = json.loads(line)  # with a byte order mark, or not in UTF-8
    except (ValueError, RecursionError):
        return "records_not_json"
    return row if isinstance(row, dict) else "records_not_json"


def _array_rows(file: CorpusFile, blocks: Iterable[bytes]) -> Iterator[Found]:
    """Read the members of an array, one after the other; an unfinished one waits for the next block."""
    member, unfinished = json.JSONDecoder().raw_decode, ValueError("its array does not end")
    text, number, started = "", 0, False
    try:
        for more in codecs.iterdecode(blocks, "utf-8-sig"):
            text, at = (text + more, 0) if started else ((text + more).lstrip(), 1)
            started = started or bool(text)
            while True:
                while text[at : at + 1] in ("", ",", *_BLANK) and at < len(text):
                    at += 1
                if at >= len(text) or text[at] == "]":
                    break
                try:
                    row, stop = member(text, at)
                except ValueError as error:
                    if len(text) - at > MOST_LINE_BYTES:
                        raise
                    unfinished = error
                    break
                yield (row if isinstance(row, dict) else "records_not_json"), number
                number, at = number + 1, stop
            text = text[at:]
        if text[:1] != "]":
            raise unfinished if text else ValueError("its array does not end")
    except (ValueError, RecursionError) as error:
        raise damaged(file.path, f"read as JSON after {number:,} rows", error) from None


def _csv_rows(file: CorpusFile, blocks: Iterable[bytes]) -> Iterator[Found]:
    number = 0
    csv.field_size_limit(MOST_LINE_BYTES)
    try:
        for row in csv.DictReader(_text_lines(blocks), strict=True):
            if cast("dict[str | None, Any]", row).pop(None, None) is not None:
                raise ValueError("a row has more cells than there are columns")
            yield {column: cell or None for column, cell in row.items()}, number
            number += 1
    except (ValueError, csv.Error) as error:
        raise damaged(file.path, f"read as CSV after {number:,} rows", error) from None


def _text_lines(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a text with their ends; raises `ValueError` for one that is too long."""
    rest = ""
    for text in codecs.iterdecode(blocks, "utf-8-sig"):
        *lines, rest = (rest + text).split("\n")
        if len(rest) > MOST_LINE_BYTES:
            raise ValueError("a line is too long")
        yield from (line + "\n" for line in lines)
    yield rest


def _batch_rows(span: FileSpan, progress: Callable[[int], None]) -> Iterator[Found]:
    """Read the rows of Parquet or Arrow; of Parquet those of row groups, whose sizes are what progress adds up to."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file, start, stop = span
    number, left = 0, file.size
    with unchanged(file) as stream:
        try:
            if file.format == "parquet":
                parquet = pq.ParquetFile(stream)
                groups = list(map(parquet.metadata.row_group, range(stop)))
                number = sum(group.num_rows for group in groups[:start])
                left = sum(group.total_byte_size for group in groups[start:])
                batches = parquet.iter_batches(_ROWS_AT_ONCE, row_groups=range(start, stop), use_threads=False)
            elif stream.read_at(0, 6) == b"ARROW1":  # a file of batches, which has a mark
                table = pa.ipc.open_file(stream)
                batches = map(table.get_batch, range(table.num_record_batches))
            else:  # a stream of them, as `datasets` writes it
                batches = pa.ipc.open_stream(stream)
            for batch in batches:
                for at in range(0, len(batch), _ROWS_AT_ONCE):
                    for row in batch.slice(at, _ROWS_AT_ONCE).to_pylist():
                        yield row, number
                        number += 1
                progress(done := min(batch.nbytes, left))
                left -= done
        except (pa.ArrowException, OSError) as error:
            raise damaged(file.path, f"read as {file.format.capitalize()}", error) from None
    progress(left)


_ELSEWHERE = ("hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name")


@dataclass(frozen=True)
class DataSet:
    """One data set; columns and tags as in dataset_info.json. nullable: columns that a row may lack."""

    name: str
    inputs: tuple[str, ...]
    formatting: str = "alpaca"
    columns: dict[str, str | None] | None = None
    tags: dict[str, str | None] | None = None
    num_samples: int | None = None
    nullable: tuple[str, ...] = ()


def listed_data_sets(path: Location, names: Sequence[str]) -> list[DataSet]:
    """Return the data sets of these names in a dataset_info.json; raises `UsageError` naming what is wrong."""
    try:
        listed = read_json(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--dataset-info {path} cannot be read: {reason}") from None
    found = []
    for name in names:
        if not isinstance(listed, dict) or not isinstance(listed.get(name), dict):
            known = ", ".join(list(listed)[:20]) if isinstance(listed, dict) else "none"
            raise UsageError(f"{path} has no data set {name!r}: it has {known}; name one with --dataset")
        found.append(_entry(path, name, listed[name]))
    return found


def _entry(path: Location, name: str, entry: Mapping[str, Any]) -> DataSet:
    where = f"{path}: data set {name!r}"
    elsewhere, file = [key for key in _ELSEWHERE if key in entry], entry.get("file_name")
    if elsewhere or not isinstance(file, str):
        raise UsageError(f"{where} is not a local file ({', '.join(elsewhere) or 'no file_name'}): save it as a file")
    if entry.get("ranking"):
        raise UsageError(f"{where} is for preferences (ranking), which have two answers: name one for sft")
    try:
        found = stored(DataSet, {**entry, "name": name, "inputs": [], "nullable": []})
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    if found.formatting not in FORMATTINGS:
        raise UsageError(f"{where}: formatting {found.formatting!r} is none of {', '.join(FORMATTINGS)}")
    if found.num_samples is not None and found.num_samples < 1:
        raise UsageError(f"{where}: num_samples must be a whole number from 1")
    return replace(found, inputs=(file if is_uri(file) else str(path.parent / file),))


def recognised(file: CorpusFile, found: Sequence[str], inputs: tuple[str, ...]) -> DataSet:
    """Return the data set of files without dataset_info.json, whose formatting the columns of the first one show."""
    columns: dict[str, str | None] = {name: name for name in ("system", "tools") if name in found}
    if "messages" in found:
        return DataSet("inputs", inputs, MESSAGES, columns | {"messages": "messages"})
    if "conversations" in found:
        return DataSet("inputs", inputs, "sharegpt", columns | {"messages": "conversations"})
    if {"instruction", "output"} <= set(found):
        optional = {"query": "input", "history": "history"}
        columns |= {name: column for name, column in optional.items() if column in found}
        return DataSet("inputs", inputs, "alpaca", columns | {"prompt": "instruction", "response": "output"})
    raise InputError(
        f"{file.path} has the columns {', '.join(found) or 'none'}: chat data have messages, conversations, or "
        "instruction and output; say what they are with --dataset-info and --dataset"
    )
