"""A format whose files are bytes that are read in order, also out of a compressed file."""

from abc import abstractmethod
from collections.abc import Iterator

from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.cut_files import cut_compressed, cut_file
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.formats import CorpusFormat, Part, Progress, Stretch
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.readers import blocks_of_span


class ByteFormat(CorpusFormat):
    """A format of bytes: `parse` makes texts of blocks of them, `cut` says where a part may start."""

    @abstractmethod
    def parse(
        self, file: CorpusFile, blocks: Iterator[bytes], at: int, text_field: str, budget: ReadBudget
    ) -> Iterator[bytes | Records]:
        """Yield the texts in blocks that start at offset `at` of the file's text."""

    def cuts(self, file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Part]:
        if file.compression != "none":
            return cut_compressed(file, cutting, chunk_bytes)
        cuts = [0, *cut_file(file, cutting, chunk_bytes=chunk_bytes), file.size]
        return list(map(Part, cuts, cuts[1:]))

    def read(
        self, span: FileSpan, text_field: str, progress: Progress, budget: ReadBudget, text: Stretch
    ) -> Iterator[bytes | Records]:
        with blocks_of_span(span, progress, budget, text) as (first, blocks):
            yield from self.parse(span.file, blocks, first, text_field, budget)
