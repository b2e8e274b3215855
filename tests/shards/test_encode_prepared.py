"""Any text in any chunks, blocks and shards, also without its invalid documents, by tokenizers that change texts before
they cut them, or cut in several steps: the ids of `encode`."""

import codecs
from pathlib import Path

import encoded
import pytest
from amount import FULL
from encoded import between_skipped, expected, read_shards
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from published import ADDED, BOS, EOT, PARTS, SHAPES, pair

import bpe_pipeline
from bpe_pipeline.tokenizer.encode import TextEncoder

TRAINED = "trained"  # one of ours, whose texts are cut as they are
MADE = [*[TRAINED] * 6, *(name for name in SHAPES if name != "falcon")]  # which lacks bytes, and is for single texts
RAW = [b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\xc3", b"\xcc", b"\x81", *(part.encode() for part in PARTS)]
SEPARATED = [text.encode() for text in (EOT, encoded.EOT, encoded.IM, "<|end", "oftext|>", "a", " b\n", "日本")]
RULES = f"x {BOS} y<mask> thx thx_ éé {EOT}  thxé z".encode()
JOINED = f"{EOT}bad\udcff{EOT}bad\udcff{BOS}".encode(errors="surrogateescape")  # EOT * 2 is a token too, and not here
LONGER = f"a{EOT}{EOT}{BOS}b{EOT}{BOS}".encode()  # ends no document before its second BOS
WHOLE = {"chunk_size": 60, "documents": "separator"}
TINY = WHOLE | {"chunk_size": 8}
FILES = st.lists(st.lists(st.sampled_from([*SEPARATED, *RAW]), max_size=25).map(b"".join), min_size=1, max_size=3)
OPTIONS = {
    "chunk_size": st.integers(1, 60),
    "shard_size": st.integers(1, 40),
    "documents": st.sampled_from(["offsets", "separator"]),
    "errors": st.sampled_from(["replace", "skip"]),
}


def no_other_encoding(files: list[bytes]) -> bool:
    """Whether there is text, and no file is refused as text in another encoding."""
    return any(files) and not any(
        data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or data.count(0) > 1 for data in files
    )


@settings(max_examples=300 if FULL else 40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.filterwarnings("ignore:.* without a byte", "ignore:.* is the separator and ended ")
@pytest.mark.filterwarnings("ignore:.*looks like special", "ignore:.* NUL bytes")
@given(
    made=st.tuples(st.sampled_from(MADE), st.sampled_from(list(ADDED))),
    files=FILES.filter(no_other_encoding),
    options=st.fixed_dictionaries(OPTIONS),
    block_bytes=st.sampled_from([1, 7, 1 << 20]),
)
@example(made=("qwen2", "rules"), files=[RULES], options=WHOLE | {"errors": "replace"}, block_bytes=7)
@example(made=("qwen2", "plain"), files=[JOINED], options=WHOLE | {"errors": "skip"}, block_bytes=7)
@example(made=("roberta", "plain"), files=[JOINED], options=TINY | {"errors": "skip"}, block_bytes=7)
@example(made=("roberta", "plain"), files=[LONGER], options=TINY | {"errors": "replace"}, block_bytes=7)
def test_any_text_in_any_chunks(
    tokenizer, tmp_path_factory, monkeypatch, made: tuple[str, str], files: list[bytes], options, block_bytes: int
) -> None:
    ours, separator = (tokenizer, encoded.EOT) if made[0] == TRAINED else (pair(*made)[1], EOT)
    if ours.model.behind:
        options["documents"] = "separator"
    home, output = tmp_path_factory.mktemp("any"), tmp_path_factory.mktemp("shards")
    for number, data in enumerate(files):
        (home / f"{number}.txt").write_bytes(data)
    monkeypatch.setattr("bpe_pipeline.counts.prepared._PREPARED_BYTES", block_bytes)
    corpus = bpe_pipeline.encode(home, ours, output, separator=separator, shard_format="bin", **options)
    ids, end = expected(ours, files, separator, options["errors"]), ours.special_tokens[separator]
    own = ids if options["documents"] == "separator" else [id_ for id_ in ids if id_ != end]
    assert read_shards(output) == own
    assert b"".join(bpe_pipeline.decode(output, ours)) == ours.decode_bytes(ids)
    skip = options["errors"] == "skip"
    valid = [part for data in files for part in (between_skipped(data, ours.model.separating) if skip else [data])]
    found = [one for part in valid for one in TextEncoder(ours.model).text_stretches(part)]
    sizes = sum(len(ids) for ids, _ in found), sum(len(text) for _, text in found)
    assert (corpus.text_tokens or 0, corpus.text_bytes if corpus.text_tokens else 0) == sizes


@pytest.mark.parametrize(
    ("shape", "documents", "separator", "ends"),
    [
        ("llama3", "separator", EOT, [EOT]),
        ("llama3", "offsets", EOT, []),
        ("roberta", "separator", EOT, [EOT]),  # what the tokenizer adds is the separator: once
        ("roberta", "separator", EOT * 2, [EOT, EOT * 2]),
        ("roberta", "offsets", EOT, [EOT]),
    ],
)
def test_documents_have_what_the_tokenizer_adds_once(
    shape: str, documents: str, separator: str, ends: list[str], tmp_path: Path
) -> None:
    """The line is longer than a chunk: a document that continues in another one starts and ends once."""
    ours = pair(shape, "plain")[1]
    (tmp_path / "a.txt").write_text(separator.join(texts := ["low lower " * 9, "widest"]))
    settings = {"documents": documents, "separator": separator, "chunk_size": 20}
    bpe_pipeline.encode(tmp_path / "a.txt", ours, tmp_path / "shards", shard_format="bin", **settings)
    rows = [[ours.special_tokens[BOS], *ours.encode_ordinary(text)] for text in texts]
    behind = [ours.special_tokens[text] for text in ends]
    assert read_shards(tmp_path / "shards") == [id_ for row in rows for id_ in [*row, *behind]]
    if len(ends) < 2:
        back = b"".join(bpe_pipeline.decode(tmp_path / "shards", ours))
        assert back == b"".join(f"{BOS}{text}{separator}".encode() for text in texts)
