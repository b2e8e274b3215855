"""Text that is prepared by Python before the core cuts it: added tokens by their rules, NFC, a space in front.

A first counter reads and repairs the text, `PreparedText` prepares it, a second counter takes its stretches.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.counts.feeding import WINDOW_BYTES, ChunkTask, CountTask
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.prepare import IncomingText, SpecialSearch
from bpe_pipeline.pattern.token_rules import Preparation

_PREPARED_BYTES = 1 << 20  # of text that Python changes at once
_PREPARED_COPIES = 12  # memory of a text that is kept whole, as a multiple of its bytes
_BLOCK_BYTES = 4 << 20


def in_blocks(
    offsets: Any, data: Any, offset_bytes: int, most: int = _BLOCK_BYTES
) -> Iterator[tuple[memoryview, bool]]:
    """Yield the documents of a column in blocks of bytes, and whether each block is the last one of its document."""
    text = memoryview(data)
    for start, stop in pairwise(memoryview(offsets).cast("B").cast("q" if offset_bytes == 8 else "i")):
        for first in range(start, stop, most):
            yield text[first : min(first + most, stop)], first + most >= stop


class PreparedText:
    """Prepares the text that `reading` has repaired, and passes it on.

    stretch: takes a part of the text between added tokens, and how many bytes were put in front of it. token: takes the
    id and the text of one. end: a text ends, or a document that is skipped (True).
    """

    def __init__(
        self,
        task: ChunkTask,
        search: SpecialSearch,
        stretch: Callable[[bytes, int], object],
        token: Callable[[int, bytes], object],
        end: Callable[[bool], object],
    ) -> None:
        # Where documents may be dropped or cut, `reading` must know the special tokens that separate them.
        self.tokens = task.tokens if task.judge.needs_whole_documents else ([], [])
        self.sink = _core.ChunkText([*self.tokens[0], *self.tokens[1]], judged=task.judge.drops_documents)
        self.automaton: Any = compile_pattern("gpt2").automaton  # any: pre-tokens are put together again
        self.budget_bytes = task.budget_bytes
        self._incoming = IncomingText(search, _PREPARED_BYTES)
        self._stretch, self._token, self._end = stretch, token, end

    def pass_on(self, reading: _core.ChunkCounter) -> None:
        """Prepare and pass on what is read and certain. Raises `MemoryError` as `reading` does for a long pre-token."""
        data, ends = self.sink.take()
        start = 0
        for end, dropped in ends:  # what is around a dropped document does not touch
            self._prepare(reading, data[start:end], at_end=True)
            self._end(dropped)
            start = end
        self._prepare(reading, data[start:], at_end=False)

    def _prepare(self, reading: _core.ChunkCounter, data: bytes, *, at_end: bool) -> None:
        for stretch, id_, put_in_front in self._incoming.push(data, at_end=at_end):
            if id_ is None:
                self._stretch(stretch, put_in_front)
            else:
                self._token(id_, stretch)
        waiting = self._incoming.waiting_bytes
        if waiting * _PREPARED_COPIES > self.budget_bytes:
            raise MemoryError(reading.fed_bytes() - waiting, waiting)


class PreparedCounter(_core.ChunkCounter):
    """Counts the pre-tokens of prepared text in the counter `pre_tokens`; the search's first ids are of special
    tokens."""

    def __init__(self, task: ChunkTask, search: SpecialSearch, pre_tokens: _core.ChunkCounter) -> None:
        self._text = PreparedText(task, search, self._stretch, self._token, self._end)
        special_tokens, added_tokens = self._text.tokens
        options: dict[str, Any] = {"judge": task.judge, "budget_bytes": task.budget_bytes, "sink": self._text.sink}
        super().__init__(self._text.automaton, special_tokens, added_tokens=added_tokens, **options)
        self._pre_tokens, self._separators = pre_tokens, len(task.special_tokens)
        self._documents = self._special_tokens = 0
        self._in_document = False

    def start_inside_document(self) -> None:
        """Announce that the next text continues a document that is counted elsewhere."""
        self._in_document = True

    def feed(self, block: Any, end: bool = False) -> None:
        """Count the next block of a text."""
        super().feed(block, end)
        self._text.pass_on(self)

    def feed_documents(self, offsets: Any, data: Any, offset_bytes: int = 8) -> None:
        """Count the documents of a column."""
        for block, end in in_blocks(offsets, data, offset_bytes):
            self.feed(block, end)

    def set_budget(self, budget_bytes: int) -> None:
        """Leave both counters this budget."""
        super().set_budget(budget_bytes)
        self._pre_tokens.set_budget(budget_bytes)
        self._text.budget_bytes = budget_bytes

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the text that was read, and of its pre-tokens."""
        counted = self._pre_tokens.statistics()
        own = {
            "documents": self._documents,
            "special_tokens": self._special_tokens,
            "pre_tokens": counted["pre_tokens"],
        }
        return super().statistics() | own

    def _stretch(self, data: bytes, _: int) -> None:
        self._documents += not self._in_document
        self._in_document = True
        self._pre_tokens.feed(data)

    def _token(self, id_: int, _: bytes) -> None:
        self._pre_tokens.feed(b"", end=True)
        self._special_tokens += 1
        self._documents += id_ >= self._separators and not self._in_document
        self._in_document = id_ >= self._separators

    def _end(self, _: bool) -> None:
        self._pre_tokens.feed(b"", end=True)
        self._in_document = False


class PreparedCountTask(CountTask):
    """One chunk whose text has added tokens that are found by their rules."""

    prepares = True

    def counters(
        self, cutter: Any, spill: Callable[[_core.ChunkCounter], None], window_bytes: int = WINDOW_BYTES
    ) -> tuple[_core.ChunkCounter, _core.ChunkCounter]:
        """Return the counter that prepares text, and the one that counts its pre-tokens."""
        options: dict[str, Any] = {"budget_bytes": self.budget_bytes}
        counter = _core.ChunkCounter(cutter, [], spill=spill, window_bytes=window_bytes, **options)
        tokens = {token.decode(): id_ for id_, token in enumerate([*self.special_tokens, *self.added_tokens])}
        search = SpecialSearch(tokens, Preparation(self.pattern.nfc, rules=self.rules))
        return PreparedCounter(self, search, counter), counter
