"""Counting one chunk: what a worker process does.

Kept apart from the coordinator's side (`pipeline.count`), so that a worker starts with as few imports as it needs;
pyarrow comes in when the counter is written.
"""

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from pipeline import _core
from pipeline.corpus.files import CorpusFile
from pipeline.errors import InputError, InvalidTextError, TrainingError
from pipeline.executors.worker import report_progress
from pipeline.pattern import CompiledPattern, cut_with_regex, differing_characters
from pipeline.spill import spill_to, write_chunk
from pipeline.values import format_bytes

_log = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class CountTask:
    """One chunk for a worker: byte ranges of files, how to count them, and where the counter goes."""

    name: str
    spans: tuple[tuple[CorpusFile, int, int], ...]  # of a file as it was listed: start and stop
    pattern: CompiledPattern
    special_tokens: tuple[bytes, ...]
    errors: str
    max_piece_bytes: int | None
    output: Path
    fingerprint: str
    room_bytes: int  # for the text at hand and the pieces counted so far

    def __str__(self) -> str:
        file, start, stop = self.spans[0]
        more = f" and {len(self.spans) - 1} more spans" if len(self.spans) > 1 else ""
        return f"{self.name} ({file.path}, bytes {start} to {stop}{more})"


def count_chunk(task: CountTask) -> dict[str, Any]:
    """Count one chunk, write its counter, return its statistics. Runs in a worker process.

    A counter that grows beyond `room_bytes` is written in parts, which are combined at the end.

    Raises `TrainingError` where a piece is too long for that room, `InvalidTextError` under `errors="strict"` and
    `InputError` for a file that cannot be read or changed.
    """
    started = time.monotonic()
    cutter: Any = task.pattern.automaton or _RegexCutter(task.pattern)
    parts: list[Path] = []
    spill = spill_to(task.output, parts)
    counter = _core.ChunkCounter(
        cutter,
        list(task.special_tokens),
        errors=task.errors,
        max_piece_bytes=task.max_piece_bytes,
        room_bytes=task.room_bytes,
        spill=spill,
    )
    specials = _core.SpecialTokens(list(task.special_tokens))
    begins: list[tuple[int, str, int]] = []  # offset in what was fed, path, offset in the file
    fed = 0
    for span in task.spans:
        file, start, stop = span
        begins.append((fed, file.path, start))
        try:
            _feed(counter, specials, task, span, begins)
        except MemoryError as error:
            raise _too_long(task, begins, error) from None
        fed += stop - start
    statistics = dict(counter.statistics())
    places = [_place(begins, offset) for offset in statistics.pop("invalid_offsets")]
    statistics["examples"] = [f"{path}, byte {offset}" for path, offset in places]
    statistics["concerned_characters"] = cutter.concerned() if isinstance(cutter, _RegexCutter) else ""
    rows = write_chunk(
        counter,
        spill,
        parts,
        task.output,
        fingerprint=task.fingerprint,
        statistics=statistics,
        room_bytes=task.room_bytes,
    )
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d different pieces in %.2f s", task, fed, rows, elapsed_s)
    return statistics


def _feed(
    counter: _core.ChunkCounter,
    specials: _core.SpecialTokens,
    task: CountTask,
    span: tuple[CorpusFile, int, int],
    begins: list[tuple[int, str, int]],
) -> None:
    """Feed one byte range of a file: its end is the end of a document or, proven by the pattern, of a piece."""
    listed, start, stop = span
    path = listed.path
    block = memoryview(bytearray(min(_BLOCK_BYTES, stop - start)))
    try:
        with Path(path).open("rb", buffering=0) as file:
            _require_unchanged(file, listed)
            file.seek(start)
            at = start
            while at < stop:
                got = file.readinto(block[: stop - at])
                if not got:
                    raise InputError(
                        f"{path} ends at byte {at}, before the planned {stop}: it changed while it was read"
                    )
                if at == start and start > 0 and specials.match_at(block[:got], 0) is None:
                    counter.start_inside_document()
                counter.feed(block[:got])
                at += got
                report_progress(got)
            counter.feed(b"", end=True)
            _require_unchanged(file, listed)  # also while it was read
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; the run goes on where it was") from None
    except ValueError as error:
        offsets = counter.statistics()["invalid_offsets"]
        if task.errors != "strict" or not offsets:
            raise TrainingError(f"{task} cannot be counted: {error}") from None
        where, offset = _place(begins, offsets[-1])
        raise InvalidTextError(
            f"{where} has invalid UTF-8 at byte {offset}; mend it and start anew with --overwrite, or choose "
            "--errors replace or --errors skip"
        ) from None


def _too_long(task: CountTask, begins: list[tuple[int, str, int]], error: MemoryError) -> TrainingError:
    """What to tell of a piece, or under `skip` a document, that has no place in the room."""
    if len(error.args) != 2:
        return TrainingError(f"{task} cannot be counted: memory is short; give a larger --memory-limit")
    path, offset = _place(begins, error.args[0])
    what, cut = "piece", "" if task.max_piece_bytes else ", --max-piece-bytes"
    if task.errors == "skip":
        what, cut = "document", ", --errors replace"  # it is judged whole
    return TrainingError(
        f"{path} has a {what} at about byte {offset} of {format_bytes(error.args[1])} or more, too much for the "
        f"{format_bytes(task.room_bytes)} of a worker; give a larger --memory-limit, fewer --workers{cut}, or a "
        "--pattern or --special-token that cuts it"
    )


def _require_unchanged(file: FileIO, listed: CorpusFile) -> None:
    now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (listed.size, listed.mtime_ns):
        raise InputError(f"{listed.path} changed since the run was planned; restore it, or start anew with --overwrite")


def _place(begins: list[tuple[int, str, int]], offset: int) -> tuple[str, int]:
    """The file and the offset in it of a byte that was fed."""
    fed, path, start = max(begin for begin in begins if begin[0] <= offset)
    return path, start + offset - fed


class _RegexCutter:
    """Cuts documents with the `regex` package, noting the characters that it may class differently from runtimes."""

    def __init__(self, pattern: CompiledPattern) -> None:
        self._expression = pattern.expression
        self._differing = differing_characters()
        self._seen: set[str] = set()

    def __call__(self, document: str) -> Iterator[str]:
        self._seen |= self._differing.intersection(document)
        return cut_with_regex(self._expression, document)

    def concerned(self) -> str:
        """The characters of the corpus on which Unicode versions disagree, in order."""
        return "".join(sorted(self._seen))
