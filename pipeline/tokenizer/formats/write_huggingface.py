"""The Hugging Face directory: tokenizer.json, tokenizer_config.json and special_tokens_map.json.

tokenizer.json is also the project's own model file. It is laid out as the tokenizers library itself would save it, so
that loading and saving it there changes nothing. It is written last: where it stands, the directory is complete.

Known difference: on decoding, that library reads the characters U+00A1..U+0143 of a *special* token as bytes; ids are
not concerned.
"""

import json
from typing import Any

from pipeline.base.errors import ExportRefusedError
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern import PatternSequence
from pipeline.pattern.translate import for_tokenizers
from pipeline.storage import Location
from pipeline.storage.atomic import make_directory, write_whole
from pipeline.tokenizer.formats.byte_alphabet import listed_ids, listed_pairs, quoted, vocabulary_texts
from pipeline.tokenizer.model import PATTERN_KEY, PLAIN_RULE, REGEX_STAGE, Model, SpecialRule, could_be_whole_piece

UNLIMITED_LENGTH = int(1e30)  # what transformers writes for a model without a maximum length
_EMPTY_TAIL = '"vocab": {},\n    "merges": []\n  }\n}'


def export_huggingface(model: Model, directory: Location) -> list[Location]:
    """Write the directory; ExportRefusedError where tokenizers would cut or name tokens differently."""
    return _write(model, directory, tokenizer_json(model, _pre_tokenizer(model)))


def write_model(model: Model, directory: Location) -> list[Location]:
    """Write the directory for `Tokenizer.load`: the export, also for a pattern that tokenizers would cut differently.

    In that case tokenizer.json names a pre-tokenizer that only this project has (`REGEX_STAGE`), so that every other
    reader refuses the file instead of giving other ids. Raises ExportRefusedError as the export does for tokens.
    """
    try:
        pre_tokenizer = _pre_tokenizer(model)
    except ExportRefusedError:
        pre_tokenizer = {"type": REGEX_STAGE, "pattern": model.pattern.name or model.pattern.expression}
    return _write(model, directory, tokenizer_json(model, pre_tokenizer))


def _write(model: Model, directory: Location, model_text: str) -> list[Location]:
    written = [
        (directory / "special_tokens_map.json", json_text(_named_tokens(model))),
        (directory / "tokenizer_config.json", json_text(_config(model))),
        (directory / "tokenizer.json", model_text),
    ]
    make_directory(directory)
    for path, content in written:
        write_whole(path, content)
    return [path for path, _ in written]


def json_text(value: dict[str, Any]) -> str:
    """Write small JSON for people to read, names in order."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def _named_tokens(model: Model) -> dict[str, str]:
    named = {"bos_token": model.bos_token, "eos_token": model.eos_token, "pad_token": model.pad_token}
    return {name: token for name, token in named.items() if token is not None}


def _config(model: Model) -> dict[str, Any]:
    # tokenizer.json holds the pattern as its engine needs it; one without a name is noted as the user wrote it.
    own = model.pattern.name is None and not isinstance(model.pattern, PatternSequence)
    noted = {PATTERN_KEY: model.pattern.expression} if own else {}
    template = {"chat_template": model.chat_template.jinja} if model.chat_template else {}
    return _named_tokens(model) | {
        "add_prefix_space": model.preparation.space_in_front,
        "clean_up_tokenization_spaces": False,
        "model_max_length": UNLIMITED_LENGTH,
        "tokenizer_class": "PreTrainedTokenizerFast",
        **noted,
        **template,
    }


def tokenizer_json(model: Model, pre_tokenizer: dict[str, Any]) -> str:
    """Return the text of tokenizer.json (pretty, no line end at the end of the file)."""
    rules = model.preparation.rules
    for text in model.vocabulary.special_tokens if model.whole_pieces else ():
        if could_be_whole_piece(text, rules.get(text, PLAIN_RULE)):
            raise ExportRefusedError(
                f"tokenizer.json cannot hold the special token {text!r} where whole pieces are looked up before "
                "merging: a piece may have the same name there. Choose a special token such as '<|endoftext|>'"
            )
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": id_, "content": text, **_rule_fields(model.preparation.rules.get(text, PLAIN_RULE))}
            for text, id_ in sorted(model.vocabulary.special_tokens.items(), key=lambda item: item[1])
        ],
        "normalizer": {"type": "NFC"} if model.preparation.nfc else None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": json.loads(model.post_processor) if model.post_processor else None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": model.whole_pieces,
            "vocab": {},
            "merges": [],
        },
    }
    # The two long members are written by hand: json with indentation takes a second for them.
    head = json.dumps(document, ensure_ascii=False, indent=2).removesuffix(_EMPTY_TAIL)
    return head + _vocab_and_merges(model.vocabulary)


def _rule_fields(rule: SpecialRule) -> dict[str, bool]:
    return {
        "single_word": rule.single_word,
        "lstrip": rule.left_space,
        "rstrip": rule.right_space,
        "normalized": rule.normalized,
        "special": rule.control,
    }


def _pre_tokenizer(model: Model) -> dict[str, Any]:
    pattern, in_front = model.pattern, model.preparation.space_in_front
    byte_level = {"type": "ByteLevel", "add_prefix_space": in_front, "trim_offsets": True, "use_regex": False}
    if pattern.name == "none":
        return byte_level
    if in_front:  # a Split before ByteLevel would have the space put in front of each piece
        if pattern.name != "gpt2":
            raise ExportRefusedError(
                "tokenizer.json cannot say that a space is put in front of texts that are cut with another pattern "
                "than GPT-2's: use the pattern gpt2"
            )
        return byte_level | {"use_regex": True}
    steps = pattern.steps if isinstance(pattern, PatternSequence) else (pattern,)
    splits = [
        {"type": "Split", "pattern": {"Regex": for_tokenizers(step)}, "behavior": "Isolated", "invert": False}
        for step in steps
    ]
    return {"type": "Sequence", "pretokenizers": [*splits, byte_level]}


def _vocab_and_merges(vocabulary: Vocabulary) -> str:
    names = quoted(vocabulary_texts(vocabulary, "tokenizer.json"))
    vocab = listed_ids(names, between=": ", after=",\n      ")
    pairs = listed_pairs(
        names, vocabulary.left, vocabulary.right, between=",\n        ", after="\n      ],\n      [\n        "
    )
    merges = f"[\n      [\n        {pairs}\n      ]\n    ]" if pairs else "[]"
    return f'"vocab": {{\n      {vocab}\n    }},\n    "merges": {merges}\n  }}\n}}'
