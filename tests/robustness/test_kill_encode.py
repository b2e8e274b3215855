"""Encoding that is killed at any change of a file: the next run resumes and writes the same bytes."""

import json
import random
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import peers
import pytest
from amount import FULL
from chat_cases import small_tokenizer
from encoded import EOT, TOKENIZER, everything
from faults import Faults
from killing import ended, start


class Encoded:
    """A corpus or chat data, and its shards when encoding is not killed."""

    def __init__(self, home: Path, options: tuple[str, ...]) -> None:
        self.home, self.options = home, options
        home.mkdir()
        if "--template" in options:
            self.text = home / "a.jsonl"
            words = peers.generated_text(1, 900).split(" ")
            rows = [{"instruction": " ".join(words[at : at + at % 9]), "output": words[at]} for at in range(300)]
            self.text.write_text("".join(json.dumps(row) + "\n" for row in rows))
            small_tokenizer().save(home / "tokenizer")
        else:
            self.text = home / "a.txt"
            self.text.write_text(EOT.join(peers.generated_text(seed, 900) for seed in range(8)), newline="")
            TOKENIZER.save(home / "tokenizer")

    def command(self, output: Path, workers: int) -> list[str]:
        command = "encode-chat" if "--template" in self.options else "encode"
        words = [sys.executable, "-P", "-m", "bpe_pipeline", command, self.text, "--tokenizer", self.home / "tokenizer"]
        words += ["--output", output, "--chunk-size", "3KiB", "--shard-size", 4000, "--workers", workers]
        return [*map(str, words), "--quiet", *self.options]


CHAT = ("--template", "chatml", "--sequence-length", "64", "--val-fraction", "0.2", "--shard-format")
ORDERED = ("--shuffle", "--val-fraction", "0.3", "--shard-format")
SINGLE = ("--shuffle", "--documents", "offsets", "--single")
FAST = [
    ("--shard-format", "npy"),
    ("--documents", "offsets", "--sample", "60%", "--max-document-chars", "700"),
    ("--shard-format", "parquet"),
    (*CHAT, "arrow", "--pack", "neat"),
]


def slow(options: Sequence[tuple[str, ...]], *numbers: int) -> list[Any]:
    return [pytest.param(one, *numbers, marks=pytest.mark.slow) for one in options]


@pytest.mark.parametrize(
    ("options", "kills", "least"),
    [
        *((options, 1, 1) for options in FAST[:1]),
        *slow(FAST, 3, 2),
        *slow([*FAST[:2], (*ORDERED, "megatron"), SINGLE], 12 if FULL else 6, 8 if FULL else 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_encoding_resumes_after_kills(
    options: tuple[str, ...], library: Path, tmp_path: Path, kills: int, least: int
) -> None:
    """Kill at changes spread over all of them, then run to the end; what was written is not written again."""
    encoded = Encoded(tmp_path / "home", options)
    whole, first = tmp_path / "whole", Faults(library, tmp_path / "counter")
    assert ended(start(encoded.command(whole, 2), **first.environment(whole, 0))) == 0
    choose = random.Random(kills)
    done = 0
    for number in range(kills):
        output = tmp_path / f"killed-{number}"
        killer = Faults(library, tmp_path / f"counter-{number}")
        at = max(1, round(first.changes * (number + choose.random()) / kills))
        done += ended(start(encoded.command(output, choose.choice([1, 3])), **killer.environment(output, at))) != 0
        parts = {path.name: path.stat().st_mtime_ns for path in output.glob("parts/[0-9]*.ids")}
        # a second file is written before its shard, the files of the format after all shards
        there = [path for pattern in ("shard-*", "*/shard-*", "data-*", "*/data-*") for path in output.glob(pattern)]
        there = [path for path in there if ".documents." not in path.name and path.suffix not in (".idx", ".json")]
        shards = {str(path.relative_to(output)): path.stat().st_mtime_ns for path in there}
        assert ended(start(encoded.command(output, choose.choice([1, 2])))) == 0
        assert everything(output) == everything(whole)
        assert all((output / name).stat().st_mtime_ns == time_ns for name, time_ns in shards.items())
        if parts and not shards:
            tasks = re.findall(r"encoding: (\d+) tasks, (\d+) to do", (output / "log.txt").read_text())
            left = int(tasks[0][0]) - len(parts)
            assert (tasks[0][0], str(left)) in tasks or (not left and not tasks[1:])  # all were in buckets
        shutil.rmtree(output)
    assert done >= least
