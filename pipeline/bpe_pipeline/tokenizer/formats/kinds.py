"""What a tokenizer.json is if it is none of byte-level BPE: the name of its kind, for one sentence."""

from itertools import chain
from typing import Any

from bpe_pipeline.tokenizer.formats.fields import Field

_OTHER_MODELS = {
    "WordPiece": "a WordPiece tokenizer, as BERT's",
    "Unigram": "a Unigram tokenizer of SentencePiece, as T5's",
    "WordLevel": "a vocabulary of whole words (WordLevel)",
}
_FORMS = ("NFKC", "NFKD", "NFD", "Lowercase", "StripAccents", "BertNormalizer", "Precompiled")


def other_kind(document: Field) -> str:
    """Say what a tokenizer is, and what reads it, that is not byte-level BPE or changes the text; empty for others."""
    kind = _kind(document)
    more = "; its .model file is read by `report --compare` alone" if "SentencePiece" in kind else ""
    return kind and f"{kind}, which no command reads{more}"


def model_type(model: Field) -> str:
    """Return the type of a model; older files leave it to what their model has."""
    if model.member("type").value is not None:
        return str(model.member("type").value)
    kinds = {"merges": "BPE", "unk_id": "Unigram", "max_input_chars_per_word": "WordPiece"}
    return next((kind for name, kind in kinds.items() if model.member(name).value is not None), "WordLevel")


def _kind(document: Field) -> str:
    model = document.member("model")
    if kind := _OTHER_MODELS.get(model_type(model)):
        return kind
    if model.member("end_of_word_suffix").value or model.member("continuing_subword_prefix").value:
        return "a BPE tokenizer that marks where words end, as CLIP's"
    stages = {name: _types_in(document.member(name).value) for name in ("normalizer", "pre_tokenizer", "decoder")}
    byte_level = "ByteLevel" in {*stages["pre_tokenizer"], *stages["decoder"]}
    if not byte_level and (
        model.member("byte_fallback").value or {"Replace", "Metaspace"} & {*chain(*stages.values())}
    ):
        return "a SentencePiece-style BPE tokenizer, as Llama 2's and Gemma's"
    if byte_level and (form := next((form_ for form_ in stages["normalizer"] if form_ in _FORMS), None)):
        return f"a byte-level tokenizer with the normalizer {form} (only NFC is supported)"
    return ""


def _types_in(stage: Any) -> list[str]:
    """Return the types of a part of a tokenizer and of the steps in it."""
    if isinstance(stage, list):
        return [name for step in stage for name in _types_in(step)]
    if not isinstance(stage, dict):
        return []
    types = [stage["type"]] if isinstance(stage.get("type"), str) else []
    return types + [name for step in stage.values() if isinstance(step, list) for name in _types_in(step)]
