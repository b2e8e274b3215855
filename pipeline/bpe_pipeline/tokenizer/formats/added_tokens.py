"""The added tokens of a tokenizer's directory, as transformers puts them together from all of its files.

tokenizer.json lists them. tokenizer_config.json (`added_tokens_decoder`, tokens with a role, more special tokens) may
name others, and other flags; without `added_tokens_decoder` so may special_tokens_map.json and added_tokens.json. A
token that tokenizer.json lacks gets its id in the vocabulary, or the next one. Refused is what transformers refuses,
and a file that says another id.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.pattern.token_rules import PLAIN_RULE, TokenRule
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.fields import Field, read_json, token_field
from bpe_pipeline.tokenizer.formats.settings_files import CONFIG_NAME, MAP_NAME
from bpe_pipeline.tokenizer.formats.tokenizer_json import entry_of
from bpe_pipeline.tokenizer.model import NAMED, could_be_whole_pre_token

_ADDED_NAME = "added_tokens.json"
_FILE_FIRST = (None, "PreTrainedTokenizer", "TokenizersBackend", "LlamaTokenizer")  # classes that read tokenizer.json
_ROLES = tuple(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_MORE, _OLD_MORE, _DECODER = "extra_special_tokens", "additional_special_tokens", "added_tokens_decoder"
Token = tuple[str, TokenRule | None, Field]  # its text, its rule (None: transformers refuses it) and what names it


def read_rule(entry: Field) -> TokenRule:
    """Read how tokenizer.json says that a token is found."""
    return TokenRule(*map(entry.flag, ("lstrip", "rstrip", "single_word", "normalized", "special")))


def _rule_of(entry: Field, *, special: bool) -> TokenRule:
    """Read how files of settings say that a token is found: their objects may leave flags out."""
    rule = replace(read_rule(entry), special=special)
    return rule if entry.member("normalized").value is not None else replace(rule, normalized=not special)


def _with_role(rule: TokenRule, field: Field) -> TokenRule:
    """Return the rule of a token that has a role, which makes it special."""
    says = not isinstance(field.value, dict) or field.value.get("normalized") is not None
    return replace(rule, special=True, normalized=rule.normalized and (rule.special or says))


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
        config = _read(file.with_name(CONFIG_NAME))
        more_files = [file.with_name(name) for name in (MAP_NAME, _ADDED_NAME)]
        has_decoder = config.member(_DECODER).value is not None
        return cls(config, *(Field({}, file_) if has_decoder else _read(file_) for file_ in more_files))

    @property
    def together(self) -> Field:
        """The configuration with the tokens of the map, by their texts, in place of its own."""
        named = {name: token_field(self.map_, name).value for name in self.map_.read(dict) if name.endswith("_token")}
        if self.map_.value.keys() & {_MORE, _OLD_MORE}:
            named[_MORE] = [token[0] for token in self._listed()]
        return Field(self.config.read(dict) | named, self.config.file)

    def added_tokens(self, listed: Sequence[Field], vocab: Mapping[str, int]) -> list[Any]:
        """Return all added tokens as tokenizer.json lists them. listed: its own; vocab: its vocabulary, text -> id."""
        self.config.member("split_special_tokens").expect(None, False)
        listed_rules = {entry.member("content").read(str): read_rule(entry) for entry in listed}
        for entry in listed:
            entry.member("special").expect(True, False)
        if len(listed_rules) < len(listed) or "" in listed_rules:
            return [entry.value for entry in listed]  # which is refused
        rules, new = listed_rules.copy(), dict[str, tuple[int | None, Field]]()
        named = [*self._named()]
        roles = {text for text, _, _ in named}
        for id_, (text, rule, field) in sorted(self._numbered(listed).items()):
            if text not in rules:
                new[text] = id_, field
            rules[text] = _with_role(rule, field) if text in roles else rule
        known = set(rules)
        for text, named_rule, field in (*named, *self._listed()):
            if text in known or not text:
                continue
            if named_rule is None:
                field.refuse(f'names {text!r}, which no other file lists, without "__type": "AddedToken"')
            rule = _with_role(named_rule, field) if text in roles else named_rule
            if rules.setdefault(text, rule) != rule:
                field.refuse(f"names {text!r} with other rules than before")
            new.setdefault(text, (None, field))
        self._refuse_forgotten(listed_rules, new)
        known_entries = [
            entry.value if listed_rules[text] == rules[text] else entry_of(text, entry.value["id"], rules[text])
            for text, entry in zip(listed_rules, listed, strict=True)
        ]
        ids = _ids_of(new, [entry.member("id").read(int) for entry in listed], vocab)
        return [*known_entries, *(entry_of(text, id_, rules[text]) for text, id_ in ids.items())]

    def _named(self) -> Iterator[Token]:
        """Yield the tokens that have a name, in the order in which transformers adds them."""
        config, token_map = self.config, self.map_
        for name in _ROLES:
            source = token_map if name in token_map.value else config
            yield from _token(source.member(name), special=source is token_map or None)
        other_names = [name for name in config.value if name.endswith("_token") and name not in _ROLES]
        object_names = [name for name in other_names if isinstance(config.value[name], dict)]
        map_names = [name for name in token_map.value if name.endswith("_token") and name not in _ROLES]
        fields = {name: (config.member(name), None) for name in object_names}
        fields |= {name: (token_map.member(name), True) for name in map_names}
        fields |= {name: (config.member(name), None) for name in other_names if name not in object_names}
        replaced = isinstance(config.value.get(_MORE), dict) or any(
            _is_token(config.value[name]) for name in other_names
        )
        for field in [*([] if replaced else [config.member(NAMED)]), config.member(_MORE), token_map.member(_MORE)]:
            if isinstance(field.value, dict):
                fields |= {name: (field.member(name), None) for name in field.value}
        for field, special in fields.values():
            yield from _token(field, special=special)

    def _listed(self) -> Iterator[Token]:
        """Yield the special tokens without a name."""
        config, token_map = self.config, self.map_
        first = config.member(_MORE if config.value.get(_MORE) else _OLD_MORE)
        if not isinstance(token_map.value.get(_MORE), dict):
            yield from _tokens(first)
        if isinstance(token_map.value.get(_MORE), list):
            yield from _tokens(token_map.member(_MORE), special=True)
        elif isinstance(first.value, dict) or not config.value.keys() & {_MORE, _OLD_MORE}:
            yield from _tokens(token_map.member(_OLD_MORE))

    def _numbered(self, listed: Sequence[Field]) -> dict[int, tuple[str, TokenRule, Field]]:
        """Return the tokens that files list by id, which decide the rules of all that they list."""
        numbered: dict[int, tuple[str, TokenRule, Field]] = {}
        decoder = self.config.member(_DECODER)
        if decoder.value is not None:
            for name in decoder.read(dict):
                entry = decoder.member(name)
                if not name.isdecimal():
                    entry.refuse("is not a token id")
                text = entry.member("content").read(str)
                numbered[int(name)] = text, _rule_of(entry, special=entry.flag("special")), entry
            return numbered
        special = {text for text, _, field in self._named() if field.path in _ROLES and self._is_known(field)}
        special |= {text for text, _, field in self._listed() if self._is_known(field)}
        numbered = {
            entry.member("id").read(int): (entry.member("content").read(str), read_rule(entry), entry)
            for entry in listed
        }
        for text in self.added.read(dict):
            field, is_special = self.added.member(text), text in special
            rule = TokenRule(normalized=not is_special, special=is_special)
            if (other_text := numbered.setdefault(field.read(int), (text, rule, field))[0]) != text:
                field.refuse(f"has the id {field.value}, which is that of {other_text!r}")
        return numbered

    def _is_known(self, field: Field) -> bool:
        """Whether transformers knows a special token when it reads added_tokens.json."""
        in_map = field.file == self.map_.file
        return not field.path.startswith(_OLD_MORE) if in_map else isinstance(field.value, str)

    @property
    def _class(self) -> str | None:
        name = self.config.member("tokenizer_class").value
        return name.removesuffix("Fast") if isinstance(name, str) else None

    def _refuse_forgotten(self, listed_texts: Collection[str], new: Mapping[str, tuple[int | None, Field]]) -> None:
        """Refuse new tokens for a class of transformers that then forgets those of tokenizer.json."""
        decoder = self.config.member(_DECODER).value
        if not listed_texts or not new or decoder is None or self._class in _FILE_FIRST:
            return
        if lost := {*listed_texts} - {entry["content"] for entry in decoder.values()}:
            next(iter(new.values()))[1].refuse(
                f"is a token that tokenizer.json lacks, and the tokenizer_class {self._class} then takes "
                f"{sorted(lost)[0]!r} as text: list all added tokens in {_DECODER}, or in tokenizer.json"
            )


def unlisted_tokens(file: Location, texts: Collection[str]) -> list[str]:
    """Return those of the added tokens that a tokenizer.json does not list."""
    listed = {entry.member("content").value for entry in _entries(read_json(file).member("added_tokens"))}
    return [text for text in texts if text not in listed]


def _read(file: Location) -> Field:
    document = read_json(file) if file.exists() else Field({}, file)
    document.read(dict)
    return document


def _is_token(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and "__type" in value)


def _token(field: Field, *, special: bool | None = None) -> Iterator[Token]:
    """Yield the token that a field names, if it names one. special: of objects that need not say what they are."""
    if isinstance(field.value, str):
        yield field.value, PLAIN_RULE, field
    elif isinstance(field.value, dict) and isinstance(text := field.value.get("content"), str):
        if special is None and "__type" not in field.value:
            yield text, None, field
        else:
            yield text, _rule_of(field, special=bool(special) or field.flag("special")), field


def _tokens(field: Field, *, special: bool | None = None) -> Iterator[Token]:
    for element in field.elements() if isinstance(field.value, list) else ():
        yield from _token(element, special=special)


def _ids_of(
    new: Mapping[str, tuple[int | None, Field]], taken: Sequence[int], vocab: Mapping[str, int]
) -> dict[str, int]:
    """Return the ids that tokenizers assigns to more added tokens; refuse a file that says another one."""
    highest, ids = max(taken, default=-1), dict[str, int]()
    for text, (declared, field) in new.items():
        ids[text] = vocab.get(text, max(highest + 1, len(vocab)))
        highest = max(highest, ids[text])
        if declared not in (None, ids[text]):
            field.refuse(
                f"has the id {declared}, but transformers gives {text!r} the id {ids[text]}: number it so, or list it "
                "in tokenizer.json"
            )
    return ids


def read_added_tokens(
    field: Field, vocab: Field, *, normalizes: bool, whole_pre_tokens: bool
) -> tuple[dict[str, int], dict[str, TokenRule]]:
    """Return text -> id in order of ids, and the rules of the tokens that do not have the plain one."""
    ordinary = vocab.read(dict)
    ids: dict[str, int] = {}
    rules: dict[str, TokenRule] = {}
    entries = _entries(field)
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
    for entry in _entries(field):
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


def _entries(field: Field) -> list[Field]:
    return field.elements() if field.value is not None else []
