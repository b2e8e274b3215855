"""Hugging Face's directory, read: tokenizer.json and the files of settings next to it.

The first field whose meaning is not reproduced is refused by name, and so are ids of added tokens that the tokenizers
library would not assign, and rules whose matches could overlap.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpe_pipeline.base.errors import OtherKindError
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.pattern.token_rules import Preparation
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats import byte_alphabet
from bpe_pipeline.tokenizer.formats.added_tokens import Settings, check_numbering, entries_of, read_added_tokens
from bpe_pipeline.tokenizer.formats.fields import Field, read_bytes, read_json, steps_of, token_field
from bpe_pipeline.tokenizer.formats.kinds import model_type, other_kind
from bpe_pipeline.tokenizer.formats.post_processor import read_around
from bpe_pipeline.tokenizer.formats.pre_tokenizer import read_pre_tokenizer
from bpe_pipeline.tokenizer.formats.settings_files import (
    GENERATION_NAME,
    chosen_template,
    read_templates,
    written_templates,
)
from bpe_pipeline.tokenizer.formats.tokenizer_json import (
    APPLIED_BY_LIBRARIES,
    ENDING_KEY,
    MODEL_SETTINGS,
    PATTERN_KEY,
    SEPARATOR_KEY,
    processor_of,
    with_names,
)
from bpe_pipeline.tokenizer.model import ChatTemplate, Model, Unknown

_OWN_SETTINGS = {  # of tokenizer_config.json: what the model says, and what would have others say it
    *("bos_token", "eos_token", "pad_token", "add_bos_token", "add_eos_token", "add_prefix_space"),
    *(PATTERN_KEY, SEPARATOR_KEY, ENDING_KEY, "added_tokens_decoder", "tokenizer_class", "auto_map"),
}
_BYTE_FALLBACK = "<0x..>"  # the unknown token of a file whose lost bytes have tokens of their own, which are refused


def load_huggingface(file: Location) -> Model:
    """Load one tokenizer.json; InputError where it is damaged or says what is not reproduced."""
    settings = Settings.next_to(file)
    return model_of(read_json(file), settings.together, settings)


def model_of(document: Field, config: Field, settings: Settings | None = None) -> Model:
    """Return the model of a tokenizer.json and its tokenizer_config.json; InputError as for `load_huggingface`.

    settings: files that have to agree with its added tokens.
    """
    file = document.file
    model = document.member("model")
    if kind := other_kind(document):  # first, since all else differs with it
        raise OtherKindError(f"{file} is {kind}: this package has byte-level BPE")
    Field(model_type(model), file, "model.type").expect("BPE")
    if "version" in document.read(dict):
        document.member("version").expect("1.0")
    _check_decoder(document.member("decoder"))
    pattern, space_in_front = read_pre_tokenizer(document.member("pre_tokenizer"), config.member(PATTERN_KEY))
    unknown = _check_settings(model)
    whole_pre_tokens = model.flag("ignore_merges")
    nfc = _normalizes(document.member("normalizer"))
    added, vocab = document.member("added_tokens"), model.member("vocab")
    special_tokens, rules = read_added_tokens(added, vocab, normalizes=nfc, whole_pre_tokens=whole_pre_tokens)
    merge_list = model.member("merges")
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in merge_list.read(list)]
    merges = byte_alphabet.read_merges(pairs, file, lambda index: f"{merge_list.path}[{index}]")
    tokens = byte_alphabet.read_tokens(vocab, byte_alphabet.only_special(special_tokens, vocab, merges))
    vocabulary = byte_alphabet.vocabulary_of(file, tokens, merges, special_tokens, lossy=True)
    check_numbering(added, vocab)
    if settings is not None:
        settings.check(entries_of(added))
    separator = token_field(config, SEPARATOR_KEY)
    if separator.value is not None and separator.read(str) not in special_tokens:
        separator.refuse(f"names {separator.value!r}, which is not one of the special tokens")
    post_processor = document.member("post_processor")
    front, behind = around = read_around(post_processor, special_tokens)
    is_plain = post_processor.value == processor_of(around, special_tokens)
    texts = {id_: text for text, id_ in special_tokens.items()}
    templates = read_templates(config)
    template = chosen_template(templates)
    return Model(
        vocabulary,
        pattern,
        _roles(config, special_tokens, template),
        whole_pre_tokens=whole_pre_tokens,
        preparation=Preparation(nfc, space_in_front, rules),
        front=front,
        behind=behind,
        post_processor=None if is_plain else json.dumps(with_names(post_processor.value, texts), ensure_ascii=False),
        chat_template=template,
        settings=_kept_settings(config, templates),
        kept={name: document.member(name).value for name in APPLIED_BY_LIBRARIES}
        | {name: model.member(name).value for name in MODEL_SETTINGS if model.member(name).value is not None},
        generation=_generation(file.with_name(GENERATION_NAME)),
        unknown=unknown if vocabulary.lost_bytes else Unknown(),
        also_ending=_texts(config.member(ENDING_KEY)),
    )


def _kept_settings(config: Field, templates: Mapping[str, str]) -> dict[str, Any]:
    """Return what tokenizer_config.json says that the model does not, with templates in the form that is written."""
    members = config.read(dict) | ({"chat_template": written_templates(templates)} if templates else {})
    return {name: value for name, value in members.items() if name not in _OWN_SETTINGS}


def _generation(file: Location) -> bytes:
    return read_bytes(file) if file.exists() else b""


def _texts(field: Field) -> tuple[str, ...]:
    """Read a list of texts, which may be missing."""
    if field.value is None:
        return ()
    texts = [element.read(str) for element in field.elements()]
    if "" in texts or len(set(texts)) < len(texts):
        field.refuse("has an empty text, or one twice")
    return tuple(texts)


def check_edited(file: Location, vocabulary: Vocabulary) -> None:
    """Raise InputError if a file of `EDITABLE` names a special token, or an id, that the vocabulary does not have."""
    document = read_json(file)
    for name in document.read(dict):
        field = token_field(document, name)
        named = field.value if isinstance(field.value, list) else [field.value]
        if name.endswith("_token_id"):
            wrong: list[int | str] = [
                token for token in named if isinstance(token, int) and not 0 <= token <= vocabulary.max_id
            ]
        elif name.endswith(("_token", "_tokens")) or name == SEPARATOR_KEY:
            wrong = [token for token in named if isinstance(token, str) and token not in vocabulary.special_tokens]
        else:
            continue
        if wrong:
            field.refuse(f"names {wrong[0]!r}, which is not one of the special tokens")


def _check_settings(model: Field) -> Unknown:
    """Refuse settings of a model that change ids; return what text gets for bytes without a token."""
    model.member("dropout").expect(None, 0.0, 0)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        model.member(name).expect(None, "")
    unk_token = model.member("unk_token")
    unknown = Unknown(None if unk_token.value is None else unk_token.read(str), model.flag("fuse_unk"))
    falls_back = model.flag("byte_fallback") and any(
        text.startswith("<0x") for text in model.member("vocab").read(dict)
    )
    return Unknown(_BYTE_FALLBACK) if falls_back else unknown


def _check_decoder(field: Field) -> None:
    """Refuse a decoder other than ByteLevel, alone or in a Sequence, where Fuse after it changes nothing."""
    for step in steps_of(field, "decoders"):
        step.member("type").expect("ByteLevel", *(["Fuse"] if step is not field else []))


def _normalizes(field: Field) -> bool:
    """Whether text is put into NFC; any other normalizer is refused."""
    return True in [_is_nfc(step) for step in steps_of(field, "normalizers")]  # each is checked


def _is_nfc(field: Field) -> bool:
    if field.value == {"type": "Strip", "strip_left": False, "strip_right": False}:
        return False
    field.member("type").expect("NFC")
    return True


def _roles(config: Field, special_tokens: dict[str, int], template: ChatTemplate | None) -> Roles:
    """Read the roles of special tokens, but for those that follow from separator and template, as in a trained model.

    Ordinary tokens, which other trainers' files may name, have none.
    """
    texts = [token_field(config, name).value for name in ("bos_token", "eos_token", "pad_token", SEPARATOR_KEY)]
    roles = Roles(*(text if isinstance(text, str) and text in special_tokens else None for text in texts))
    implied = template.start_among(special_tokens) if template else None
    bos, eos = None if roles.bos == implied else roles.bos, None if roles.eos == roles.separator else roles.eos
    return replace(roles, bos=bos, eos=eos)
