"""Read tokenizer.json, Hugging Face's format and the project's own model file.

Accepted is byte-level BPE as this project writes it, and as other trainers do where every field has a meaning that we
reproduce; the first field that has not is refused by name. tokenizer_config.json beside, where there is one, says which
special token pads, and how the user wrote a pattern that has no name.
"""

import re
from collections.abc import Iterator

from pipeline.errors import ExportRefusedError, InputError, PatternError, UsageError
from pipeline.load.fields import Field, read_json, shortened
from pipeline.model import PATTERN_KEY, REGEX_STAGE, Model
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.pattern.presets import PRESETS
from pipeline.pattern.translate import for_tokenizers
from pipeline.storage import Location
from pipeline.vocabulary import Vocabulary, text_to_token

CONFIG_NAME = "tokenizer_config.json"


def load_huggingface(file: Location) -> Model:
    """Load one tokenizer.json; InputError where it is damaged or says what we would not reproduce."""
    document = read_json(file)
    document.member("version").expect("1.0")
    for name in ("truncation", "padding", "normalizer"):
        document.member(name).expect(None)
    _check_post_processor(document.member("post_processor"))
    document.member("decoder").member("type").expect("ByteLevel")
    config_file = file.with_name(CONFIG_NAME)
    config = read_json(config_file) if config_file.exists() else Field({}, config_file)
    pattern = _pattern(document.member("pre_tokenizer"), config.member(PATTERN_KEY))
    model = document.member("model")
    _check_model(model)
    special_tokens = _special_tokens(document.member("added_tokens"))
    tokens = _tokens(model.member("vocab"), special_tokens)
    try:
        vocabulary = Vocabulary.from_tokens(tokens, _merges(model.member("merges")), special_tokens)
    except (InputError, UsageError) as reason:
        raise InputError(str(reason) if str(file) in str(reason) else f"{file}: {reason}") from None
    pad_token = _pad_token(config.member("pad_token"), special_tokens)
    whole_pieces = model.member("ignore_merges").value is True
    return Model(vocabulary, pattern, pad_token=pad_token, whole_pieces=whole_pieces)


def _check_post_processor(field: Field) -> None:
    if field.value is None:
        return
    kind = field.member("type")
    kind.expect("ByteLevel", "TemplateProcessing")
    if kind.value == "ByteLevel":
        return  # it moves offsets, never ids
    for part in field.member("single").elements():
        if "Sequence" not in part.read(dict):
            part.refuse("adds tokens to every text, which is not reproduced")


def _check_model(model: Field) -> None:
    model.member("type").expect("BPE")
    for name in ("dropout", "unk_token"):
        model.member(name).expect(None)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        model.member(name).expect(None, "")
    for name in ("fuse_unk", "byte_fallback"):
        model.member(name).expect(None, False)
    model.member("ignore_merges").expect(None, False, True)


def _pattern(field: Field, noted: Field) -> CompiledPattern:
    if field.member("type").value == REGEX_STAGE:
        expression = field.member("pattern")
        try:
            return compile_pattern(expression.read(str))
        except PatternError as reason:
            expression.refuse(f"is not a pattern: {reason}")
    stages = field.member("pretokenizers").elements() if field.member("type").value == "Sequence" else [field]
    *splits, last = stages if stages else [field]
    last.member("type").expect("ByteLevel")
    last.member("add_prefix_space").expect(False)
    own_regex = last.member("use_regex")
    own_regex.expect(None, True, False)
    if not splits:
        return compile_pattern("none" if own_regex.value is False else "gpt2")
    own_regex.expect(False)
    if len(splits) > 1:
        field.refuse(f"has {len(splits)} splits before ByteLevel, but only one is reproduced exactly")
    split = splits[0]
    split.member("type").expect("Split")
    split.member("behavior").expect("Isolated")
    split.member("invert").expect(None, False)
    expression = split.member("pattern").member("Regex")
    try:
        return _recovered(expression.read(str), noted)
    except (PatternError, ExportRefusedError) as reason:
        expression.refuse(f"is not reproduced exactly: {reason}")


def _recovered(expression: str, noted: Field) -> CompiledPattern:
    """Find the pattern that is written as `expression` for tokenizers: the one noted beside, a named one, or itself."""
    candidates = [noted.read(str)] if noted.value is not None else [*PRESETS, _our_escapes(expression)]
    for candidate in candidates:
        compiled = compile_pattern(candidate)
        if for_tokenizers(compiled) == expression:
            return compiled
    raise PatternError(f"{shortened(expression)} is not known to mean the same here and in tokenizers")


def _our_escapes(expression: str) -> str:
    """Write `\\x{410}`, as tokenizers' engine has it, as `\\U00000410`, as ours has it."""
    return re.sub(
        r"\\(?:x\{([0-9A-Fa-f]{1,8})\}|.)",
        lambda escape: f"\\U{int(escape[1], 16):08X}" if escape[1] else escape[0],
        expression,
        flags=re.DOTALL,
    )


def _special_tokens(field: Field) -> dict[str, int]:
    special_tokens: dict[str, int] = {}
    for entry in field.elements() if field.value is not None else []:
        text = entry.member("content").read(str)
        if text in special_tokens:
            entry.refuse(f"names {text!r} for the second time")
        entry.member("special").expect(True)
        for name in ("single_word", "lstrip", "rstrip"):
            entry.member(name).expect(None, False)
        entry.member("normalized").expect(None, False, True)  # there is no normalizer
        special_tokens[text] = entry.member("id").read(int)
    return dict(sorted(special_tokens.items(), key=lambda item: item[1]))


def _tokens(field: Field, special_tokens: dict[str, int]) -> dict[int, bytes]:
    tokens: dict[int, bytes] = {}
    for text, id_ in field.read(dict).items():
        if type(id_) is not int:
            field.member(text).read(int)
        if text in special_tokens:
            if special_tokens[text] != id_:
                field.refuse(f"gives {text!r} the id {id_}, but added_tokens {special_tokens[text]}")
            continue
        if id_ in tokens:
            field.refuse(f"gives the id {id_} to {text!r} and to another token")
        try:
            tokens[id_] = text_to_token(text)
        except UnicodeEncodeError:
            field.refuse(
                f"has the token {text!r}, which is not written in the byte alphabet: not a byte-level vocabulary"
            )
    return tokens


def _merges(field: Field) -> Iterator[tuple[bytes, bytes]]:
    for index, pair in enumerate(field.read(list)):
        parts = pair.split(" ") if isinstance(pair, str) else pair
        try:
            left, right = parts
            yield text_to_token(left), text_to_token(right)
        except (TypeError, ValueError):
            Field(pair, field.file, f"{field.place}[{index}]").refuse("is not a pair of tokens in the byte alphabet")


def _pad_token(field: Field, special_tokens: dict[str, int]) -> str | None:
    if isinstance(field.value, dict):
        field = field.member("content")
    if field.value is None:
        return None
    if field.read(str) not in special_tokens:
        field.refuse(f"names {field.value!r}, which is not one of the special tokens")
    return field.read(str)
