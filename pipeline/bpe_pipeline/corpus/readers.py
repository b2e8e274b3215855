"""A span of a file -> blocks of text, or columns of documents, in bounded memory.

Formats and compressions are independent. A file that changed since it was listed, or while it is read, is an error.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from bpe_pipeline._core import SpecialTokens
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.chunks import Cutting, SearchedText, context_bytes
from bpe_pipeline.corpus.cut_files import specials_in
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan, opened, refuse_compressed
from bpe_pipeline.corpus.formats import Progress, Stretch
from bpe_pipeline.corpus.frames import FROM_START, Frame, frame_before, frames_of
from bpe_pipeline.corpus.read_budget import UNLIMITED, ReadBudget
from bpe_pipeline.storage import OpenFile

BLOCK_BYTES = 1 << 20
FIRST_BYTES = 1 << 16  # of a range of decompressed text


def text_range(span: FileSpan, cutting: Cutting, budget: ReadBudget = UNLIMITED) -> Stretch:
    """Return the bytes of a compressed file's text that a span of it is: the second is None for the end.

    A cut between frames moves to the next safe position, wherever that is: the spans on either side find the same one.
    Raises as `read_span` does.
    """
    file, start, stop = span
    if (start, stop) == (0, file.size):
        return 0, None
    frames = {frame.start: frame for frame in frames_of(file)}
    if not {start, stop} <= {0, file.size, *frames}:
        raise InputError(f"{file.path} changed since the run was planned; restore it, or start again with --overwrite")
    first = 0 if start == 0 else _safe_from(file, frames[start], cutting, budget)
    last = None if stop == file.size or first is None else _safe_from(file, frames[stop], cutting, budget)
    return (frames[file.size].text if first is None else first), last


def _safe_from(file: CorpusFile, frame: Frame, cutting: Cutting, budget: ReadBudget) -> int | None:
    """Return the first safe position in the text from a frame on; None if there is none to the end."""
    from bpe_pipeline.corpus.decompress import decompress

    specials = specials_in(file, cutting)
    around = context_bytes(specials)
    data, at = b"", frame.text
    with opened(file.path) as stream:
        for block in decompress(file, stream, budget, frame):
            data += block
            if (cut := first_cut(file, cutting, data, specials)) is not None:
                return at + cut
            at += max(len(data) - 4 * around, 0)
            data = data[-4 * around :]
    return None


def first_cut(file: CorpusFile, cutting: Cutting, data: bytes, specials: SpecialTokens) -> int | None:
    """Return where a part may start in a part of a file's text, not near its ends, or None."""
    around = context_bytes(specials)
    text = SearchedText(lambda at, size: data[at : at + size], len(data), max(len(data), 1), specials)
    return file.kind.cut(cutting, text, len(data) - 4 * around, 2 * around)


def read_span(
    span: FileSpan,
    text_field: str,
    progress: Progress,
    budget: ReadBudget = UNLIMITED,
    text: Stretch = (0, None),
) -> Iterator[bytes | Records]:
    """Read a span of a file: blocks of one text, or records, in order.

    text: what is read of a compressed file's text. progress: is called with how many more of the span's bytes are done.
    Raises `InputError` for a file that changed, cannot be read or is damaged, with the location; `TrainingError` if
    something does not fit the budget.
    """
    return span.file.kind.read(span, text_field, progress, budget, text)


@contextmanager
def blocks_of_span(
    span: FileSpan, progress: Progress, budget: ReadBudget = UNLIMITED, text: Stretch = (0, None)
) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Open a file of bytes; yield where the text of the span starts, and its blocks."""
    with unchanged(span.file) as stream:
        if span.file.compression == "none":
            yield span.start, _read_blocks(span, stream, progress)
        else:
            blocks = _decompressed(span, stream, text, progress, budget)
            yield text[0], blocks if text[0] else _after_check(span.file, blocks)


def _after_check(file: CorpusFile, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what a compressed file holds from its start; `InputError` if that is neither text nor records."""
    first = next(blocks, b"")
    refuse_compressed(file, first)
    if first:
        yield first
    del first
    yield from blocks


@contextmanager
def unchanged(file: CorpusFile) -> Iterator[OpenFile]:
    """Open a file that must be as it was listed, also at the end of the block."""
    with opened(file.path, "the run resumes where it stopped") as stream:
        _require_unchanged(stream, file)
        yield stream
        _require_unchanged(stream, file)


def _require_unchanged(stream: OpenFile, listed: CorpusFile) -> None:
    size, mtime_ns, _ = stream.state()
    if (size, mtime_ns) != (listed.size, listed.mtime_ns):
        shrank = f": it shrank from {listed.size} bytes to {size}" if size < listed.size else ""
        raise InputError(
            f"{listed.path} changed since the run was planned{shrank}; restore it, or start again with --overwrite"
        )


def _read_blocks(span: FileSpan, stream: OpenFile, progress: Progress) -> Iterator[bytes]:
    file, start, stop = span
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


def _decompressed(
    span: FileSpan, stream: OpenFile, text: Stretch, progress: Progress, budget: ReadBudget
) -> Iterator[bytes]:
    """Yield blocks of a range of what a compressed file holds.

    The first block is not short, if there are more: it shows whether the text begins with a special token.
    """
    from bpe_pipeline.corpus.decompress import decompress

    (file, start, stop), (first, last) = span, text
    frame = frame_before(frames_of(file), first) if first else FROM_START
    at, reported, head = frame.text, 0, b""
    for block in decompress(file, stream, budget, frame):
        at += len(block)
        if at > first:
            wanted = memoryview(block)[max(first - at, -len(block)) : None if last is None else last - at + len(block)]
            head = head + bytes(wanted) if head or len(wanted) < len(block) else block
            if len(head) >= FIRST_BYTES:
                yield head
                head, first = b"", 0
        done = min(max(stream.tell() - start, 0), stop - start)
        progress(done - reported)
        reported = done
        if last is not None and at >= last:
            break
    if head:
        yield head
    progress(stop - start - reported)
