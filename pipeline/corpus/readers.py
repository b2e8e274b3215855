"""From a span of a file to what a counter takes: blocks of text, or columns of documents, in bounded memory.

Formats and compressions are independent: compressed bytes become blocks of text (`decompress`), blocks of lines become
records (`readers_json`) or documents as they stand (`readers_lines`), row groups become records too
(`readers_parquet`). A file that changed since it was listed, or while it was read, is noticed here, whatever it holds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.base.errors import InputError
from pipeline.corpus.files import CorpusFile, open_file
from pipeline.corpus.formats import begins_as_parquet, compressed_parquet
from pipeline.corpus.records import Records, Text
from pipeline.corpus.room import Room, unlimited
from pipeline.storage import OpenFile

BLOCK_BYTES = 1 << 20
Progress = Callable[[int], None]


def read_span(
    file: CorpusFile, start: int, stop: int, text_field: str, progress: Progress, room: Room | None = None
) -> Iterator[Text | Records]:
    """What the span [start, stop) of a file holds, in order.

    start, stop: bytes of a plain file of text or of lines (which are whole), row groups of a Parquet file; a
    compressed file is read whole. `progress` hears how many of the span's bytes were done, and of all of them at the
    end. room: what of it is not small is held of it; None: as much as is wanted.

    A block of text is valid until the next is asked for. Raises `InputError` for a file that changed, cannot be read
    or is damaged, naming it and the place; `TrainingError` where something in it has no place in the room.
    """
    room = room or unlimited()
    with _unchanged(file) as stream:
        if file.format == "parquet":
            from pipeline.corpus.readers_parquet import read_row_groups

            yield from read_row_groups(file, stream, range(start, stop), text_field, progress, room)
        elif file.format == "text" and file.compression == "none":
            yield from _read_text(file, stream, start, stop, progress)
        else:
            if file.compression == "none":
                blocks = _read_blocks(file, stream, start, stop, progress)
            else:
                blocks = _decompressed(file, stream, progress, room)
            at = start if file.compression == "none" else 0
            if file.format == "text":
                yield from map(Text, blocks)
            elif file.format == "lines":
                from pipeline.corpus.readers_lines import read_lines

                yield from read_lines(file, blocks, at, room)
            else:
                from pipeline.corpus.readers_json import read_records

                yield from read_records(file, blocks, at, text_field, room)


@contextmanager
def _unchanged(file: CorpusFile) -> Iterator[OpenFile]:
    """The open file, which is the one that was listed, before it is read and after."""
    try:
        with open_file(file.path) as stream:
            _require_unchanged(stream, file)
            yield stream
            _require_unchanged(stream, file)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{file.path} cannot be read: {reason}; the run goes on where it was") from None


def _require_unchanged(stream: OpenFile, listed: CorpusFile) -> None:
    size, mtime_ns = stream.state()
    if (size, mtime_ns) != (listed.size, listed.mtime_ns):
        shrank = f": it shrank from {listed.size} bytes to {size}" if size < listed.size else ""
        raise InputError(
            f"{listed.path} changed since the run was planned{shrank}; restore it, or start anew with --overwrite"
        )


def _ended(file: CorpusFile, at: int, stop: int) -> InputError:
    return InputError(f"{file.path} ends at byte {at}, before the planned {stop}: it changed while it was read")


def _read_text(file: CorpusFile, stream: OpenFile, start: int, stop: int, progress: Progress) -> Iterator[Text]:
    """Blocks of a range, all in the same memory."""
    block = memoryview(bytearray(min(BLOCK_BYTES, stop - start)))
    stream.seek(start)
    at = start
    while at < stop:
        got = stream.readinto(block[: stop - at])
        if not got:
            raise _ended(file, at, stop)
        at += got
        yield Text(block[:got])
        progress(got)


def _read_blocks(file: CorpusFile, stream: OpenFile, start: int, stop: int, progress: Progress) -> Iterator[bytes]:
    stream.seek(start)
    at = start
    while at < stop:
        block = stream.read(min(BLOCK_BYTES, stop - at))
        if not block:
            raise _ended(file, at, stop)
        at += len(block)
        yield block
        progress(len(block))


def _decompressed(file: CorpusFile, stream: OpenFile, progress: Progress, room: Room) -> Iterator[bytes]:
    """Blocks of what a compressed file holds, refused where that is a Parquet file."""
    from pipeline.corpus.decompress import decompress

    told = 0
    for number, block in enumerate(decompress(file, stream, room)):
        if number == 0 and begins_as_parquet(block):
            raise compressed_parquet(file.path, file.compression)
        yield block
        done = min(stream.tell(), file.size)
        progress(done - told)
        told = done
    progress(file.size - told)
