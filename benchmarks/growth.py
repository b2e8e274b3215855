"""`growth`: our time against the bytes of the corpus, the vocabulary's size, and the number of workers.

The corpora are prefixes of one file, each cut where a document ends. Rounds go over all sizes before they
repeat.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import corpora, ours, records
from benchmarks.run import Session, line_of, train_once
from benchmarks.tools import TOOLS


@dataclass(frozen=True)
class Curve:
    """Median seconds of one stage (`all`: the whole command) over bytes or over vocabulary size."""

    corpus: str
    over: str  # "corpus_bytes", "vocab_size" or "workers"
    stage: str
    points: tuple[tuple[float, float], ...]

    @property
    def slope(self) -> float | None:
        """1: linear growth; below: slower than the input grows."""
        return records.log_log_slope(self.points)


def measure_growth(
    session: Session,
    source: Path,
    sizes: Sequence[int],
    vocab_sizes: Sequence[int],
    workers: Sequence[int],
    pattern: str,
    vocab_size: int,
) -> list[records.Record]:
    """Trains on each size with `vocab_size`, then on the whole file with each of `vocab_sizes`, and of `workers`."""
    done = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        whole = corpora.open_corpus(source)
        tasks = []
        for size in sorted(set(sizes)):
            if size > whole.bytes:
                raise ValueError(f"{source}: holds {whole.bytes:,} bytes, fewer than {size:,}; leave that size out")
            target = Path(temporary, f"prefix-{size}.txt")
            shorter = corpora.prefix(source, size, session.special_token, target)
            tasks.append(("corpus_bytes", shorter, vocab_size, None))
        tasks += [("vocab_size", whole, size, None) for size in sorted(set(vocab_sizes))]
        tasks += [("workers", whole, vocab_size, count) for count in sorted(set(workers))]
        for number in range(1, session.rounds + 1):
            for over, corpus, vocabulary, count in tasks:
                record = train_once(
                    session, TOOLS[ours.NAME], corpus, pattern, vocabulary, kind="growth", workers=count
                )
                record |= {"round": number, "over": over, "source": source.name, "workers": count}
                records.append(session.results, record)
                print(line_of(record), flush=True)
                done.append(record)
    return done


def curves(measured: Sequence[records.Record]) -> list[Curve]:
    """The curves of each source's newest session: the whole command first, then its stages."""
    newest: dict[tuple[str, str], str] = {}
    for record in measured:
        key = record["source"], record["over"]
        newest[key] = max(newest.get(key, ""), record["session"])
    samples: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    for record in measured:
        source, over = record["source"], record["over"]
        if record["status"] != "ok" or record["session"] != newest[source, over]:
            continue
        for stage, seconds in {"all": record["wall_s"], **record.get("stages", {})}.items():
            points = samples.setdefault((source, over, stage), {})
            points.setdefault(float(record[over]), []).append(seconds)
    return [
        Curve(source, over, stage, tuple((x, statistics.median(ys)) for x, ys in sorted(points.items())))
        for (source, over, stage), points in samples.items()
    ]
