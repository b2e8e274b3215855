r"""Piece counts in files of other tools: TSV and Parquet in, TSV out.

TSV is a line for each piece: the piece, a tab, the count in decimal digits. Within a piece `\t`, `\n`, `\r` and `\\`
stand for a tab, a line feed, a carriage return and a backslash, and `\xHH` for the byte HH: control characters and
whatever is not valid UTF-8 are written so. Every piece of bytes has exactly one such line, which reads back as just
these bytes. A first line `piece<TAB>count` is taken as names of columns. Parquet has the columns `piece` (text or
bytes) and `count` (whole numbers).

What is read comes in batches of bounded size. A line or row that cannot be read, or is too long for the memory that
there is, is named with its file and number.
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
from pipeline.counts.counter_file import open_counter
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
_ROW_BYTES = 160  # of a piece in a batch, beside its bytes
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.?))", re.DOTALL)
_ESCAPED = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}
_WRITTEN = {**{byte: f"\\x{byte:02x}" for byte in (*range(0x20), 0x7F)}, 9: "\\t", 10: "\\n", 13: "\\r", 92: "\\\\"}


@dataclass(frozen=True)
class Batch:
    """Some pieces and their counts, not yet checked; `place(i)` says for people where the i-th of them stands."""

    pieces: list[bytes]
    counts: list[int]
    place: Callable[[int], str]


def read_counts(path: Location, budget: ReadBudget = UNLIMITED) -> Iterator[Batch]:
    """The piece counts in a file: Parquet where its name ends so, TSV otherwise.

    budget: for reading and writing them. Raises `InputError` naming file and line or row,
    `TrainingError` for what does not fit the budget.
    """
    return (_read_parquet if path.suffix == ".parquet" else _read_tsv)(path, budget)


def _batch_bytes(budget: ReadBudget) -> int:
    left = budget.left_bytes
    return _BATCH_BYTES if left is None else max(min(_BATCH_BYTES, left // (2 * _COPIES)), 1)


def _read_tsv(path: Location, budget: ReadBudget) -> Iterator[Batch]:
    batch_bytes = _batch_bytes(budget)
    left = budget.left_bytes
    most_bytes = _MOST_LINE_BYTES if left is None else min(_MOST_LINE_BYTES, left // _COPIES)
    rows = min(BATCH_ROWS, 1 + batch_bytes // (_ROW_BYTES // _COPIES))
    first, filled = 1, 0
    pieces: list[bytes] = []
    counts: list[int] = []

    def batch() -> Batch:
        start = first
        return Batch(pieces, counts, lambda i: f"{path}, line {start + i}")

    try:
        with io.BufferedReader(open_file(path), _READ_BYTES) as file:
            number = 0
            while line := file.readline(most_bytes):
                number += 1
                if len(line) == most_bytes < _MOST_LINE_BYTES and not line.endswith(b"\n"):
                    size = len(line) + _rest_of_line(file, most_bytes)
                    if size >= _MOST_LINE_BYTES:
                        raise InputError(_too_long(f"{path}, line {number}"))
                    _hold("piece", f"{path}, line {number}: the line", size, budget)
                piece, _, count = line.rstrip(b"\r\n").partition(b"\t")
                if number == 1 and (piece, count) == (b"piece", b"count"):
                    first = 2
                    continue
                if not count.isdigit():
                    raise InputError(_unreadable(f"{path}, line {number}", line))
                pieces.append(piece if b"\\" not in piece else _unescaped(piece, f"{path}, line {number}"))
                counts.append(int(count) if len(count) < 20 else MOST_COUNT + 1)
                filled += len(line)
                if len(pieces) == rows or filled > batch_bytes:
                    yield batch()
                    report_progress(filled)
                    first, filled, pieces, counts = number + 1, 0, [], []
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; give a readable file") from None
    if pieces:
        yield batch()
        report_progress(filled)


def _rest_of_line(file: Any, block_bytes: int) -> int:
    """How much longer the line is, up to the longest that there may be."""
    size = 0
    while size < _MOST_LINE_BYTES and (more := file.readline(block_bytes)):
        size += len(more)
        if more.endswith(b"\n"):
            break
    return size


def _hold(part: str, place: str, size: int, budget: ReadBudget, copies: int = _COPIES) -> None:
    """Hold copies of something of `size` bytes; raise `TrainingError` if they do not fit the budget."""
    budget.require(part, copies * size, f"{place} of {format_bytes(size)}")


def _too_long(place: str) -> str:
    return f"{place} is longer than 1 GiB; no piece may be so long"


def _unreadable(place: str, line: bytes) -> str:
    if not line.endswith(b"\n") and len(line) == _MOST_LINE_BYTES:
        return _too_long(place)
    fields = line.rstrip(b"\r\n").split(b"\t")
    if len(fields) != 2:
        return (
            f"{place} has {len(fields)} fields, not a piece, a tab and a count; write a tab within a piece as \\t "
            "(.parquet files are told by their name)"
        )
    return f"{place}: the count {_shown(fields[1])} is not {COUNT_WANTED}"


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="backslashreplace"))


def _unescaped(piece: bytes, place: str) -> bytes:
    def byte_of(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            return bytes([int(found[1], 16)])
        if found[2] not in _ESCAPED:
            raise InputError(
                f"{place}: {_shown(found[0])} is no escape; there are \\t, \\n, \\r, \\\\ and \\xHH, and a backslash "
                "itself is written \\\\"
            )
        return _ESCAPED[found[2]]

    return _ESCAPE.sub(byte_of, piece)


def escaped(piece: bytes) -> str:
    """A piece as TSV has it: b"a\\tb\\xff" -> `a\\tb\\xff` in characters."""
    # Lone surrogates stand for the bytes that are not UTF-8; no valid text has them.
    text = piece.decode(errors="surrogateescape").translate(_WRITTEN)
    return text if text.isascii() else re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def _read_parquet(path: Location, budget: ReadBudget) -> Iterator[Batch]:
    import pyarrow as pa

    from pipeline.corpus.columns import plain

    try:
        with open_file(path) as stream, _opened(path) as file:
            _require_columns(file.schema_arrow, str(path))
            first = 1
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                if not group.num_rows:
                    continue  # it has no pages, and where they begin is not said
                rows = _batch_rows(path, stream, group, number, budget)
                for batch in file.iter_batches(
                    rows, row_groups=[number], columns=["piece", "count"], use_threads=False
                ):
                    at = 0
                    for pieces in plain(batch.column("piece"), _batch_bytes(budget)):
                        if len(pieces) == 1:
                            _hold("piece", f"{path}, row {first + at}: the piece", pieces.nbytes, budget)
                        counts = batch.column("count").slice(at, len(pieces))
                        yield arrow_batch({"piece": pieces, "count": counts}, str(path), first + at)
                        at += len(pieces)
                    first += batch.num_rows
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; give a readable file") from None
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{path} is no Parquet file that can be read ({str(error).splitlines()[0]})") from None


def _opened(path: Location) -> Any:
    """The file, dictionaries kept as such: few of their bytes may stand for very many."""
    import pyarrow.parquet as pq

    options: Any = {"page_checksum_verification": True, "pre_buffer": False, "buffer_size": 1 << 20}
    metadata = pq.read_metadata(arrow_source(path))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    encoded = any(column.has_dictionary_page for column in columns if column.path_in_schema == "piece")
    return pq.ParquetFile(arrow_source(path), read_dictionary=["piece"] if encoded else None, **options)


def _batch_rows(path: Location, stream: OpenFile, group: Any, number: int, budget: ReadBudget) -> int:
    """How many rows of a row group to take at once; `TrainingError` where one of its pages has no place in the room."""
    columns = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
    pieces, counts = (pages.sizes(stream, columns[name]) for name in ("piece", "count"))
    held = pieces.page + pieces.dictionary + counts.page + counts.dictionary
    _hold("page", f"{path}, row group {number}: a page with its dictionary", held, budget, _PAGE_COPIES)
    batch_bytes = _batch_bytes(budget)
    return pieces.rows(batch_bytes, min(BATCH_ROWS, 1 + batch_bytes // (_ROW_BYTES // _COPIES)))


def table_counts(table: Any) -> Iterator[Batch]:
    """The piece counts in a pyarrow Table or RecordBatch."""
    _require_columns(table.schema, "the table")
    first = 1
    for batch in table.select(["piece", "count"]).to_batches() if hasattr(table, "to_batches") else [table]:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield arrow_batch(batch.slice(start, BATCH_ROWS), "the table", first + start)
        first += batch.num_rows


def _require_columns(schema: Any, name: str) -> None:
    import pyarrow.types as types

    for column in ("piece", "count"):
        if schema.names.count(column) != 1:
            raise InputError(f"{name} needs the columns piece and count; it has {', '.join(schema.names) or 'none'}")
    piece, count = schema.field("piece").type, schema.field("count").type
    value = piece.value_type if types.is_dictionary(piece) else piece
    bytes_or_text = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    views = [getattr(types, name) for name in ("is_string_view", "is_binary_view") if hasattr(types, name)]
    if not any(fits(value) for fits in (*bytes_or_text, *views)):
        raise InputError(f"{name}: the column piece is of type {piece}, not text or bytes")
    if not types.is_integer(count):
        raise InputError(f"{name}: the column count is of type {count}, not whole numbers")


def arrow_batch(batch: Any, name: str, first: int) -> Batch:
    """A pyarrow RecordBatch with the columns piece and count; `first` is the number of its first row, from 1."""
    pieces, counts = batch["piece"].to_pylist(), batch["count"].to_pylist()
    missing = next((i for i, row in enumerate(zip(pieces, counts, strict=True)) if None in row), None)
    if missing is not None:
        raise InputError(f"{name}, row {first + missing} has no piece or no count")
    as_bytes = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return Batch(as_bytes, counts, lambda i: f"{name}, row {first + i}")


@dataclass(frozen=True)
class WriteTask:
    """A counter to write as TSV: a task for a worker. Not more than about `band_bytes` of it are in memory at once."""

    counter: Location
    fingerprint: str
    output: Location
    band_bytes: int

    def __str__(self) -> str:
        return f"writing {self.output}"


EXPORT_REMEDY = "make room and its directory, or name another file for the counts"


def read_whole(task: WriteTask) -> int:
    """Read a counter to its end, whose checksums must be right; gives the number of pieces."""
    with open_counter(task.counter, fingerprint=task.fingerprint) as counter:
        for partition in range(counter.partitions):
            counter.read(partition)
        return counter.rows


def write_tsv(task: WriteTask) -> int:
    """Write a counter as TSV, the most frequent piece first, equally frequent ones as the counter has them.

    Gives the number of pieces. The counter is read once for every band of counts whose pieces fit in memory; the pieces
    of a single count need not fit, since they are in order already.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from pipeline.storage.atomic import whole_file

    with (
        open_counter(task.counter, fingerprint=task.fingerprint) as counter,
        whole_file(task.output, EXPORT_REMEDY) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):

        def tables() -> Iterator[Any]:
            for partition in range(counter.partitions):
                offsets, data, counts = counter.read(partition)
                rows = len(memoryview(counts).cast("B")) // 8
                buffers = [[None, pa.py_buffer(offsets), pa.py_buffer(data)], [None, pa.py_buffer(counts)]]
                types = [pa.large_binary(), pa.uint64()]
                columns = [pa.Array.from_buffers(type_, rows, own) for type_, own in zip(types, buffers, strict=True)]
                yield pa.table(dict(zip(("piece", "count"), columns, strict=True)))

        def write(table: Any) -> None:
            for piece, count in zip(table["piece"].to_pylist(), table["count"].to_pylist(), strict=True):
                file.write(f"{escaped(piece)}\t{count}\n")

        for least, most in _bands(tables(), task.band_bytes):
            within = (table.filter(pc.and_(pc.greater_equal(table["count"], pa.scalar(least, pa.uint64())),
                                           pc.less_equal(table["count"], pa.scalar(most, pa.uint64()))))
                      for table in tables())  # fmt: skip
            if least == most:
                for table in within:
                    write(table)
            else:
                band = pa.concat_tables(list(within)).combine_chunks()
                order = pc.sort_indices(band, sort_keys=[("count", "descending")])  # which is stable
                for start in range(0, len(order), BATCH_ROWS):
                    write(band.take(order.slice(start, BATCH_ROWS)))
        return counter.rows


def _bands(tables: Iterator[Any], band_bytes: int) -> list[tuple[int, int]]:
    """Ranges of counts (least, most), the greatest first, whose pieces take about `band_bytes` or are of one count."""
    import pyarrow.compute as pc

    bytes_of: dict[int, int] = {}
    for table in tables:
        sizes = table.append_column("size", pc.binary_length(table["piece"]))
        sums = sizes.group_by("count").aggregate([("size", "sum"), ("size", "count")])
        for count, size, rows in zip(
            *(sums[name].to_pylist() for name in ("count", "size_sum", "size_count")), strict=True
        ):
            bytes_of[count] = bytes_of.get(count, 0) + size + 16 * rows
    bands: list[tuple[int, int]] = []
    filled = 0
    for count in sorted(bytes_of, reverse=True):
        if bands and filled + bytes_of[count] <= band_bytes:
            bands[-1] = count, bands[-1][1]
            filled += bytes_of[count]
        else:
            bands.append((count, count))
            filled = bytes_of[count]
    return bands
