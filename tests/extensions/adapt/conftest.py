"""A tokenizer, counts for it, and what `extend` and `prune` made of both; a test that changes one copies it."""

from pathlib import Path

import peers
import pytest
from command import run, succeeded

import bpe_pipeline


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("base")
    (home / "a.txt").write_text(peers.generated_text(1, 5000) + "\n<|endoftext|>\n" + peers.generated_text(2, 5000))
    options = {"vocab_size": 500, "pattern": "llama3", "special_tokens": ["<|endoftext|>", "<|user|>"]}
    bpe_pipeline.train(home / "a.txt", output=home / "run", **options)
    return home / "run" / "tokenizer"


@pytest.fixture(scope="session")
def counted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The counts of a text, `other.txt` beside them."""
    home = tmp_path_factory.mktemp("counted")
    (home / "other.txt").write_text("uus uusim jõulud õlu " * 50 + "<|user|>" + peers.generated_text(7, 4000))
    succeeded(run("count", home / "other.txt", "--like", base, "--output", home / "run"))
    return home / "run"


@pytest.fixture(scope="session")
def extended(base: Path, counted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("made") / "extended"
    bpe_pipeline.extend(base, counted, add=9, output=output)
    return output


@pytest.fixture(scope="session")
def pruned(base: Path, counted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made")
    (home / "protected.txt").write_text("Ġthe\ne\n")
    limits = ["--min-count", 20, "--protect", home / "protected.txt"]
    succeeded(run("prune", base, counted, *limits, "--output", home / "pruned"))
    return home / "pruned"
