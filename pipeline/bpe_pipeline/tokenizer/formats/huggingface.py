"""Hugging Face's directory, written: tokenizer.json, tokenizer_config.json and special_tokens_map.json.

tokenizer.json is also the project's own model file, laid out as the tokenizers library saves it. It is written last: a
directory that has it is complete. Known differences: when decoding, that library reads the characters U+00A1..U+0143 of
a *special* token as bytes; its 1.0.0rc3 cuts an apostrophe after `'ſ` (U+017F) in another way than o200k's expression
says.
"""

import json
from collections.abc import Iterator
from typing import Any

from bpe_pipeline.base.errors import ExportRefusedError, shown
from bpe_pipeline.pattern.compiled import PatternSequence
from bpe_pipeline.pattern.presets import PRESETS
from bpe_pipeline.pattern.translate import for_tokenizers
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats import byte_alphabet
from bpe_pipeline.tokenizer.formats.fields import refuse_export, write_files
from bpe_pipeline.tokenizer.formats.settings_files import (
    CONFIG_NAME,
    GENERATION_NAME,
    MAP_NAME,
    existing_only,
    generation_content,
    templates_of,
    written,
    written_templates,
)
from bpe_pipeline.tokenizer.formats.tokenizer_json import (
    APPLIED_BY_LIBRARIES,
    DIGITS_THEN_GPT2,
    ENDING_KEY,
    MODEL_SETTINGS,
    PATTERN_KEY,
    REGEX_STAGE,
    SEPARATOR_KEY,
    entry_of,
    processor_of,
    with_names,
)
from bpe_pipeline.tokenizer.model import Model, could_be_whole_pre_token

MODEL_NAME = "tokenizer.json"
EDITABLE = (CONFIG_NAME, MAP_NAME, GENERATION_NAME)
"""Files of settings, which people change by hand: they say what tokens are for, not what ids a text has."""

_ANY_CLASS = "PreTrainedTokenizerFast"  # which cuts as tokenizer.json says; those of families have their own patterns
_UNLIMITED_LENGTH = int(1e30)  # what transformers writes for a model without a maximum length
_EMPTY_TAIL = '"vocab": {},\n    "merges": []\n  }\n}'


def export(model: Model, directory: Location) -> list[Location]:
    """Write the directory; ExportRefusedError where tokenizers would cut or name tokens differently."""
    return _write(model, directory, public_pre_tokenizer(model))


def write_model(model: Model, directory: Location) -> list[Location]:
    """Write the directory for `Tokenizer.load`; a pattern that tokenizers would cut differently is named as our own."""
    try:
        pre_tokenizer = public_pre_tokenizer(model)
    except ExportRefusedError:
        pre_tokenizer = {"type": REGEX_STAGE, "pattern": model.pattern.name or model.pattern.expression}
    return _write(model, directory, pre_tokenizer)


def _write(model: Model, directory: Location, pre_tokenizer: dict[str, Any]) -> list[Location]:
    tokens = {"bos_token": model.bos_token, "eos_token": model.eos_token, "pad_token": model.pad_token}
    named = {name: token for name, token in tokens.items() if token is not None}
    plain = {"clean_up_tokenization_spaces": False, "model_max_length": _UNLIMITED_LENGTH}
    plain_class = {"add_prefix_space": model.preparation.space_in_front, "tokenizer_class": _ANY_CLASS}
    config = existing_only(plain | {**model.settings} | named | plain_class, model)
    # tokenizer.json holds the pattern in the spelling of its engine; one that is no preset is also kept as we read it.
    if model.pattern.name not in PRESETS:
        config[PATTERN_KEY] = model.pattern.expression
    if model.separator is not None:
        config[SEPARATOR_KEY] = model.separator
    if model.also_ending:
        config[ENDING_KEY] = list(model.also_ending)
    if templates := templates_of(model):
        config["chat_template"] = written_templates(templates)
    contents: dict[str, str | bytes] = {MAP_NAME: written(named), CONFIG_NAME: written(config)}
    if generation := generation_content(model):
        contents[GENERATION_NAME] = generation
    return write_files(directory, contents | {MODEL_NAME: _tokenizer_json(model, pre_tokenizer)})


def _reasons_against(model: Model) -> Iterator[str]:
    for text in model.vocabulary.special_tokens if model.whole_pre_tokens else ():
        if could_be_whole_pre_token(text, model.preparation.rule_of(text)):
            yield (
                f"tokenizer.json cannot hold the special token {shown(text)} where whole pre-tokens are looked up "
                "before merging: a pre-token may have the same name there. "
                "Choose a special token such as '<|endoftext|>'"
            )


def _tokenizer_json(model: Model, pre_tokenizer: dict[str, Any]) -> str:
    refuse_export(_reasons_against(model))
    special = model.vocabulary.special_tokens
    in_order = sorted(special.items(), key=lambda item: item[1])
    added_tokens = [entry_of(text, id_, model.preparation.rule_of(text)) for text, id_ in in_order]
    processor = processor_of((model.front, model.behind), special)
    document: dict[str, Any] = {
        "version": "1.0",
        **{name: model.kept.get(name) for name in APPLIED_BY_LIBRARIES},
        "added_tokens": added_tokens,
        "normalizer": {"type": "NFC"} if model.preparation.nfc else None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": with_names(json.loads(model.post_processor), special) if model.post_processor else processor,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            **{name: model.kept.get(name, default) for name, default in MODEL_SETTINGS.items()},
            "ignore_merges": model.whole_pre_tokens,
            "vocab": {},
            "merges": [],
        },
    }
    # The two long members are written by hand: json with indentation takes a second for them.
    head = json.dumps(document, ensure_ascii=False, indent=2).removesuffix(_EMPTY_TAIL)
    vocabulary = model.vocabulary
    names = byte_alphabet.quoted(byte_alphabet.vocabulary_texts(vocabulary, MODEL_NAME))
    vocab = byte_alphabet.joined(names.values(), map(str, names), between=": ", after=",\n      ")
    pairs = byte_alphabet.joined(
        map(names.__getitem__, vocabulary.left),
        map(names.__getitem__, vocabulary.right),
        between=",\n        ",
        after="\n      ],\n      [\n        ",
    )
    merges = f"[\n      [\n        {pairs}\n      ]\n    ]" if pairs else "[]"
    return f'{head}"vocab": {{\n      {vocab}\n    }},\n    "merges": {merges}\n  }}\n}}'


def public_pre_tokenizer(model: Model) -> dict[str, Any]:
    """Return what tokenizers reads; ExportRefusedError where it would cut differently."""
    pattern, in_front = model.pattern, model.preparation.space_in_front
    byte_level = {"type": "ByteLevel", "add_prefix_space": in_front, "trim_offsets": True, "use_regex": False}
    if pattern.name == "none":
        return byte_level
    if pattern.name == "gpt2":  # as GPT-2's own file
        return byte_level | {"use_regex": True}
    for individual, expression in DIGITS_THEN_GPT2.items():
        if pattern.expression == expression and not in_front:  # as published
            digits = {"type": "Digits", "individual_digits": individual}
            return {"type": "Sequence", "pretokenizers": [digits, byte_level | {"use_regex": True}]}
    if in_front:  # a Split before ByteLevel would have the space put in front of each pre-token
        raise ExportRefusedError(
            "tokenizer.json cannot say that a space is put in front of texts that are split with another pattern than "
            "GPT-2's: use the pattern gpt2"
        )
    steps = pattern.steps if isinstance(pattern, PatternSequence) else (pattern,)
    splits = [
        {"type": "Split", "pattern": {"Regex": for_tokenizers(step)}, "behavior": "Isolated", "invert": False}
        for step in steps
    ]
    whole = len(splits) - (pattern.of_letters if isinstance(pattern, PatternSequence) else 0)
    return {"type": "Sequence", "pretokenizers": [*splits[:whole], byte_level, *splits[whole:]]}
