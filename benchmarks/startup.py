"""`startup`: what there is to pay before any work: Python, imports, a worker, the smallest training.

Each is a fresh process, timed from its start to its end; a worker's readiness is timed inside one, from the
wish for an executor to the first answer of a task that does nothing.
"""

import random
import sys
import tempfile
from pathlib import Path

from benchmarks import ours, records
from benchmarks.corpora import Corpus, open_corpus
from benchmarks.process import measure
from benchmarks.run import Session, record_of
from benchmarks.tools import TOOLS

_WORKER = """
import operator, time
from pipeline.run.options import TrainOptions, make_options
from pipeline.run.workers import executor_for
before = time.perf_counter()
with executor_for(make_options(TrainOptions, {"workers": 2})) as executor:
    list(executor.run(operator.pos, [1]))
    print(time.perf_counter() - before)
"""
TEXT_BYTES = 1_000_000


def _small_text(target: Path) -> Corpus:
    """A megabyte of words that occur about as often as words do."""
    generator = random.Random(3)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [1 / (rank + 1) for rank in range(20_000)]
    words = ["".join(generator.choices(letters, k=generator.randint(2, 9))) for _ in weights]
    target.write_text(" ".join(generator.choices(words, weights, k=TEXT_BYTES // 6))[:TEXT_BYTES])
    return open_corpus(target, "1 MB of words")


def run(session: Session) -> list[records.Record]:
    """Interleaved rounds of all commands."""
    done = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        corpus = _small_text(Path(temporary, "words.txt"))
        python = [sys.executable, "-P", "-c"]
        run_directory = Path(temporary, "run")
        commands = {
            "python alone": [*python, "pass"],
            "import pipeline": [*python, "import pipeline"],
            "a worker answers": [*python, _WORKER],
            f"{ours.NAME} --version": [*ours.command(), "--version"],
            f"{ours.NAME} train, 1 MB": [
                *ours.train_argv(corpus.path, run_directory, 32000, "gpt2", session.special_token),
                "--overwrite",
            ],
        }
        for number in range(1, session.rounds + 1):
            for name, argv in commands.items():
                measured = measure(
                    argv, timeout_s=session.timeout_s, directory=Path(temporary), environment=ours.environment()
                )
                record = record_of(session, "startup", TOOLS[ours.NAME], corpus, "gpt2", 32000, measured)
                record |= {"round": number, "command": name}
                if name == "a worker answers" and measured.status == "ok":
                    record["wall_s"] = float(measured.stdout)
                records.append(session.results, record)
                print(f"round {number}  {name:<30} {1000 * record['wall_s']:8.0f} ms  {record['status']}", flush=True)
                done.append(record)
    return done
