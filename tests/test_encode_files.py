"""A corpus to ids in memory: those of its shards, document by document, for any number of threads and any chunks."""

import json
from array import array
from itertools import pairwise
from pathlib import Path

import peers
import pytest
from encoded import EOT, IM, corpus_texts, expected, write_corpus
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.errors import InputError, UsageError


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> pipeline.Tokenizer:
    text = tmp_path_factory.mktemp("text") / "a.txt"
    text.write_text(peers.generated_text(3, 4000))
    options = {"vocab_size": 500, "special_tokens": [EOT, IM], "pattern": "llama3"}
    return pipeline.train(text, output=text.parent / "run", workers=1, **options)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("documents", ["separator", "offsets"])
def test_all_formats_give_what_the_shards_hold(
    tokenizer: pipeline.Tokenizer, tmp_path: Path, documents: str, threads: int
) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    encoded = pipeline.encode_files(corpus, tokenizer, documents=documents, chunk_size=700, workers=threads)
    with pytest.warns(UserWarning, match="1 file without a byte"):
        shards = pipeline.encode_corpus(
            corpus, tokenizer, tmp_path / "shards", documents=documents, shard_format="bin", workers=1
        )
    assert encoded.ids.tobytes() == b"".join((tmp_path / "shards" / one.name).read_bytes() for one in shards.shards)
    assert (len(encoded), encoded.text_bytes, encoded.losses) == (shards.documents, shards.text_bytes, shards.losses)
    assert encoded.ids.format == "H"
    assert encoded.ids.readonly
    if documents == "separator":
        ids = expected(tokenizer, corpus_texts())
        assert encoded.ids.tolist() == ids
        ends = [at + 1 for at, id_ in enumerate(ids) if id_ == tokenizer.special_tokens[EOT]]
        assert encoded.ends.tolist() == ends
        assert [row.tolist() for row in encoded] == [ids[start:end] for start, end in pairwise([0, *ends])]
    else:
        [shard] = shards.shards
        offsets = array("Q", (tmp_path / "shards" / str(shard.offsets)).read_bytes()[-8 * len(encoded) :])
        assert encoded.ends.tolist() == offsets.tolist()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.sampled_from("ab's 1é日\n😀"), max_size=30), min_size=1, max_size=20),
    st.integers(1, 200),
    st.integers(1, 4),
)
def test_any_chunks_and_threads(
    tokenizer: pipeline.Tokenizer, tmp_path: Path, texts: list[str], chunk_bytes: int, threads: int
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" + EOT.join(texts), newline="")
    encoded = pipeline.encode_files(path, tokenizer, chunk_size=chunk_bytes, workers=threads)
    assert encoded.ids.tolist() == expected(tokenizer, [path.read_bytes()])


def test_a_sequence_of_documents(tokenizer: pipeline.Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts = ["one", "two two", "three"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    encoded = pipeline.encode_files(path, tokenizer, documents="offsets")
    assert [tokenizer.decode(row) for row in encoded] == texts
    assert tokenizer.decode(encoded[-1]) == "three"
    assert [tokenizer.decode(row) for row in encoded[:2]] == texts[:2]
    with pytest.raises(IndexError):
        encoded[3]
    assert list(reversed(encoded)) == [*encoded][::-1]


def test_wide_ids(tmp_path: Path) -> None:
    """Above 65,535 an id takes four bytes."""
    wide = pipeline.Tokenizer.from_merges([(b"a", b"b")], [f"<{number}>" for number in range(65_536)])
    path = tmp_path / "a.txt"
    path.write_text("ab<65535>")
    encoded = pipeline.encode_files(path, wide, separator="<0>")
    assert encoded.ids.format == "I"
    assert encoded.ids.tolist() == [256, 257 + 65_535, 257]


def test_what_cannot_be(tokenizer: pipeline.Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good bad\xff")
    assert pipeline.encode_files(path, tokenizer).losses["replacements"]["count"] == 1
    with pytest.raises(InputError, match="not everything was taken as it stood: 1 invalid UTF-8 sequence replaced"):
        pipeline.encode_files(path, tokenizer, fail_on_loss=True)
    with pytest.raises(InputError, match=r"invalid UTF-8 in .*a\.txt"):
        pipeline.encode_files([path] * 3, tokenizer, errors="strict", workers=2)
    with pytest.raises(UsageError, match="names of files"):
        pipeline.encode_files("-", tokenizer)
    for option in ({"output": tmp_path}, {"shard_size": 10}, {"vocab_size": 300}, {"executor": "ray"}):
        with pytest.raises(UsageError, match="means nothing for encoding in memory"):
            pipeline.encode_files(path, tokenizer, **option)
    with pytest.raises(InputError, match=r"none\.txt does not exist"):
        pipeline.encode_files(tmp_path / "none.txt", tokenizer)
