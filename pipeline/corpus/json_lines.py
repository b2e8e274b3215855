"""JSON Lines: blocks of bytes -> documents, one per line, whose text is one field of the record.

Blocks of whole lines go through Arrow's reader, with a schema of that one field. Where Arrow refuses a block, or might
read it otherwise than line by line, the standard `json` takes it record by record and decides. What Arrow accepts,
`json` accepts with the same texts, so no result depends on where blocks begin. Records that are not documents are
reported with their kind and position.

Texts are the bytes of the file: invalid UTF-8 is left to the errors policy. An escaped lone surrogate (which UTF-8
cannot hold) becomes one invalid byte, so the policy sees one invalid sequence.
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
from pipeline.corpus.lines import LINE, read_lines
from pipeline.corpus.read_budget import SMALL_BYTES, UNLIMITED, ReadBudget
from pipeline.corpus.records import Records, skipped_records

_BLANK = b" \t\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INVALID_BYTE = b"\xff"
_SOLID = re.compile(rb"[^ \t\r\n]")
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
_RECORD = "record"  # in the budget
_JSON_COPIES = 3  # for `json`: the record, its text in Unicode, and as bytes again
_JSON_VALUE_BYTES, _JSON_OBJECT_BYTES, _JSON_KEY_BYTES = 40, 80, 150  # of a list or object; list, object; key
_decoder = json.JSONDecoder(parse_int=float)  # numbers are never text, and `int` refuses those of many digits


def read_json_lines(
    file: CorpusFile, blocks: Iterable[bytes], at: int, text_field: str, budget: ReadBudget = UNLIMITED
) -> Iterator[Records]:
    """Read the records in blocks that begin at offset `at` of the file's text, at the start of a line.

    Raises `InputError` for JSON that is not JSON Lines: one array, or one object over several lines; `TrainingError`
    for a line or record over the budget.
    """
    names = tuple(text_field.split("."))
    is_first = at == 0

    def parse(lines: bytes, start: int) -> Records | None:
        nonlocal is_first
        if start == 0 and lines.startswith(_BYTE_ORDER_MARK):
            start = len(_BYTE_ORDER_MARK)
            lines = lines[start:]
        if _SOLID.search(lines) is None:
            return None
        if is_first:
            _refuse_other_json(file, lines)
            is_first = False
        return parse_lines(lines, start, names, budget, file.location)

    for records in read_lines(file, blocks, at, budget, parse):
        yield records
        del records
        budget.hold(_RECORD, 0)


def _refuse_other_json(file: CorpusFile, lines: bytes) -> None:
    """Raise `InputError` if the first line is only the beginning of a value, or a whole array."""
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
    names: tuple[str, ...],
    budget: ReadBudget = UNLIMITED,
    location: Callable[[int], str] = str,
) -> Records:
    """Return the records of whole lines, the first of which starts at offset `at`.

    names: the path to the text field. budget: for what `json` makes of a record. location: of an offset, in messages.
    """
    position = _positions(lines, at)
    if (b"\\ud" in lines or b"\\uD" in lines) and _LONE_SURROGATE.search(lines):
        lines = _SURROGATES.sub(lambda found: _INVALID_BYTE if found[1] else found[0], lines)
    tidy = _tidy(lines)
    column = None if tidy is None else _by_arrow(*tidy, names)
    if column is None:
        return _by_json(lines, position, names, budget, location)
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


def _tidy(lines: bytes) -> tuple[bytes, int] | None:
    """Return lines that each look like one `{...}`, and their number; None if some do not.

    If every line begins and ends with a brace, Arrow cannot read a record over several lines: after `}` no object or
    array continues with `{`. A line with two records shows in the number of records.
    """
    if b"\0" in lines or _ODD_NUMBER.search(lines):  # Arrow's text would end at a NUL
        return None
    count = lines.count(b"\n") + (not lines.endswith(b"\n"))
    joints = (lines.count(b"}\n{"), lines.count(b"}\r\n{"))
    if lines.startswith(b"{") and lines.endswith((b"}\n", b"}", b"}\r\n")) and count - 1 in joints:
        return lines, count
    stripped = _stripped(lines)
    if all(line.startswith(b"{") and line.endswith(b"}") for line in stripped):
        return b"\n".join(stripped), len(stripped)
    return None


def _stripped(lines: bytes) -> list[bytes]:
    return [line for line in (line.strip(_BLANK) for line in lines.split(b"\n")) if line]


@cache
def _parse_options(names: tuple[str, ...]) -> Any:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    kind = pa.binary()
    for name in reversed(names):
        kind = pa.struct([pa.field(name, kind)])
    return arrow_json.ParseOptions(
        explicit_schema=pa.schema(list(kind)), newlines_in_values=False, unexpected_field_behavior="ignore"
    )


def _by_arrow(lines: bytes, count: int, names: tuple[str, ...]) -> Any | None:
    """Return the column of texts, null where there is none; None if Arrow refuses the lines."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    from pipeline.corpus.columns import nested

    if count == 0:
        return pa.array([], pa.binary())
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(lines), reading, _parse_options(names))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return nested(table.column(0).combine_chunks(), names[1:]) if table.num_rows == count else None


def _by_json(
    lines: bytes,
    position: Callable[[int], int],
    names: tuple[str, ...],
    budget: ReadBudget,
    location: Callable[[int], str],
) -> Records:
    """Read the lines with the standard `json`, one at a time."""
    if len(lines) > SMALL_BYTES:
        budget.hold(LINE, 2 * len(lines))  # what Arrow used is free again
    texts: list[bytes] = []
    skipped: dict[str, list[int]] = {}
    for row, record in enumerate(_stripped(lines)):
        needed = _json_bytes(record)
        if needed > 4 * SMALL_BYTES:
            what = f"{location(position(row))}: the record of {format_bytes(len(record))} that begins here"
            budget.require(_RECORD, needed, what)
        text, kind = _text_of(record, names)
        texts.append(text)
        if kind:
            skipped.setdefault(kind, []).append(row)
    offsets = array("q", accumulate(map(len, texts), initial=0))
    return Records(len(texts), offsets, b"".join(texts), 8, position, skipped_records(skipped, position))


def _json_bytes(record: bytes) -> int:
    """Return an upper bound of what `json` takes for a record: characters, values, keys."""
    wide = 1 if record.isascii() and b"\\u" not in record else 4
    structure = (
        record.count(b",") * _JSON_VALUE_BYTES
        + (record.count(b"[") + record.count(b"{")) * _JSON_OBJECT_BYTES
        + record.count(b":") * _JSON_KEY_BYTES
    )
    return len(record) * (_JSON_COPIES + 2 * wide) + structure


def _text_of(record: bytes, names: tuple[str, ...]) -> tuple[bytes, str]:
    """Return the text of a record, or nothing and the kind of skipped record that it is."""
    try:
        value = _decoder.decode(record.decode(errors="surrogateescape"))
    except RecursionError:  # Arrow knows no depth, so what it accepts in a block must be accepted here
        column = _by_arrow(record, 1, names) if _tidy(record) is not None else None
        if column is None:
            return b"", "records_not_json"
        text = column[0].as_py()
        return (b"", "records_without_field") if text is None else (text, "")
    except ValueError:
        return b"", "records_not_json"
    if not isinstance(value, dict):
        return b"", "records_not_json"
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return b"", "records_without_field"
    if not isinstance(value, str):
        return b"", "records_not_text"
    return value.encode(errors="surrogateescape"), ""
