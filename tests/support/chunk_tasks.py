"""Chunks of files that are counted in this process, without a run."""

import random
from collections import Counter
from pathlib import Path

import counter_files

from bpe_pipeline.base.memory import Grant
from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.cut_files import plan_chunks
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.corpus.files import FileSpan, FileType
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.skipped_or_altered import add_up
from bpe_pipeline.counts.count_worker import CountTask, count_chunk
from bpe_pipeline.pattern.compiler import compile_pattern

EOT = b"<|endoftext|>"
PATTERN = compile_pattern("gpt2")


def random_words(seed: int, size: int) -> bytes:
    """Return text of `size` bytes in which hardly a word occurs twice."""
    text = bytearray(random.Random(seed).randbytes(size).translate(bytes(97 + value % 26 for value in range(256))))
    text[::10] = b" " * len(text[::10])
    return bytes(text)


def _task(spans: tuple[FileSpan, ...], output: Path, budget_bytes: int, **options: object) -> CountTask:
    judge = DocumentJudge(str(options.pop("errors", "replace")))
    usual = {"judge": judge, "pattern": PATTERN} | options
    return CountTask(
        name="chunk 0",
        spans=spans,
        special_tokens=(EOT,),
        output=output,
        fingerprint="f",
        budget_bytes=budget_bytes,
        **usual,
    )


def chunk_task(path: Path, output: Path, budget_bytes: int, **options: object) -> CountTask:
    file = describe(str(path), FileType())
    return _task((FileSpan(file, 0, file.size),), output, budget_bytes, **options)


def counted_within(path: Path, budget_bytes: int) -> None:
    """Count a file within a budget; the result is that of any other budget."""
    output, whole = (path.with_name(f"{path.name}.{name}.parquet") for name in (budget_bytes, "whole"))
    grant = Grant(budget_bytes, (100 << 20) + budget_bytes, 100 << 20, 0)
    count_chunk(chunk_task(path, output, budget_bytes, grant=grant))
    count_chunk(chunk_task(path, whole, 1 << 31))
    assert counter_files.read(output) == counter_files.read(whole)


def count(directory: Path, *names: str, chunk_bytes: int = 1 << 30, asked: FileType = FileType(), **changes: object):  # noqa: B008
    """Count files as a run does, chunk by chunk: the counter and the statistics that matter."""
    files = [describe(str(directory / name), asked) for name in names]
    field = str(changes.get("text_field", "text"))
    cutting = Cutting((EOT,), PATTERN.automaton, changes.get("errors") == "skip", field)
    total, parts = Counter(), []
    for chunk in plan_chunks(files, cutting, chunk_bytes=chunk_bytes):
        spans = tuple(FileSpan(files[span.file], span.start, span.stop) for span in chunk.spans)
        task = _task(spans, directory / ".counter.parquet", 64 << 20, **changes)
        parts.append(count_chunk(task))
        total += counter_files.read(task.output)
    return total, sum(part.documents for part in parts), add_up(part.losses for part in parts)
