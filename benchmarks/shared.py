"""Merging that nodes share: what its parts and its exchanges cost, for `benchmarks/SCALE.md`.

    python -m benchmarks.shared RUN_DIRECTORY [MERGES]

Merges an eighth, a quarter, half and all of a run's counter: in three parts that are in this process, so that CPU time
can be attributed, and by one engine. Then three actors on a Ray cluster of this machine answer requests of the measured
size without any work: what an exchange costs besides its work.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.cost import fit_line
from pipeline import _core
from pipeline.counts.counter_file import Columns, CounterFile, open_counter
from pipeline.executors.ray import RayExecutor
from pipeline.executors.ray_held import Held
from pipeline.merges import shared_worker
from pipeline.merges.rules import MergeRules

_RULES = MergeRules()
PARTS, SIZES, EMPTY = 3, (1, 2, 4, 8), 500  # sizes in eighths of the counter


class _PartsHere:
    """Parts in this process, with the CPU seconds of their methods and the bytes of the exchanges of one part."""

    def __init__(self, parts: list[Any]) -> None:
        self.cpu_s: Counter[str] = Counter()
        self.exchanges = self.bytes = 0
        self._parts = parts

    def ask(self, method: str, *arguments: Any, catch_up: object = None) -> Iterator[Any]:  # noqa: ARG002
        """See `shared_worker.Parts`."""
        started = time.process_time()
        answers = [getattr(part, method)(*arguments) for part in self._parts]
        self.cpu_s[method] += time.process_time() - started
        if method == "join":
            self.exchanges += 1
            self.bytes += sum(map(len, arguments[1:])) + sum(memoryview(one).nbytes for one in answers[0][:3])
        yield from answers


def _columns(counter: CounterFile, size: int, part: int, parts: int) -> Iterator[Columns]:
    for eighth in range(size):
        yield from shared_worker.columns_of(counter, eighth * parts + part, SIZES[-1] * parts)


def _measure(counter: CounterFile, size: int, merges: int) -> tuple[float, ...]:
    """Bytes of pieces; CPU seconds of parts, coordinating, one engine; exchanges; bytes of each with a part."""
    started = time.process_time()
    parts = range(PARTS)
    here = _PartsHere([_core.Part(_RULES, lambda i=i: _columns(counter, size, i, PARTS), b"") for i in parts])
    here.cpu_s["read"] = time.process_time() - started
    training = _core.SharedTraining(merges, _RULES)
    shared_worker.merge(training, here, lambda: None)
    parts_s = sum(here.cpu_s.values())
    coordinating_s = time.process_time() - started - parts_s
    engine, started = _core.MergeEngine(), time.process_time()
    engine.stream(lambda: _columns(counter, size, 0, 1), counter.piece_bytes)
    result = engine.run(merges, _RULES)
    engine_s = time.process_time() - started
    if bytes(result.left) + bytes(result.right) != bytes(training.result.left) + bytes(training.result.right):
        raise AssertionError("parts and engine made different merges")
    piece_bytes = counter.piece_bytes * size / SIZES[-1]
    return piece_bytes, parts_s, coordinating_s, engine_s, here.exchanges, here.bytes / here.exchanges


def _empty_exchange_s(answer_bytes: int) -> float:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from ray_cluster import cluster_of

    with (
        cluster_of(PARTS) as cluster,
        RayExecutor(cluster.address, None),
        Held(bytes, int, PARTS, 100 << 20) as held,
    ):
        list(held.ask("ljust", answer_bytes))
        started = time.perf_counter()
        for _ in range(EMPTY):
            list(held.ask("ljust", answer_bytes))
        return (time.perf_counter() - started) / EMPTY


def main(run: str, merges: str = "32000") -> None:
    """Measure and print."""
    show = sys.stdout.write
    show("| pieces | three parts, CPU | coordinating, CPU | one engine, CPU | exchanges | bytes with each part |\n")
    show("|---:|---:|---:|---:|---:|---:|\n")
    with open_counter(Path(run) / "counter.parquet") as counter:
        measured = [_measure(counter, size, int(merges)) for size in SIZES]
    for size, parts_s, coordinating_s, engine_s, exchanges, exchange_bytes in measured:
        show(f"| {size / 1e6:.1f} MB | {parts_s:.2f} s | {coordinating_s:.2f} s | {engine_s:.2f} s ")
        show(f"| {exchanges:,.0f} | {exchange_bytes:,.0f} |\n")
    for what, column in (("parts", 1), ("coordinating", 2)):
        smaller, line = (fit_line([(one[0], one[column]) for one in some]) for some in (measured[:-1], measured))
        error = smaller(measured[-1][0]) / measured[-1][column] - 1
        show(f"{what}: {line.fixed:.2f} s + {1e9 * line.each:.1f} s a GB; the largest from the others: {error:+.0%}\n")
    show(f"an exchange without work: {1000 * _empty_exchange_s(int(measured[-1][-1])):.2f} ms\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
