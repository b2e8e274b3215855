"""Blocks of bytes -> documents in bounded memory: one per line of text, or a field of each record of JSON Lines.

Only a line feed ends a line; the last need not end. As text, each line with its ending is a document, as Hugging Face's
trainers read files. A line longer than `MOST_LINE_BYTES` is skipped; a shorter one that exceeds the budget is an error.

Arrow reads JSON Lines, with a schema of the one field. Where it refuses a block, or might read it otherwise than line
by line, the standard `json` takes it record by record and decides. What Arrow accepts, `json` accepts with the same
texts, so no result depends on where blocks begin. Texts are the bytes of the file: invalid UTF-8 is left to the errors
policy, for which an escaped lone surrogate (which UTF-8 cannot hold) becomes one invalid byte.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import Any

from pipeline.base.errors import InputError
from pipeline.base.units import format_bytes
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.read_budget import SMALL_BYTES, UNLIMITED, ReadBudget
from pipeline.corpus.records import Records, SkippedRecords, joined
from pipeline.corpus.skipped_or_altered import MOST_LINE_BYTES

LINE, _RECORD = "line", "record"  # in the budget
_LINE_COPIES = 5.5  # as read, and with repairs; what Arrow makes of it
_JSON_COPIES = 3  # for `json`: the record, its text in Unicode, and as bytes again
_JSON_VALUE_BYTES, _JSON_OBJECT_BYTES, _JSON_KEY_BYTES = 40, 80, 150  # of a list or object; list, object; key
_BLANK = b" \t\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INVALID_BYTE = b"\xff"
# Where a surrogate may be escaped alone: behind a second backslash, a first half without a second, or the reverse.
_LONE_SURROGATE = re.compile(
    rb"\\(?:\\u[dD][89a-fA-F]|u[dD][89abAB]..(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB]..\\)u[dD][c-fC-F])", re.DOTALL
)  # fmt: skip
# An escaped backslash, a pair of surrogates, or (the group) a surrogate alone.
_SURROGATES = re.compile(
    rb"\\(?:\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
_ODD_NUMBER = re.compile(rb"-NaN|Inf[\s,\]}]")  # Arrow accepts them; `json` decides
_decoder = json.JSONDecoder(parse_int=float)  # numbers are never text, and `int` refuses those of many digits


def as_documents(lines: bytes, at: int) -> Records:
    """Return whole lines, the first of which starts at offset `at`, as documents."""
    lengths = list(map(len, lines.split(b"\n")))
    last = lengths.pop()  # 0 where the last line ends
    offsets = array("q", accumulate((length + 1 for length in lengths), initial=0))
    if last:
        offsets.append(len(lines))
    return Records(len(offsets) - 1, offsets, lines, 8, lambda row: at + offsets[row])


def read_lines(
    file: CorpusFile,
    blocks: Iterable[bytes],
    at: int,
    budget: ReadBudget = UNLIMITED,
    parse: Callable[[bytes, int], Records] = as_documents,
) -> Iterator[Records]:
    """Parse the lines in blocks that begin at offset `at` of the file's text, at the start of a line.

    parse: makes records of whole lines and the offset of the first. Raises `TrainingError` for a line over the budget.
    """
    for start, lines in whole_lines(blocks, at, MOST_LINE_BYTES, budget):
        if lines is None:
            yield Records(0, bytes(8), b"", 8, int, (SkippedRecords("records_too_long", 1, [start]),))
            continue
        if isinstance(lines, int):
            what = f"{file.location(start)}: the line of {format_bytes(lines)} that begins here"
            raise budget.too_large(LINE, int(_LINE_COPIES * lines), what)
        records = parse(lines, start)
        del lines
        yield records
        del records
        budget.hold(LINE, 0)


def whole_lines(
    blocks: Iterable[bytes], at: int, most_bytes: int, budget: ReadBudget = UNLIMITED
) -> Iterator[tuple[int, bytes | int | None]]:
    """Yield blocks of whole lines, each with the offset of its first; None for a line of more than `most_bytes`.

    For a shorter one that does not fit the budget, its length. Which lines are too long depends neither on the blocks,
    of at most `most_bytes` each, nor on the budget: every line is read to its end.
    """
    parts: list[bytes] = []  # of a line that has not ended, from `at` on
    held = 0  # bytes of it
    fits = True  # while it does, they are in `parts`
    for block in blocks:
        first = block.find(b"\n") + 1
        if first and (not fits or held + first - 1 > most_bytes):
            yield at, (None if held + first - 1 > most_bytes else held + first - 1)
            at += held + first
            parts, held, fits = [], 0, True
            block = block[first:]
        end = block.rfind(b"\n") + 1
        if end:
            parts.append(block[:end])
            size = held + end
            yield at, _taken(parts)
            at += size
            held = 0
        if end < len(block):
            held += len(block) - end
            if fits:
                parts.append(block[end:])
                fits = held <= most_bytes and (held <= SMALL_BYTES or budget.hold(LINE, int(_LINE_COPIES * held)))
            if not fits:
                parts.clear()
            if held > most_bytes:
                budget.hold(LINE, 0)
    if held:
        yield at, None if held > most_bytes else _taken(parts) if fits else held


def _taken(parts: list[bytes]) -> bytes:
    """Join the parts and release them."""
    whole = b"".join(parts)
    parts.clear()
    return whole


def read_json_lines(
    file: CorpusFile, blocks: Iterable[bytes], at: int, text_field: str, budget: ReadBudget = UNLIMITED
) -> Iterator[Records]:
    """Read the records in blocks that begin at offset `at` of the file's text, at the start of a line.

    Raises `InputError` for JSON that is not JSON Lines: one array, or one object over several lines; `TrainingError`
    for a line or record over the budget.
    """
    looked = at > 0  # whether the first record begins a value over several lines, or is a whole array

    def parse(lines: bytes, start: int) -> Records:
        nonlocal looked
        if start == 0 and lines.startswith(_BYTE_ORDER_MARK):
            start = len(_BYTE_ORDER_MARK)
            lines = lines[start:]
        if not looked and lines.strip():
            _refuse_other_json(file, lines)
            looked = True
        return parse_lines(lines, start, text_field, budget, file.location)

    return read_lines(file, blocks, at, budget, parse)


def _refuse_other_json(file: CorpusFile, lines: bytes) -> None:
    first = lines.lstrip(_BLANK + b"\n").partition(b"\n")[0].strip(_BLANK)
    is_array = first.startswith(b"[")
    if first == b"{" or (is_array and first[1:].lstrip(_BLANK)[:1] in (b"", b"{", b'"', b"[")):
        what = "one array" if is_array else "an object over several lines"
        raise InputError(
            f"{file.path} is JSON but not JSON Lines: it begins with {what}, and every line must be a record of its "
            f"own; convert it (jq -c {'.[]' if is_array else '.'} FILE), or take it as text with --input-format text"
        )


def parse_lines(
    lines: bytes,
    at: int,
    text_field: str,
    budget: ReadBudget = UNLIMITED,
    location: Callable[[int], str] = str,
) -> Records:
    """Return the records of whole lines of JSON, the first of which starts at offset `at`."""
    position = _positions(lines, at)
    if (b"\\ud" in lines or b"\\uD" in lines) and _LONE_SURROGATE.search(lines):
        lines = _SURROGATES.sub(lambda found: _INVALID_BYTE if found[1] else found[0], lines)
    column = _by_arrow(lines, text_field)
    if column is None:
        return _by_json(lines, position, text_field, budget, location)
    from pipeline.corpus.columns import records_of

    return records_of(column, position)


def _positions(lines: bytes, at: int) -> Callable[[int], int]:
    """Return a function from the number of a line that is not blank to its offset; they are found at first use."""

    @cache
    def starts() -> list[int]:
        split = lines.split(b"\n")
        offsets = accumulate((len(line) + 1 for line in split), initial=at)
        return [offset for offset, line in zip(offsets, split, strict=False) if line.strip(_BLANK)]

    return lambda row: starts()[row]


def _stripped(lines: bytes) -> list[bytes]:
    return [line for line in (line.strip(_BLANK) for line in lines.split(b"\n")) if line]


def _by_arrow(lines: bytes, text_field: str) -> Any | None:
    """Return the column of texts, null where there is none; None if Arrow refuses the lines or might err.

    If every line begins and ends with a brace, Arrow cannot read a record over several lines: after `}` no object or
    array continues with `{`. A line with two records shows in the number of records.
    """
    if b"\0" in lines or _ODD_NUMBER.search(lines):  # Arrow's text would end at a NUL
        return None
    count = lines.count(b"\n") + (not lines.endswith(b"\n"))
    joints = (lines.count(b"}\n{"), lines.count(b"}\r\n{"))
    if not (lines.startswith(b"{") and lines.endswith((b"}\n", b"}", b"}\r\n")) and count - 1 in joints):
        stripped = _stripped(lines)
        if not all(line.startswith(b"{") and line.endswith(b"}") for line in stripped):
            return None
        lines, count = b"\n".join(stripped), len(stripped)
    import pyarrow as pa
    from pyarrow import json as arrow_json

    from pipeline.corpus.columns import field

    kind = pa.binary()
    for name in reversed(text_field.split(".")):
        kind = pa.struct([pa.field(name, kind)])
    parsing = arrow_json.ParseOptions(
        explicit_schema=pa.schema(list(kind)), newlines_in_values=False, unexpected_field_behavior="ignore"
    )
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(lines), reading, parsing)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    batches = table.to_batches()
    return field(batches[0].to_struct_array(), text_field) if len(batches) == 1 and table.num_rows == count else None


def _by_json(
    lines: bytes,
    position: Callable[[int], int],
    text_field: str,
    budget: ReadBudget,
    location: Callable[[int], str],
) -> Records:
    """Read the lines with the standard `json`, one at a time."""
    if len(lines) > SMALL_BYTES:
        budget.hold(LINE, 2 * len(lines))  # what Arrow used is free again
    texts: list[bytes] = []
    skipped: dict[str, list[int]] = {}
    for row, record in enumerate(_stripped(lines)):
        wide = 1 if record.isascii() and b"\\u" not in record else 4
        needed = (  # an upper bound: characters, values, keys
            len(record) * (_JSON_COPIES + 2 * wide)
            + record.count(b",") * _JSON_VALUE_BYTES
            + (record.count(b"[") + record.count(b"{")) * _JSON_OBJECT_BYTES
            + record.count(b":") * _JSON_KEY_BYTES
        )
        if needed > 4 * SMALL_BYTES:
            what = f"{location(position(row))}: the record of {format_bytes(len(record))} that begins here"
            budget.require(_RECORD, needed, what)
        text, kind = _text_of(record, text_field)
        texts.append(text)
        if kind:
            skipped.setdefault(kind, []).append(row)
    records = joined(texts, skipped, position)
    budget.hold(_RECORD, 0)
    return records


def _text_of(record: bytes, text_field: str) -> tuple[bytes, str]:
    """Return the text of a record, or nothing and the kind of skipped record that it is."""
    try:
        value = _decoder.decode(record.decode(errors="surrogateescape"))
    except RecursionError:  # Arrow knows no depth, so what it accepts in a block must be accepted here
        column = _by_arrow(record, text_field)
        if column is None:
            return b"", "records_not_json"
        text = column[0].as_py()
        return (b"", "records_without_field") if text is None else (text, "")
    except ValueError:
        return b"", "records_not_json"
    if not isinstance(value, dict):
        return b"", "records_not_json"
    for name in text_field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return b"", "records_without_field"
    if not isinstance(value, str):
        return b"", "records_not_text"
    return value.encode(errors="surrogateescape"), ""
