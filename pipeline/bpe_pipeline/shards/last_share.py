"""Which text is validation's where a corpus has too few documents to choose among: the last share of it.

That is for plain, uncompressed text: a single text without separators, such as nanoGPT's `input.txt`, or a few files.
Text is cut where a line ends, and a document ends there; without lines between documents, at a space, or anywhere.
Elsewhere a hash of each document decides.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice

from bpe_pipeline._core import SpecialTokens
from bpe_pipeline.corpus.chunks import Chunk, Cutting, SearchedText, Span, find_line_end, find_separator
from bpe_pipeline.corpus.files import CorpusFile, opened
from bpe_pipeline.run.plan import Plan

ENOUGH_DOCUMENTS = 20  # to choose among
_READ_BYTES = 1 << 20


def holding_out_last(plan: Plan, cutting: Cutting, ends: Sequence[bytes], share: float) -> Plan:
    """Return the plan with a cut before the last share of its text, if it has too few documents; elsewhere as it is."""
    if any((file.format, file.compression) != ("text", "none") for file in plan.files):
        return plan
    texts = _Texts(plan.files, cutting, ends)
    begins = list(islice(texts.begins(), ENOUGH_DOCUMENTS))
    if len(begins) == ENOUGH_DOCUMENTS:
        return plan
    wanted = texts.starts[-1] - int(share * texts.starts[-1])
    cut = texts.line_near(wanted) or max(begins) or texts.word_near(wanted)
    return _cut(plan, *texts.file_at(cut)) if cut else plan


@dataclass(frozen=True)
class _Texts:
    """The files of a corpus as one text, in which positions are counted. ends: what ends documents."""

    files: Sequence[CorpusFile]
    cutting: Cutting
    ends: Sequence[bytes]

    @property
    def starts(self) -> list[int]:
        """Where each file starts, and the last one ends."""
        return [*accumulate((file.size for file in self.files), initial=0)]

    def file_at(self, position: int) -> tuple[int, int]:
        """Return the file that has the byte at a position, and the offset there."""
        starts = self.starts
        file = bisect_right(starts, position) - 1
        return file, position - starts[file]

    def begins(self) -> Iterator[int]:
        """Yield where documents begin."""
        specials = self.cutting.specials()
        find = partial(_find_any, specials, self.ends)
        for file, start in zip(self.files, self.starts, strict=False):
            with opened(file.path) as stream:
                text, at = SearchedText(stream.read_at, file.size, _READ_BYTES, specials), 0
                while at < file.size:
                    yield start + at
                    if (found := text.first(at, file.size, find, 1)) is None:
                        break
                    data = stream.read_at(found, specials.longest)
                    at = found + max(len(end) for end in self.ends if data.startswith(end))

    def line_near(self, wanted: int) -> int:
        """Return where the first line starts from a position on, or else the last before it; 0 if there is none."""
        index, at = self.file_at(min(wanted, self.starts[-1] - 1))
        file, start = self.files[index], self.starts[index]
        with opened(file.path) as stream:
            text = SearchedText(stream.read_at, file.size, _READ_BYTES, self.cutting.specials())
            last = file.size - (index == len(self.files) - 1)  # behind the end of the corpus nothing is left
            end = text.first(max(at - 1, 0), last, find_line_end, 1)
            if end is None and index < len(self.files) - 1:
                return self.starts[index + 1]
            for block in range(at, 0, -_READ_BYTES):
                if end is not None:
                    break
                *_, end = None, *_ends_in(text, max(block - _READ_BYTES, 0), block)
        return start if end is None else start + end + 1

    def word_near(self, wanted: int) -> int:
        """Return where a space is in the one file from a position on, or else a character; 0 if it has only one."""
        file, at = self.files[0], max(wanted, 1)
        with opened(file.path) as stream:
            text = SearchedText(stream.read_at, file.size, _READ_BYTES, self.cutting.specials())
            searches = ((at, _find_space), (at, _find_character), (1, _find_character))
            return next(filter(None, (text.first(start, file.size, find, 1) for start, find in searches)), 0)


def _find_any(specials: SpecialTokens, ends: Sequence[bytes], data: bytes, low: int, high: int) -> int | None:
    found = (find_separator(specials, end, data, low, high) for end in ends)
    return min((at for at in found if at is not None), default=None)


def _find_space(data: bytes, low: int, high: int) -> int | None:
    at = data.find(b" ", low, high)
    return None if at < 0 else at


def _find_character(data: bytes, low: int, high: int) -> int | None:
    return next((at for at in range(low, high) if data[at] & 0xC0 != 0x80), None)


def _ends_in(text: SearchedText, start: int, stop: int) -> Iterator[int]:
    """Yield where lines end in a range."""
    while (end := text.first(start, stop, find_line_end, 1)) is not None:
        yield end
        start = end + 1


def _cut(plan: Plan, file: int, at: int) -> Plan:
    """Return the plan with a chunk that starts at this byte of this file: what is held out."""
    chunks = list[Chunk]()
    for chunk in plan.chunks:
        before = [
            Span(span.file, span.start, min(span.stop, at) if span.file == file else span.stop)
            for span in chunk.spans
            if (span.file, span.start) < (file, at)
        ]
        after = [
            Span(span.file, max(span.start, at) if span.file == file else span.start, span.stop)
            for span in chunk.spans
            if (span.file, span.stop) > (file, at)
        ]
        chunks += [Chunk(tuple(spans)) for spans in (before, after) if spans]
    first = next(number for number, chunk in enumerate(chunks) if chunk.spans[0][:2] == (file, at))
    return replace(plan, chunks=tuple(chunks), held_out=first)
