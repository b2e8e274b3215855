"""Files become chunks of about the same size; counting them apart counts what the files hold.

A file is cut evenly, and each cut then moves forward to the next safe position (`bpe_pipeline.corpus.chunks`); if there
is none within one chunk's length, the stretch stays whole. Compressed files are cut between frames
(`bpe_pipeline.corpus.frames`), if they have any; the worker moves such a cut to the next safe position. Formats with
parts of their own are cut between these. Small files share a chunk.
"""

from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

from bpe_pipeline._core import SpecialTokens
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.chunks import Chunk, Cutting, SearchedText, Span
from bpe_pipeline.corpus.files import CorpusFile, file_size, opened
from bpe_pipeline.corpus.formats import Part
from bpe_pipeline.corpus.frames import Frame, frames_of, text_bytes


def plan_chunks(files: Sequence[CorpusFile], cutting: Cutting, *, chunk_bytes: int) -> list[Chunk]:
    """Plan the chunks of a corpus, in its order: each of about `chunk_bytes`, longer only where no cut is safe."""
    chunks: list[Chunk] = []
    spans: list[Span] = []
    filled = 0
    for index, file in enumerate(files):
        for span in (Span(index, *part) for part in file.kind.cuts(file, cutting, chunk_bytes)):
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


def cut_compressed(file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Part]:
    """Cut a compressed file evenly between frames."""
    can_be_cut = cutting.between_frames and (cutting.cuts_anywhere or not file.kind.begins_anywhere)
    frames = frames_of(file) if can_be_cut else []
    size = frames[-1].text if frames else text_bytes(file)
    wanted = -(-size // chunk_bytes) if frames else 1
    cuts, last = [Frame(0, 0)], len(frames) - 1
    for number in range(1, wanted):
        nearest = frames[min(bisect_left([frame.text for frame in frames], size * number // wanted), last)]
        if cuts[-1].start < nearest.start < file.size:
            cuts.append(nearest)
    cuts.append(Frame(file.size, size))
    return [Part(one.start, next_.start, next_.text - one.text) for one, next_ in pairwise(cuts)]


def specials_in(file: CorpusFile, cutting: Cutting) -> SpecialTokens:
    """Return a search for the tokens that no cut of a file may be in."""
    return cutting.specials() if file.kind.begins_anywhere else SpecialTokens([])


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
        text = SearchedText(stream.read_at, size, read_bytes, specials_in(file, cutting))
        find = partial(file.kind.cut, cutting, text, -(-size // pre_tokens))
        with ThreadPoolExecutor(threads) as pool:
            cuts = set(pool.map(find, [size * i // pre_tokens for i in range(1, pre_tokens)]))
    return sorted(cut for cut in cuts if cut is not None and 0 < cut < size)
