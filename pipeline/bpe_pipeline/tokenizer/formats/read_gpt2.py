"""GPT-2 style files, read: vocab.json (token text -> id) and merges.txt (one `left right` a line).

Neither says which tokens are special, or how text is cut: it is cut with GPT-2's pattern, and a configuration next to
them that says something else is refused. Special are the tokens that the caller names, or those with a role in the
files of settings, or else those that are no byte and that no merge makes.
"""

from collections.abc import Sequence
from dataclasses import replace

from bpe_pipeline.base.errors import InputError, shown
from bpe_pipeline.pattern.token_rules import PLAIN_RULE, TokenRule
from bpe_pipeline.run.ids import check_special_tokens
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats import byte_alphabet
from bpe_pipeline.tokenizer.formats.added_tokens import Settings, read_if_there, read_rule, refuse_settings
from bpe_pipeline.tokenizer.formats.fields import Field, read_json, read_text, shortened
from bpe_pipeline.tokenizer.formats.gpt2_files import HEADER
from bpe_pipeline.tokenizer.formats.read_huggingface import model_of
from bpe_pipeline.tokenizer.formats.tokenizer_json import entry_of
from bpe_pipeline.tokenizer.model import Model, bytes_of_letters

_CLASSES = (None, "gpt2", "GPT2Tokenizer", "GPT2TokenizerFast")
_BY_DEFAULT = dict.fromkeys(("unk_token", "bos_token", "eos_token"), "<|endoftext|>")  # of that class
_SAY_MORE = ("auto_map", "added_tokens_decoder", "add_prefix_space", "add_bos_token", "add_eos_token")


def load_gpt2(vocab_file: Location, merges_file: Location, special_tokens: Sequence[str] | None = None) -> Model:
    """Load both files; InputError for a damaged one, and for other files next to them that say more."""
    vocab, text = read_json(vocab_file), read_text(merges_file)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    numbers = [number for number, line in enumerate(lines) if not line.startswith(HEADER)]
    pairs = [lines[number].split(" ") for number in numbers]
    merges = byte_alphabet.read_merges(pairs, merges_file, lambda index: f"line {numbers[index] + 1}")
    alone = special_tokens is not None or vocab_file.with_name("tokenizer.json").exists()
    settings = Settings(*[Field({}, vocab_file)] * 3) if alone else _settings(vocab_file)
    check_special_tokens(special_tokens or ())
    rules = dict.fromkeys(special_tokens or (), PLAIN_RULE) | _named_rules(settings)
    if special_tokens is None and not rules:
        merged = {left + right for left, right in merges}
        unmade = ((text, b"".join(bytes_of_letters(text))) for text in vocab.read(dict))
        rules = {text: PLAIN_RULE for text, token in unmade if len(token) != 1 and token not in merged}
    for text, field in settings.named():
        if text not in vocab.read(dict):
            refuse_settings(field, f"names {text!r}, which {vocab.file.name} does not have")
    for text in rules:
        if text not in vocab.read(dict):
            raise InputError(f"{vocab.file} lacks the special token {shown(text)}: name one that it has")
    document = {
        "added_tokens": [entry_of(text, vocab.member(text).read(int), rule) for text, rule in rules.items()],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab.value, "merges": pairs},
    }
    return model_of(Field(document, vocab_file), settings.together)


def _settings(vocab_file: Location) -> Settings:
    """Read the files of settings; refuse those that say more than GPT-2's class of transformers has by default."""
    settings = Settings.next_to(vocab_file)
    of_model = read_if_there(vocab_file.with_name("config.json"))
    classes = (
        settings.config.member("tokenizer_class"),
        of_model.member("tokenizer_class"),
        of_model.member("model_type"),
    )
    named = next((field for field in classes if field.value is not None), classes[0])
    if named.value not in _CLASSES:
        refuse_settings(named, f"is {shortened(named.value)}, but vocab.json and merges.txt alone are read as GPT-2's")
    for field in [of_model.member("auto_map"), *map(settings.config.member, _SAY_MORE)]:
        if field.value:
            refuse_settings(field, f"is {shortened(field.value)}, which vocab.json and merges.txt do not say")
    if settings.added.value:
        refuse_settings(settings.added, "adds tokens, and does not say how they are recognised")
    if named.value is None:
        return settings
    roles = {name: text for name, text in _BY_DEFAULT.items() if name not in settings.map_.value}
    return replace(settings, config=Field(roles | settings.config.read(dict), settings.config.file))


def _named_rules(settings: Settings) -> dict[str, TokenRule]:
    """Return the rules of the tokens that settings name."""
    rules: dict[str, TokenRule] = {}
    for text, field in settings.named():
        rule = PLAIN_RULE if isinstance(field.value, str) else replace(read_rule(field), special=True)
        if rules.setdefault(text, rule) != rule:
            refuse_settings(field, f"names {text!r} with other rules than before")
    return rules
