"""Where to cut: files become chunks of about the same size; counting them apart counts what the files hold.

A file is cut evenly, and each cut then moves forward to the next safe position: the start of a special token, or, if
none starts within one chunk's length, the nearest position where the compiled pattern proves that a piece ends after
any text. If neither is found, the stretch stays whole. Lines, of JSON or of text, are cut at their starts, Parquet
files between row groups, compressed files not at all. Small files share a chunk. A plan depends on the files, the chunk
size, the special tokens and the pattern; the counts do not depend on the plan.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from pipeline._core import Automaton, SpecialTokens
from pipeline.base.errors import InputError
from pipeline.corpus.files import CorpusFile, file_size, opened
from pipeline.storage import OpenFile

_CHARACTER_BYTES = 4  # of the longest character: a proof looks at the two around a cut


@dataclass(frozen=True)
class Span:
    """The bytes [start, stop) of the file with this index in the listing; of a Parquet file, the row groups.

    A span of text inside a file that does not start with a special token continues a document of the span before.
    size: its bytes, if they are not stop - start.
    """

    file: int
    start: int
    stop: int
    size: int | None = None

    @property
    def bytes(self) -> int:
        """The cost of counting it: bytes of the file, or of a Parquet file's texts."""
        return self.stop - self.start if self.size is None else self.size


@dataclass(frozen=True)
class Chunk:
    """A unit of counting: spans of one or several files, in the order of the listing."""

    spans: tuple[Span, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all spans."""
        return sum(span.bytes for span in self.spans)


@dataclass(frozen=True)
class Cutting:
    """What decides where text may be cut. `automaton` is None for patterns that run on `regex`, which prove nothing.

    With `whole_documents`, which `--errors skip` needs, only special tokens are cuts. `text_field` is the column that
    is read of Parquet files.
    """

    special_tokens: tuple[bytes, ...] = ()
    automaton: Automaton | None = None
    whole_documents: bool = False
    text_field: str = "text"


def plan_chunks(
    files: Sequence[CorpusFile], cutting: Cutting, *, chunk_bytes: int, read_bytes: int = 1 << 20, threads: int = 2
) -> list[Chunk]:
    """Plan the chunks of a corpus, in its order: each of about `chunk_bytes`, longer only where no cut is safe.

    Reads what it needs to find safe positions, `read_bytes` at a time. Raises `InputError` if a file cannot be read
    or does not have the size that was listed.
    """
    chunks: list[Chunk] = []
    spans: list[Span] = []
    filled = 0
    for index, file in enumerate(files):
        if file.format == "parquet":
            found = _row_groups(index, file, cutting.text_field)
        elif file.compression != "none":
            found = [Span(index, 0, file.size)]
        else:
            cuts = cut_file(file, cutting, chunk_bytes=chunk_bytes, read_bytes=read_bytes, threads=threads)
            found = [Span(index, start, stop) for start, stop in pairwise([0, *cuts, file.size])]
        for span in found:
            if spans and filled + span.bytes > chunk_bytes:
                chunks.append(Chunk(tuple(spans)))
                spans, filled = [], 0
            before = spans[-1] if spans else None
            if span.size is not None and before is not None and before.size is not None and before.file == span.file:
                spans[-1] = Span(index, before.start, span.stop, before.size + span.size)
            else:
                spans.append(span)
            filled += span.bytes
    if spans:
        chunks.append(Chunk(tuple(spans)))
    return chunks


def _row_groups(index: int, file: CorpusFile, text_field: str) -> list[Span]:
    from pipeline.corpus.parquet import row_group_bytes

    groups = enumerate(row_group_bytes(file, text_field))
    return [Span(index, group, group + 1, size) for group, (rows, size) in groups if rows]


def cut_file(file: CorpusFile, cutting: Cutting, *, chunk_bytes: int, read_bytes: int, threads: int) -> list[int]:
    """Return the inner cuts of one file: ascending, different, none at its start or end."""
    if chunk_bytes < 1:
        raise ValueError("chunk_bytes must be at least 1")
    pieces = -(-file.size // chunk_bytes)
    if pieces <= 1:
        return []
    with opened(file.path) as stream:
        size = file_size(stream)
        if size != file.size:
            raise InputError(f"{file.path} changed while it was planned: {size} bytes instead of {file.size}")
        text = _Text(stream, size, read_bytes)
        reach = -(-size // pieces)
        wanted = [size * i // pieces for i in range(1, pieces)]
        find = partial(_line_cut, text, reach)
        if file.format not in ("jsonl", "lines"):
            find = partial(_text_cut, text, cutting, SpecialTokens(list(cutting.special_tokens)), reach)
        with ThreadPoolExecutor(max(1, threads)) as pool:
            found = set(pool.map(find, wanted))
    return sorted(cut for cut in found if cut is not None and 0 < cut < size)


@dataclass(frozen=True)
class _Text:
    """An open file, read by position, so that threads can share it."""

    file: OpenFile
    size: int
    read_bytes: int

    def blocks(self, start: int, stop: int, before: int, after: int) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield blocks that together cover [start, stop): their range, and the text around it from an offset on."""
        for block in range(start, stop, self.read_bytes):
            block_stop = min(block + self.read_bytes, stop)
            begin = max(block - before, 0)
            yield block, block_stop, begin, self.file.read_at(begin, min(block_stop + after, self.size) - begin)


def _text_cut(text: _Text, cutting: Cutting, specials: SpecialTokens, reach: int, wanted: int) -> int | None:
    """Return the safe cut nearest behind a wanted one, or None."""
    # Repair of invalid text could produce a token with this character anywhere: no cut is safe then.
    if any("\N{REPLACEMENT CHARACTER}".encode() in token for token in cutting.special_tokens):
        return None
    stop = min(wanted + reach, text.size)
    cut = _special_cut(text, specials, wanted, stop)
    if cut is None and cutting.automaton is not None and not cutting.whole_documents:
        cut = _provable_cut(text, specials, cutting.automaton, wanted, stop)
    return cut


def _line_cut(text: _Text, reach: int, wanted: int) -> int | None:
    """Return the start of the next line, or None."""
    for _, _, begin, data in text.blocks(wanted - 1, min(wanted - 1 + reach, text.size), 0, 0):
        end = data.find(b"\n")
        if end >= 0:
            return begin + end + 1
    return None


def _special_cut(text: _Text, specials: SpecialTokens, start: int, stop: int) -> int | None:
    """Return the first start of a special token in [start, stop) that no other one before it can hide."""
    if not specials.longest:
        return None
    around = specials.longest
    for block, block_stop, begin, data in text.blocks(start, stop, around, around):
        at = block - begin
        while (match := specials.find(data, at)) is not None and begin + match[0] < block_stop:
            if not _covered(specials, data, match[0], match[0] + 1):
                return begin + match[0]
            at = match[0] + 1
    return None


def _covered(specials: SpecialTokens, data: bytes, at: int, end: int) -> bool:
    """Return whether some special token starts before `at` and ends at or after `end`."""
    for start in range(max(end - specials.longest, 0), at):
        match = specials.match_at(data, start)  # the longest that starts there
        if match is not None and match[1] >= end:
            return True
    return False


def _provable_cut(text: _Text, specials: SpecialTokens, automaton: Automaton, start: int, stop: int) -> int | None:
    """Return the first position in [start, stop) where the pattern proves that a piece ends, outside special tokens."""
    around = max(specials.longest, _CHARACTER_BYTES)
    for block, block_stop, begin, data in text.blocks(start, stop, around, around):
        low, high = block - begin, block_stop - begin
        while low < high and (cut := automaton.find_provable_cut(data, low, high)) is not None:
            # Right after a token a document starts, but a span that does not start with a token continues one.
            if not _covered(specials, data, cut, cut):
                return begin + cut
            low = cut + 1
    return None
