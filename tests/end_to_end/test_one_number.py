"""`report`, `sweep`, `diff`, `info` and `encode` say the same tokens, bytes and bytes per token of the same text."""

import gzip
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from published import EOT as END
from published import pair
from tokenizers import AddedToken
from tokenizers import Tokenizer as HuggingFaceTokenizer

import bpe_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of held-out text that was counted, and the like
EOT = "<|endoftext|>"
DOCUMENTS = [
    "cafe\u0301 low lower, na\xefve e\u0301 A\u030a 각 \u1112\u1161\u11ab. lowest\n\n  newest 12345",
    "in the low light, in the newest of the widest: 1 22 333 4444",
    f"o\u0301 \u212b {END} <think>why</think> 漢字かな नमस्ते \u0301\u0316x",
]
TEXTS = {
    "a.txt": EOT.join(DOCUMENTS * 5).encode() + b" \xff\xe2\x82 bad" + EOT.encode() + b"x",
    "b.jsonl": b"".join(json.dumps({"text": one}).encode() + b"\n" for one in DOCUMENTS),
}
RUNS: dict[str, dict[str, Any]] = {
    "plain": {"vocab_size": 330},
    "nfc": {"vocab_size": 330, "normalize": "nfc", "pattern": "llama3"},
    "superwords": {"vocab_size": 340, "superwords_from": 300, "pattern": "superbpe"},
    "more special tokens": {"vocab_size": 330, "special_tokens": [EOT, "<think>", END]},
}
Size = tuple[int, int, float]  # tokens, bytes, bytes per token


def theirs(home: Path, name: str, separators: list[str]) -> Size:
    """What `tokenizers` makes of the text between special tokens, in the normal form that its file asks for."""
    library, tokens, size = HuggingFaceTokenizer.from_file(str(home / "tokenizer.json")), 0, 0
    data = TEXTS[name]
    texts = (
        [json.loads(line)["text"] for line in data.splitlines()]
        if name.endswith("l")
        else [data.decode("utf-8", "replace")]
    )
    for part in re.split("|".join(map(re.escape, separators)), EOT.join(texts)):
        text = unicodedata.normalize("NFC", part) if library.normalizer else part
        tokens += len(library.encode(part, add_special_tokens=False).ids)
        size += len(text.encode())
    return tokens, size, size / tokens


def encoded(tokenizer: Any, file: Path, separator: str, output: Path) -> Size:
    corpus = bpe_pipeline.encode(file, tokenizer, output, separator=separator)
    facts = bpe_pipeline.info(output)
    assert corpus.text_tokens is not None
    assert corpus.bytes_per_token is not None
    found = corpus.text_tokens, corpus.text_bytes, corpus.bytes_per_token
    assert tuple(facts[name] for name in ("text_tokens", "text_bytes", "bytes_per_token")) == found
    return found


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, data in TEXTS.items():
        (tmp_path / name).write_bytes(data)
    return [tmp_path / name for name in TEXTS]


@pytest.mark.parametrize("name", RUNS)
def test_every_command_says_the_same_of_a_run_as_its_library(files: list[Path], tmp_path: Path, name: str) -> None:
    home, options = tmp_path / "run", RUNS[name]
    bpe_pipeline.train(files, output=home, **options)
    separators = options.get("special_tokens", [EOT])
    for file in files:
        expected = theirs(home / "tokenizer", file.name, separators)
        assert encoded(home, file, EOT, tmp_path / f"shards-{file.name}") == expected
        whole = bpe_pipeline.report(home, held_out=file).numbers.sample.tokenizers[0].whole
        assert (whole.tokens, whole.bytes, whole.numbers["bytes_per_token"], whole.numbers["lost"]) == (*expected, 0)
        [source] = bpe_pipeline.diff(home, home, file).sources
        assert (source.tokens, source.bytes, source.bytes_per_token) == (
            (expected[0],) * 2,
            expected[1],
            (expected[2],) * 2,
        )
        if name != "superwords":
            counted = {
                "special_tokens": separators,
                **{one: options[one] for one in ("pattern", "normalize") if one in options},
            }
            bpe_pipeline.count(files, output=tmp_path / f"counts-{file.name}", **counted)
            unknown = file.with_name(f"{file.name}.gz")  # its text was counted, which is not seen in a compressed file
            unknown.write_bytes(gzip.compress(file.read_bytes()))
            swept = bpe_pipeline.sweep(
                tmp_path / f"counts-{file.name}",
                vocab_size=options["vocab_size"],
                held_out=unknown,
                output=tmp_path / f"sweep-{file.name}",
            )
            [held] = [one for one in swept.points[0].measured if one.name == unknown.name]
            assert (held.tokens, held.bytes, held.bytes_per_token) == expected
    numbers = bpe_pipeline.report(home, held_out=files).numbers
    assert (numbers.merged.bytes, numbers.sample.bytes) == (numbers.sample.tokenizers[0].whole.bytes,) * 2


@pytest.mark.one_of(5)
@pytest.mark.parametrize("shape", ["gpt2", "qwen2", "llama3", "deepseek", "coder", "roberta"])
@pytest.mark.parametrize("added", ["plain", "mixed", "spaces"])
def test_every_command_says_the_same_of_a_published_tokenizer(
    files: list[Path], tmp_path: Path, trained: Path, shape: str, added: str
) -> None:
    library, tokenizer = pair(shape, added)
    if added == "mixed" and tokenizer.model.preparation.nfc:
        pytest.skip("a corpus is searched once: another test shows the refusal")
    (tmp_path / "published").mkdir()
    library.save(str(tmp_path / "published/tokenizer.json"))
    file = files[1] if added == "plain" else files[0]
    expected = encoded(tokenizer, file, END, tmp_path / "shards")
    [source] = bpe_pipeline.diff(tokenizer, tokenizer, file).sources
    assert (source.tokens[0], source.bytes, source.bytes_per_token[0]) == expected
    text = file.read_bytes().replace(EOT.encode(), b" | ")  # a special token of the run alone
    file.write_bytes(text)
    expected = encoded(tokenizer, file, END, tmp_path / "again")
    made = bpe_pipeline.report(trained, held_out=file, compare=tmp_path / "published", output=tmp_path / "report.html")
    whole = made.numbers.sample.tokenizers[1].whole
    assert (whole.tokens, whole.bytes, whole.numbers["lost"]) == (*expected[:2], 0)


def test_text_that_is_in_nfc_already_gets_the_same_report(files: list[Path], tmp_path: Path) -> None:
    bpe_pipeline.train(files, output=tmp_path / "run", vocab_size=330, normalize="nfc")
    bpe_pipeline.train(files, output=tmp_path / "other", vocab_size=320)
    decoded = TEXTS["a.txt"].decode("utf-8", "replace")
    (tmp_path / "nfc.txt").write_text(unicodedata.normalize("NFC", decoded))
    (tmp_path / "nfd.txt").write_text(unicodedata.normalize("NFD", decoded))
    found = [
        bpe_pipeline.report(tmp_path / "run", held_out=tmp_path / f"{name}.txt").numbers.sample.tokenizers[0]
        for name in ("nfc", "nfd")
    ]
    assert [one.whole.numbers["round_trip"] for one in found] == [1, 1]
    assert found[0].whole == found[1].whole
    assert found[0].scripts == found[1].scripts
    made = bpe_pipeline.report(tmp_path / "run", held_out=tmp_path / "nfd.txt", compare=tmp_path / "other")
    mine, other = (one.whole for one in made.numbers.sample.tokenizers)
    assert (mine.numbers["lost"], other.numbers["lost"]) == (0, 0)
    assert f"{1 - mine.tokens / other.tokens:.0%} fewer tokens than other" in (tmp_path / "run/report.txt").read_text()


def test_added_tokens_of_documents_that_are_skipped_are_no_text(tmp_path: Path) -> None:
    home, file = tmp_path / "tokenizer.json", tmp_path / "a.txt"
    bpe_pipeline.train_from_iterator(["the theme"], vocab_size=257).save(tmp_path)
    library = HuggingFaceTokenizer.from_file(str(home))
    library.add_tokens([AddedToken("<x>", normalized=False)])
    library.save(str(home))
    file.write_bytes(f"a<x>b{EOT}c<x>d<x>".encode() + b"\xff" + f"{EOT}e<x>".encode())
    for errors, tokens, size in (("skip", 5, len("a<x>be<x>")), ("replace", 12, len("a<x>be<x>c<x>d<x>") + 3)):
        corpus = bpe_pipeline.encode(file, bpe_pipeline.Tokenizer.load(tmp_path), tmp_path / errors, errors=errors)
        assert (corpus.text_tokens, corpus.text_bytes) == (tokens, size)
