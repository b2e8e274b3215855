"""The other measurements: encoders compared; our own command in growth, on cliffs, under limits, on Ray."""

import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import corpora, ours, records
from benchmarks.adapters import ENCODERS
from benchmarks.corpora import Corpus
from benchmarks.file_adapters import FILES
from benchmarks.process import Measurement
from benchmarks.records import Record
from benchmarks.run import Session, Step, Task, by_adapter, by_ours, in_child, rounds, version

Arguments = Any  # the parsed command line: corpora, pattern, vocab_size, and what is read below


def encode(session: Session, arguments: Arguments, opened: Sequence[Corpus]) -> list[Record]:
    """Documents to lists of ids; with `--files` the tools that read files themselves go from a file to ids.

    Each tool is a fresh process that loads a tokenizer which our own command trained on the corpus, and encodes once
    with all cores: caches start empty. The digest of the ids says whether all did the same. `--sizes` adds prefixes
    of the corpus, encoded with the same tokenizer, and `--cold` runs that read the corpus from the disk.
    """
    kind, known = ("files", FILES) if arguments.files else ("encode", ENCODERS)
    tools = [tool for tool in arguments.tools or known if version(tool)]
    if missing := [tool for tool in tools if tool not in known]:
        raise ValueError(f"--tools {missing[0]}: choose among {', '.join(known)}")
    size, done = arguments.vocab_size, []

    def once(tool: str, whole: Corpus, corpus: Corpus, tokenizer: Path, cold: bool) -> Record:
        (corpora.read_from_disk if cold else corpora.read_from_memory)(corpus.path)
        record = by_adapter(session, Task(kind, tool, corpus, arguments.pattern, size), tokenizer)
        return record | {"source": whole.name} | ({"cold": True} if cold else {})

    for whole in opened:
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
            run, tokenizer = Path(temporary, "run"), Path(temporary, "run", "tokenizer")
            argv = ours.train_argv(whole.path.resolve(), run, size, arguments.pattern, session.special_token)
            task = Task("train", ours.NAME, whole, arguments.pattern, size)
            trained = in_child(session, task, lambda _, argv=argv: argv, lambda *_: {})
            if trained["status"] != "ok":
                raise ValueError(f"training on {whole.name}: {trained['reason']}")
            for corpus in [*_prefixes(session, whole, arguments.sizes, Path(temporary)), whole]:
                steps = [
                    (
                        f"{tool}, {corpus.name}{state}",
                        partial(once, tool, whole, corpus, tokenizer, bool(state)),
                    )
                    for tool in tools
                    for state in (("", ", cold") if arguments.cold else ("",))
                ]
                done += rounds(session, steps, compared=True)
    return done


def _prefixes(session: Session, whole: Corpus, sizes: Sequence[int], directory: Path) -> Iterator[Corpus]:
    """Write the prefixes of a corpus, the shortest first."""
    for size in sorted(set(sizes)):
        if size > whole.bytes:
            raise ValueError(f"{whole.path}: {whole.bytes:,} bytes, fewer than {size:,}; leave that size out")
        yield corpora.prefix(whole.path, size, session.special_token, directory / f"{size}.txt")


def growth(session: Session, arguments: Arguments, opened: Sequence[Corpus]) -> list[Record]:
    """Train on prefixes of a corpus, which end where a document ends; on all of it with several vocabulary sizes."""
    steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        for number, whole in enumerate(opened):

            def step(over: str, corpus: Corpus, size: int, whole: Corpus = whole) -> Step:
                task = Task("growth", ours.NAME, corpus, arguments.pattern, size)
                more = {"over": over, "source": whole.name}
                return f"{corpus.name}, {size:,} tokens", lambda: by_ours(session, task) | more

            directory = Path(temporary, str(number))
            directory.mkdir()
            shorter = _prefixes(session, whole, arguments.sizes, directory)
            steps += [step("corpus_bytes", one, arguments.vocab_size) for one in shorter]
            steps += [step("vocab_size", whole, size) for size in sorted(set(arguments.vocab_sizes))]
        return rounds(session, steps)


@dataclass(frozen=True)
class Curve:
    """Median seconds of one stage (`all`: the whole command) over bytes or over vocabulary size."""

    corpus: str
    over: str  # "corpus_bytes" or "vocab_size"
    stage: str
    points: tuple[tuple[float, float], ...]

    @property
    def slope(self) -> float | None:
        """1: linear growth; below: slower than the input grows."""
        return records.log_log_slope(self.points)


def curves(measured: Sequence[Record]) -> list[Curve]:
    """The curves of each source that have a slope: the whole command first, then its stages."""
    samples: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    for record in measured:
        if record["kind"] == "growth" and record["status"] == "ok":
            for stage, seconds in {"all": record["wall_s"], **record["stages"]}.items():
                points = samples.setdefault((record["source"], record["over"], stage), {})
                points.setdefault(float(record[record["over"]]), []).append(seconds)
    found = [
        Curve(*key, tuple((x, statistics.median(ys)) for x, ys in sorted(points.items())))
        for key, points in samples.items()
    ]
    return [curve for curve in found if curve.slope is not None]


REFERENCE = "the reference"
_LETTERS = bytes(97 + value % 26 for value in range(256))
_BASES = bytes(b"ACGT"[value % 4] for value in range(256))


def _different(size: int) -> bytes:
    text = bytearray(random.Random(2).randbytes(size).translate(_LETTERS))
    text[::10] = b" " * len(text[::10])
    return bytes(text)


# Texts on which trainers hang or are a hundred times slower than on prose, made by size; None: of the reference.
SHAPES: dict[str, Callable[[int], bytes] | None] = {
    "prose as one single pre-token": None,
    "DNA without spaces: one pre-token": lambda size: random.Random(1).randbytes(size).translate(_BASES),
    "one letter: one pre-token": lambda size: b"a" * size,
    "the same pre-token of two bytes": lambda size: b" a" * (size // 2),
    "different random pre-tokens of ten bytes": _different,
}


def cliffs(session: Session, arguments: Arguments, opened: Sequence[Corpus]) -> list[Record]:
    """Train on unusual texts of several sizes, and on prefixes of the corpus of the same sizes."""
    [whole] = opened

    def once(size: int, shape: str, pattern: str) -> Record:
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
            target = Path(temporary, "corpus.txt")
            if shape == REFERENCE:
                made = corpora.prefix(whole.path, size, session.special_token, target)
            else:
                separator = session.special_token.encode()
                with whole.path.open("rb") as file:
                    text = (SHAPES[shape] or file.read)(size)
                target.write_bytes(text.replace(separator, b"-" * len(separator)))
                made = corpora.open_corpus(target)
            corpus = Corpus(target, shape, made.bytes, made.digest)
            record = by_ours(session, Task("cliff", ours.NAME, corpus, pattern, arguments.vocab_size))
            return record | {"source": whole.name, "size": size}

    steps: list[Step] = []
    for size in sorted(set(arguments.sizes)):
        for shape in (REFERENCE, *SHAPES):
            pattern = "none" if SHAPES.get(shape, len) is None else arguments.pattern
            steps.append((f"{shape}, {corpora.size_text(size)}", partial(once, size, shape, pattern)))
    return rounds(session, steps)


@dataclass(frozen=True)
class Cliff:
    """Median seconds of one shape by size, and how its time for a byte compares to the reference's."""

    name: str
    pattern: str
    points: tuple[tuple[float, float], ...]  # bytes, seconds
    to_reference: float | None  # at the largest size
    failure: str | None


def found_cliffs(measured: Sequence[Record]) -> list[Cliff]:
    """The shapes in the order of measuring."""
    found, reference = [], {}
    latest = [record for record in measured if record["kind"] == "cliff"]
    for name in dict.fromkeys(record["corpus"] for record in latest):
        group = [record for record in latest if record["corpus"] == name]
        by_size: dict[int, list[float]] = {}
        for record in group:
            if record["status"] == "ok":
                by_size.setdefault(record["size"], []).append(record["wall_s"] / record["corpus_bytes"])
        per_byte = {size: statistics.median(same) for size, same in sorted(by_size.items())}
        reference = per_byte if name == REFERENCE else reference
        largest = max(per_byte, default=0)
        failed = next((f"{record['status']}: {record['reason']}" for record in group if record["status"] != "ok"), None)
        ratio = per_byte[largest] / reference[largest] if largest and largest in reference else None
        points = tuple((float(size), seconds * size) for size, seconds in per_byte.items())
        found.append(Cliff(name, group[0]["pattern"], points, ratio, failed))
    return found


def memory(session: Session, arguments: Arguments, opened: Sequence[Corpus]) -> list[Record]:
    """Train under each limit, the largest first. A refused limit is a result: the command's line is the reason."""

    def once(corpus: Corpus, limit: int) -> Record:
        task = Task("memory", ours.NAME, corpus, arguments.pattern, arguments.vocab_size)
        record = by_ours(session, task, f"--memory-limit={limit}") | {"limit": limit}
        refused = record["status"] == "failed" and "--memory-limit" in record["reason"]
        if refused:
            said = record["reason"].partition(f"{ours.NAME}: error: ")[2] or record["reason"]
            record |= {"status": "refused", "reason": said}
        return record

    steps = [
        (f"{corpus.name}, {limit >> 20:,} MiB", partial(once, corpus, limit))
        for corpus in opened
        for limit in sorted(set(arguments.limits), reverse=True)
    ]
    return rounds(session, steps)


@contextmanager
def _ray(cores: int) -> Iterator[str]:
    """The address of a Ray cluster of one node, whose workers have the usual priority, like local ones."""
    if version("ray") is None:
        raise ValueError("ray is not installed in this Python: pip install '.[ray]'")
    from ray.cluster_utils import Cluster

    os.environ.update({"RAY_worker_niceness": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"})
    node = {"num_cpus": cores, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    try:
        yield made.address
    finally:
        made.shutdown()


def cluster(session: Session, arguments: Arguments, opened: Sequence[Corpus]) -> list[Record]:
    """The same training by local workers and on a Ray cluster of this machine alone, with the same cores.

    The memory of the cluster's processes is not measured: they are not children of the command.
    """
    cores = int(session.machine["usable_cores"])
    with _ray(cores) as address:
        steps: list[Step] = []
        for corpus in opened:
            task = Task("cluster", ours.NAME, corpus, arguments.pattern, arguments.vocab_size)
            for executor, option in (("local", f"--workers={cores}"), ("ray", f"--ray={address}")):
                more = {"executor": executor}
                step = lambda task=task, option=option, more=more: by_ours(session, task, option) | more  # noqa: E731
                steps.append((f"{executor}, {corpus.name}", step))
        return rounds(session, steps)


_WORKER = """
import operator, time
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.run.workers import executor_for
before = time.perf_counter()
with executor_for(make_options(TrainOptions, {"workers": 2}), TRAINING) as executor:
    list(executor.run(operator.pos, [1]))
    print(time.perf_counter() - before)
"""
TEXT_BYTES = 1_000_000


def startup(session: Session, arguments: Arguments, opened: Sequence[Corpus]) -> list[Record]:  # noqa: ARG001
    """What there is to pay before any work; a worker is timed inside a process, from the wish for an executor on."""
    generator = random.Random(3)
    weights = [1 / (rank + 1) for rank in range(20_000)]  # words occur about as often as words do
    words = ["".join(generator.choices("etaoinshrdlucmfwypvbgkjqxz", k=generator.randint(2, 9))) for _ in weights]
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        text = Path(temporary, "words.txt")
        text.write_text(" ".join(generator.choices(words, weights, k=TEXT_BYTES // 6))[:TEXT_BYTES])
        task = Task("startup", ours.NAME, corpora.open_corpus(text, "1 MB of words"), "gpt2", 32000)
        python = [sys.executable, "-P", "-c"]
        training = ours.train_argv(text, Path("run"), task.vocab_size, task.pattern, session.special_token)
        commands = {
            "python alone": [*python, "pass"],
            "import bpe_pipeline": [*python, "import bpe_pipeline"],
            "a worker answers": [*python, _WORKER],
            f"{ours.NAME} --version": [*ours.command(), "--version"],
            f"{ours.NAME} train, 1 MB": training,
        }

        def once(name: str) -> Record:
            def answer(_: Path, measured: Measurement) -> dict[str, Any]:
                return {"wall_s": float(measured.stdout)} if name == "a worker answers" else {}

            return in_child(session, task, lambda _: commands[name], answer) | {"command": name}

        return rounds(session, [(name, partial(once, name)) for name in commands])


KINDS: dict[str, Callable[[Session, Arguments, Sequence[Corpus]], list[Record]]] = {
    "encode": encode,
    "growth": growth,
    "cliffs": cliffs,
    "memory": memory,
    "cluster": cluster,
    "startup": startup,
}
