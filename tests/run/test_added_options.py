"""A run and shards that were made before an option existed are continued by a version that has it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.run.options import CountOptions, TrainOptions, with_defaults, without_defaults
from bpe_pipeline.run.record import Scope

_PACKAGE = Path(bpe_pipeline.__file__).parent
_ADDED = {
    "corpus.py": ("class TextOptions(ReadingOptions):", '    judged: str = _text("all", "which count")'),
    "shards.py": ("class IdsOptions(Values):", '    marked: str = _shards("no", "what")'),
}


def test_only_options_that_differ_from_their_default_are_stored(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest " * 9)
    bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "run", vocab_size=260, pattern="llama3", min_frequency=2)
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["counting"] == {"pattern": "llama3"}
    assert document["merging"] == {"min_frequency": 2}


def test_defaults_are_filled_in_and_left_out_again() -> None:
    options = CountOptions(pattern="llama3").in_scope(Scope.COUNT)
    assert with_defaults(without_defaults(options), Scope.COUNT) == options
    assert without_defaults(TrainOptions().in_scope(Scope.COUNT, Scope.MERGE, Scope.SPECIAL)) == {}


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A copy of the package with more options, of counting and of encoding."""
    home = tmp_path / "newer"
    shutil.copytree(_PACKAGE, home / "bpe_pipeline", ignore=shutil.ignore_patterns("native", "__pycache__"))
    shutil.copy(str(_core.__file__), home / "bpe_pipeline")  # which an editable install has elsewhere
    for name, (header, line) in _ADDED.items():
        source = home / "bpe_pipeline" / "run" / "options" / name
        before, rest = source.read_text().split(f"{header}\n", 1)
        docstring, rest = rest.split("\n", 1)
        source.write_text(f"{before}{header}\n{docstring}\n\n{line}\n{rest}")
    return home


@pytest.mark.slow
def test_version_with_more_options_continues_earlier_work(newer: Path, tmp_path: Path) -> None:
    corpus, run, shards = tmp_path / "a.txt", tmp_path / "run", tmp_path / "shards"
    corpus.write_text("low lower lowest<|endoftext|>" * 9)
    bpe_pipeline.train(corpus, output=run, vocab_size=260)
    bpe_pipeline.encode(corpus, run, shards)
    before = (run / "counter.parquet").stat().st_mtime_ns, (shards / "shards.json").stat().st_mtime_ns
    others = [path for path in sys.path if path.endswith("site-packages")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(newer), *others])}
    for words in (
        ["train", corpus, "--output", run, "--vocab-size", "259"],
        ["encode", corpus, "--tokenizer", run, "--output", shards],
    ):
        start = (
            f"import sys; sys.argv[1:] = {[*map(str, words)]}; from bpe_pipeline.__main__ import main; sys.exit(main())"
        )
        command = [sys.executable, "-P", "-S", "-s", "-c", start]  # without an editable install's hook
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
    assert (run / "tokenizer-259" / "tokenizer.json").exists()
    assert before == ((run / "counter.parquet").stat().st_mtime_ns, (shards / "shards.json").stat().st_mtime_ns)
