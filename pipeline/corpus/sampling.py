"""Samples of a corpus: short texts from all over it, read by the readers that counting uses, whatever the format.

What is read is bounded by the sample, not by the corpus.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from random import Random

from pipeline.base.errors import InputError
from pipeline.corpus.files import CorpusFile, find_files
from pipeline.corpus.readers import read_span
from pipeline.corpus.records import Text
from pipeline.run import manifest
from pipeline.storage import Location

SAMPLE_BYTES = 1 << 20
_TEXT_BYTES = 1 << 14
_SAMPLED_FILES = 64
_LEAST_STRETCH = 1 << 10


@dataclass(frozen=True)
class Drawn:
    """A text that was drawn, and the file that it is from."""

    path: str
    text: str


@dataclass(frozen=True)
class Chosen:
    """What to read of a file: stretches of `stretch_bytes` that begin at `starts`, or as much from its beginning."""

    file: CorpusFile
    stretch_bytes: int
    starts: tuple[int, ...]


def choose(files: Sequence[CorpusFile], sample_bytes: int, *, seed: int = 0) -> list[Chosen]:
    """Choose about so many bytes at random, every byte of the files as likely as any other; the same each time.

    Up to 64 files are to be opened. Nothing is read here.
    """
    ends = list(accumulate(file.size for file in files))
    if not ends:
        return []
    random = Random(seed)  # noqa: S311 - a sample, not a secret
    stretch = max(_LEAST_STRETCH, sample_bytes // _SAMPLED_FILES)
    times = Counter(bisect_right(ends, random.randrange(ends[-1])) for _ in range(-(-sample_bytes // stretch)))
    chosen = []
    for index, count in sorted(times.items()):
        last = max(files[index].size - stretch, 0)
        starts = tuple(sorted(random.randrange(last + 1) for _ in range(count)))
        chosen.append(Chosen(files[index], stretch, starts))
    return chosen


def read_chosen(chosen: Sequence[Chosen], text_field: str, *, skip_changed: bool = True) -> list[Drawn]:
    """Read what was chosen: of plain text stretches of whole words, two of which may overlap; of other formats, and of
    what is compressed, as many bytes from the beginning, so that nothing has to be read through.

    Raises InputError for what cannot be read, unless `skip_changed`.
    """
    drawn: list[Drawn] = []
    for one in chosen:
        file, most = one.file, one.stretch_bytes * len(one.starts)
        try:
            if file.format != "text" or file.compression != "none":
                found = _from_the_start(file, most, text_field)
            elif file.size <= most:
                found = [b"".join(map(bytes, _read(file, 0, file.size, text_field)))]
            else:
                found = [_stretch(file, start, one.stretch_bytes) for start in one.starts]
        except InputError:
            if not skip_changed:
                raise
            continue
        drawn += [Drawn(file.path, text.decode(errors="replace")) for text in found if text]
    return drawn


def _stretch(file: CorpusFile, start: int, size: int) -> bytes:
    """A stretch of plain text from the first white space in it to the last, or all of it where it has none."""
    data = b"".join(_read(file, start, min(start + size, file.size), "text"))
    if start and (first := min((at for at in map(data.find, (b" ", b"\n")) if at >= 0), default=-1)) >= 0:
        data = data[first:]
    if start + size < file.size and (last := max(map(data.rfind, (b" ", b"\n")))) > 0:
        data = data[:last]
    return data if start == 0 else data.lstrip(bytes(range(0x80, 0xC0)))  # no half of a character


def _from_the_start(file: CorpusFile, most_bytes: int, text_field: str) -> list[bytes]:
    texts: list[bytes] = []
    left = most_bytes
    for text in _read(file, 0, 1 if file.format == "parquet" else file.size, text_field):
        texts.append(text[:left])
        left -= len(texts[-1])
        if left <= 0:
            break
    return texts


def sample_texts(paths: Sequence[Location], sample_bytes: int = SAMPLE_BYTES) -> list[str]:
    """Texts from files or directories of any format and compression, `sample_bytes` in all; invalid UTF-8 is U+FFFD.

    Raises InputError for what cannot be read.
    """
    return _sampled(find_files(map(str, paths)).files, sample_bytes, "text", skip_changed=False) if paths else []


def corpus_sample(run: manifest.Run) -> list[str]:
    """A sample of a run's corpus, of those files that are still there as they were."""
    text_field = str(run.manifest.counting["text_field"])
    return _sampled(run.manifest.plan.files, SAMPLE_BYTES, text_field, skip_changed=True)


def _sampled(files: Sequence[CorpusFile], sample_bytes: int, text_field: str, *, skip_changed: bool) -> list[str]:
    step = max(1, -(-len(files) // _SAMPLED_FILES))
    chosen = files[::step]
    each = max(1, sample_bytes // _TEXT_BYTES // max(1, len(chosen)))
    texts: list[str] = []
    for file in chosen:
        try:
            texts += _texts_of(file, each, text_field)
        except InputError:
            if not skip_changed:
                raise
    return texts


def _texts_of(file: CorpusFile, count: int, text_field: str) -> Iterator[str]:
    """Stretches from all over a plain text; the first documents, or blocks, of anything else."""
    if file.format == "text" and file.compression == "none":
        starts = sorted({file.size * index // count for index in range(count)})
        spans = [(start, min(start + _TEXT_BYTES, stop)) for start, stop in pairwise([*starts, file.size])]
        stretches: Iterator[bytes] = chain.from_iterable(_read(file, start, stop, text_field) for start, stop in spans)
    else:
        stretches = islice(_read(file, 0, 1 if file.format == "parquet" else file.size, text_field), count)
    for stretch in stretches:
        yield stretch[:_TEXT_BYTES].decode(errors="replace")


def _read(file: CorpusFile, start: int, stop: int, text_field: str) -> Iterator[bytes]:
    """The blocks of text, or the documents, in a span of a file."""
    for read in read_span(file, start, stop, text_field, lambda _: None):
        if isinstance(read, Text):
            yield bytes(read.data)
            continue
        offsets = memoryview(read.offsets).cast("B").cast("i" if read.offset_bytes == 4 else "q")
        data = memoryview(read.data).cast("B")
        yield from (bytes(data[offsets[row] : offsets[row + 1]]) for row in range(read.rows))
