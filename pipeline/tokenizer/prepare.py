"""Text prepared as another trainer's file says, before it is cut: special tokens by their rules, NFC, a space in front.

The order is that of the tokenizers library: special tokens are looked for in the text as it stands; the stretches
between are normalized; those special tokens that are looked for in normalized text are found in the stretches; what
is left of them gets its space and goes to the pattern.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cache

from pipeline import _core
from pipeline.pattern.classes import category_of, property_item
from pipeline.tokenizer.model import PLAIN_RULE, Preparation, SpecialRule
from pipeline.tokenizer.normal_form import nfc

Stretch = tuple[str, int | None]  # a stretch of text, or a special token with its id

_WHITE_SPACE = "".join(map(chr, (*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))))
_WHITE_SPACE += "\u2028\u2029\u202f\u205f\u3000"
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_SPACE_RUN = re.compile(b"(?:" + b"|".join(re.escape(space.encode()) for space in _WHITE_SPACE) + b")*")


class SpecialSearch:
    """Finds some special tokens by their rules; read-only."""

    def __init__(self, special_tokens: Mapping[str, int], preparation: Preparation) -> None:
        self.rules = {id_: preparation.rules.get(text, PLAIN_RULE) for text, id_ in special_tokens.items()}
        late = {text: id_ for text, id_ in special_tokens.items() if self.rules[id_].normalized}
        early = {text: id_ for text, id_ in special_tokens.items() if text not in late}
        self.early = _core.SpecialTokens(list(early), list(early.values())) if early else None
        written = [nfc(text) if preparation.nfc else text for text in late]
        self.late = _core.SpecialTokens(written, list(late.values())) if late else None
        self.preparation = preparation
        self.reaches_back = self.late is not None or any(
            rule.left_space or rule.right_space or rule.single_word for rule in self.rules.values()
        )

    def stretches(self, text: str) -> Iterator[Stretch]:
        """The text as it goes to the pattern, stretch by stretch, and the special tokens between."""
        for stretch, id_ in self._split(text, self.early):
            if id_ is not None:
                yield stretch, id_
                continue
            for part, late_id in self._split(nfc(stretch) if self.preparation.nfc else stretch, self.late):
                yield part if late_id is not None else self._with_space_in_front(part), late_id

    def parts(self, blocks: Iterable[bytes], block_bytes: int) -> Iterator[Stretch]:
        """What `stretches` gives, where nothing `reaches_back`, for a text that comes in blocks of valid UTF-8.

        A stretch comes in parts. Kept are `block_bytes`, or what cannot be normalized before more text is seen.
        """
        text = IncomingText(self, block_bytes)
        for block in blocks:
            yield from text.push(block)
        yield from text.push(b"", at_end=True)

    def certain_parts(self, data: bytes, begun: bool, *, at_end: bool) -> Generator[Stretch, None, tuple[int, bool]]:
        """The parts that later text cannot change; returns where the rest begins, and whether a stretch is begun."""
        longest = self.early.longest if self.early else 1
        begin = 0
        while self.early and (match := self.early.find(data, begin)) and (at_end or match[0] + longest <= len(data)):
            yield from self._part(data[begin : match[0]], begun)
            yield data[match[0] : match[1]].decode(), match[2]
            begin, begun = match[1], False
        stop = len(data) if at_end else max(begin, self._normalized_apart(data, len(data) - longest + 1))
        yield from self._part(data[begin:stop], begun)
        return stop, begun or begin < stop

    def _normalized_apart(self, data: bytes, stop: int) -> int:
        """The last place up to `stop` where text may be cut in two: no normal form joins ASCII to what is before it."""
        if self.preparation.nfc:
            return max(0, len(data[: max(0, stop)].rstrip(_BEYOND_ASCII)) - 1)
        while 0 < stop < len(data) and data[stop] & 0xC0 == 0x80:
            stop -= 1
        return max(0, stop)

    def _part(self, data: bytes, begun: bool) -> Iterator[Stretch]:
        if data:
            text = nfc(data.decode()) if self.preparation.nfc else data.decode()
            yield text if begun else self._with_space_in_front(text), None

    def _with_space_in_front(self, text: str) -> str:
        return f" {text}" if self.preparation.space_in_front and not text.startswith(" ") else text

    def _split(self, text: str, search: _core.SpecialTokens | None) -> Iterator[Stretch]:
        if search is None:
            if text:
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


class IncomingText:
    """A text that comes in blocks of valid UTF-8, prepared as it comes; another may follow.

    A stretch comes in parts. Kept are `block_bytes`, or what cannot be normalized before more text is seen; the whole
    text where the rules of special tokens reach back.
    """

    def __init__(self, search: SpecialSearch, block_bytes: int) -> None:
        self._search, self._block_bytes = search, block_bytes
        self._begin()

    def _begin(self) -> None:
        self._waiting: list[bytes] = []
        self._waiting_bytes, self._wanted_bytes, self._begun = 0, self._block_bytes, False

    @property
    def waiting_bytes(self) -> int:
        """Bytes of text that are kept."""
        return self._waiting_bytes

    def push(self, block: bytes, *, at_end: bool = False) -> Iterator[Stretch]:
        """The stretches, and special tokens between, that are certain with this block."""
        self._waiting.append(block)
        self._waiting_bytes += len(block)
        if not at_end and (self._search.reaches_back or self._waiting_bytes < self._wanted_bytes):
            return
        data = b"".join(self._waiting)
        if self._search.reaches_back:
            yield from self._search.stretches(data.decode())
        else:
            stop, self._begun = yield from self._search.certain_parts(data, self._begun, at_end=at_end)
            self._waiting = [data[stop:]]
            self._waiting_bytes = len(self._waiting[0])
            self._wanted_bytes = max(self._block_bytes, 2 * self._waiting_bytes)
        if at_end:
            self._begin()


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
