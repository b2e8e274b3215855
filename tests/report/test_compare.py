"""`report --compare` with tokenizers of others: names in the cache of transformers, SentencePiece models."""

import base64
import hashlib
import shutil
from pathlib import Path

import pytest
from command import refused, run

from pipeline import Tokenizer
from pipeline.base.errors import InputError
from pipeline.report.compared import cached, load_compared


def test_name_that_is_not_cached_says_so_without_network(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    said = refused(run("report", trained, "--compare", "owner/model"), 1)
    assert "owner/model is not in the cache of transformers: load it once" in said
    assert "no such path/at all does not exist" in refused(
        run("report", trained, "--compare", "no such path/at all"), 1
    )


def test_cached_name_is_compared(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    home = tmp_path / "models--openai-community--gpt2"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    shutil.copytree(trained / "tokenizer", home / "snapshots" / ("0" * 40))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    result = run("report", trained, "--compare", "gpt2", "--output", tmp_path / "out.html")
    assert result.returncode == 0, result.stderr


def test_encoding_in_the_cache_of_tiktoken_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    monkeypatch.setattr("tiktoken.load.check_hash", lambda *_: True)  # the file is not OpenAI's
    monkeypatch.setattr("tiktoken.load.read_file", lambda path: pytest.fail(f"{path} is downloaded"))
    with pytest.raises(
        InputError, match=r"cl100k_base is not in the cache of tiktoken .*get_encoding\('cl100k_base'\)"
    ):
        cached("gpt-4")
    ranks = [bytes([byte]) for byte in range(256)] + [b"th", b"the"]
    lines = [base64.b64encode(token) + b" %d" % rank for rank, token in enumerate(ranks)]
    address = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    (tmp_path / hashlib.sha1(address.encode()).hexdigest()).write_bytes(b"\n".join(lines))
    loaded = load_compared(cached("gpt-4"))
    assert loaded.encode_ordinary("the é") == tiktoken.get_encoding("cl100k_base").encode_ordinary("the é")
    assert loaded.vocab == dict(enumerate(ranks))


def test_sentencepiece_model_has_its_ids(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    (tmp_path / "corpus.txt").write_text("the low lower newest widest\n" * 100)
    sentencepiece.SentencePieceTrainer.Train(
        input=str(tmp_path / "corpus.txt"), model_prefix=str(tmp_path / "m"), vocab_size=300, model_type="bpe",
        byte_fallback=True, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    loaded = load_compared(tmp_path / "m.model")
    assert not isinstance(loaded, Tokenizer)
    ids = loaded.encode_ordinary("lower é")
    assert b"".join(loaded.vocab[id_] for id_ in ids) == " lower é".encode()
    (tmp_path / "n.model").write_bytes(b"no model")
    with pytest.raises(InputError, match="is not a SentencePiece model"):
        load_compared(tmp_path / "n.model")
