"""vocab.json and merges.txt: the ids of the class of `transformers` that their configuration names, or a refusal."""

import re
from pathlib import Path
from typing import Any

import pytest
from foreign_files import agree, files_of
from published import (
    BOS,
    EOT,
    HARD,
    PLAIN,
    made,
)
from tokenizers import AddedToken
from transformers import AutoTokenizer

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.compat import GPT2Tokenizer
from bpe_pipeline.extensions.inspect.doctor import examine
from bpe_pipeline.extensions.inspect.findings import FINE

SPECIAL = {BOS: 416, EOT: 417, EOT * 2: 418}


def test_tokens_that_no_merge_makes_are_special(tmp_path: Path) -> None:
    files_of(tmp_path, vocab=SPECIAL)
    ours = Tokenizer.load(tmp_path)
    assert ours.special_tokens == SPECIAL
    agree(made("gpt2", PLAIN), ours, *HARD)
    assert Tokenizer.load(tmp_path / "vocab.json").merges == ours.merges


def test_special_tokens_map_names_the_special_tokens(tmp_path: Path) -> None:
    texts = {"bos_token": BOS, "eos_token": {"content": EOT, "lstrip": False}, "extra": [BOS, EOT * 2]}
    files_of(tmp_path, {"special_tokens_map": texts}, SPECIAL)
    ours = Tokenizer.load(tmp_path)
    assert ours.special_tokens == SPECIAL
    agree(made("gpt2", PLAIN), ours, *HARD)


def test_added_tokens_without_a_configuration_are_refused(tmp_path: Path) -> None:
    files_of(tmp_path, {"added_tokens": {"<y>": 500}})
    with pytest.raises(InputError, match=r"added_tokens\.json adds"):
        Tokenizer.load(tmp_path)


def test_damaged_merge_is_refused_with_its_line(tmp_path: Path) -> None:
    files_of(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b c\n")
    with pytest.raises(InputError, match="line 2 is not a pair"):
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


@pytest.mark.parametrize(
    ("name", "document", "reason"),
    [
        ("tokenizer_config", {"tokenizer_class": "BartTokenizer"}, f"tokenizer_class{OTHER}"),
        ("config", {"model_type": "roberta"}, f"model_type{OTHER}"),
        ("tokenizer_config", GPT | {"auto_map": {"AutoTokenizer": ["a.A", None]}}, f"auto_map{OTHER}"),
        ("tokenizer_config", TOKENS, f"added_tokens_decoder{OTHER}"),
        ("tokenizer_config", GPT | {"added_tokens_decoder": {"x": {}}}, "added_tokens_decoder.x is not a token id"),
        ("special_tokens_map", MAPPED | {"pad_token": EOT}, f"pad_token names '{re.escape(EOT)}' with other rules"),
    ],
)
def test_files_around_vocab_json_that_do_not_fit_are_refused(name, document, reason, tmp_path):
    files_of(tmp_path, {name: document})
    with pytest.raises(InputError, match=rf"{name}\.json: {reason}"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("extra", "named", "reason"),
    [
        ({"é€": 416}, [], "not written in the byte alphabet: if it is special, name it so"),
        ({"!!": 0}, [], "assigns the id 0 to '!!' and to another token"),
        ({"!!": 0}, None, "the special token '!!' has id 0, which another token has too"),
        ({}, ["<s>"], "lacks the special token '<s>'"),
    ],
)
def test_contradictions_in_vocab_json_are_refused(extra: Any, named: Any, reason: str, tmp_path: Path) -> None:
    files_of(tmp_path, vocab=extra)
    with pytest.raises(InputError, match=reason):
        GPT2Tokenizer(tmp_path, special_tokens=named)
