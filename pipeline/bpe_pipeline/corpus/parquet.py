"""Parquet: row groups -> documents, one per row, whose text is one column; nothing else is read.

Rows that are mostly numbers in a dictionary of texts stay so until they are counted, in parts, so that few bytes do not
become very many at once. A page is held in memory whole, as Parquet's compression needs it: if a row group may have one
that is large for the budget, the headers of its pages are read first. A row whose text is null has no field.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus import pages
from bpe_pipeline.corpus.columns import field, intact, plain, records_of, require_text
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan, damaged, opened
from bpe_pipeline.corpus.read_budget import SMALL_BYTES, ReadBudget
from bpe_pipeline.storage import OpenFile

_BATCH_BYTES, _MOST_BATCH_ROWS = 1 << 20, 1 << 16
_MOST_ENCODED_ROWS = 1 << 10  # if a dictionary is used for some of them
_FEW_BYTES = 64  # of a row as it is encoded: fewer are mostly a number in a dictionary
PAGE_COPIES = 4  # of a page: compressed, not, decoded
_UNSEEN_SHARE = 4  # a row group that takes at most one byte in this many of the budget may be a single page
_END_BYTES = 8  # the length of the footer, and the mark
_INDEX = "read as Parquet: it is damaged in its end, where Parquet keeps its index"
parquet_file = partial(pq.ParquetFile, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)


def row_group_bytes(file: CorpusFile, text_field: str) -> list[tuple[int, int]]:
    """Return the rows and encoded text bytes of each row group. text_field: empty for all columns."""
    with opened(file.path) as stream:
        if not text_field:
            with intact(file.path, _INDEX):
                return [(group.num_rows, group.total_byte_size) for group in _groups(parquet_file(stream))]
        parquet, leaf = _open(file, stream, text_field)
        return [(group.num_rows, group.column(leaf).total_uncompressed_size) for group in _groups(parquet)]


def read_row_groups(
    span: FileSpan, stream: OpenFile, text_field: str, progress: Callable[[int], None], budget: ReadBudget
) -> Iterator[Records]:
    """Read the rows of the row groups of a span, as far as there are; `progress` counts as `row_group_bytes` does."""
    file, start, stop = span
    parquet, leaf = _open(file, stream, text_field)
    for group in _groups(parquet):
        column = group.column(leaf)
        if column.has_dictionary_page and column.total_uncompressed_size < _FEW_BYTES * group.num_rows:
            parquet = parquet_file(stream, metadata=parquet.metadata, read_dictionary=[text_field])
            break
    for number in range(start, min(stop, parquet.num_row_groups)):
        facts = parquet.metadata.row_group(number)
        column, rows = facts.column(leaf), facts.num_rows
        first = at = sum(parquet.metadata.row_group(before).num_rows for before in range(number))
        reported = 0
        size = column.total_uncompressed_size
        batch_rows = min(
            max(_BATCH_BYTES * rows // max(size, 1), 1),
            _MOST_ENCODED_ROWS if column.has_dictionary_page else _MOST_BATCH_ROWS,
            _require_pages(file, stream, column, number, budget),
        )
        with intact(file.path, f"read as Parquet: it is damaged in row group {number}"):
            for batch in parquet.iter_batches(batch_rows, row_groups=[number], columns=[text_field], use_threads=False):
                for texts in plain(field(batch.to_struct_array(), text_field)):
                    yield records_of(texts, at.__add__)
                    at += len(texts)
                    done = size * (at - first) // rows
                    progress(done - reported)
                    reported = done


def _open(file: CorpusFile, stream: OpenFile, text_field: str) -> tuple[pq.ParquetFile, int]:
    """Open a file; return it with the number of its column of texts."""
    with intact(file.path, _INDEX):
        stream.seek(0)
        parquet = parquet_file(stream)
        schema = parquet.schema_arrow
    paths = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
    if paths.count(text_field) > 1:
        raise InputError(
            f"{file.path} has more than one column {text_field!r}, by its name or by nesting; rename one of them"
        )
    require_text(file.path, schema, text_field)
    _refuse_encrypted(file, stream, parquet, text_field)
    return parquet, paths.index(text_field)


def _refuse_encrypted(file: CorpusFile, stream: OpenFile, parquet: pq.ParquetFile, name: str) -> None:
    """Raise `InputError` for a column that is encrypted: asking for its metadata would abort the process."""
    footer_bytes = int.from_bytes(stream.read_at(file.size - _END_BYTES, 4), "little")
    if footer_bytes == parquet.metadata.serialized_size or not parquet.num_row_groups:
        return  # the footer of a file with encrypted columns is signed
    try:
        next(parquet.iter_batches(1, row_groups=[0], columns=[name], use_threads=False), None)
    except OSError as error:
        if "decrypt" not in str(error):
            raise damaged(file.path, "read as Parquet: it is damaged in row group 0", error) from None
        raise InputError(
            f"{file.path}: the column {name!r} is encrypted; write it without encryption (pyarrow.parquet."
            "encryption reads it with the key), or say which other one is the text with --text-field"
        ) from None


def _groups(parquet: pq.ParquetFile) -> Iterator[Any]:
    return map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))


def _require_pages(file: CorpusFile, stream: OpenFile, column: Any, group: int, budget: ReadBudget) -> int:
    """Hold the largest page of a row group, if it matters; return how many rows may be decoded at once."""
    budget.hold("page", 0)
    left, held, most = budget.left_bytes, column.total_uncompressed_size, _MOST_BATCH_ROWS
    if left is None or PAGE_COPIES * held <= SMALL_BYTES:
        return most
    if _UNSEEN_SHARE * PAGE_COPIES * held > left:
        with intact(file.path, f"read as Parquet: it is damaged in row group {group}"):
            sizes = pages.sizes(stream, column)
        held, most = sizes.page + sizes.dictionary, sizes.rows(_BATCH_BYTES, most)
    what = f"{file.path}, row group {group}: a page with its dictionary of {format_bytes(held)}"
    budget.require("page", PAGE_COPIES * held, what)
    return most
