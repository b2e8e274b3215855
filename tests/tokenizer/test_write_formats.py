"""Exported files in the runtimes they are for: the same ids everywhere, the same bytes every time, or a refusal."""

import functools
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import samples
import tiktoken
from command import run
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers.models import BPE

from pipeline import Tokenizer
from pipeline.base.errors import ExportRefusedError, InputError
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern import PRESETS
from pipeline.run.ids import BYTE_ORDER
from pipeline.tokenizer.formats.save import EXPORTS, default_formats

EOT, PAD = "<|endoftext|>", "<|pad|>"
SPECIALS = [EOT, "<|a b|>", "[x\n]"]
TEXTS = [
    *samples.HARD_TEXTS, *samples.all_planes(11, 300), f"a {EOT} b{EOT}{EOT}\n\n<|a b|>  [x\n]<|a b|",
    f"{EOT}", f"  {PAD} x",
]  # fmt: skip


@functools.cache
def tokenizer(pattern: str = "gpt2", **options: Any) -> Tokenizer:
    return Tokenizer.from_merges(samples.trained(pattern), SPECIALS, pattern=pattern, **options)


def exported(name: str, ours: Tokenizer, directory: Path) -> Path:
    paths = EXPORTS[name](ours.model, directory)
    assert sorted(paths) == sorted(directory.iterdir())
    return directory


def tiktoken_encoding(directory: Path) -> tiktoken.Encoding:
    encoding = runpy.run_path(str(directory / "tiktoken_encoding.py"))["encoding"]
    assert isinstance(encoding, tiktoken.Encoding)
    return encoding


@pytest.mark.parametrize("options", [{}, {"special_ids": "first", "pad_token": PAD}], ids=["last", "first"])
@pytest.mark.parametrize("pattern", samples.PATTERNS)
def test_tokenizers_has_our_ids(pattern: str, options: dict[str, Any], tmp_path: Path) -> None:
    ours = tokenizer(pattern, **options)
    theirs = HuggingFaceTokenizer.from_file(str(exported("hf", ours, tmp_path) / "tokenizer.json"))
    assert theirs.get_vocab_size() == ours.vocab_size
    for text in TEXTS:
        ids = ours.encode(text)
        assert theirs.encode(text).ids == ids
        assert theirs.decode(ids, skip_special_tokens=False) == ours.decode(ids) == text


@pytest.mark.parametrize("pattern", samples.PATTERNS)
def test_tokenizers_would_write_the_same_file(pattern: str, tmp_path: Path) -> None:
    for options in ({}, {"special_ids": "first"}):
        path = exported("hf", tokenizer(pattern, **options), tmp_path) / "tokenizer.json"
        text = path.read_text(encoding="utf-8")
        assert HuggingFaceTokenizer.from_file(str(path)).to_str(pretty=True) == text


def test_vocabulary_without_merges_or_special_tokens(tmp_path: Path) -> None:
    ours = Tokenizer.from_merges([], pattern="gpt2")
    for name in ("hf", "gpt2", "tiktoken"):
        EXPORTS[name](ours.model, tmp_path)
    path = tmp_path / "tokenizer.json"
    assert HuggingFaceTokenizer.from_file(str(path)).to_str(pretty=True) == path.read_text(encoding="utf-8")
    assert tiktoken_encoding(tmp_path).encode("añb") == ours.encode("añb") == Tokenizer.load(path).encode("añb")
    assert json.loads((tmp_path / "special_tokens_map.json").read_text()) == {}


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "none"])
def test_transformers_has_our_ids(pattern: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = tokenizer(pattern, pad_token=PAD)
    theirs = AutoTokenizer.from_pretrained(exported("hf", ours, tmp_path))
    assert (theirs.eos_token, theirs.eos_token_id) == (EOT, ours.special_tokens[EOT])
    assert (theirs.pad_token, theirs.pad_token_id) == (PAD, ours.special_tokens[PAD])
    assert len(theirs) == ours.vocab_size
    for text in [*TEXTS, " . a , b 's n't do n't !"]:
        ids = ours.encode(text)
        assert theirs.encode(text) == ids
        assert theirs.decode(ids) == text
    assert theirs.decode(ours.encode(f"a{EOT}b{PAD}"), skip_special_tokens=True) == "ab"
    saved = tmp_path / "saved"
    theirs.save_pretrained(saved)
    assert Tokenizer.load(saved).encode(TEXTS[-3]) == ours.encode(TEXTS[-3])


@pytest.mark.parametrize("pattern", samples.PATTERNS)
def test_tiktoken_has_our_ids(pattern: str, tmp_path: Path) -> None:
    ours = tokenizer(pattern, pad_token=PAD)
    theirs = tiktoken_encoding(exported("tiktoken", ours, tmp_path))
    assert theirs.n_vocab == ours.vocab_size
    assert (theirs.special_tokens_set, theirs.eot_token) == (set(ours.special_tokens), ours.special_tokens[EOT])
    for text in TEXTS:
        ids = ours.encode(text)
        assert theirs.encode(text, allowed_special="all") == ids
        assert theirs.encode_ordinary(text) == ours.encode_ordinary(text)
        assert theirs.decode(ids) == text


def test_gpt2_files_have_our_ids(tmp_path: Path) -> None:
    from transformers import GPT2TokenizerFast

    ours = tokenizer(pad_token=PAD)
    directory = exported("gpt2", ours, tmp_path)
    assert (directory / "merges.txt").read_text(encoding="utf-8").startswith("#version: 0.2\n")
    vocab, merges = BPE.read_file(str(directory / "vocab.json"), str(directory / "merges.txt"))
    assert len(vocab) == ours.vocab_size
    assert len(merges) == len(ours.merges)
    theirs = GPT2TokenizerFast(vocab=vocab, merges=merges, unk_token=EOT, bos_token=EOT, eos_token=EOT)
    theirs.add_special_tokens({"additional_special_tokens": ["<|a b|>", "[x\n]", PAD]})
    for text in TEXTS:
        assert theirs.encode(text) == ours.encode(text)


@pytest.mark.parametrize("pattern", [*samples.PATTERNS, r"\p{L}+|\S|\s++$|\s"])
@pytest.mark.parametrize("options", [{}, {"special_ids": "first", "pad_token": PAD}], ids=["last", "first"])
def test_load_restores_the_saved_tokenizer(pattern: str, options: dict[str, Any], tmp_path: Path) -> None:
    ours = tokenizer(pattern, **options)
    ours.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.model.vocabulary == ours.model.vocabulary
    assert loaded.model.pad_token == ours.model.pad_token
    assert loaded.pattern.name == ours.pattern.name
    assert [loaded.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]
    again = tmp_path / "again"
    loaded.save(again)
    for path in sorted(again.iterdir()):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_simple_patterns_are_restored_from_tokenizer_json_alone(tmp_path: Path) -> None:
    for pattern in samples.PATTERNS:
        path = exported("hf", tokenizer(pattern), tmp_path) / "tokenizer.json"
        (tmp_path / "tokenizer_config.json").unlink()
        loaded = Tokenizer.load(path)
        assert loaded.pattern.name == tokenizer(pattern).pattern.name
        assert [loaded.encode(text) for text in TEXTS] == [tokenizer(pattern).encode(text) for text in TEXTS]


def test_regex_patterns_are_saved_for_this_project_only(tmp_path: Path) -> None:
    ours = Tokenizer.from_merges([(b"x", b"y")], SPECIALS, pattern=r"(?<=x)y|[^y]+|y")
    ours.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.pattern == ours.pattern
    assert loaded.encode(f"axyy{EOT}y") == ours.encode(f"axyy{EOT}y")
    with pytest.raises(Exception, match=r"PreTokenizer"):
        HuggingFaceTokenizer.from_file(str(tmp_path / "tokenizer.json"))


def test_wrong_pattern_in_the_configuration_is_refused(tmp_path: Path) -> None:
    ours = Tokenizer.from_merges([], pattern=r"[a-z]+|[^a-z]")
    path = exported("hf", ours, tmp_path) / "tokenizer_config.json"
    path.write_text(path.read_text().replace("[^a-z]", "[^a-z]+"))
    with pytest.raises(InputError, match="Regex is not reproduced exactly"):
        Tokenizer.load(tmp_path)


def test_files_are_the_same_every_time(tmp_path: Path) -> None:
    for name in default_formats():
        first = exported(name, tokenizer(), tmp_path / name / "1")
        fresh = Tokenizer.from_merges(samples.trained("gpt2"), SPECIALS)
        for path in exported(name, fresh, tmp_path / name / "2").iterdir():
            assert path.read_bytes() == (first / path.name).read_bytes()


def unreachable() -> Tokenizer:
    tokens = {index: bytes([byte]) for index, byte in enumerate(BYTE_ORDER)} | {256: b"ab", 257: b"bc", 258: b"abc"}
    return Tokenizer(Vocabulary.from_tokens(tokens, [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")], {}))


def out_of_order() -> Tokenizer:
    tokens = {index: bytes([byte]) for index, byte in enumerate(BYTE_ORDER)} | {256: b"cd", 257: b"ab"}
    return Tokenizer(Vocabulary.from_tokens(tokens, [(b"a", b"b"), (b"c", b"d")], {}))


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("gpt2", lambda: tokenizer("llama3"), "pattern 'llama3'"),
        ("gpt2", lambda: Tokenizer(Vocabulary.from_merges([]), whole_pieces=True), "whole pieces"),
        ("gpt2", lambda: Tokenizer.from_merges([(b" ", b"a")], ["Ġa"]), "special token 'Ġa'"),
        ("hf", lambda: Tokenizer.from_merges([(b" ", b"a")], ["Ġa"]), "special token 'Ġa'"),
        ("hf", lambda: Tokenizer.from_merges([], [EOT], pattern=r"(?<=x)y|[^y]+|y"), "."),
        ("tiktoken", lambda: Tokenizer.from_merges([], [EOT], pattern=r"(?<=x)y|[^y]+|y"), "."),
        ("tiktoken", lambda: tokenizer(special_ids="first"), "special_ids=first"),
        ("tiktoken", lambda: Tokenizer.from_merges([], ["<a", "<b>", "<a>"]), "'<a' begins '<a>'"),
        ("tiktoken", out_of_order, "these ids"),
        ("tiktoken", unreachable, r"never make 1 of the tokens .*b'abc', id 258"),
    ],
)
def test_exports_that_runtimes_misread_are_refused(name: str, make: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ExportRefusedError, match=reason):
        EXPORTS[name](make().model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_layouts_of_other_writers_are_read(tmp_path: Path) -> None:
    """ByteLevel with its own regex, merges as strings, a normalized added token, an older file without new fields."""
    ours = tokenizer()
    document = json.loads((exported("hf", ours, tmp_path) / "tokenizer.json").read_text(encoding="utf-8"))
    document["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    document["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    document["added_tokens"][0]["normalized"] = True
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    del document["model"]["ignore_merges"], document["model"]["byte_fallback"]
    for text in SPECIALS:
        del document["model"]["vocab"][text]
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document))
    loaded = Tokenizer.load(path)
    assert loaded.model.vocabulary == ours.model.vocabulary
    assert loaded.pattern.name == "gpt2"
    theirs = HuggingFaceTokenizer.from_file(str(path))
    assert [loaded.encode(text) for text in TEXTS] == [theirs.encode(text).ids for text in TEXTS]


def cut_by_split(document: Any, expression: str) -> None:
    """Have the document's ByteLevel cut by a Split instead of its own pattern."""
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    byte_level = document["pre_tokenizer"] | {"use_regex": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}


def changed(path: str, value: Any) -> Any:
    """Set one value in a document: "model.vocab" or "added_tokens.0.id"."""

    def change(document: Any) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in way:
            document = document[step]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("version", "2.0"), 'version is "2.0"'),
        (changed("normalizer", {"type": "NFKC"}), 'normalizer.type is .*only "NFC"'),
        (changed("truncation", {"max_length": 3}), "truncation is"),
        (changed("post_processor", {"type": "Unknown"}), "post_processor.type is"),
        (changed("decoder", None), "decoder is null, but only"),
        (changed("pre_tokenizer", None), "pre_tokenizer must be an object"),
        (changed("pre_tokenizer", {"type": "Whitespace"}), "pre_tokenizer.type is"),
        (changed("pre_tokenizer.pretokenizers", []), "pre_tokenizer.* is"),
        (changed("pre_tokenizer.pretokenizers.0.behavior", "Removed"), r"pretokenizers\[0\].behavior is"),
        (changed("pre_tokenizer.pretokenizers.0.invert", 1), "invert is 1"),
        (changed("pre_tokenizer.pretokenizers.0.pattern", {"Text": " "}), "pattern.Regex must be a text"),
        (changed("pre_tokenizer.pretokenizers.0.pattern.Regex", "(a"), "pattern.Regex is not reproduced exactly"),
        (changed("pre_tokenizer.pretokenizers.1.add_prefix_space", True), "add_prefix_space is true"),
        (changed("pre_tokenizer.pretokenizers.1.use_regex", 1), "use_regex is 1"),
        (changed("model", []), "model must be an object"),
        (changed("model.type", "WordPiece"), "model.type is"),
        (changed("model.dropout", 0.1), "model.dropout is 0.1"),
        (changed("model.byte_fallback", True), "model.byte_fallback is true"),
        (changed("model.ignore_merges", 1), "model.ignore_merges is 1"),
        (changed("model.vocab", ["a"]), "model.vocab must be an object"),
        (changed("model.vocab.a", "64"), "model.vocab.a must be a whole number"),
        (changed("model.vocab.a", True), "model.vocab.a must be a whole number"),
        (changed("model.vocab.a", 66), "id 66"),
        (changed("model.vocab.a", 1 << 70), "is outside"),
        (changed("model.vocab", {"a": 0}), "no token stands for the byte"),
        (changed("model.vocab", {"a b": 0}), "not written in the byte alphabet"),
        (changed("model.vocab", {EOT: 0}), "the id 0, but added_tokens 416"),
        (changed("model.merges", None), "model.merges must be a list, not null"),
        (changed("model.merges.3", ["a"]), r"model.merges\[3\] is not a pair"),
        (changed("model.merges.3", "a b c"), r"model.merges\[3\]"),
        (changed("model.merges.3", ["a", 7]), r"model.merges\[3\]"),
        (changed("model.merges.3", 7), r"model.merges\[3\]"),
        (changed("model.merges.3", ["é", "zz"]), "merge 3 .*needs the token b'zz'"),
        (changed("added_tokens", {}), "added_tokens must be a list"),
        (changed("added_tokens.0", "x"), r"added_tokens\[0\] must be an object"),
        (changed("added_tokens.0.lstrip", 1), r"added_tokens\[0\].lstrip is 1"),
        (changed("added_tokens.0.special", None), r"added_tokens\[0\].special is null"),
        (changed("added_tokens.0.content", ""), "special token is empty"),
        (changed("added_tokens.0.content", "[x\n]"), "for the second time"),
        (changed("added_tokens.0.id", -1), "added_tokens -1|outside"),
        (changed("added_tokens.0.id", 1.5), r"added_tokens\[0\].id must be a whole number"),
    ],
)
def test_damaged_or_unknown_settings_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = exported("hf", tokenizer(), tmp_path) / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    cut_by_split(document, PRESETS["gpt2"])
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not valid JSON"), (b"[]", "must be an object"), (b"\xff", "not UTF-8"), (b"[" * 100_000, "not valid JSON")],
)
def test_files_of_other_kinds_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        Tokenizer.load(tmp_path)


def test_missing_files_and_wrong_pad_token(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json does not exist"):
        Tokenizer.load(tmp_path)
    tokenizer().save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "<none>"}')
    with pytest.raises(InputError, match=r"tokenizer_config\.json: pad_token names '<none>'"):
        Tokenizer.load(tmp_path)


PUBLISHED_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def test_gpt2_is_written_as_in_its_own_file(tmp_path: Path) -> None:
    """tokenizers 1.0 has no engine for other spellings of it."""
    tokenizer(pattern="gpt2").save(tmp_path)
    stage = json.loads((tmp_path / "tokenizer.json").read_text())["pre_tokenizer"]
    assert stage == {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize("expression", [PRESETS["gpt2"], PUBLISHED_GPT2])
def test_earlier_and_published_spellings_of_gpt2_are_the_preset(expression: str, tmp_path: Path) -> None:
    ours = tokenizer(pattern="gpt2")
    ours.save(tmp_path)
    file = tmp_path / "tokenizer.json"
    document = json.loads(file.read_text())
    cut_by_split(document, expression)
    file.write_text(json.dumps(document))
    assert Tokenizer.load(tmp_path).pattern == ours.pattern
    assert Tokenizer.load(tmp_path).pattern.name == "gpt2"


@pytest.mark.parametrize(("pattern", "noted"), [("gpt2", False), ("qwen2", False), ("cl100k", True), (r"\w|\W", True)])
def test_patterns_that_tokenizers_1_cannot_run_are_named_when_chosen(pattern: str, noted: bool, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low low lower")
    done = run("train", "a.txt", "--output", "run", "--vocab-size", 258, "--pattern", pattern, cwd=tmp_path)
    assert done.returncode == 0
    note = "tokenizers 1.0 has no engine for " + (
        "the pattern cl100k" if pattern == "cl100k" else "a pattern of your own"
    )
    for text in (done.stderr, run("export", "run", "--export", "hf", cwd=tmp_path).stderr):
        assert (note in text) == noted
    assert note not in run("export", "run", "--export", "tiktoken", cwd=tmp_path).stderr
