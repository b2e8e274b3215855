"""The commands of a first day, in order, in one directory: with reports, in processes of their own, as people run them.

Everything that a command writes to standard error is looked at: each warning is one of those that are expected.
"""

import random
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from command import run_process

ENVIRONMENT = {"TRANSFORMERS_VERBOSITY": "error", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}
RARE = r"is too large for this text|last (pair|merge) occurred|vocabulary is smaller than asked for"


class Step(NamedTuple):
    """A command, a pattern of what it prints, the exit code, and what it may warn of."""

    command: str
    printed: str
    code: int = 0
    warnings: str = RARE


DAY = (
    Step("train {corpus} --output runs/a --vocab-size 4000", r"^bytes per token .*^report +runs/a/report\.html"),
    Step("report runs/a", r"^runs/a/report\.html"),
    Step("report runs/a --held-out unseen.txt --compare runs/a", r"^runs/a/report\.html"),
    Step("export runs/a --check", r"^checked hf with tokenizers .*the same ids.*^checked tiktoken .*the same ids"),
    Step("encode --tokenizer runs/a --text 'Hello world'", r"^[\d ]+$"),
    Step("encode {files} --tokenizer runs/a --output shards", r"^tokenizer +runs/a/tokenizer \(4,000 tokens\)$"),
    Step("info shards", r"^tokens "),
    Step("decode shards --tokenizer runs/a", r"\w"),
    Step("merge runs/a --vocab-size 2000", r"^tokenizer +runs/a/tokenizer-2000 "),
    Step("train {corpus} --output runs/a --vocab-size 4000", r"counting kept"),  # again: nothing is done twice
    Step("count unseen.txt --output runs/b", r"^next "),
    Step("sweep runs/a runs/b --weight b=1,4 --vocab-size 1000,2000 --output swept", r"^recommended "),
    Step("count unseen.txt --like runs/a --output runs/like", r"^next "),
    Step("extend runs/a runs/like --add 5 --output larger", r"^new tokens +5$"),
    Step("prune runs/a --keep 3000 --output smaller", r"^tokens +3,000$", warnings=r"added token moved to other ids"),
    Step("verify runs/a", r"."),
    Step("info runs/a", r"^counted +completely$"),
    Step("doctor runs/a", r"^fine:.*the same ids"),
    Step("diff runs/a runs/a/tokenizer", r"^ *equal "),
    Step("diff runs/a larger", r"only in B", code=1),
    Step("explain --tokenizer runs/a 'Hello world'", r"."),
    Step("env", r"."),
)


def write_large(home: Path) -> str:
    """Write 20 MB: words of a few lengths by Zipf's law, in documents of several formats."""
    chosen = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(chosen.choices(letters, range(26, 0, -1), k=chosen.randint(1, 9))) for _ in range(30_000)]
    shares = [1 / rank for rank in range(1, len(words) + 1)]
    (home / "corpus").mkdir()
    for number in range(4):
        parts = []
        for _ in range(1250):
            sentence = " ".join(chosen.choices(words, shares, k=750)).capitalize()
            parts.append(f"{sentence}, {chosen.randint(0, 9999)}.\n")
        text = "<|endoftext|>".join(parts)
        (home / "corpus" / f"{number}.txt").write_text(text)
    assert sum(path.stat().st_size for path in (home / "corpus").iterdir()) > 20_000_000
    return "corpus"


def look_at(step: Step, corpus: str, home: Path) -> None:
    """Run a command and require what it is expected to print, on both streams."""
    words = shlex.split(step.command.format(corpus=corpus, files=corpus or "unseen.txt"))
    done = run_process(*words, cwd=home, env=ENVIRONMENT)
    said = f"{step.command}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == step.code, said
    assert re.search(step.printed, done.stdout, re.MULTILINE | re.DOTALL), said
    for trouble in ("Traceback", "a defect", "error:", "no numbers in the report", "the report is incomplete"):
        assert trouble not in done.stderr, said
    warned = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert [line for line in warned if not re.search(step.warnings, line)] == [], said


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("kind", ["the default corpus", "20 MB"])
def test_the_commands_of_a_first_day(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BPE_PIPELINE_REPORT", "BPE_PIPELINE_CHECKPOINT_S", "BPE_PIPELINE_SIMD"):
        monkeypatch.delenv(name, raising=False)
    corpus = write_large(tmp_path) if kind == "20 MB" else ""
    (tmp_path / "unseen.txt").write_text("The hare and the tortoise ran a race that nobody saw.\n" * 400)
    for step in DAY:
        look_at(step, corpus, tmp_path)
    assert (tmp_path / "runs" / "a" / "report.html").stat().st_size > 100_000
