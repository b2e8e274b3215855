"""The room in which a worker reads and counts: what reading holds of it, counting has not.

A decompressor's window or a line of JSON is held whole, and how large it is the file decides. Readers say so before
they hold it: counting then gives way, and what has no place is refused. What is a loss does not depend on the room.
"""

from collections.abc import Callable

from pipeline.base.errors import TrainingError
from pipeline.base.units import format_bytes

LEAST_COUNTING_BYTES = 3 << 20  # what counting needs beside whatever is read
SMALL_BYTES = 1 << 20  # what is no larger need not be told


class Room:
    """What reading holds of a worker's room, by part ("window", "line", ...).

    room_bytes: of reading and counting together; None: as much as is wanted. left: hears how much counting still has.
    limit_bytes, shares: the memory limit of which the room is one of so many equal shares, whatever else there is.
    """

    def __init__(
        self, room_bytes: int | None, left: Callable[[int], None], *, limit_bytes: int | None = None, shares: float = 1
    ) -> None:
        self._room_bytes = room_bytes
        self._left = left
        self._limit_bytes = limit_bytes
        self._shares = shares
        self._held: dict[str, int] = {}

    @property
    def left_bytes(self) -> int | None:
        """What is not held of it; None: as much as is wanted."""
        return None if self._room_bytes is None else self._room_bytes - sum(self._held.values())

    def hold(self, part: str, size: int) -> bool:
        """Hold so many bytes for a part from now on, 0 for none.

        False where they have no place: then nothing is changed.
        """
        if self._room_bytes is None or self._held.get(part, 0) == size:
            return True
        held = sum(self._held.values()) - self._held.get(part, 0) + size
        if size and held + LEAST_COUNTING_BYTES > self._room_bytes:
            return False
        self._held[part] = size
        self._left(self._room_bytes - held)
        return True

    def too_small(self, what: str, part: str, size: int) -> TrainingError:
        """The error where a part of this size has no place; what: its name, with file and position."""
        held = sum(self._held.values()) - self._held.get(part, 0) + size + LEAST_COUNTING_BYTES
        room = self._room_bytes or 0
        limit = "a larger --memory-limit"
        if self._limit_bytes is not None:
            limit = f"--memory-limit {-(-(self._limit_bytes + int(self._shares * (held - room))) >> 20)}MiB"
        fewer = ", or fewer --workers" if self._shares >= 2 else ""
        return TrainingError(
            f"{what} would take {format_bytes(held)} to read, and a worker has {format_bytes(room)}; "
            f"give {limit}{fewer}"
        )


def unlimited() -> Room:
    """As much room as is wanted."""
    return Room(None, lambda _: None)
