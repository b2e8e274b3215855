"""Counting one chunk: what a worker process does.

Kept apart from the coordinator's side (`pipeline.count`), so that a worker starts with as few imports as it needs;
pyarrow comes in when the counter is written.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline import _core, counters
from pipeline.corpus.files import CorpusFile, open_file
from pipeline.errors import InputError, InvalidTextError, PatternTimeoutError, TrainingError
from pipeline.executors.worker import report_progress
from pipeline.pattern import CompiledPattern, cut_with_regex, differing_characters
from pipeline.storage import Location, OpenFile

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
    output: Location
    fingerprint: str

    def __str__(self) -> str:
        file, start, stop = self.spans[0]
        more = f" and {len(self.spans) - 1} more spans" if len(self.spans) > 1 else ""
        return f"{self.name} ({file.path}, bytes {start} to {stop}{more})"


def count_chunk(task: CountTask) -> dict[str, Any]:
    """Count one chunk, write its counter, return its statistics. Runs in a worker process.

    Raises `InvalidTextError` under `errors="strict"` and `InputError` for a file that cannot be read or changed.
    """
    started = time.monotonic()
    cutter: Any = task.pattern.automaton or RegexCutter(task.pattern)
    counter = _core.ChunkCounter(
        cutter, list(task.special_tokens), errors=task.errors, max_piece_bytes=task.max_piece_bytes
    )
    specials = _core.SpecialTokens(list(task.special_tokens))
    begins: list[tuple[int, str, int]] = []  # offset in what was fed, path, offset in the file
    fed = 0
    for span in task.spans:
        file, start, stop = span
        begins.append((fed, file.path, start))
        try:
            _feed(counter, specials, task, span, begins)
        except PatternTimeoutError as error:
            raise PatternTimeoutError(f"{file.path}, bytes {start} to {stop}: {error}") from None
        fed += stop - start
    statistics = dict(counter.statistics())
    places = [_place(begins, offset) for offset in statistics.pop("invalid_offsets")]
    statistics["examples"] = [f"{path}, byte {offset}" for path, offset in places]
    statistics["concerned_characters"] = cutter.concerned() if isinstance(cutter, RegexCutter) else ""
    counters.write_counter(
        task.output, counters.counter_partitions(counter), fingerprint=task.fingerprint, statistics=statistics
    )
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d different pieces in %.2f s", task, fed, len(counter), elapsed_s)
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
        with open_file(path) as file:
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


def _require_unchanged(file: OpenFile, listed: CorpusFile) -> None:
    if file.state() != (listed.size, listed.mtime_ns):
        raise InputError(f"{listed.path} changed since the run was planned; restore it, or start anew with --overwrite")


def _place(begins: list[tuple[int, str, int]], offset: int) -> tuple[str, int]:
    """The file and the offset in it of a byte that was fed."""
    fed, path, start = max(begin for begin in begins if begin[0] <= offset)
    return path, start + offset - fed


class RegexCutter:
    """Cuts documents with the `regex` package, noting the characters that it may class differently from runtimes."""

    def __init__(self, pattern: CompiledPattern) -> None:
        self._pattern = pattern
        self._differing = differing_characters()
        self._seen: set[str] = set()

    def __call__(self, document: str) -> Iterator[str]:
        """The pieces of a document."""
        self._seen |= self._differing.intersection(document)
        return cut_with_regex(self._pattern.expression, document, self._pattern.timeout_s)

    def concerned(self) -> str:
        """The characters of the corpus on which Unicode versions disagree, in order."""
        return "".join(sorted(self._seen))
