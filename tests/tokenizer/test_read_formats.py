"""Files of other libraries: the ids of `tokenizers` and `tiktoken` themselves, on generated text, or a refusal."""

import base64
import hashlib
import json
import re
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import samples
import tiktoken
from amount import FULL
from command import refused, run, succeeded
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from published import (
    ADDED,
    BOS,
    COMBINING,
    DEEPSEEK,
    EOT,
    HARD,
    PLAIN,
    SHAPES,
    TEXTS,
    byte_level,
    isolated,
    made,
    pair,
)
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFaceTokenizer
from transformers import AutoTokenizer

import pipeline
from pipeline import Tokenizer
from pipeline.base.errors import ExportRefusedError, InputError, OtherKindError, PipelineError, UsageError
from pipeline.compat import GPT2Tokenizer
from pipeline.guests.inspect.doctor import examine
from pipeline.guests.inspect.findings import ADVICE, FINE, WRONG
from pipeline.merges.vocabulary import bytes_to_unicode
from pipeline.pattern.compiler import compile_pattern
from pipeline.pattern.normal_form import nfc
from pipeline.pattern.parse import first_difference
from pipeline.pattern.presets import PRESETS
from pipeline.tokenizer.formats import rank_lists
from pipeline.tokenizer.formats.export_formats import FORMATS
from pipeline.tokenizer.formats.fields import Field
from pipeline.tokenizer.formats.pre_tokenizer import _recovered
from pipeline.tokenizer.formats.rank_lists import model_of_ranks, read_ranks

BYTES = [*samples.tokens_by_id().values()]


def agree(theirs: HuggingFaceTokenizer, ours: Tokenizer, *texts: str) -> None:
    for text in texts:
        assert ours.encode(text) == theirs.encode(text).ids, repr(text)


def written(home: Path, document: Any) -> Path:
    """Write tokenizer.json."""
    (home / "tokenizer.json").write_text(json.dumps(document))
    return home


def theirs_of(home: Path) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer.from_file(str(home / "tokenizer.json"))


@settings(max_examples=40_000 if FULL else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SHAPES), st.sampled_from(list(ADDED)), TEXTS)
def test_generated_texts_have_the_ids_of_tokenizers(name: str, added: str, text: str) -> None:
    agree(*pair(name, added), text)


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


def test_encode_cut_checks_its_ends() -> None:
    encoder = pair("deepseek", "plain")[1].model.encoder()
    text = "a low 1 " * 400
    every = [id_ for one in text for id_ in encoder.encode_pieces([one])]
    assert encoder.encode_cut(text, list(range(1, len(text) + 1))) == every
    for wrong in ([0], [2, 1], [1, 1], [len(text) + 1]):
        with pytest.raises(ValueError, match="ends must rise"):
            encoder.encode_cut(text, wrong)


def test_nfc_is_that_of_tokenizers_on_every_kind_of_character() -> None:
    every = [one for one in map(chr, range(0x110000)) if unicodedata.category(one) != "Cs"]
    told = [one for one in every if unicodedata.category(one)[0] not in "LC" or unicodedata.decomposition(one)]
    around = "a@\u0301\u0316|@|\u0345@|@\u0334|\u1100@|@@|\U00011935@"
    text = "/".join(around.replace("@", one) for one in [*every[::16], *told])
    assert nfc(text) == normalizers.NFC().normalize_str(text)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from(COMBINING + "aeé\u1100가") | st.characters(exclude_categories=["Cs"]), max_size=12))
def test_nfc_is_that_of_tokenizers_on_generated_text(text: str) -> None:
    assert nfc(text) == normalizers.NFC().normalize_str(text)
    if unicodedata.is_normalized("NFC", text):
        assert nfc(text) == text


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Expressions built of what published tokenizers use."""
    classes = [
        r"\p{L}", r"\p{N}", r"\s", r"\S", r"\d", r"[^\s\p{L}]", "[a-f]", r"[\p{Lu}\-]", ".", "e", r"\.", " ?",
        "[一-龥é]", r"[!-/:-@&~]", r"[\r\n\t]", r"\x41", r"\u0301", "[^a-z-]", r"(?:e|eé)", "(a|b)", r"(?>\s+)",
        r"\p{^Lu}",
    ]  # fmt: skip
    counts = ["", "", "+", "*", "?", "++", "*+", "?+", "{1,3}", "{2}", "{2,}", "+?", "{1,2}?"]
    ends = ["", "", r"(?!\S)", r"(?=[a-z ])", r"(?!\p{N})"]
    counted = st.tuples(st.sampled_from(classes), st.sampled_from(counts))
    part = counted.map(lambda two: "(?: ?)?" if two[0] == " ?" else "".join(two))
    parts = st.lists(part, min_size=1, max_size=3).map("".join)
    branch = st.tuples(parts, st.sampled_from(ends)).map("".join)
    return "|".join(draw(st.lists(branch, min_size=1, max_size=3)))


def cut_by_tokenizers(expression: str, text: str) -> list[str]:
    return [piece for piece, _ in pre_tokenizers.Split(Regex(expression), "isolated").pre_tokenize_str(text)]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(expressions(), st.lists(TEXTS, min_size=3, max_size=5))
def test_accepted_expressions_cut_alike(expression: str, texts: list[str]) -> None:
    try:
        compiled = compile_pattern(expression)
    except PipelineError:
        return
    if compiled.tables is None or first_difference(expression):
        return
    # tiktoken shows no pieces; where any two neighbouring bytes make a token, ids tell them.
    whole = f"{expression}|[\\s\\S]"
    data = [text.encode() for text in texts]
    tokens = [*dict.fromkeys(BYTES + [one[at : at + 2] for one in data for at in range(len(one) - 1)])]
    table = {token: rank for rank, token in enumerate(tokens)}
    core = tiktoken.Encoding("x", pat_str=whole, mergeable_ranks=table, special_tokens={})
    ours = Tokenizer.from_model(model_of_ranks(Path("x"), dict(enumerate(tokens)), whole, {}))
    for text in texts:
        assert cut_by_tokenizers(expression, text) == compiled.cut(text)
        assert ours.encode_ordinary(text) == core.encode_ordinary(text)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([r"\s+$", r"a$|\$", r"\s+?$|[$a]", r"\n$", r"(?:a|\s)+$\n?", r"[^\]$]$|\s", r"a$\n|$a|\s{1,2}$"]),
    st.text("a \n\r$\t\v\u2028\x85é", max_size=12),
)
def test_line_ends_are_those_of_tokenizers(expression: str, text: str) -> None:
    assert first_difference(expression) is not None  # of which tiktoken's engine is another
    assert _recovered(expression, Field(None, Path("x"))).cut(text) == cut_by_tokenizers(expression, text)


@pytest.mark.parametrize(("expression", "reason"), [
    (r"\p{N}{1,3}+|\P{N}", "possessive counted"), (r"a{2}?|[^a]", "lazy exact"),
    (r"\s+$*|\S", r"a quantifier on a look-ahead"), (r"(?i:strasse)|\S", "a group with flags"),
    (r"\w+|\W", r"the escape \\w"), (r"\p{Letter}+|\P{L}", "the property Letter"),
    (r"\xe9|.", "an escaped byte"), (r"[\d-x]|.", "a '-' inside"), (r"x\Z|.", r"the escape \\Z"),
    (r"(?P<n>a)|.", "a group with flags"),
])  # fmt: skip
def test_expressions_that_may_differ_are_refused(expression: str, reason: str, tmp_path: Path) -> None:
    document = json.loads(made("gpt2", PLAIN).to_str())
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, json.loads(byte_level().__getstate__())]}
    with pytest.raises(InputError, match=reason):
        Tokenizer.load(written(tmp_path, document))
    with pytest.raises(UsageError, match=reason):
        Tokenizer.from_tiktoken_file(ranks(tmp_path, "gpt2"), pattern=expression)


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


@pytest.mark.parametrize(("shape", "token", "reason"), [
    ("gpt2", {"id": 500}, r"added_tokens\[0\].id is 500, but tokenizers assigns '<.begin.>' the id 416"),
    ("llama3", {"content": "Ġfoo"}, "whole piece could be"),
])  # fmt: skip
def test_added_tokens_that_are_not_reproduced_are_refused(shape: str, token: Any, reason: str, tmp_path: Path) -> None:
    document = json.loads(made(shape, PLAIN).to_str())
    document["model"]["vocab"].update({"Ġfoo": 416} if "content" in token else {})
    document["added_tokens"] = [document["added_tokens"][0] | token]
    with pytest.raises(InputError, match=reason):
        Tokenizer.load(written(tmp_path, document))


@pytest.mark.parametrize("named", [False, True])
def test_vocab_json_and_merges_txt(named: bool, tmp_path: Path) -> None:
    theirs = made("gpt2", PLAIN)
    files_of(tmp_path, vocab={BOS: 416, EOT: 417, EOT * 2: 418})
    if named:
        texts = {"bos_token": BOS, "eos_token": {"content": EOT, "lstrip": False}, "extra": [BOS, EOT * 2]}
        (tmp_path / "special_tokens_map.json").write_text(json.dumps(texts))
    ours = Tokenizer.load(tmp_path)
    assert ours.special_tokens == {BOS: 416, EOT: 417, EOT * 2: 418}
    agree(theirs, ours, *HARD)
    assert Tokenizer.load(tmp_path / "vocab.json").merges == ours.merges
    (tmp_path / "added_tokens.json").write_text('{"<y>": 500}')
    if not named:
        (tmp_path / "merges.txt").write_text("#version: 0.2\na b c\n")
    with pytest.raises(InputError, match="added_tokens.json adds" if named else "line 2 is not a pair"):
        Tokenizer.load(tmp_path)


MAPPED = {"bos_token": BOS, "eos_token": {"content": EOT, "lstrip": True}}
LISTED = [*PLAIN[:2], AddedToken("<think>", normalized=False, special=False), AddedToken("xe", rstrip=True)]
FIELDS = ("content", "lstrip", "rstrip", "single_word", "normalized", "special")
DECODER = {str(id_): {name: getattr(token, name) for name in FIELDS} for id_, token in enumerate(LISTED, 416)}
QWEN, GPT = {"tokenizer_class": "Qwen2TokenizerFast"}, {"tokenizer_class": "GPT2Tokenizer"}
TOKENS = {"added_tokens_decoder": DECODER}
OBJECT = {"__type": "AddedToken", "content": BOS, "normalized": False, "special": True}
CONFIGURED: dict[str, dict[str, Any]] = {  # name of a file -> what it says
    "qwen2": {"tokenizer_config": QWEN | TOKENS | {"eos_token": EOT}},
    "qwen2 without tokens": {"tokenizer_config": QWEN | {"extra_special_tokens": ["<q>"]}},
    "qwen2, bos": {"tokenizer_config": QWEN | {"bos_token": BOS, "add_bos_token": True}},
    "qwen2, bos as an object": {"tokenizer_config": QWEN | {"bos_token": OBJECT, "add_bos_token": True}},
    "qwen2 by its model": {"config": {"model_type": "qwen2"}, "tokenizer_config": TOKENS},
    "gpt2": {"tokenizer_config": GPT | TOKENS},
    "gpt2, a space": {"tokenizer_config": GPT | {"add_prefix_space": True}},
    "gpt2, mapped": {"tokenizer_config": GPT, "special_tokens_map": MAPPED},
}


def files_of(directory: Path, configuration: dict[str, Any] | None = None, vocab: dict[str, int] | None = None) -> None:
    """Write merges.txt, vocab.json with more tokens, and what configures them."""
    made("gpt2", []).model.save(str(directory))
    listed = json.loads((directory / "vocab.json").read_text(encoding="utf-8")) | (vocab or {})
    for name, document in {"vocab": listed, **(configuration or {})}.items():
        (directory / f"{name}.json").write_text(json.dumps(document))


@pytest.mark.parametrize("name", CONFIGURED)
def test_vocab_json_is_read_as_its_configuration_says(name: str, tmp_path: Path) -> None:
    files_of(tmp_path, CONFIGURED[name])
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True), Tokenizer.load(tmp_path)
    assert (ours.model.eos_token, len(ours)) == (theirs.eos_token, len(theirs))
    for text in [*HARD, "xe  <q> <|endoftext|> low"]:
        assert ours.encode(text) == theirs.encode(text), text
    said = [one for one in examine(tmp_path, [], None) if one.because.startswith("vocab.json, merges.txt with trans")]
    assert [one.outcome for one in said] == [FINE]


OTHER = " is .*, but .* GPT2Tokenizer or Qwen2Tokenizer"


@pytest.mark.parametrize(("name", "document", "reason"), [
    ("tokenizer_config", {"tokenizer_class": "BartTokenizer"}, f"tokenizer_class{OTHER}"),
    ("tokenizer_config", {"tokenizer_class": "PreTrainedTokenizerFast"}, f"tokenizer_class{OTHER}"),
    ("config", {"model_type": "roberta"}, f"model_type{OTHER}"),
    ("tokenizer_config", GPT | {"auto_map": {"AutoTokenizer": ["a.A", None]}}, f"auto_map{OTHER}"),
    ("tokenizer_config", TOKENS, f"added_tokens_decoder{OTHER}"),
    ("tokenizer_config", GPT | {"added_tokens_decoder": {"x": {}}}, "added_tokens_decoder.x is not a token id"),
    ("special_tokens_map", MAPPED | {"pad_token": EOT}, f"pad_token names '{re.escape(EOT)}' with other rules"),
])  # fmt: skip
def test_files_around_vocab_json_that_do_not_fit_are_refused(name, document, reason, tmp_path):
    files_of(tmp_path, {name: document})
    with pytest.raises(InputError, match=rf"{name}\.json: {reason}"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(("extra", "named", "reason"), [
    ({"é€": 416}, [], "not written in the byte alphabet: if it is special, name it so"),
    ({"!!": 0}, [], "assigns the id 0 to '!!' and to another token"),
    ({"!!": 0}, None, "the special token '!!' has id 0, which another token has too"),
    ({}, ["<s>"], "lacks the special token '<s>'"),
])  # fmt: skip
def test_contradictions_in_vocab_json_are_refused(extra: Any, named: Any, reason: str, tmp_path: Path) -> None:
    files_of(tmp_path, vocab=extra)
    with pytest.raises(InputError, match=reason):
        GPT2Tokenizer(tmp_path, special_tokens=named)


def ranks(directory: Path, pattern: str, tokens: list[bytes] | None = None) -> Path:
    """A rank file of the merges trained for a pattern, or of other tokens after the bytes."""
    listed = BYTES + ([a + b for a, b in samples.trained(pattern)] if tokens is None else tokens)
    path = directory / "x.tiktoken"
    path.write_bytes(b"".join(b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(listed)))
    return path


def encoding(path: Path, pattern: str, special_tokens: dict[str, int]) -> tiktoken.Encoding:
    lines = [line.split() for line in path.read_bytes().splitlines()]
    table = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=table, special_tokens=special_tokens)


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "o200k", "qwen2", DEEPSEEK[2] + r"|[\s\S]"])
def test_rank_files_have_the_ids_of_tiktoken(pattern: str, tmp_path: Path) -> None:
    path = ranks(tmp_path, pattern)
    specials = {BOS: 500, EOT: 501}
    expression = PRESETS[pattern].expression if pattern in PRESETS else pattern
    theirs = encoding(path, expression, specials)
    for spelled in {pattern, expression}:
        ours = Tokenizer.from_tiktoken_file(path, pattern=spelled, special_tokens=specials)
        for text in HARD:
            assert ours.encode(text) == theirs.encode(text, allowed_special="all")
            assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)


def test_rank_file_is_exported_for_hugging_face(tmp_path: Path) -> None:
    path = ranks(tmp_path, "", [a + b for a, b in samples.trained("llama3")] + [b"lowest", b" \n x"])
    ours = Tokenizer.from_tiktoken_file(path, pattern="llama3", special_tokens={BOS: 500})
    ours.save(tmp_path)
    texts = [*HARD, "lowest lowests lowest"]
    agree(theirs_of(tmp_path), ours, *texts)
    core = encoding(path, PRESETS["llama3"].expression, {BOS: 500})
    assert [core.encode(text, allowed_special="all") for text in texts] == [ours.encode(text) for text in texts]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.lists(st.text("ab", min_size=2, max_size=6), unique=True, max_size=14).flatmap(st.permutations),
       texts=st.lists(st.text("ab c", max_size=40), min_size=1, max_size=6))  # fmt: skip
def test_any_ranks_have_the_ids_of_tiktoken(tokens: list[str], texts: list[str], tmp_path: Path) -> None:
    path = ranks(tmp_path, "", [token.encode() for token in tokens])
    theirs, ours = encoding(path, r"\S+|\s", {}), Tokenizer.from_tiktoken_file(path, pattern=r"\S+|\s")
    for text in [*texts, *(text * 30 for text in texts)]:
        assert ours.encode(text) == theirs.encode(text)


@pytest.mark.parametrize(("content", "reason"), [
    (b"IQ== 0\nIQ== 1\n", "both stand for"), (b"IQ==\n", "line 1 is not a token"), (b"I 0\n", "line 1 is not a token"),
    (b"IQ== -1\n", "no new whole number"), (b"IQ== 0\nIg== 0\n", "line 2 has the rank '0'"),
    (b"IQ== 0\nIg== 5000000000\n", "line 2 has the rank 5000000000, above 268435455"),
    (b"IQ== 0\n", "no token stands for the byte"),
    (base64.b64encode(b"a" * 20_000) + b" 0\n", "the token of rank 0 has more than"),
])  # fmt: skip
def test_damaged_rank_files_are_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    with pytest.raises(InputError, match="does not exist"):
        Tokenizer.from_tiktoken_file(path, pattern="gpt2")
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        Tokenizer.from_tiktoken_file(path, pattern="gpt2")
    with pytest.raises(InputError, match="from_tiktoken_file"):
        Tokenizer.load(path)


def test_known_rank_files_need_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ranks(tmp_path, "qwen2")
    data = file.read_bytes()
    special = {"500": [BOS, ["<extra {}>", 3, 5]], "600": [EOT]}
    known = {"pattern": "qwen2", "nfc": True, "roles": {"bos": BOS, "eos": EOT}, "special_tokens": special}
    monkeypatch.setattr(rank_lists, "_known", lambda: {hashlib.sha256(data).hexdigest(): known})
    theirs = encoding(file, PRESETS["qwen2"].expression, {BOS: 500, "<extra 3>": 501, "<extra 4>": 502, EOT: 600})
    for name in ("tokenizer.model", "x.tiktoken"):
        home = tmp_path / name.replace(".", "-")
        home.mkdir()
        (home / name).write_bytes(data)
        for path in (home, home / name):
            ours = Tokenizer.load(path)
            assert (ours.bos_token_id, ours.eos_token_id) == (500, 600)
            for text in HARD:
                assert ours.encode(text) == theirs.encode(nfc(text), allowed_special="all")
    (home / "second.tiktoken").write_bytes(data)
    with pytest.raises(InputError, match=r"of second.tiktoken, x.tiktoken name one"):
        Tokenizer.load(home)
    (home / name).write_bytes(data + b"\n")  # other content
    with pytest.raises(InputError, match=r"none of those known here: `bpe-pipeline export .* in Python"):
        Tokenizer.load(home / name)
    words = ("export", home / name, "--pattern", "qwen2", "--output", tmp_path / "made")
    assert f"name them in order of ids, from {len(read_ranks(home / name))} on" in refused(run(*words), 2)
    succeeded(run(*words, "--special-token", BOS, "--special-token", EOT))
    made, first = Tokenizer.load(tmp_path / "made"), len(read_ranks(home / name))
    assert made.special_tokens == {BOS: first, EOT: first + 1}
    assert [made.encode_ordinary(text) for text in HARD] == [theirs.encode_ordinary(text) for text in HARD]


@pytest.mark.parametrize("named", [True, False])
def test_tekken_has_the_ids_of_tiktoken(named: bool, tmp_path: Path) -> None:
    file, pattern = ranks(tmp_path, "o200k"), r"\p{N}|[^\s\p{N}]+|\s+(?!\S)|\s+"
    lines = [line.split() for line in file.read_text().splitlines()]
    vocab = [{"rank": int(rank), "token_bytes": token} for token, rank in lines]
    size = len(vocab) - 20 + 30  # the last ranks are left out
    sizes = {"default_vocab_size": size, "default_num_special_tokens": 30}
    document: dict[str, Any] = {"config": {"pattern": pattern, **sizes}, "vocab": vocab}
    if named:
        document["special_tokens"] = [{"rank": 0, "token_str": BOS}, {"rank": 1, "token_str": "</s>"}]
    tekken = tmp_path / "tekken.json"
    tekken.write_text(json.dumps(document))
    ours, first = Tokenizer.load(tekken), BOS if named else "<unk>"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[: size - 30]))
    theirs = encoding(file, pattern, {})
    for text in HARD:
        assert ours.encode_ordinary(text) == [id_ + 30 for id_ in theirs.encode_ordinary(text)]
    assert (ours.vocab_size, ours.special_tokens[first], ours.special_tokens["<SPECIAL_29>"]) == (size, 0, 29)
    assert ours.id_to_token(ours.eos_token_id or 0) == "</s>"
    config, other = document["config"], {"rank": 1, "token_bytes": "IQ=="}
    for changed, reason in (
        ({"config": config | {"default_vocab_size": 10_000}}, "asks for 10,000 ids"),
        ({"config": config | {"pattern": 5}}, "config.pattern"),
        ({"vocab": [{"rank": 0}, *vocab[1:]]}, "no token_bytes"),
        ({"vocab": [other, *vocab[1:]]}, "has the rank 1, not 0"),
    ):
        tekken.write_text(json.dumps(document | changed))
        with pytest.raises(InputError, match=reason):
            Tokenizer.load(tekken)


BPE: dict[str, Any] = {"type": "BPE", "vocab": {}, "merges": []}
REPLACED = {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}


@pytest.mark.parametrize(("parts", "kind"), [
    ({"model": {"type": "WordPiece"}}, "a WordPiece tokenizer, as BERT's"),
    ({"model": {"type": "Unigram"}}, "a Unigram tokenizer of SentencePiece, as T5's"),
    ({"model": {"type": "WordLevel"}}, "a vocabulary of whole words"),
    ({"model": {"unk_id": 2}}, "a Unigram tokenizer .*, as T5's"),
    ({"model": {"max_input_chars_per_word": 9}}, "a WordPiece tokenizer"),
    ({"model": {**BPE, "end_of_word_suffix": "</w>"}}, "a BPE tokenizer that marks where words end, as CLIP's"),
    ({"model": {**BPE, "byte_fallback": True}}, "a SentencePiece-style BPE tokenizer"),
    ({"model": BPE, "normalizer": REPLACED}, "a SentencePiece-style BPE tokenizer"),
    ({"model": BPE, "normalizer": {"type": "NFKC"}, "decoder": {"type": "ByteLevel"}}, "changes its text .NFKC."),
])  # fmt: skip
def test_other_kinds_are_named(parts: dict[str, Any], kind: str, tmp_path: Path) -> None:
    with pytest.raises(OtherKindError, match=f"tokenizer.json is .*{kind}.*, which no command reads"):
        Tokenizer.load(written(tmp_path, {"version": "1.0", **parts}))


def test_deepseek_is_the_preset_in_any_spelling(tmp_path: Path) -> None:
    theirs, ours = pair("deepseek", "plain")
    assert (ours.pattern.name, pair("coder", "plain")[1].pattern.name) == ("deepseek-v3", None)
    document = json.loads(theirs.to_str())
    for step in document["pre_tokenizer"]["pretokenizers"][:3]:
        step["pattern"]["Regex"] = step["pattern"]["Regex"].replace(r"\r", "\r").replace(r"\n", "\n")
    assert Tokenizer.load(written(tmp_path, document)).pattern.name == "deepseek-v3"


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


def test_differences_from_tiktoken_are_refused(tmp_path: Path) -> None:
    path = ranks(tmp_path, "gpt2")
    with pytest.raises(InputError, match="'<a' begins '<a>'"):
        Tokenizer.from_tiktoken_file(path, pattern="gpt2", special_tokens={"<a>": 500, "<a": 501})
    for specials in ({"<a>": 300.0}, {"<a>": True}, {5: 300}):
        with pytest.raises(UsageError, match="give texts with whole numbers"):
            Tokenizer.from_tiktoken_file(path, pattern="gpt2", special_tokens=specials)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not match every text"):
        Tokenizer.from_tiktoken_file(path, pattern=r"\p{L}+")
    assert set(bytes_to_unicode()) == set(range(256))


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
    ("model.unk_token", BOS),
    ("model.unk_token", "no token"),
    ("model.fuse_unk", True),
    ("model.byte_fallback", True),
    ("model.continuing_subword_prefix", ""),
    ("model.end_of_word_suffix", ""),
    ("decoder", None),
    ("decoder", {"type": "Sequence", "decoders": [BYTE_LEVEL]}),
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


def without_alphabet(text: str, pre_tokenizer: Any, **of_model: Any) -> HuggingFaceTokenizer:
    """Train as a course does that names no alphabet to start from: bytes that the text lacks have no token."""
    theirs = HuggingFaceTokenizer(models.BPE(**of_model))
    theirs.pre_tokenizer, theirs.decoder = pre_tokenizer, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>", EOT], show_progress=False)
    theirs.train_from_iterator([text], trainer)
    return theirs


LACKING = st.lists(st.one_of(st.sampled_from(["<unk>", EOT, "ab", "low "]), st.text("abé Z世", max_size=9)), max_size=9)


@settings(max_examples=4_000 if FULL else 60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.text("abé low", min_size=9, max_size=60),
    st.sampled_from(["gpt2", "deepseek", "none"]),
    st.sampled_from([None, "<unk>"]),
    st.booleans(),
    st.booleans(),
    st.lists(LACKING.map("".join), max_size=9),
)
@example("abababab low low", "none", None, False, False, ["ab low aZb lZow ab low", "ab low " + "aZb" * 99])  # in parts
@example("abababab low low", "none", "<unk>", True, False, ["ab low aZb lZZow ab low"])
def test_bytes_without_a_token_become_what_tokenizers_makes_of_them(
    trained: str, cut: str, unk: str | None, fuse: bool, whole: bool, texts: list[str]
) -> None:
    stages = {"gpt2": [byte_level(use_regex=True)], "none": [byte_level()]}
    stage = pre_tokenizers.Sequence(stages.get(cut) or [*isolated(*DEEPSEEK), byte_level()])
    theirs = without_alphabet(trained, stage, unk_token=unk, fuse_unk=fuse, ignore_merges=whole)
    with tempfile.TemporaryDirectory() as home:
        theirs.save(f"{home}/tokenizer.json")
        ours = Tokenizer.load(home)
        expected = [one.ids for one in theirs.encode_batch(texts)]
        assert ours.encode_batch(texts) == [ours.encode(text) for text in texts] == expected
        assert [ours.count_tokens(text) for text in texts] == [*map(len, expected)]
        assert [[*ours.encode_iterable([text])] for text in texts] == expected
        ours.save(f"{home}/again")
        agree(theirs, Tokenizer.load(f"{home}/again"), *texts)
        agree(theirs_of(Path(home, "again")), ours, *texts)


@pytest.mark.parametrize(("unk", "said"), [(None, "is left out"), ("<unk>", "becomes '<unk>'")])
def test_commands_take_a_vocabulary_that_lacks_bytes(unk: str | None, said: str, tmp_path: Path) -> None:
    theirs = without_alphabet("the low slow lower lowest ab ab " * 9, byte_level(use_regex=True), unk_token=unk)
    theirs.save(str(tmp_path / "tokenizer.json"))
    text = "the quick lowest\nslow lows, slow lows and slow lows\n" * 3
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": EOT}))
    encoded = run("encode", tmp_path / "a.txt", "--tokenizer", tmp_path, "-o", tmp_path / "shards")
    assert f"{said}, as in tokenizers" in succeeded(encoded).stderr
    rows = [int(one) for one in np.load(next((tmp_path / "shards").glob("*.npy")))]
    assert rows[:-1] == theirs.encode(text).ids
    succeeded(run("count", tmp_path / "a.txt", "--like", tmp_path, "-o", tmp_path / "counts"))
    grown = pipeline.extend(tmp_path, tmp_path / "counts", add=2, output=tmp_path / "grown")
    assert grown.before == len(rows) - 1
    pruned = pipeline.prune(tmp_path, tmp_path / "counts", keep=22, output=tmp_path / "pruned")
    for home, changed in ((tmp_path / "grown", grown), (tmp_path / "pruned", pruned)):
        assert len(theirs_of(home).encode(text).ids) == changed.after
        agree(theirs_of(home), changed.tokenizer, text, *HARD)
    found = {one.outcome: one.because for one in examine(tmp_path, [text], None) if "no token stands" in one.because}
    assert said in found[ADVICE]
    assert not [one for one in examine(tmp_path, [text], None) if one.outcome == WRONG]


def test_only_a_text_is_refused_whose_bytes_no_library_encodes(tmp_path: Path) -> None:
    theirs = without_alphabet("a low ab", byte_level(use_regex=True), unk_token="[UNK]")
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path)
    agree(theirs, ours, "low ab")
    with pytest.raises(Exception, match="not found in the vocabulary"):
        theirs.encode("low Z")
    with pytest.raises(InputError, match="no token stands for the byte 0x5A"):
        ours.encode("low Z")
    (tmp_path / "a.txt").write_text("low Z")
    said = refused(run("encode", tmp_path / "a.txt", "--tokenizer", tmp_path, "-o", tmp_path / "shards"), 1)
    assert "no token stands for the byte 0x5A" in said


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
