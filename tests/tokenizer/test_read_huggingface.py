"""tokenizer.json of other trainers: the ids of `tokenizers` itself, on generated text, or a refusal."""

import json
from pathlib import Path
from typing import Any

import pytest
import samples
from amount import FULL
from command import run
from foreign_files import agree, theirs_of, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published import (
    ADDED,
    BOS,
    EOT,
    HARD,
    PLAIN,
    SHAPES,
    TEXTS,
    made,
    pair,
)
from tokenizers import AddedToken

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import ExportRefusedError, InputError, OtherKindError
from bpe_pipeline.extensions.inspect.doctor import examine
from bpe_pipeline.extensions.inspect.findings import WRONG
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS


@settings(max_examples=40_000 if FULL else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SHAPES), st.sampled_from(list(ADDED)), TEXTS)
def test_generated_texts_have_the_ids_of_tokenizers(name: str, added: str, text: str) -> None:
    agree(*pair(name, added), text)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("name", SHAPES)
def test_ids_are_those_of_tokenizers_also_after_saving(name: str, added: str, tmp_path: Path) -> None:
    theirs, ours = pair(name, added)
    agree(theirs, ours, *HARD)
    if (name, added) == ("llama3", "rules"):
        with pytest.raises(ExportRefusedError, match="cannot hold the special token 'thx'"):
            ours.save(tmp_path)
        return
    ours.save(tmp_path)
    agree(theirs_of(tmp_path), ours, *HARD)
    again = Tokenizer.load(tmp_path)
    agree(theirs, again, *HARD)
    assert again.pattern.expression == ours.pattern.expression  # so that counts of the one are counts of the other


def test_vocabulary_with_gaps_in_its_ids(tmp_path: Path) -> None:
    document = json.loads(made("gpt2", []).to_str())
    vocab = document["model"]["vocab"]
    vocab.update({text: id_ + 1000 for text, id_ in vocab.items() if id_ >= 300})
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    for text, id_ in ((BOS, 700), (EOT, 2000)):
        vocab[text] = id_
        document["added_tokens"].append({"id": id_, "content": text, **plain})
    ours = Tokenizer.load(written(tmp_path, document))
    agree(theirs_of(tmp_path), ours, *HARD)
    document["added_tokens"].append({"id": 418, "content": "<x>", **plain})  # as this version of tokenizers numbers it
    with pytest.raises(InputError, match="the id 418, or 2001"):
        Tokenizer.load(written(tmp_path, document))


@pytest.mark.parametrize(
    ("shape", "token", "reason"),
    [
        ("gpt2", {"id": 500}, r"added_tokens\[0\].id is 500, but tokenizers assigns '<.begin.>' the id 416"),
        ("llama3", {"content": "Ġfoo"}, "whole pre-token could be"),
    ],
)
def test_added_tokens_that_are_not_reproduced_are_refused(shape: str, token: Any, reason: str, tmp_path: Path) -> None:
    document = json.loads(made(shape, PLAIN).to_str())
    document["model"]["vocab"].update({"Ġfoo": 416} if "content" in token else {})
    document["added_tokens"] = [document["added_tokens"][0] | token]
    with pytest.raises(InputError, match=reason):
        Tokenizer.load(written(tmp_path, document))


BPE: dict[str, Any] = {"type": "BPE", "vocab": {}, "merges": []}
REPLACED = {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"model": {"type": "WordPiece"}}, "a WordPiece tokenizer, as BERT's"),
        ({"model": {"type": "Unigram"}}, "a Unigram tokenizer of SentencePiece, as T5's"),
        ({"model": {"type": "WordLevel"}}, "a vocabulary of whole words"),
        ({"model": {"unk_id": 2}}, "a Unigram tokenizer .*, as T5's"),
        ({"model": {**BPE, "end_of_word_suffix": "</w>"}}, "a BPE tokenizer that marks where words end, as CLIP's"),
        ({"model": {**BPE, "byte_fallback": True}}, "a SentencePiece-style BPE tokenizer"),
        ({"model": BPE, "normalizer": REPLACED}, "a SentencePiece-style BPE tokenizer"),
        ({"model": BPE, "normalizer": {"type": "NFKC"}, "decoder": {"type": "ByteLevel"}}, "with the normalizer NFKC"),
    ],
)
def test_other_kinds_are_named(parts: dict[str, Any], kind: str, tmp_path: Path) -> None:
    with pytest.raises(OtherKindError, match=f"tokenizer.json is .*{kind}.*, which no command reads"):
        Tokenizer.load(written(tmp_path, {"version": "1.0", **parts}))


def test_whisper_lists_an_empty_token(tmp_path: Path) -> None:
    theirs, ours = pair("gpt2", "plain")
    document = json.loads(theirs.to_str())
    vocab, added = document["model"]["vocab"], document["added_tokens"]
    vocab[""] = len(vocab)
    del document["model"]["type"]  # as in the oldest files
    for token in added:
        token["id"] += 1
    assert Tokenizer.load(written(tmp_path, document)).vocab_size == ours.vocab_size
    agree(theirs_of(tmp_path), Tokenizer.load(tmp_path), *HARD)


@pytest.mark.parametrize("special", ["\n", " ", "\t", "a ", "日"])
def test_special_tokens_of_bytes_that_are_a_token_too(special: str, tmp_path: Path) -> None:
    """As text the file has them once: the token of the same bytes is in other letters."""
    bytes_of = [bytes([byte]) for byte in special.encode()]
    merges = [(b"".join(bytes_of[:size]), bytes_of[size]) for size in range(1, len(bytes_of))]
    ours = Tokenizer.from_merges(merges, [special])
    ours.save(tmp_path)
    text = f"a b\n\tlow 日 {special}x"
    agree(theirs_of(tmp_path), ours, text)
    assert Tokenizer.load(tmp_path).encode(text) == ours.encode(text)


def test_added_tokens_that_are_ordinary_ones_too(tmp_path: Path) -> None:
    """Found first in text, while merges still make and use the ordinary token: one id, two ways to it."""
    base = samples.tokenizer()
    theirs = base.to_tokenizers()
    theirs.add_tokens([AddedToken("int", special=False), AddedToken("his", single_word=True), AddedToken("a")])
    theirs.add_special_tokens([AddedToken("er")])
    ours = Tokenizer.load(written(tmp_path, json.loads(theirs.to_str())))
    assert ours.special_tokens["int"] == base.encode("int")[0]
    assert len(ours) == theirs.get_vocab_size() == len(base) + (theirs.token_to_id("er") >= len(base))
    texts = ["int print his this int<|endoftext|>his er a b", *samples.HARD_TEXTS, *samples.all_planes(1, 30)]
    agree(theirs, ours, *texts)
    agree(ours.to_tokenizers(), ours, *texts)
    assert run("export", tmp_path, "--output", tmp_path / "e", "--export", "hf", "--eos-token", "<new>").returncode == 0
    for text in texts:
        expected = ours.encode(text)
        assert list(ours.encode_iterable([text[:3], text[3:]])) == expected
        assert ours.decode(expected, skip_special_tokens=True) == theirs.decode(expected)
    with pytest.raises(ExportRefusedError, match=r"both ordinary and special|rules"):
        FORMATS["gpt2"].write(ours.model, tmp_path)
    with pytest.raises(ExportRefusedError):
        ours.to_tiktoken()


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PADDING = {"strategy": {"Fixed": 99}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 416, "pad_type_id": 0}
WITHOUT_EFFECT: list[tuple[str, Any]] = [
    ("truncation", {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}),
    ("padding", PADDING | {"pad_token": BOS}),
    ("model.dropout", 0.0),
    ("model.unk_token", "no token"),
    ("model.fuse_unk", True),
    ("model.byte_fallback", True),
    ("model.continuing_subword_prefix", ""),
    ("model.end_of_word_suffix", ""),
    ("decoder", None),
    ("decoder", {"type": "Sequence", "decoders": [{"type": "Sequence", "decoders": [BYTE_LEVEL]}, {"type": "Fuse"}]}),
    ("normalizer", {"type": "Strip", "strip_left": False, "strip_right": False}),
    ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": [BYTE_LEVEL]}]}),
    ("post_processor", {"type": "Sequence", "processors": []}),
]


def test_a_file_without_a_version_is_read(tmp_path: Path) -> None:
    document = json.loads(made("gpt2", PLAIN).to_str())
    del document["version"]
    agree(theirs_of(written(tmp_path, document)), Tokenizer.load(tmp_path), *HARD)


@pytest.mark.parametrize(("path", "value"), WITHOUT_EFFECT)
def test_fields_that_change_no_id_are_no_reason_to_refuse(path: str, value: Any, tmp_path: Path) -> None:
    document = json.loads(made("gpt2", PLAIN).to_str())
    part, _, name = path.rpartition(".")
    (document[part] if part else document)[name] = value
    theirs = theirs_of(written(tmp_path, document))
    theirs.no_truncation()
    theirs.no_padding()
    agree(theirs, ours := Tokenizer.load(tmp_path), *HARD)
    agree(ours.to_tokenizers(), ours, *HARD)
    assert not [one for one in examine(tmp_path, [], None) if one.outcome == WRONG]
    ours.save(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "tokenizer.json").read_text())
    kept = (again[part] if part else again)[name]
    assert kept == value or name in ("decoder", "normalizer", "pre_tokenizer", "post_processor")  # in our spelling


def test_an_added_token_may_be_an_ordinary_one_in_the_byte_alphabet(tmp_path: Path) -> None:
    vocab = made("gpt2", []).get_vocab()
    text = max((token for token in vocab if token.startswith("Ġ")), key=len)
    theirs = made("gpt2", [AddedToken(text, normalized=False), AddedToken("é", normalized=False), *PLAIN])
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours, hard = Tokenizer.load(tmp_path), [*HARD, text, text.replace("Ġ", " "), f"x{text}y é \u00e9"]
    agree(theirs, ours, *hard)
    ours.save(tmp_path / "again")
    agree(theirs_of(tmp_path / "again"), ours, *hard)
    for one in hard:
        assert ours.decode(ours.encode(one)) == theirs.decode(theirs.encode(one).ids, skip_special_tokens=False)


def test_ids_of_a_gap_are_no_text_and_others_are_refused(tmp_path: Path) -> None:
    document = json.loads(made("gpt2", []).to_str())
    last = max(document["model"]["vocab"].values())
    for token in [text for text, id_ in document["model"]["vocab"].items() if id_ > last - 2]:
        document["model"]["vocab"][token] += 5
    theirs, ours = theirs_of(written(tmp_path, document)), Tokenizer.load(tmp_path)
    ids = [last + 5, last + 4, last + 3, last - 2, 65]
    assert ours.decode(ids) == "".join(ours.decode_stream(ids)) == theirs.decode(ids) != ""
    for wrong in (last + 6, -1):
        with pytest.raises(InputError, match=f"{wrong} is not an id of this vocabulary, .* have ids up to {last + 5}"):
            ours.decode([65, wrong])
