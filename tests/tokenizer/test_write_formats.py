"""Exported files in the runtimes they are for: the same ids everywhere, the same bytes every time, or a refusal."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import samples
import tiktoken
from command import run
from tokenizers import Tokenizer as HuggingFaceTokenizer
from transformers import AutoTokenizer

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import ExportRefusedError, InputError
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.pattern.presets import PRESETS
from bpe_pipeline.tokenizer.formats import gguf
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS, default_formats

EOT, PAD = "<|endoftext|>", "<|pad|>"
SPECIALS = (EOT, "<|a b|>", "[x\n]")
TEXTS = [
    *samples.HARD_TEXTS,
    *samples.all_planes(11, 300),
    f"a {EOT} b{EOT}{EOT}\n\n<|a b|>  [x\n]<|a b|",
    f"{EOT}",
    f"  {PAD} x",
]


def tokenizer(pattern: str = "gpt2", **options: Any) -> Tokenizer:
    return samples.tokenizer(pattern, SPECIALS, **options)


def exported(name: str, ours: Tokenizer, directory: Path) -> Path:
    paths = FORMATS[name].write(ours.model, directory)
    assert sorted(paths) == sorted(directory.iterdir())
    return directory


def tiktoken_encoding(directory: Path) -> tiktoken.Encoding:
    encoding = runpy.run_path(str(directory / "tiktoken_encoding.py"))["encoding"]
    assert isinstance(encoding, tiktoken.Encoding)
    return encoding


@pytest.mark.parametrize("options", [{}, {"special_ids": "first", "pad_token": PAD}], ids=["last", "first"])
@pytest.mark.parametrize("pattern", [*samples.PATTERNS, r"\p{L}+|\S|\s++$|\s"])
def test_tokenizers_has_our_ids_and_we_read_what_we_save(pattern: str, options: dict[str, Any], tmp_path: Path) -> None:
    ours = tokenizer(pattern, **options)
    ours.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    theirs = HuggingFaceTokenizer.from_file(str(path))
    assert theirs.get_vocab_size() == ours.vocab_size
    assert theirs.to_str(pretty=True) == ours.to_tokenizers().to_str(pretty=True) == path.read_text(encoding="utf-8")
    for text in TEXTS:
        ids = ours.encode(text)
        assert theirs.encode(text).ids == ids
        assert theirs.decode(ids, skip_special_tokens=False) == ours.decode(ids) == text
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.model.vocabulary, loaded.model.pad_token) == (ours.model.vocabulary, ours.model.pad_token)
    assert loaded.pattern.name == ours.pattern.name
    assert [loaded.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]
    loaded.save(tmp_path / "again")
    for again in (tmp_path / "again").iterdir():
        assert again.read_bytes() == (tmp_path / again.name).read_bytes()
    if pattern in samples.PATTERNS:
        (tmp_path / "tokenizer_config.json").unlink()
        alone = Tokenizer.load(path)
        assert alone.pattern.name == ours.pattern.name
        assert [alone.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]


def test_vocabulary_without_merges_or_special_tokens(tmp_path: Path) -> None:
    ours = Tokenizer.from_merges([], pattern="gpt2")
    for name in ("hf", "gpt2", "tiktoken"):
        FORMATS[name].write(ours.model, tmp_path)
    path = tmp_path / "tokenizer.json"
    assert HuggingFaceTokenizer.from_file(str(path)).to_str(pretty=True) == path.read_text(encoding="utf-8")
    assert tiktoken_encoding(tmp_path).encode("añb") == ours.encode("añb") == Tokenizer.load(path).encode("añb")
    assert json.loads((tmp_path / "special_tokens_map.json").read_text()) == {}


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "none"])
def test_transformers_has_our_ids(pattern: str, tmp_path: Path) -> None:
    ours = tokenizer(pattern, pad_token=PAD)
    for theirs in (AutoTokenizer.from_pretrained(exported("hf", ours, tmp_path)), ours.to_transformers()):
        assert (theirs.eos_token, theirs.eos_token_id) == (EOT, ours.special_tokens[EOT])
        assert (theirs.pad_token, theirs.pad_token_id) == (PAD, ours.special_tokens[PAD])
        assert len(theirs) == ours.vocab_size
        for text in [*TEXTS, " . a , b 's n't do n't !"]:
            ids = ours.encode(text)
            assert theirs.encode(text) == ids
            assert theirs.decode(ids) == text
        assert theirs.decode(ours.encode(f"a{EOT}b{PAD}"), skip_special_tokens=True) == "ab"
    theirs.save_pretrained(tmp_path / "saved")
    assert Tokenizer.load(tmp_path / "saved").encode(TEXTS[-3]) == ours.encode(TEXTS[-3])


@pytest.mark.parametrize("pattern", samples.PATTERNS)
def test_tiktoken_has_our_ids(pattern: str, tmp_path: Path) -> None:
    ours = tokenizer(pattern, pad_token=PAD)
    for theirs in (tiktoken_encoding(exported("tiktoken", ours, tmp_path)), ours.to_tiktoken()):
        assert theirs.n_vocab == ours.vocab_size
        assert (theirs.special_tokens_set, theirs.eot_token) == (set(ours.special_tokens), ours.special_tokens[EOT])
        for text in TEXTS:
            ids = ours.encode(text)
            assert theirs.encode(text, allowed_special="all") == ids
            assert theirs.encode_ordinary(text) == ours.encode_ordinary(text)
            assert theirs.decode(ids) == text


def test_the_bytes_of_each_id_are_those_of_its_text_and_none_of_special_tokens(tmp_path: Path) -> None:
    ours = tokenizer()
    numbers = np.load(exported("token-bytes", ours, tmp_path) / "token-bytes.npy")
    special = {*ours.special_tokens.values()}
    assert numbers.tolist() == [0 if id_ in special else len(ours.decode_bytes([id_])) for id_ in range(len(numbers))]
    assert (len(numbers), numbers.dtype) == (ours.vocab_size, np.uint32)
    text = "low lower naïve 東京"
    assert numbers[ours.encode(f"{text}{EOT}")].sum() == len(text.encode())
    assert "token-bytes" not in default_formats()


def test_regex_patterns_are_saved_for_this_project_only(tmp_path: Path) -> None:
    ours = Tokenizer.from_merges([(b"x", b"y")], SPECIALS, pattern=r"(?<=x)y|[^y]+|y")
    ours.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.pattern == ours.pattern
    assert loaded.encode(f"axyy{EOT}y") == ours.encode(f"axyy{EOT}y")
    with pytest.raises(Exception, match=r"PreTokenizer"):
        HuggingFaceTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for convert in (ours.to_tiktoken, ours.to_tokenizers, ours.to_transformers, ours.as_transformers):
        with pytest.raises(ExportRefusedError):
            convert()


def with_tokens(tokens: list[bytes], *merges: tuple[bytes, bytes], pattern: str = "gpt2", **options: Any) -> Tokenizer:
    """Tokens after those of the bytes, in an order that the merges do not have."""
    vocabulary = Vocabulary.from_tokens(samples.tokens_by_id(*tokens), merges, {EOT: 256 + len(tokens)})
    return Tokenizer(vocabulary, pattern, **options)


LOST: Any = ([b"ab", b"bc", b"abc"], (b"a", b"b"), (b"b", b"c"), (b"a", b"bc"))  # the merges never make "abc"
SPACED = tokenizer("llama3").model
SPACED = replace(SPACED, preparation=replace(SPACED.preparation, space_in_front=True))
END = [(b"<", b"/"), (b"</", b"s"), (b"</s", b">")]
VERSION = [(b"#version"[:size], b"#versionx"[size : size + 1]) for size in range(1, 9)]


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("gpt2", lambda: tokenizer("llama3"), "pattern 'llama3'"),
        ("gpt2", lambda: Tokenizer(Vocabulary.from_merges([]), whole_pre_tokens=True), "whole pre-tokens"),
        ("hf", lambda: Tokenizer.from_merges([(b" ", b"a")], ["Ġa"]), "special token 'Ġa'"),
        ("hf", lambda: Tokenizer.from_model(SPACED), "a space is put in front of texts .* GPT-2's"),
        ("gpt2", lambda: Tokenizer.from_merges(VERSION, []), "looks like the header of merges.txt"),
        ("tiktoken", lambda: tokenizer(special_ids="first"), "special_ids=first"),
        ("tiktoken", lambda: Tokenizer.from_merges([], ["<a", "<b>", "<a>"]), "'<a' begins '<a>'"),
        ("tiktoken", lambda: with_tokens([b"cd", b"ab"], (b"a", b"b"), (b"c", b"d")), "these ids"),
        ("tiktoken", lambda: with_tokens(*LOST), r"never make 1 of the tokens .*b'abc', id 258"),
        ("gguf", lambda: tokenizer("cl100k"), "pattern 'cl100k' does: it has the patterns gpt2, llama3, qwen2"),
        ("gguf", lambda: tokenizer("kimi-k2"), r"ranges of its own, without such as U\+3005"),
        ("gguf", lambda: tokenizer("o200k"), "716 of 2,000 texts .* convert_hf_to_gguf.py"),
        ("gguf", lambda: tokenizer(samples.CUSTOM), "does not split as the pattern 'foo"),
        ("gguf", lambda: samples.tokenizer(specials=()), "without special tokens: llama.cpp would take token 11"),
        ("gguf", lambda: Tokenizer.from_merges([], [EOT]), "without merges"),
        ("gguf", lambda: samples.tokenizer(specials=("<a>b", "b<c>d")), "'<a>b' and 'b<c>d': where they overlap"),
        ("gguf", lambda: samples.tokenizer("llama3", ("eot",)), "'eot': llama.cpp would take ordinary text"),
        ("gguf", lambda: samples.tokenizer(specials=("<|\0|>",)), "truncates it at NUL"),
        ("gguf", lambda: with_tokens(*LOST, whole_pre_tokens=True), "b'abc', id 258.*does not look up"),
        ("gguf", lambda: with_tokens(*LOST, pattern="llama3"), r"b'abc', id 258.*llama.cpp looks up"),
        ("gguf", lambda: Tokenizer.from_merges(END, [EOT]), "may take the token '</s>'"),
    ],
)
def test_exports_that_runtimes_misread_are_refused(name, make, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(gguf, "find_spec", lambda _: "it is installed")
    with pytest.raises(ExportRefusedError, match=reason):
        FORMATS[name].write(make().model, tmp_path / "out")
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


ANY = {"type": "Split", "pattern": {"String": "".join(map(chr, range(0x4E00, 0x5000, 2)))}, "behavior": "Isolated"}
LAST = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
TWO_STEPS = {"type": "Sequence", "pretokenizers": [{**ANY, "invert": False}, LAST]}


def cut_by_split(document: Any, expression: str) -> None:
    """Have the document's ByteLevel cut by a Split instead of its own pattern."""
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    byte_level = document["pre_tokenizer"] | {"use_regex": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", "2.0", 'version is "2.0"'),
        ("normalizer", {"type": "Strip"}, 'normalizer.type is .*only "NFC"'),
        ("post_processor", {"type": "Unknown"}, "post_processor.type is"),
        ("post_processor", lambda old: {"type": "Sequence", "processors": [old, old]}, "several steps"),
        ("post_processor.single", lambda old: old[:1], "does not hold the text once"),
        (f"post_processor.special_tokens.{EOT}.ids", [7], "adds the id 7 to"),
        ("decoder", {"type": "Fuse"}, 'decoder.type is "Fuse"'),
        ("pre_tokenizer", None, "pre_tokenizer is null, but only"),
        ("pre_tokenizer", {"type": "Whitespace"}, "pre_tokenizer.type is"),
        ("pre_tokenizer.pretokenizers", [], "pre_tokenizer.* is"),
        ("pre_tokenizer.pretokenizers", lambda old: [*old, old[-1]], "type is"),
        ("pre_tokenizer.pretokenizers.0", {"type": "Punctuation", "behavior": "Removed"}, "behavior is"),
        ("pre_tokenizer.pretokenizers.0.behavior", "Removed", r"pretokenizers\[0\].behavior is"),
        ("pre_tokenizer.pretokenizers.0.invert", 1, "invert is 1"),
        ("pre_tokenizer.pretokenizers.0.pattern", {"Text": " "}, "pattern.Regex must be a text"),
        ("pre_tokenizer.pretokenizers.0.pattern.Regex", "(a", "pattern.Regex is not reproduced exactly"),
        ("pre_tokenizer.pretokenizers.1.add_prefix_space", True, "add_prefix_space is true"),
        ("pre_tokenizer.pretokenizers.1.use_regex", 1, "use_regex is 1"),
        ("model", [], "model must be an object"),
        ("model.type", "Other", "model.type is"),
        ("model.dropout", 0.1, "model.dropout is 0.1"),
        ("model.unk_token", 7, "unk_token must be a text"),
        ("model.continuing_subword_prefix", "##", "marks where words end"),
        ("model.byte_fallback", 1, "model.byte_fallback is 1"),
        ("model.vocab.a", True, "model.vocab.a must be a whole number"),
        ("model.vocab.a", 66, "id 66"),
        ("model.vocab.a", 1 << 70, "is outside"),
        ("model.vocab", {}, "the vocabulary has no tokens"),
        ("model.vocab", {"a b": 0}, "not written in the byte alphabet"),
        ("model.vocab", {EOT: 0}, "the id 0, but added_tokens 416"),
        ("model.merges", None, "model.merges must be a list, not null"),
        ("model.merges.3", ["a"], r"model.merges\[3\] is not a pair"),
        ("model.merges.3", 7, r"model.merges\[3\]"),
        ("model.merges.3", ["é", "zz"], "merge 3 .*needs the token b'zz'"),
        ("added_tokens", {}, "added_tokens must be a list"),
        ("added_tokens.0.lstrip", 1, r"added_tokens\[0\].lstrip is 1"),
        ("added_tokens.0.special", None, r"added_tokens\[0\].special is null"),
        ("added_tokens.0.content", "", "special token is empty"),
        ("added_tokens.0.content", "[x\n]", "for the second time"),
        ("added_tokens.0.id", -1, "added_tokens -1|outside"),
        ("added_tokens", lambda old: [one | {"id": 416} for one in old], "added_tokens assigns one id to two tokens"),
        ("pre_tokenizer", {"type": "BpePipelineRegex", "pattern": "(a"}, "pre_tokenizer.pattern is not a pattern: .*2"),
        ("pre_tokenizer", TWO_STEPS, "pre_tokenizer is not reproduced exactly: .* more than 255 classes"),
    ],
)
def test_damaged_or_unknown_settings_are_refused(path: str, value: Any, message: str, tmp_path: Path) -> None:
    FORMATS["hf"].write(replace(tokenizer().model, front=(EOT,)), tmp_path)
    file = tmp_path / "tokenizer.json"
    changed = document = json.loads(file.read_text(encoding="utf-8"))
    cut_by_split(document, PRESETS["gpt2"].expression)
    document["added_tokens"][1]["rstrip"] = True
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        changed = changed[step]
    changed[last] = value(changed[last]) if callable(value) else value
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.load(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", None, r"tokenizer\.json does not exist"),
        ("tokenizer.json", b"", "not valid JSON"),
        ("tokenizer.json", b"[]", "must be an object"),
        ("tokenizer.json", b"\xff", "not UTF-8"),
        ("tokenizer.json", b"[" * 100_000, "not valid JSON"),
        ("tokenizer_config.json", b'{"bpe_pipeline_separator": "<none>"}', "bpe_pipeline_separator names '<none>'"),
        ("tokenizer_config.json", b'{"bpe_pipeline_pattern": "[a-z]+|[^a-z]+"}', "Regex is not reproduced exactly"),
    ],
)
def test_files_of_other_kinds_are_refused(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    Tokenizer.from_merges([], SPECIALS, pattern=r"[a-z]+|[^a-z]").save(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        Tokenizer.load(tmp_path)


PUBLISHED_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def test_gpt2_is_written_as_in_its_own_file_and_read_in_other_spellings(tmp_path: Path) -> None:
    """tokenizers 1.0 has no engine for other spellings of it."""
    tokenizer().save(tmp_path)
    file = tmp_path / "tokenizer.json"
    document = json.loads(file.read_text())
    stage = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    assert document["pre_tokenizer"] == stage
    for expression in (PRESETS["gpt2"].expression, PUBLISHED_GPT2):
        cut_by_split(document, expression)
        file.write_text(json.dumps(document))
        document["pre_tokenizer"] = stage
        assert Tokenizer.load(tmp_path).pattern == tokenizer().pattern
        assert Tokenizer.load(tmp_path).pattern.name == "gpt2"


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("gpt2", ""),
        ("qwen2", ""),
        ("cl100k", "the pattern cl100k"),
        (r"\w|\W", "a pattern of your own"),
    ],
)
def test_patterns_that_tokenizers_1_cannot_run_are_named_when_chosen(pattern: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low low lower")
    done = run("train", "a.txt", "--output", "run", "--vocab-size", 258, "--pattern", pattern, cwd=tmp_path)
    assert done.returncode == 0
    note = "tokenizers 1.0 has no engine for "
    for text in (done.stderr, run("export", "run", "--export", "hf", cwd=tmp_path).stderr):
        assert (note + named in text) == (note in text) == bool(named)
    assert note not in run("export", "run", "--export", "tiktoken", cwd=tmp_path).stderr
