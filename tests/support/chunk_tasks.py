"""Chunks to count in tests, and what was counted of them."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import oracle_counting

from pipeline.corpus.files import find_files
from pipeline.counts import counter_file
from pipeline.counts.count_worker import CountTask, count_chunk
from pipeline.pattern import compile_pattern


def random_words(seed: int, size: int) -> bytes:
    """Return text of `size` bytes in which hardly a word occurs twice."""
    text = bytearray(random.Random(seed).randbytes(size).translate(bytes(97 + value % 26 for value in range(256))))
    text[::10] = b" " * len(text[::10])
    return bytes(text)


def chunk_task(path: Path, output: Path, budget_bytes: int, **options: object) -> CountTask:
    [file] = find_files([str(path)]).files
    usual = {"errors": "replace", "max_piece_bytes": None, "pattern": compile_pattern("gpt2")} | options
    return CountTask(name="chunk 0", spans=((file, 0, file.size),), special_tokens=(b"<|endoftext|>",), output=output,
                     fingerprint="f", budget_bytes=budget_bytes, **usual)  # fmt: skip


def pieces_of(path: Path) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    with counter_file.open_counter(path, fingerprint="f") as counter:
        for partition in range(counter.partitions):
            found.update(oracle_counting.as_counter(counter.read(partition)))
        assert counter.rows == len(found)
    return found


def counted_within(path: Path, budget_bytes: int) -> None:
    """Count a file within a budget; the result is that of any other budget."""
    output = path.with_name(f"{path.name}.{budget_bytes}.parquet")
    count_chunk(replace(chunk_task(path, output, budget_bytes), limit_bytes=(100 << 20) + budget_bytes))
    whole = path.with_name(f"{path.name}.parquet")
    count_chunk(chunk_task(path, whole, 1 << 31))
    assert pieces_of(output) == pieces_of(whole)
