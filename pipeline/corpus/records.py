"""What readers give: blocks of one text, or documents in columns with what was lost beside them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Text:
    """The next bytes of a text; a buffer."""

    data: Any


@dataclass(frozen=True)
class Lost:
    """Records that are no documents: a kind of `losses.KINDS`, how many, and the places of the first."""

    kind: str
    count: int
    places: Sequence[int]


@dataclass(frozen=True)
class Records:
    """Documents as Arrow holds a column of them: row i is data[offsets[i]:offsets[i + 1]], both buffers.

    offset_bytes: 4 or 8, the width of an offset. place: from a row to its place in the file: the byte at which its line
    begins, or its row there. A record that is no document is an empty row, or none.
    """

    rows: int
    offsets: Any
    data: Any
    offset_bytes: int
    place: Callable[[int], int]
    lost: Sequence[Lost] = ()
