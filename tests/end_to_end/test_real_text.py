"""Training on real text, where BPE_PIPELINE_TEST_DATA names a directory of `*.txt` files with `<|endoftext|>` between
documents: merges against Hugging Face's trainer, ids of the exports against their runtimes, and the way back."""

import itertools
import os
import runpy
from collections import Counter
from pathlib import Path

import peers
import pytest
from amount import FULL
from reference import train_reference
from tokenizers import Tokenizer as HuggingFaceTokenizer

import pipeline
from pipeline.merges.vocabulary import token_to_text
from pipeline.pattern import compile_pattern

EOT = "<|endoftext|>"
DATA = os.environ.get("BPE_PIPELINE_TEST_DATA")
FILES = sorted(Path(DATA).glob("*.txt")) if DATA else []
SIZES = (300, 1000, 8000, 32_000)
PATTERNS = ("gpt2", "llama3", "qwen2")
CASES = [
    pytest.param(path, pattern, id=f"{path.stem}-{pattern}", marks=() if one == at % 3 else pytest.mark.slow)
    for at, path in enumerate(FILES)
    for one, pattern in enumerate(PATTERNS)
]
PAIRS = list(itertools.product(FILES, PATTERNS) if FULL else zip(FILES, itertools.cycle(PATTERNS), strict=False))

pytestmark = pytest.mark.skipif(not FILES, reason="BPE_PIPELINE_TEST_DATA names no directory with *.txt files")


@pytest.mark.parametrize(("path", "pattern"), CASES)
def test_merges_are_those_of_hugging_face(path: Path, pattern: str, tmp_path: Path) -> None:
    """On the first half megabyte; whole files are the slow test's."""
    (tmp_path / "part.txt").write_bytes(path.read_bytes()[:500_000])
    tokenizer = pipeline.train(tmp_path / "part.txt", output=tmp_path / "run", vocab_size=8000, pattern=pattern)
    texts = peers.documents((tmp_path / "part.txt").read_bytes().decode(errors="replace"), [EOT])
    ours = [(token_to_text(left), token_to_text(right)) for left, right in tokenizer.merges]
    assert ours == peers.hugging_face_merges(texts, compile_pattern(pattern).expression, 8000 - 257)


@pytest.mark.slow
@pytest.mark.one_of(2)
@pytest.mark.parametrize(("path", "pattern"), PAIRS, ids=lambda part: getattr(part, "stem", part))
def test_merges_of_every_size_are_those_of_hugging_face(path: Path, pattern: str, tmp_path: Path) -> None:
    texts = peers.documents(path.read_bytes().decode(), [EOT])
    expected = peers.hugging_face_merges(texts, compile_pattern(pattern).expression, SIZES[-1] - 257)
    for size in SIZES:
        tokenizer = pipeline.train(path, output=tmp_path / str(size), vocab_size=size, pattern=pattern)
        ours = [(token_to_text(left), token_to_text(right)) for left, right in tokenizer.merges]
        assert ours == expected[: size - 257]


@pytest.mark.slow
@pytest.mark.one_of(2)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_greatest_bytes_is_the_naive_reference(path: Path, tmp_path: Path) -> None:
    (tmp_path / "part.txt").write_bytes(path.read_bytes()[: 600_000 if FULL else 200_000])
    options = {"vocab_size": 320, "tie_break": "greatest-bytes"}
    tokenizer = pipeline.train(tmp_path / "part.txt", output=tmp_path / "run", **options)
    counter: Counter[bytes] = Counter()
    for text in peers.documents((tmp_path / "part.txt").read_bytes().decode(errors="replace"), [EOT]):
        counter.update(piece.encode() for piece in compile_pattern("gpt2").cut(text))
    expected = train_reference(counter, 320 - 257, tie_break="greatest-bytes")
    assert tokenizer.merges == [(tokenizer.vocab[left], tokenizer.vocab[right]) for left, right, _ in expected]


def test_smaller_vocabularies_of_hugging_face_are_prefixes() -> None:
    """What the test above takes for granted: that one long list of theirs stands for all shorter ones."""
    texts = peers.documents(FILES[0].read_bytes()[: 1 << 19].decode(errors="replace"), [EOT])
    long = peers.hugging_face_merges(texts, compile_pattern("gpt2").expression, 3000)
    for merges in (43, 743):
        assert peers.hugging_face_merges(texts, compile_pattern("gpt2").expression, merges) == long[:merges]


@pytest.mark.parametrize("size", [500_000, pytest.param(3_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_exports_agree(path: Path, size: int, tmp_path: Path) -> None:
    (tmp_path / "part.txt").write_bytes(path.read_bytes()[:size])
    ours = pipeline.train(tmp_path / "part.txt", output=tmp_path / "run", vocab_size=8000, pattern="gpt2")
    directory = tmp_path / "run" / "tokenizer"
    theirs = HuggingFaceTokenizer.from_file(str(directory / "tokenizer.json"))
    snippet = next(directory.glob("*.py"))
    tiktoken_encoding = runpy.run_path(str(snippet))["encoding"]
    text = path.read_bytes()[:size].decode(errors="replace")
    ids = ours.encode(text)
    assert ours.decode(ids) == text
    assert tiktoken_encoding.encode(text, allowed_special="all") == ids
    documents = text.split(EOT)
    encoded = theirs.encode_batch([document + EOT for document in documents[:-1]] + [documents[-1]])
    assert [id_ for part in encoded for id_ in part.ids] == ids
