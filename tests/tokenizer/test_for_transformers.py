"""`as_transformers` against transformers' own tokenizer of the same files: equal results whatever is asked for."""

import copy
import functools
import multiprocessing
import pickle
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import published
import pytest
import samples
from recorded import DATA
from tokenizers import AddedToken, normalizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import ExportRefusedError, InputError
from bpe_pipeline.pattern.token_rules import Preparation, TokenRule
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.tokenizer.model import Model

pytestmark = pytest.mark.filterwarnings("ignore:`max_length` is ignored")

EOT, PAD, BOS = "<|endoftext|>", "<|pad|>", "<|bos|>"
DIALOG = [{"role": "user", "content": "the lower é"}, {"role": "assistant", "content": f"low {EOT} 🙂"}]
TEXTS = [*samples.HARD_TEXTS, *samples.all_planes(5, 60), *published.AROUND, f"the {EOT}{PAD}  low {BOS}\n", "é🙂" * 9]
# everything that is given to a call, by its names in transformers; what it refuses, both refuse
CHOICES: dict[str, list[Any]] = {
    "add_special_tokens": [True, True, False],
    "padding": [False, True, "longest", "max_length"],
    "truncation": [False, False, True, "longest_first", "only_first"],
    "max_length": [None, 0, 1, 2, 5, 9, 40],
    "stride": [0, 0, 0, 1, 2],
    "pad_to_multiple_of": [None, None, 8, 7],
    "padding_side": [None, "left", "right"],
    "return_tensors": [None, None, None, "np"],
    "return_token_type_ids": [None, True, False],
    "return_attention_mask": [None, True, False],
    "return_overflowing_tokens": [False, False, False, True],
    "return_special_tokens_mask": [False, True],
    "return_offsets_mapping": [False, True],
    "return_length": [False, True],
    "split_special_tokens": [False, False, False, True],
    "is_split_into_words": [False] * 9 + [True],
}
RARELY = 0.4  # the share of these that a call names


def random_call(source: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a call: one text or several, perhaps with a pair."""
    named = {name: source.choice(values) for name, values in CHOICES.items() if source.random() < RARELY}
    if named.get("stride") and (named.get("max_length") or 40) < 9:  # a panic of Rust
        del named["stride"]
    several, paired = source.random() < 0.7, source.random() < 0.15
    texts: Any = source.choices(TEXTS, k=source.randint(1, 6))
    pair: Any = source.choices(TEXTS, k=len(texts))
    return ([texts, pair] if several else [texts[0], pair[0]])[: 1 + paired], named


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, in plain values; or the kind of its error."""
    try:
        found = call()
    except Exception as error:  # of the class of transformers, whichever it is
        return type(error).__name__
    plain = [(name, type(value).__name__, [np.asarray(row).tolist() for row in value]) for name, value in found.items()]
    seen = [(one.tokens, one.word_ids, one.offsets, one.n_sequences) for one in found.encodings]
    return plain, seen, found.n_sequences


def of_files(ours: Tokenizer) -> Any:
    """What AutoTokenizer makes of the tokenizer's files."""
    with tempfile.TemporaryDirectory() as directory:
        ours.save(directory)
        return AutoTokenizer.from_pretrained(directory)


def assert_equal_calls(ours: Any, theirs: Any, calls: int, seed: str, least_here: float = 0.25) -> None:
    """Compare random calls of two tokenizers. least_here: the share that must not go to the class of transformers."""
    source = random.Random(seed)
    here = 0
    for _ in range(calls):
        arguments, named = random_call(source)
        sides = source.choice(("left", "right")), source.choice(("left", "right"))
        for one in (ours, theirs):
            one.truncation_side, one.padding_side = sides
        expected = outcome(lambda: theirs(*arguments, **named))  # noqa: B023 - called at once
        assert outcome(lambda: ours(*arguments, **named)) == expected, (arguments, named)  # noqa: B023
        if not isinstance(expected, str):
            here += not isinstance(ours(*arguments, **named).encodings, list)
    assert here >= least_here * calls


RULES = {EOT: TokenRule(lstrip=True, special=True), BOS: TokenRule(single_word=True, rstrip=True)}
KINDS: dict[str, Callable[[Model], Model]] = {
    "plain": lambda model: model,
    "bos": lambda model: replace(model, roles=Roles(bos=BOS, pad=PAD)).adding_bos(),
    "rules": lambda model: replace(model, preparation=Preparation(rules=RULES)),
    "nfc": lambda model: replace(model, preparation=Preparation(nfc=True)),
}


@functools.cache
def trained(pattern: str = "llama3", kind: str = "bos") -> Tokenizer:
    return Tokenizer.from_model(KINDS[kind](samples.tokenizer(pattern, (EOT, BOS), pad_token=PAD).model))


@pytest.mark.parametrize("calls", [25, pytest.param(170, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["gpt2", "llama3", "o200k"])
def test_random_calls_of_trained_tokenizers_are_those_of_auto_tokenizer(pattern: str, kind: str, calls: int) -> None:
    ours = trained(pattern, kind)
    assert_equal_calls(ours.as_transformers(), of_files(ours), calls, f"{pattern} {kind} {calls}")


@pytest.mark.slow
@pytest.mark.parametrize("added", published.ADDED)
@pytest.mark.parametrize("shape", published.SHAPES)
def test_random_calls_of_published_shapes_are_those_of_auto_tokenizer(shape: str, added: str) -> None:
    ours = published.pair(shape, added)[1]
    try:
        native = ours.as_transformers()
    except ExportRefusedError:
        assert (shape, added) == ("llama3", "rules")
        return
    assert_equal_calls(native, of_files(ours), 60, f"{shape} {added}", 0.05)


@pytest.mark.parametrize(
    "file", sorted((DATA.parent / "published").glob("*/tokenizer.json")), ids=lambda file: file.parent.name
)
def test_random_calls_of_published_tokenizers_are_those_of_auto_tokenizer(file: Path) -> None:
    try:
        ours = Tokenizer.load(file)
    except InputError as reason:
        pytest.skip(str(reason))
    assert_equal_calls(ours.as_transformers(), of_files(ours), 75, file.parent.name, 0.05)


def test_it_is_a_tokenizer_of_transformers_whose_methods_agree() -> None:
    ours, theirs = trained().as_transformers(), of_files(trained())
    assert isinstance(ours, PreTrainedTokenizerBase)
    assert isinstance(ours, PreTrainedTokenizerFast)
    assert type(ours).__name__ == type(theirs).__name__
    assert (len(ours), ours.vocab_size, ours.is_fast) == (len(theirs), theirs.vocab_size, theirs.is_fast)
    assert (ours.get_vocab(), ours.special_tokens_map) == (theirs.get_vocab(), theirs.special_tokens_map)
    rows = theirs(TEXTS).input_ids
    for skip in (True, False):
        assert ours.batch_decode(rows, skip_special_tokens=skip) == theirs.batch_decode(rows, skip_special_tokens=skip)
        assert ours.decode(rows[-1], skip_special_tokens=skip) == theirs.decode(rows[-1], skip_special_tokens=skip)
    assert ours.pad({"input_ids": rows[:9]}).data == theirs.pad({"input_ids": rows[:9]}).data
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)
        assert ours.tokenize(text) == theirs.tokenize(text)
    both = [one(text="a é", text_target=["b", "é"]) for one in (ours, theirs)]
    assert both[0].data == both[1].data


def test_dialogs_have_the_ids_and_masks_of_transformers() -> None:
    ours, theirs = trained().as_transformers(), of_files(trained())
    template = (
        "{% for one in messages %}{% generation %}{{ one.content }}{% endgeneration %}{{ eos_token }}{% endfor %}"
    )
    for one in (ours, theirs):
        one.chat_template = template
    for options in (
        {},
        {"return_assistant_tokens_mask": True, "return_dict": True},
        {"padding": True, "max_length": 4},
    ):
        for dialogs in (DIALOG, [DIALOG, DIALOG[:1]]):
            found, expected = (one.apply_chat_template(dialogs, **options) for one in (ours, theirs))
            assert found == expected


@pytest.mark.parametrize("loaded_by_name", [None, "AutoTokenizer"])
def test_what_is_saved_is_what_transformers_saves_before_its_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded_by_name: str | None
) -> None:
    ours, theirs = trained().as_transformers(), trained().to_transformers()
    monkeypatch.setattr(type(ours), "_auto_class", loaded_by_name)
    ours(TEXTS, padding=True, truncation=True, max_length=9)
    for name, one in (("ours", ours), ("theirs", theirs)):
        one.save_pretrained(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert "tokenizer.json" in files
    for name in files:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()
    assert_equal_calls(AutoTokenizer.from_pretrained(tmp_path / "ours"), theirs, 5, "saved", 0)
    assert_equal_calls(type(ours).from_pretrained(tmp_path / "ours"), theirs, 10, "loaded")


def _sent(tokenizer: Any, texts: list[str], results: Any) -> None:
    results.put(tokenizer(texts).input_ids)


def test_it_is_pickled_copied_and_forked() -> None:
    ours = trained().as_transformers()
    before = pickle.dumps(ours)
    rows = ours(TEXTS, return_offsets_mapping=True, padding=True)
    assert pickle.dumps(ours) == before
    for other in (pickle.loads(before), copy.deepcopy(ours), copy.copy(ours)):
        assert other(TEXTS, return_offsets_mapping=True, padding=True).data == rows.data
    sent = pickle.loads(pickle.dumps(rows))
    assert (sent.data, sent.tokens(3)) == (rows.data, rows.tokens(3))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_sent, args=(ours, TEXTS, results))
    child.start()
    assert results.get(timeout=60) == ours(TEXTS).input_ids
    child.join()


TEMPLATE = processors.TemplateProcessing(single=f"$A {EOT}", pair="$A $B", special_tokens=[(EOT, 416)])
CHANGES: dict[str, Callable[[Any], Any]] = {
    "tokens": lambda one: one.add_tokens(["lower", "<new>"]),
    "special tokens": lambda one: one.add_special_tokens({"pad_token": "<new>", "extra_special_tokens": ["lower"]}),
    "rules": lambda one: one.add_tokens([AddedToken(EOT, lstrip=True, rstrip=True, special=True)]),
    "end": lambda one: setattr(one, "add_eos_token", True),
    "post-processor": lambda one: setattr(one.backend_tokenizer, "post_processor", TEMPLATE),
    "normalizer": lambda one: setattr(one.backend_tokenizer, "normalizer", normalizers.NFC()),
    "nothing we have": lambda one: setattr(one.backend_tokenizer, "normalizer", normalizers.Lowercase()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_count_from_the_next_call_on(change: str) -> None:
    ours, theirs = trained().as_transformers(), of_files(trained())
    for one in (ours, theirs):
        one("low", truncation=True, max_length=2, padding="max_length", return_overflowing_tokens=True)
        CHANGES[change](one)
    assert_equal_calls(ours, theirs, 15, change, 0 if change == "nothing we have" else 0.2)
    texts = [f"The lower<new>{EOT} e\u0301", *TEXTS]
    assert ours(texts, padding=True).data == theirs(texts, padding=True).data
