"""`cliffs`: unusual texts on which trainers hang or are a hundred times slower than on prose.

Each is made at several sizes, by size and name alone, and compared with a prefix of a reference corpus
of the same size: what is to be seen is the growth, and the time for a byte as a multiple of the reference's.
"""

import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import corpora, ours, records
from benchmarks.run import Session, line_of, train_once
from benchmarks.tools import TOOLS

BLOCK_BYTES = 10_000_000
REFERENCE = "the reference"
_LETTERS = bytes(97 + value % 26 for value in range(256))
_BASES = bytes(b"ACGT"[value % 4] for value in range(256))


def _blocks(size: int) -> Iterator[int]:
    for start in range(0, size, BLOCK_BYTES):
        yield min(BLOCK_BYTES, size - start)


def _dna(size: int) -> Iterator[bytes]:
    generator = random.Random(1)
    return (generator.randbytes(block).translate(_BASES) for block in _blocks(size))


def _one_letter(size: int) -> Iterator[bytes]:
    return (b"a" * block for block in _blocks(size))


def _one_piece_again(size: int) -> Iterator[bytes]:
    return (b" a" * (block // 2) for block in _blocks(size))


def _different_pieces(size: int) -> Iterator[bytes]:
    generator = random.Random(2)
    for block in _blocks(size):
        text = bytearray(generator.randbytes(block).translate(_LETTERS))
        text[::10] = b" " * len(text[::10])
        yield bytes(text)


@dataclass(frozen=True)
class Shape:
    """A kind of text; `make` returns blocks of it, or None for the reference's own text as one document."""

    name: str
    pattern: str | None  # None: the reference's
    make: Callable[[int], Iterator[bytes]] | None


SHAPES = (
    Shape("prose as one single piece", "none", None),
    Shape("DNA without spaces: one piece", None, _dna),
    Shape("one letter: one piece", None, _one_letter),
    Shape("the same piece of two bytes", None, _one_piece_again),
    Shape("different random pieces of ten bytes", None, _different_pieces),
)


def _write(shape: Shape, size: int, reference: Path, special_token: str, target: Path) -> corpora.Corpus:
    with target.open("wb") as out:
        if shape.make is not None:
            for block in shape.make(size):
                out.write(block)
        else:
            separator = special_token.encode()
            with reference.open("rb") as file:
                out.write(file.read(size).replace(separator, b"-" * len(separator)))
    return corpora.open_corpus(target, shape.name)


def measure_cliffs(
    session: Session, reference: Path, sizes: Sequence[int], pattern: str, vocab_size: int
) -> list[records.Record]:
    """Train on each shape at each size, and on prefixes of the reference; each round covers all of them."""
    done = []
    for number in range(1, session.rounds + 1):
        for size in sorted(set(sizes)):
            for shape in (Shape(REFERENCE, None, None), *SHAPES):
                with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
                    target = Path(temporary, "corpus.txt")
                    if shape.name == REFERENCE:
                        made = corpora.prefix(reference, size, session.special_token, target)
                        corpus = corpora.Corpus(made.path, REFERENCE, made.bytes, made.digest)
                    else:
                        corpus = _write(shape, size, reference, session.special_token, target)
                    record = train_once(
                        session, TOOLS[ours.NAME], corpus, shape.pattern or pattern, vocab_size, kind="cliff"
                    )
                record |= {"round": number, "source": reference.name, "size": size}
                records.append(session.results, record)
                print(line_of(record), flush=True)
                done.append(record)
    return done


@dataclass(frozen=True)
class Cliff:
    """Median seconds of one shape by size, and how its time for a byte compares to the reference's."""

    name: str
    pattern: str
    points: tuple[tuple[float, float], ...]  # bytes, seconds
    to_reference: float | None  # at the largest size
    failure: str | None

    @property
    def slope(self) -> float | None:
        """1: linear growth."""
        return records.log_log_slope(self.points)


def cliffs(measured: Sequence[records.Record]) -> list[Cliff]:
    """The shapes of the newest session, in the order of measuring."""
    newest = max((record["session"] for record in measured), default="")
    latest = [record for record in measured if record["session"] == newest]
    found = []
    reference: dict[int, float] = {}
    for name in dict.fromkeys(record["corpus"] for record in latest):
        group = [record for record in latest if record["corpus"] == name]
        by_size: dict[int, list[records.Record]] = {}
        for record in group:
            if record["status"] == "ok":
                by_size.setdefault(record["size"], []).append(record)
        per_byte = {
            size: statistics.median(record["wall_s"] / record["corpus_bytes"] for record in same)
            for size, same in by_size.items()
        }
        if name == REFERENCE:
            reference = per_byte
        largest = max(per_byte, default=0)
        points = sorted((float(size), seconds * size) for size, seconds in per_byte.items())
        failed = next((f"{record['status']}: {record['reason']}" for record in group if record["status"] != "ok"), None)
        ratio = per_byte[largest] / reference[largest] if largest and largest in reference else None
        found.append(Cliff(name, group[0]["pattern"], tuple(points), ratio, failed))
    return found
