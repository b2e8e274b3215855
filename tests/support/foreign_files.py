"""Tokenizer files as other libraries write them, and the ids of those libraries."""

import base64
import json
from pathlib import Path
from typing import Any

import samples
import tiktoken
from published import (
    made,
)
from tokenizers import Tokenizer as HuggingFaceTokenizer

from bpe_pipeline import Tokenizer

BYTES = [*samples.tokens_by_id().values()]


def agree(theirs: HuggingFaceTokenizer, ours: Tokenizer, *texts: str) -> None:
    for text in texts:
        assert ours.encode(text) == theirs.encode(text).ids, repr(text)


def written(home: Path, document: Any) -> Path:
    """Write tokenizer.json."""
    (home / "tokenizer.json").write_text(json.dumps(document))
    return home


def theirs_of(home: Path) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer.from_file(str(home / "tokenizer.json"))


def files_of(directory: Path, configuration: dict[str, Any] | None = None, vocab: dict[str, int] | None = None) -> None:
    """Write merges.txt, vocab.json with more tokens, and what configures them."""
    made("gpt2", []).model.save(str(directory))
    listed = json.loads((directory / "vocab.json").read_text(encoding="utf-8")) | (vocab or {})
    for name, document in {"vocab": listed, **(configuration or {})}.items():
        (directory / f"{name}.json").write_text(json.dumps(document))


def ranks(directory: Path, pattern: str, tokens: list[bytes] | None = None) -> Path:
    """A rank file of the merges trained for a pattern, or of other tokens after the bytes."""
    listed = BYTES + ([a + b for a, b in samples.trained(pattern)] if tokens is None else tokens)
    path = directory / "x.tiktoken"
    path.write_bytes(b"".join(b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(listed)))
    return path


def encoding(path: Path, pattern: str, special_tokens: dict[str, int]) -> tiktoken.Encoding:
    lines = [line.split() for line in path.read_bytes().splitlines()]
    table = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=table, special_tokens=special_tokens)
