"""Rendered dialogs in which what a message says stays text: no text is ever a special token.

Rendered text does not say what came from a message. So a lone surrogate, which no text has once it is repaired, goes
before and after each special token that a message contains. Only special tokens without these marks are recognised.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pipeline.tokenizer.encode import utf8_of

_OPEN, _CLOSE = "\ud800", "\ud801"
ROLE, CONTENT = "\ud802", "\ud803"  # stand for a role and a content, of which no text is one either
BORDER = "\ud804"  # what is before it and what is behind it are encoded on their own
_NO_MARKS = dict.fromkeys(map(ord, (_OPEN, _CLOSE, BORDER)))


class MessageMarks:
    """Mark what messages say, and cut rendered text at special tokens. typed: those of `special_tokens` to mark."""

    def __init__(self, special_tokens: Mapping[str, int], typed: Collection[str]) -> None:
        self._ids, marked = special_tokens, _any_of(typed)
        self._typed = re.compile(marked)
        self._rendered = re.compile(f"{_OPEN}(?:{marked}){_CLOSE}|{_any_of([*special_tokens, BORDER])}")

    def marked(self, value: Any, kept: Collection[str] = (), found: list[str] | None = None) -> Any:
        """Return plain values with their special tokens marked, except those that are kept; `found` gets the others."""

        def mark(match: re.Match[str]) -> str:
            if match[0] in kept:
                return match[0]
            if found is not None:
                found.append(match[0])
            return _OPEN + match[0] + _CLOSE

        if isinstance(value, str):
            return self._typed.sub(mark, value if value.isascii() else utf8_of(value).decode())
        if isinstance(value, Mapping):
            return {self.marked(name, kept, found): self.marked(one, kept, found) for name, one in value.items()}
        is_list = isinstance(value, Sequence) and not isinstance(value, bytes)
        return [self.marked(one, kept, found) for one in value] if is_list else value

    def stretches(self, text: str) -> Iterator[tuple[str, int | None]]:
        """Yield the stretches of a rendered text without marks, and the ids of the special tokens between them."""
        done = 0
        for match in self._rendered.finditer(text):
            if match[0][0] != _OPEN:
                yield unmarked(text[done : match.start()]), None
                if match[0] != BORDER:
                    yield match[0], self._ids[match[0]]
                done = match.end()
        yield unmarked(text[done:]), None


def has_marks(text: str) -> bool:
    """Return whether a rendered text contains special tokens of messages, or borders."""
    return _OPEN in text or _CLOSE in text or BORDER in text


def unmarked(text: str) -> str:
    """Return a text without marks and borders."""
    return text.translate(_NO_MARKS)


def _any_of(texts: Collection[str]) -> str:
    """Return the expression of the longest of these texts, by their first characters: `re` looks for these first."""
    rests: dict[str, list[str]] = {}
    for text in sorted(texts, key=len, reverse=True):
        rests.setdefault(text[0], []).append(re.escape(text[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items()) or "(?!)"
