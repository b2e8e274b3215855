"""A run of which any one file is missing, empty, another run's or a link: the right result, or a message that names it.

Never another run's data, and nothing behind a link changes.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import peers
import pytest
from command import files_in

import bpe_pipeline
from bpe_pipeline.base.errors import PipelineError

RESULTS = ("counter.parquet", "merges.parquet", "tokenizer/tokenizer.json", "tokenizer-280/tokenizer.json")
DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "is missing": lambda file, _: file.unlink(),
    "is empty": lambda file, _: file.write_bytes(b""),
    "is of another run": lambda file, other: shutil.copyfile(other, file),
    "is a link": lambda file, other: (file.unlink(), file.symlink_to(other)),
    "leads nowhere": lambda file, _: (file.unlink(), file.symlink_to("nowhere")),
}
LEFT_OUT = {  # what the run lost besides, so that the file is read
    "counts": ("counter.parquet", "merges.parquet"),
    "counter.parquet": ("merges.parquet",),
}


def train(home: Path, output: Path) -> None:
    bpe_pipeline.train(home / "text.txt", output=output, vocab_size=[300, 280], chunk_size=6000, workers=1)


def refused(home: Path, output: Path) -> str:
    """Train again, and return why that is refused; "" if it is not."""
    try:
        train(home, output)
    except PipelineError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of as many files, of texts of one size."""
    homes = [tmp_path_factory.mktemp("run") for _ in range(2)]
    for seed, home in enumerate(homes):
        (home / "text.txt").write_text(peers.generated_text(seed, 3000)[:14_000])
        train(home, home / "run")
    return homes


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("where", ["run.json", "counter.parquet", "merges.parquet", "counts", "tokenizer"])
def test_a_damaged_run_is_completed_or_named(runs: list[Path], tmp_path: Path, where: str, damage: str) -> None:
    home, other = runs
    expected, theirs = files_in(home / "run"), files_in(other / "run")
    names = sorted(name for name in expected if name.split("/")[0] == where)
    stems = {name.split("-")[0]: name for name in theirs if name.startswith("counts/")}
    assert names
    for number, name in enumerate(names):
        output = tmp_path / str(number)
        shutil.copytree(home / "run", output)
        for lost in LEFT_OUT.get(where, ()):
            (output / lost).unlink()
        DAMAGES[damage](output / name, other / "run" / stems.get(name.split("-")[0], name))
        refusal = refused(home, output)
        if refusal:
            assert where in ("run.json", "merges.parquet"), name  # all else is made again
            assert str(output) in refusal
            assert name in refusal or "holds another run" in refusal
            assert "--overwrite" in refusal or "remove it" in refusal
        else:
            made = files_in(output)
            assert {file: made[file] for file in RESULTS} == {file: expected[file] for file in RESULTS}, name
            assert not (output / name).is_symlink() or where == "tokenizer"
        assert files_in(other / "run") == theirs


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_counter_that_is_not_the_runs_is_never_learned_from(runs: list[Path], tmp_path: Path, damage: str) -> None:
    """By `merge`, which cannot count again."""
    home, other = runs
    shutil.copytree(home / "run", tmp_path / "run")
    (tmp_path / "run" / "merges.parquet").unlink()
    DAMAGES[damage](tmp_path / "run" / "counter.parquet", other / "run" / "counter.parquet")
    with pytest.raises(PipelineError, match=r"is not completely counted.*; run the `count` or `train` that started it"):
        bpe_pipeline.merge(tmp_path / "run", vocab_size=300)
