"""Counted runs of two languages, and one of them merged by parity."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from parity_runs import DEV, TRAIN, Train, by_parity

import bpe_pipeline
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.commands.report import EXTENT
from bpe_pipeline.executors import Executor
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.workers import executor_here


@pytest.fixture(autouse=True)
def _without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "numbers")


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    """One for all trainings: its workers start once."""
    with executor_here(make_options(TrainOptions, {"workers": 1}), TRAINING) as executor:
        yield executor


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The runs of TRAIN by their names, those of DEV with `-dev` after them."""
    home = tmp_path_factory.mktemp("languages")
    counters = TRAIN | {f"{name}-dev": counter for name, counter in DEV.items()}
    return {
        name: Path(bpe_pipeline.combine(counter, output=home / name, special_tokens=[]))
        for name, counter in counters.items()
    }


@pytest.fixture(scope="module")
def train(runs: dict[str, Path], executor: Executor) -> Train:
    """Returns the merges of the first size."""

    def merges(output: Path, *, dev: bool = False, **options: Any) -> list[tuple[bytes, bytes]]:
        languages, of_dev = ([(name, runs[name + kind]) for name in TRAIN] for kind in ("", "-dev"))
        return by_parity(languages, of_dev if dev else [], executor, output=output, **options).merges

    return merges


@pytest.fixture(scope="module")
def merged(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 60 merges, not to be changed."""
    home = tmp_path_factory.mktemp("merged") / "p"
    train(home, dev=True, vocab_size=256 + 60)
    return home
