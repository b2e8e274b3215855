"""A tokenizer as llama.cpp reads it: a GGUF file without tensors, written with the gguf package.

The file cannot hold a pattern; it names one of the pre-tokenizers that llama.cpp was compiled with. Known differences:
llama.cpp's tables are of Unicode 15, an apostrophe before U+017F starts no contraction there, and each byte that is not
UTF-8 becomes a U+FFFD of its own. With `superbpe-digits` it counts only ASCII digits by three, and a number of 30,000
digits crashes it. Bytes of tokens are written in the byte alphabet, special tokens as they are.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from bpe_pipeline.base.errors import shown
from bpe_pipeline.pattern.presets import PRESETS, superword_presets
from bpe_pipeline.pattern.token_rules import PLAIN_RULE
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import make_directory, whole_file
from bpe_pipeline.tokenizer.formats import byte_alphabet
from bpe_pipeline.tokenizer.formats.fields import GGUF_NAME, refuse_export
from bpe_pipeline.tokenizer.model import Model, could_be_whole_pre_token

_WHOLE_PRE_TOKENS = ("llama-bpe",)  # pre-tokens that are tokens are not merged
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
# What llama.cpp makes a control token, or the end of a text, because of its name.
_CONTROL_LOOKING = re.compile(r"_?[<\[].*[a-z].*[>\]\[]", re.IGNORECASE | re.DOTALL)
_GENERATION_MARK = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")


def export(model: Model, directory: Location) -> list[Location]:
    """Write the file; ExportRefusedError where llama.cpp would produce other ids."""
    refuse_export(_reasons_against(model))
    texts = byte_alphabet.vocabulary_texts(model.vocabulary, "a GGUF file")
    make_directory(directory)
    with whole_file(directory / GGUF_NAME) as partial:
        _write(partial, model, texts, _pre_tokenizer(model))
    return [directory / GGUF_NAME]


def _pre_tokenizer(model: Model) -> str:
    """Return llama.cpp's name of what cuts alike; empty where it has none."""
    preset = model.pattern.preset
    return preset.llama_cpp if preset else ""


def _reasons_against(model: Model) -> Iterator[str]:
    """Yield why llama.cpp would not read the file, or produce other ids."""
    if find_spec("gguf") is None:
        yield "a GGUF file is written with the gguf package: pip install 'bpe-pipeline[gguf]'"
    pre = _pre_tokenizer(model)
    if not pre:
        yield f"llama.cpp does not split as the pattern {model.pattern.shown!r} does: {_other_pre_tokenizers(model)}"
    if model.preparation.nfc:
        yield (
            "a GGUF file is not written: llama.cpp does not put text into NFC, so text that is not in NFC would get "
            "other ids; `export --without-normalizer` writes the file all the same, as Qwen's own are made"
        )
    yield from byte_alphabet.unsaid(model, "a GGUF file")
    yield from _special_tokens_found_elsewhere(model, pre)
    yield from _tokens_made_otherwise(model, pre)
    # It has one token for each side of a text, and behind it that is the eos.
    if len(model.front) > 1 or model.behind not in ((), (model.eos_token,)):
        yield (
            f"a GGUF file is not written: llama.cpp adds one token in front of a text, and only the eos token "
            f"behind it, but this tokenizer adds {', '.join((*model.front, *model.behind))}. Use the hf export"
        )


def _other_pre_tokenizers(model: Model) -> str:
    if model.pattern.preset and model.pattern.preset.llama_cpp_differs:
        return model.pattern.preset.llama_cpp_differs
    known = [name for name, preset in PRESETS.items() if preset.llama_cpp]
    known += [f"{name} (of superwords)" for name, preset in superword_presets().items() if preset.llama_cpp]
    return f"it has the patterns {', '.join(known)} and some that we lack"


def _special_tokens_found_elsewhere(model: Model, pre: str) -> Iterator[str]:
    """Yield why llama.cpp would find special tokens elsewhere in a text, or take them for something else."""
    special_tokens = model.vocabulary.special_tokens
    if not special_tokens:
        yield "a GGUF file is not written without special tokens: llama.cpp would take token 11 for the end of a text"
    starts: dict[str, list[str]] = {}
    for text in special_tokens:
        for end in range(1, len(text)):
            starts.setdefault(text[:end], []).append(text)
    for text in special_tokens:
        if "\0" in text:
            yield f"a GGUF file cannot hold the special token {shown(text)}: llama.cpp truncates it at NUL"
        # We take the leftmost, llama.cpp the longest anywhere.
        for other in (other for at in range(1, len(text)) for other in starts.get(text[at:], ())):
            if other != text and len(other.encode()) >= len(text.encode()):
                yield (
                    f"a GGUF file is not written for the special tokens {text!r} and {other!r}: where they overlap, "
                    "llama.cpp takes the longer one, not the first"
                )
        if pre in _WHOLE_PRE_TOKENS and (
            could_be_whole_pre_token(text, PLAIN_RULE) or len(model.pattern.cut(text)) == 1
        ):
            yield (
                f"a GGUF file cannot hold the special token {shown(text)}: llama.cpp would take ordinary text for it. "
                "Choose a special token such as '<|endoftext|>'"
            )


def _tokens_made_otherwise(model: Model, pre: str) -> Iterator[str]:
    """Yield why llama.cpp would make other ids from ordinary tokens."""
    vocabulary = model.vocabulary
    if not vocabulary.left:
        yield "a GGUF file is not written without merges: llama.cpp does not read it"
    if model.trained:  # each token is a part of a pre-token, and reachable
        return
    lost = model.unreachable_tokens() if model.whole_pre_tokens != (pre in _WHOLE_PRE_TOKENS) else []
    if lost:
        does = "looks up" if pre in _WHOLE_PRE_TOKENS else "does not look up"
        yield (
            f"a GGUF file is not written: the merges never make {len(lost)} of the tokens (the first is "
            f"{vocabulary.tokens[lost[0]]!r}, id {lost[0]}), and llama.cpp {does} whole pre-tokens. Use the hf export"
        )
    for id_, text in vocabulary.texts.items():
        if _CONTROL_LOOKING.fullmatch(text):
            yield f"a GGUF file is not written: llama.cpp may take the token {text!r} (id {id_}) for a special token"


def _write(path: Any, model: Model, texts: dict[int, str], pre: str) -> None:
    from gguf import GGUFWriter

    vocabulary = model.vocabulary
    tokens, types = _listed(model, texts)
    writer = GGUFWriter(path, "llama")  # the architecture; llama.cpp does not look at it for a vocabulary alone
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([f"{texts[a]} {texts[b]}" for a, b in zip(vocabulary.left, vocabulary.right, strict=True)])
    eos = model.eos_token or next(iter(vocabulary.special_tokens))
    added = next(iter(model.front), None)
    # Without an id, token 11 starts texts there; as in GPT-2's own files, the end of a text is also its start.
    writer.add_bos_token_id(vocabulary.special_tokens[added or model.bos_token or eos])
    writer.add_eos_token_id(vocabulary.special_tokens[eos])
    if model.pad_token:
        writer.add_pad_token_id(vocabulary.special_tokens[model.pad_token])
    writer.add_add_bos_token(added is not None)  # where a file does not say it, `llama-bpe` adds one
    writer.add_add_eos_token(bool(model.behind))
    if template := model.chat_template:
        if ends := [text for text in template.writes("turn end") if text in vocabulary.special_tokens]:
            writer.add_eot_token_id(vocabulary.special_tokens[ends[0]])
        writer.add_chat_template(without_generation_marks(template.jinja))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _listed(model: Model, texts: dict[int, str]) -> tuple[list[str], list[int]]:
    """Return the texts and types of all ids from 0; ids that stand for nothing are unused."""
    vocabulary = model.vocabulary
    tokens = [texts.get(id_) or f"[no token {id_}]" for id_ in range(vocabulary.max_id + 1)]
    types = [_NORMAL if id_ in vocabulary.tokens else _UNUSED for id_ in range(vocabulary.max_id + 1)]
    for text, id_ in vocabulary.special_tokens.items():
        types[id_] = _CONTROL if model.preparation.rule_of(text).special else _USER_DEFINED
    return tokens, types


def without_generation_marks(jinja: str) -> str:
    """Return a chat template whose marks of generation, unknown to plain Jinja, are branches always taken."""
    return _GENERATION_MARK.sub(lambda mark: f"{{%{mark[1]} {'endif' if mark[2] else 'if true'} {mark[3]}%}}", jinja)
