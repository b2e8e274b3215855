"""An extension adds a section to the report of a run: every way in which a report is shown has it."""

import json
from pathlib import Path

import pytest

import bpe_pipeline
from bpe_pipeline.reports.parts import Table
from bpe_pipeline.reports.result import Advice
from bpe_pipeline.reports.summary import Section
from bpe_pipeline.reports.verdict import COST
from bpe_pipeline.run.extensions import Extension

SECTION = Section(
    rows=(("moon", "full"), ("tide", "high")),
    numbers={"phase": 0.5},
    tables=(Table("Tides", ("hour", "height"), (("six", 2), ("noon", 1))),),
    advice=(Advice("moon", "wait", "the moon is full"),),
    verdict={COST: "the sea", "Is it night": "yes"},
)


@pytest.fixture
def run(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose report has the section."""
    extension = Extension(report_section=lambda *_: SECTION)
    monkeypatch.setattr("bpe_pipeline.run.extensions.extensions", lambda: (extension,))
    with pytest.warns(UserWarning, match="the moon is full"):
        bpe_pipeline.train(text, output=tmp_path / "run", vocab_size=300)
    return tmp_path / "run"


def test_text_has_its_facts_its_tables_and_its_answers(run: Path) -> None:
    shown = (run / "report.txt").read_text()
    for words in ("tide ", "Tides", "Is it night", "the sea"):
        assert words in shown


def test_json_has_its_numbers(run: Path) -> None:
    [section] = json.loads((run / "report.json").read_text())["sections"]
    assert section["numbers"] == {"phase": 0.5}


def test_a_report_that_is_made_again_keeps_it(run: Path) -> None:
    bpe_pipeline.report(run)
    test_text_has_its_facts_its_tables_and_its_answers(run)


def test_held_out_text_in_several_languages_says_what_they_cost(run: Path, tmp_path: Path) -> None:
    for language, words in (("en", "slow lower"), ("sw", "newest widest")):
        (tmp_path / f"{language}.txt").write_text(words)
    bpe_pipeline.report(run, held_out=[f"{language}={tmp_path / language}.txt" for language in ("en", "sw")])
    shown = (run / "report.txt").read_text()
    assert "the sea" not in shown
    assert "Is it night" in shown
