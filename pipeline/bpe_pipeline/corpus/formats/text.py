"""Plain text: special tokens separate its documents, and a file without any is one document."""

from collections.abc import Iterator

from bpe_pipeline.corpus.chunks import text_cut
from bpe_pipeline.corpus.contents import RECORDS_BYTES, refuse_records
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats.byte_format import byte_format
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.readers import FIRST_BYTES


def _blocks(
    file: CorpusFile, blocks: Iterator[bytes], at: int, text_field: str, _budget: ReadBudget
) -> Iterator[bytes]:
    """Yield the blocks; `InvalidTextError` if a compressed file has records in it."""
    for block in blocks:
        if at == 0 and file.compression != "none" and not file.by_name:
            refuse_records(file.path, block[:RECORDS_BYTES], text_field, whole=len(block) < FIRST_BYTES)
        at += len(block)
        yield block
        del block  # before the next one is read


TEXT = byte_format(_blocks, title="text", has_fields=False, begins_anywhere=True, cut=text_cut)
