"""Fuzzing the readers of files: each kind of file, damaged.

Each target prepares itself in a directory and gives a function that tries one input: it takes a source of randomness,
makes an input of it, and raises for anything that should not be: an exception that is none of the package's, or a
result that another way of computing it does not give.
"""

import json
import random
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import peers
import samples
from counter_files import read, write
from merge_cases import arrays, engine_of, learn

from pipeline import Tokenizer, _core
from pipeline.base.errors import InputError, PipelineError
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine_worker import CombineTask, combine
from pipeline.counts.counter_file import open_counter
from pipeline.executors.local import LocalExecutor
from pipeline.merges import merge_list
from pipeline.pattern.compiler import compile_pattern
from pipeline.run import manifest
from pipeline.run.open_run import open_run
from pipeline.run.options import make_options
from pipeline.run.work import open_work
from pipeline.tokenizer.formats.huggingface import write_model

Target = Callable[[random.Random], None]
_LISTS = ("left", "right", "counts", "joined")
_LETTERS = [*"abk \n\r\té1中\u00a0😀'", "<|a|>", "<|ab", *peers.WORDS[:20]]


def mutated(good: bytes, source: random.Random) -> bytes:
    """The bytes with some of them flipped, dropped, doubled, moved, or replaced by what is often special."""
    data = bytearray(good)
    for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
        at, size = source.randrange(len(data) + 1), source.choice([1, 1, 2, 4, 8, 100])
        how = source.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << source.randrange(8)
        elif how == 1:
            del data[at : at + size]
        elif how == 2:
            data[at:at] = data[at : at + size]
        elif how == 3:
            data[at : at + size] = source.randbytes(size)
        elif how == 4:
            data[at : at + size] = source.choice([b"\xff" * size, bytes(size), b"9" * 20, b"[" * 200, b"null", b"-1"])
        else:
            other = source.randrange(len(data) + 1)
            data[at : at + size] = data[other : other + size]
    return bytes(data)


@contextmanager
def _refused_in_one_line(kind: type[PipelineError] = PipelineError) -> Iterator[None]:
    """Let a block end with an error of the package, whose message is one line."""
    try:
        yield
    except kind as error:
        assert "\n" not in str(error)


def counter_files(home: Path) -> Target:
    """Damaged counters: refused, or read as they were; combined only if they were."""
    counts = {f"{number:x}".encode() * (number % 7 + 1): number + 1 for number in range(700)}
    good = write(home / "good.parquet", counts, partitions=2).read_bytes()
    bad = home / "bad.parquet"

    def one(source: random.Random) -> None:
        bad.write_bytes(mutated(good, source))
        both, total = [(bad, "f"), (home / "good.parquet", "f")], home / "sum.parquet"
        rows = None
        with _refused_in_one_line(), open_counter(bad, fingerprint="f") as counter:
            assert (counter.rows, counter.statistics) == (len(counts), ChunkStatistics())
        with _refused_in_one_line():
            rows = combine(CombineTask(both, total, "s", threads=1)).rows
        if rows is not None:
            assert rows == len(counts)
            assert read(total) == {piece: 2 * count for piece, count in counts.items()}

    return one


def columns(_: Path) -> Target:
    """Columns of a counter that lie: refused, or a piece is longer and its neighbour shorter."""

    def one(source: random.Random) -> None:
        packed, data, counts = arrays({source.randbytes(source.randint(0, 30)): 3 for _ in range(20)})
        offsets = array("q", packed)
        offsets[source.randrange(len(offsets))] += source.choice([-1, 1, -(1 << 40), 1 << 40])
        engine = _core.MergeEngine()
        with suppress(ValueError, OverflowError):
            engine.add(offsets, data, counts)
            learn(engine, 20)

    return one


def merge_files(home: Path) -> Target:
    """Damaged merge lists: refused, of another run, or read as they were."""
    result = learn(engine_of({peers.generated_text(1, 400).encode(): 3}), 90)
    columns = [array(kind, getattr(result, name)) for kind, name in zip("IIQQ", _LISTS, strict=True)]
    merges = merge_list.MergeList(*columns, result.bytes, exhausted=False)
    path = home / "merges.parquet"
    merge_list.save(merges, path, "f")
    good = path.read_bytes()

    def one(source: random.Random) -> None:
        path.write_bytes(mutated(good, source))
        with _refused_in_one_line():
            assert merge_list.load(path, "f") in (merges, None)

    return one


def manifests(home: Path) -> Target:
    """Damaged manifests, half of them under a right digest: refused, or of a plan that fits its files."""
    (home / "text.txt").write_text("some text")
    options = make_options({"inputs": str(home / "text.txt"), "output": home / "run"})
    with open_work(options, compile_pattern("gpt2"), LocalExecutor(lambda: 1), lambda _: None) as work:
        open_run(work)
    path = home / "run" / "run.json"
    good, expected = path.read_bytes(), manifest.require(path.parent).manifest

    def one(source: random.Random) -> None:
        data = mutated(good, source)
        forged = source.random() < 0.5
        if forged:
            with suppress(ValueError, AttributeError, TypeError):
                document = json.loads(data)
                document.pop("digest", None)
                data = json.dumps(document | {"digest": manifest.fingerprint(document)}).encode()
        path.write_bytes(data)
        with _refused_in_one_line():
            found = manifest.load(path.parent)
            assert found is not None
            assert forged or found.manifest == expected
            found.manifest.counter_fingerprint()

    return one


def models(home: Path) -> Target:
    """Damaged tokenizers: refused, or such as encode and decode."""
    files = []
    for name in samples.PATTERNS:
        write_model(Tokenizer.from_merges(samples.trained(name), ["<|a|>"], pattern=name).model, home / name[:3])
        files.append((home / name[:3] / "tokenizer.json").read_bytes())
    path = home / "tokenizer.json"

    def one(source: random.Random) -> None:
        path.write_bytes(mutated(source.choice(files), source))
        tokenizer = None
        with _refused_in_one_line(InputError):
            tokenizer = Tokenizer.load(path)
        if tokenizer is not None:
            text = "".join(source.choices(_LETTERS, k=60))
            assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text

    return one
