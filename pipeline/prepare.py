"""Text prepared as another trainer's file says, before it is cut: special tokens by their rules, NFC, a space in front.

The order is that of the tokenizers library: special tokens are looked for in the text as it stands; the stretches
between are normalized; those special tokens that are looked for in normalized text are found in the stretches; what
is left of them gets its space and goes to the pattern.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from pipeline import _core
from pipeline.model import PLAIN_RULE, Preparation, SpecialRule
from pipeline.normal_form import nfc
from pipeline.pattern.classes import category_of, property_item

Stretch = tuple[str, int | None]  # a stretch of text, or a special token with its id

_WHITE_SPACE = "".join(map(chr, (*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))))
_WHITE_SPACE += "\u2028\u2029\u202f\u205f\u3000"
_SPACE_RUN = re.compile(b"(?:" + b"|".join(re.escape(space.encode()) for space in _WHITE_SPACE) + b")*")


class SpecialSearch:
    """Finds some special tokens by their rules; read-only."""

    def __init__(self, special_tokens: Mapping[str, int], preparation: Preparation) -> None:
        self.rules = {id_: preparation.rules.get(text, PLAIN_RULE) for text, id_ in special_tokens.items()}
        late = {text: id_ for text, id_ in special_tokens.items() if self.rules[id_].normalized}
        early = {text: id_ for text, id_ in special_tokens.items() if text not in late}
        self.early = _core.Specials(list(early), list(early.values())) if early else None
        written = [nfc(text) if preparation.nfc else text for text in late]
        self.late = _core.Specials(written, list(late.values())) if late else None
        self.preparation = preparation

    def stretches(self, text: str) -> Iterator[Stretch]:
        """The text as it goes to the pattern, stretch by stretch, and the special tokens between."""
        for stretch, id_ in self._split(text, self.early):
            if id_ is not None:
                yield stretch, id_
                continue
            for part, late_id in self._split(nfc(stretch) if self.preparation.nfc else stretch, self.late):
                if late_id is None and self.preparation.space_in_front and not part.startswith(" "):
                    part = f" {part}"
                yield part, late_id

    def _split(self, text: str, search: _core.Specials | None) -> Iterator[Stretch]:
        if search is None:
            yield text, None
            return
        data = text.encode()
        done = at = 0
        while match := search.find(data, at):
            start, at, id_ = match
            stop = at
            rule = self.rules[id_]
            if rule is not PLAIN_RULE:
                if rule.single_word and (
                    _ends_with_word(data[max(0, start - 4) : start]) or _begins_with_word(data[stop : stop + 4])
                ):
                    continue
                start, stop = _with_space(data, start, stop, done, rule)
            if done < start:
                yield data[done:start].decode(), None
            yield data[start:stop].decode(), id_
            done = stop
        if done < len(data):
            yield data[done:].decode(), None


def encode_prepared(text: str, search: SpecialSearch, encode: Callable[[str], list[int]]) -> list[int]:
    """The ids of a text; `encode` gives those of a stretch without special tokens."""
    ids: list[int] = []
    for stretch, id_ in search.stretches(text):
        ids += encode(stretch) if id_ is None else [id_]
    return ids


def _with_space(data: bytes, start: int, stop: int, done: int, rule: SpecialRule) -> tuple[int, int]:
    """The bounds of a special token with the white space that belongs to it and to none before."""
    if rule.left_space:
        before = data[done:start].decode()
        start -= len(before[len(before.rstrip(_WHITE_SPACE)) :].encode())
    if rule.right_space:
        found = _SPACE_RUN.match(data, stop)
        stop = found.end() if found else stop
    return start, stop


@cache
def _is_word(character: str) -> bool:
    return property_item("Word", negated=False).contains(ord(character), category_of(ord(character)))


def _ends_with_word(data: bytes) -> bool:
    text = data.decode(errors="ignore")
    return bool(text) and _is_word(text[-1])


def _begins_with_word(data: bytes) -> bool:
    text = data.decode(errors="ignore")
    return bool(text) and _is_word(text[0])
