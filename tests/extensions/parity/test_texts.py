"""`parity` of texts: they are counted next to the output."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import model, run, succeeded

import bpe_pipeline
from bpe_pipeline.commands.report import EXTENT
from bpe_pipeline.run import manifest

ENGLISH, SWAHILI = "The boat is on the old river 2024. ", "Mashua iko mtoni, mtu na mashua 2024. "
WORDS = (
    *("parity", "en=en.txt", "sw=sw.txt", "--dev", "sw=sw-dev.txt", "--dev", "en=en-dev.txt"),
    *("--vocab-size", 285, "--output", "fair"),
)


def write(home: Path, **texts: str) -> None:
    for name, text in texts.items():
        (home / f"{name.replace('_', '-')}.txt").write_text(text)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, and the run `fair` of them."""
    home = tmp_path_factory.mktemp("texts")
    write(home, en=ENGLISH * 60, sw=SWAHILI * 9, en_dev=ENGLISH * 10, sw_dev=SWAHILI)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(EXTENT, "numbers")
        succeeded(run(*WORDS, cwd=home))
    return home


def test_texts_are_counted_next_to_the_output(home: Path) -> None:
    assert sorted(path.name for path in (home / "fair-languages").iterdir()) == ["en", "en-dev", "sw", "sw-dev"]


def test_runs_are_shown_as_they_are_named_and_told_apart_by_the_directories_above_them(home: Path) -> None:
    for name in ("en", "sw"):
        shutil.copytree(home / "fair-languages" / name, home / "counted" / name / "run")
    words = ["parity", "counted/en/run/", "./counted/sw/run", "--ratio", 1, "--ratio", 1, "--vocab-size", 285]
    done = json.loads(succeeded(run(*words, "--output", "unnamed", "--json", cwd=home)).stdout)
    assert done["corpus"]["source"] == "counted/en/run + counted/sw/run, merged by parity"
    languages = json.loads(succeeded(run("info", "unnamed", "--json", cwd=home)).stdout)["languages"]
    assert [one.partition(" (")[0] for one in languages] == ["en/run", "sw/run"]


def test_same_command_counts_nothing_again(home: Path) -> None:
    assert "counting kept" in succeeded(run(*WORDS, cwd=home)).stdout


COUNTING = {"pattern": "llama3", "normalize": "nfc", "special_tokens": ["<x>"], "errors": "skip"}


@pytest.fixture
def languages(tmp_path: Path) -> dict[str, Path]:
    """A text and a run, whose options are not the default; and a dev text of each, next to them."""
    write(tmp_path, en=ENGLISH * 60, sw=SWAHILI * 55, en_dev=ENGLISH * 10, sw_dev=(SWAHILI * 9)[:300])
    bpe_pipeline.count(tmp_path / "sw.txt", output=tmp_path / "sw", **COUNTING)
    return {"en": tmp_path / "en.txt", "sw": tmp_path / "sw"}


def _words(home: Path, languages: Mapping[str, Path]) -> list[object]:
    dev = (word for name in languages for word in ("--dev", f"{name}={home / name}-dev.txt"))
    return ["parity", *(f"{name}={path}" for name, path in languages.items()), *dev, "--vocab-size", 290]


def test_text_is_counted_with_the_options_of_the_runs(languages: dict[str, Path], tmp_path: Path) -> None:
    dev = {name: tmp_path / f"{name}-dev.txt" for name in languages}
    tokenizer = bpe_pipeline.parity(languages, dev=dev, vocab_size=290, output=tmp_path / "fair")
    for home in (tmp_path / "fair", *(tmp_path / "fair-languages").iterdir()):
        stored = manifest.require(home).manifest.counting
        assert {name: stored[name] for name in COUNTING} == COUNTING
    assert [*tokenizer.special_tokens] == ["<x>"]
    result = succeeded(run(*_words(tmp_path, languages), "--output", tmp_path / "command"))
    assert model(tmp_path / "command") == model(tmp_path / "fair")
    assert "differ in length" not in result.stderr


def test_dev_texts_of_different_length_are_named(languages: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "sw-dev.txt").write_text("Mashua iko mtoni é.")
    result = succeeded(run(*_words(tmp_path, languages), "--output", tmp_path / "uneven"))
    assert "differ in length by more than a fifth (en 350, sw 19 characters)" in result.stderr


def test_texts_are_counted_with_the_options_of_the_command(tmp_path: Path) -> None:
    write(tmp_path, en=ENGLISH * 60, sw=SWAHILI * 55)
    words = ["parity", "en=en.txt", "sw=sw.txt", "--ratio", 1, "--ratio", 1, "--normalize", "nfc", "--vocab-size", 290]
    succeeded(run(*words, "--output", "from-texts", cwd=tmp_path))
    assert manifest.require(tmp_path / "from-texts").manifest.counting["normalize"] == "nfc"
