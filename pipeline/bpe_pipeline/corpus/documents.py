"""Documents in columns, as readers yield them, the records among them that are none, and what judges them.

An option that decides of a whole document, whatever its pre-tokens are, is a field of `DocumentJudge`, here and in the
core (`native/count/counting.hpp`). The value is passed whole from the options to what cuts, reads and counts.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

from bpe_pipeline.base.system import cached_property
from bpe_pipeline.corpus.skipped_or_altered import MOST_EXAMPLES


@dataclass(frozen=True)
class SkippedRecords:
    """Records of one kind that are not documents, and the first positions: bytes, rows, or numbers of items."""

    kind: str
    count: int
    positions: Sequence[int]


@dataclass(frozen=True)
class Records:
    """Documents as Arrow holds a column of them: row i is data[offsets[i]:offsets[i + 1]], both buffers.

    offset_bytes: 4 or 8, the width of an offset. position: from a row to the byte at which its line starts, its row in
    the file, or the number of its item. A record that is not a document is an empty row, or none. are_lines: whether
    each row is a line of text with its ending.
    """

    offsets: Any
    data: Any
    offset_bytes: int
    position: Callable[[int], int]
    skipped: Sequence[SkippedRecords] = ()
    are_lines: bool = False

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    @cached_property
    def starts(self) -> memoryview:
        """The offsets as numbers."""
        return memoryview(self.offsets).cast("B").cast("i" if self.offset_bytes == 4 else "q")

    def row_at(self, byte: int) -> int:
        """Return the row of a byte, counted from the start of the first row."""
        return min(bisect_right(self.starts, byte + self.starts[0]), self.rows) - 1


def field_path(text_field: str, names: Collection[str]) -> Sequence[str]:
    """Return the names that lead to a field: just its own if a record has that, else those between its dots."""
    return (text_field,) if text_field in names else text_field.split(".")


def joined(texts: Sequence[bytes], skipped: Mapping[str, Sequence[int]], position: Callable[[int], int]) -> Records:
    """Return texts as records. skipped: the rows that are not documents, by kind."""
    offsets = array("q", accumulate(map(len, texts), initial=0))
    kinds = [
        SkippedRecords(kind, len(rows), list(map(position, rows[:MOST_EXAMPLES]))) for kind, rows in skipped.items()
    ]
    return Records(offsets, b"".join(texts), 8, position, kinds)


@dataclass(frozen=True)
class DocumentJudge:
    """The options that decide of a document whether, and how much of it, is counted.

    errors: the policy for invalid UTF-8. sample: the share of documents that are taken, chosen by a hash of their bytes
    and `seed`; None: all. max_document_chars: take the first characters of a document.
    """

    errors: str = "replace"
    sample: float | None = None
    seed: int = 0
    max_document_chars: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "DocumentJudge":
        """Return the judge that options, by their names, describe."""
        return cls(**{field.name: options.get(field.name, field.default) for field in fields(cls)})

    @property
    def selects(self) -> bool:
        """Whether documents are left out or cut, whatever they hold."""
        return self.sample is not None or self.max_document_chars is not None

    @property
    def needs_whole_documents(self) -> bool:
        """Whether text is cut between documents alone."""
        return self.selects or self.drops_documents

    @property
    def drops_documents(self) -> bool:
        """Whether a document may be dropped when its end is reached."""
        return self.errors == "skip"
