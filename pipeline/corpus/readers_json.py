"""JSON Lines: from blocks of bytes to documents, one a line, whose text is one field of the record.

Idea: blocks of whole lines go through Arrow's reader, with a schema of that one field. Where Arrow refuses a block, or
might have understood it otherwise than line by line, the standard `json` takes it record by record and decides; what
Arrow accepts is what `json` accepts, with the same texts, so no answer depends on where blocks begin. Records that
are no documents are told with their kind and place.

Texts are bytes as they stand in the file: invalid UTF-8 is left to the counter's errors policy. An escaped lone
surrogate (which no UTF-8 can hold) becomes one invalid byte, so the policy sees one invalid sequence. A line may have
`MOST_RECORD_BYTES`: a longer one would have to be held in memory whole. One that is shorter, but has no place in the
worker's room, is no loss but an error.
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
from pipeline.corpus.lines import LINE, LINE_COPIES, whole_lines
from pipeline.corpus.losses import MOST_EXAMPLES, MOST_RECORD_BYTES
from pipeline.corpus.records import Lost, Records
from pipeline.corpus.room import SMALL_BYTES, Room, unlimited

_BLANK = b" \t\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INVALID_BYTE = b"\xff"
_SOLID = re.compile(rb"[^ \t\r\n]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
# A backslash with what it escapes; a surrogate's number is a group of its own where no pair of them stands.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
# Numbers that Arrow takes and `json` does not; `json` decides.
_ODD_NUMBER = re.compile(rb"Inf[\s,\]}]")
_RECORD = "record"  # a part of the room
_JSON_COPIES = 3  # for `json`: the record, its text in Unicode, and as bytes again
_JSON_VALUE_BYTES, _JSON_OBJECT_BYTES, _JSON_KEY_BYTES = 40, 80, 150  # of a list or object; list, object; key
_NUMBER = float  # numbers are never text, and `int` refuses those of many digits


def read_records(
    file: CorpusFile, blocks: Iterable[bytes], at: int, text_field: str, room: Room | None = None
) -> Iterator[Records]:
    """The records in blocks that begin at offset `at` of the file's text, at the start of a line.

    Raises `InputError` for a file that is JSON but no JSON Lines: one array, or one object over many lines;
    `TrainingError` for a line that has no place in the room.
    """
    room = room or unlimited()
    names = tuple(text_field.split("."))
    begun = at > 0
    for start, lines in whole_lines(blocks, at, MOST_RECORD_BYTES, room):
        if isinstance(lines, int):
            what = f"{file.place(start)}: the line of {format_bytes(lines)} that begins here"
            raise room.too_small(what, LINE, int(LINE_COPIES * lines))
        if lines is None:
            yield Records(0, b"\0" * 8, b"", 8, int, (Lost("records_too_long", 1, [start]),))
            continue
        if start == 0 and lines.startswith(_BYTE_ORDER_MARK):
            start = len(_BYTE_ORDER_MARK)
            lines = lines[start:]
        if _SOLID.search(lines) is None:
            continue
        if not begun:
            _refuse_other_json(file, lines)
            begun = True
        yield parse_lines(lines, start, names, room, file.place)
        del lines
        room.hold(_RECORD, 0)
        room.hold(LINE, 0)


def _refuse_other_json(file: CorpusFile, lines: bytes) -> None:
    """Refuse JSON whose first line is only the beginning of a value, or a whole array."""
    solid = _SOLID.search(lines)
    begin = solid.start() if solid else 0
    end = lines.find(b"\n", begin)
    first = lines[begin : end if end >= 0 else len(lines)].strip(_BLANK)
    if first == b"{" or (first.startswith(b"[") and first[1:].lstrip(_BLANK)[:1] in (b"", b"{", b'"', b"[")):
        what = "one array" if first.startswith(b"[") else "an object over several lines"
        raise InputError(
            f"{file.path} is JSON but not JSON Lines: it begins with {what}, and every line must be a record of its "
            f"own; convert it (jq -c {'.[]' if first.startswith(b'[') else '.'} FILE), or take it as text with "
            "--input-format text"
        )


def parse_lines(
    lines: bytes, at: int, names: tuple[str, ...], room: Room | None = None, shown: Callable[[int], str] = str
) -> Records:
    """The records of whole lines, the first of which begins at offset `at`.

    names: the way to the text field. room: for what `json` makes of a record; shown: a place for people.
    """
    place = _places(lines, at)
    if _has_lone_surrogates(lines):
        lines = _mended(lines)
    tidy = _tidy(lines)
    column = None if tidy is None else _by_arrow(*tidy, names)
    if column is not None:
        return _of_column(column, place)
    return _by_record(lines, place, names, room or unlimited(), shown)


def _mended(lines: bytes) -> bytes:
    """The lines with an invalid byte for each lone surrogate."""
    mended = bytearray()
    done = 0
    whole = memoryview(lines)
    for found in _ESCAPE.finditer(lines):
        if found[1] is not None:
            mended += whole[done : found.start()]
            mended += _INVALID_BYTE
            done = found.end()
    mended += whole[done:]
    return bytes(mended)


def _has_lone_surrogates(lines: bytes) -> bool:
    """Whether a surrogate may be escaped alone: false only if all that look so are pairs, none behind `\\`."""
    seen = sum(1 for _ in _SURROGATE.finditer(lines))
    if seen == 0:
        return False
    pairs = sum(lines[pair.start() - 1 : pair.start()] != b"\\" for pair in _PAIR.finditer(lines))
    return seen != 2 * pairs


def _places(lines: bytes, at: int) -> Callable[[int], int]:
    """From the number of a line that is not blank to its offset; found when first asked for."""

    @cache
    def starts() -> list[int]:
        split = lines.split(b"\n")
        offsets = accumulate((len(line) + 1 for line in split), initial=at)
        return [offset for offset, line in zip(offsets, split, strict=False) if line.strip(_BLANK)]

    return lambda row: starts()[row]


def _tidy(lines: bytes) -> tuple[bytes, int] | None:
    """Lines that are each one `{...}` by their looks, and how many; None where some are not.

    If every line begins with a brace and ends with one, Arrow cannot take a record that goes over several lines: behind
    `}` no object or array goes on with `{`. That no line has two is seen by the number of records.
    """
    if b"\0" in lines:  # would end Arrow's text
        return None
    if b"-NaN" in lines or _ODD_NUMBER.search(lines):
        return None
    count = lines.count(b"\n") + (not lines.endswith(b"\n"))
    ends = (b"}\n", b"}", b"}\r\n")
    joints = (lines.count(b"}\n{"), lines.count(b"}\r\n{"))
    if lines.startswith(b"{") and lines.endswith(ends) and count - 1 in joints:
        return lines, count
    stripped = [line for line in (line.strip(_BLANK) for line in lines.split(b"\n")) if line]
    if all(line.startswith(b"{") and line.endswith(b"}") for line in stripped):
        return b"\n".join(stripped), len(stripped)
    return None


@cache
def _options(names: tuple[str, ...]) -> tuple[Any, Any]:
    """Arrow's parse options for a field, and its module."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    kind = pa.binary()
    for name in reversed(names):
        kind = pa.struct([pa.field(name, kind)])
    options = arrow_json.ParseOptions(
        explicit_schema=pa.schema(list(kind)), newlines_in_values=False, unexpected_field_behavior="ignore"
    )
    return arrow_json, options


def _by_arrow(lines: bytes, count: int, names: tuple[str, ...]) -> Any | None:
    """The column of texts, null where there is none; None where Arrow refuses."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if count == 0:
        return pa.array([], pa.binary())
    arrow_json, options = _options(names)
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(lines), reading, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != count:
        return None
    column = table.column(0).combine_chunks()
    for name in names[1:]:
        column = pc.struct_field(column, name)
    return column


def _of_column(column: Any, place: Callable[[int], int]) -> Records:
    from pipeline.corpus.columns import buffers, null_rows

    lost: tuple[Lost, ...] = ()
    if column.null_count:
        first = null_rows(column, MOST_EXAMPLES)
        lost = (Lost("records_without_field", column.null_count, [place(row) for row in first]),)
    return Records(len(column), *buffers(column), place, lost)


def _by_record(
    lines: bytes, place: Callable[[int], int], names: tuple[str, ...], room: Room, shown: Callable[[int], str]
) -> Records:
    """As the standard `json` has it, a line at a time."""
    if len(lines) > SMALL_BYTES:
        room.hold(LINE, 2 * len(lines))  # what Arrow took is free again
    texts: list[bytes] = []
    lost: dict[str, list[int]] = {}
    records = [record for line in lines.split(b"\n") if (record := line.strip(_BLANK))]
    for row, record in enumerate(records):
        needed = _json_bytes(record)
        if needed > 4 * SMALL_BYTES and not room.hold(_RECORD, needed):
            what = f"{shown(place(row))}: the record of {format_bytes(len(record))} that begins here"
            raise room.too_small(what, _RECORD, needed)
        text, kind = _text_of(record, names)
        texts.append(text)
        if kind:
            lost.setdefault(kind, []).append(row)
    offsets = array("q", accumulate(map(len, texts), initial=0))
    found = [Lost(kind, len(rows), [place(row) for row in rows[:MOST_EXAMPLES]]) for kind, rows in lost.items()]
    return Records(len(texts), offsets, b"".join(texts), 8, place, found)


def _json_bytes(record: bytes) -> int:
    """What `json` makes of a record takes no more than this: characters, values, keys."""
    wide = 1 if record.isascii() and b"\\u" not in record else 4
    structure = (
        record.count(b",") * _JSON_VALUE_BYTES
        + (record.count(b"[") + record.count(b"{")) * _JSON_OBJECT_BYTES
        + record.count(b":") * _JSON_KEY_BYTES
    )
    return len(record) * (_JSON_COPIES + 2 * wide) + structure


_decoder = json.JSONDecoder(parse_int=_NUMBER)


def _text_of(record: bytes, names: tuple[str, ...]) -> tuple[bytes, str]:
    """The text of a record, or nothing and the kind of loss that it is."""
    try:
        value = _decoder.decode(record.decode(errors="surrogateescape"))
    except RecursionError:  # Arrow knows no depth: what it takes in a block it has to take here
        return _text_of_deep(record, names)
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


def _text_of_deep(record: bytes, names: tuple[str, ...]) -> tuple[bytes, str]:
    column = _by_arrow(record, 1, names) if _tidy(record) is not None else None
    if column is None:
        return b"", "records_not_json"
    text = column[0].as_py()
    return (b"", "records_without_field") if text is None else (text, "")
