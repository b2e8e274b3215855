"""A format whose files are bytes that are read in order, also out of a compressed file."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.cut_files import cut_compressed, cut_file
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.formats import CorpusFormat, Part, Progress, Stretch, Texts
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.readers import blocks_of_span

Parse = Callable[[CorpusFile, Iterator[bytes], int, str, ReadBudget], Texts]


def byte_format(parse: Parse, **about: Any) -> CorpusFormat:
    """Return the format with these fields; parse: makes texts of the blocks that start at an offset of a file's text.

    Its last two arguments are the name of the field that has the text, and the budget.
    """
    return CorpusFormat(cuts=_cuts, read=partial(_read, parse), **about)


def _cuts(file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Part]:
    if file.compression != "none":
        return cut_compressed(file, cutting, chunk_bytes)
    cuts = [0, *cut_file(file, cutting, chunk_bytes=chunk_bytes), file.size]
    return list(map(Part, cuts, cuts[1:]))


def _read(
    parse: Parse, span: FileSpan, text_field: str, progress: Progress, budget: ReadBudget, text: Stretch
) -> Texts:
    with blocks_of_span(span, progress, budget, text) as (first, blocks):
        yield from parse(span.file, blocks, first, text_field, budget)
