"""Parts of tokenizer.json and its configuration, in the spelling that is written, and read again."""

from collections.abc import Mapping
from typing import Any

from bpe_pipeline.pattern.token_rules import TokenRule

PATTERN_KEY = "bpe_pipeline_pattern"  # in tokenizer_config.json: a pattern without a name, as the user wrote it
ENDING_KEY = "bpe_pipeline_split_at"  # what also ended documents there
SEPARATOR_KEY = "bpe_pipeline_separator"  # what separated the training corpus, whatever ends a text or a turn
REGEX_STAGE = "BpePipelineRegex"  # a pre-tokenizer that other readers refuse, for what tokenizers would cut differently
APPLIED_BY_LIBRARIES = ("truncation", "padding")  # by tokenizers, to the ids of a text; transformers replaces both
MODEL_SETTINGS = {  # what is written where a file does not say it; unk_token and others matter if bytes have no token
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
}

# The digits of Digits: \p{N}, and the numbers that its tables (Unicode 17) have beyond ours.
_LATER = r"\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6"
_NUMBERS = rf"\p{{N}}{_LATER}"
DIGIT = f"[{_NUMBERS}]"

# Digits and then GPT-2's pattern, as StarCoder and SmolLM cut, in one step: a text ends before a digit.
DIGITS_THEN_GPT2 = {
    individual: rf"{digits}|'(?:[sdmt]|ll|ve|re)| ?\p{{L}}+| ?[^\s\p{{L}}{_NUMBERS}]+|\s+(?![^\s{_NUMBERS}])|\s+"
    for individual, digits in ((True, DIGIT), (False, rf"\p{{N}}+|[{_LATER}]+"))
}

Around = tuple[tuple[str, ...], tuple[str, ...]]  # the special tokens in front of a text and behind it


def entry_of(text: str, id_: int, rule: TokenRule) -> dict[str, Any]:
    """Return the object that says in tokenizer.json how a token is found."""
    flags = {name: getattr(rule, name) for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
    return {"id": id_, "content": text, **flags}


def processor_of(around: Around, special_tokens: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the post-processor that puts tokens around a text, and around each text of a pair."""
    if not any(around):
        return None
    first, second = (
        [
            *({"SpecialToken": {"id": text, "type_id": type_id}} for text in around[0]),
            {"Sequence": {"id": name, "type_id": type_id}},
            *({"SpecialToken": {"id": text, "type_id": type_id}} for text in around[1]),
        ]
        for type_id, name in enumerate("AB")
    )
    tokens = {
        text: {"id": text, "ids": [special_tokens[text]], "tokens": [text]} for text in sorted({*around[0], *around[1]})
    }
    return {"type": "TemplateProcessing", "single": first, "pair": [*first, *second], "special_tokens": tokens}


def with_names(processor: Any, names: Mapping[Any, Any]) -> Any:
    """Return a post-processor with these names of the tokens that it adds: texts in place of ids, or the other way."""
    kind = None if processor is None else processor["type"]
    if kind == "Sequence":
        return processor | {"processors": [with_names(step, names) for step in processor["processors"]]}
    if kind == "TemplateProcessing":
        special = (processor.get("special_tokens") or {}).items()
        named = {text: {**entry, "ids": [names[id_] for id_ in entry["ids"]]} for text, entry in special}
        return processor | {"special_tokens": named}
    if kind in ("RobertaProcessing", "BertProcessing"):
        ends = {end: processor[end] for end in ("sep", "cls")}
        return processor | {end: [*pair[:1], *(names[id_] for id_ in pair[1:])] for end, pair in ends.items()}
    return processor
