"""Training on real text, where BPE_PIPELINE_TEST_DATA names a directory of `*.txt` files with `<|endoftext|>` between
documents: merges against Hugging Face's trainer, ids of the exports against their runtimes, and the way back."""

import itertools
import re
import runpy
from pathlib import Path

import oracle_counting
import peers
import pytest
from amount import FULL
from recorded import FILES, needs_files
from tokenizers import Tokenizer as HuggingFaceTokenizer

import bpe_pipeline
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.pattern.compiler import compile_pattern

END = "<|endoftext|>"
EOT = END.encode()
PATTERNS = ("gpt2", "llama3", "qwen2")
CASES = [
    pytest.param(path, pattern, id=f"{path.stem}-{pattern}", marks=() if one == at % 3 else pytest.mark.slow)
    for at, path in enumerate(FILES)
    for one, pattern in enumerate(PATTERNS)
]
PAIRS = list(itertools.product(FILES, PATTERNS) if FULL else zip(FILES, itertools.cycle(PATTERNS), strict=False))

pytestmark = needs_files


def require_their_merges(path: Path, pattern: str, sizes: tuple[int, ...], home: Path) -> None:
    """Compare with Hugging Face's trainer, for vocabularies of these sizes with one special token."""
    texts = oracle_counting.documents(path.read_bytes(), [EOT])
    expected = peers.hugging_face_merges(texts, compile_pattern(pattern).expression, sizes[-1] - 257)
    for size in sizes:
        merges = bpe_pipeline.train(path, output=home / str(size), vocab_size=size, pattern=pattern).merges
        assert [(token_to_text(left), token_to_text(right)) for left, right in merges] == expected[: size - 257]


@pytest.mark.parametrize(("path", "pattern"), CASES)
def test_merges_are_those_of_hugging_face(path: Path, pattern: str, tmp_path: Path) -> None:
    """On the first quarter of a megabyte; whole files are the slow test's."""
    (tmp_path / "part.txt").write_bytes(path.read_bytes()[:250_000])
    require_their_merges(tmp_path / "part.txt", pattern, (4000,), tmp_path)


@pytest.mark.slow
@pytest.mark.one_of(2)
@pytest.mark.parametrize(("path", "pattern"), PAIRS, ids=lambda part: getattr(part, "stem", part))
def test_merges_of_every_size_are_those_of_hugging_face(path: Path, pattern: str, tmp_path: Path) -> None:
    require_their_merges(path, pattern, (300, 1000, 8000, 32_000), tmp_path)


@pytest.mark.parametrize("size", [250_000, pytest.param(3_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_exports_agree(path: Path, size: int, tmp_path: Path) -> None:
    (tmp_path / "part.txt").write_bytes(path.read_bytes()[:size])
    ours = bpe_pipeline.train(tmp_path / "part.txt", output=tmp_path / "run", vocab_size=8000, pattern="gpt2")
    directory = tmp_path / "run" / "tokenizer"
    hugging_face = HuggingFaceTokenizer.from_file(str(directory / "tokenizer.json"))
    tiktoken_encoding = runpy.run_path(str(next(directory.glob("*.py"))))["encoding"]
    text = path.read_bytes()[:size].decode(errors="replace")
    ids = ours.encode(text)
    assert ours.decode(ids) == text
    assert tiktoken_encoding.encode(text, allowed_special="all") == ids
    encoded = hugging_face.encode_batch(re.split(f"(?<={re.escape(END)})", text))
    assert [id_ for part in encoded for id_ in part.ids] == ids
