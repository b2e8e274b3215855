"""`cluster`: the same training by local workers and on a Ray cluster of this machine alone, with the same cores.

The cluster runs before the first round. The memory of its processes is not measured, since they are not children of
the command. Ray runs its workers at a low priority by default (`RAY_worker_niceness`); here they have the usual
priority, like the local workers.
"""

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import machine, ours, records
from benchmarks.corpora import Corpus
from benchmarks.process import measure
from benchmarks.run import Session, line_of, record_of
from benchmarks.tools import TOOLS

_OBJECT_STORE_BYTES = 80 << 20  # Ray's minimum
_SURROUNDINGS = {"RAY_worker_niceness": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}


@contextmanager
def _cluster(cores: int) -> Iterator[str]:
    """The address of a cluster of one node."""
    from ray.cluster_utils import Cluster

    os.environ.update(_SURROUNDINGS)
    node = {"num_cpus": cores, "object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    try:
        yield made.address
    finally:
        made.shutdown()


def run(session: Session, corpora: Sequence[Corpus], pattern: str, vocab_size: int) -> list[records.Record]:
    """Interleaved rounds of both executors."""
    if machine.version("ray") is None:
        raise ValueError("ray is not installed in this Python: pip install '.[ray]'")
    cores = int(session.machine["usable_cores"])
    done = []
    with _cluster(cores) as address:
        executors = {"local": [f"--workers={cores}"], "ray": [f"--ray={address}"]}
        for corpus in corpora:
            for number in range(1, session.rounds + 1):
                for executor, options in executors.items():
                    record = _train_once(session, corpus, pattern, vocab_size, options)
                    record |= {"round": number, "executor": executor}
                    records.append(session.results, record)
                    print(f"{executor:<5}  {line_of(record)}", flush=True)
                    done.append(record)
    return done


def _train_once(
    session: Session, corpus: Corpus, pattern: str, vocab_size: int, options: Sequence[str]
) -> records.Record:
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        directory = Path(temporary, "run")
        argv = ours.train_argv(corpus.path.resolve(), directory, vocab_size, pattern, session.special_token)
        measured = measure(
            [*argv, *options], timeout_s=session.timeout_s, directory=Path(temporary), environment=ours.environment()
        )
        record = record_of(session, "cluster", TOOLS[ours.NAME], corpus, pattern, vocab_size, measured)
        if measured.status == "ok":
            record |= ours.learned(directory) | {"stages": ours.stage_seconds(directory)}
        return record


def section(all_records: Sequence[records.Record]) -> list[str]:
    """One row a corpus: medians of both, and the median of the ratios within a round."""
    lines = ["**On a Ray cluster of one node**", ""]
    lines += ["| corpus | local workers | Ray | ratio within a round | same merges |", "|---|---:|---:|---:|---|"]
    for (corpus, _, _), group in records.latest(all_records).items():
        done = {(r["executor"], r["round"]): r for r in group if r["status"] == "ok"}
        rounds = [number for executor, number in done if executor == "ray" and ("local", number) in done]
        if rounds:
            local, ray = ([done[executor, number]["wall_s"] for number in rounds] for executor in ("local", "ray"))
            ratio = statistics.median(b / a for a, b in zip(local, ray, strict=True))
            same = "yes" if len({r["tokens_digest"] for r in done.values()}) == 1 else "no"
            seconds = f"{statistics.median(local):.1f} s | {statistics.median(ray):.1f} s"
            lines.append(f"| {corpus} | {seconds} | {ratio:.2f}x | {same} |")
    return [*lines, ""] if all_records else []
