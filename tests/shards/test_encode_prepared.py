"""Any text in any chunks, blocks and shards, also without its invalid documents, by tokenizers that put text into NFC
or cut it in several steps: the ids of `encode`. What needs more than that is refused."""

import codecs
import json
from functools import partial
from pathlib import Path

import encoded
import pytest
from amount import FULL
from encoded import expected, kept_documents, read_shards
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from published import BOS, EOT, PARTS, SHAPES, pair

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.tokenizer.encode import TextEncoder

TRAINED = "trained"  # one of ours, whose texts are cut as they are
NO_CORPUS = "falcon", "space in front", "space in front, uncut"  # the first lacks bytes
MADE = [*[TRAINED] * 6, *(name for name in SHAPES if name not in NO_CORPUS)]
NFC = "neox", "qwen2", "coder"  # in which a token that joins with marks is searched last
RAW = [b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\xc3", b"\xcc", b"\x81", *(part.encode() for part in PARTS)]
SEPARATED = [text.encode() for text in (EOT, encoded.EOT, encoded.IM, "<|end", "oftext|>", "a", " b\n", "日本")]
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
    made=st.tuples(st.sampled_from(MADE), st.sampled_from(["plain", "mixed", "spaces"])),
    files=FILES.filter(no_other_encoding),
    options=st.fixed_dictionaries(OPTIONS),
)
@example(made=("qwen2", "plain"), files=[JOINED], options=WHOLE | {"errors": "skip"})
@example(made=("roberta", "plain"), files=[JOINED], options=TINY | {"errors": "skip"})
@example(made=("roberta", "plain"), files=[LONGER], options=TINY | {"errors": "replace"})
def test_any_text_in_any_chunks(
    tokenizer, tmp_path_factory, made: tuple[str, str], files: list[bytes], options
) -> None:
    assume(made[0] not in NFC or made[1] != "mixed")
    ours, separator = (tokenizer, encoded.EOT) if made[0] == TRAINED else (pair(*made)[1], EOT)
    if ours.model.behind:
        options["documents"] = "separator"
    home, output = tmp_path_factory.mktemp("any"), tmp_path_factory.mktemp("shards")
    for number, data in enumerate(files):
        (home / f"{number}.txt").write_bytes(data)
    ids, end = expected(ours, files, separator, options["errors"]), ours.special_tokens[separator]
    if not ids:
        with pytest.raises(InputError, match="the corpus holds no text to encode"):
            bpe_pipeline.encode(home, ours, output, separator=separator, shard_format="bin", **options)
        return
    corpus = bpe_pipeline.encode(home, ours, output, separator=separator, shard_format="bin", **options)
    own = ids if options["documents"] == "separator" else [id_ for id_ in ids if id_ != end]
    assert read_shards(output) == own
    assert b"".join(bpe_pipeline.decode(output, ours)) == ours.decode_bytes(ids)
    kept = partial(kept_documents, special_tokens=ours.model.separating, separator=separator)
    valid = [part for data in files for part in (kept(data) if options["errors"] == "skip" else [data])]
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


@pytest.mark.parametrize(
    ("made", "text", "message"),
    [
        (
            ("gpt2", "flags"),
            f"ab {BOS} c{EOT}",
            r"a\.txt, byte 3: .* '<\|begin\|>', which is flagged lstrip: .* corpus; enc",
        ),
        (("gpt2", "flags"), "low éé", r"byte 4: .* 'éé', which is flagged lstrip and single_word: .* corpus; use a"),
        (("qwen2", "mixed"), "low", "the added token 'e\u0301x' is normalized: it has to be searched after"),
        (("gpt2", "rules"), "low", "the added token '<mask>' is normalized"),
        (("space in front", "plain"), "low", r"puts a space in front of text \(add_prefix_space\)"),
    ],
)
def test_what_a_corpus_does_not_follow_is_refused(made, text: str, message: str, tmp_path: Path) -> None:
    ours, file = pair(*made)[1], tmp_path / "a.txt"
    file.write_text(text)
    kind = InputError if made[1] == "flags" else UsageError
    for output in (tmp_path / "out", None):
        with pytest.raises(kind, match=message):
            bpe_pipeline.encode(file, ours, output, separator=EOT)
    if kind is UsageError:
        assert not list(tmp_path.glob("out/*"))


def test_flagged_tokens_are_text_and_a_separator_ends_its_document(tmp_path: Path) -> None:
    """White space behind the separator is of the next document; a document is what `Tokenizer.encode` makes of it."""
    ours, file = pair("gpt2", "flags")[1], tmp_path / "a.txt"
    texts = [f"ab {BOS} c", f"\n low  {BOS}", " x"]
    file.write_text(EOT.join(texts))
    encoded = bpe_pipeline.encode(file, ours, separator=EOT, special_tokens_in_text="text")
    assert [list(ids) for ids in encoded] == [[*ours.encode_ordinary(text), ours.special_tokens[EOT]] for text in texts]
    file.write_text(EOT.join(plain := ["ab ", " \n low  ", " x"]))
    encoded = bpe_pipeline.encode(file, ours, separator=EOT)
    assert [list(ids) for ids in encoded] == [ours.encode(f"{text}{EOT}") for text in plain]


def test_chunks_that_are_finished_stay(tmp_path: Path) -> None:
    ours, file = pair("gpt2", "flags")[1], tmp_path / "a.jsonl"
    lines = [json.dumps({"text": "low " * 300})] * 20
    file.write_text("\n".join([*lines, json.dumps({"text": f"low {BOS}"})]))
    settings = {"separator": EOT, "chunk_size": 2000, "workers": 1, "part": "1/1"}
    with pytest.raises(InputError, match=rf"byte {len(lines) * (len(lines[0]) + 1)}: the text contains the token"):
        bpe_pipeline.encode(file, ours, tmp_path / "out", **settings)
    assert len(list((tmp_path / "out/parts").glob("*.ids"))) >= 10
