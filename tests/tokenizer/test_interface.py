"""What people type before they read: every way to load, Python's operators, other libraries' names, other processes."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import samples
import tokenizers

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.pattern.compiled import CompiledPattern, in_sequence
from bpe_pipeline.pattern.compiler import compile_pattern

EOT = "<|endoftext|>"
SPECIALS = (EOT, "<|im_start|>", "<|im_end|>")
TEXT = "the lower\n<|im_start|>low 123 't été नमस्ते<|endoftext|>  x"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("interface")
    (home / "a.txt").write_text("low lower lowest<|endoftext|>the lower newest widest " * 20)
    options: Any = {"special_tokens": [*SPECIALS], "chat_template": "chatml", "pad_token": "<|pad|>", "workers": 1}
    bpe_pipeline.train(home / "a.txt", output=home / "run", vocab_size=[270, 265], pattern="llama3", **options)
    return home / "run"


LOADERS: tuple[Any, ...] = (
    Tokenizer,
    Tokenizer.load,
    Tokenizer.from_file,
    Tokenizer.from_pretrained,
    bpe_pipeline.load,
)


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__qualname__)
def test_every_name_loads_a_run_a_directory_and_a_file(load: Callable[[Any], Tokenizer], run: Path) -> None:
    found = [load(path) for path in (run, str(run), run / "tokenizer", run / "tokenizer" / "tokenizer.json")]
    assert {len(one) for one in found} == {270}
    assert found[0] == found[-1]
    assert len(load(run / "tokenizer-265")) == 265
    found[0].save_pretrained(run.parent / "copy")
    assert load(run.parent / "copy") == found[0]


def test_a_path_brings_its_own_pattern(run: Path) -> None:
    with pytest.raises(UsageError, match="leave the other arguments out"):
        Tokenizer(run, "gpt2")
    with pytest.raises(InputError, match="give a run directory"):
        Tokenizer.from_pretrained("someone/some-model")


def test_a_run_without_a_tokenizer_says_what_makes_one(tmp_path: Path) -> None:
    run = bpe_pipeline.combine({"low": 5}, output=tmp_path / "run")
    with pytest.raises(InputError, match=r"run has no tokenizer yet: bpe-pipeline merge .*run$"):
        bpe_pipeline.load(run)


def test_repr_len_call_in_and_equality(run: Path) -> None:
    ours, other = Tokenizer(run), Tokenizer(run)
    assert repr(ours) == "Tokenizer(270 tokens, llama3, 4 special)"
    assert repr(Tokenizer.from_merges([], pattern=r"\w+|\W+")) == r"Tokenizer(256 tokens, \w+|\W+, 0 special)"
    assert len(ours) == 270
    assert ours("low") == ours.encode("low")
    spaced = next(token for token in ours.vocab.values() if token[:1] == b" " and len(token) > 1)
    asked = (spaced, spaced.decode(), EOT, "Ġ" + spaced.decode().strip(), "not there")
    assert [one in ours for one in asked] == [True, True, True, False, False]
    ours.encode("low"), ours.vocab, ours.merges, ours.get_vocab()  # what is cached changes nothing
    assert (ours, hash(ours)) == (other, hash(other))
    assert ours not in (Tokenizer(run / "tokenizer-265"), "a text")
    assert bpe_pipeline.merge(run, chat_template="chatml")[270] == ours


def test_tokens_have_the_letters_of_hugging_face(run: Path) -> None:
    ours = Tokenizer(run)
    theirs = tokenizers.Tokenizer.from_file(str(run / "tokenizer" / "tokenizer.json"))
    assert ours.get_vocab() == theirs.get_vocab()
    for id_ in range(len(ours)):
        assert ours.id_to_token(id_) == theirs.id_to_token(id_)
        assert ours.token_to_id(theirs.id_to_token(id_)) == id_
    assert ours.token_to_id(" ") is ours.id_to_token(270) is None
    assert ours.token_to_id("Ġ") == ours.encode(" ")[0]


def test_ids_of_roles_and_names_of_tiktoken(run: Path) -> None:
    ours = Tokenizer(run)
    theirs = ours.to_transformers()
    assert ours.bos_token_id == theirs.bos_token_id
    assert ours.eos_token_id == ours.eot_token == theirs.eos_token_id
    assert ours.pad_token_id == theirs.pad_token_id == ours.special_tokens["<|pad|>"]
    assert ours.chat_template == theirs.chat_template
    assert ours.n_vocab == ours.to_tiktoken().n_vocab == 270
    bare = Tokenizer.from_merges([])
    assert (bare.bos_token_id, bare.eos_token_id, bare.pad_token_id, bare.eot_token, bare.chat_template) == (None,) * 5


def test_keywords_of_transformers_are_accepted(run: Path) -> None:
    ours, theirs = Tokenizer(run), Tokenizer(run).to_transformers()
    ids = ours.encode(TEXT, add_special_tokens=False)
    assert ids == theirs.encode(TEXT, add_special_tokens=False) == ours(TEXT, add_special_tokens=True)
    for skip in (True, False):
        expected = theirs.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        assert ours.decode(ids, skip_special_tokens=skip) == expected
        assert ours.decode_batch(np.array([ids]), skip_special_tokens=skip) == [expected]
    for one in (5, np.int64(5), np.array(5)):
        with pytest.raises(InputError, match=r"not the one number 5: decode\(\[5\]\)"):
            ours.decode(one)  # type: ignore[arg-type]


def test_swapped_arguments_are_refused_with_the_right_order(run: Path, tmp_path: Path) -> None:
    ours, corpus = Tokenizer(run), run.parent / "a.txt"
    with pytest.raises(UsageError, match=r"order is encode\(inputs, tokenizer, output\)"):
        bpe_pipeline.encode(ours, corpus)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"order is encode\(inputs, tokenizer, output\)"):
        bpe_pipeline.encode(ours, corpus, tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"run is a tokenizer, and .*a\.txt is none: inputs come before it"):
        bpe_pipeline.encode(run, corpus)
    with pytest.raises(UsageError, match="inputs come before it"):
        bpe_pipeline.encode(run, corpus, tmp_path / "out")


PATTERNS: dict[str, CompiledPattern] = {
    "gpt2": compile_pattern("gpt2"),
    "o200k": compile_pattern("o200k"),
    "by regex": compile_pattern(r"(?<=x)y|[^y]+|y"),
    "sequence": in_sequence([compile_pattern(r"\d|\D+"), compile_pattern("gpt2")]),
}


def tokenizer(pattern: str) -> Tokenizer:
    return Tokenizer.from_merges(samples.trained("gpt2"), ["<|endoftext|>"], pattern=PATTERNS[pattern])


def used(ours: Tokenizer) -> Tokenizer:
    """Fill every cache."""
    ours.decode(ours.encode(TEXT, allowed_special={"<|endoftext|>"}), skip_special_tokens=True)
    assert all((ours.vocab, ours.merges, ours.get_vocab(), ours.vocabulary.texts, "\n" in ours))
    return ours


def copies(one: Any) -> list[Any]:
    """Copies made in every way, each equal to the original and pickled to the same bytes."""
    made = [pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)]
    for other in made:
        assert other == one
        assert other is not one or isinstance(one, CompiledPattern)
        assert pickle.dumps(other) == pickle.dumps(one)
    return made


@pytest.mark.parametrize("pattern", PATTERNS)
def test_copies_are_equal_and_encode_alike(pattern: str) -> None:
    ours = tokenizer(pattern)
    data, vocabulary = pickle.dumps(ours), ours.vocabulary
    for other in [*copies(ours), *copies(used(ours))]:
        assert other.encode(TEXT) == ours.encode(TEXT)
        assert repr(other) == repr(ours)
    assert pickle.dumps(used(ours)) == data  # not what was computed since
    parts = sum(map(len, vocabulary.tokens.values())) + 8 * len(ours) + 12 * len(vocabulary.left)
    assert len(data) < 20_000 + parts or pattern != "gpt2"
    text = TEXT.replace("<|endoftext|>", "xy")
    for cut in copies(PATTERNS[pattern]):
        assert cut.cut(text) == PATTERNS[pattern].cut(text)
        assert [name for name, known in PATTERNS.items() if known == cut] == [pattern]


def test_encoded_files_are_copied(tmp_path: Path) -> None:
    for name, last in (("a.txt", "lower"), ("b.txt", "lowest")):
        (tmp_path / name).write_text(f"low<|endoftext|>{last}")
    encoded, longer = (bpe_pipeline.encode(tmp_path / f"{name}.txt", tokenizer("gpt2"), workers=1) for name in "ab")
    for other in copies(encoded):
        assert [document.tolist() for document in other] == [document.tolist() for document in encoded]
    assert encoded not in (longer, [list(document) for document in encoded])
    with pytest.raises(TypeError, match="unhashable"):
        hash(encoded)


@pytest.mark.parametrize("way", multiprocessing.get_all_start_methods())
def test_processes_take_a_tokenizer(way: str) -> None:
    ours = used(tokenizer("gpt2"))
    texts = [TEXT, "low", ""]
    with multiprocessing.get_context(way).Pool(2) as pool:
        assert pool.map(ours.encode, texts) == ours.encode_batch(texts)
        assert pool.map(ours.decode, ours.encode_batch(texts)) == texts
        assert pool.apply(copy.copy, [ours]) == ours
        assert pool.apply(PATTERNS["o200k"].cut, ["a bc"]) == ["a", " bc"]
