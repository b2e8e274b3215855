"""Numbers that TokEval 1.0 has are equal to its own, to six digits: for ten tokenizers on a parallel text.

TokEval is https://github.com/cimeister/tokenizer-intrinsic-evals, whose package is called tokenizer_analysis. Its
values in tokeval.json, by tokenizer, number and language ("" is all of them), were recorded by
`tests/support/tokeval.py` of commit a1b761f4, with Python's code left out.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import bpe_pipeline
from bpe_pipeline.reports.compared import load_compared
from bpe_pipeline.reports.measure import SampleText, measure
from bpe_pipeline.reports.numbers import PARALLEL, SENTENCES, TokenizerMeasures

Values = dict[str, dict[str, dict[str, float]]]
NEAR = 1e-6
LINES = 12
CODE = "Python"
OPTIONS: dict[str, dict[str, Any]] = {
    "gpt2": {"vocab_size": 700},
    "gpt2 small": {"vocab_size": 290},
    "bytes": {"vocab_size": 257},
    "cl100k": {"vocab_size": 600, "pattern": "cl100k"},
    "o200k": {"vocab_size": 900, "pattern": "o200k"},
    "llama3": {"vocab_size": 500, "pattern": "llama3"},
    "nfc": {"vocab_size": 450, "pattern": "qwen2", "normalize": "nfc"},
    "uncut": {"vocab_size": 800, "pattern": "none"},
    "digits": {"vocab_size": 400, "pattern": "gpt2+digits1"},
    "superwords": {"vocab_size": 600, "superwords_from": 400, "pattern": "superbpe"},
}


def texts() -> dict[str, list[str]]:
    """Return the same lines in each language, with numbers, and lines of code, which are no translation."""
    lines: dict[str, list[str]] = {}
    for language in PARALLEL:
        words = list(SENTENCES[language]) if language in ("Chinese", "Japanese") else SENTENCES[language].split()
        space = "" if language in ("Chinese", "Japanese") else " "
        lines[language] = [
            f"{space.join(words[at:] + words[:at])} {37**at % 1_000_003} {'🌉' * (at % 3)}".strip()
            for at in range(LINES)
        ]
    lines[CODE] = [f"x{at} = y_{at}**2 - {at} * foo(z)+3 <= bar // 7 % {at}" for at in range(LINES)]
    return lines


def train(home: Path) -> dict[str, Path]:
    """Train the tokenizers; return their files by name."""
    (home / "text.txt").write_text("\n".join(line for lines in texts().values() for line in lines), encoding="utf-8")
    files = {}
    for name, options in OPTIONS.items():
        bpe_pipeline.train(home / "text.txt", output=home / name, export=["hf"], **options)
        files[name] = home / name / "tokenizer" / "tokenizer.json"
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return train(tmp_path_factory.mktemp("tokeval"))


@pytest.fixture(scope="module")
def recorded() -> Values:
    values: Values = json.loads(Path(__file__).with_name("tokeval.json").read_text())
    return values


def ours(file: Path) -> dict[str, dict[str, float]]:
    """Our numbers by name and language, as TokEval's are recorded."""
    tokenizer, lines = load_compared(file), texts()
    del lines[CODE]
    sample = [(language, text) for language, listed in lines.items() for text in listed]

    def measured(*, same: bool) -> TokenizerMeasures:
        [found] = measure([("", tokenizer)], SampleText(sample, tuple(lines), same))
        return found

    found = measured(same=True)
    by_text = {"": found.whole.numbers, **{source.name: source.numbers for source in found.sources}}
    names = {name for numbers in by_text.values() for name in numbers}
    values = {name: {text: one[name] for text, one in by_text.items() if name in one} for name in names}
    values["gini"] = {unit: measured(same=unit == "lines").languages["gini"] for unit in ("lines", "characters")}
    return values


@pytest.mark.parametrize("name", OPTIONS)
def test_numbers_are_those_that_tokeval_found(files: dict[str, Path], recorded: Values, name: str) -> None:
    found = ours(files[name])
    assert len(recorded[name]) == 7
    for number, expected in recorded[name].items():
        compared = {one: found[number].get(one) for one in expected}
        assert compared == pytest.approx(expected, abs=NEAR, rel=NEAR), number
