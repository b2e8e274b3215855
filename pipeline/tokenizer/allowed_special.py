"""What `allowed_special` and `disallowed_special` mean, as in tiktoken, and the search for what is disallowed."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Literal, TypeAlias

from pipeline import _core
from pipeline.base.errors import SpecialTokenError, UsageError, unfit
from pipeline.tokenizer.encode import Recognised, Text, TextEncoder, utf8_of

Allowed: TypeAlias = Literal["all"] | AbstractSet[str] | None
Disallowed: TypeAlias = Literal["all"] | Collection[str] | None

_MOST_SEARCHES = 64  # that stay prepared


class SpecialChoice:
    """Which special tokens an encoder recognises; searches that were used stay prepared. every, none: of them."""

    def __init__(self, encoder: TextEncoder, known: AbstractSet[str]) -> None:
        self._known = known
        self._recognising = lru_cache(_MOST_SEARCHES)(encoder.recognising)
        self.every, self.none = self._recognising(frozenset(known)), self._recognising(frozenset())

    def of(self, texts: Sequence[Text], allowed: Allowed, disallowed: Disallowed) -> Recognised:
        """Return what to recognise in texts, none of which contains a refused special token."""
        if allowed is None and disallowed is None:
            return self.every
        recognised, refused = allowed_and_refused(self._known, allowed, disallowed)
        for text in texts if refused else ():
            deque(checked([utf8_of(text)], refused), maxlen=0)
        return self._recognising(recognised)

    def of_blocks(
        self, blocks: Iterable[bytes], allowed: Allowed, disallowed: Disallowed
    ) -> tuple[Iterator[bytes], Recognised]:
        """Return a text in blocks, checked as it is read, and what to recognise in it."""
        recognised, refused = allowed_and_refused(self._known, allowed, disallowed)
        return checked(blocks, refused), self._recognising(recognised)


def allowed_and_refused(
    known: AbstractSet[str], allowed_special: Allowed, disallowed_special: Disallowed
) -> tuple[frozenset[str], frozenset[str]]:
    """Return which of the known special tokens to recognise, and the texts to refuse."""
    if allowed_special is None and disallowed_special is None:
        return frozenset(known), frozenset()
    for name, value in (("allowed_special", allowed_special), ("disallowed_special", disallowed_special)):
        if isinstance(value, str | bytes) and value != "all":
            raise UsageError(f"{name} is the text {value!r}: give a set of texts, such as {{{value!r}}}, or 'all'")
        listed = () if value is None else value
        if not isinstance(listed, Collection) or not all(isinstance(text, str) for text in listed):
            raise unfit(name, "a set of texts, or 'all'", value)
    allowed = frozenset(known if allowed_special == "all" else known & (allowed_special or set()))
    if disallowed_special is None or disallowed_special == "all":
        return allowed, frozenset(known - allowed)
    return allowed, frozenset(disallowed_special)


def checked(blocks: Iterable[bytes], refused: frozenset[str]) -> Iterator[bytes]:
    """Yield the blocks of a text; raise `SpecialTokenError` at the block in which a refused text ends."""
    search = _search_for(refused)
    before = b""
    for block in blocks:
        if search is not None:
            data = before + block
            if match := search.find(data):
                found = data[match[0] : match[1]].decode()
                raise SpecialTokenError(
                    f"the text contains the disallowed special token {found!r}. To encode it as a special token, add "
                    f"it to `allowed_special`, e.g. `allowed_special={{{found!r}}}`. To encode it as ordinary text, "
                    "pass `disallowed_special=()`, or a collection without it"
                )
            before = data[max(0, len(data) - search.longest + 1) :]
        yield block


@lru_cache(_MOST_SEARCHES)
def _search_for(texts: frozenset[str]) -> _core.SpecialTokens | None:
    listed = [text for text in texts if text]
    for text in listed:
        if text != utf8_of(text).decode():
            raise UsageError(f"disallowed_special names {text!r}, which no UTF-8 text contains: leave it out")
    return _core.SpecialTokens(listed, [0] * len(listed)) if listed else None
