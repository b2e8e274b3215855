"""Hugging Face's directory: tokenizer.json, tokenizer_config.json and special_tokens_map.json, read and written.

tokenizer.json is also the project's own model file, laid out as the tokenizers library saves it. It is written last: a
directory that has it is complete. The first field whose meaning is not reproduced is refused by name,
and so are ids of added tokens that the tokenizers library would not assign, and rules whose matches could overlap.
Known differences: when decoding, that library reads the characters U+00A1..U+0143 of a *special* token as bytes; its
1.0.0rc3 cuts an apostrophe after `'ſ` (U+017F) in another way than o200k's expression says.
"""

import json
from dataclasses import replace
from typing import Any

from pipeline.base.errors import ExportRefusedError, OtherKindError
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern.token_rules import Preparation
from pipeline.run.ids import Roles
from pipeline.storage import Location
from pipeline.tokenizer.formats import byte_alphabet
from pipeline.tokenizer.formats.added_tokens import (
    CONFIG_NAME,
    Settings,
    check_numbering,
    entry_of,
    read_added_tokens,
    token_field,
)
from pipeline.tokenizer.formats.fields import Field, read_json, steps_of, write_files
from pipeline.tokenizer.formats.kinds import model_type, other_kind
from pipeline.tokenizer.formats.post_processor import processor_of, read_around
from pipeline.tokenizer.formats.pre_tokenizer import REGEX_STAGE, public_pre_tokenizer, read_pre_tokenizer
from pipeline.tokenizer.formats.settings_files import (
    GENERATION_NAME,
    MAP_NAME,
    existing_only,
    generation_content,
    map_content,
    read_files,
    read_template,
    template_contents,
)
from pipeline.tokenizer.model import ChatTemplate, Model, Unknown, could_be_whole_piece

_PATTERN_KEY = "bpe_pipeline_pattern"  # in tokenizer_config.json: a pattern without a name, as the user wrote it
_SEPARATOR_KEY = "bpe_pipeline_separator"  # what separated the training corpus, whatever ends a text or a turn

MODEL_NAME = "tokenizer.json"
EDITABLE = (CONFIG_NAME, MAP_NAME, GENERATION_NAME)
"""Files of settings, which people change by hand: they say what tokens are for, not what ids a text has."""

_UNLIMITED_LENGTH = int(1e30)  # what transformers writes for a model without a maximum length
_OWN_SETTINGS = {  # of tokenizer_config.json: what the model says, and what would have others say it
    *("bos_token", "eos_token", "pad_token", "add_bos_token", "add_eos_token", "add_prefix_space"),
    *(_PATTERN_KEY, _SEPARATOR_KEY, "added_tokens_decoder", "tokenizer_class", "auto_map"),
}
_EMPTY_TAIL = '"vocab": {},\n    "merges": []\n  }\n}'
_KEPT_SETTINGS = {  # what is written where a file does not say it; unk_token and others matter if bytes have no token
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
}
_APPLIED_BY_LIBRARIES = ("truncation", "padding")  # by tokenizers, to the ids of a text; transformers replaces both
_BYTE_FALLBACK = "<0x..>"  # the unknown token of a file whose lost bytes have tokens of their own, which are refused


def load_huggingface(file: Location) -> Model:
    """Load one tokenizer.json; InputError where it is damaged or says what is not reproduced."""
    settings = Settings.next_to(file)
    return model_of(read_json(file), settings.together, settings)


def model_of(document: Field, config: Field, settings: Settings | None = None) -> Model:
    """Return the model of a tokenizer.json and its tokenizer_config.json; InputError as for `load_huggingface`.

    settings: files that may name more added tokens.
    """
    file = document.file
    model = document.member("model")
    if kind := other_kind(document):  # first, since all else differs with it
        raise OtherKindError(f"{file} is {kind}: this package has byte-level BPE")
    Field(model_type(model), file, "model.type").expect("BPE")
    if "version" in document.read(dict):
        document.member("version").expect("1.0")
    _check_decoder(document.member("decoder"))
    pattern, space_in_front = read_pre_tokenizer(document.member("pre_tokenizer"), config.member(_PATTERN_KEY))
    unknown = _check_settings(model)
    whole_pieces = model.flag("ignore_merges")
    nfc = _normalizes(document.member("normalizer"))
    added, vocab = document.member("added_tokens"), model.member("vocab")
    if settings is not None:
        own = added.elements() if added.value is not None else []
        added = Field(settings.added_tokens(own, vocab.read(dict)), file, added.path)
    special_tokens, rules = read_added_tokens(added, vocab, normalizes=nfc, whole_pieces=whole_pieces)
    listed = model.member("merges")
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in listed.read(list)]
    merges = byte_alphabet.read_merges(pairs, file, lambda index: f"{listed.path}[{index}]")
    tokens = byte_alphabet.read_tokens(vocab, byte_alphabet.only_special(special_tokens, vocab, merges))
    vocabulary = byte_alphabet.vocabulary_of(file, tokens, merges, special_tokens, lossy=True)
    check_numbering(added, vocab)
    named = token_field(config, _SEPARATOR_KEY)
    if named.value is not None and named.read(str) not in special_tokens:
        named.refuse(f"names {named.value!r}, which is not one of the special tokens")
    post_processor = document.member("post_processor")
    front, behind = around = read_around(post_processor, special_tokens)
    other = None if post_processor.value == processor_of(around, special_tokens) else post_processor.value
    files = read_files(file.parent)
    template = read_template(config, files)
    return Model(
        vocabulary,
        pattern,
        _roles(config, special_tokens, template),
        whole_pieces=whole_pieces,
        preparation=Preparation(nfc, space_in_front, rules),
        front=front,
        behind=behind,
        post_processor=None if other is None else json.dumps(other, ensure_ascii=False),
        chat_template=template,
        settings={name: value for name, value in config.read(dict).items() if name not in _OWN_SETTINGS},
        kept={name: document.member(name).value for name in _APPLIED_BY_LIBRARIES}
        | {name: model.member(name).value for name in _KEPT_SETTINGS if model.member(name).value is not None},
        files=files,
        unknown=unknown if vocabulary.lost_bytes else Unknown(),
    )


def chat_template_of(directory: Location) -> ChatTemplate | None:
    """Return the chat template of a directory, if it has one."""
    config = directory / CONFIG_NAME
    return read_template(read_json(config), read_files(directory)) if config.exists() else None


def check_edited(file: Location, vocabulary: Vocabulary) -> None:
    """Raise InputError if a file of `EDITABLE` names a special token, or an id, that the vocabulary does not have."""
    document = read_json(file)
    for name in document.read(dict):
        field = token_field(document, name)
        named = field.value if isinstance(field.value, list) else [field.value]
        if name.endswith("_token_id"):
            wrong: list[int | str] = [
                one for one in named if isinstance(one, int) and not 0 <= one <= vocabulary.max_id
            ]
        elif name.endswith(("_token", "_tokens")) or name == _SEPARATOR_KEY:
            wrong = [one for one in named if isinstance(one, str) and one not in vocabulary.special_tokens]
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
    texts = [token_field(config, name).value for name in ("bos_token", "eos_token", "pad_token", _SEPARATOR_KEY)]
    roles = Roles(*(text if isinstance(text, str) and text in special_tokens else None for text in texts))
    implied = template.start_among(special_tokens) if template else None
    bos, eos = None if roles.bos == implied else roles.bos, None if roles.eos == roles.separator else roles.eos
    return replace(roles, bos=bos, eos=eos)


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
    own = {"add_prefix_space": model.preparation.space_in_front, "tokenizer_class": "PreTrainedTokenizerFast"}
    config = existing_only(plain | {**model.settings} | named | own, model)
    # tokenizer.json holds the pattern in the spelling of its engine; one without a name is also kept as the user wrote.
    if model.pattern.name is None:
        config[_PATTERN_KEY] = model.pattern.expression
    if model.separator is not None:
        config[_SEPARATOR_KEY] = model.separator
    template, templates = template_contents(model)
    if template is not None:
        config["chat_template"] = template
    contents: dict[str, str | bytes] = {MAP_NAME: map_content(model, named), **templates}
    contents[CONFIG_NAME] = json.dumps(config, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    if (generation := generation_content(model)) is not None:
        contents[GENERATION_NAME] = generation
    return write_files(directory, contents | {MODEL_NAME: _tokenizer_json(model, pre_tokenizer)})


def _tokenizer_json(model: Model, pre_tokenizer: dict[str, Any]) -> str:
    added_tokens = []
    for text, id_ in sorted(model.vocabulary.special_tokens.items(), key=lambda item: item[1]):
        rule = model.preparation.rule_of(text)
        if model.whole_pieces and could_be_whole_piece(text, rule):
            raise ExportRefusedError(
                f"tokenizer.json cannot hold the special token {text!r} where whole pieces are looked up before "
                "merging: a piece may have the same name there. Choose a special token such as '<|endoftext|>'"
            )
        added_tokens.append(entry_of(text, id_, rule))
    processor = processor_of((model.front, model.behind), model.vocabulary.special_tokens)
    document: dict[str, Any] = {
        "version": "1.0",
        **{name: model.kept.get(name) for name in _APPLIED_BY_LIBRARIES},
        "added_tokens": added_tokens,
        "normalizer": {"type": "NFC"} if model.preparation.nfc else None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": json.loads(model.post_processor) if model.post_processor else processor,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            **{name: model.kept.get(name, default) for name, default in _KEPT_SETTINGS.items()},
            "ignore_merges": model.whole_pieces,
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
