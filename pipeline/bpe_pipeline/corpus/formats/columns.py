"""Parquet and Arrow: a document a row of one column. What reads them imports Arrow, and is imported when it reads.

Positions are rows: what is read at once, a row group or the batches of a span, is counted whole or again.
"""

from collections.abc import Iterator
from itertools import pairwise

from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.formats import CorpusFormat, Part, Progress, Stretch
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.readers import unchanged

_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_MOST_SCHEMA_BYTES = 1 << 26


def _marks_parquet(head: bytes, tail: bytes) -> bool:
    page = head.startswith(_PARQUET + b"\x15")  # and the header of a page
    return page or (head.startswith(_PARQUET) and tail.endswith(_PARQUET))


def _row_groups(file: CorpusFile, cutting: Cutting, _chunk_bytes: int) -> list[Part]:
    from bpe_pipeline.corpus.parquet import row_group_bytes

    groups = enumerate(row_group_bytes(file, cutting.text_field))
    return [Part(group, group + 1, size) for group, (rows, size) in groups if rows]


def _read_parquet(
    span: FileSpan, text_field: str, progress: Progress, budget: ReadBudget, _text: Stretch
) -> Iterator[Records]:
    from bpe_pipeline.corpus.parquet import read_row_groups

    with unchanged(span.file) as stream:
        yield from read_row_groups(span, stream, text_field, progress, budget)


def _marks_arrow(head: bytes, _tail: bytes) -> bool:
    schema = int.from_bytes(head[4:8], "little", signed=True)  # its bytes; text has a greater number there
    is_stream = head.startswith(_ARROW_STREAM) and 0 < schema < _MOST_SCHEMA_BYTES
    return is_stream or head.startswith(_ARROW_FILE + b"\0\0")


def _batches(file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Part]:
    from bpe_pipeline.corpus.arrow import batch_cuts

    cuts = batch_cuts(file, cutting.text_field, chunk_bytes) if cutting.text_field else []  # rows are read whole
    return [Part(start, stop) for start, stop in pairwise([0, *cuts, file.size])]


def _read_arrow(
    span: FileSpan, text_field: str, progress: Progress, budget: ReadBudget, _text: Stretch
) -> Iterator[Records]:
    from bpe_pipeline.corpus.arrow import read_batches

    with unchanged(span.file) as stream:
        yield from read_batches(span, stream, text_field, progress, budget)


PARQUET = CorpusFormat(
    title="Parquet",
    suffixes=(".parquet", ".pq"),
    magic=(_PARQUET,),
    marks=_marks_parquet,
    position="row",
    parts="row groups",
    compresses_itself=True,
    cuts=_row_groups,
    read=_read_parquet,
)
ARROW = CorpusFormat(
    title="Arrow",
    suffixes=(".arrow", ".feather"),
    magic=(_ARROW_FILE, _ARROW_STREAM),
    marks=_marks_arrow,
    position="row",
    compresses_itself=True,
    cuts=_batches,
    read=_read_arrow,
)
