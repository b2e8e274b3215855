"""Files become chunks of about the same size; counting them apart counts what the files hold.

A file is cut evenly, and each cut then moves forward to the next safe position (`bpe_pipeline.corpus.chunks`); if there
is none within one chunk's length, the stretch stays whole. Parquet files are cut between row groups, Arrow between
record batches. Compressed files are cut between frames (`bpe_pipeline.corpus.frames`), if they have any; the worker
moves such a cut to the next safe position. JSON arrays and CSV are not cut. Small files share a chunk.
"""

from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

from bpe_pipeline._core import SpecialTokens
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.chunks import Chunk, Cutting, SearchedText, Span, line_cut, text_cut
from bpe_pipeline.corpus.files import WHOLE_FORMATS, CorpusFile, file_size, opened
from bpe_pipeline.corpus.frames import Frame, frames_of, text_bytes


def plan_chunks(files: Sequence[CorpusFile], cutting: Cutting, *, chunk_bytes: int) -> list[Chunk]:
    """Plan the chunks of a corpus, in its order: each of about `chunk_bytes`, longer only where no cut is safe."""
    chunks: list[Chunk] = []
    spans: list[Span] = []
    filled = 0
    for index, file in enumerate(files):
        if file.format == "parquet":
            from bpe_pipeline.corpus.parquet import row_group_bytes

            groups = enumerate(row_group_bytes(file, cutting.text_field))
            of_file = [Span(index, group, group + 1, size) for group, (rows, size) in groups if rows]
        elif file.format == "arrow" and cutting.text_field:
            from bpe_pipeline.corpus.arrow import batch_cuts

            cuts = batch_cuts(file, cutting.text_field, chunk_bytes)
            of_file = [Span(index, start, stop) for start, stop in pairwise([0, *cuts, file.size])]
        elif file.format in ("arrow", *WHOLE_FORMATS):
            of_file = [Span(index, 0, file.size)]
        elif file.compression != "none":
            of_file = _compressed_spans(index, file, cutting, chunk_bytes)
        else:
            cuts = cut_file(file, cutting, chunk_bytes=chunk_bytes)
            of_file = [Span(index, start, stop) for start, stop in pairwise([0, *cuts, file.size])]
        for span in of_file:
            if spans and filled + span.bytes > chunk_bytes:
                chunks.append(Chunk(tuple(spans)))
                spans, filled = [], 0
            if span.size is not None and spans and spans[-1].file == index:
                spans[-1] = Span(index, spans[-1].start, span.stop, spans[-1].bytes + span.size)
            else:
                spans.append(span)
            filled += span.bytes
    if spans:
        chunks.append(Chunk(tuple(spans)))
    return chunks


def _compressed_spans(index: int, file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Span]:
    """Cut a compressed file evenly between frames."""
    can_be_cut = cutting.between_frames and (cutting.cuts_anywhere or file.format != "text")
    frames = frames_of(file) if can_be_cut else []
    size = frames[-1].text if frames else text_bytes(file)
    wanted = -(-size // chunk_bytes) if frames else 1
    cuts, last = [Frame(0, 0)], len(frames) - 1
    for number in range(1, wanted):
        nearest = frames[min(bisect_left([frame.text for frame in frames], size * number // wanted), last)]
        if cuts[-1].start < nearest.start < file.size:
            cuts.append(nearest)
    cuts.append(Frame(file.size, size))
    return [Span(index, one.start, next_.start, next_.text - one.text) for one, next_ in pairwise(cuts)]


def cut_file(
    file: CorpusFile, cutting: Cutting, *, chunk_bytes: int, read_bytes: int = 1 << 20, threads: int = 2
) -> list[int]:
    """Return the inner cuts of one file: ascending, different, none at its start or end."""
    pre_tokens = -(-file.size // chunk_bytes)
    if pre_tokens <= 1:
        return []
    with opened(file.path) as stream:
        size = file_size(stream)
        if size != file.size:
            raise InputError(f"{file.path} changed while it was planned: {size} bytes instead of {file.size}")
        is_lines = file.format in ("jsonl", "lines")
        specials = SpecialTokens([]) if is_lines else cutting.specials()
        text = SearchedText(stream.read_at, size, read_bytes, specials)
        find = partial(line_cut if is_lines else partial(text_cut, cutting), text, -(-size // pre_tokens))
        with ThreadPoolExecutor(threads) as pool:
            cuts = set(pool.map(find, [size * i // pre_tokens for i in range(1, pre_tokens)]))
    return sorted(cut for cut in cuts if cut is not None and 0 < cut < size)
