"""`encode`: documents to lists of ids, in MB of text a second, compared with tiktoken, tokenizers and gigatoken.

Each tool is a fresh process that loads a tokenizer which our own command trained on the corpus, or that was given, and
encodes all documents once with all cores: caches start empty. `encode_s` is the call alone. The digest of the ids says
whether all did the same task. With `files`, the tools that read files themselves go from a file to ids.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks import ours, records
from benchmarks.corpora import Corpus
from benchmarks.encode_adapters import FILES, TOOLS, EncodeJob
from benchmarks.process import measure
from benchmarks.run import Session, answer_of, record_of
from benchmarks.tools import Tool

ADAPTERS = Path(__file__).with_name("encode_adapters.py")


def train(session: Session, corpus: Corpus, pattern: str, vocab_size: int, directory: Path) -> Path:
    """A tokenizer for the corpus, by our own command; returns its directory."""
    argv = ours.train_argv(corpus.path.resolve(), directory / "run", vocab_size, pattern, session.special_token)
    measured = measure(argv, timeout_s=session.timeout_s, directory=directory, environment=ours.environment())
    if measured.status != "ok":
        raise ValueError(f"training on {corpus.name} {measured.status}: {measured.stderr.strip()[:300]}")
    return directory / "run" / "tokenizer"


def encode_once(
    session: Session, tool: Tool, corpus: Corpus, pattern: str, vocab_size: int, tokenizer: Path, *, files: bool
) -> records.Record:
    """One tool encodes a corpus in one fresh process."""
    job = EncodeJob(tool.name, str(corpus.path.resolve()), str(tokenizer), session.special_token, files)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        argv = [sys.executable, "-P", str(ADAPTERS), json.dumps(asdict(job))]
        environment = ours.environment() | {"TOKENIZERS_PARALLELISM": "true"}
        measured = measure(argv, timeout_s=session.timeout_s, directory=Path(temporary), environment=environment)
    answer = {}
    if measured.status == "ok":
        try:
            answer = answer_of(measured.stdout)
            answer["mb_per_s"] = corpus.bytes / 1e6 / answer["encode_s"]
        except (ValueError, KeyError) as error:
            measured = replace(measured, status="failed", stderr=f"its answer cannot be read: {error}")
    return record_of(session, "files" if files else "encode", tool, corpus, pattern, vocab_size, measured) | answer


def run(
    session: Session,
    corpora: Sequence[Corpus],
    pattern: str,
    vocab_size: int,
    tokenizer: Path | None,
    *,
    files: bool = False,
) -> list[records.Record]:
    """Interleaved rounds of all encoders that are installed."""
    tools = [tool for tool in map(Tool, FILES if files else TOOLS) if tool.version is not None]
    done = []
    for corpus in corpora:
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
            directory = tokenizer or train(session, corpus, pattern, vocab_size, Path(temporary))
            for number in range(1, session.rounds + 1):
                turn = (number - 1) % len(tools)
                for tool in [*tools[turn:], *tools[:turn]]:
                    record = encode_once(session, tool, corpus, pattern, vocab_size, directory.resolve(), files=files)
                    record |= {"round": number}
                    records.append(session.results, record)
                    text = f"round {number}  {corpus.name}  {tool.name:<12}"
                    if record["status"] == "ok":
                        message = "" if files else f", a message {record['message_us']:.1f} µs"
                        print(f"{text}  {record['mb_per_s']:8.1f} MB/s{message}", flush=True)
                    else:
                        print(f"{text}  {record['status']}: {record['reason']}", flush=True)
                    done.append(record)
    return done
