"""`memory`: our own command under memory limits: time, measured peak and merges, and where it refuses.

The peak is measured from outside, as everywhere: proportional set sizes of the whole process tree. A limit that the
command refuses is a result, not a failure: its one line is kept as the reason.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import ours, records
from benchmarks.corpora import Corpus
from benchmarks.process import measure
from benchmarks.run import Session, line_of, record_of
from benchmarks.tools import TOOLS


def measure_limits(
    session: Session, corpora: Sequence[Corpus], limits: Sequence[int], pattern: str, vocab_size: int
) -> list[records.Record]:
    """Trains on each corpus under each limit, the largest first; rounds go over all limits before they repeat."""
    done = []
    for number in range(1, session.rounds + 1):
        for corpus in corpora:
            for limit in sorted(set(limits), reverse=True):
                with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
                    run_directory = Path(temporary, "run")
                    source = corpus.path.resolve()
                    argv = ours.train_argv(source, run_directory, vocab_size, pattern, session.special_token)
                    measured = measure(
                        [*argv, f"--memory-limit={limit}"],
                        timeout_s=session.timeout_s,
                        directory=Path(temporary),
                        environment=ours.environment(),
                    )
                    record = record_of(session, "memory", TOOLS[ours.NAME], corpus, pattern, vocab_size, measured)
                    if measured.status == "ok":
                        record |= ours.learned(run_directory)
                    else:
                        record["reason"] = ours.reason(measured.stderr)
                        if measured.exit_code in ours.REFUSED and "--memory-limit" in record["reason"]:
                            record["status"] = "refused"
                record |= {"round": number, "limit": limit}
                records.append(session.results, record)
                print(f"limit {limit >> 20:,} MiB  {line_of(record)}", flush=True)
                done.append(record)
    return done
