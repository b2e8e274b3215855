"""Trained runs as candidates of a sweep: what they make of the text is what their tokenizers make of it."""

import json
import re
from pathlib import Path
from typing import Any

import peers
import pytest
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError, UsageError

EOT = "<|endoftext|>"
SIZES = (400, 500)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counted runs a and b, runs of another pattern, with superwords and by parity, and text that none has counted."""
    home = tmp_path_factory.mktemp("candidates")
    (home / "runs").mkdir()
    for number, name in enumerate("ab"):
        (home / f"{name}.txt").write_text(
            EOT.join(peers.generated_text(one, 900) for one in range(4 * number, 4 + 6 * number))
        )
        bpe_pipeline.count(home / f"{name}.txt", output=home / "runs" / name)
    (home / "held.txt").write_text(EOT.join(peers.generated_text(one, 60) for one in range(50, 70)))
    train = ["train", home / "a.txt", home / "b.txt", "--vocab-size", 500, "--output"]
    succeeded(run(*train, home / "runs/llama", "--pattern", "llama3"))
    succeeded(run(*train, home / "runs/super", "--pattern", "superbpe", "--superwords-from", 350))
    parity = ["parity", f"a={home}/runs/a", f"b={home}/runs/b", "--vocab-size", 500, "--share", "b=70%"]
    succeeded(run(*parity, "--output", home / "runs/fair"))
    return home


NAMES = ("llama", "super", "fair")
WORDS = ["sweep", "runs/a", "runs/b", "--weight", "b=1,2", "--vocab-size", "400,500", "--held-out", "held.txt"]
WORDS += [word for name in NAMES for word in ("--candidate", f"runs/{name}")]


@pytest.fixture(scope="module")
def swept(home: Path) -> dict[str, Any]:
    done = succeeded(run(*WORDS, "--output", "sweep", "--log-json", cwd=home))
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _rows(swept: dict[str, Any], name: str) -> dict[tuple[str, str, int], tuple[int, int]]:
    return {
        (one["kind"], one["name"], point["vocab_size"]): (one["bytes"], one["tokens"])
        for point in swept["points"]
        for one in point["measured"]
        if point["mixture"] == name
    }


@pytest.mark.filterwarnings("ignore:tokenizers 1.0")
def test_what_is_measured_is_what_the_runs_own_tokenizers_make_of_the_text(home: Path, swept: dict[str, Any]) -> None:
    parts = (home / "held.txt").read_bytes().decode().split(EOT)
    for name in NAMES:
        rows, own = _rows(swept, name), bpe_pipeline.merge(home / "runs" / name, vocab_size=SIZES)
        for size in SIZES:
            tokens = sum(len(own[size].encode_ordinary(part)) for part in parts)
            assert rows["held out", "held.txt", size] == (len("".join(parts).encode()), tokens)
        assert {kind for kind, *_ in rows} == {"mixture", "held out"}


def test_the_last_merge_is_counted_without_weights(home: Path, swept: dict[str, Any]) -> None:
    counts = {(one["mixture"], one["vocab_size"]): one["last_count"] for one in swept["points"]}
    for size in SIZES:
        before, after = (bpe_pipeline.merge(home / "runs/fair", vocab_size=one)[one] for one in (size - 1, size))
        texts = [part for name in "ab" for part in (home / f"{name}.txt").read_bytes().decode().split(EOT)]
        saved = sum(len(before.encode_ordinary(text)) - len(after.encode_ordinary(text)) for text in texts)
        assert counts["fair", size] == saved


def test_one_table_one_page_and_one_recommendation_hold_mixtures_and_candidates(home: Path, swept) -> None:
    chosen, page = swept["recommendation"], (home / "sweep/sweep.html").read_text()
    size, name = chosen["vocab_size"], chosen["mixture"]
    tokens = {
        one: _rows(swept, one)["held out", "held.txt", size][1] for one in {at["mixture"] for at in swept["points"]}
    }
    assert name == min(tokens, key=tokens.__getitem__)
    assert name in NAMES
    assert "95% interval" in " ".join(one["because"] for one in chosen["advice"])
    for shown in ("llama (llama3)", "super (superbpe, superwords from 350)", "fair (gpt2, by languages)"):
        assert shown in page
    assert len({point["mixture"] for point in swept["points"]}) == 5
    expected = bpe_pipeline.merge(home / "runs" / name, vocab_size=size)[size]
    assert bpe_pipeline.load(home / "sweep/tokenizer").merges == expected.merges
    again = succeeded(run(*WORDS, "--output", "sweep", cwd=home))
    assert "measuring" not in again.stderr
    assert re.search(rf"its run +runs/{name}\n", again.stdout)


def test_candidates_alone_are_compared(home: Path, tmp_path: Path) -> None:
    runs = [home / "runs" / name for name in NAMES]
    given = {"vocab_size": SIZES, "held_out": home / "held.txt", "workers": 1}
    both = bpe_pipeline.sweep(candidates=runs, **given, output=tmp_path / "all")
    assert [point.mixture for point in both.points] == ["llama", "llama", "super", "super", "fair", "fair"]
    alone = bpe_pipeline.sweep(candidates=runs[0], **given, output=tmp_path / "one")
    assert alone.points == both.points[:2]
    assert "llama (llama3)" in str(alone)


def test_what_cannot_be_compared_is_refused(home: Path, tmp_path: Path) -> None:
    given = {"vocab_size": SIZES, "held_out": home / "held.txt", "output": tmp_path / "sweep"}
    for error, reason, more in (
        (UsageError, "give --held-out", {"candidates": home / "runs/llama", "held_out": None}),
        (UsageError, "runs/llama is named twice", {"candidates": [home / "runs/llama", home / "runs/./llama"]}),
        (UsageError, "superwords from 350", {"candidates": home / "runs/super", "vocab_size": [300, 500]}),
        (RunDirectoryError, "too few merges for 600", {"candidates": home / "runs/llama", "vocab_size": 600}),
        (RunDirectoryError, "no merges yet", {"candidates": home / "runs/a"}),
        (UsageError, "counted RUNs", {}),
    ):
        with pytest.raises(error, match=reason):
            bpe_pipeline.sweep(**given | more)
    assert not (tmp_path / "sweep").exists()
    train = ["train", home / "a.txt", "--vocab-size", 500, "--output", tmp_path / "other", "--no-special-tokens"]
    succeeded(run(*train, "--special-token", "<|x|>"))
    words = ["sweep", "--candidate", home / "runs/llama", "--candidate", tmp_path / "other", "--vocab-size", 400]
    message = refused(run(*words, "--held-out", home / "held.txt", "--output", tmp_path / "sweep"), 2)
    assert "their special tokens or Unicode normalization differ" in message


def test_text_that_a_candidate_counted_is_not_held_out(home: Path, tmp_path: Path) -> None:
    words = ["sweep", "--candidate", home / "runs/fair", "--vocab-size", 400, "--held-out", home / "a.txt"]
    done = succeeded(run(*words, "--output", tmp_path / "sweep"))
    assert "--held-out names text that was counted" in done.stderr
