"""Fuzzing the readers of files: each kind of file, damaged.

Each target prepares itself in a directory and gives a function that tries one input: it takes a source of randomness,
makes an input of it, and raises for anything that should not be: an exception that is none of the package's, or a
result that another way of computing it does not give.
"""

import gzip
import json
import random
from array import array
from collections import Counter
from itertools import pairwise
from pathlib import Path

import oracle_counting
import peers
import samples
from core_targets import Target, text_of

from pipeline import Tokenizer, _core
from pipeline.base.errors import InputError, PipelineError
from pipeline.corpus.files import describe
from pipeline.corpus.formats import FileType
from pipeline.corpus.readers import read_span
from pipeline.counts import counter_file
from pipeline.counts.combine_worker import CombineTask, combine
from pipeline.executors.local import LocalExecutor
from pipeline.merges import merge_list
from pipeline.pattern import compile_pattern
from pipeline.run import manifest
from pipeline.run.open_run import open_run
from pipeline.run.options import make_options, read_config
from pipeline.run.work import open_work
from pipeline.tokenizer.formats.huggingface import write_model

_LISTS = ("left", "right", "counts", "joined")


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


def _counter_file(path: Path, counts: dict[bytes, int], partitions: int = 2) -> bytes:
    counter = _core.ChunkCounter(lambda document: [document], [])
    counter.add_pieces(list(counts), list(counts.values()))
    columns = (counter.columns(i, partitions) for i in range(partitions))
    counter_file.write_counter(path, columns, fingerprint="f")
    return path.read_bytes()


def counter_files(home: Path) -> Target:
    """Damaged counters: refused, or read as they were; combined only if they were."""
    counts = {f"{number:x}".encode() * (number % 7 + 1): number + 1 for number in range(700)}
    good = _counter_file(home / "good.parquet", counts)
    bad = home / "bad.parquet"

    def one(source: random.Random) -> None:
        bad.write_bytes(mutated(good, source))
        try:
            rows = combine(
                CombineTask([(bad, "f"), (home / "good.parquet", "f")], home / "sum.parquet", "s", threads=1)
            ).rows
        except PipelineError as error:
            assert "\n" not in str(error)
        else:
            assert rows == len(counts)
            with counter_file.open_counter(home / "sum.parquet") as found:
                parts = [oracle_counting.as_counter(found.read(i)) for i in range(found.partitions)]
            assert sum(parts, Counter()) == {piece: 2 * count for piece, count in counts.items()}

    return one


def merge_files(home: Path) -> Target:
    """Damaged merge lists: refused, of another run, or read as they were."""
    engine = _core.MergeEngine()
    text = peers.generated_text(1, 400).encode()
    engine.add(array("q", [0, len(text)]), text, array("Q", [3]))
    result = engine.run(90)
    columns = [array(kind, getattr(result, name)) for kind, name in zip("IIQQ", _LISTS, strict=True)]
    merges = merge_list.MergeList(*columns, result.bytes, exhausted=False)
    path = home / "merges.parquet"
    merge_list.save(merges, path, "f")
    good = path.read_bytes()

    def one(source: random.Random) -> None:
        path.write_bytes(mutated(good, source))
        try:
            assert merge_list.load(path, "f") in (merges, None)
        except PipelineError as error:
            assert "\n" not in str(error)

    return one


def manifests(home: Path) -> Target:
    """Damaged manifests, half of them under a right digest: refused, or of a plan that fits its files."""
    (home / "text.txt").write_text("some text")
    options = make_options({"inputs": str(home / "text.txt"), "output": home / "run"})
    with open_work(options, compile_pattern("gpt2"), LocalExecutor(lambda: 1), lambda _: None) as work:
        open_run(work)
    path = home / "run" / "run.json"
    good = path.read_bytes()

    def one(source: random.Random) -> None:
        data = mutated(good, source)
        if source.random() < 0.5:
            try:
                document = json.loads(data)
                document.pop("digest", None)
                data = json.dumps(document | {"digest": manifest.fingerprint(document)}).encode()
            except (ValueError, AttributeError, TypeError):
                pass
        path.write_bytes(data)
        try:
            found = manifest.load(path.parent)
            assert found is not None
            found.manifest.counter_fingerprint()
        except PipelineError as error:
            assert "\n" not in str(error)

    return one


def lines(home: Path) -> Target:
    """Lines of any bytes, plain and compressed, damaged or not: refused, or each a document as it stands."""
    path = home / "lines"

    def one(source: random.Random) -> None:
        data = b"\n".join(text_of(source, 40) for _ in range(source.randint(0, 20)))
        compression = source.choice(["none", "gzip"])
        stored = data if compression == "none" else gzip.compress(data)
        damaged = bool(stored) and source.random() < 0.5
        path.write_bytes(mutated(stored, source) if damaged else stored)
        if compression == "none":
            data = path.read_bytes()
        try:
            file = describe(str(path), FileType("lines", compression))
            found = [
                bytes(part.data[start:stop])
                for part in read_span(file, 0, file.size, "text", lambda _: None)
                for start, stop in pairwise(part.offsets)
            ]
        except PipelineError as error:
            assert "\n" not in str(error)
            assert damaged or not stored
        else:
            expected = data.split(b"\n")
            assert [line.removesuffix(b"\n") for line in found] == (expected if expected[-1] else expected[:-1])

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
        try:
            tokenizer = Tokenizer.load(path)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            text = text_of(source, 60).decode(errors="replace")
            assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text

    return one


def configs(home: Path) -> Target:
    """Configurations of any bytes: read, or refused in one line."""
    goods = {
        ".yaml": b"vocab_size: 32000\nspecial-token: ['<s>', \"x\"]\npattern: |\n  a+\nexport: [hf]\nworkers: 0x10\n",
        ".json": b'{"vocab_size": 32000, "special_tokens": ["<s>"], "chunk_size": "64MiB", "errors": "skip"}',
        ".toml": b'vocab_size = 32_000\nspecial_tokens = ["<s>", \'x\']\npattern = """a+"""\nquiet = true\n',
    }

    def one(source: random.Random) -> None:
        suffix = source.choice(list(goods))
        path = home / f"config{suffix}"
        path.write_bytes(mutated(goods[suffix], source))
        try:
            make_options(read_config(path))
        except PipelineError as error:
            assert "\n" not in str(error)

    return one
