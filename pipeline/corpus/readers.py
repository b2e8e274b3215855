"""A span of a file -> blocks of text, or columns of documents, in bounded memory.

Formats and compressions are independent. A file that changed since it was listed, or while it is read, is an error.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.base.errors import InputError
from pipeline.corpus.files import CorpusFile, opened
from pipeline.corpus.formats import compressed_parquet, starts_as_parquet
from pipeline.corpus.lines import read_json_lines, read_lines
from pipeline.corpus.read_budget import UNLIMITED, ReadBudget
from pipeline.corpus.records import Records
from pipeline.storage import OpenFile

BLOCK_BYTES = 1 << 20
Progress = Callable[[int], None]


def read_span(
    file: CorpusFile, start: int, stop: int, text_field: str, progress: Progress, budget: ReadBudget = UNLIMITED
) -> Iterator[bytes | Records]:
    """Read the span [start, stop) of a file: blocks of one text, or records, in order.

    start, stop: bytes of a plain file of text or of whole lines, row groups of a Parquet file; a compressed file is
    read whole. progress: is called with how many more of the span's bytes are done. Raises `InputError` for a file that
    changed, cannot be read or is damaged, with the location; `TrainingError` if something does not fit the budget.
    """
    if file.format == "parquet":
        from pipeline.corpus.parquet import read_row_groups

        with unchanged(file) as stream:
            yield from read_row_groups(file, stream, range(start, stop), text_field, progress, budget)
        return
    with blocks_of_span(file, start, stop, progress, budget) as (first, blocks):
        if file.format == "text":
            yield from blocks
        elif file.format == "lines":
            yield from read_lines(file, blocks, first, budget)
        else:
            yield from read_json_lines(file, blocks, first, text_field, budget)


@contextmanager
def blocks_of_span(
    file: CorpusFile, start: int, stop: int, progress: Progress, budget: ReadBudget = UNLIMITED
) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Open a file that is not Parquet; yield where the text of the span starts, and its blocks."""
    with unchanged(file) as stream:
        if file.compression == "none":
            yield start, _read_blocks(file, stream, start, stop, progress)
        else:
            yield 0, _decompressed(file, stream, progress, budget)


@contextmanager
def unchanged(file: CorpusFile) -> Iterator[OpenFile]:
    """Open a file that must be as it was listed, also at the end of the block."""
    with opened(file.path, "the run resumes where it stopped") as stream:
        _require_unchanged(stream, file)
        yield stream
        _require_unchanged(stream, file)


def _require_unchanged(stream: OpenFile, listed: CorpusFile) -> None:
    size, mtime_ns = stream.state()
    if (size, mtime_ns) != (listed.size, listed.mtime_ns):
        shrank = f": it shrank from {listed.size} bytes to {size}" if size < listed.size else ""
        raise InputError(
            f"{listed.path} changed since the run was planned{shrank}; restore it, or start again with --overwrite"
        )


def _read_blocks(file: CorpusFile, stream: OpenFile, start: int, stop: int, progress: Progress) -> Iterator[bytes]:
    stream.seek(start)
    at = start
    while at < stop:
        block = stream.read(min(BLOCK_BYTES, stop - at))
        if not block:
            raise InputError(f"{file.path} ends at byte {at}, before the planned {stop}: it changed while it was read")
        size = len(block)
        at += size
        yield block
        del block  # before the next one is read
        progress(size)


def _decompressed(file: CorpusFile, stream: OpenFile, progress: Progress, budget: ReadBudget) -> Iterator[bytes]:
    """Yield blocks of what a compressed file holds; refuse a Parquet file in it."""
    from pipeline.corpus.decompress import decompress

    reported = 0
    for number, block in enumerate(decompress(file, stream, budget)):
        if number == 0 and starts_as_parquet(block):
            raise compressed_parquet(file.path, file.compression)
        yield block
        done = min(stream.tell(), file.size)
        progress(done - reported)
        reported = done
    progress(file.size - reported)
