"""Feeding a chunk's text to what takes it: a counter, or what makes ids of it.

Text is read and repaired, its losses are counted and placed in the same way for both.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

from pipeline import _core
from pipeline.base.errors import InvalidTextError, PatternTimeoutError, TrainingError
from pipeline.base.units import format_bytes
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.read_budget import ReadBudget
from pipeline.corpus.readers import read_span
from pipeline.corpus.records import Records
from pipeline.corpus.skipped_or_altered import Tally
from pipeline.executors.worker import report_progress
from pipeline.pattern import CompiledPattern, cut_with_regex, differing_characters

# The places that the counter notes, and the losses they are of; one errors policy has only one of them.
PLACED = {"invalid_offsets": ("replacements", "documents_skipped"), "cut_offsets": ("pieces_cut",)}


@dataclass(frozen=True, kw_only=True)
class ChunkTask:
    """One chunk to read: spans of files, and how their text is taken.

    limit_bytes, workers: the memory limit, and how many workers share it; None: nothing is known of it.
    """

    work: ClassVar[str]
    anew: ClassVar[str]  # how to go on when a file was mended

    name: str
    spans: tuple[tuple[CorpusFile, int, int], ...]  # of a file as it was listed: start and stop
    pattern: CompiledPattern
    special_tokens: tuple[bytes, ...]
    errors: str
    max_piece_bytes: int | None = None
    room_bytes: int  # for the text at hand and what is made of it
    text_field: str = "text"
    limit_bytes: int | None = None
    workers: int = 1

    def __str__(self) -> str:
        file, start, stop = self.spans[0]
        more = f" and {len(self.spans) - 1} more spans" if len(self.spans) > 1 else ""
        unit = "row groups" if file.format == "parquet" else "bytes"
        return f"{self.name} ({file.path}, {unit} {start} to {stop}{more})"


class Counter(Protocol):
    """What text is fed to: a `_core.ChunkCounter`, or what stands before one."""

    def fed_bytes(self) -> int:
        """Bytes fed so far."""
        ...

    def statistics(self) -> dict[str, Any]:
        """What was met so far."""
        ...

    def start_inside_document(self) -> None:
        """The next text goes on with a document."""
        ...

    def set_room(self, room_bytes: int) -> None:
        """So many bytes for the text at hand and what is made of it, from now on."""
        ...

    def feed(self, block: Any, end: bool = False) -> None:
        """The next bytes of a text."""
        ...

    def feed_documents(self, offsets: Any, data: Any, offset_bytes: int = 8) -> None:
        """Documents in a column."""
        ...


def feed_chunk(
    task: ChunkTask, counter: Counter, before: Callable[[CorpusFile, int, int], None] | None = None
) -> Tally:
    """Feed every span of a chunk; gives what was lost of them. before: called ahead of each span."""
    specials = _core.SpecialTokens(list(task.special_tokens))
    tally = Tally()
    examples: dict[str, list[str]] = {key: [] for key in PLACED}
    for span in task.spans:
        if before is not None:
            before(*span)
        try:
            _feed_span(counter, specials, task, span, tally, examples)
        except PatternTimeoutError as error:
            file, start, stop = span
            raise PatternTimeoutError(f"{file.path}, bytes {start} to {stop}: {error}") from None
        except InvalidTextError as error:
            raise InvalidTextError(str(error), span[0].path) from None
    _note_losses(counter, tally, examples)
    return tally


def _note_losses(counter: Counter, tally: Tally, examples: Mapping[str, list[str]]) -> None:
    """Add what the counter met, when all was fed."""
    statistics = counter.statistics()
    for key, places in examples.items():
        for kind in PLACED[key]:
            tally.add(kind, statistics[kind], places)


def _feed_span(
    counter: Counter,
    specials: _core.SpecialTokens,
    task: ChunkTask,
    span: tuple[CorpusFile, int, int],
    tally: Tally,
    examples: dict[str, list[str]],
) -> None:
    """Feed one span of a file: its end is the end of a document or, proven by the pattern, of a piece."""
    file, start, stop = span
    whole_text = file.format == "text" and file.compression == "none"
    begin = fed = counter.fed_bytes()
    took = 0
    on_change = partial(_leave, counter)
    budget = ReadBudget(task.room_bytes, on_change, limit_bytes=task.limit_bytes, workers=task.workers)
    for part in read_span(file, start, stop, task.text_field, report_progress, budget):
        if isinstance(part, bytes):
            if fed == begin and whole_text and start > 0 and specials.match_at(part, 0) is None:
                counter.start_inside_document()
            _feed(task, counter, partial(counter.feed, part), _text_place(file, start, begin))
            fed = counter.fed_bytes()
            took += fed - begin
            del part
            continue
        place = _record_place(file, part, fed)
        _feed(task, counter, partial(counter.feed_documents, part.offsets, part.data, part.offset_bytes), place)
        fed = counter.fed_bytes()
        _note_places(counter, place, examples)
        for skipped in part.skipped:
            tally.add(skipped.kind, skipped.count, map(file.location, skipped.positions))
        took += part.rows + len(part.skipped)
        del part, place  # before the next is read: they may be large
    if file.format == "text":
        place = _text_place(file, start if whole_text else 0, begin)
        _feed(task, counter, partial(counter.feed, b"", end=True), place)
        _note_places(counter, place, examples)
    if took == 0 and start == 0 and (stop == file.size or file.format == "parquet"):
        tally.add("files_empty", 1, [file.path])
    counter.set_room(task.room_bytes)  # what reading held of it is over


def _leave(counter: Counter, room_bytes: int) -> None:
    """Give the counter this room: where that is less than it takes, it is written out. What was freed is given back."""
    counter.set_room(room_bytes)
    _core.give_back_memory()


def _feed(task: ChunkTask, counter: Counter, feed: Callable[[], None], place: Callable[[int], str]) -> None:
    """Feed something, putting into words what the counter refuses. place: from an offset in what was fed."""
    try:
        feed()
    except MemoryError as error:
        raise _too_long(task, place, error) from None
    except ValueError as error:
        offsets = counter.statistics()["invalid_offsets"]
        if task.errors != "strict" or not offsets:
            raise TrainingError(f"{task} cannot be {task.work}: {error}") from None
        raise InvalidTextError(
            f"invalid UTF-8 in {place(offsets[-1])}; fix it and {task.anew}, or choose "
            "--errors replace or --errors skip"
        ) from None


def _too_long(task: ChunkTask, place: Callable[[int], str], error: MemoryError) -> TrainingError:
    """What to tell of a piece, or under `skip` a document, that has no place in the room."""
    if len(error.args) != 2:
        return TrainingError(f"{task} cannot be {task.work}: memory is short; give a larger --memory-limit")
    what, cut = "piece", "" if task.max_piece_bytes else ", --max-piece-bytes"
    if task.errors == "skip":
        what, cut = "document", ", --errors replace"  # it is judged whole
    remedy = f", fewer --workers{cut}, or a --pattern or --special-token that cuts it"
    if task.work == "encoded":  # the tokenizer says what cuts
        remedy = ", --errors replace or fewer --workers" if task.errors == "skip" else " or fewer --workers"
    return TrainingError(
        f"{place(error.args[0])}: about here begins a {what} of {format_bytes(error.args[1])} or more, too much for "
        f"the {format_bytes(task.room_bytes)} of a worker; give a larger --memory-limit{remedy}"
    )


def _text_place(file: CorpusFile, start: int, begin: int) -> Callable[[int], str]:
    """From an offset in what was fed to the place in a text that was fed from `begin` on, and starts at `start`."""
    return lambda offset: file.location(start + offset - begin)


def _record_place(file: CorpusFile, records: Records, begin: int) -> Callable[[int], str]:
    """The same for records: the place of the one that was fed there."""
    return lambda offset: file.location(records.position(records.row_at(offset - begin)))


def _note_places(counter: Counter, place: Callable[[int], str], examples: dict[str, list[str]]) -> None:
    """Add the places of the losses that the counter met since the last time."""
    statistics = counter.statistics()
    for key, places in examples.items():
        places += map(place, statistics[key][len(places) :])


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
