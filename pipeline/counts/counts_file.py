r"""Piece counts in files of other tools: TSV and Parquet in, TSV out.

TSV is a line for each piece: the piece, a tab, the count in decimal digits. Within a piece `\t`, `\n`, `\r` and `\\`
are a tab, a line feed, a carriage return and a backslash, and `\xHH` is the byte HH: control characters and bytes that
are not valid UTF-8 are written so. Each piece of bytes has exactly one such line, which reads back as the same bytes. A
first line `piece<TAB>count` is a header. Parquet has the columns `piece` (text or bytes) and `count` (whole numbers).

Files are read in batches of bounded size. Errors name the file and the number of the line or row.
"""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.base.errors import InputError
from pipeline.base.units import format_bytes
from pipeline.corpus import pages
from pipeline.corpus.read_budget import UNLIMITED, ReadBudget
from pipeline.executors.worker import report_progress
from pipeline.storage import Location, OpenFile, arrow_source, open_file

BATCH_ROWS = 1 << 16
MOST_COUNT = (1 << 63) - 1
COUNT_WANTED = "a whole number from 1 to 2^63 - 1"
_BATCH_BYTES = 16 << 20
_READ_BYTES = 1 << 20
_MOST_LINE_BYTES = 1 << 30
_COPIES = 10  # of a piece until it is written, and of a batch
_PAGE_COPIES = 4  # of a page of Parquet: compressed, not, decoded
_ROW_BYTES = 160  # of a piece in a batch, besides its bytes
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.?))", re.DOTALL)
_ESCAPED = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}
_WRITTEN = {**{byte: f"\\x{byte:02x}" for byte in (*range(0x20), 0x7F)}, 9: "\\t", 10: "\\n", 13: "\\r", 92: "\\\\"}


@dataclass(frozen=True)
class Batch:
    """Some pieces and their counts, not yet checked; `location(i)` is the location of the i-th for messages."""

    pieces: list[bytes]
    counts: list[int]
    location: Callable[[int], str]


def read_counts(path: Location, budget: ReadBudget = UNLIMITED) -> Iterator[Batch]:
    """Read the piece counts in a file: Parquet if its name ends so, TSV otherwise.

    budget: the memory for reading and writing them. Raises `InputError` naming file and line or
    row, `TrainingError` for what exceeds the budget.
    """
    import pyarrow as pa

    read = _read_parquet if path.suffix == ".parquet" else _read_tsv
    try:
        with open_file(path) as stream:
            yield from read(path, stream, budget)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; give a readable file") from None
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{path} is no Parquet file that can be read ({str(error).splitlines()[0]})") from None


def _batch_limits(budget: ReadBudget) -> tuple[int, int]:
    """The most bytes and rows of a batch."""
    left = budget.left_bytes
    size = _BATCH_BYTES if left is None else max(min(_BATCH_BYTES, left // (2 * _COPIES)), 1)
    return size, min(BATCH_ROWS, 1 + size // (_ROW_BYTES // _COPIES))


def _read_tsv(path: Location, stream: OpenFile, budget: ReadBudget) -> Iterator[Batch]:
    most_bytes, most_rows = _batch_limits(budget)
    first, filled = 1, 0
    pieces: list[bytes] = []
    counts: list[int] = []

    def batch() -> Batch:
        start = first
        return Batch(pieces, counts, lambda i: f"{path}, line {start + i}")

    for number, line in enumerate(_lines(path, stream, budget), 1):
        piece, _, count = line.rstrip(b"\r\n").partition(b"\t")
        if number == 1 and (piece, count) == (b"piece", b"count"):
            first = 2
            continue
        if not count.isdigit():
            fields = line.rstrip(b"\r\n").split(b"\t")
            if len(fields) == 2:
                raise InputError(f"{path}, line {number}: the count {_shown(count)} is not {COUNT_WANTED}")
            raise InputError(
                f"{path}, line {number} has {len(fields)} fields, not a piece, a tab and a count; write a tab within a "
                "piece as \\t (.parquet files are recognised by their name)"
            )
        pieces.append(piece if b"\\" not in piece else _unescaped(piece, f"{path}, line {number}"))
        counts.append(int(count) if len(count) < 20 else MOST_COUNT + 1)
        filled += len(line)
        if len(pieces) == most_rows or filled > most_bytes:
            yield batch()
            report_progress(filled)
            first, filled, pieces, counts = number + 1, 0, [], []
    if pieces:
        yield batch()
        report_progress(filled)


def _lines(path: Location, stream: OpenFile, budget: ReadBudget) -> Iterator[bytes]:
    """Read lines; one that exceeds the budget or 1 GiB is an error that names its size or the limit."""
    left = budget.left_bytes
    most_bytes = _MOST_LINE_BYTES if left is None else min(_MOST_LINE_BYTES, left // _COPIES)
    number = 0
    with io.BufferedReader(stream, _READ_BYTES) as file:
        while line := file.readline(most_bytes):
            number += 1
            size = len(line)
            if size == most_bytes and not line.endswith(b"\n"):
                while size < _MOST_LINE_BYTES and (more := file.readline(most_bytes)):
                    size += len(more)
                    if more.endswith(b"\n"):
                        break
                if size >= _MOST_LINE_BYTES:
                    raise InputError(f"{path}, line {number} is longer than 1 GiB; no piece may be so long")
                _hold("piece", f"{path}, line {number}: the line", size, budget)
            yield line


def _hold(part: str, what: str, size: int, budget: ReadBudget, copies: int = _COPIES) -> None:
    """Hold copies of something of `size` bytes; raises `TrainingError` if they do not fit the budget."""
    budget.require(part, copies * size, f"{what} of {format_bytes(size)}")


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="backslashreplace"))


def _unescaped(piece: bytes, location: str) -> bytes:
    def byte_of(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            return bytes([int(found[1], 16)])
        if found[2] not in _ESCAPED:
            raise InputError(
                f"{location}: {_shown(found[0])} is no escape; there are \\t, \\n, \\r, \\\\ and \\xHH, and a "
                "backslash itself is written \\\\"
            )
        return _ESCAPED[found[2]]

    return _ESCAPE.sub(byte_of, piece)


def escaped(piece: bytes) -> str:
    """Escape a piece for TSV: b"a\\tb\\xff" -> `a\\tb\\xff` in characters."""
    # Lone surrogates stand for the bytes that are not UTF-8; no valid text has them.
    text = piece.decode(errors="surrogateescape").translate(_WRITTEN)
    return text if text.isascii() else re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def _read_parquet(path: Location, stream: OpenFile, budget: ReadBudget) -> Iterator[Batch]:
    from pipeline.corpus.columns import plain

    with _opened(path) as file:
        _require_columns(file.schema_arrow, str(path))
        first = 1
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if not group.num_rows:
                continue  # without pages: their offsets are undefined
            rows = _batch_rows(path, stream, group, number, budget)
            for batch in file.iter_batches(rows, row_groups=[number], columns=["piece", "count"], use_threads=False):
                at = 0
                for pieces in plain(batch.column("piece"), _batch_limits(budget)[0]):
                    if len(pieces) == 1:
                        _hold("piece", f"{path}, row {first + at}: the piece", pieces.nbytes, budget)
                    counts = batch.column("count").slice(at, len(pieces))
                    yield _arrow_batch({"piece": pieces, "count": counts}, str(path), first + at)
                    at += len(pieces)
                first += batch.num_rows


def _opened(path: Location) -> Any:
    """Open Parquet. Dictionaries are not decoded: a few of their bytes may become very many."""
    import pyarrow.parquet as pq

    options: Any = {"page_checksum_verification": True, "pre_buffer": False, "buffer_size": 1 << 20}
    metadata = pq.read_metadata(arrow_source(path))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    encoded = any(column.has_dictionary_page for column in columns if column.path_in_schema == "piece")
    return pq.ParquetFile(arrow_source(path), read_dictionary=["piece"] if encoded else None, **options)


def _batch_rows(path: Location, stream: OpenFile, group: Any, number: int, budget: ReadBudget) -> int:
    """How many rows of a row group to read at once; `TrainingError` if one of its pages exceeds the budget."""
    columns = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
    pieces, counts = (pages.sizes(stream, columns[name]) for name in ("piece", "count"))
    held = pieces.page + pieces.dictionary + counts.page + counts.dictionary
    _hold("page", f"{path}, row group {number}: a page with its dictionary", held, budget, _PAGE_COPIES)
    return pieces.rows(*_batch_limits(budget))


def table_counts(table: Any) -> Iterator[Batch]:
    """Read the piece counts in a pyarrow Table or RecordBatch."""
    _require_columns(table.schema, "the table")
    first = 1
    for batch in table.select(["piece", "count"]).to_batches() if hasattr(table, "to_batches") else [table]:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield _arrow_batch(batch.slice(start, BATCH_ROWS), "the table", first + start)
        first += batch.num_rows


def _require_columns(schema: Any, name: str) -> None:
    import pyarrow.types as types

    from pipeline.corpus.columns import is_text

    for column in ("piece", "count"):
        if schema.names.count(column) != 1:
            raise InputError(f"{name} needs the columns piece and count; it has {', '.join(schema.names) or 'none'}")
    piece, count = schema.field("piece").type, schema.field("count").type
    if not is_text(piece):
        raise InputError(f"{name}: the column piece is of type {piece}, not text or bytes")
    if not types.is_integer(count):
        raise InputError(f"{name}: the column count is of type {count}, not whole numbers")


def _arrow_batch(batch: Any, name: str, first: int) -> Batch:
    """Convert Arrow columns piece and count; `first` is the number of their first row, from 1."""
    pieces, counts = batch["piece"].to_pylist(), batch["count"].to_pylist()
    missing = next((i for i, row in enumerate(zip(pieces, counts, strict=True)) if None in row), None)
    if missing is not None:
        raise InputError(f"{name}, row {first + missing} has no piece or no count")
    as_bytes = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return Batch(as_bytes, counts, lambda i: f"{name}, row {first + i}")
