"""The obviously right way to count pre-tokens: decode, split at special tokens, cut each document with `regex`."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import regex

from bpe_pipeline.pattern.by_regex import differing_characters

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def known(text: bytes) -> bool:
    """Whether the text holds only characters that `regex` and the project's Unicode tables see alike."""
    return differing_characters().isdisjoint(text.decode(errors="replace"))


def cut(document: str, expression: str = GPT2) -> list[str]:
    """The pre-tokens of a document, unmatched stretches among them."""
    pre_tokens, at = [], 0
    for match in regex.finditer(expression, document):
        if match.start() > at:
            pre_tokens.append(document[at : match.start()])
        if match.end() > match.start():
            pre_tokens.append(match.group())
        at = match.end()
    return [*pre_tokens, document[at:]] if at < len(document) else pre_tokens


def split(text: bytes, specials: Iterable[bytes]) -> list[bytes]:
    """The documents of a text, empty ones left out."""
    specials = sorted(specials, key=len, reverse=True)
    found = regex.split(b"|".join(map(regex.escape, specials)), text) if specials else [text]
    return [document for document in found if document]


def documents(text: bytes, specials: Iterable[bytes], errors: str = "replace") -> list[str]:
    """The documents of a text as they are counted."""
    if errors != "skip":
        text = text.decode(errors=errors).encode()
    return [one.decode() for one in split(text, specials) if one.decode(errors="ignore").encode() == one]


def count(text: bytes, specials: Iterable[bytes] = (), errors="replace", expression: str = GPT2) -> Counter[bytes]:
    """The counter of a text."""
    found = documents(text, specials, errors)
    return Counter(pre_token.encode() for document in found for pre_token in cut(document, expression))


def as_counter(columns) -> Counter[bytes]:
    """A counter out of offsets, data and counts."""
    offsets, data, counts = (memoryview(column).cast("B") for column in columns)
    offsets, counts, data = offsets.cast("q").tolist(), counts.cast("Q").tolist(), bytes(data)
    pre_tokens = [data[start:stop] for start, stop in pairwise(offsets)]
    result = Counter(dict(zip(pre_tokens, counts, strict=True)))
    assert len(result) == len(pre_tokens), "a pre-token occurs twice"
    return result
