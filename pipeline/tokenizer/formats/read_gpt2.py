"""Read GPT-2 style files: vocab.json (token text -> id) and merges.txt (one `left right` a line).

Neither says which tokens are special: special_tokens_map.json beside does, or the caller; failing both they are the
tokens that stand for no byte and that no merge makes. The pattern is GPT-2's, as their readers assume.
"""

from collections.abc import Sequence

from pipeline.base.errors import InputError, UsageError
from pipeline.merges.vocabulary import Vocabulary, text_to_token
from pipeline.pattern import compile_pattern
from pipeline.storage import Location
from pipeline.tokenizer.formats.fields import Field, read_json, read_text
from pipeline.tokenizer.model import PLAIN_RULE, Model, Preparation, SpecialRule

_HEADER = "#version"


def load_gpt2(vocab_file: Location, merges_file: Location, special_tokens: Sequence[str] | None = None) -> Model:
    """Load a pair of files; InputError where one is damaged, or files beside say what would not be reproduced."""
    entries = read_json(vocab_file)
    ids = {text: entries.member(text).read(int) for text in entries.read(dict)}
    merges = read_merges(merges_file)
    rules: dict[str, SpecialRule] = {}
    if special_tokens is None:
        _refuse_added(vocab_file.with_name("added_tokens.json"))
        map_file = vocab_file.with_name("special_tokens_map.json")
        named = _named_tokens(map_file) if map_file.exists() else None
        if named is None:
            special_tokens = _left_over(ids, merges)
        else:
            special_tokens, rules = list(named), {text: rule for text, rule in named.items() if rule != PLAIN_RULE}
    specials: dict[str, int] = {}
    for text in special_tokens:
        if text not in ids:
            raise InputError(f"{vocab_file} lacks the special token {text!r}: name one that it has")
        specials[text] = ids[text]
    tokens: dict[int, bytes] = {}
    for text, id_ in ids.items():
        if text in specials:
            continue
        if id_ in tokens:
            entries.refuse(f"gives the id {id_} to {text!r} and to another token")
        try:
            tokens[id_] = text_to_token(text)
        except UnicodeEncodeError:
            entries.refuse(
                f"has the token {text!r}, which is not written in the byte alphabet: if it is special, name it so"
            )
    ordered = dict(sorted(specials.items(), key=lambda item: item[1]))
    try:
        vocabulary = Vocabulary.from_tokens(tokens, merges, ordered)
    except (InputError, UsageError) as reason:
        raise InputError(f"{vocab_file}: {reason}") from None
    return Model(vocabulary, compile_pattern("gpt2"), preparation=Preparation(rules=rules))


def read_merges(file: Location) -> list[tuple[bytes, bytes]]:
    """The merges of a merges.txt; lines that begin with `#version` are headers."""
    text = read_text(file)
    merges = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        pair = line.removesuffix("\r")
        if not text or pair.startswith(_HEADER):
            continue
        try:
            left, right = pair.split(" ")
            merges.append((text_to_token(left), text_to_token(right)))
        except ValueError:
            raise InputError(
                f"{file}: line {number} is not a pair of tokens in the byte alphabet: {pair[:80]!r}"
            ) from None
    return merges


def _left_over(ids: dict[str, int], merges: list[tuple[bytes, bytes]]) -> list[str]:
    """Tokens that stand for no byte and that no merge makes."""
    made = {left + right for left, right in merges}
    texts = []
    for text in ids:
        try:
            token = text_to_token(text)
        except UnicodeEncodeError:
            texts.append(text)
            continue
        if len(token) != 1 and token not in made:
            texts.append(text)
    return texts


def _refuse_added(file: Location) -> None:
    if file.exists() and read_json(file).read(dict):
        raise InputError(
            f"{file} adds tokens, and does not say how they are recognised: save the tokenizer with tokenizer.json "
            "(transformers does) and load that"
        )


def _named_tokens(file: Location) -> dict[str, SpecialRule]:
    """The special tokens that special_tokens_map.json names, with their rules."""
    document = read_json(file)
    named: dict[str, SpecialRule] = {}
    for name in document.read(dict):
        entry = document.member(name)
        for one in entry.elements() if isinstance(entry.value, list) else [entry]:
            text, rule = _named_token(one)
            if named.setdefault(text, rule) != rule:
                one.refuse(f"names {text!r} with other rules than before")
    return named


def _named_token(entry: Field) -> tuple[str, SpecialRule]:
    if isinstance(entry.value, str):
        return entry.value, PLAIN_RULE
    return entry.member("content").read(str), read_rule(entry)


def read_rule(entry: Field) -> SpecialRule:
    """How a token is recognised, from an object with lstrip, rstrip, single_word and normalized."""
    flags = {}
    for name in ("lstrip", "rstrip", "single_word", "normalized"):
        field = entry.member(name)
        field.expect(None, False, True)
        flags[name] = field.value is True
    return SpecialRule(flags["lstrip"], flags["rstrip"], flags["single_word"], flags["normalized"])
