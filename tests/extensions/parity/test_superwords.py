"""Superwords after merges that languages chose, compared with Hugging Face's trainer and with their definition."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import peers
import pytest
import tokenizers
from amount import FULL
from command import refused, run
from reference import GPT2_BYTES, train_reference

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import superword_presets
from bpe_pipeline.run import manifest

COARSE = superword_presets()["superbpe"].expression
EOT = "<|endoftext|>"
pytestmark = pytest.mark.filterwarnings("ignore:tokenizers 1.0", "ignore:the vocabulary is smaller", "ignore:.* chose")


def _languages(home: Path, seed: int) -> dict[str, Path]:
    phrases = {"en": "of the end of the day: in 2024 ", "sw": "katika mwisho wa siku ya kwanza "}
    for number, (name, phrase) in enumerate(phrases.items()):
        documents = [peers.generated_text(2 * seed + number + one, 40) + phrase * (3 - number) for one in (7, 8)]
        (home / f"{name}.txt").write_text(EOT.join(documents), newline="")
    return {name: home / f"{name}.txt" for name in phrases}


def _documents(languages: dict[str, Path]) -> list[str]:
    return [document for path in languages.values() for document in path.read_bytes().decode().split(EOT)]


@pytest.mark.parametrize("seed", range(100 if FULL else 3))
def test_they_are_those_of_hugging_faces_trainer_after_the_merges_of_parity(seed: int, tmp_path: Path) -> None:
    languages, first = _languages(tmp_path, seed), 256 + 20 + seed % 50
    given = {"pattern": "superbpe", "vocab_size": first + 1, "min_frequency": 2, "workers": 1}
    pre_tokens = bpe_pipeline.parity(languages, dev=languages, **given, output=tmp_path / "plain")
    pre_tokens.save(tmp_path / "base")
    words = {"superwords_from": first, "superword_words": "none", "superword_colon": True}
    merged = bpe_pipeline.merge(tmp_path / "plain", vocab_size=first + 41, **words, output=tmp_path / "run")
    base = tokenizers.Tokenizer.from_file(str(tmp_path / "base/tokenizer.json"))
    expected = peers.resumed_merges(base, _documents(languages), COARSE, 40, min_frequency=2)
    found = merged[first + 41].merges
    assert found[: len(pre_tokens.merges)] == pre_tokens.merges
    assert [(token_to_text(a), token_to_text(b)) for a, b in found[len(pre_tokens.merges) :]] == expected[:40]


@pytest.mark.parametrize("weights", [{}, {"shares": {"sw": "70%"}}])
def test_limits_options_of_parity_and_verification(weights: dict[str, Any], tmp_path: Path) -> None:
    languages = _languages(tmp_path, 1)
    words = {"superwords_from": 300, "vocab_size": 351, "window": 10, "alpha": 1.5, "global_merges": 5}
    given = {"pattern": "superbpe", "min_frequency": 2, **weights}
    found = bpe_pipeline.parity(languages, dev=languages, **given, **words, output=tmp_path / "run")
    of_parity = {name: words[name] for name in ("window", "alpha", "global_merges")}
    first = bpe_pipeline.parity(
        languages, dev=languages, **given, **of_parity, vocab_size=301, output=tmp_path / "plain"
    ).merges
    numbers = {token: id_ for id_, token in enumerate([*map(bytes, zip(GPT2_BYTES)), *(a + b for a, b in first)])}
    known = [(numbers[a], numbers[b], 0) for a, b in first]
    mixed = manifest.require(tmp_path / "run").manifest.source.mixed
    scale = math.lcm(*(one.weight[1] for one in mixed))
    pre_tokens: Counter[bytes] = Counter()
    for one, path in zip(mixed, languages.values(), strict=True):
        for document in path.read_bytes().decode().split(EOT):
            for pre_token in compile_pattern(COARSE).cut(document):
                pre_tokens[pre_token.encode()] += scale * one.weight[0] // one.weight[1]
    assert (scale > 1) == bool(weights)
    expected = train_reference(pre_tokens, 94, known=known, max_words=4, no_colon=True, min_frequency=2 * scale)
    ids = found.vocabulary
    assert list(zip(ids.left, ids.right, strict=True)) == [pair[:2] for pair in expected]
    [section] = json.loads((tmp_path / "run/report.json").read_text())["sections"]
    for measured, path in zip(section["numbers"]["measured"], languages.values(), strict=True):
        parts = path.read_bytes().decode().split(EOT)
        lengths = len("".join(parts).encode()), sum(len(found.encode(part)) for part in parts)
        assert (measured["bytes"], measured["tokens"]) == lengths
    verified = bpe_pipeline.verify(tmp_path / "run")
    assert verified["first stage"].startswith("44; ")
    assert verified["merges"].startswith("94; ")
    (tmp_path / "run/superwords/merges.parquet").unlink()
    with pytest.raises(RunDirectoryError, match="run merge again"):
        bpe_pipeline.verify(tmp_path / "run")


def test_languages_without_texts_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    refusal = refused(
        run(
            "parity", runs["en"], runs["sw"], "--temperature", 2, "--superwords-from", 260, "--output", tmp_path / "run"
        ),
        2,
    )
    assert "superwords need the texts for a second count, and the counts of" in refusal
