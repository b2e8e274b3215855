"""Superwords after merges that languages chose are those of Hugging Face's trainer after the same merges."""

from pathlib import Path

import peers
import pytest
import tokenizers
from amount import FULL

import bpe_pipeline
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.pattern.presets import superword_presets

EOT = "<|endoftext|>"
PHRASES = {"en": "of the end of the day: in 2024 ", "sw": "katika mwisho wa siku ya kwanza "}
pytestmark = pytest.mark.filterwarnings("ignore:tokenizers 1.0", "ignore:the vocabulary is smaller", "ignore:.* chose")


@pytest.mark.parametrize("seed", range(100 if FULL else 1))
def test_superwords_follow_the_merges_of_parity(seed: int, tmp_path: Path) -> None:
    languages, documents, first = {}, [], 256 + 20 + seed % 50
    for number, (name, phrase) in enumerate(PHRASES.items()):
        texts = [peers.generated_text(2 * seed + number + one, 40) + phrase * (3 - number) for one in (7, 8)]
        languages[name] = tmp_path / f"{name}.txt"
        languages[name].write_text(EOT.join(texts), newline="")
        documents += texts
    given = {"pattern": "superbpe", "vocab_size": first + 1, "min_frequency": 2, "workers": 1}
    plain = bpe_pipeline.parity(languages, dev=languages, **given, output=tmp_path / "plain")
    second = bpe_pipeline.count([*languages.values()], pattern="superwords", output=tmp_path / "run").directory
    words = {"first_stage": tmp_path / "plain", "superword_words": "none", "superword_colon": True, "min_frequency": 2}
    found = bpe_pipeline.merge(second, vocab_size=first + 41, **words)[first + 41].merges
    base = tokenizers.Tokenizer.from_file(str(tmp_path / "plain/tokenizer/tokenizer.json"))
    coarse = superword_presets()["superbpe"].expression
    expected = peers.resumed_merges(base, documents, coarse, 40, min_frequency=2)
    assert found[: len(plain.merges)] == plain.merges
    assert [(token_to_text(a), token_to_text(b)) for a, b in found[len(plain.merges) :]] == expected[:40]
