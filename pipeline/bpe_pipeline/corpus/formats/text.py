"""Plain text: special tokens separate its documents, and a file without any is one document."""

from collections.abc import Iterator

from bpe_pipeline.corpus.chunks import Cutting, SearchedText, text_cut
from bpe_pipeline.corpus.contents import RECORDS_BYTES, refuse_records
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats.byte_format import ByteFormat
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.readers import FIRST_BYTES


class Text(ByteFormat):
    """Blocks of text."""

    title = "text"
    has_fields = False
    begins_anywhere = True

    def cut(self, cutting: Cutting, text: SearchedText, reach: int, wanted: int) -> int | None:
        return text_cut(cutting, text, reach, wanted)

    def parse(
        self, file: CorpusFile, blocks: Iterator[bytes], at: int, text_field: str, budget: ReadBudget
    ) -> Iterator[bytes]:
        for block in blocks:
            if at == 0 and file.compression != "none" and not file.by_name:
                refuse_records(file.path, block[:RECORDS_BYTES], text_field, whole=len(block) < FIRST_BYTES)
            at += len(block)
            yield block
            del block  # before the next one is read


TEXT = Text()
