"""Prepare text as another trainer's file says, before it is cut: special tokens by their rules, NFC, a space in front.

The order is that of the tokenizers library: special tokens are searched first, the stretches between them normalized,
special tokens with the rule `normalized` searched in these; what remains gets its space and goes to the pattern.
"""

import re
from collections.abc import Generator, Iterator, Mapping
from functools import cache

from pipeline import _core
from pipeline.pattern.classes import CharSet, category_of
from pipeline.pattern.normal_form import nfc
from pipeline.tokenizer.model import PLAIN_RULE, Preparation

Stretch = tuple[bytes, int | None]  # a stretch of text, or a special token with its id

_WHITE_SPACE = "".join(map(chr, (*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))))
_WHITE_SPACE += "\u2028\u2029\u202f\u205f\u3000"
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_SPACE_RUN = re.compile(b"(?:" + b"|".join(re.escape(space.encode()) for space in _WHITE_SPACE) + b")*")


class SpecialSearch:
    """Find some of the special tokens by their rules, and prepare the text between them; read-only."""

    def __init__(self, special_tokens: Mapping[str, int], preparation: Preparation) -> None:
        self._preparation = preparation
        rules = {text: preparation.rules.get(text, PLAIN_RULE) for text in special_tokens}
        late = {text: id_ for text, id_ in special_tokens.items() if rules[text].normalized}
        early = {text: id_ for text, id_ in special_tokens.items() if text not in late}
        self._early = _core.SpecialTokens(list(early), list(early.values())) if early else None
        written = [nfc(text) if preparation.nfc else text for text in late]
        self._late = _core.SpecialTokens(written, list(late.values())) if late else None
        self._rules = {id_: rules[text] for text, id_ in special_tokens.items() if not rules[text].is_plain}
        self._longest = self._early.longest if self._early else 1
        self.reaches_back = bool(self._rules)  # a match may depend on all of the text around it

    def stretches(
        self, data: bytes, continued: bool = False, *, at_end: bool = True
    ) -> Generator[Stretch, None, tuple[int, bool]]:
        """Yield the text as it goes to the pattern, stretch by stretch, and the special tokens between.

        Unless `at_end`, what later text may change is left. Return where that starts, and if it continues a stretch.
        """
        done = 0
        for start, stop, id_ in self._matches(self._early, data, len(data) - (0 if at_end else self._longest)):
            yield from self._prepared(data[done:start], continued)
            yield data[start:stop], id_
            done, continued = stop, False
        stop = len(data) if at_end else max(done, self._boundary(data, len(data) - self._longest + 1))
        yield from self._prepared(data[done:stop], continued)
        return stop, continued or done < stop

    def _boundary(self, data: bytes, stop: int) -> int:
        """Return the last position up to `stop` where normalized text may be cut: before ASCII, nothing joins."""
        if self._preparation.nfc:
            return max(0, len(data[: max(0, stop)].rstrip(_BEYOND_ASCII)) - 1)
        while 0 < stop < len(data) and data[stop] & 0xC0 == 0x80:
            stop -= 1
        return max(0, stop)

    def _prepared(self, data: bytes, continued: bool) -> Iterator[Stretch]:
        if self._preparation.nfc and not data.isascii():
            data = nfc(data.decode()).encode()
        done = 0
        for start, stop, id_ in self._matches(self._late, data, len(data)):
            if done < start:
                yield self._with_space_in_front(data[done:start], continued), None
            yield data[start:stop], id_
            done, continued = stop, False
        if done < len(data):
            yield self._with_space_in_front(data[done:], continued), None

    def _with_space_in_front(self, data: bytes, continued: bool) -> bytes:
        return b" " + data if self._preparation.space_in_front and not continued and data[:1] != b" " else data

    def _matches(self, search: _core.SpecialTokens | None, data: bytes, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and id of the special tokens that start up to `last`."""
        done = at = 0
        while search and (match := search.find(data, at)) and match[0] <= last:
            start, at, id_ = match
            stop = at
            if rule := self._rules.get(id_):
                if rule.single_word and (
                    _is_word(data[max(0, start - 4) : start], -1) or _is_word(data[at : at + 4], 0)
                ):
                    continue
                if rule.left_space:
                    start = done + len(data[done:start].decode().rstrip(_WHITE_SPACE).encode())
                if rule.right_space and (spaces := _SPACE_RUN.match(data, stop)):
                    stop = spaces.end()
            yield start, stop, id_
            done = stop


class IncomingText:
    """Prepare a text that arrives in blocks of valid UTF-8, a stretch in parts; another text may follow.

    Waiting are at most `block_bytes`, what cannot be normalized yet, or the whole text where rules reach back.
    """

    def __init__(self, search: SpecialSearch, block_bytes: int) -> None:
        self._search, self._block_bytes = search, block_bytes
        self._waiting: list[bytes] = []
        self._wanted_bytes, self._continued = block_bytes, False
        self.waiting_bytes = 0

    def push(self, block: bytes, *, at_end: bool = False) -> Iterator[Stretch]:
        """Yield the stretches and special tokens that are certain with this block."""
        self._waiting.append(block)
        self.waiting_bytes += len(block)
        if not at_end and (self._search.reaches_back or self.waiting_bytes < self._wanted_bytes):
            return
        data = b"".join(self._waiting)
        stop, continued = yield from self._search.stretches(data, self._continued, at_end=at_end)
        self._waiting, self.waiting_bytes = [data[stop:]], len(data) - stop
        self._continued = continued and not at_end
        self._wanted_bytes = max(self._block_bytes, 2 * self.waiting_bytes)


@cache
def _is_word_character(character: str) -> bool:
    return CharSet(("Word",)).contains(ord(character), category_of(ord(character)))


def _is_word(data: bytes, index: int) -> bool:
    """Whether the character at this index is a letter, digit or underscore; other characters may be incomplete."""
    text = data.decode(errors="ignore")
    return bool(text) and _is_word_character(text[index])
