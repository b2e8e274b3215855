"""`report --compare` with tokenizers of others: names in the cache of transformers, SentencePiece models."""

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import refused, run, succeeded

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.reports.compared import cached_or_reference, load_compared
from bpe_pipeline.reports.measure import source_names
from bpe_pipeline.reports.numbers import REFERENCES, SENTENCES
from bpe_pipeline.reports.record import MeasuredTokenizer, bytes_lost
from bpe_pipeline.tokenizer.formats.well_known import cached


def test_cached_name_is_compared_and_others_are_refused(trained: Path, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    absent = "is not in the cache of transformers: load it once"
    for name, said in (("owner/model", absent), ("no such path/at all", "does not exist")):
        assert f"{name} {said}" in refused(run("report", trained, "--compare", name), 1)
    with pytest.raises(InputError, match=r"^gtp2 is no path, .*, or one of gpt2, qwen, .*, o200k, gpt-4o$"):
        cached_or_reference("gtp2", lambda _: None)
    home = tmp_path / "models--openai-community--gpt2"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    shutil.copytree(trained / "tokenizer", home / "snapshots" / ("0" * 40))
    succeeded(run("report", trained, "--compare", "gpt2", "--output", tmp_path / "out.html"))
    assert succeeded(run("diff", trained, "gpt2")).returncode == 0  # one resolver for all
    assert "gpt2: 600 tokens" in run("diff", trained, "gpt2").stdout
    assert succeeded(run("encode", "--text", "low", "--tokenizer", "gpt2")).stdout
    assert "the same ids" in succeeded(run("doctor", "gpt2")).stdout
    for command in (("diff", trained, "gtp2"), ("doctor", "gtp2"), ("encode", "--text", "low", "--tokenizer", "gtp2")):
        assert "gtp2 is no path, and gtp2 is not in the cache of transformers" in run(*command).stderr


RANKS = [bytes([byte]) for byte in range(256)] + [b"th", b"the"]


@pytest.fixture
def tiktoken_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache whose files tiktoken accepts and never downloads, and one of transformers."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    monkeypatch.setattr("tiktoken.load.check_hash", lambda *_: True)  # the file is not OpenAI's
    monkeypatch.setattr("tiktoken.load.read_file", lambda path: pytest.fail(f"{path} is downloaded"))
    return tmp_path


def write_encoding(cache: Path, name: str) -> None:
    """Write a file of ranks where tiktoken keeps an encoding."""
    lines = [base64.b64encode(token) + b" %d" % rank for rank, token in enumerate(RANKS)]
    address = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    (cache / hashlib.sha1(address.encode()).hexdigest()).write_bytes(b"\n".join(lines))


def test_reference_results_stand_in_until_a_cache_has_the_tokenizer(trained: Path, tiktoken_cache: Path) -> None:
    def report(page: str) -> tuple[dict[str, Any], str]:
        words = ["--compare", "gpt-4o", "llama3", "--output", tiktoken_cache / f"{page}.html"]
        said = succeeded(run("report", trained, *words)).stderr
        assert ("warning: gpt-4o is no path, and o200k_base is not in the cache of tiktoken" in said) == (
            page == "first"
        )
        assert said.count("; the report compares its own sentences with ") == (2 if page == "first" else 1)
        document = json.loads((tiktoken_cache / f"{page}.json").read_text())
        return document["numbers"], (tiktoken_cache / f"{page}.html").read_text()

    numbers, html = report("first")
    assert numbers["tokenizers"] == [["this tokenizer", 600]]
    assert [one["name"] for one in numbers["references"]] == ["o200k", "llama3"]
    for sentence in numbers["sentences"]:
        stored = [REFERENCES[name]["tokens"][sentence["language"]] for name in ("o200k", "llama3")]
        assert sentence["counts"][1:] == stored
    assert "o200k (reference)" in html
    assert numbers["references"][0]["source"] == REFERENCES["o200k"]["source"]
    write_encoding(tiktoken_cache, "o200k_base")
    numbers, html = report("second")
    assert numbers["tokenizers"] == [["this tokenizer", 600], ["gpt-4o", 200_019]]
    assert [one["name"] for one in numbers["references"]] == ["llama3"]
    for sentence in numbers["sentences"]:
        text = SENTENCES[sentence["language"]].encode()
        assert sentence["counts"][1] == len(text) - text.count(b"th") - text.count(b"the")
    assert "o200k (reference)" not in html


def test_encoding_in_the_cache_of_tiktoken_is_compared(tiktoken_cache: Path) -> None:
    import tiktoken

    missing = r"cl100k_base is not in the cache of tiktoken .*get_encoding\('cl100k_base'\)"
    with pytest.raises(InputError, match=missing):
        cached("gpt-4")
    write_encoding(tiktoken_cache, "cl100k_base")
    loaded = load_compared(cached("gpt-4"))
    assert loaded.encode("the é") == tiktoken.get_encoding("cl100k_base").encode_ordinary("the é")
    assert loaded.vocab == dict(enumerate(RANKS))
    assert loaded.size == 100_277  # with the special tokens, which the embedding has rows for


def test_bytes_lost_are_those_that_decoding_does_not_return() -> None:
    lost = {
        ("a  b\n", "a b"): 2,
        ("a\nb  c", "a b c"): 2,
        ("\n\n  a b", " a b"): 3,
        ("a b", " a b"): 0,
        ("abc é", "abc \u2047"): 2,
        ("a b", "ab"): 1,
        ("a  b", "a  b"): 0,
        ("  ", ""): 2,
        ("e\u0301 ", "\xe9 "): 0,
        ("\xe9 ", "e\u0301"): 1,
        ("e\u0301x", "x"): 2,
    }
    assert {case: bytes_lost(*case) for case in lost} == lost


def _load_lossy(_: Path) -> MeasuredTokenizer:
    """A token for each byte, without white space."""
    single = {byte: bytes([byte]) for byte in range(256)}
    return MeasuredTokenizer(
        lambda text: [(list("".join(text.split()).encode()), text.encode())],
        single,
        256,
        lambda ids: bytes(ids).decode(),
    )


def test_a_tokenizer_gets_no_credit_for_lost_white_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a token for each byte of the text without white space, so that both are as long for what is kept."""
    text = "ab\n        \n" * 500
    (tmp_path / "a.txt").write_text(text)
    options = ["--vocab-size", 257, "--pattern", "none", "--output", tmp_path / "run"]
    succeeded(run("train", tmp_path / "a.txt", *options))
    monkeypatch.setattr("bpe_pipeline.commands.run_report.load_compared", _load_lossy)
    succeeded(run("report", tmp_path / "run", "--compare", tmp_path / "a.txt"))
    own, other = json.loads((tmp_path / "run" / "report.json").read_text())["numbers"]["sample"]["tokenizers"]
    found = [(one["whole"]["numbers"]["lost"], one["whole"]["numbers"]["bytes_per_token"]) for one in (own, other)]
    assert found == [(0, 1), (5000, 1)]
    shown = (tmp_path / "run" / "report.txt").read_text()
    assert "on the sample as many tokens as a.txt, 256 tokens, for what a.txt keeps: it loses 5,000 bytes" in shown
    assert "bytes lost" in shown


def test_sentencepiece_model_has_its_ids(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    (tmp_path / "corpus.txt").write_text("the low lower newest widest\n" * 100)
    sentencepiece.SentencePieceTrainer.Train(
        input=str(tmp_path / "corpus.txt"),
        model_prefix=str(tmp_path / "m"),
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    loaded = load_compared(tmp_path / "m.model")
    assert not isinstance(loaded, Tokenizer)
    ids = loaded.encode("lower é")
    assert b"".join(loaded.vocab[id_] for id_ in ids) == " lower é".encode()
    (tmp_path / "n.model").write_bytes(b"no model")
    with pytest.raises(InputError, match="is not a SentencePiece model"):
        load_compared(tmp_path / "n.model")


def test_source_names() -> None:
    assert source_names([]) == {}
    assert source_names(["/x/a/b.txt"]) == {"/x/a/b.txt": "b.txt"}
    assert source_names(["/x/a/b.txt", "/x/c.txt"]) == {"/x/a/b.txt": "a/b.txt", "/x/c.txt": "c.txt"}
    many = [f"/x/{directory}/{number}" for directory in "abc" for number in range(20)] + ["/x/top"]
    assert set(source_names(many).values()) == {"a", "b", "c", "(not in a directory)"}
    flat = [f"/x/{name}-{number:03}.txt" for name in ("wiki-de", "wiki-en", "web") for number in range(10)]
    assert set(source_names(flat).values()) == {"wiki-de", "wiki-en", "web"}
    assert len(set(source_names([f"/x/{number}" for number in range(30)]).values())) == 12
    wide = [f"/x/{directory}/{number}" for directory in range(40) for number in range(2)]
    assert len(set(source_names(wide).values())) == 12
