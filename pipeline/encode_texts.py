"""Texts to ids: one, many at once, or one that comes in blocks; by the native core, or piece by piece through `regex`.

`TextEncoder` promises the same ids on every way: those of the whole text, whatever it is made of, in how many blocks
it comes and how many threads work. What is no text is repaired first: invalid UTF-8 in bytes and lone surrogates in
str are U+FFFD. It holds no state besides caches and may be shared between threads.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from pipeline import _core
from pipeline.errors import InputError, UsageError
from pipeline.pattern import CompiledPattern

Text = str | bytes
_T = TypeVar("_T")

_BLOCK_BYTES = 1 << 16  # of text that comes in blocks, what is gathered before it is cut


def repaired(text: Text) -> str:
    """Read invalid UTF-8 and lone surrogates as U+FFFD; a pair of surrogates is the character that it means."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
        yield _utf8(text)
    yield _utf8(high + decoder.decode(b"", True))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return repaired(text).encode()


class TextEncoder:
    """The native encoder and the pattern that it cuts with. `specials`: what to recognise, None for nothing."""

    def __init__(self, native: _core.Encoder, pattern: CompiledPattern) -> None:
        self._native = native
        self._expression_cuts = None if pattern.automaton is not None else pattern.cut

    def encode(self, text: Text, specials: _core.Specials | None) -> list[int]:
        """The ids of a text."""
        if self._expression_cuts is not None:
            return self._encode_cut_here(_utf8(repaired(text)), specials, self._expression_cuts)
        return _on_text(self._native.encode, text, specials)

    def encode_to_buffer(self, text: Text, specials: _core.Specials | None) -> memoryview:
        """The ids of a text as a memoryview of uint32."""
        if self._expression_cuts is not None:
            from array import array

            return memoryview(array("I", self.encode(text, specials)))
        return _on_text(self._native.encode_to_buffer, text, specials)

    def count(self, text: Text, specials: _core.Specials | None) -> int:
        """How many ids a text has, without making them."""
        if self._expression_cuts is not None:
            return len(self.encode(text, specials))
        return _on_text(self._native.count, text, specials)

    def encode_batch(self, texts: Sequence[Text], specials: _core.Specials | None, threads: int) -> list[list[int]]:
        """The ids of each text, in order. A pattern that `regex` runs keeps to one thread."""
        if self._expression_cuts is not None:
            return [self.encode(text, specials) for text in texts]
        try:
            return self._native.encode_batch(texts, specials, threads)
        except UnicodeError:
            return self._native.encode_batch([repaired(text) for text in texts], specials, threads)
        except RuntimeError as reason:
            raise _cannot_be_encoded(reason) from None

    def encode_blocks(self, blocks: Iterable[bytes], specials: _core.Specials | None) -> Iterator[int]:
        """The ids of the text that blocks of valid UTF-8 make together, as soon as no later block can change them.

        Keeps no more than a piece (a document, with a pattern that `regex` runs) and one block, and as much again.
        """
        waiting: list[bytes] = []
        waiting_bytes, wanted_bytes = 0, _BLOCK_BYTES
        for block in blocks:
            waiting.append(block)
            waiting_bytes += len(block)
            if waiting_bytes < wanted_bytes:
                continue
            text = b"".join(waiting)
            ids, stop = self._encode_part(text, specials)
            yield from ids
            waiting = [text[stop:]]
            waiting_bytes = len(waiting[0])
            wanted_bytes = max(_BLOCK_BYTES, 2 * waiting_bytes)  # a long piece is not begun anew with every block
        yield from self.encode(b"".join(waiting), specials)

    def _encode_part(self, text: bytes, specials: _core.Specials | None) -> tuple[list[int], int]:
        """The ids that later text cannot change, and the byte where the rest begins."""
        if self._expression_cuts is None:
            try:
                return self._native.encode_part(text, specials)
            except RuntimeError as reason:
                raise _cannot_be_encoded(reason) from None
        ids: list[int] = []
        begin = 0
        while specials and (match := specials.find(text, begin)) and match[0] + specials.longest <= len(text):
            ids += self._pieces(text[begin : match[0]], self._expression_cuts)
            ids.append(match[2])
            begin = match[1]
        return ids, begin

    def _encode_cut_here(
        self, data: bytes, specials: _core.Specials | None, cut: Callable[[str], list[str]]
    ) -> list[int]:
        ids: list[int] = []
        begin = 0
        while specials and (match := specials.find(data, begin)):
            ids += self._pieces(data[begin : match[0]], cut)
            ids.append(match[2])
            begin = match[1]
        return ids + self._pieces(data[begin:], cut)

    def _pieces(self, document: bytes, cut: Callable[[str], list[str]]) -> list[int]:
        return self._native.encode_pieces(cut(document.decode()))


def _on_text(function: Callable[[Text, _core.Specials | None], _T], text: Text, specials: _core.Specials | None) -> _T:
    try:
        return function(text, specials)
    except UnicodeError:
        return function(repaired(text), specials)
    except RuntimeError as reason:
        raise _cannot_be_encoded(reason) from None


def _cannot_be_encoded(reason: RuntimeError) -> InputError:
    return InputError(f"the text cannot be encoded: {reason}")
