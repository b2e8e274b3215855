"""Count a file in this process, without a run."""

from pathlib import Path

import oracle_counting

from pipeline.corpus.chunks import Cutting, plan_chunks
from pipeline.corpus.files import describe
from pipeline.corpus.formats import FileType
from pipeline.corpus.skipped_or_altered import add_up
from pipeline.counts import counter_file
from pipeline.counts.count_worker import CountTask, count_chunk
from pipeline.pattern import compile_pattern

EOT = b"<|endoftext|>"
PATTERN = compile_pattern("gpt2")


def count(directory: Path, *names: str, chunk_bytes: int = 1 << 30, asked: FileType = FileType(), **changes: object):  # noqa: B008
    """Count files as a run does, chunk by chunk: the counter and the statistics that matter."""
    errors = changes.get("errors", "replace")
    files = [describe(str(directory / name), asked) for name in names]
    cutting = Cutting((EOT,), PATTERN.automaton, errors == "skip", str(changes.get("text_field", "text")))
    total, parts = oracle_counting.Counter(), []
    for chunk in plan_chunks(files, cutting, chunk_bytes=chunk_bytes):
        spans = tuple((files[span.file], span.start, span.stop) for span in chunk.spans)
        task = CountTask(
            name="chunk", spans=spans, pattern=PATTERN, special_tokens=(EOT,), **{"errors": "replace"} | changes,
            output=directory / ".counter.parquet", fingerprint="", budget_bytes=64 << 20,
        )  # fmt: skip
        parts.append(count_chunk(task))
        with counter_file.open_counter(task.output) as counter:
            for partition in range(counter.partitions):
                total.update(oracle_counting.as_counter(counter.read(partition)))
    documents = sum(part.documents for part in parts)
    return total, documents, add_up(part.losses for part in parts)
