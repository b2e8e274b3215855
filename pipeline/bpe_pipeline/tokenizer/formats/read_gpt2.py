"""GPT-2 style files, read: vocab.json (token text -> id) and merges.txt (one `left right` a line).

Neither says which tokens are special, or how text is cut. A configuration next to them names the class of transformers
that reads them, and its tokens; a class that is not known here is refused. Without one, text is cut with GPT-2's
pattern, and special are the tokens that the caller or special_tokens_map.json names, or else those that are no byte and
that no merge makes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bpe_pipeline.base.errors import InputError, shown
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.token_rules import PLAIN_RULE
from bpe_pipeline.pattern.translate import for_tokenizers
from bpe_pipeline.run.ids import check_special_tokens
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats import byte_alphabet
from bpe_pipeline.tokenizer.formats.added_tokens import Settings, read_rule
from bpe_pipeline.tokenizer.formats.fields import Field, read_json, read_text, shortened, token_field
from bpe_pipeline.tokenizer.formats.gpt2_files import HEADER
from bpe_pipeline.tokenizer.formats.read_huggingface import model_of
from bpe_pipeline.tokenizer.formats.tokenizer_json import entry_of, processor_of
from bpe_pipeline.tokenizer.model import Model, bytes_of_letters

_END = "<|endoftext|>"
_CLASSES: dict[str, dict[str, Any]] = {  # of transformers, with the tokens that they name where no file does
    "GPT2Tokenizer": {"unk_token": _END, "bos_token": _END, "eos_token": _END},
    "Qwen2Tokenizer": {"unk_token": _END, "eos_token": _END, "pad_token": _END},
}
_CLASSES_OF_MODELS = {"gpt2": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer"}


def load_gpt2(vocab_file: Location, merges_file: Location, special_tokens: Sequence[str] | None = None) -> Model:
    """Load both files; InputError for a damaged one, and for other files next to them that say more."""
    vocab, text = read_json(vocab_file), read_text(merges_file)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    numbers = [number for number, line in enumerate(lines) if not line.startswith(HEADER)]
    pairs = [lines[number].split(" ") for number in numbers]
    merges = byte_alphabet.read_merges(pairs, merges_file, lambda index: f"line {numbers[index] + 1}")
    name, config = (None if special_tokens is not None else _class_of(vocab_file)) or ("", Field({}, vocab_file))
    entries = _tokens_in_vocabulary(vocab, merges, special_tokens) if not name else []
    if name:
        settings = Settings.next_to(vocab_file)
        named = _CLASSES[name] | settings.config.read(dict) | {"tokenizer_class": name}
        entries = replace(settings, config=Field(named, settings.config.file)).added_tokens([], vocab.read(dict))
    special = {entry["content"]: entry["id"] for entry in entries}
    ends = ((role, token_field(config, role).value) for role in ("bos_token", "eos_token"))
    front, behind = ((text,) if config.flag(f"add_{role}") and text in list(special) else () for role, text in ends)
    byte_level = {"type": "ByteLevel", "add_prefix_space": config.flag("add_prefix_space")}
    is_qwen = name == "Qwen2Tokenizer"
    expression = {"Regex": for_tokenizers(compile_pattern("qwen2"))} if is_qwen else None
    split = {"type": "Split", "pattern": expression, "behavior": "Isolated", "invert": False}
    cut = {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]}
    document = {
        "version": "1.0",
        "added_tokens": entries,
        "normalizer": {"type": "NFC"} if is_qwen else None,
        "pre_tokenizer": cut if is_qwen else byte_level,
        "post_processor": processor_of((front, behind), special),
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab.value, "merges": pairs},
    }
    return model_of(Field(document, vocab_file), config)


def _class_of(vocab_file: Location) -> tuple[str, Field] | None:
    """Return the class of transformers that reads the files, if a configuration says it, and all settings."""
    files = [vocab_file.with_name(name) for name in ("tokenizer_config.json", "config.json")]
    config, of_model = (read_json(file) if file.exists() else Field({}, file) for file in files)
    named = (config.member("tokenizer_class"), of_model.member("tokenizer_class"), of_model.member("model_type"))
    field = next((field_ for field_ in named if field_.value is not None), None)
    name = None if field is None else field.read(str).removesuffix("Fast")
    name = _CLASSES_OF_MODELS.get(str(name), name)
    unread = [field_.member("auto_map") for field_ in (config, of_model)]
    unread += [config.member("added_tokens_decoder")] if name is None else []
    reason = next(
        (field_ for field_ in unread if field_.value is not None), None if name in (None, *_CLASSES) else field
    )
    if reason is not None and not vocab_file.with_name("tokenizer.json").exists():
        reason.refuse(
            f"is {shortened(reason.value)}, but vocab.json and merges.txt alone are read only of the tokenizer_class "
            f"{' or '.join(_CLASSES)}: save the tokenizer with tokenizer.json (transformers does) and load that"
        )
    if name is None or reason is not None:
        return None
    if config.member("added_tokens_decoder").value is None:
        _special_tokens_map(vocab_file)
    together = Settings.next_to(vocab_file).together
    return name, Field(_CLASSES[name] | together.read(dict), config.file)


def _tokens_in_vocabulary(
    vocab: Field, merges: byte_alphabet.Merges, named: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return the special tokens that are named, those of special_tokens_map.json, or what is no byte and not merged."""
    check_special_tokens(named or ())
    rules = dict.fromkeys(named or (), PLAIN_RULE)
    token_map, listed = _special_tokens_map(vocab.file) if named is None else Field(None, vocab.file), vocab.read(dict)
    if named is None and token_map.value is None:
        merged = {left + right for left, right in merges}
        unmade = ((text, b"".join(bytes_of_letters(text))) for text in listed)
        rules = {text: PLAIN_RULE for text, token in unmade if len(token) != 1 and token not in merged}
    for entry in map(token_map.member, token_map.read(dict) if token_map.value is not None else ()):
        for token in entry.elements() if isinstance(entry.value, list) else [entry]:
            plain = isinstance(token.value, str)
            text = token.read(str) if plain else token.member("content").read(str)
            rule = PLAIN_RULE if plain else replace(read_rule(token), special=True)
            if rules.setdefault(text, rule) != rule:
                token.refuse(f"names {text!r} with other rules than before")
    for text in rules:
        if text not in listed:
            raise InputError(f"{vocab.file} lacks the special token {shown(text)}: name one that it has")
    return [entry_of(text, vocab.member(text).read(int), rule) for text, rule in rules.items()]


def _special_tokens_map(vocab_file: Location) -> Field:
    """Read special_tokens_map.json, or null; refuse added_tokens.json, whose tokens nothing says how to recognise."""
    added, file = (vocab_file.with_name(name) for name in ("added_tokens.json", "special_tokens_map.json"))
    if added.exists() and read_json(added).read(dict):
        raise InputError(
            f"{added} adds tokens, and does not say how they are recognised: save the tokenizer with "
            "tokenizer.json (transformers does) and load that"
        )
    return read_json(file) if file.exists() else Field(None, file)
