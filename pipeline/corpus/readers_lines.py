"""Lines of text: from blocks of bytes to documents, each a line with its ending, as Hugging Face's trainers read files.

Only a line feed ends a line: a carriage return before it belongs to the line too, and one elsewhere is a character
like others. The last line need not end. A line may have `MOST_RECORD_BYTES`, as one of JSON may; a longer one is lost.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate

from pipeline.base.units import format_bytes
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.lines import LINE, LINE_COPIES, whole_lines
from pipeline.corpus.losses import MOST_RECORD_BYTES
from pipeline.corpus.records import Lost, Records
from pipeline.corpus.room import Room, unlimited


def read_lines(file: CorpusFile, blocks: Iterable[bytes], at: int, room: Room | None = None) -> Iterator[Records]:
    """The lines in blocks that begin at offset `at` of the file's text, at the start of a line.

    Raises `TrainingError` for a line that has no place in the room.
    """
    room = room or unlimited()
    for start, lines in whole_lines(blocks, at, MOST_RECORD_BYTES, room):
        if isinstance(lines, int):
            what = f"{file.place(start)}: the line of {format_bytes(lines)} that begins here"
            raise room.too_small(what, LINE, int(LINE_COPIES * lines))
        if lines is None:
            yield Records(0, bytes(8), b"", 8, int, (Lost("records_too_long", 1, [start]),))
            continue
        yield _records(lines, start)
        del lines
        room.hold(LINE, 0)


def _records(lines: bytes, at: int) -> Records:
    """Whole lines, the first of which begins at offset `at`, as documents."""
    lengths = list(map(len, lines.split(b"\n")))
    last = lengths.pop()  # 0 where the last line ends
    offsets = array("q", accumulate((length + 1 for length in lengths), initial=0))
    if last:
        offsets.append(len(lines))
    return Records(len(offsets) - 1, offsets, lines, 8, lambda row: at + offsets[row])
