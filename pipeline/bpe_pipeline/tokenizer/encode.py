"""Texts to ids: one, many at once, or one that arrives in blocks; by the native core, or pre-token by pre-token.

Every way produces the ids of the whole text. The core cuts and encodes at once where the pattern has an automaton and
the text needs no preparation. Otherwise a `SpecialSearch` prepares the text here, a pattern of several steps or one of
the `regex` package cuts it, and the core encodes the pre-tokens. No state besides caches; threads may share an encoder.
`allowed_special` and `disallowed_special` mean what they mean in tiktoken.
"""

import codecs
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Literal, TypeAlias, TypeVar

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, SpecialTokenError, UsageError, unfit
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.pattern.compiled import PatternSequence
from bpe_pipeline.pattern.prepare import IncomingText, SpecialSearch
from bpe_pipeline.tokenizer.model import Model

Text = str | bytes
Recognised = _core.SpecialTokens | SpecialSearch | None  # None: nothing; a SpecialSearch where Python prepares or cuts
_T = TypeVar("_T")

_BLOCK_BYTES = 1 << 16  # of text in blocks, gathered before it is cut


def utf8_of(text: Text) -> bytes:
    """Return UTF-8; invalid UTF-8 and lone surrogates become U+FFFD, a pair of surrogates the character it means."""
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text).decode("utf-8", "replace").encode()
    if not isinstance(text, str):
        raise UsageError(f"a text is of type {type(text).__name__}: give str or bytes")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def utf8_blocks(blocks: Iterable[Text]) -> Iterator[bytes]:
    """Yield the repaired UTF-8 of a text in blocks of complete characters; a given block may end inside of one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    high = ""  # the first half of a pair of surrogates, perhaps
    for block in [blocks] if isinstance(blocks, str | bytes) else blocks:
        if isinstance(block, str):
            text = decoder.decode(b"", True) + high + block
            high = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
            text = text[: len(text) - len(high)]
        elif isinstance(block, bytes | bytearray | memoryview):
            text = high + decoder.decode(block)
            high = ""
        else:
            raise UsageError(f"a block of the text is of type {type(block).__name__}: give str or bytes")
        yield utf8_of(text)
    yield utf8_of(high + decoder.decode(b"", True))


class TextEncoder:
    """The native encoder of a model; each call takes the special tokens to find, as `recognising` returns them."""

    def __init__(self, model: Model, native: _core.Encoder | None = None) -> None:
        self._native = native or model.encoder()
        self._pattern = model.pattern
        self._cuts_natively = model.pattern.automaton is not None
        self._special_tokens = model.vocabulary.special_tokens
        self._preparation, self._is_prepared = model.preparation, model.is_prepared
        self._separating = model.special_ids

    @cached_property
    def _everything(self) -> SpecialSearch:
        return SpecialSearch(self._special_tokens, self._preparation)

    def recognising(self, texts: AbstractSet[str]) -> Recognised:
        """Prepare the search for some of the special tokens."""
        ids = {text: id_ for text, id_ in self._special_tokens.items() if text in texts}
        if self._is_prepared or not self._cuts_natively:
            return SpecialSearch(ids, self._preparation)
        return _core.SpecialTokens(list(ids), list(ids.values())) if ids else None

    def encode(self, text: Text, recognised: Recognised) -> list[int]:
        """Return the ids of a text."""
        if not isinstance(recognised, SpecialSearch):
            return _of_valid(self._native.encode, text, recognised)
        ids: list[int] = []
        for stretch, id_, _ in recognised.stretches(utf8_of(text)):
            ids += self._encode_stretch(stretch) if id_ is None else [id_]
        return ids

    def text_stretches(self, text: Text) -> Iterator[tuple[list[int], bytes]]:
        """Yield the ids and the text of each stretch between special tokens, for all that counts tokens and bytes.

        The text is in NFC if the tokenizer puts it there. Special tokens are no text; other added tokens are.
        """
        ids, parts = list[int](), list[bytes]()
        for stretch, id_, put_in_front in self._everything.stretches(utf8_of(text)):
            if id_ in self._separating:
                if parts:
                    yield ids, b"".join(parts)
                ids, parts = [], []
                continue
            ids += self._encode_stretch(stretch) if id_ is None else [id_]
            parts.append(stretch[put_in_front:])
        if parts:
            yield ids, b"".join(parts)

    def encode_to_buffer(self, text: Text, recognised: Recognised) -> memoryview:
        """Return the ids of a text as a memoryview of uint32."""
        if not isinstance(recognised, SpecialSearch):
            return _of_valid(self._native.encode_to_buffer, text, recognised)
        return memoryview(array("I", self.encode(text, recognised)))

    def count(self, text: Text, recognised: Recognised) -> int:
        """Return the number of ids of a text; without making them where the core cuts."""
        if not isinstance(recognised, SpecialSearch):
            return _of_valid(self._native.count, text, recognised)
        if not self._cuts_natively:
            return len(self.encode(text, recognised))
        stretches = recognised.stretches(utf8_of(text))
        return sum(
            1 if id_ is not None else _of_valid(self._native.count, stretch, None) for stretch, id_, _ in stretches
        )

    def encode_batch(self, texts: Sequence[Text], recognised: Recognised, threads: int) -> list[list[int]]:
        """Return the ids of each text, in order. A pattern without an automaton of its own keeps to one thread."""
        if not isinstance(recognised, SpecialSearch):
            return _of_valid(
                self._native.encode_batch,
                texts,
                recognised,
                threads,
                repair=lambda unrepaired: list(map(utf8_of, unrepaired)),
            )
        if not self._cuts_natively:
            return [self.encode(text, recognised) for text in texts]
        rows = [list(recognised.stretches(utf8_of(text))) for text in texts]
        encoded = iter(self.encode_batch([part for row in rows for part, id_, _ in row if id_ is None], None, threads))
        filled = ([next(encoded) if id_ is None else [id_] for _, id_, _ in row] for row in rows)
        return [list(chain.from_iterable(parts)) for parts in filled]

    def encode_blocks(self, blocks: Iterable[bytes], recognised: Recognised) -> Iterator[int]:
        """Iterate over the ids of a text in blocks of valid UTF-8, as soon as no later block can change them."""
        if isinstance(recognised, SpecialSearch):
            return chain.from_iterable(self._encode_prepared(blocks, recognised))
        return chain.from_iterable(self._encode_parts(blocks, recognised))

    def _encode_prepared(self, blocks: Iterable[bytes], search: SpecialSearch) -> Iterator[list[int]]:
        incoming = IncomingText(search, _BLOCK_BYTES)
        pushes = chain(map(incoming.push, blocks), [incoming.push(b"", at_end=True)])
        for special, parts in groupby(chain.from_iterable(pushes), key=itemgetter(1)):
            if special is None:
                yield from self._encode_parts((part for part, *_ in parts), None)
            else:
                yield [special for _ in parts]

    def _encode_parts(self, blocks: Iterable[bytes], specials: _core.SpecialTokens | None) -> Iterator[list[int]]:
        waiting: list[bytes] = []
        waiting_bytes, wanted_bytes = 0, _BLOCK_BYTES
        for block in blocks:
            waiting.append(block)
            waiting_bytes += len(block)
            if waiting_bytes < wanted_bytes:
                continue
            text = b"".join(waiting)
            ids, stop = self._encode_certain(text, specials)
            yield ids
            waiting = [text[stop:]]
            waiting_bytes = len(waiting[0])
            wanted_bytes = max(_BLOCK_BYTES, 2 * waiting_bytes)  # a long pre-token is not tried again with every block
        yield self._encode_stretch(b"".join(waiting), specials)

    def _encode_certain(self, text: bytes, specials: _core.SpecialTokens | None) -> tuple[list[int], int]:
        """Return the ids that later text cannot change, and the byte where the rest starts."""
        if self._cuts_natively:
            return _of_valid(self._native.encode_part, text, specials)
        if isinstance(self._pattern, PatternSequence):
            ends, stop = self._pattern.ends_of_part(text)
            return _of_valid(self._native.encode_cut, text[:stop], ends), stop
        return [], 0

    def _encode_stretch(self, data: bytes, specials: _core.SpecialTokens | None = None) -> list[int]:
        """Return the ids of valid, prepared text; `specials` only where the core cuts."""
        if self._cuts_natively:
            return _of_valid(self._native.encode, data, specials)
        if isinstance(self._pattern, PatternSequence):
            return _of_valid(self._native.encode_cut, data, self._pattern.ends(data))
        return _of_valid(self._native.encode_pre_tokens, self._pattern.cut(data.decode()))


def _of_valid(function: Callable[..., _T], text: Any, *arguments: Any, repair: Callable[[Any], Any] = utf8_of) -> _T:
    """Call the core, and again with repaired text where it refuses the text."""
    try:
        try:
            return function(text, *arguments)
        except (UnicodeError, TypeError):
            return function(repair(text), *arguments)
    except RuntimeError as reason:
        raise InputError(f"the text cannot be encoded: {reason}") from None


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
        texts = () if value is None else value
        if not isinstance(texts, Collection) or not all(isinstance(text, str) for text in texts):
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
                token = data[match[0] : match[1]].decode()
                raise SpecialTokenError(
                    f"the text contains the disallowed special token {token!r}. To encode it as a special token, add "
                    f"it to `allowed_special`, e.g. `allowed_special={{{token!r}}}`. To encode it as ordinary text, "
                    "pass `disallowed_special=()`, or a collection without it"
                )
            before = data[max(0, len(data) - search.longest + 1) :]
        yield block


@lru_cache(_MOST_SEARCHES)
def _search_for(texts: frozenset[str]) -> _core.SpecialTokens | None:
    searched = [text for text in texts if text]
    for text in searched:
        if text != utf8_of(text).decode():
            raise UsageError(f"disallowed_special names {text!r}, which no UTF-8 text contains: leave it out")
    return _core.SpecialTokens(searched, [0] * len(searched)) if searched else None
