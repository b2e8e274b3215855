"""Parquet and Arrow: a document a row of one column. What reads them imports Arrow, and is imported when it reads."""

from collections.abc import Iterator
from itertools import pairwise

from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.formats import CorpusFormat, Part, Progress, Stretch
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.readers import unchanged


class Parquet(CorpusFormat):
    """Row groups are its parts. Positions are rows: a row group is counted whole or again."""

    title = "Parquet"
    suffixes = (".parquet", ".pq")
    magic = (b"PAR1",)
    position = "row"
    parts = "row groups"
    compresses_itself = True

    def marks(self, head: bytes, tail: bytes) -> bool:
        page = head.startswith(b"PAR1\x15")  # and the header of a page
        return page or (head.startswith(self.magic) and tail.endswith(self.magic))

    def cuts(self, file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Part]:
        from bpe_pipeline.corpus.parquet import row_group_bytes

        groups = enumerate(row_group_bytes(file, cutting.text_field))
        return [Part(group, group + 1, size) for group, (rows, size) in groups if rows]

    def read(
        self, span: FileSpan, text_field: str, progress: Progress, budget: ReadBudget, text: Stretch
    ) -> Iterator[Records]:
        from bpe_pipeline.corpus.parquet import read_row_groups

        with unchanged(span.file) as stream:
            yield from read_row_groups(span, stream, text_field, progress, budget)


class Arrow(CorpusFormat):
    """Files and streams of record batches, between which they are cut. Positions are rows, as for Parquet."""

    title = "Arrow"
    suffixes = (".arrow", ".feather")
    magic = (b"ARROW1", b"\xff\xff\xff\xff")  # of a stream, and the length of its schema
    position = "row"
    compresses_itself = True

    def marks(self, head: bytes, tail: bytes) -> bool:
        file, stream = self.magic
        is_stream = head.startswith(stream) and int.from_bytes(head[4:8], "little", signed=True) > 0
        return is_stream or head.startswith(file + b"\0\0")

    def cuts(self, file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Part]:
        from bpe_pipeline.corpus.arrow import batch_cuts

        cuts = batch_cuts(file, cutting.text_field, chunk_bytes) if cutting.text_field else []  # rows are read whole
        return [Part(start, stop) for start, stop in pairwise([0, *cuts, file.size])]

    def read(
        self, span: FileSpan, text_field: str, progress: Progress, budget: ReadBudget, text: Stretch
    ) -> Iterator[Records]:
        from bpe_pipeline.corpus.arrow import read_batches

        with unchanged(span.file) as stream:
            yield from read_batches(span, stream, text_field, progress, budget)


PARQUET, ARROW = Parquet(), Arrow()
