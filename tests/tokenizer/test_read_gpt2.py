"""vocab.json and merges.txt: the ids of GPT-2's class of `transformers`, or a refusal of what names another one."""

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
    texts = {
        "bos_token": BOS,
        "eos_token": {"content": EOT, "lstrip": False},
        "additional_special_tokens": [BOS, EOT * 2],
    }
    files_of(tmp_path, {"special_tokens_map": texts}, SPECIAL)
    ours = Tokenizer.load(tmp_path)
    assert ours.special_tokens == SPECIAL
    agree(made("gpt2", PLAIN), ours, *HARD)


def test_added_tokens_without_a_configuration_are_refused(tmp_path: Path) -> None:
    files_of(tmp_path, {"added_tokens": {"<y>": 500}})
    with pytest.raises(InputError, match=r"added_tokens\.json: the document adds"):
        Tokenizer.load(tmp_path)


def test_damaged_merge_is_refused_with_its_line(tmp_path: Path) -> None:
    files_of(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b c\n")
    with pytest.raises(InputError, match="line 2 is not a pair"):
        Tokenizer.load(tmp_path)


MAPPED = {"bos_token": BOS, "eos_token": {"content": EOT, "lstrip": True}, "unk_token": BOS}
GPT = {"tokenizer_class": "GPT2TokenizerFast"}
CONFIGURED: dict[str, dict[str, Any]] = {  # name of a file -> what it says
    "roles": {"tokenizer_config": GPT | {"bos_token": BOS, "eos_token": EOT, "unk_token": EOT}},
    "mapped": {"tokenizer_config": GPT, "special_tokens_map": MAPPED},
    "by its model": {"tokenizer_config": {}, "config": {"model_type": "gpt2"}, "special_tokens_map": MAPPED},
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_vocab_json_is_read_as_its_configuration_says(name: str, tmp_path: Path) -> None:
    files_of(tmp_path, CONFIGURED[name], SPECIAL)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True), Tokenizer.load(tmp_path)
    assert (ours.model.eos_token, len(ours)) == (theirs.eos_token, len(theirs))
    for text in [*HARD, "xe  <q> <|endoftext|> low"]:
        assert ours.encode(text) == theirs.encode(text), text
    said = [one for one in examine(tmp_path, [], None) if one.because.startswith("vocab.json, merges.txt with trans")]
    assert [one.outcome for one in said] == [FINE]


OTHER = (
    r" is .*, but .* alone are read as GPT-2's; save the tokenizer with transformers once: .*\.save_pretrained\(NEW\)"
)


@pytest.mark.parametrize(
    ("name", "document", "reason"),
    [
        ("tokenizer_config", {"tokenizer_class": "Qwen2Tokenizer"}, f"tokenizer_class{OTHER}"),
        ("config", {"model_type": "roberta"}, f"model_type{OTHER}"),
        ("tokenizer_config", GPT | {"auto_map": {"AutoTokenizer": ["a.A", None]}}, "auto_map is .*, which vocab.json"),
        ("tokenizer_config", {"added_tokens_decoder": {"1": {}}}, "added_tokens_decoder is .*, which vocab.json"),
        ("tokenizer_config", GPT | {"add_prefix_space": True}, "add_prefix_space is true, which vocab.json"),
        (
            "special_tokens_map",
            {"pad_token": "<p>"},
            "pad_token names '<p>', which vocab.json .*save_pretrained",
        ),
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
