"""Where the parts of a compressed file start that can be decompressed by themselves, from headers alone.

zstd frames that name their size, and the blocks of bgzip (BGZF). A file with anything unexpected in it
has no parts: it is read from its start, and decompressing judges it.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bpe_pipeline.corpus.files import CorpusFile, opened
from bpe_pipeline.storage import is_uri

_LEAST_TEXT_BYTES = 1 << 20  # between two parts that are listed
_GUESSED_RATIO = 4  # of text to compressed bytes
_MOST_RATIO = 1000  # of text that a trailer of gzip may claim
_ZSTD_MAGIC, _SKIPPABLE, _SKIPPABLE_MASK = 0xFD2FB528, 0x184D2A50, 0xFFFFFFF0
_DICTIONARY_ID_BYTES, _CONTENT_SIZE_BYTES = (0, 1, 2, 4), (0, 2, 4, 8)
_RUN = 1  # a block that is one byte, repeated
_BGZIP_MARKS = b"\x1f\x8b\x08\x04", b"\x06\x00BC\x02\x00"  # at the start of a block, and at byte 10
ReadAt = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Frame:
    """A part: where it starts in the file and in the text."""

    start: int
    text: int


FROM_START = Frame(0, 0)


def frames_of(file: CorpusFile) -> list[Frame]:
    """Return parts of a local compressed file, 1 MiB of text apart, and its end; none if anything is unexpected."""
    walk = {"zstd": _zstd, "gzip": _bgzip}.get(file.compression)
    if walk is None or is_uri(file.path):
        return []
    frames: list[Frame] = []
    with opened(file.path) as stream:
        try:
            for frame in walk(stream.read_at, file.size):
                if not frames or frame.start >= file.size or frame.text >= frames[-1].text + _LEAST_TEXT_BYTES:
                    frames.append(frame)
        except (ValueError, IndexError):
            return []
    return frames if frames[-1].start == file.size else []


def frame_before(frames: list[Frame], text: int) -> Frame:
    """Return the last part that starts at or before an offset of the text; the file's start if none are known."""
    parts = frames[:-1]  # the end is none
    return parts[max(bisect_right([frame.text for frame in parts], text) - 1, 0)] if parts else FROM_START


def text_bytes(file: CorpusFile) -> int:
    """Return the bytes of a file's text: as its headers say, or guessed; of an uncompressed file, its size."""
    if file.compression == "none":
        return file.size
    if frames := frames_of(file):
        return frames[-1].text
    if file.compression == "gzip" and not is_uri(file.path):
        with opened(file.path) as stream:
            size = int.from_bytes(stream.read_at(file.size - 4, 4), "little")  # of the last member, modulo 2^32
        while size < file.size:  # gzip makes nothing much larger
            size += 1 << 32
        if size < min(_MOST_RATIO * file.size, 1 << 32):
            return size
    return _GUESSED_RATIO * file.size


class ZstdFrame(NamedTuple):
    """A frame of zstd: where it starts, its window, and the bytes of its text (None: it does not name them)."""

    start: int
    window: int
    text: int | None


def zstd_frames(take: Callable[[ZstdFrame], None]) -> Generator[tuple[int, int], bytes, None]:
    """Find the frames in a file by their headers; yields the position and number of the bytes that are sent next.

    Raises `ValueError` for what is no frame.
    """
    at = 0
    while True:
        magic = _number((yield at, 4), 4)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            at += 8 + _number((yield at + 4, 4), 4)
            continue
        _expect(magic == _ZSTD_MAGIC)
        flags = _number((yield at + 4, 1), 1)
        single = flags >> 5 & 1  # its window is its content
        size_bytes = _CONTENT_SIZE_BYTES[flags >> 6] or single
        header_bytes = 1 - single + _DICTIONARY_ID_BYTES[flags & 3] + size_bytes
        header = yield at + 5, header_bytes
        base = 1 << 10 + (header[0] >> 3)
        text = int.from_bytes(header[len(header) - size_bytes :], "little") + (256 if size_bytes == 2 else 0)
        window = text if single else base + base // 8 * (header[0] & 7)
        take(ZstdFrame(at, window, text if size_bytes else None))
        at += 5 + header_bytes
        last = 0
        while not last:
            block = _number((yield at, 3), 3)
            last = block & 1
            at += 3 + (1 if block >> 1 & 3 == _RUN else block >> 3)
        at += 4 if flags & 4 else 0  # a checksum


def _zstd(read_at: ReadAt, size: int) -> Iterator[Frame]:
    frames: list[ZstdFrame] = []
    walk = zstd_frames(frames.append)
    at, wanted = next(walk)
    text = 0
    while at < size:
        at, wanted = walk.send(read_at(at, wanted))
        for frame in frames:
            if frame.text is None:
                raise ValueError("a frame that does not name its size")
            yield Frame(frame.start, text)
            text += frame.text
        frames.clear()
    yield Frame(at, text)


def _bgzip(read_at: ReadAt, size: int) -> Iterator[Frame]:
    at = text = 0
    while at < size:
        head = read_at(at, 18)
        _expect((head[:4], head[10:16]) == _BGZIP_MARKS)
        yield Frame(at, text)
        at += int.from_bytes(head[16:18], "little") + 1
        text += _number(read_at(at - 4, 4), 4)
    yield Frame(at, text)


def _number(data: bytes, size: int) -> int:
    _expect(len(data) == size)
    return int.from_bytes(data, "little")


def _expect(condition: bool) -> None:
    """Raise `ValueError` for what the format does not have: no message says why a file has no parts."""
    if not condition:
        raise ValueError("not what the format has")
