"""Samples of a list of files: short texts from all over it, read as counting reads them."""

from bisect import bisect_right
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from random import Random

from bpe_pipeline.base.errors import InputError, TrainingError
from bpe_pipeline.corpus.contents import BYTE_ORDER_MARK
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.read_budget import LEAST_COUNTING_BYTES, UNLIMITED, ReadBudget
from bpe_pipeline.corpus.readers import read_span

_STRETCHES, _FEW_STRETCHES = 256, 64  # the fewer for a small sample: in a store each costs a request
_SMALL_SAMPLE = 4 << 20
_LEAST_STRETCH = 1 << 10


@dataclass(frozen=True)
class Drawn:
    """A text that was drawn, and its file. replaced: invalid UTF-8 sequences in whose place it has U+FFFD."""

    path: str
    text: str
    replaced: int = 0

    @classmethod
    def of(cls, path: str, data: bytes) -> "Drawn":
        """Decode a text."""
        text = data.decode(errors="replace")
        return cls(path, text, text.count("\ufffd") - data.count("\ufffd".encode()))


@dataclass(frozen=True)
class Chosen:
    """What to read of a file: stretches of `stretch_bytes` that begin at `starts`, or as many bytes from its start."""

    file: CorpusFile
    stretch_bytes: int
    starts: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """What to read of files for a sample. names: of sources by path, in place of those of their paths; languages: the
    sources that are languages, whose files are read line by line."""

    chosen: Sequence[Chosen]
    names: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()


def choose(files: Sequence[CorpusFile], sample_bytes: int, *, seed: int = 0) -> list[Chosen]:
    """Choose about `sample_bytes` at random, the same each time, in at most 256 files, 64 for less than 4 MiB.

    A corpus that is no larger is taken whole: then the sample depends neither on the order of files nor on cuts.
    """
    ends = list(accumulate(file.size for file in files))
    if not ends:
        return []
    random = Random(seed)  # noqa: S311 - a sample, not a secret
    stretches = _FEW_STRETCHES if sample_bytes < _SMALL_SAMPLE else _STRETCHES
    sized = not any(file.is_compressed for file in files)
    if sized and ends[-1] <= sample_bytes and len(files) <= stretches:
        return [Chosen(file, sample_bytes, (0,)) for file in files]
    stretch = max(_LEAST_STRETCH, sample_bytes // stretches)
    times: Counter[int] = Counter()
    chosen_bytes, most = 0, min(sample_bytes, ends[-1])  # bytes: a file that is shorter than its stretches is read once
    while times.total() * stretch < sample_bytes or (chosen_bytes < most and len(times) < stretches):
        index = bisect_right(ends, random.randrange(ends[-1]))
        chosen_bytes += min(stretch, max(files[index].size - times[index] * stretch, 0))
        times[index] += 1
    chosen = []
    for index, count in sorted(times.items()):
        last = max(files[index].size - stretch, 0)
        starts = tuple(sorted(random.randrange(last + 1) for _ in range(count)))
        chosen.append(Chosen(files[index], stretch, starts))
    return chosen


def read_chosen(
    chosen: Sequence[Chosen], text_field: str, *, skip_changed: bool = True, most_bytes: int | None = None
) -> list[Drawn]:
    """Read what was chosen: of plain text stretches of whole words, two of which may overlap; of other formats, and of
    compressed files, as many bytes from the start. Invalid UTF-8 becomes U+FFFD.

    Raises InputError for what cannot be read, unless `skip_changed`. Then a file of which reading would take more than
    `most_bytes` of memory, such as one with an enormous record, is left out, too.
    """
    drawn: list[Drawn] = []
    budget = UNLIMITED if most_bytes is None else ReadBudget(most_bytes + LEAST_COUNTING_BYTES, lambda _: None)
    for choice in chosen:
        try:
            drawn += [Drawn.of(choice.file.path, text) for text in _texts_of(choice, text_field, budget) if text]
        except (InputError, TrainingError):
            if not skip_changed:
                raise
            continue
    return drawn


def _texts_of(choice: Chosen, text_field: str, budget: ReadBudget) -> Iterator[bytes]:
    file, left = choice.file, choice.stretch_bytes * len(choice.starts)
    if not file.is_plain:
        for text in _read(file, 0, file.size, text_field, budget):
            yield text if len(text) <= left else _without_half(text[:left])
            left -= len(text)
            if left <= 0:
                return
    elif file.size <= left:
        yield b"".join(_read(file, 0, file.size))
    else:
        yield from (_stretch(file, start, choice.stretch_bytes) for start in choice.starts)


def _stretch(file: CorpusFile, start: int, size: int) -> bytes:
    """Read a stretch of plain text, from the first white space in it to the last; all of it if it has none."""
    data = b"".join(_read(file, start, min(start + size, file.size)))
    if start and (first := min((at for at in map(data.find, (b" ", b"\n")) if at >= 0), default=-1)) >= 0:
        data = data[first:]
    if start + size < file.size:
        last = max(map(data.rfind, (b" ", b"\n")))
        data = data[:last] if last > 0 else _without_half(data)
    return data if start == 0 else data.lstrip(bytes(range(0x80, 0xC0)))  # no half of a character


def _without_half(data: bytes) -> bytes:
    """Leave out the first bytes of a character whose others were cut off."""
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-4:])
    return data[: len(data) - len(decoder.getstate()[0])]


def _read(
    file: CorpusFile, start: int, stop: int, text_field: str = "text", budget: ReadBudget = UNLIMITED
) -> Iterator[bytes]:
    """Read the blocks of text, or the documents, in a span of a file."""
    for block in read_span(FileSpan(file, start, stop), text_field, lambda _: None, budget):
        if isinstance(block, bytes):
            yield block.removeprefix(BYTE_ORDER_MARK)
        else:
            data = memoryview(block.data).cast("B")
            yield from (bytes(data[begin:end]) for begin, end in pairwise(block.starts))
