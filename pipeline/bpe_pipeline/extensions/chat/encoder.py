"""Conversations -> ids, and which of them are trained on, by a chat template, as transformers makes them.

A row is uint32: ids, with the highest bit where one is trained on. What the template marks with `{% generation %}` is
an answer; a template without marks has its answers found by prefixes: by the text of the messages before each one.
"""

import contextlib
import json
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate, pairwise
from os.path import commonprefix
from typing import Any, NamedTuple

from bpe_pipeline import _core
from bpe_pipeline.base.errors import SpecialTokenError, UsageError
from bpe_pipeline.corpus.skipped_or_altered import Tally
from bpe_pipeline.extensions.chat.about import (
    CUT,
    NO_ANSWER,
    NOT_TRAINED_ON,
    NOT_UNDERSTOOD,
    REFUSED,
    REWRITTEN,
    SPECIAL_TOKENS,
    DroppedError,
)
from bpe_pipeline.extensions.chat.align import Dialog, trained_on
from bpe_pipeline.extensions.chat.options import ChatOptions
from bpe_pipeline.extensions.chat.training_rows import ID_BYTES
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.tokenizer.chat_templates import (
    Message,
    MessageMarks,
    RenderedDialog,
    has_marks,
    render,
    render_marked,
    unmarked,
)
from bpe_pipeline.tokenizer.encode import TextEncoder
from bpe_pipeline.tokenizer.model import ChatTemplate, Model

Write = Callable[..., str]  # the text of messages, or of the prompt for an answer with add_generation_prompt
Wanted = Mapping[int, bool]  # whether an answer is trained on, by the number of its message


class Answer(NamedTuple):
    """Where an answer starts and stops in the text, and whether it is trained on."""

    start: int
    stop: int
    trained: bool


_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH = bytes(byte | 0x80 for byte in range(256))
_LONG_BYTES = 1 << 16  # of the ids of a text


class Row(NamedTuple):
    """A row as it is stored, and how many ids the conversation had before the cut."""

    values: bytes
    tokens: int


def infer_seqlen(source: int, target: int, limit: int) -> tuple[int, int]:
    """Return how many ids of a question and of an answer are kept of a turn of at most `limit` ids.

    >>> infer_seqlen(10, 100, 64)
    (10, 54)
    """
    if target * 2 < limit:
        most = limit
    elif source * 2 < limit:
        most = limit - source
    else:
        most = int(limit * (target / (source + target)))
    answer = min(most, target)
    return min(max(limit - answer, 0), source), answer


def with_template(model: Model, template: ChatTemplate) -> Model:
    """Return the model with another chat template; its tokens have the roles that they have with its own."""
    return replace(model, chat_template=template, roles=replace(model.roles, bos=model.bos_token))


class ChatEncoder:
    """Encodes conversations by the chat template of a model. variables: of the template, next to the options'."""

    def __init__(
        self,
        model: Model,
        options: ChatOptions,
        variables: Mapping[str, Any] | None = None,
        native: _core.Encoder | None = None,
    ) -> None:
        assert model.chat_template is not None
        self._model, self._template, self._options = model, model.chat_template, options
        self._variables = json.loads(options.template_kwargs or "{}") | dict(variables or {})
        self._row_ids = options.sequence_length or 0
        self._altered: Counter[str] = Counter()  # kinds of altered input since `noting`
        self._encoder = TextEncoder(model, native)
        special = model.vocabulary.special_tokens
        self._special, self._plain = map(self._encoder.recognising, (frozenset(special), frozenset[str]()))
        self._marks = MessageMarks(special, model.separating)
        tokens = model.vocabulary.to_dict()
        self._sizes = [len(tokens.get(id_, b"")) for id_ in range(model.vocabulary.max_id + 1)]
        self._nfc = nfc if model.preparation.nfc else str

    def encode(self, dialog: Dialog) -> Row:
        """Return the row of a conversation; raises `DroppedError`, and `SpecialTokenError` where those are refused."""
        messages, variables = dialog["messages"], self._variables_of(dialog)
        wanted, is_marked = self._wanted(messages), _has_generation(self._template.chosen_by(variables))
        text, answers = self._rendered(self._said(messages), self._said(variables), wanted, is_marked=is_marked)
        trained = sum(answer.trained for answer in answers)
        if not trained and not self._options.train_on_prompt:
            raise DroppedError(REFUSED, "it writes no answer to train on")
        row = self._row(text, answers)
        if not row.values:
            raise DroppedError(REFUSED, "it writes nothing")
        if not is_marked:
            self._altered[REWRITTEN] += sum(wanted.values()) - trained
        said = (messages[number] for number, is_wanted in wanted.items() if is_wanted)
        self._altered[NO_ANSWER] += sum(not (message.get("content") or message.get("tool_calls")) for message in said)
        return row

    @contextlib.contextmanager
    def noting(self, tally: Tally, where: str) -> Iterator[None]:
        """Note in the tally what is dropped or altered during the block, with its location."""
        self._altered.clear()
        try:
            yield
            for kind, count in self._altered.items():
                tally.add(kind, count, [where])
        except DroppedError as error:
            tally.add(error.kind, 1, [f"{where}, {error.detail}" if error.detail else where])

    def _wanted(self, messages: Sequence[Mapping[str, Any]]) -> Wanted:
        """Return which answers are trained on; `DroppedError` if none is, or a question is marked otherwise."""
        on_prompt = self._options.train_on_prompt
        marks = [trained_on(message) for message in messages]
        wanted = {at: mark is not False for at, mark in enumerate(marks) if messages[at].get("role") == "assistant"}
        if (not on_prompt) in (mark for at, mark in enumerate(marks) if at not in wanted):
            raise DroppedError(NOT_UNDERSTOOD, "a question is marked")
        if not on_prompt and not any([*wanted.values()][-1 if self._options.mask_history else 0 :]):
            raise DroppedError(NOT_TRAINED_ON)
        return wanted

    def _variables_of(self, dialog: Dialog) -> dict[str, Any]:
        variables = {name: dialog[name] for name in ("tools", "documents") if dialog.get(name)}
        return {**self._variables, **dialog.get("chat_template_kwargs", {}), **variables}

    def _rendered(
        self, messages: Sequence[Message], variables: dict[str, Any], wanted: Wanted, *, is_marked: bool
    ) -> tuple[str, list[Answer]]:
        """Return the text of a conversation, and its answers."""
        write = partial(render, self._model, **{"add_generation_prompt": False, **variables})
        try:
            rendered = render_marked(self._model, messages, variables)
            if is_marked:
                return rendered.text, marked_answers(rendered, write, messages, wanted)
            return rendered.text, [*answers_by_prefixes(rendered.text, write, messages, wanted)]
        except UsageError as error:
            raise DroppedError(REFUSED, str(error)) from None

    def _said(self, value: Any) -> Any:
        """Return what the data say as the setting has it, with the special tokens in it counted."""
        if not value or self._marks.says_plain_text(value):
            return value
        typed: list[str] = []
        marked = self._marks.marked(value, typed)
        self._altered["replacements"] += _surrogates(value)
        setting = self._options.special_tokens_in_messages
        if typed and setting not in SPECIAL_TOKENS:
            raise SpecialTokenError(
                f"a message contains the special token {typed[0]!r}; take it as text with "
                "--special-tokens-in-messages text, or as a special token with tokens"
            )
        if typed:
            self._altered[SPECIAL_TOKENS[setting]] += len(typed)
        return value if setting == "tokens" else marked

    def _row(self, text: str, answers: Sequence[Answer]) -> Row:
        """Return the row of a text, cut to its length, with what is trained on marked."""
        ids, borders = self._encoded(text), [border for answer in answers for border in answer[:2]]
        cuts = [0, *(self._cuts(ids, text, borders) if borders else ()), len(ids) // ID_BYTES]
        parts = self._parts(cuts, [answer.trained for answer in answers])
        values = [(ids[ID_BYTES * start : ID_BYTES * stop], trained) for start, stop, trained in parts]
        tokens = cuts[-1] if parts[-1:] and parts[-1][1] == cuts[-1] else cuts[-2]
        return Row(b"".join(_trained(part) if trained else part for part, trained in values), tokens)

    def _cuts(self, ids: bytes, text: str, borders: Sequence[int]) -> Sequence[int]:
        """Return where borders of a text are among its ids. An id belongs to an answer if any byte of it does."""
        ends = self._ends(ids)
        if text.isascii():
            sizes = [*borders, len(text)]
        else:
            parts = (text[start:stop] for start, stop in pairwise((0, *borders, len(text))))
            sizes = [*accumulate(len(self._spelled(part)) for part in parts)]
        if ends[-1] != sizes[-1]:  # NFC may join characters across a border
            sizes = [len(self._spelled(text[:border])) for border in (*borders, len(text))]
        if ends[-1] == sizes.pop():
            places = (bisect_left(ends, at) if odd % 2 else bisect_right(ends, at) - 1 for odd, at in enumerate(sizes))
        else:  # tokens take white space in, or the tokenizer adds it
            places = (len(self._encoded(text[:border])) // ID_BYTES for border in borders)
        return [*accumulate(places, max)]

    def _ends(self, ids: bytes) -> Sequence[int]:
        """Return where tokens end in the bytes of a text, and 0."""
        ends = accumulate(map(self._sizes.__getitem__, memoryview(ids).cast("I")), initial=0)
        return list(ends) if len(ids) < _LONG_BYTES else array("Q", ends)  # numbers of Python would take gigabytes

    def _spelled(self, text: str) -> bytes:
        """Return the bytes that the tokens of a text have."""
        return self._nfc(unmarked(text)).encode(errors="replace")

    def _encoded(self, text: str) -> bytes:
        """Return the ids of a text, which may have special tokens of messages that are text."""
        if not has_marks(text):
            return bytes(self._encoder.encode_to_buffer(text, self._special))
        stretches = self._marks.stretches(text)
        return b"".join(
            self._encoder.encode_to_buffer(stretch, self._plain) if id_ is None else id_.to_bytes(ID_BYTES, "little")
            for stretch, id_ in stretches
        )

    def _parts(self, cuts: Sequence[int], trained: Sequence[bool]) -> list[tuple[int, int, bool]]:
        """Return the ids that a row has: where each part starts and stops, and whether it is trained on.

        cuts: where questions and answers start, and what is behind the last answer, which is left out where it does
        not fit; trained: of each answer.
        """
        options, left, parts = self._options, self._row_ids, list[tuple[int, int, bool]]()
        turns = list(zip(cuts[:-2:2], cuts[1::2], cuts[2::2], trained, strict=False))
        for question, answer, stop, is_trained in reversed(turns) if options.mask_history else turns:
            if left <= 0:
                break
            sizes = infer_seqlen(answer - question, stop - answer, left)
            left -= sum(sizes)
            at = 0 if options.mask_history else len(parts)
            parts[at:at] = [
                (question, question + sizes[0], options.train_on_prompt),
                (answer, answer + sizes[1], is_trained and not (options.mask_history and parts)),
            ]
        self._altered[CUT] += self._row_ids - left < cuts[-2]
        if cuts[-1] <= self._row_ids:
            parts.append((cuts[-2], cuts[-1], options.train_on_prompt))
        return parts


def marked_answers(rendered: RenderedDialog, write: Write, messages: Sequence[Message], wanted: Wanted) -> list[Answer]:
    """Return what a template marks. Raises `DroppedError` if it cannot be said which of it is not to be trained on."""
    left_out = []
    for number in (number for number, trained in wanted.items() if not trained):
        before, upto = (write(messages[:count]) if count else "" for count in (number, number + 1))
        if not rendered.text.startswith(upto) or not upto.startswith(before):
            raise DroppedError(NOT_UNDERSTOOD, "the template rewrites an answer that is marked")
        left_out.append((len(before), len(upto)))
    return [
        Answer(start, stop, not any(first <= start < last for first, last in left_out))
        for start, stop in rendered.generated
    ]


def answers_by_prefixes(text: str, write: Write, messages: Sequence[Message], wanted: Wanted) -> Iterator[Answer]:
    """Yield the answers that the text has as the template writes them when nothing follows.

    An answer starts where its prompt ends, and stops with the text of the messages up to it.
    """
    for number, trained in wanted.items():
        with contextlib.suppress(UsageError):  # a template may refuse a part of a dialog
            upto = write(messages[: number + 1])
            prompt = write(messages[:number], add_generation_prompt=True)
            if not text.startswith(upto):
                continue
            if upto.startswith(prompt):
                yield Answer(len(prompt), len(upto), trained)
                continue
            before = write(messages[:number]) if number else ""
            common = commonprefix((prompt, upto))  # noqa: RUF071 - no paths
            start = max(map(common.rfind, "> ]\n")) + 1  # without a thought that the prompt opens, or a part of a word
            if start > len(before) and upto.startswith(before):
                yield Answer(start, len(upto), trained)


@cache
def _has_generation(jinja: str) -> bool:
    return re.search(r"{%[-+]?\s*generation\b", jinja) is not None


def _trained(ids: bytes) -> bytes:
    """Return ids with their highest bits set."""
    values = bytearray(ids)
    values[ID_BYTES - 1 :: ID_BYTES] = values[ID_BYTES - 1 :: ID_BYTES].translate(_HIGH)
    return bytes(values)


def _surrogates(value: Any) -> int:
    """Return how many surrogates plain values have, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return 0 if value.isascii() else len(_SURROGATE.findall(value))
    if isinstance(value, dict):
        return sum(map(_surrogates, value.values()))
    return sum(map(_surrogates, value)) if isinstance(value, list | tuple) else 0
