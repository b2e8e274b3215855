"""Texts to ids: one, many at once, or one that comes in blocks; by the native core, or piece by piece through `regex`.

Where another trainer's file has text prepared before it is cut (`prepare`), every way prepares it first. A pattern of
several steps is cut here, and its pieces are encoded in the core.

`TextEncoder` promises the same ids on every way: those of the whole text, whatever it is made of, in how many blocks
it comes and how many threads work. What is no text is repaired first: invalid UTF-8 in bytes and lone surrogates in
str are U+FFFD. It holds no state besides caches and may be shared between threads.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeVar

from pipeline import _core
from pipeline.base.errors import InputError, UsageError
from pipeline.pattern import PatternSequence
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.prepare import SpecialSearch, encode_prepared

Text = str | bytes
Recognised = _core.SpecialTokens | SpecialSearch | None  # None: nothing; a SpecialSearch where text is prepared
_T = TypeVar("_T")

_BLOCK_BYTES = 1 << 16  # of text that comes in blocks, what is gathered before it is cut


def repaired(text: Text) -> str:
    """Read invalid UTF-8 and lone surrogates as U+FFFD; a pair of surrogates is the character that it means."""
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text).decode("utf-8", "replace")
    if not isinstance(text, str):
        raise UsageError(f"a text is of type {type(text).__name__}: give str or bytes")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def utf8_blocks(blocks: Iterable[Text]) -> Iterator[bytes]:
    """The repaired UTF-8 of a text that comes in blocks, each of whole characters; a block may end inside of one."""
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
        yield repaired(text).encode()
    yield repaired(high + decoder.decode(b"", True)).encode()


class TextEncoder:
    """The native encoder of a model, with the preparation and the pattern that its texts go through.

    `recognised`, of each call: the special tokens to find, as `recognising` gives them.
    """

    def __init__(self, model: Model) -> None:
        self._native = model.encoder()
        self._pattern = model.pattern
        self._cuts_natively = model.pattern.automaton is not None
        self._special_tokens = model.vocabulary.special_tokens
        self._preparation = model.preparation

    def recognising(self, texts: AbstractSet[str]) -> Recognised:
        """Prepare the search for some of the special tokens."""
        ids = {text: id_ for text, id_ in self._special_tokens.items() if text in texts}
        if self._preparation.changes_ids:
            return SpecialSearch(ids, self._preparation)
        return _core.SpecialTokens(list(ids), list(ids.values())) if ids else None

    def encode(self, text: Text, recognised: Recognised) -> list[int]:
        """The ids of a text."""
        if isinstance(recognised, SpecialSearch):
            return encode_prepared(repaired(text), recognised, self._document)
        if not self._cuts_natively:
            return self._encode_cut_here(repaired(text).encode(), recognised)
        return _on_text(self._native.encode, text, recognised)

    def encode_to_buffer(self, text: Text, recognised: Recognised) -> memoryview:
        """The ids of a text as a memoryview of uint32."""
        if isinstance(recognised, SpecialSearch) or not self._cuts_natively:
            from array import array

            return memoryview(array("I", self.encode(text, recognised)))
        return _on_text(self._native.encode_to_buffer, text, recognised)

    def count(self, text: Text, recognised: Recognised) -> int:
        """How many ids a text has; without making them, where the native core cuts."""
        if not self._cuts_natively:
            return len(self.encode(text, recognised))
        if isinstance(recognised, SpecialSearch):
            stretches = recognised.stretches(repaired(text))
            return sum(
                1 if id_ is not None else _on_text(self._native.count, stretch, None) for stretch, id_ in stretches
            )
        return _on_text(self._native.count, text, recognised)

    def encode_batch(self, texts: Sequence[Text], recognised: Recognised, threads: int) -> list[list[int]]:
        """The ids of each text, in order. A pattern without an automaton of its own keeps to one thread."""
        if not self._cuts_natively:
            return [self.encode(text, recognised) for text in texts]
        if isinstance(recognised, SpecialSearch):
            return self._encode_prepared_batch(texts, recognised, threads)
        try:
            return self._native.encode_batch(texts, recognised, threads)
        except (UnicodeError, TypeError):
            return self._native.encode_batch([repaired(text) for text in texts], recognised, threads)
        except RuntimeError as reason:
            raise _cannot_be_encoded(reason) from None

    def _encode_prepared_batch(self, texts: Sequence[Text], search: SpecialSearch, threads: int) -> list[list[int]]:
        """The stretches of all texts are one batch for the native core, whose rows are joined again."""
        rows = [list(search.stretches(repaired(text))) for text in texts]
        stretches = [stretch for row in rows for stretch, id_ in row if id_ is None]
        encoded = iter(self.encode_batch(stretches, None, threads))
        return [
            list(chain.from_iterable([id_] if id_ is not None else next(encoded) for _, id_ in row)) for row in rows
        ]

    def encode_blocks(self, blocks: Iterable[bytes], recognised: Recognised) -> Iterator[int]:
        """The ids of the text that blocks of valid UTF-8 make together, as soon as no later block can change them.

        Keeps no more than a piece (a document, with a pattern that `regex` runs; what the first of several steps leaves
        whole) and one block, and as much again. Before NFC also what lies between two ASCII characters; the whole text
        where special tokens have rules, by which they take white space or depend on what stands around them.
        """
        if isinstance(recognised, SpecialSearch):
            if recognised.reaches_back:
                yield from self.encode(b"".join(blocks), recognised)
                return
            for special, parts in groupby(recognised.parts(blocks, _BLOCK_BYTES), key=itemgetter(1)):
                if special is None:
                    yield from self.encode_blocks((part.encode() for part, _ in parts), None)
                else:
                    yield from (special for _ in parts)
            return
        waiting: list[bytes] = []
        waiting_bytes, wanted_bytes = 0, _BLOCK_BYTES
        for block in blocks:
            waiting.append(block)
            waiting_bytes += len(block)
            if waiting_bytes < wanted_bytes:
                continue
            text = b"".join(waiting)
            ids, stop = self._encode_part(text, recognised)
            yield from ids
            waiting = [text[stop:]]
            waiting_bytes = len(waiting[0])
            wanted_bytes = max(_BLOCK_BYTES, 2 * waiting_bytes)  # a long piece is not begun anew with every block
        yield from self.encode(b"".join(waiting), recognised)

    def _encode_part(self, text: bytes, recognised: _core.SpecialTokens | None) -> tuple[list[int], int]:
        """The ids that later text cannot change, and the byte where the rest begins."""
        if self._cuts_natively:
            try:
                return self._native.encode_part(text, recognised)
            except RuntimeError as reason:
                raise _cannot_be_encoded(reason) from None
        ids: list[int] = []
        begin = 0
        while recognised and (match := recognised.find(text, begin)) and match[0] + recognised.longest <= len(text):
            ids += self._document(text[begin : match[0]])
            ids.append(match[2])
            begin = match[1]
        if isinstance(self._pattern, PatternSequence):
            stop = len(text) - (recognised.longest - 1 if recognised else 0)
            while begin < stop < len(text) and text[stop] & 0xC0 == 0x80:
                stop -= 1
            part = text[begin : max(begin, stop)]
            ends, taken = self._pattern.ends_of_part(part)
            ids += self._encode_cut(part[:taken], ends)
            begin += taken
        return ids, begin

    def _encode_cut_here(self, data: bytes, recognised: _core.SpecialTokens | None) -> list[int]:
        ids: list[int] = []
        begin = 0
        while recognised and (match := recognised.find(data, begin)):
            ids += self._document(data[begin : match[0]])
            ids.append(match[2])
            begin = match[1]
        return ids + self._document(data[begin:])

    def _document(self, document: Text) -> list[int]:
        """The ids of valid text in which nothing is recognised and that needs no more preparation."""
        if self._cuts_natively:
            return _on_text(self._native.encode, document, None)
        if isinstance(self._pattern, PatternSequence):
            data = document.encode() if isinstance(document, str) else document
            return self._encode_cut(data, self._pattern.ends(data))
        pieces = self._pattern.cut(document if isinstance(document, str) else document.decode())
        try:
            return self._native.encode_pieces(pieces)
        except RuntimeError as reason:
            raise _cannot_be_encoded(reason) from None

    def _encode_cut(self, document: bytes, ends: list[int]) -> list[int]:
        try:
            return self._native.encode_cut(document, ends)
        except RuntimeError as reason:
            raise _cannot_be_encoded(reason) from None


def _on_text(
    function: Callable[[Text, _core.SpecialTokens | None], _T], text: Text, specials: _core.SpecialTokens | None
) -> _T:
    try:
        return function(text, specials)
    except (UnicodeError, TypeError):
        return function(repaired(text), specials)
    except RuntimeError as reason:
        raise _cannot_be_encoded(reason) from None


def _cannot_be_encoded(reason: RuntimeError) -> InputError:
    return InputError(f"the text cannot be encoded: {reason}")
