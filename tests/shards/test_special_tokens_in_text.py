"""`--special-tokens-in-text`: what special tokens become that are in the text of documents and separate none."""

import json
import unicodedata
from functools import cache
from pathlib import Path

import command
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoded import EOT, IM, read_shards
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import InputError

PRE_TOKENS = st.sampled_from([EOT, IM, "a", " the", "é", "e\u0301", "<|endof", "text|>", "\n", "<"])
TEXTS = st.lists(st.lists(PRE_TOKENS, max_size=8).map("".join), min_size=1, max_size=5)


def write(texts: list[str], path: Path) -> Path:
    """Write texts in the format of the name: text files as one text, others as records."""
    if path.suffix == ".txt":
        path.write_text(EOT.join(texts))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    else:
        pq.write_table(pa.table({"text": texts}), path, row_group_size=1)
    return path


def documents_of(texts: list[str], path: Path) -> list[str]:
    """Return the documents by definition: the separator ends those of text files, records are documents as they are."""
    documents = EOT.join(texts).split(EOT) if path.suffix == ".txt" else texts
    last_is_empty = path.suffix == ".txt" and not documents[-1]
    return [text for text in (documents[:-1] if last_is_empty else documents) if text or path.suffix == ".txt"]


@cache
def normalizing(form: str) -> bpe_pipeline.Tokenizer:
    return bpe_pipeline.train_from_iterator(
        ["the theme é"] * 9, vocab_size=262, special_tokens=[EOT, IM], normalize=form, min_frequency=1
    )


@pytest.mark.one_of(3)
@pytest.mark.parametrize("form", ["none", "nfc"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, chunk_size=st.integers(1, 40))
def test_special_tokens_are_text_in_any_chunks(
    texts: list[str], chunk_size: int, name: str, form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home, tokenizer = tmp_path_factory.mktemp("text"), normalizing(form)
    path, end = write(texts, home / name), tokenizer.special_tokens[EOT]
    documents = documents_of(texts, path)
    if not documents:
        return
    encoded = bpe_pipeline.encode(
        path, tokenizer, special_tokens_in_text="text", chunk_size=chunk_size, workers=2, input_format="auto"
    )
    expected = [[*tokenizer.encode_ordinary(text), end] for text in documents]
    assert [list(document) for document in encoded] == expected
    in_form = [unicodedata.normalize("NFC", text) if form == "nfc" else text for text in documents]
    assert encoded.text_bytes == sum(len(text.encode()) for text in in_form)


def test_separators_of_texts_are_text_of_records(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    texts = [f"a{EOT}b{IM}", "c"]
    for name in ("1.txt", "2.jsonl", "3.txt", "4.parquet"):
        write(texts, tmp_path / name)
    bpe_pipeline.encode(tmp_path, tokenizer, tmp_path / "shards", special_tokens_in_text="text", workers=1)
    end = tokenizer.special_tokens[EOT]
    documents = [["a", f"b{IM}", "c"], texts] * 2
    assert read_shards(tmp_path / "shards") == [
        id_ for texts in documents for text in texts for id_ in [*tokenizer.encode_ordinary(text), end]
    ]


def test_summary_counts_special_tokens_in_text_and_names_the_option(saved: Path, tmp_path: Path) -> None:
    write([f"a{IM}b{EOT}c"], tmp_path / "a.txt")
    write([f"a{IM}b{EOT}c"], tmp_path / "b.jsonl")
    done = command.run("encode", tmp_path, "--tokenizer", saved, "--output", tmp_path / "shards")
    assert f"'{IM}' 2 times, '{EOT}' 1 time; --special-tokens-in-text text" in done.stderr
    done = command.run(
        "encode", tmp_path, "--tokenizer", saved, "-o", tmp_path / "b", "--special-tokens-in-text", "text"
    )
    assert "special tokens" not in done.stderr


def test_separator_between_documents_is_no_special_token_in_text(saved: Path, tmp_path: Path) -> None:
    write(["a", "b"], tmp_path / "a.txt")
    done = command.run("encode", tmp_path / "a.txt", "--tokenizer", saved, "--output", tmp_path / "shards")
    assert "special token" not in done.stderr


@pytest.mark.parametrize(
    ("name", "location"), [("a.txt", "a.txt, byte 2012"), ("a.jsonl", "a.jsonl, byte 2011"), ("a.parquet", "row 2")]
)
def test_refused_special_token_is_named_with_its_location(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, name: str, location: str
) -> None:
    path = write(["x" * 1000, "y" * 985, f"z{IM}"], tmp_path / name)
    with pytest.raises(InputError, match=rf"{location}: the text contains the special token '<\|im\|>'"):
        bpe_pipeline.encode(path, tokenizer, special_tokens_in_text="refuse", chunk_size=100)


def test_separator_in_a_record_is_refused_and_in_a_text_file_is_not(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path
) -> None:
    options = {"special_tokens_in_text": "refuse"}
    assert len(bpe_pipeline.encode(write(["a", "b"], tmp_path / "a.txt"), tokenizer, **options)) == 2
    with pytest.raises(InputError, match=r"byte 0: the text contains the special token '<\|endoftext"):
        bpe_pipeline.encode(write([f"a{EOT}b"], tmp_path / "a.jsonl"), tokenizer, **options)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@pytest.mark.parametrize(
    ("text", "how", "kept"),
    [
        (f"a{IM}b\xff", {"errors": "skip"}, False),
        (f"\xffa{IM}b", {"errors": "skip"}, False),
        (f"a{IM}{600_000 * 'b '}\xff", {"errors": "skip"}, False),
        (f"a{IM}{600_000 * 'b '}", {"errors": "skip"}, True),
        (f"\xffa{IM}b", {"errors": "skip", "max_document_chars": 9}, False),
        (f"abcd{IM}", {"max_document_chars": 3}, False),
        (f"ab{IM}c", {"max_document_chars": 9}, True),
        (f"ab{IM}c", {"sample": 0.5, "seed": 3}, False),
    ],
)
def test_a_special_token_is_refused_only_where_its_document_is_kept(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, name: str, text: str, how: dict, kept: bool
) -> None:
    texts = [text, "ok", f"c{IM}"] if kept else [text, "ok"]
    write(texts, tmp_path / name)
    written = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(written.replace(b"\\u00ff", b"\xff").replace("\xff".encode(), b"\xff"))
    options = {"special_tokens_in_text": "refuse", "workers": 1, **how}
    if kept:
        location = f"byte {text.index(IM)}" if name == "a.txt" else "byte 0"
        with pytest.raises(InputError, match=f"{location}: the text contains the special token"):
            bpe_pipeline.encode(tmp_path / name, tokenizer, **options)
    else:
        encoded = bpe_pipeline.encode(tmp_path / name, tokenizer, **options)
        assert tokenizer.decode([*encoded[len(encoded) - 1]]) == f"ok{EOT}"


@pytest.mark.parametrize("how", [{}, {"chunk_size": 1}, {"max_document_chars": 3}, {"errors": "skip"}], ids=str)
@pytest.mark.parametrize("special", [(EOT,), ()], ids=str)
def test_what_split_documents_at_training_does_so_at_encoding(special: tuple, how: dict, tmp_path: Path) -> None:
    """It becomes the separator in text, and stays what it is in records; `Tokenizer.encode` knows nothing of it."""
    (tmp_path / "a.txt").write_text("one\n\n\ntwo<cut>\n\n\nthree")
    trained = {"split_at": ["\n\n\n", "<cut>"], "special_tokens": special, "vocab_size": 260, "workers": 1}
    bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "run", **trained)
    ours = bpe_pipeline.load(tmp_path / "run")
    config = json.loads((tmp_path / "run/tokenizer/tokenizer_config.json").read_text())
    assert config["bpe_pipeline_split_at"] == trained["split_at"]
    options = {"workers": 1, **how} | ({} if special else {"documents": "offsets"})
    encoded = bpe_pipeline.encode(tmp_path / "a.txt", ours, **options)
    most = how.get("max_document_chars")
    texts = [f"{text[:most]}{EOT * len(special)}" for text in ("one", "two", "", "three")]
    assert [ours.decode([*ids]) for ids in encoded] == texts
    (tmp_path / "b.jsonl").write_text('{"text": "a<cut>b"}\n')
    [record] = bpe_pipeline.encode(tmp_path / "b.jsonl", ours, **options)
    assert ours.decode([*record]).removesuffix(EOT) == "a<cut>b"[:most]
    assert ours.decode(ours.encode("a<cut>b")) == "a<cut>b"
