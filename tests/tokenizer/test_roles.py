"""Tokens that start, end and fill texts: in the files, in transformers, and what encoding adds."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import refused, run

import pipeline
from pipeline import Tokenizer
from pipeline.base.errors import UsageError

EOT = "<|endoftext|>"
TEXTS = ["low lower", "", f"newest{EOT}wide", "<s>low"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("roles")
    (home / "a.txt").write_text(EOT.join(["low lower lowest", "newest widest", "wide new"] * 9))
    roles = ["--bos-token", "<s>", "--pad-token", "<pad>", "--add-bos"]
    found = run("train", home / "a.txt", "--output", home / "run", "--vocab-size", 280, "--workers", 1, *roles)
    assert found.returncode == 0, found.stderr
    return home / "run"


def test_bos_is_added_as_transformers_does(trained: Path) -> None:
    from tokenizers import Tokenizer as Theirs
    from transformers import AutoTokenizer

    ours = Tokenizer.load(trained / "tokenizer")
    theirs = AutoTokenizer.from_pretrained(trained / "tokenizer")
    core = Theirs.from_file(str(trained / "tokenizer/tokenizer.json"))
    assert (theirs.bos_token, theirs.eos_token, theirs.pad_token) == ("<s>", EOT, "<pad>")
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == theirs(text).input_ids == core.encode(text).ids
        assert ids[0] == ours.special_tokens["<s>"]
        without = ours.encode(text, add_special_tokens=False)
        assert without == ids[1:] == theirs(text, add_special_tokens=False).input_ids
        assert ours.encode_to_numpy(text).tolist() == list(ours.encode_iterable(iter([text]))) == ids
        assert ours.count_tokens(text) == len(ids)
    assert theirs("low", "wide").input_ids == ours.encode("low") + ours.encode("wide")
    assert ours.encode_batch(TEXTS) == theirs(TEXTS).input_ids
    assert ours.encode_batch(TEXTS, add_special_tokens=False) == [ours.encode(text)[1:] for text in TEXTS]
    assert ours.encode_ordinary("low") == ours.encode("low")[1:]
    assert ours.encode_ordinary_batch(["low"]) == [ours.encode_ordinary("low")]


def test_bos_survives_saving_and_checking(trained: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = Tokenizer.load(trained / "tokenizer")
    AutoTokenizer.from_pretrained(trained / "tokenizer").save_pretrained(tmp_path / "theirs")
    ours.save(tmp_path / "ours")
    for copy in (tmp_path / "theirs", tmp_path / "ours"):
        assert [Tokenizer.load(copy).encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]
    checked = run("export", trained, "--output", tmp_path / "e", "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("the same ids") >= 3
    assert "as the merge list gives them" in pipeline.verify_run(trained)["tokenizer"]


@pytest.mark.parametrize("documents", ["separator", "offsets"])
@pytest.mark.parametrize("errors", ["replace", "skip"])
def test_each_document_of_shards_starts_with_bos(trained: Path, tmp_path: Path, documents: str, errors: str) -> None:
    ours = Tokenizer.load(trained / "tokenizer")
    texts = ["low lower lowest " * 40, "", "<pad>newest widest", "<pad>", "wide new " * 300, "low"]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.txt").write_text(EOT.join(texts))
    (corpus / "b.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts if text))
    end = [ours.special_tokens[EOT]] if documents == "separator" else []
    expected = [[*(ours.encode(text) if text else []), *end] for text in texts + [text for text in texts if text]]
    for size in ("1KiB", "61", "64MiB"):
        found = pipeline.encode_files(corpus, ours, chunk_size=size, documents=documents, errors=errors, workers=1)
        assert [list(document) for document in found] == expected, size
    pipeline.encode_corpus(corpus, ours, tmp_path / "s", documents=documents, workers=1, chunk_size="1KiB")
    [shard] = [path for path in (tmp_path / "s").glob("shard-*.npy") if "documents" not in path.name]
    assert np.load(shard).tolist() == [id_ for document in expected for id_ in document]


def test_roles_change_when_exported(trained: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    roles = ["--eos-token", "<pad>", "--pad-token", "<new>"]
    assert "give --output" in refused(run("export", trained, *roles), 2)
    assert run("export", trained, *roles, "--output", tmp_path / "e", "--export", "hf", "--check").returncode == 0
    theirs = AutoTokenizer.from_pretrained(tmp_path / "e")
    assert (theirs.bos_token, theirs.eos_token, theirs.pad_token) == ("<s>", "<pad>", "<new>")
    assert theirs.convert_tokens_to_ids("<new>") == Tokenizer.load(trained / "tokenizer").vocab_size
    model = Tokenizer.load(tmp_path / "e").model
    assert (model.separator, model.eos_token) == (EOT, "<pad>")


def test_add_bos_needs_a_token() -> None:
    with pytest.raises(UsageError, match="name it as the bos_token"):
        pipeline.train_from_counts({"low": 5}, vocab_size=300, add_bos=True)
