"""Prepare text before it is cut: added tokens by their rules, NFC, a space in front.

The order is that of the tokenizers library: added tokens are searched first, the stretches between them normalized,
added tokens with the rule `normalized` searched in these; what remains gets its space and goes to the pattern.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from bpe_pipeline import _core
from bpe_pipeline.pattern.classes import CharSet, category_of
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.pattern.token_rules import Preparation, TokenRule

Stretch = tuple[bytes, int | None, int]  # of text, or an added token with its id; how many bytes were put in front

_WHITE_SPACE = "".join(map(chr, (*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))))
_WHITE_SPACE += "\u2028\u2029\u202f\u205f\u3000"
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_SPACE_RUN = re.compile(b"(?:" + b"|".join(re.escape(space.encode()) for space in _WHITE_SPACE) + b")*")
_CHARACTER_BYTES = 4  # the most of a character


class _Finder:
    """Find some added tokens by their rules, as far as later text cannot change what is found; read-only."""

    def __init__(self, written: Mapping[str, str], ids: Mapping[str, int], rules: Mapping[str, TokenRule]) -> None:
        self._search = _core.SpecialTokens(list(written.values()), [ids[text] for text in written]) if written else None
        self._rules = {ids[text]: rule for text, rule in rules.items() if text in written and rule.looks_around}
        self._takes_before = any(rule.lstrip for rule in self._rules.values())
        self._ahead = (self._search.longest if self._search else 0) + (_CHARACTER_BYTES if self._rules else 0)

    def matches(self, data: bytes, start: int, at_end: bool) -> tuple[list[tuple[int, int, int]], int]:
        """Return start, end and id of each, and how far the text is certain. Text before `start` is context."""
        matches: list[tuple[int, int, int]] = []
        done = at = start
        certain = len(data) if at_end else max(start, len(data) - self._ahead)
        while self._search and (match := self._search.find(data, at)) and (at_end or match[0] < certain):
            begin, at, id_ = match
            stop = at
            if rule := self._rules.get(id_):
                around = data[max(0, begin - _CHARACTER_BYTES) : begin], data[at : at + _CHARACTER_BYTES]
                if rule.single_word and (_is_word(around[0], -1) or _is_word(around[1], 0)):
                    continue
                if rule.lstrip:
                    begin = _without_space_behind(data, done, begin)
                if rule.rstrip and (spaces := _SPACE_RUN.match(data, stop)):
                    stop = spaces.end()
                    if stop == len(data) and not at_end:  # more of it may follow
                        return matches, begin
                if begin >= stop:  # white space that a token before took
                    continue
            matches.append((begin, stop, id_))
            done = stop
        while done < certain < len(data) and data[certain] & 0xC0 == 0x80:
            certain -= 1
        if self._takes_before and not at_end:
            certain = _without_space_behind(data, done, max(done, certain))
        return matches, max(done, certain)


class SpecialSearch:
    """Which added tokens are found, by their rules, before and after text is normalized; read-only."""

    def __init__(self, special_tokens: Mapping[str, int], preparation: Preparation) -> None:
        late = dict.fromkeys(preparation.late(special_tokens))
        self.preparation = preparation
        early = {text: text for text in special_tokens if text not in late}
        written = {text: nfc(text) if preparation.nfc else text for text in late}
        self.early, self.late = (_Finder(texts, special_tokens, preparation.rules) for texts in (early, written))

    def stretches(self, data: bytes) -> Iterator[Stretch]:
        """Yield a text as it goes to the pattern, stretch by stretch, and the added tokens between."""
        return IncomingText(self).push(data, at_end=True)


class IncomingText:
    """Prepare a text that arrives in blocks of valid UTF-8, a stretch in parts; another text may follow.

    Waiting are at most `block_bytes` and what later text may change: part of a token, white space that a token may
    take, what cannot be normalized yet.
    """

    def __init__(self, search: SpecialSearch, block_bytes: int = 0) -> None:
        self._search, self._nfc = search, search.preparation.nfc
        self._block_bytes = self._wanted_bytes = block_bytes
        self._blocks: list[bytes] = []
        self._blocks_bytes = 0
        self._context = [b"", b""]  # what was before, of all text and of the stretch
        self._raw = self._normal = b""  # of the stretch: not yet normalized, not yet searched
        self._continued = False  # whether part of the stretch has gone to the pattern

    @property
    def waiting_bytes(self) -> int:
        """Bytes of text that were pushed and are not prepared."""
        return self._blocks_bytes + len(self._raw) + len(self._normal)

    def push(self, block: bytes, *, at_end: bool = False) -> Iterator[Stretch]:
        """Yield the stretches and added tokens that are certain with this block."""
        self._blocks.append(block)
        self._blocks_bytes += len(block)
        if not at_end and self._blocks_bytes < self._wanted_bytes:
            return
        start = done = len(self._context[0])
        data = b"".join([self._context[0], *self._blocks])
        matches, certain = self._search.early.matches(data, start, at_end)
        for begin, stop, id_ in matches:
            yield from self._normalized(data[done:begin], at_end=True)
            yield data[begin:stop], id_, 0
            done = stop
        yield from self._normalized(data[done:certain], at_end=at_end)
        self._blocks, self._blocks_bytes = [data[certain:]], len(data) - certain
        self._context[0] = b"" if at_end else data[max(0, certain - _CHARACTER_BYTES) : certain]
        self._wanted_bytes = max(self._block_bytes, 2 * self._blocks_bytes)

    def _normalized(self, data: bytes, *, at_end: bool) -> Iterator[Stretch]:
        """Yield what is certain of the stretch that continues with this text."""
        if self._nfc:
            data, self._raw = self._raw + data, b""
            if not at_end:  # before ASCII nothing joins
                stop = max(0, len(data.rstrip(_BEYOND_ASCII)) - 1)
                data, self._raw = data[:stop], data[stop:]
            if not data.isascii():
                data = nfc(data.decode()).encode()
        start = done = len(self._context[1])
        data = self._context[1] + self._normal + data
        matches, certain = self._search.late.matches(data, start, at_end)
        for begin, stop, id_ in matches:
            yield from self._spaced(data[done:begin])
            yield data[begin:stop], id_, 0
            done, self._continued = stop, False
        yield from self._spaced(data[done:certain])
        self._normal = data[certain:]
        self._context[1] = b"" if at_end else data[max(0, certain - _CHARACTER_BYTES) : certain]
        self._continued = self._continued and not at_end

    def _spaced(self, data: bytes) -> Iterator[Stretch]:
        if data:
            in_front = self._search.preparation.space_in_front and not self._continued and data[:1] != b" "
            self._continued = True
            yield b" " * in_front + data, None, int(in_front)


def _without_space_behind(data: bytes, start: int, stop: int) -> int:
    """Return where the text of this range ends without the white space at its end."""
    return start + len(data[start:stop].decode().rstrip(_WHITE_SPACE).encode())


@cache
def _is_word_character(character: str) -> bool:
    return CharSet(("Word",)).contains(ord(character), category_of(ord(character)))


def _is_word(data: bytes, index: int) -> bool:
    """Whether the character at this index is a letter, digit or underscore; other characters may be incomplete."""
    text = data.decode(errors="ignore")
    return bool(text) and _is_word_character(text[index])
