"""Numbers that TokEval 1.0 has are equal to its own, to six digits: for ten tokenizers on a parallel text."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import tokeval

from bpe_pipeline.reports.compared import load_compared
from bpe_pipeline.reports.measure import SampleText, TokenizerMeasures, measure

Values = dict[str, dict[str, dict[str, float]]]
NEAR = 1e-6


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return tokeval.train(tmp_path_factory.mktemp("tokeval"))


@pytest.fixture(scope="module")
def recorded() -> Values:
    values: Values = json.loads(tokeval.RECORDED.read_text())
    return values


def ours(file: Path) -> dict[str, dict[str, float]]:
    """Our numbers by name and language, as TokEval's are recorded."""
    tokenizer, lines = load_compared(file), tokeval.texts()
    del lines[tokeval.CODE]
    texts = [(language, text) for language, listed in lines.items() for text in listed]

    def measured(*, same: bool) -> TokenizerMeasures:
        [found] = measure([("", tokenizer)], SampleText(texts, tuple(lines), same))
        return found

    found = measured(same=True)
    by_text = {"": found.whole.numbers, **{source.name: source.numbers for source in found.sources}}
    names = {name for numbers in by_text.values() for name in numbers}
    values = {name: {text: one[name] for text, one in by_text.items() if name in one} for name in names}
    values["gini"] = {unit: measured(same=unit == "lines").languages["gini"] for unit in ("lines", "characters")}
    return values


@pytest.mark.parametrize("name", tokeval.OPTIONS)
def test_numbers_are_those_that_tokeval_found(files: dict[str, Path], recorded: Values, name: str) -> None:
    found = ours(files[name])
    assert len(recorded[name]) == 7
    for number, expected in recorded[name].items():
        compared = {one: found[number].get(one) for one in expected}
        assert compared == pytest.approx(expected, abs=NEAR, rel=NEAR), number


@pytest.mark.slow
@pytest.mark.skipif(find_spec("tokenizer_analysis") is None, reason="TokEval is not installed")
def test_what_is_recorded_is_what_tokeval_finds(tmp_path: Path) -> None:
    """In a process of its own, where its warnings are none of ours."""
    subprocess.run([sys.executable, tokeval.__file__, tmp_path / "found.json"], check=True, capture_output=True)
    assert json.loads((tmp_path / "found.json").read_text()) == json.loads(tokeval.RECORDED.read_text())
