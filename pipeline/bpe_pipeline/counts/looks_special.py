"""Text that looks like a special token and is counted as text: nearly always a special token that was not named.

A chunk's first mebibyte is searched, so that counting takes no longer; a warning names how much that was.
"""

from collections.abc import Iterable
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.run.ids import WELL_KNOWN

_MOST_BYTES = 1 << 20  # of a chunk


class LooksSpecial:
    """Searches the first text that it gets for well-known special tokens that are not special here."""

    def __init__(self, special_tokens: Iterable[bytes], searched_bytes: int = 0) -> None:
        self._special = list(special_tokens)
        known = (text.encode() for texts in WELL_KNOWN.values() for text in texts)
        self._others = [text for text in known if text not in self._special]
        self._blocks: list[bytes] = []
        self._before = self._searched_bytes = searched_bytes  # before: of the chunk, by an earlier process

    def look(self, data: Any, start: int = 0, stop: int | None = None) -> None:
        """Keep as much of a block's text as is searched."""
        if self._searched_bytes < _MOST_BYTES:
            end = min(len(data) if stop is None else stop, start + _MOST_BYTES - self._searched_bytes)
            self._blocks.append(bytes(memoryview(data).cast("B")[start:end]))
            self._searched_bytes += end - start

    def statistics(self) -> dict[str, Any]:
        """Return what was found, as fields of `ChunkStatistics`."""
        tally = _core.SpecialTokens([*self._special, *self._others]).tally(b"".join(self._blocks))
        counts = zip(self._others, tally[len(self._special) :], strict=True)
        looks_special = {text.decode(): count for text, count in counts if count}
        return {"looks_special": looks_special, "searched_bytes": self._searched_bytes - self._before}

    @property
    def complete(self) -> bool:
        """Whether more text would not be searched."""
        return self._searched_bytes >= _MOST_BYTES
