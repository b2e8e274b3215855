"""A sample of a corpus, counted: how long reading and counting take, and how the number of different pre-tokens
grows."""

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, TrainingError
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import BATCH_FORMATS, CorpusFile, FileSpan
from bpe_pipeline.corpus.read_budget import LEAST_COUNTING_BYTES, ReadBudget
from bpe_pipeline.corpus.readers import read_span
from bpe_pipeline.run.plan import Plan

_LEAST_OF_A_KIND = 512 << 10
_BLOCK_BYTES = 64 << 10  # that is taken of a place in plain text
_LINES_BYTES = 512 << 10  # of lines: the first and the last are not whole
_EVERY = 4  # of compressed or structured text, one block in that many is counted: near texts are alike
_READ_BYTES = 64 << 20  # of memory, at most, to read


@dataclass
class Kind:
    """Files of one format and compression: their text, and what was read of it; fed: the documents in it."""

    planned_bytes: int = 0
    files: dict[CorpusFile, int] = field(default_factory=dict)  # their first span's stop
    read_bytes: int = 0
    fed_bytes: int = 0
    read_s: float = 0.0
    texts: list[bytes] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """What was counted.

    points: bytes of text, different pre-tokens, their bytes, of a half of the sample and all of it.
    """

    kinds: Sequence[Kind]
    points: Sequence[tuple[int, int, int]]
    columns: tuple[Any, Any, Any]
    counted_s: float
    share: float = 1.0  # of the documents that are counted

    @property
    def text_bytes(self) -> int:
        """The bytes of all documents that are counted."""
        text_bytes = sum(kind.planned_bytes * kind.fed_bytes / max(kind.read_bytes, 1) for kind in self.kinds)
        return int(self.share * text_bytes)

    @property
    def counting_s(self) -> float:
        """How long one worker reads and counts the corpus."""
        reading = sum(kind.read_s * kind.planned_bytes / max(kind.read_bytes, 1) for kind in self.kinds)
        return reading + self.counted_s * self.text_bytes / self.points[1][0]

    def pre_tokens(self, text_bytes: float) -> tuple[float, float]:
        """Return the different pre-tokens of that much text, and their bytes: they grow as a power of it (Heaps'
        law)."""
        half, whole = self.points
        doublings = math.log2(max(text_bytes, 1) / whole[0]) / math.log2(whole[0] / half[0])
        grown = [last * (last / max(first, 1)) ** doublings for first, last in zip(half[1:], whole[1:], strict=True)]
        return min(grown[0], text_bytes), min(grown[1], text_bytes)


def sample(plan: Plan, text_field: str, counter: _core.ChunkCounter, sample_bytes: int) -> Sample | None:
    """Read and count about that many bytes, a share of each kind of file; None if there is too little text."""
    kinds: defaultdict[tuple[str, str], Kind] = defaultdict(Kind)
    for chunk in plan.chunks:
        for span in chunk.spans:
            file = plan.files[span.file]
            kind = kinds[file.format, file.compression]
            kind.planned_bytes += span.bytes
            kind.files[file] = max(span.stop, kind.files.get(file, 0))
    for kind in kinds.values():
        _read(kind, text_field, max(sample_bytes * kind.planned_bytes // max(plan.bytes, 1), _LEAST_OF_A_KIND))
    texts = [text for kind in kinds.values() for text in kind.texts]
    started = time.monotonic()
    points = []
    for part in range(2):
        for text in texts:
            middle = len(text) // 2
            counter.feed(text[middle:] if part else text[:middle], end=True)
        points.append((counter.fed_bytes(), len(counter)))
    counted_s = time.monotonic() - started
    if points[0][1] == 0 or points[0][0] == points[1][0]:
        return None
    columns = counter.columns()
    half_bytes = memoryview(columns[1]).nbytes * points[0][1] / points[1][1]  # pre-tokens hardly get longer
    sizes = [(*points[0], int(half_bytes)), (*points[1], memoryview(columns[1]).nbytes)]
    return Sample(list(kinds.values()), sizes, columns, counted_s)


def _read(kind: Kind, text_field: str, wanted: int) -> None:
    """Read texts of a kind, from several files in any order, until there are enough; skip what cannot be read."""
    files = list(kind.files.items())
    random = Random(0)  # noqa: S311 - a sample, not a secret
    random.shuffle(files)
    for number, (file, stop) in enumerate(files):
        left = wanted - sum(map(len, kind.texts))
        if left <= 0:
            return
        of_file = left if number >= 7 else max(left // min(len(files) - number, 8), _BLOCK_BYTES)
        started = time.monotonic()
        try:
            for text, read_bytes, counts in _texts(file, stop, text_field, of_file, random):
                kind.read_bytes += read_bytes
                kind.fed_bytes += len(text)
                if counts:
                    kind.texts.append(text)
        except (InputError, TrainingError):
            continue
        finally:
            kind.read_s += time.monotonic() - started


def _texts(
    file: CorpusFile, stop: int, text_field: str, wanted: int, random: Random
) -> Iterator[tuple[bytes, int, bool]]:
    """Yield texts of a file, each with the bytes that it takes in the file's text, and whether to count it."""
    read = partial(read_span, text_field=text_field, progress=lambda _: None)
    budget = ReadBudget(_READ_BYTES + LEAST_COUNTING_BYTES, lambda _: None)
    block_bytes = _BLOCK_BYTES if file.format == "text" else _LINES_BYTES
    if file.format not in BATCH_FORMATS and file.compression == "none" and file.size > 2 * max(wanted, block_bytes):
        for _ in range(-(-wanted // block_bytes)):
            start = random.randrange(file.size - block_bytes)
            texts = map(_text_of, read(FileSpan(file, start, start + block_bytes), budget=budget))
            yield b" ".join(texts), block_bytes, True
        return
    every = _EVERY if file.size > wanted else 1
    at = taken = 0
    for number, block in enumerate(read(FileSpan(file, 0, stop), budget=budget)):
        text = _text_of(block)
        size = len(text)
        if not isinstance(block, bytes) and file.format not in BATCH_FORMATS and block.rows:
            size = block.position(block.rows - 1) - at
            at += size
        counts = number % every == 0
        yield text, size, counts
        taken += len(text) if counts else 0
        if taken >= wanted:
            return


def _text_of(block: bytes | Records) -> bytes:
    if isinstance(block, bytes):
        return block
    data = memoryview(block.data).cast("B")
    return b" ".join(bytes(data[one:after]) for one, after in pairwise(block.starts))
