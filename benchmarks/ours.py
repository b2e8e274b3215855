"""All that the benchmarks know of our own command: how it is called and where it leaves what it learned.

The installed command is measured, never the source tree: children start in a directory of their own,
without the checkout on their path. When the command's options or files change, this file changes and no
other.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyarrow import compute, parquet

from benchmarks.adapters import describe, learned_from_json

NAME = "bpe-pipeline"
BY_LINES = f"{NAME} by lines"  # reads a file as `BpeTrainer.train(files)` does: other pre-tokens where newlines meet
HOW = {NAME: (), BY_LINES: ("--input-format=lines", "--special-tokens-as-text")}


def command() -> list[str]:
    """Return the `bpe-pipeline` next to the running Python, else the module run by it."""
    installed = shutil.which(NAME, path=str(Path(sys.executable).parent))
    return [installed] if installed else [sys.executable, "-P", "-m", "bpe_pipeline"]


def train_argv(corpus: Path, run_directory: Path, vocab_size: int, pattern: str, special_token: str) -> list[str]:
    """The whole command as a user types it; workers, chunks and memory are the command's own choice."""
    options = [f"--vocab-size={vocab_size}", f"--special-token={special_token}", f"--pattern={pattern}", "--quiet"]
    return [*command(), "train", str(corpus), "--output", str(run_directory), *options]


def learned(run_directory: Path) -> dict[str, Any]:
    """Number and digests of the merges of a finished run."""
    return describe(learned_from_json((run_directory / "tokenizer" / "tokenizer.json").read_text("utf-8")))


def stage_seconds(run_directory: Path) -> dict[str, float]:
    """Seconds by stage (`counting`, `combining`, `merging`, `exporting`) from the run's report.json."""
    stages = json.loads((run_directory / "report.json").read_text("utf-8"))["stages"]
    return {name: float(elapsed_s) for name, elapsed_s in stages.items() if elapsed_s is not None}


def counted(run_directory: Path) -> dict[str, Any]:
    """What the run's counters hold: of the whole one the pre-tokens and their bytes, of the chunks' their rows and
    size."""
    whole = parquet.ParquetFile(run_directory / "counter.parquet")
    pre_tokens = pre_token_bytes = repeated_bytes = 0
    for batch in whole.iter_batches():
        lengths = compute.binary_length(batch["pre_token"])
        pre_tokens += batch.num_rows
        pre_token_bytes += compute.sum(lengths).as_py()
        repeated_bytes += compute.sum(lengths.filter(compute.greater(batch["count"], 1))).as_py() or 0
    chunks = list((run_directory / "counts").glob("*.parquet"))
    return {
        "different_pre_tokens": pre_tokens,
        "pre_token_bytes": pre_token_bytes,
        "repeated_bytes": repeated_bytes,
        "chunk_rows": sum(parquet.read_metadata(chunk).num_rows for chunk in chunks),
        "chunk_counter_bytes": sum(chunk.stat().st_size for chunk in chunks),
    }


def environment() -> dict[str, str]:
    """The children's environment: this one, with the checkout kept off Python's path."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"PYTHONSAFEPATH": "1"}
