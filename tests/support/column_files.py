"""Columns of texts of every type of Arrow, and reading them back from a file."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.cut_files import plan_chunks
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.readers import read_span

TEXTS = ["one", None, "", "zwei é日本", "x" * 3000, None, *(f"text number {i % 40}" for i in range(500))]
PAGES = pa.array([{"body": {"text": "one", "x": 1}}, None, {"body": None}, {"body": {"text": None, "x": 2}}])
KINDS = [
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())),
]
NOT_TEXT = [  # columns, the name of one, and why it has no texts
    ({"content": ["a"]}, "text", "no column 'text': it has content.*--text-field"),
    ({"text": [1]}, "text", "is int64, not text.*--text-field"),
    ({"text": [["a"]]}, "text", "not text.*--text-field"),
    ({"text": ["a"]}, "text.body", "no column 'text.body'.*--text-field"),
]


def column_of(kind: pa.DataType) -> pa.Array:
    """Return the texts as a column of this type."""
    column = pa.array(TEXTS)
    return column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)


def read(path: Path, text_field: str = "text", chunk_bytes: int = 1 << 40) -> tuple[list[bytes], list[int], int]:
    """Return the texts, null as empty, the positions of nulls, and how many spans; check progress and positions."""
    file = describe(str(path))
    texts, nulls, spans = list[bytes](), list[int](), 0
    for chunk in plan_chunks([file], Cutting(text_field=text_field), chunk_bytes=chunk_bytes):
        for span in chunk.spans:
            reported: list[int] = []
            for part in read_span(FileSpan(file, span.start, span.stop), text_field, reported.append):
                data = bytes(part.data)
                rows = [data[start:stop] for start, stop in pairwise(part.starts.tolist())]
                assert len(rows) == part.rows
                assert [*map(part.position, range(part.rows))] == [*range(len(texts), len(texts) + len(rows))]
                texts += rows
                nulls += [position for skipped in part.skipped for position in skipped.positions]
                assert {skipped.kind for skipped in part.skipped} <= {"records_without_field"}
            assert sum(reported) == span.bytes
            spans += 1
    return texts, nulls, spans
