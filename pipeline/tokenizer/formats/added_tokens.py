"""Read the added tokens of a tokenizer.json: their ids, and how each is recognised in text.

The tokenizers library does not take the ids that the file gives to tokens outside of the vocabulary; it numbers them
itself. A file whose ids differ from that is refused, and so are rules whose matches could overlap.
"""

from dataclasses import replace
from typing import NamedTuple

from pipeline.tokenizer.formats.fields import Field
from pipeline.tokenizer.formats.read_gpt2 import read_rule
from pipeline.tokenizer.model import PLAIN_RULE, SpecialRule, could_be_whole_piece
from pipeline.tokenizer.normal_form import nfc


class AddedToken(NamedTuple):
    """One entry: its text, its id, and its rule."""

    text: str
    id: int
    rule: SpecialRule


def read_added_tokens(field: Field, vocab: Field, *, normalizes: bool, whole_pieces: bool) -> list[AddedToken]:
    """The added tokens in order of ids."""
    listed: list[AddedToken] = []
    given = vocab.read(dict)
    used: dict[str, Field] = {}
    for entry in field.elements() if field.value is not None else []:
        text = entry.member("content").read(str)
        if text in used:
            entry.refuse(f"names {text!r} for the second time")
        used[text] = entry
        entry.member("special").expect(True, False)
        rule = replace(read_rule(entry), control=entry.member("special").value is True)
        if whole_pieces and text in given:
            _check_whole_piece(entry, text, rule)
        listed.append(AddedToken(text, entry.member("id").read(int), rule))
    _check_overlaps(field, listed, used, normalizes=normalizes)
    return sorted(listed, key=lambda token: token.id)


def check_numbering(field: Field, vocab: Field) -> None:
    """Refuse ids that tokenizers would not give: those of the vocabulary, or else the next ones.

    Its versions differ in which are the next: those after the number of tokens, or after the highest id so far. Where
    the two are not the same, the file is refused.
    """
    given = vocab.read(dict)
    highest, new = -1, 0
    for entry in field.elements() if field.value is not None else []:
        text, id_ = entry.member("content").value, entry.member("id")
        expected = given.get(text)
        if expected is None:
            expected = len(given) + new
            new += 1
            if expected != max(highest + 1, len(given)):
                id_.refuse(f"is {id_.value}, but tokenizers itself gives {text!r} the id {expected}, or {highest + 1}")
        if id_.value != expected:
            id_.refuse(f"is {id_.value}, but tokenizers itself gives {text!r} the id {expected}")
        highest = max(highest, expected)


def special_rules(listed: list[AddedToken], *, normalizes: bool) -> dict[str, SpecialRule]:
    """The rules that are not the plain one.

    Looking in normalized text means nothing where nothing normalizes and all tokens are looked for there.
    """
    alike = not normalizes and all(token.rule.normalized for token in listed)
    rules = {token.text: replace(token.rule, normalized=False) if alike else token.rule for token in listed}
    return {text: rule for text, rule in rules.items() if rule != PLAIN_RULE}


def _check_whole_piece(entry: Field, text: str, rule: SpecialRule) -> None:
    """A piece may be looked up as a whole, and would find this token where it is written in the byte alphabet."""
    if could_be_whole_piece(text, rule):
        entry.refuse(f"names {text!r}, which a whole piece could be too: with ignore_merges that is not reproduced")


def _check_overlaps(field: Field, listed: list[AddedToken], used: dict[str, Field], *, normalizes: bool) -> None:
    if any(token.rule.right_space for token in listed):
        for token in listed:
            if token.text[:1].isspace():
                used[token.text].refuse("begins with white space, which rstrip of another token would take as well")
    late: dict[str, str] = {}
    for token in listed:
        if token.rule.normalized and normalizes and late.setdefault(nfc(token.text), token.text) != token.text:
            used[token.text].refuse(f"is the same as {late[nfc(token.text)]!r} in NFC")
    if len({token.id for token in listed}) < len(listed):
        field.refuse("gives one id to two tokens")
