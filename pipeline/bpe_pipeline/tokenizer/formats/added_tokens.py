"""The added tokens of a tokenizer.json, and whether the files of settings next to it agree.

tokenizer.json lists each token with its id and its flags. tokenizer_config.json, special_tokens_map.json and
added_tokens.json may name them. A token that only they know, or one of another id or with other flags, has transformers
find other tokens than the file says: it is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.pattern.token_rules import PLAIN_RULE, TokenRule
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.fields import Field, read_json, token_field
from bpe_pipeline.tokenizer.formats.settings_files import CONFIG_NAME, MAP_NAME, TOKEN_LISTS
from bpe_pipeline.tokenizer.model import could_be_whole_pre_token, text_of

_ADDED_NAME = "added_tokens.json"
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


def read_rule(entry: Field) -> TokenRule:
    """Read how tokenizer.json says that a token is found."""
    return TokenRule(*map(entry.flag, _FLAGS))


def refuse_settings(field: Field, reason: str) -> NoReturn:
    """Refuse what only files of settings say of tokens, with the way to files that agree."""
    home = str(field.file.parent)
    field.refuse(
        f"{reason}; save the tokenizer with transformers once: "
        f"AutoTokenizer.from_pretrained({home!r}).save_pretrained(NEW), and load NEW"
    )


@dataclass(frozen=True)
class Settings:
    """The files of settings next to a vocabulary.

    config: tokenizer_config.json. map_, added: special_tokens_map.json and added_tokens.json; empty where transformers
    does not read them.
    """

    config: Field
    map_: Field
    added: Field

    @classmethod
    def next_to(cls, file: Location) -> "Settings":
        """Read them."""
        config = read_if_there(file.with_name(CONFIG_NAME))
        more_files = [file.with_name(name) for name in (MAP_NAME, _ADDED_NAME)]
        has_decoder = config.member("added_tokens_decoder").value is not None
        return cls(config, *(Field({}, file_) if has_decoder else read_if_there(file_) for file_ in more_files))

    @property
    def together(self) -> Field:
        """The configuration with the tokens of the map, by their texts, in place of its own."""
        named = {name: token_field(self.map_, name).value for name in self.map_.read(dict) if name.endswith("_token")}
        lists = {name: self.map_.value[name] for name in TOKEN_LISTS if name in self.map_.value}
        return Field(self.config.read(dict) | lists | named, self.config.file)

    def named(self) -> Iterator[tuple[str, Field]]:
        """Yield the tokens that have a role or another name, or are listed as special."""
        for document in (self.config, self.map_):
            for name in document.value:
                field = document.member(name)
                fields = [field] if name.endswith("_token") else []
                if name in TOKEN_LISTS and isinstance(field.value, dict):
                    fields = [*map(field.member, field.value)]
                elif name in TOKEN_LISTS and isinstance(field.value, list):
                    fields = field.elements()
                for one in fields:
                    if isinstance(text := text_of(one.value), str) and text:
                        yield text, one

    def check(self, listed: Sequence[Field]) -> None:
        """Refuse settings that do not agree with the added tokens that tokenizer.json lists."""
        self.config.member("split_special_tokens").expect(None, False)
        for entry in listed:
            entry.member("special").expect(True, False)
        ids = {entry.member("content").read(str): entry.member("id").read(int) for entry in listed}
        rules = {entry.member("content").value: read_rule(entry) for entry in listed}
        roles = {text: field for text, field in self.named() if field.path.endswith("_token")}
        decoder = self.config.member("added_tokens_decoder")
        for name in () if decoder.value is None else decoder.read(dict):
            entry = decoder.member(name)
            text, rule = entry.member("content").read(str), _rule_of_settings(entry)
            if text in roles:
                rule = _with_role(rule, roles[text])
            if name != str(ids.get(text)):
                refuse_settings(entry, f"is {text!r}, which tokenizer.json {_says(ids.get(text))}")
            if other := [flag for flag in _FLAGS if getattr(rule, flag) != getattr(rules[text], flag)]:
                refuse_settings(entry, f"has {text!r} with another {' and '.join(other)} than tokenizer.json")
        for text in self.added.read(dict):
            field = self.added.member(text)
            if field.value != ids.get(text):
                refuse_settings(
                    field, f"has {text!r} with the id {field.value}, which tokenizer.json {_says(ids.get(text))}"
                )
        for text, field in self.named():
            if text not in ids:
                refuse_settings(field, f"names {text!r}, which tokenizer.json does not list as an added token")
            if text in roles and not rules[text].special:
                refuse_settings(field, f"names {text!r}, which tokenizer.json does not list as special")


def _says(id_: int | None) -> str:
    return "does not list as an added token" if id_ is None else f"lists with the id {id_}"


def _rule_of_settings(entry: Field) -> TokenRule:
    """Read how files of settings say that a token is found: they may leave flags out."""
    rule = read_rule(entry)
    return rule if entry.member("normalized").value is not None else replace(rule, normalized=not rule.special)


def _with_role(rule: TokenRule, field: Field) -> TokenRule:
    """Return the rule of a token that has a role, which makes it special."""
    says = not isinstance(field.value, dict) or field.value.get("normalized") is not None
    return replace(rule, special=True, normalized=rule.normalized and (rule.special or says))


def read_if_there(file: Location) -> Field:
    """Read an object from a file; a missing one reads as an empty object."""
    document = read_json(file) if file.exists() else Field({}, file)
    document.read(dict)
    return document


def read_added_tokens(
    field: Field, vocab: Field, *, normalizes: bool, whole_pre_tokens: bool
) -> tuple[dict[str, int], dict[str, TokenRule]]:
    """Return text -> id in order of ids, and the rules of the tokens that do not have the plain one."""
    ordinary = vocab.read(dict)
    ids: dict[str, int] = {}
    rules: dict[str, TokenRule] = {}
    entries = entries_of(field)
    for entry in entries:
        text = entry.member("content").read(str)
        if text in ids:
            entry.refuse(f"names {text!r} for the second time")
        rules[text] = read_rule(entry)
        if whole_pre_tokens and text in ordinary and could_be_whole_pre_token(text, rules[text]):
            entry.refuse(
                f"names {text!r}, which a whole pre-token could be too: with ignore_merges that is not reproduced"
            )
        ids[text] = entry.member("id").read(int)
    normalized: dict[str, str] = {}
    for entry, (text, rule) in zip(entries, rules.items(), strict=True):
        if normalizes and rule.normalized and normalized.setdefault(nfc(text), text) != text:
            entry.refuse(f"is the same as {normalized[nfc(text)]!r} in NFC")
    if len(set(ids.values())) < len(ids):
        field.refuse("assigns one id to two tokens")
    unlike = {text: rule for text, rule in rules.items() if rule != PLAIN_RULE}
    return dict(sorted(ids.items(), key=lambda item: item[1])), unlike


def check_numbering(field: Field, vocab: Field) -> None:
    """Refuse ids that versions of tokenizers would not assign: those of the vocabulary, or the next ones."""
    ordinary_ids = vocab.read(dict)
    highest, new = -1, 0
    for entry in entries_of(field):
        text, id_ = entry.member("content").value, entry.member("id")
        expected = ordinary_ids.get(text)
        if expected is None:
            expected = len(ordinary_ids) + new
            new += 1
            if expected != max(highest + 1, len(ordinary_ids)):
                id_.refuse(f"is {id_.value}, but tokenizers assigns {text!r} the id {expected}, or {highest + 1}")
        if id_.value != expected:
            id_.refuse(f"is {id_.value}, but tokenizers assigns {text!r} the id {expected}")
        highest = max(highest, expected)


def entries_of(field: Field) -> list[Field]:
    """Step into the list of added tokens, which may be missing."""
    return field.elements() if field.value is not None else []
