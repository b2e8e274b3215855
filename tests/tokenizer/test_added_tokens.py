"""Added tokens in files of settings: they agree with tokenizer.json, and have transformers' ids, or are refused."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import samples
from amount import FULL
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError

EOT, X, Y = "<|endoftext|>", "<x>", "<y>"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
TEXTS = ["a<x> b low", " <y> <x><x>", "lower low  <y>", "<|endoftext|> <x>a<y>b", "the\n<x>\n"]


def entry(text: str, **flags: bool) -> dict[str, Any]:
    return {"content": text, **dict.fromkeys(FLAGS, False), "special": True, **flags}


@pytest.fixture(scope="module")
def base() -> dict[str, Any]:
    """Return a tokenizer.json with one special token."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as home:
        Tokenizer.from_merges(samples.trained("gpt2")[:40], [EOT]).save(home)
        document: dict[str, Any] = json.loads((Path(home) / "tokenizer.json").read_text())
    return document


def write(home: Path, document: dict[str, Any], files: dict[str, Any], more: tuple[dict[str, Any], ...] = ()) -> None:
    home.mkdir(exist_ok=True)
    for file in home.iterdir():
        file.unlink()
    listed = [*document["added_tokens"], *more]
    (home / "tokenizer.json").write_text(json.dumps(document | {"added_tokens": listed}))
    for name, content in ({"tokenizer_config.json": {}} | files).items():
        (home / name).write_text(json.dumps(content))


CASES = {
    "decoder": {"tokenizer_config.json": {"added_tokens_decoder": {"297": entry(X)}}},
    "list": {"tokenizer_config.json": {"additional_special_tokens": [X, Y]}},
    "newer list": {"tokenizer_config.json": {"extra_special_tokens": [Y], "unk_token": X}},
    "of a model": {"tokenizer_config.json": {"model_specific_special_tokens": {"one": X, "other": Y}}},
    "names": {"tokenizer_config.json": {"extra_special_tokens": {"one": X}, "image_token": Y}},
    "names as saved": {"tokenizer_config.json": {"model_specific_special_tokens": {"image_token": X}}},
    "names of two kinds": {"tokenizer_config.json": {"model_specific_special_tokens": {"one": Y}, "image_token": X}},
    "names in two files": {
        "tokenizer_config.json": {"model_specific_special_tokens": {"one": Y}},
        "special_tokens_map.json": {"extra_special_tokens": {"two": X}},
    },
    "roles": {"tokenizer_config.json": {"pad_token": X, "bos_token": Y}},
    "map": {"special_tokens_map.json": {"pad_token": entry(X, lstrip=True), "additional_special_tokens": [Y]}},
    "added": {"added_tokens.json": {X: 297, Y: 298}, "tokenizer_config.json": {"pad_token": Y}},
}


@pytest.mark.parametrize("name", CASES)
def test_tokens_of_settings_alone_are_refused_and_transformers_makes_files_that_agree(
    name: str, base: dict[str, Any], tmp_path: Path
) -> None:
    write(home := tmp_path / "old", base, CASES[name])
    said = rf"({'|'.join(CASES[name])}): .*'<[xy]>'.*AutoTokenizer.from_pretrained\('.*old'\).save_pretrained\(NEW\)"
    with pytest.raises(InputError, match=said):
        Tokenizer.load(home)
    theirs = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(str(home))
    theirs.save_pretrained(tmp_path / "new")
    ours = Tokenizer.load(tmp_path / "new")
    assert X in ours.special_tokens or name == "names of two kinds"
    assert ours.special_tokens == theirs.added_tokens_encoder
    assert [ours.encode(text) for text in TEXTS] == [theirs.encode(text) for text in TEXTS]


tokens = st.sampled_from([X, X, Y, Y, EOT, "low"])
flags = st.fixed_dictionaries(dict.fromkeys(FLAGS, st.booleans()))
objects = st.builds(
    lambda text, flags: {"__type": "AddedToken", "content": text, **flags},
    tokens,
    st.dictionaries(st.sampled_from(FLAGS), st.booleans()),
)
named = st.dictionaries(
    st.sampled_from(["bos_token", "eos_token", "pad_token", "unk_token", "image_token"]), tokens | objects, max_size=3
)
listed = st.dictionaries(
    st.sampled_from(["additional_special_tokens", "extra_special_tokens"]), st.lists(tokens | objects, max_size=2)
)
decoders = st.dictionaries(st.sampled_from(["296", "297", "298"]), objects, max_size=2).map(
    lambda found: {key: {**entry(one["content"]), **one, "__type": None} for key, one in found.items()}
)


@settings(max_examples=200 if FULL else 60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=st.builds(lambda one, two: one | two, named, listed),
    decoder=st.none() | decoders,
    said=st.none() | st.dictionaries(st.sampled_from(["pad_token", "unk_token"]), tokens),
    added=st.none() | st.lists(tokens, max_size=2, unique=True),
    rules=st.dictionaries(st.sampled_from([X, Y]), flags),
)
def test_any_settings_are_read_as_transformers_reads_them_or_refused(
    base, tmp_path, config, decoder, said, added, rules
):
    transformers = pytest.importorskip("transformers")
    files = {"tokenizer_config.json": config}
    if decoder is not None:
        clean = {key: {n: v for n, v in one.items() if n != "__type"} for key, one in decoder.items()}
        files["tokenizer_config.json"] = config | {"added_tokens_decoder": clean}
    if said is not None:
        files["special_tokens_map.json"] = said
    if added is not None:
        files["added_tokens.json"] = {text: 297 + at for at, text in enumerate(added)}
    listed = ({"id": id_, **entry(text, **rule)} for id_, (text, rule) in enumerate(rules.items(), 297))
    write(tmp_path, base, files, tuple(listed))
    try:
        ours = Tokenizer.load(tmp_path)
    except InputError:
        return
    logging.getLogger("transformers").setLevel(logging.ERROR)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    assert ours.special_tokens == theirs.added_tokens_encoder
    rules = {text: ours.model.preparation.rule_of(text) for text in ours.special_tokens}
    flags = {one.content: [getattr(one, name) for name in FLAGS] for one in theirs.added_tokens_decoder.values()}
    assert {text: [getattr(rule, name) for name in FLAGS] for text, rule in rules.items()} == flags
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)


SPACES = [" ", "  ", "\n", "\t", "\u3000", X, f" {X}", f"{X} ", "qq"]
white = st.dictionaries(
    st.sampled_from(SPACES),
    st.fixed_dictionaries({name: st.booleans() for name in FLAGS}),
    min_size=1,
    max_size=3,
)


@settings(max_examples=600 if FULL else 20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({"  ": entry("  ", lstrip=True, rstrip=True)}, False, ["a", "  ", "  ", " ", " ", "q", "  ", "\n\n"])
@example({"\n": entry("\n", lstrip=True, rstrip=True)}, False, ["a", "\n\n", "  ", "\n", "q", "\n", "\n", "\n"])
@example({X: entry(X, lstrip=True), "\t": entry("\t", normalized=True)}, False, ["a", "\t", " ", X, "\t", X, "\t", "a"])
@given(white, st.booleans(), st.lists(st.sampled_from([*SPACES, "a", "q", "<x", "\n\n"]), min_size=8, max_size=60))
def test_tokens_of_white_space_are_found_as_tokenizers_finds_them(base, tmp_path, monkeypatch, found, nfc, parts):
    """Where a token before took the white space, and what is normalized in a pass of its own; also in blocks."""
    monkeypatch.setattr("bpe_pipeline.tokenizer.encode._BLOCK_BYTES", 1)
    normalizer = {"normalizer": {"type": "NFC"}} if nfc else {}
    more = tuple(
        {"id": 297 + at, **entry(text, **{name: flags[name] for name in FLAGS})}
        for at, (text, flags) in enumerate(found.items())
    )
    write(tmp_path, base | normalizer, {}, more)
    ours = Tokenizer.load(tmp_path)
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    if any(flags["rstrip"] for flags in found.values()):  # or tokenizers panics where it would take half of one
        found = {text: flags for text, flags in found.items() if text.isspace() and flags["lstrip"]}
        assume(all(flags["rstrip"] for flags in found.values()))
    for at in range(0, len(parts), 8):
        text = "".join(parts[at : at + 8])
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, add_special_tokens=False) == ids, text
        assert list(ours.encode_iterable(iter(text))) == ours.encode(text) == ours.as_transformers().encode(text)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"added_tokens.json": {EOT: 400}}, r"has '.*' with the id 400, which tokenizer.json lists with the id 296"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"300": entry(EOT)}}}, r"300 is '.*', which .* the id 296"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"296": entry(EOT, rstrip=True)}}}, "another rstrip than"),
        ({"tokenizer_config.json": {"unk_token": {"content": X}}}, "unk_token names '<x>', which tokenizer.json does"),
        ({"tokenizer_config.json": {"split_special_tokens": True}}, "split_special_tokens is true"),
    ],
)
def test_settings_that_are_not_reproduced_are_refused(
    files: dict[str, Any], reason: str, base: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, base, files)
    with pytest.raises(InputError, match=reason):
        Tokenizer.load(tmp_path)


ODD: list[Any] = [7, True, [], {}, [[]], [{}], {"content": []}, {"content": {}}, {"one": []}, [None], 10**30]


@pytest.mark.parametrize("name", ["eos_token", "extra_special_tokens", "additional_special_tokens", "chat_template"])
@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_an_odd_member_of_settings_is_left_alone_or_refused_in_one_line(
    file: str, name: str, base: dict[str, Any], tmp_path: Path
) -> None:
    home, said = tmp_path / "old", list[str]()
    for odd in ODD:
        write(home, base, {file: {name: odd}})
        try:
            Tokenizer.load(home).save(tmp_path / "new")
        except InputError as reason:
            said.append(str(reason))
    assert all(re.fullmatch(rf".*old/{file.replace('special_tokens_map', '.*')}: {name}.*", one) for one in said)
    write(home, base, {file: {name: "\ud800"}})
    with pytest.raises(InputError, match=rf"{file} is not valid JSON: .* surrogates not allowed"):
        Tokenizer.load(home)


def test_doctor_says_what_makes_the_files_agree(base: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, base, CASES["list"])
    assert any("save_pretrained(NEW)" in one.because for one in bpe_pipeline.doctor(tmp_path).findings)
