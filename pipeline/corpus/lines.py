"""Blocks of bytes -> records of whole lines, in bounded memory.

A line may have `MOST_LINE_BYTES`; a longer one is skipped. One that is shorter but does not fit the budget is an error.
As text, each line with its ending is a document, as Hugging Face's trainers read files. Only a line feed ends a line: a
carriage return before it belongs to the line, and one elsewhere is an ordinary character. The last line need not end.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from pipeline.base.units import format_bytes
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.read_budget import SMALL_BYTES, UNLIMITED, ReadBudget
from pipeline.corpus.records import Records
from pipeline.corpus.skipped_or_altered import MOST_LINE_BYTES, SkippedRecords

LINE = "line"  # in the budget
LINE_COPIES = 5.5  # as read, and with repairs; what Arrow makes of it


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
    parse: Callable[[bytes, int], Records | None] = as_documents,
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
            raise budget.too_large(LINE, int(LINE_COPIES * lines), what)
        records = parse(lines, start)
        del lines
        if records is not None:
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
            yield at, _joined(parts)
            at += size
            held = 0
        if end < len(block):
            held += len(block) - end
            if fits:
                parts.append(block[end:])
                fits = held <= most_bytes and (held <= SMALL_BYTES or budget.hold(LINE, int(LINE_COPIES * held)))
            if not fits:
                parts.clear()
            if held > most_bytes:
                budget.hold(LINE, 0)
    if held:
        yield at, None if held > most_bytes else _joined(parts) if fits else held


def _joined(parts: list[bytes]) -> bytes:
    """Join the parts and release them."""
    whole = b"".join(parts)
    parts.clear()
    return whole
