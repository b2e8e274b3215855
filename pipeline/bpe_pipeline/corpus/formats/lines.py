"""Blocks of bytes -> documents in bounded memory: one per line of text, or a field of each record of JSON Lines.

Only a line feed ends a line; the last need not end. As text, each line with its ending is a document, as Hugging Face's
trainers read files. A line longer than `MOST_LINE_BYTES` is skipped; a shorter one that exceeds the budget is an error.

The native core reads the one field of JSON Lines, as the standard `json` does, but nesting has no limit. Texts are the
bytes of the file: invalid UTF-8 is left to the errors policy, for which an escaped lone surrogate (which UTF-8 cannot
hold) becomes one invalid byte.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import accumulate

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus.chunks import Cutting, SearchedText, find_line_end
from bpe_pipeline.corpus.contents import BYTE_ORDER_MARK
from bpe_pipeline.corpus.documents import Records, SkippedRecords
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats.byte_format import byte_format
from bpe_pipeline.corpus.read_budget import SMALL_BYTES, UNLIMITED, ReadBudget
from bpe_pipeline.corpus.skipped_or_altered import MOST_LINE_BYTES

LINE = "line"  # in the budget
TOO_LONG = "records_too_long"
_LINE_COPIES = 5.5  # as read and joined, its text, and what else reading may hold
_BLANK = b" \t\r"
_WITHOUT_FIELD = "records_without_field"
_KINDS = ("records_not_json", _WITHOUT_FIELD, "records_not_text")
_FIRST_RECORDS = 1000  # of a file: if all of them lack the field, its name is wrong
_LOOKED_AT, _MOST_FIELDS = 100, 20  # lines whose names are shown


def as_documents(lines: bytes, at: int) -> Records:
    """Return whole lines, the first of which starts at offset `at`, as documents."""
    offsets = _core.line_offsets(lines)
    return Records(offsets, lines, 8, lambda row: at + offsets[row], are_lines=True)


def read_lines(
    file: CorpusFile, blocks: Iterable[bytes], at: int, _text_field: str = "", budget: ReadBudget = UNLIMITED
) -> Iterator[Records]:
    """Read the lines in blocks that start at offset `at` of the text."""
    return _parsed(file, blocks, at, budget, as_documents)


def _parsed(
    file: CorpusFile, blocks: Iterable[bytes], at: int, budget: ReadBudget, parse: Callable[[bytes, int], Records]
) -> Iterator[Records]:
    """Parse the lines in blocks. parse: makes records of whole lines."""
    too_long = partial(Records, bytes(8), b"", 8, int)
    for start, lines in lines_that_fit(file, blocks, at, budget):
        if start == 0 and lines is not None and lines.startswith(BYTE_ORDER_MARK) and not file.keeps_mark:
            start, lines = len(BYTE_ORDER_MARK), lines[len(BYTE_ORDER_MARK) :]
        records = too_long((SkippedRecords(TOO_LONG, 1, [start]),)) if lines is None else parse(lines, start)
        del lines
        yield records
        del records


def line_cut(_cutting: Cutting, text: SearchedText, reach: int, wanted: int) -> int | None:
    """Return the start of the next line, or None."""
    end = text.first(wanted - 1, min(wanted - 1 + reach, text.size), find_line_end)
    return None if end is None else end + 1


def lines_that_fit(
    file: CorpusFile,
    blocks: Iterable[bytes],
    at: int,
    budget: ReadBudget = UNLIMITED,
    copies: float = _LINE_COPIES,
) -> Iterator[tuple[int, bytes | None]]:
    """Yield whole lines of a file as `whole_lines` does; raises `TrainingError` for one that exceeds the budget."""
    for start, lines in whole_lines(blocks, at, MOST_LINE_BYTES, budget, copies):
        if isinstance(lines, int):
            what = f"{file.location(start)}: the line of {format_bytes(lines)} that begins here"
            raise budget.too_large(LINE, int(copies * lines), what)
        yield start, lines
        del lines
        budget.hold(LINE, 0)


def whole_lines(
    blocks: Iterable[bytes], at: int, most_bytes: int, budget: ReadBudget = UNLIMITED, copies: float = _LINE_COPIES
) -> Iterator[tuple[int, bytes | int | None]]:
    """Yield blocks of whole lines, each with the offset of its first; None for a line of more than `most_bytes`.

    For a shorter one that does not fit the budget, its length; `copies` of a line are held. Which lines are too long
    depends neither on the blocks, of at most `most_bytes` each, nor on the budget: every line is read to its end.
    """
    parts: list[bytes] = []  # of a line that has not ended, from `at` on
    held = 0  # bytes of it
    fits = True  # while it does, they are in `parts`
    for block in blocks:
        begin = block.find(b"\n") + 1 if held else 0
        if begin:
            size = held + begin
            parts.append(block[:begin])
            yield at, None if size - 1 > most_bytes else _taken(parts) if fits else size - 1
            at += size
            parts, held, fits = [], 0, True
        end = max(block.rfind(b"\n") + 1, begin)
        if end > begin:
            yield at, block[begin:end]
            at += end - begin
        if end < len(block):
            held += len(block) - end
            if fits:
                parts.append(block[end:])
                fits = held <= most_bytes and (held <= SMALL_BYTES or budget.hold(LINE, int(copies * held)))
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
    """Read the records in blocks that start at offset `at` of the text; `InputError` if they are not JSON Lines."""
    looked = at > 0  # whether the first record begins a value over several lines, or is a whole array
    rows = _FIRST_RECORDS if at else 0  # that were read while none had the field

    def parse(lines: bytes, start: int) -> Records:
        nonlocal looked, rows
        if not looked and lines.strip():
            _refuse_other_json(file, lines)
            looked = True
        records = parse_lines(lines, start, text_field)
        if rows < _FIRST_RECORDS and records.rows:
            lacking = sum(skipped.count for skipped in records.skipped if skipped.kind == _WITHOUT_FIELD)
            rows += records.rows if lacking == records.rows else _FIRST_RECORDS
            if rows >= _FIRST_RECORDS and lacking == records.rows:
                _refuse_other_fields(file, lines, text_field, rows)
        return records

    return _parsed(file, blocks, at, budget, parse)


def _refuse_other_fields(file: CorpusFile, lines: bytes, text_field: str, rows: int) -> None:
    """Raise `InputError` if the first records of a file lack the field, even an empty one, and these lines, too."""
    names = dict[str, None]()
    for line in filter(bytes.strip, lines.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]):
        with suppress(ValueError, RecursionError):  # the core reads more
            names |= dict.fromkeys(json.loads(line.decode(errors="replace")))
    if names and names.keys().isdisjoint((text_field, text_field.partition(".")[0])):
        shown = ", ".join(list(names)[:_MOST_FIELDS])
        raise InputError(
            f"{file.path}: none of its first {rows:,} records has the field {text_field!r}; they have {shown}: say "
            "which one is the text with --text-field, or leave the file out"
        )


def _refuse_other_json(file: CorpusFile, lines: bytes) -> None:
    first = lines.lstrip(_BLANK + b"\n").partition(b"\n")[0].strip(_BLANK)
    is_array = first.startswith(b"[")
    if first == b"{" or (is_array and first[1:].lstrip(_BLANK)[:1] in (b"", b"{", b'"', b"[")):
        what = "one array" if is_array else "an object over several lines"
        raise InputError(
            f"{file.path} is JSON but not JSON Lines: it begins with {what}, and every line must be a record of its "
            f"own; convert it (jq -c {'.[]' if is_array else '.'} FILE), or take it as text with --input-format text"
        )


def parse_lines(lines: bytes, at: int, text_field: str) -> Records:
    """Return the records of whole lines of JSON, the first of which starts at offset `at`."""
    offsets, data, skipped = _core.json_texts(lines, text_field.split("."))
    records_skipped = [
        SkippedRecords(kind, count, [at + start for start in starts])
        for kind, (count, starts) in zip(_KINDS, skipped, strict=True)
        if count
    ]
    return Records(offsets, data, 8, _positions(lines, at), records_skipped)


def _positions(lines: bytes, at: int) -> Callable[[int], int]:
    """Return a function from the number of a line that is not blank to its offset; they are found at first use."""

    @cache
    def starts() -> list[int]:
        split = lines.split(b"\n")
        offsets = accumulate((len(line) + 1 for line in split), initial=at)
        return [offset for offset, line in zip(offsets, split, strict=False) if line.strip(_BLANK)]

    return lambda row: starts()[row]


LINES = byte_format(read_lines, title="lines", has_fields=False, are_lines=True, cut=line_cut)
JSON_LINES = byte_format(
    read_json_lines, title="JSON Lines", suffixes=(".jsonl", ".ndjson", ".jsonlines", ".json"), cut=line_cut
)
