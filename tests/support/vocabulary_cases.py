"""Recorded cases of extending and pruning, read where they are stored."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vocabulary_rules import base_of_case

import pipeline
from pipeline.merges.vocabulary import text_to_token

_HOME = Path(os.environ.get("BPE_PIPELINE_TEST_DATA", "/nowhere")).parent / "cases" / "vocabularies"


def recorded_cases(command: str, home: Path) -> Iterator[tuple[dict[str, Any], Path, Any]]:
    """Yield each case of a command with the directory of its tokenizer and its counts, both written below `home`."""
    if not _HOME.is_dir():
        pytest.skip("the recorded cases are not on this machine")
    paths = sorted(_HOME.glob(f"{command}-*.json"))
    assert paths
    for path in paths:
        case = json.loads(path.read_text())
        own = home / path.stem
        own.mkdir()
        base = base_of_case(case["base"]).save(own / "base")
        counter = {text_to_token(text): count for text, count in case["counter"].items()}
        yield case, base, pipeline.import_counts(counter, output=own / "run", special_tokens=[])


def require_probes(case: dict[str, Any], base: Path, changed: pipeline.Tokenizer) -> None:
    """Require the recorded ids of pieces, before and after."""
    encoders = pipeline.Tokenizer.load(base).model.encoder(), changed.model.encoder()
    for probe in case["probes"]:
        found = [one.encode_pieces([text_to_token(probe["piece"])]) for one in encoders]
        assert found == [probe["old"], probe["new"]], (base, probe)
