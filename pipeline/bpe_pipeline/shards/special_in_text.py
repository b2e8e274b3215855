"""Special tokens in the text of documents: which of them are recognised, and how often they occur.

The separator ends documents in texts; records are documents of their own.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import sub
from typing import Generic, TypeVar

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, shown
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.read_budget import UNLIMITED
from bpe_pipeline.corpus.readers import read_span, text_range
from bpe_pipeline.counts.feeding import ChunkTask
from bpe_pipeline.executors import ignore

Task = TypeVar("Task", bound=ChunkTask)


class SpecialInText(Generic[Task]):
    """The special tokens of a chunk that end no document.

    meaning: what they become: tokens, text or refuse; ends: the first of the special tokens, which end documents in
    texts; replaced: those of them that are no tokens of the tokenizer, but text of records.
    """

    def __init__(
        self, task: Task, ids: _core.ChunkIds, meaning: str, ends: Sequence[str], replaced: Collection[str]
    ) -> None:
        self._task, self._ids, self._ends, self._replaced = task, ids, ends, replaced
        self._names = self._recognised = [token.decode() for token in task.special_tokens]
        self._as_text, self._refused = meaning == "text", meaning == "refuse"
        self._span: FileSpan | None = None  # the first of those whose tokens are not counted yet
        self._before: Sequence[int] = ()
        self.counts: Counter[str] = Counter()

    def _separators(self, span: FileSpan) -> int:
        return len(self._ends) if span.file.format == "text" else 0

    def parts(self) -> Iterator[Task]:
        """Yield the task, or parts of it: consecutive spans in which the same special tokens are recognised."""
        task, start = self._task, 0
        if not self._as_text and not self._replaced:
            yield self._recognising(task, self._names)
            return
        for separators, spans in groupby(task.spans, self._separators):
            in_part = slice(start, start + len(list(spans)))
            part = replace(task, spans=task.spans[in_part], sizes=task.sizes[in_part])
            others = [] if self._as_text else [name for name in self._names if name not in self._replaced]
            yield self._recognising(part, list(dict.fromkeys([*self._names[:separators], *others])))
            start = in_part.stop

    def _recognising(self, part: Task, names: list[str]) -> Task:
        """Return a part in which these special tokens are recognised, and all that are not special."""
        self._recognised, texts = names, {*self._names} - {*names}
        ending = sum(name in self._names[: part.ending] for name in names)
        rules = {text: rule for text, rule in part.rules.items() if text not in texts}
        return replace(part, special_tokens=tuple(text.encode() for text in names), ending=ending, rules=rules)

    def enter(self, span: FileSpan | None) -> None:
        """Count the tokens of the spans before this one; `InputError` if they have special tokens that are refused."""
        last = self._span
        changes = last is None or span is None or self._separators(span) != self._separators(last)
        if self._as_text or not (changes or self._refused):
            return
        now = self._ids.found()[: len(self._recognised)]
        if last is not None:
            counts = dict(zip(self._recognised, map(sub, now, self._before), strict=True))
            in_text = {text: counts[text] for text in self._recognised[self._separators(last) :] if counts[text]}
            if in_text and self._refused:
                raise _refusal(self._task, last, next(iter(in_text)))
            self.counts.update(in_text)
        self._span, self._before = span, now


def _refusal(task: ChunkTask, span: FileSpan, text: str) -> InputError:
    """Return the error for a special token in a text, with its location."""
    return InputError(
        f"{_location_of(task, span, text.encode())}: the text contains the special token {shown(text)}; remove it, or "
        "encode it with --special-tokens-in-text text (as text) or tokens (as a special token)"
    )


def _location_of(task: ChunkTask, span: FileSpan, wanted: bytes) -> str:
    """Return where a span has a text, by reading it again; its file if it is not found as it is written."""
    file, before = span.file, b""
    text: tuple[int, int | None] = (span.start, None)
    if file.compression != "none":
        text = text_range(span, task.cutting(), UNLIMITED)
    end = text[0]
    for block in read_span(span, task.text_field, ignore, UNLIMITED, text):
        if isinstance(block, bytes):
            end += len(block)
            before = before[1 - len(wanted) :] + block if len(wanted) > 1 else block
            if (at := before.find(wanted)) >= 0:
                return file.location(end - len(before) + at)
        elif (at := bytes(block.data).find(wanted, block.starts[0], block.starts[block.rows])) >= 0:
            return file.location(block.position(block.row_at(at - block.starts[0])))
    return file.path
