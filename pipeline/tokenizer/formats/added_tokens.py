"""Read the added tokens of a tokenizer.json: their ids, and how each is recognised in text.

A file is refused whose ids are not those that the tokenizers library assigns, or whose rules' matches could overlap.
"""

from dataclasses import replace
from typing import Any

from pipeline.tokenizer.formats.fields import Field
from pipeline.tokenizer.model import PLAIN_RULE, SpecialRule, could_be_whole_piece
from pipeline.tokenizer.prepare import nfc


def read_rule(entry: Field) -> SpecialRule:
    """Read how a token is recognised from an object with lstrip, rstrip, single_word and normalized."""
    return SpecialRule(*map(entry.flag, ("lstrip", "rstrip", "single_word", "normalized")))


def entry_of(text: str, id_: int, rule: SpecialRule) -> dict[str, Any]:
    """Return the object that says how a token is recognised."""
    flags = {"single_word": rule.single_word, "lstrip": rule.left_space, "rstrip": rule.right_space}
    return {"id": id_, "content": text, **flags, "normalized": rule.normalized, "special": rule.control}


def read_added_tokens(
    field: Field, vocab: Field, *, normalizes: bool, whole_pieces: bool
) -> tuple[dict[str, int], dict[str, SpecialRule]]:
    """Return text -> id in order of ids, and the rules of the tokens that do not have the plain one."""
    ordinary = vocab.read(dict)
    ids: dict[str, int] = {}
    rules: dict[str, SpecialRule] = {}
    entries = _entries(field)
    for entry in entries:
        text = entry.member("content").read(str)
        if text in ids:
            entry.refuse(f"names {text!r} for the second time")
        entry.member("special").expect(True, False)
        rules[text] = replace(read_rule(entry), control=entry.flag("special"))
        if whole_pieces and text in ordinary and could_be_whole_piece(text, rules[text]):
            entry.refuse(f"names {text!r}, which a whole piece could be too: with ignore_merges that is not reproduced")
        ids[text] = entry.member("id").read(int)
    takes_space = any(rule.right_space for rule in rules.values())
    normalized: dict[str, str] = {}
    for entry, (text, rule) in zip(entries, rules.items(), strict=True):
        if takes_space and text[:1].isspace():
            entry.refuse("begins with white space, which rstrip of another token would take as well")
        if normalizes and rule.normalized and normalized.setdefault(nfc(text), text) != text:
            entry.refuse(f"is the same as {normalized[nfc(text)]!r} in NFC")
    if len(set(ids.values())) < len(ids):
        field.refuse("assigns one id to two tokens")
    if not normalizes and all(rule.normalized for rule in rules.values()):  # no text is normalized: found alike
        rules = {text: replace(rule, normalized=False) for text, rule in rules.items()}
    unlike = {text: rule for text, rule in rules.items() if rule != PLAIN_RULE}
    return dict(sorted(ids.items(), key=lambda item: item[1])), unlike


def check_numbering(field: Field, vocab: Field) -> None:
    """Refuse ids that versions of tokenizers would not assign: those of the vocabulary, or the next ones."""
    given = vocab.read(dict)
    highest, new = -1, 0
    for entry in _entries(field):
        text, id_ = entry.member("content").value, entry.member("id")
        expected = given.get(text)
        if expected is None:
            expected = len(given) + new
            new += 1
            if expected != max(highest + 1, len(given)):
                id_.refuse(f"is {id_.value}, but tokenizers assigns {text!r} the id {expected}, or {highest + 1}")
        if id_.value != expected:
            id_.refuse(f"is {id_.value}, but tokenizers assigns {text!r} the id {expected}")
        highest = max(highest, expected)


def _entries(field: Field) -> list[Field]:
    return field.elements() if field.value is not None else []
