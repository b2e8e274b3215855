"""Feed a chunk's text to a counter, or to what makes ids of it: read and repaired in the same way for both.

What is skipped or altered is counted, with the first locations of each kind.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, InvalidTextError, PatternTimeoutError, TrainingError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.corpus.chunks import Cutting, cutting_of
from bpe_pipeline.corpus.contents import BYTE_ORDER_MARK, HEAD_BYTES, object_lines
from bpe_pipeline.corpus.documents import DocumentJudge, Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.marks import Rule, mark_of
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.readers import first_cut, read_span, text_range
from bpe_pipeline.corpus.skipped_or_altered import Tally, add_up
from bpe_pipeline.executors.worker import report_progress, report_totals
from bpe_pipeline.pattern.by_regex import cut_with_regex, differing_characters
from bpe_pipeline.pattern.compiled import CompiledPattern, PatternSequence
from bpe_pipeline.pattern.token_rules import PLAIN_RULE, TokenRule
from bpe_pipeline.storage import Location

_LEAST_NULS = 100  # one byte in fewer is NUL
_MOST_REPLACED, _FEW_REPLACED = 0.1, 15  # of the characters of a text; a slip in a short one


@dataclass(frozen=True, kw_only=True)
class ChunkTask:
    """One chunk to read: spans of files, and how to read their text.

    sizes: the spans' bytes of text, as planned. budget_bytes: for the text being read and what is made of it.
    grant, copies: of the memory limit, as for `ReadBudget`. special_tokens: that separate documents; ending: how many
    of the first end documents that the judge may leave out or cut; rules: of added tokens that do not have the plain
    one, also of those that separate nothing.
    """

    work: ClassVar[str]
    again: ClassVar[str]  # how to continue when a file was fixed
    as_text: ClassVar[str] = ""  # how special tokens become text, for a message

    name: str
    spans: tuple[FileSpan, ...]
    pattern: CompiledPattern
    special_tokens: tuple[bytes, ...]
    ending: int = 1
    rules: Mapping[str, TokenRule] = field(default_factory=dict)
    judge: DocumentJudge = DocumentJudge()
    budget_bytes: int
    text_field: str = "text"
    grant: Grant | None = None
    copies: float = 1
    sizes: tuple[int, ...] = ()

    @property
    def added_tokens(self) -> list[bytes]:
        """The tokens that are cut out of the text and separate nothing."""
        special_tokens = {*self.special_tokens}
        return [token for token in (text.encode() for text in self.rules) if token not in special_tokens]

    @property
    def tokens(self) -> tuple[list[bytes], list[bytes]]:
        """The tokens that separate documents, and those that are cut out of documents."""
        special = [*self.special_tokens]
        ending = self.ending if self.judge.needs_whole_documents else len(special)
        return special[:ending], special[ending:] + self.added_tokens

    @property
    def refused(self) -> list[int]:
        """The indices among `tokens` of those whose flags would change the text around them, which is not done.

        A separator ends its document, so the white space behind it (rstrip) is of the next one.
        """
        texts = [token.decode() for token in [*self.special_tokens, *self.added_tokens]]
        rules = [self.rules.get(text, PLAIN_RULE) for text in texts]
        rules[: self.ending] = [replace(rule, rstrip=False) for rule in rules[: self.ending]]
        return [index for index, rule in enumerate(rules) if rule.looks_around]

    def refusal(self, index: int) -> str:
        """Return what a token is, one of `refused`, and what helps."""
        text = [*self.special_tokens, *self.added_tokens][index].decode()
        rule = self.rules[text]
        flags = " and ".join(name for name in ("lstrip", "rstrip", "single_word") if getattr(rule, name))
        return (
            f"token {text!r}, which is flagged {flags}: these flags are not followed in a corpus; "
            f"{self.as_text if rule.special else ''}use a tokenizer without them, or take the token out of the text"
        )

    def cutting(self) -> Cutting:
        """Return where the text can be cut."""
        return cutting_of(self.special_tokens, self.rules, self.pattern, judge=self.judge, ending=self.ending)

    def __str__(self) -> str:
        file, start, stop = self.spans[0]
        more = f" and {len(self.spans) - 1} more spans" if len(self.spans) > 1 else ""
        return f"{self.name} ({file.path}, {file.kind.parts} {start} to {stop}{more})"


@dataclass(frozen=True, kw_only=True)
class CountTask(ChunkTask):
    """One chunk for a worker, and where its counter goes; the budget includes the pre-tokens counted so far."""

    work: ClassVar[str] = "counted"
    again: ClassVar[str] = "start from scratch with --overwrite"
    as_text: ClassVar[str] = "count it as text with --special-tokens-as-text (not with --like), "

    output: Location
    fingerprint: str

    def counter(self, cutter: Any, spill: Callable[[_core.ChunkCounter], None]) -> _core.ChunkCounter:
        """Return the counter that text is fed to."""
        special_tokens, added_tokens = self.tokens
        return _core.ChunkCounter(
            cutter,
            special_tokens,
            added_tokens=added_tokens,
            judge=self.judge,
            budget_bytes=self.budget_bytes,
            spill=spill,
            form=self.pattern.form,
            refused=self.refused,
            line_cutter=self.pattern.line_automaton,
        )


class Resumable:
    """Where feeding starts (span, byte), and what it asks at positions where a pre-token provably ends.

    This one: never.
    """

    start = (0, 0)

    def due(self) -> bool:
        """Whether to call `keep` at the next such position."""
        return False

    def keep(self, span: int, offset: int, tally: Tally) -> None:
        """All text before this position is fed, and this was skipped or altered in it since `start`."""


def feed_chunk(
    task: ChunkTask,
    counter: _core.ChunkCounter,
    before: Callable[[CorpusFile, int, int], None] = lambda *_: None,
    look: Callable[[Any, int, int], None] = lambda *_: None,
    resumable: Resumable = Resumable(),  # noqa: B008 - has no state
) -> Tally:
    """Feed every span of a chunk, after `before`, `look`ing at text blocks; returns what was skipped or altered."""
    feeding = _Feeding(task, counter, look, resumable)
    for number, span in enumerate(task.spans):
        if number < resumable.start[0]:
            report_progress(task.sizes[number])
            continue
        before(*span)
        try:
            feeding.feed_span(number)
        except PatternTimeoutError as error:
            file, start, stop = span
            raise PatternTimeoutError(f"{file.path}, bytes {start} to {stop}: {error}") from None
    return feeding.tally()


def in_text_bytes(text_bytes: int, span_bytes: int) -> Callable[[int], None]:
    """Return what reports progress in bytes of a compressed file as progress in bytes of text, as planned."""
    done, report = 0, report_totals()

    def progress(amount: int) -> None:
        nonlocal done
        done += amount
        report(done * text_bytes // span_bytes)

    return progress


class _Feeding:
    """Feeds the spans of a chunk and collects what was skipped or altered."""

    def __init__(
        self, task: ChunkTask, counter: _core.ChunkCounter, look: Callable[[Any, int, int], None], resumable: Resumable
    ) -> None:
        self._task, self._counter, self._look, self._resumable = task, counter, look, resumable
        self._tally = Tally()
        self._locations: defaultdict[str, list[str]] = defaultdict(list)  # of what the counter notes, by kind
        self._cutting = task.cutting()
        self._specials = self._cutting.specials()

    def tally(self) -> Tally:
        """Return what was skipped or altered so far."""
        tally = Tally(add_up([self._tally.kinds]))
        for kind, (count, _) in self._counter.statistics()["noted"].items():
            tally.add(kind, count, self._locations[kind])
        return tally

    def feed_span(self, number: int) -> None:
        """Feed a span. Its end is the end of a document or, proven by the pattern, of a pre-token."""
        task, counter = self._task, self._counter
        file, start, stop = task.spans[number]
        budget = ReadBudget(task.budget_bytes, self._shrink, task.grant, task.copies)
        progress: Callable[[int], None] = report_progress
        text: tuple[int, int | None] = (start, None)
        resumed = self._resumable.start[1] if number == self._resumable.start[0] else 0
        if file.compression != "none":
            progress = in_text_bytes(task.sizes[number] if task.sizes else stop - start, stop - start)
            first, last = text_range(task.spans[number], self._cutting, budget)
            text = max(first, resumed), last
        before = counter.statistics()
        first = text[0] - before["bytes"]  # of a text, from a number of fed bytes to an offset in it
        nuls, is_empty = 0, True
        blocks = read_span(task.spans[number], task.text_field, progress, budget, text)
        for block in blocks if text[0] != text[1] else iter(()):
            if isinstance(block, bytes):
                if counter.fed_bytes() == before["bytes"]:
                    mark_bytes = self._begin_text(file, block, text[0])
                    block, first = block[mark_bytes:], first + mark_bytes
                nuls += block.count(0) if start == 0 else 0
                is_empty = is_empty and not block
                self._feed_text(number, block, first)
            else:
                is_empty = is_empty and not block.rows and not block.skipped
                self._feed_records(number, block)
            del block  # before the next is read: it may be large
        if file.kind.begins_anywhere:
            self._feed(partial(counter.feed, b"", end=True), lambda offset: file.location(first + offset))
        if start == 0:  # the first span speaks for its file
            is_whole = resumed == 0 and stop == file.size
            self._tally.add("files_empty", int(is_empty and is_whole), [file.path])
            self._note_kind_of_text(file, before, nuls)
        counter.set_budget(task.budget_bytes)  # what reading held of it is free again

    def _begin_text(self, file: CorpusFile, block: bytes, offset: int) -> int:
        """Look at the first block of a text; return the bytes of the mark in front of it."""
        if offset > 0:
            if not self._cutting.separates(self._specials.match_at(block, 0)):
                self._counter.start_inside_document()
            return 0
        mark_bytes = len(BYTE_ORDER_MARK) if block.startswith(BYTE_ORDER_MARK) else 0
        if not file.by_name:
            objects, lines = object_lines(block[mark_bytes:])
            example = f"{file.path}, {objects:,} of {format_count(lines, 'lines')}"
            self._tally.add("files_like_json", int(2 * objects > lines), [example])
            if mark := mark_of(block[mark_bytes : mark_bytes + HEAD_BYTES], Rule.WARNED_OF):
                self._tally.add("files_of_other_formats", 1, [f"{file.path}, {mark.format}: {mark.remedy}"])
        return mark_bytes

    def _note_kind_of_text(self, file: CorpusFile, before: Mapping[str, Any], nuls: int) -> None:
        """Tally a file if much of what was fed since `before` was replaced, or is NUL: it is hardly text in UTF-8."""
        after = self._counter.statistics()
        fed, invalid = (after[key] - before[key] for key in ("bytes", "invalid_bytes"))
        replaced = after["noted"]["replacements"][0] - before["noted"]["replacements"][0]
        hardly = replaced > max(_MOST_REPLACED * (fed - invalid + replaced), _FEW_REPLACED)
        self._tally.add("files_hardly_text", int(hardly), [file.path])
        example = f"{file.path}, {nuls:,} of {format_count(fed, 'bytes')}"
        self._tally.add("files_with_nuls", int(_LEAST_NULS * nuls > fed), [example])

    def _feed_records(self, number: int, block: Records) -> None:
        """Feed documents in columns, after a checkpoint if one is due."""
        file = self._task.spans[number][0]
        if file.compression != "none" and block.rows and self._resumable.due():
            self._resumable.keep(number, block.position(0), self.tally())
        self._look(block.data, block.starts[0], block.starts[-1])
        location = _record_location(file, block, self._counter.fed_bytes())
        feed = self._counter.feed_documents
        self._feed(partial(feed, block.offsets, block.data, block.offset_bytes, are_lines=block.are_lines), location)
        for skipped in block.skipped:
            self._tally.add(skipped.kind, skipped.count, map(file.location, skipped.positions))

    def _feed_text(self, number: int, block: bytes, first: int) -> None:
        """Feed a block of text, in two if a checkpoint is due and there is a safe position in it."""
        counter, file = self._counter, self._task.spans[number][0]

        def location(offset: int) -> str:
            return file.location(first + offset)

        self._look(block, 0, len(block))
        cut = None
        if file.compression != "none" and self._resumable.due():
            cut = first_cut(file, self._cutting, block, self._specials)
        if cut is not None:
            self._feed(partial(counter.feed, block[:cut], end=True), location)
            self._resumable.keep(number, first + counter.fed_bytes(), self.tally())
            if not self._cutting.separates(self._specials.match_at(block, cut)):
                counter.start_inside_document()
            block = block[cut:]
        self._feed(partial(counter.feed, block), location)

    def _shrink(self, budget_bytes: int) -> None:
        """Leave the counter this budget: if it holds more, it is written out, and freed memory is given back."""
        self._counter.set_budget(budget_bytes)
        _core.give_back_memory()

    def _feed(self, feed: Callable[[], None], location: Callable[[int], str]) -> None:
        """Feed a block. location: from the number of bytes fed before an error to its location, for messages."""
        task = self._task
        try:
            feed()
        except MemoryError as error:
            raise _too_long(task, location, error) from None
        except UnicodeError as error:
            raise InvalidTextError(
                f"invalid UTF-8 in {location(error.args[1])}; fix it and {task.again}, or choose "
                "--errors replace or --errors skip"
            ) from None
        except LookupError as error:
            if len(error.args) != 2:
                raise
            index, offset = error.args
            raise InputError(f"{location(offset)}: the text contains the {task.refusal(index)}") from None
        except ValueError as error:
            raise TrainingError(f"{task} cannot be {task.work}: {error}") from None
        for kind, (_, offsets) in self._counter.statistics()["noted"].items():
            locations = self._locations[kind]
            locations += map(location, offsets[len(locations) :])


def _too_long(task: ChunkTask, location: Callable[[int], str], error: MemoryError) -> TrainingError:
    """Return the error for a pre-token, or a document that may be dropped, that exceeds the budget."""
    if len(error.args) != 2:
        return TrainingError(f"{task} cannot be {task.work}: memory is short; give a larger --memory-limit")
    what, judging = "pre-token", ""
    if task.judge.drops_documents:
        what, judging = "document", ", --errors replace"  # it is judged whole
    if task.judge.selects:
        what, judging = "document", ", no --sample, no --max-document-chars"
    remedy = f", fewer --workers{judging}, or a --pattern or --special-token that splits it"
    if task.work == "encoded":  # the tokenizer says what cuts
        remedy = f"{judging} or fewer --workers"
    return TrainingError(
        f"{location(error.args[0])}: about here a {what} of {format_bytes(error.args[1])} or more starts, too much for "
        f"the {format_bytes(task.budget_bytes)} of a worker; give a larger --memory-limit{remedy}"
    )


def _record_location(file: CorpusFile, records: Records, begin: int) -> Callable[[int], str]:
    """Return what maps the number of bytes fed to the location of the record that holds them."""
    return lambda offset: file.location(records.position(records.row_at(offset - begin)))


class RegexCutter:
    """Cuts documents in steps, or with `regex` within memory; notes characters that it may know by other tables."""

    def __init__(self, pattern: CompiledPattern, memory_bytes: int | None = None) -> None:
        self._pattern = pattern
        self._memory_bytes = memory_bytes
        self._differing = differing_characters()
        self._seen: set[str] = set()

    def __call__(self, document: str) -> Iterator[str]:
        """The pre-tokens of a document."""
        if isinstance(self._pattern, PatternSequence):
            return iter(self._pattern.lengths(document))
        self._seen |= self._differing.intersection(document)
        return cut_with_regex(self._pattern.expression, document, memory_bytes=self._memory_bytes)

    def concerned(self) -> str:
        """The characters of the corpus on which Unicode versions disagree, in order."""
        return "".join(sorted(self._seen))
