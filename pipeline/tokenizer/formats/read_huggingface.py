"""Read tokenizer.json, Hugging Face's format and the project's own model file.

Accepted is byte-level BPE as this project writes it, and as other trainers do where every field has a meaning that we
reproduce; the first field that has not is refused by name. tokenizer_config.json beside, where there is one, says which
special token pads, how the user wrote a pattern that has no name, and the chat template.

Ids are those without the special tokens that a post-processor adds around a text (`add_special_tokens=False` there).
"""

import json
from typing import Any, NoReturn

from pipeline.base.errors import InputError, UsageError
from pipeline.merges.vocabulary import Vocabulary, text_to_token, texts_to_tokens
from pipeline.storage import Location
from pipeline.tokenizer.formats.added_tokens import check_numbering, read_added_tokens, special_rules
from pipeline.tokenizer.formats.fields import Field, read_json, read_text
from pipeline.tokenizer.formats.splits import read_pre_tokenizer
from pipeline.tokenizer.model import PATTERN_KEY, ChatTemplate, Model, Preparation

CONFIG_NAME = "tokenizer_config.json"
TEMPLATE_NAME = "chat_template.jinja"


def load_huggingface(file: Location) -> Model:
    """Load one tokenizer.json; InputError where it is damaged or says what we would not reproduce."""
    document = read_json(file)
    document.member("version").expect("1.0")
    for name in ("truncation", "padding"):
        document.member(name).expect(None)
    document.member("decoder").member("type").expect("ByteLevel")
    config_file = file.with_name(CONFIG_NAME)
    config = read_json(config_file) if config_file.exists() else Field({}, config_file)
    pattern, space_in_front = read_pre_tokenizer(document.member("pre_tokenizer"), config.member(PATTERN_KEY))
    model = document.member("model")
    _check_model(model)
    nfc = _normalizes(document.member("normalizer"))
    whole_pieces = model.member("ignore_merges").value is True
    added = read_added_tokens(
        document.member("added_tokens"), model.member("vocab"), normalizes=nfc, whole_pieces=whole_pieces
    )
    special_tokens = {token.text: token.id for token in added}
    tokens = _tokens(model.member("vocab"), special_tokens)
    try:
        vocabulary = Vocabulary.from_tokens(tokens, _merges(model.member("merges")), special_tokens)
    except (InputError, UsageError) as reason:
        raise InputError(str(reason) if str(file) in str(reason) else f"{file}: {reason}") from None
    check_numbering(document.member("added_tokens"), model.member("vocab"))
    pad_token = _pad_token(config.member("pad_token"), special_tokens)
    return Model(
        vocabulary,
        pattern,
        pad_token=pad_token,
        whole_pieces=whole_pieces,
        preparation=Preparation(nfc, space_in_front, special_rules(added, normalizes=nfc)),
        post_processor=_post_processor(document.member("post_processor")),
        chat_template=_chat_template(config, special_tokens),
    )


def _normalizes(field: Field) -> bool:
    """Whether text is put into NFC; any other normalizer is refused."""
    if field.value is None:
        return False
    kind = field.member("type")
    if kind.value == "Sequence":
        parts = [_normalizes(part) for part in field.member("normalizers").elements()]  # each is checked
        return any(parts)
    kind.expect("NFC")
    return True


def _post_processor(field: Field) -> str | None:
    """The post-processor as JSON: it moves offsets or adds tokens around a text, both of which ids here are without."""
    if field.value is None:
        return None
    _check_post_processor(field)
    return json.dumps(field.value, ensure_ascii=False)


def _check_post_processor(field: Field) -> None:
    kind = field.member("type")
    kind.expect("ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing", "Sequence")
    for part in field.member("processors").elements() if kind.value == "Sequence" else []:
        _check_post_processor(part)


def _chat_template(config: Field, special_tokens: dict[str, int]) -> ChatTemplate | None:
    """The chat template that stands beside, with the tokens that begin and end what it writes."""
    beside = config.file.with_name(TEMPLATE_NAME)
    jinja = read_text(beside) if beside.exists() else config.member("chat_template").value
    if not isinstance(jinja, str):
        return None
    bos_token, eos_token = (_named_token(config.member(name), special_tokens) for name in ("bos_token", "eos_token"))
    return ChatTemplate(jinja, bos_token, eos_token)


def _check_model(model: Field) -> None:
    model.member("type").expect("BPE")
    for name in ("dropout", "unk_token"):
        model.member(name).expect(None)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        model.member(name).expect(None, "")
    for name in ("fuse_unk", "byte_fallback"):
        model.member(name).expect(None, False)
    model.member("ignore_merges").expect(None, False, True)


def _tokens(field: Field, special_tokens: dict[str, int]) -> dict[int, bytes]:
    listed = field.read(dict)
    if set(map(type, listed.values())) - {int}:
        _refuse_tokens(field, special_tokens)
    ordinary = {text: id_ for text, id_ in listed.items() if special_tokens.get(text) != id_}
    try:
        tokens = dict(zip(ordinary.values(), texts_to_tokens(ordinary), strict=True))
    except UnicodeEncodeError:
        _refuse_tokens(field, special_tokens)
    if len(tokens) < len(ordinary) or ordinary.keys() & special_tokens.keys():
        _refuse_tokens(field, special_tokens)
    return tokens


def _refuse_tokens(field: Field, special_tokens: dict[str, int]) -> NoReturn:
    """Refuse the first token that is none, or has an id that it cannot have."""
    texts: dict[int, str] = {}
    for text, id_ in field.read(dict).items():
        if type(id_) is not int:
            field.member(text).read(int)
        if text in special_tokens:
            if special_tokens[text] != id_:
                field.refuse(f"gives {text!r} the id {id_}, but added_tokens {special_tokens[text]}")
            continue
        if texts.setdefault(id_, text) != text:
            field.refuse(f"gives the id {id_} to {text!r} and to another token")
        try:
            text_to_token(text)
        except UnicodeEncodeError:
            field.refuse(
                f"has the token {text!r}, which is not written in the byte alphabet: not a byte-level vocabulary"
            )
    raise AssertionError("every token has an id of its own")


def _merges(field: Field) -> list[tuple[bytes, bytes]]:
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in field.read(list)]
    if not pairs:
        return []
    try:
        left, right = zip(*pairs, strict=True)
        return list(zip(texts_to_tokens(left), texts_to_tokens(right), strict=True))
    except (TypeError, ValueError):
        _refuse_merges(field, pairs)


def _refuse_merges(field: Field, pairs: list[Any]) -> NoReturn:
    """Refuse the first merge that is not a pair of tokens."""
    for index, pair in enumerate(pairs):
        try:
            left, right = pair
            text_to_token(left + right)
        except (TypeError, ValueError):
            Field(pair, field.file, f"{field.place}[{index}]").refuse("is not a pair of tokens in the byte alphabet")
    raise AssertionError("every merge is a pair")


def _pad_token(field: Field, special_tokens: dict[str, int]) -> str | None:
    text = _content(field)
    if text.value is not None and text.read(str) not in special_tokens:
        text.refuse(f"names {text.value!r}, which is not one of the special tokens")
    return text.value if text.value is None else text.read(str)


def _named_token(field: Field, special_tokens: dict[str, int]) -> str | None:
    text = _content(field).value
    return text if isinstance(text, str) and text in special_tokens else None


def _content(field: Field) -> Field:
    """A token is named by its text, or by an object that holds it."""
    return field.member("content") if isinstance(field.value, dict) else field
