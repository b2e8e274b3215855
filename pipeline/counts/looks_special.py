"""Text that looks like a special token and is counted as text: nearly always a special token that was not named.

A chunk's first mebibyte is searched, so that counting takes no longer; a warning names how much that was.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline import _core
from pipeline.base.units import format_bytes
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.run.ids import WELL_KNOWN
from pipeline.run.work import Work

_MOST_BYTES = 1 << 20  # of a chunk


class LooksSpecial:
    """Searches the first text that it gets for well-known special tokens that are not special here."""

    def __init__(self, special_tokens: Iterable[bytes]) -> None:
        self._special = list(special_tokens)
        known = (text.encode() for texts in WELL_KNOWN.values() for text in texts)
        self._others = [text for text in known if text not in self._special]
        self._blocks: list[bytes] = []
        self._searched_bytes = 0

    def look(self, data: Any, start: int = 0, stop: int | None = None) -> None:
        """Keep as much of a block's text as is searched."""
        if self._searched_bytes < _MOST_BYTES:
            end = min(len(data) if stop is None else stop, start + _MOST_BYTES - self._searched_bytes)
            self._blocks.append(bytes(memoryview(data).cast("B")[start:end]))
            self._searched_bytes += end - start

    def statistics(self) -> dict[str, Any]:
        """Return what was found, as fields of `ChunkStatistics`."""
        tally = _core.SpecialTokens([*self._special, *self._others]).tally(b"".join(self._blocks))
        found = zip(self._others, tally[len(self._special) :], strict=True)
        looks_special = {text.decode(): count for text, count in found if count}
        return {"looks_special": looks_special, "searched_bytes": self._searched_bytes}


def warn_of_special_text(work: Work, statistics: ChunkStatistics) -> None:
    """Warn of well-known special tokens that were counted as text, unless they were named to be."""
    named: Sequence[str] = work.options.special_tokens if work.options.special_tokens_as_text else ()
    found: Mapping[str, int] = {text: n for text, n in statistics.looks_special.items() if text not in named}
    if not found:
        return
    most = sorted(found, key=lambda text: -found[text])
    shown = ", ".join(f"{text!r} {found[text]:,} times" for text in most[:8]) + (", ..." if len(most) > 8 else "")
    searched, whole = statistics.searched_bytes, statistics.bytes
    where = "" if searched >= whole else f" (in {format_bytes(searched)} of {format_bytes(whole)} that were searched)"
    work.warn(
        f"the corpus has what looks like special tokens, and they were counted as text: {shown}{where}; if they are "
        "special, name them with --special-token and count again"
    )
