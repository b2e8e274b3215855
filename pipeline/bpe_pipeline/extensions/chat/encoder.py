"""Conversations -> ids and labels, by a template: the slots, the marks of turns, what is trained on and what is cut.

Rows are bytes of int32: ids, and labels, which are -100 where nothing is trained on. Each text of a slot is encoded on
its own, so ends of messages are borders of pre-tokens. What messages say stays text, unless special tokens in them are
asked for.
"""

import contextlib
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from bpe_pipeline import _core
from bpe_pipeline.base.errors import SpecialTokenError
from bpe_pipeline.corpus.skipped_or_altered import Tally
from bpe_pipeline.extensions.chat.align import ANSWERING, JOINT, TEMPLATE_INPUT, check_messages
from bpe_pipeline.extensions.chat.kinds import (
    CUT,
    MALFORMED_TOOLS,
    NO_ANSWER,
    NO_TEXT,
    NO_TOOL_FORMAT,
    NOT_TRAINED_ON,
    NOT_UNDERSTOOD,
    REWRITTEN,
    SPECIAL_TOKENS,
    TEXTS_LEFT_OUT,
    DroppedError,
)
from bpe_pipeline.extensions.chat.options import ChatOptions
from bpe_pipeline.extensions.chat.own_template import JinjaTemplate
from bpe_pipeline.extensions.chat.tools import called, described
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.tokenizer.chat_templates import MessageMarks, has_marks, unmarked
from bpe_pipeline.tokenizer.encode import TextEncoder
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.named_templates import BOS, CONTENT, EOS, NO_TOOLS, TURN, Slots, Template, eos_of

ID_BYTES = 4
IGNORED = (-100).to_bytes(ID_BYTES, "little", signed=True)
_SURROGATE = re.compile("[\ud800-\udfff]")
Row = tuple[bytes, bytes]  # ids and labels
Messages = Sequence[Mapping[str, Any]]


class Turn(NamedTuple):
    """The ids of a question and of its answer, and whether each is trained on."""

    question: bytes
    answer: bytes
    trains_question: bool
    trains_answer: bool


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


class ChatEncoder:
    """Encodes conversations by one template. options: with the length of a row, and what templates name as today."""

    def __init__(
        self, template: Template, model: Model, options: ChatOptions, native: _core.Encoder | None = None
    ) -> None:
        self._template, self._options = template, options
        self._row_ids = options.sequence_length or 0
        self.tokens = 0  # of the last conversation, before it was cut
        self._altered: Counter[str] = Counter()  # kinds of altered input since `noting`
        self._encoder = TextEncoder(model, native)
        special = model.vocabulary.special_tokens
        self._special, self._plain = map(self._encoder.recognising, (frozenset(special), frozenset[str]()))
        self._marks = MessageMarks(special, model.separating)
        tokens = {BOS: model.bos_token, EOS: eos_of(template, model)}
        self._ids = {role: b"" if text is None else _bytes_of(special[text]) for role, text in tokens.items()}
        self._eos = self._ids[EOS] if template.efficient_eos else b""
        start, stop = template.thought_words
        self._thought = re.compile(f"{re.escape(start)}(.*?){re.escape(stop)}", re.DOTALL)
        self._thought_marks = start.strip(), stop.strip()
        self._no_thought = self._slots((start + stop,), "") if template.kind == "reasoning" else b""
        self._jinja = None if template.jinja is None else JinjaTemplate(template, model, options)
        self._bytes_of = model.vocabulary.to_dict() if self._jinja else {}
        self._nfc = nfc if model.preparation.nfc else str
        self._start = lru_cache(16)(self._start_of)  # system texts repeat
        self._system = template.default_system if options.default_system is None else options.default_system

    def encode(self, conversation: Mapping[str, Any]) -> Row:
        """Return the row of a conversation; raises `DroppedError`, and `SpecialTokenError` where those are refused."""
        whole = conversation.get(TEMPLATE_INPUT) if self._jinja else None
        messages = conversation.get("messages") or (whole["messages"] if whole else ())
        check_messages(messages, pairs=self._jinja is None)
        self._check_marks(messages)
        try:
            turns, rest = self._rendered(self._jinja, conversation) if self._jinja else (self._turns(conversation), b"")
        except SpecialTokenError:
            raise
        except (ValueError, RecursionError):
            raise DroppedError(MALFORMED_TOOLS) from None
        row = self._row(turns, rest)
        if not row[0]:
            raise DroppedError(NO_TEXT)
        if not whole:
            self._altered[TEXTS_LEFT_OUT] += conversation.get(TEXTS_LEFT_OUT, 0)
        answers = (message for message in messages if message["role"] in ANSWERING and message.get("trained_on", True))
        self._altered[NO_ANSWER] += sum(not message["content"].strip() for message in answers)
        return row

    def _check_marks(self, messages: Messages) -> None:
        """Raise `DroppedError` if no answer is trained on, or a question is marked otherwise than the options say."""
        on_prompt = self._options.train_on_prompt
        marks = {message.get("trained_on") for message in messages if message["role"] not in ANSWERING}
        if (not on_prompt) in marks and (self._jinja or not on_prompt):
            raise DroppedError(NOT_UNDERSTOOD, "a question is marked")
        trained = [message.get("trained_on") is not False for message in messages if message["role"] in ANSWERING]
        if not on_prompt and not any(trained[-1:] if self._options.mask_history else trained):
            raise DroppedError(NOT_TRAINED_ON)

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

    def _said(self, value: Any, kept: Collection[str] = (), *, counted: bool = True) -> Any:
        """Return what the data say as the setting has it, with the special tokens in it counted."""
        typed: list[str] = []
        marked = self._marks.marked(value, kept, typed)
        self._altered["replacements"] += _surrogates(value)
        setting = self._options.special_tokens_in_messages
        if typed and setting not in SPECIAL_TOKENS:
            raise SpecialTokenError(
                f"a message contains the special token {typed[0]!r}; take it as text with "
                "--special-tokens-in-messages text, or as a special token with tokens"
            )
        if typed and counted:
            self._altered[SPECIAL_TOKENS[setting]] += len(typed)
        return value if setting == "tokens" else marked

    def _content_of(self, message: Mapping[str, str]) -> str:
        """Return a content as `_said` does. Words around thoughts and between answers of tools are the template's."""
        role, content = message["role"], message["content"]
        if role == "observation":
            return JOINT.join(map(self._said, content.split(JOINT)))
        if role == "function":
            return content  # read when it becomes the template's text
        return str(self._said(content, self._thought_marks if role == "assistant" else ()))

    def _rendered(self, jinja: JinjaTemplate, conversation: Mapping[str, Any]) -> tuple[list[Turn], bytes]:
        """Return the ids before and of each answer, as Jinja writes them, and those after the last one."""
        text, spans, left_out = jinja.written(conversation, self._said)
        self._altered[REWRITTEN] += left_out
        borders = [border for span in spans for border in span[:2]]
        parts = [text[start:stop] for start, stop in pairwise([0, *borders, len(text)])]
        ids = b"".join(self._encoded(text))
        if (cuts := self._cuts(ids, text, borders, parts)) is None:
            parts_ids = [b"".join(self._encoded(part)) for part in parts]
        else:
            parts_ids = [ids[ID_BYTES * start : ID_BYTES * stop] for start, stop in pairwise(cuts)]
        pairs = zip(parts_ids[::2], parts_ids[1::2], spans, strict=False)
        turns = [Turn(before, answer, self._options.train_on_prompt, span[2]) for before, answer, span in pairs]
        return turns, parts_ids[-1]

    def _cuts(self, ids: bytes, text: str, borders: list[int], parts: list[str]) -> list[int] | None:
        """Return where parts of a text start and stop among its ids; None if the tokenizer adds or removes spaces.

        An id belongs to an answer if any byte of it does.
        """
        sizes = list(accumulate(map(self._size, parts)))
        lengths = map(len, map(self._bytes_of.__getitem__, memoryview(ids).cast("I")))
        ends = array("Q", accumulate(lengths, initial=0))  # of a long row, numbers of Python would take gigabytes
        if ends[-1] != sizes[-1]:  # NFC may join characters across a border
            sizes = [self._size(text[:border]) for border in (*borders, len(text))]
        if ends[-1] != sizes.pop():
            return None
        found = (bisect_left(ends, at) if odd % 2 else bisect_right(ends, at) - 1 for odd, at in enumerate(sizes))
        return [*accumulate(found, max, initial=0), len(ends) - 1]

    def _size(self, text: str) -> int:
        """Return how many bytes the tokens of a text have."""
        return len(self._nfc(unmarked(text)).encode())

    def _turns(self, conversation: Mapping[str, Any]) -> list[Turn]:
        """Return the questions and answers as the slots of the template write them."""
        template, options = self._template, self._options
        messages: Messages = conversation["messages"]
        system = self._system_of(conversation)
        contents = list(map(self._content_of, messages))
        answers = range(1, len(messages), 2)
        reasons = template.kind == "reasoning"
        last_only = options.mask_history and not options.preserve_thinking
        for at in answers if reasons else ():
            if options.enable_thinking == "false" or (last_only and at < len(messages) - 1):
                contents[at] = self._thought.sub("", contents[at]).lstrip("\n")
        in_user = template.kind == "system_in_user"
        if in_user and system is not None and messages[0]["role"] == "user":
            first = template.system[0]
            contents[0] = ("" if first in self._ids else first.replace(CONTENT, system, 1)) + contents[0]
        encoded = [
            self._message(message["role"], content, at // 2)
            for at, (message, content) in enumerate(zip(messages, contents, strict=True))
        ]
        encoded[0] = self._start(None if in_user else system) + encoded[0]
        for at in () if not reasons else answers[-1:] if last_only else answers:
            if not any(mark in contents[at] for mark in self._thought_marks):
                if options.enable_thinking == "true":
                    encoded[at] = self._no_thought + encoded[at]
                else:
                    encoded[at - 1] += self._no_thought
        trained = [message.get("trained_on") is not False for message in messages]
        return [
            Turn(encoded[at - 1], encoded[at], options.train_on_prompt and trained[at - 1], trained[at])
            for at in answers
        ]

    def _system_of(self, conversation: Mapping[str, Any]) -> str | None:
        """Return the system text with the description of tools; None if there is neither."""
        template = self._template
        system, tools = (conversation.get(name) or "" for name in ("system", "tools"))
        calls = any(message["role"] == "function" for message in conversation["messages"])
        if template.tools == NO_TOOLS and (calls or tools.strip() not in ("", "[]")):
            raise DroppedError(NO_TOOL_FORMAT, f"template {template.name}")
        text = self._said(system) if system else self._system
        if tools:
            return str(text + described(tools, template.tools, self._options.date, self._said))
        return text or None

    def _start_of(self, system: str | None) -> bytes:
        """Return the ids before the first message."""
        text = b"" if system is None else self._slots(self._template.system, system)
        return self._slots(self._template.prefix, "") + text

    def _message(self, role: str, content: str, turn: int) -> bytes:
        template = self._template
        in_user = template.kind == "system_in_user"
        if role == "function":
            content = called(content, template.tools, None if in_user else template.thought_words, self._said)
        return self._slots(getattr(template, role), content, turn if role == "user" and not in_user else None)

    def _slots(self, slots: Slots, content: str, turn: int | None = None) -> bytes:
        """Return the ids of slots, each text encoded on its own. turn: what `{{idx}}` becomes, also in a content."""
        parts: list[bytes | memoryview] = []
        for slot in slots:
            if slot in self._ids:
                parts.append(self._ids[slot])
            elif text := slot.replace(CONTENT, content, 1):
                parts += self._encoded(text if turn is None else text.replace(TURN, str(turn), 1))
        return b"".join(parts)

    def _encoded(self, text: str) -> list[memoryview | bytes]:
        """Return the ids of a text, in parts where a message has special tokens as text."""
        if not has_marks(text):
            return [self._encoder.encode_to_buffer(text, self._special)]
        return [
            self._encoder.encode_to_buffer(stretch, self._plain) if id_ is None else _bytes_of(id_)
            for stretch, id_ in self._marks.stretches(text)
        ]

    def _row(self, turns: list[Turn], rest: bytes) -> Row:
        """Cut the turns to the length of a row, and put them together with what is trained on.

        rest: ids after the last answer, which are left out where they do not fit.
        """
        options, eos = self._options, self._eos
        size = sum(len(turn.question) + len(turn.answer) for turn in turns)
        rest = rest if size + len(rest) <= ID_BYTES * self._row_ids else b""
        self.tokens = (size + len(rest) + len(eos)) // ID_BYTES
        left, trains = self._row_ids - bool(eos), True
        ids, labels = list[bytes](), list[bytes]()
        for turn in reversed(turns) if options.mask_history else turns:
            if left <= 0:
                break
            lengths = infer_seqlen(len(turn.question) // ID_BYTES, len(turn.answer) // ID_BYTES, left)
            question, answer = turn.question[: ID_BYTES * lengths[0]], turn.answer[: ID_BYTES * lengths[1]]
            left -= sum(lengths)
            label = question if turn.trains_question else _ignored(question)
            if eos and ids and trains and question:  # without ids of a question no place is left for the label
                label = eos + label[ID_BYTES:]
            trains = turn.trains_answer
            masked = not trains or (options.mask_history and bool(ids))
            at = 0 if options.mask_history else len(ids)
            ids[at:at] = question, answer
            labels[at:at] = label, _ignored(answer) if masked else answer
        cut = sum(map(len, ids)) < size
        self._altered[CUT] += cut
        ends = (
            rest if options.train_on_prompt else _ignored(rest),
            eos if trains or options.mask_history else _ignored(eos),
        )
        return b"".join([*ids, rest, eos]), b"".join([*labels, *ends])


def _ignored(ids: bytes) -> bytes:
    return IGNORED * (len(ids) // ID_BYTES)


def _surrogates(value: Any) -> int:
    """Return how many surrogates plain values have, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return 0 if value.isascii() else len(_SURROGATE.findall(value))
    if isinstance(value, Mapping):
        return sum(_surrogates(name) + _surrogates(member) for name, member in value.items())
    return sum(map(_surrogates, value)) if isinstance(value, list | tuple) else 0


def _bytes_of(number: int) -> bytes:
    return number.to_bytes(ID_BYTES, "little")
