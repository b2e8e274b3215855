"""Blocks of bytes become blocks of whole lines, in bounded memory: a line that is too long is passed over."""

from collections.abc import Iterable, Iterator

from pipeline.corpus.room import SMALL_BYTES, Room, unlimited

LINE = "line"  # a part of the room
LINE_COPIES = 5.5  # as it was read, and mended; what Arrow makes of it


def whole_lines(
    blocks: Iterable[bytes], at: int, most_bytes: int, room: Room | None = None
) -> Iterator[tuple[int, bytes | int | None]]:
    """Blocks of whole lines, each with the offset of its first; None for a line of more than `most_bytes`.

    For a shorter one that has no place in the room, how long it is. The last line need not end. Which lines are too
    long does not depend on the blocks, of at most `most_bytes` each, nor on the room: a line is read to its end.
    """
    room = room or unlimited()
    rest: list[bytes] = []  # the beginning of a line, from `at` on
    held = 0  # bytes of it
    fits = True  # while it does, they are in `rest`
    dropping = False
    for block in blocks:
        head = block.find(b"\n")
        if dropping:
            if head < 0:
                at += len(block)
                continue
            at += head + 1
            block = block[head + 1 :]
            dropping = False
        elif head >= 0 and held + head > most_bytes:
            rest, fits = [], True
            yield at, None
            at += held + head + 1
            block, held = block[head + 1 :], 0
        elif head >= 0 and not fits:
            yield at, held + head
            at += held + head + 1
            block, held, fits = block[head + 1 :], 0, True
        end = block.rfind(b"\n") + 1
        if end:
            rest.append(block[:end])
            size = held + end
            yield at, _joined(rest)
            at += size
            held = 0
        if end < len(block):
            rest.append(block[end:])
            held += len(block) - end
            if fits and held > SMALL_BYTES:
                fits = room.hold(LINE, int(LINE_COPIES * min(held, most_bytes)))
            if not fits:
                rest.clear()
        if held > most_bytes:
            rest.clear()
            room.hold(LINE, 0)
            yield at, None
            at += held
            held, fits, dropping = 0, True, True
    if held:
        yield at, _joined(rest) if fits else held


def _joined(parts: list[bytes]) -> bytes:
    """The parts as one, which are then no longer kept."""
    whole = b"".join(parts)
    parts.clear()
    return whole
