"""Parquet: from row groups to documents, one a row, whose text is one column; nothing else is read.

Pages are read one after the other, in batches of rows, and their checksums verified where the file has them. Rows that
are mostly numbers in a dictionary of texts stay so until they are counted, in parts, so that few bytes do not become
very many at once. A page is held in memory whole, as Parquet's compression needs it: where a row group may have one
that is large for the room that there is, the headers of its pages are read first.
A row whose text is null has no field.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.base.errors import InputError
from pipeline.base.units import format_bytes
from pipeline.corpus import pages
from pipeline.corpus.columns import buffers, is_text, null_rows, plain
from pipeline.corpus.files import CorpusFile, open_file
from pipeline.corpus.losses import MOST_EXAMPLES
from pipeline.corpus.records import Lost, Records
from pipeline.corpus.room import SMALL_BYTES, Room
from pipeline.storage import OpenFile

_BATCH_BYTES, _MOST_BATCH_ROWS = 1 << 20, 1 << 16
_MOST_ENCODED_ROWS = 1 << 10  # where a dictionary is used for some of them
_FEW_BYTES = 64  # of a row as it is encoded: fewer are mostly a number in a dictionary
_BUFFER_BYTES = 1 << 20  # of the file, read at once
_PAGE_COPIES = 4  # of a page: compressed, not, decoded
_UNSEEN_SHARE = 4  # a row group that takes no more than one in so many bytes of the room may be a single page


def row_group_bytes(file: CorpusFile, text_field: str) -> list[tuple[int, int]]:
    """For each row group: its rows, and the bytes of its texts as they are encoded.

    Raises `InputError` where the file cannot be read or has no such column of texts.
    """
    try:
        with open_file(file.path) as stream:
            opened = _open(file, stream, text_field, by_dictionary=False)
            column = _leaf(opened, text_field)
            groups = (opened.metadata.row_group(index) for index in range(opened.metadata.num_row_groups))
            return [(group.num_rows, group.column(column).total_uncompressed_size) for group in groups]
    except OSError as error:
        raise InputError(f"{file.path} cannot be read: {error.strerror or error}") from None


def read_row_groups(
    file: CorpusFile,
    stream: OpenFile,
    groups: Iterable[int],
    text_field: str,
    progress: Callable[[int], None],
    room: Room,
) -> Iterator[Records]:
    """The rows of these row groups; `progress` hears of the bytes that `row_group_bytes` has.

    Raises `InputError` for a damaged file, naming the row group; `TrainingError` where a page has no place in the room.
    """
    by_dictionary = _in_dictionary(file, stream, text_field)
    opened = _open(file, stream, text_field, by_dictionary=by_dictionary)
    metadata, names = opened.metadata, _names(opened.schema_arrow, text_field)
    leaf = _leaf(opened, text_field)
    for group in groups:
        first = at = sum(metadata.row_group(before).num_rows for before in range(group))
        rows, size = metadata.row_group(group).num_rows, metadata.row_group(group).column(leaf).total_uncompressed_size
        told = 0
        most = _most_rows(file, stream, metadata.row_group(group).column(leaf), group, room)
        batches = _batches(opened, group, text_field, most)
        while (batch := _next(file, group, batches)) is not None:
            column = batch.column(0)
            for name in names[1:]:
                column = pc.struct_field(column, name)
            for part in plain(column):
                yield _records(part, at)
                at += len(part)
                done = size * (at - first) // rows
                progress(done - told)
                told = done


def _records(column: pa.Array, at: int) -> Records:
    """A column whose first value is that of row `at`."""
    lost: tuple[Lost, ...] = ()
    if column.null_count:
        rows = [at + row for row in null_rows(column, MOST_EXAMPLES)]
        lost = (Lost("records_without_field", column.null_count, rows),)
    return Records(len(column), *buffers(column), lambda row: at + row, lost)


def _open(file: CorpusFile, stream: OpenFile, text_field: str, *, by_dictionary: bool) -> pq.ParquetFile:
    stream.seek(0)
    try:
        opened = pq.ParquetFile(
            stream,
            read_dictionary=[text_field] if by_dictionary else None,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        schema = opened.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(file, "its end, where Parquet keeps its index", error) from None
    kind: Any = pa.struct(list(schema))
    if [opened.schema.column(index).path for index in range(len(opened.schema))].count(text_field) > 1:
        raise InputError(
            f"{file.path} has more than one column {text_field!r}, by its name or by nesting; rename one of them"
        )
    for name in _names(schema, text_field):
        names = [field.name for field in kind] if pa.types.is_struct(kind) else []
        if names.count(name) != 1:
            raise InputError(
                f"{file.path} has no column {text_field!r}: it has {', '.join(schema.names[:20])}; say which one is "
                "the text with --text-field"
            )
        kind = kind.field(name).type
    if not is_text(kind):
        raise InputError(
            f"{file.path}: the column {text_field!r} is {kind}, not text; say which one is the text with --text-field"
        )
    return opened


def _names(schema: pa.Schema, text_field: str) -> list[str]:
    """The names that lead to a column: its own, where one is called just that, or those that its dots part."""
    return [text_field] if text_field in schema.names else text_field.split(".")


def _leaf(opened: pq.ParquetFile, text_field: str) -> int:
    paths = [opened.schema.column(index).path for index in range(len(opened.schema))]
    return paths.index(text_field)


def _in_dictionary(file: CorpusFile, stream: OpenFile, text_field: str) -> bool:
    """Whether rows are mostly numbers in a dictionary of texts: then few bytes may stand for very many."""
    opened = _open(file, stream, text_field, by_dictionary=False)
    leaf, metadata = _leaf(opened, text_field), opened.metadata
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    return any(
        (column := group.column(leaf)).has_dictionary_page
        and column.total_uncompressed_size < _FEW_BYTES * group.num_rows
        for group in groups
    )


def _most_rows(file: CorpusFile, stream: OpenFile, column: Any, group: int, room: Room) -> int:
    """How many rows of a row group to decode at once, at most; from now on the room of its largest page is held.

    Headers are read only where they matter: of a file in a store, each costs a request.
    """
    room.hold("page", 0)
    left, held, most = room.left_bytes, column.total_uncompressed_size, _MOST_BATCH_ROWS
    if left is None or _PAGE_COPIES * held <= SMALL_BYTES:
        return most
    if _UNSEEN_SHARE * _PAGE_COPIES * held > left:
        try:
            sizes = pages.sizes(stream, column)
        except ValueError as error:
            raise _damaged(file, f"row group {group}", error) from None
        held, most = sizes.page + sizes.dictionary, sizes.rows(_BATCH_BYTES, most)
    if not room.hold("page", _PAGE_COPIES * held):
        what = f"{file.path}, row group {group}: a page with its dictionary of {format_bytes(held)}"
        raise room.too_small(what, "page", _PAGE_COPIES * held)
    return most


def _batches(opened: pq.ParquetFile, group: int, text_field: str, most_rows: int) -> Iterator[pa.RecordBatch]:
    facts = opened.metadata.row_group(group)
    text_bytes = facts.column(_leaf(opened, text_field)).total_uncompressed_size
    most = _MOST_ENCODED_ROWS if facts.column(_leaf(opened, text_field)).has_dictionary_page else _MOST_BATCH_ROWS
    rows = min(max(_BATCH_BYTES * facts.num_rows // max(text_bytes, 1), 1), most, most_rows)
    yield from opened.iter_batches(rows, row_groups=[group], columns=[text_field], use_threads=False)


def _next(file: CorpusFile, group: int, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    try:
        return next(batches, None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(file, f"row group {group}", error) from None


def _damaged(file: CorpusFile, where: str, error: Exception) -> InputError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(
        f"{file.path} cannot be read as Parquet: it is damaged in {where} ({reason}); restore it, or leave it out"
    )
