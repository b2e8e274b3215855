"""Superwords after merges that languages chose, compared with Hugging Face's trainer and with their definition."""

from pathlib import Path

import peers
import pytest
import tokenizers
from amount import FULL

import bpe_pipeline
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.pattern.presets import superword_presets

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
    second = bpe_pipeline.count([*languages.values()], pattern="superwords", output=tmp_path / "run").directory
    words = {"first_stage": tmp_path / "plain", "superword_words": "none", "superword_colon": True, "min_frequency": 2}
    merged = bpe_pipeline.merge(second, vocab_size=first + 41, **words)
    base = tokenizers.Tokenizer.from_file(str(tmp_path / "base/tokenizer.json"))
    expected = peers.resumed_merges(base, _documents(languages), COARSE, 40, min_frequency=2)
    found = merged[first + 41].merges
    assert found[: len(pre_tokens.merges)] == pre_tokens.merges
    assert [(token_to_text(a), token_to_text(b)) for a, b in found[len(pre_tokens.merges) :]] == expected[:40]
