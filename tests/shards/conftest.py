"""What several tests of shards encode with, made once."""

from pathlib import Path

import peers
import pytest
from encoded import EOT, IM

import bpe_pipeline


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> bpe_pipeline.Tokenizer:
    text = tmp_path_factory.mktemp("text") / "a.txt"
    text.write_text(peers.generated_text(3, 4000))
    options = {"vocab_size": 500, "special_tokens": [EOT, IM], "pattern": "llama3"}
    return bpe_pipeline.train(text, output=text.parent / "run", workers=1, **options)


@pytest.fixture(scope="session")
def saved(tokenizer: bpe_pipeline.Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved")
    tokenizer.save(path)
    return path
