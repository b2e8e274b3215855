"""`counting`: the counting stage on one core, in MB of input a second, compared with `regex` and tokenizers.

Each is a fresh process kept on one core. Two clocks: `wall_s`, the whole process, and `stage_s`, the
counting alone without start-up, as the tool's own process reports it. Ours is the whole `count` command with
one worker; its stage time is what its run directory says (ours.stage_seconds), and absent as long as it
says nothing.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import ours, records
from benchmarks.adapters import Job
from benchmarks.corpora import Corpus
from benchmarks.process import measure
from benchmarks.run import Session, answer_of, record_of
from benchmarks.tools import COUNTERS, PATTERNS, Tool, child_argv


def count_once(session: Session, tool: Tool, corpus: Corpus, pattern: str) -> records.Record:
    """One tool counts the pieces of a corpus in one fresh process on one core."""
    environment = ours.environment() | {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    stage_s = None
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        directory = Path(temporary)
        run_directory = directory / "run"
        source = corpus.path.resolve()
        if tool.name == ours.NAME:
            argv = ours.count_argv(source, run_directory, pattern, session.special_token)
        else:
            # the alphabet and the special token: nothing is left to merge
            job = Job("count", tool.name, str(source), 257, PATTERNS[pattern], session.special_token)
            argv = child_argv(job)
        measured = measure(
            argv,
            timeout_s=session.timeout_s,
            directory=directory,
            environment=environment,
            one_core=True,
        )
        if measured.status == "ok":
            try:
                if tool.name == ours.NAME:
                    stage_s = ours.stage_seconds(run_directory).get("counting")
                else:
                    stage_s = answer_of(measured.stdout)["tool_s"]
            except (OSError, ValueError, KeyError) as error:
                measured = replace(measured, status="failed", stderr=f"its answer cannot be read: {error}")
    record = record_of(session, "count", tool, corpus, pattern, 0, measured)
    if measured.status != "ok":
        return record
    megabytes = corpus.bytes / 1e6
    return record | {
        "stage_s": stage_s,
        "wall_mb_per_s": megabytes / measured.wall_s,
        "stage_mb_per_s": megabytes / stage_s if stage_s else None,
    }


def run(session: Session, corpora: Sequence[Corpus], pattern: str) -> list[records.Record]:
    """Interleaved rounds of all counters that are installed."""
    tools = [tool for tool in map(Tool, COUNTERS) if tool.version is not None]
    done = []
    for corpus in corpora:
        for number in range(1, session.rounds + 1):
            for tool in tools:
                record = count_once(session, tool, corpus, pattern) | {"round": number}
                records.append(session.results, record)
                text = f"round {number}  {corpus.name}  {tool.name:<12}"
                if record["status"] == "ok":
                    stage = record["stage_mb_per_s"]
                    stage_text = f", {stage:,.1f} without start-up" if stage else ""
                    print(f"{text}  {record['wall_mb_per_s']:8.1f} MB/s{stage_text}", flush=True)
                else:
                    print(f"{text}  {record['status']}: {record['reason']}", flush=True)
                done.append(record)
    return done
