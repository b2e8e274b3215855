"""Conversations -> ids and labels, by a template: the slots, the marks of turns, what is learned, and where it is cut.

Rows are bytes of int32: ids, and labels with -100 where nothing is learned. Each text of a slot is encoded on its own,
so ends of messages are borders of pieces. What messages say stays text, unless special tokens in them are asked for.
"""

import contextlib
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any

from pipeline import _core
from pipeline.base.errors import SpecialTokenError
from pipeline.corpus.skipped_or_altered import Tally
from pipeline.guests.chat.align import ANSWERING, JOINT, TEMPLATE_INPUT, check_messages
from pipeline.guests.chat.kinds import (
    CUT,
    MALFORMED_TOOLS,
    NO_ANSWER,
    NO_TEXT,
    NO_TOOL_FORMAT,
    NOT_LEARNED,
    NOT_UNDERSTOOD,
    REWRITTEN,
    SPECIAL_TOKENS,
    TEXTS_LEFT_OUT,
    DroppedError,
)
from pipeline.guests.chat.options import ChatOptions
from pipeline.guests.chat.own_template import JinjaTemplate
from pipeline.guests.chat.tools import called, described
from pipeline.pattern.normal_form import nfc
from pipeline.tokenizer.chat_templates import MessageMarks, has_marks, unmarked
from pipeline.tokenizer.encode import TextEncoder
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.named_templates import BOS, CONTENT, EOS, NO_TOOLS, TURN, Slots, Template, eos_of

ID_BYTES = 4
IGNORED = (-100).to_bytes(ID_BYTES, "little", signed=True)
_SURROGATE = re.compile("[\ud800-\udfff]")
Row = tuple[bytes, bytes]  # ids and labels
Learned = list[tuple[bool, bool]]  # whether each question and its answer are
Messages = Sequence[Mapping[str, Any]]


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
    kept = min(most, target)
    return min(max(limit - kept, 0), source), kept


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
        self._slots_of = {role: getattr(template, role) for role in ("user", "assistant", "observation", "function")}
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
        learned, rest = self._learned(messages), b""
        try:
            if self._jinja:
                pairs, rest, learned = self._rendered(self._jinja, conversation)
            else:
                pairs = self._pairs(conversation)
        except (ValueError, RecursionError) as error:
            if isinstance(error, SpecialTokenError):
                raise
            raise DroppedError(MALFORMED_TOOLS) from None
        row = self._labelled(pairs, rest, learned)
        if not row[0]:
            raise DroppedError(NO_TEXT)
        if not whole:
            self._altered[TEXTS_LEFT_OUT] += conversation.get(TEXTS_LEFT_OUT, 0)
        answers = (message for message in messages if message["role"] in ANSWERING and message.get("learned", True))
        self._altered[NO_ANSWER] += sum(not message["content"].strip() for message in answers)
        return row

    def _learned(self, messages: Messages) -> Learned:
        """Return whether each question and its answer are learned; none for Jinja, whose answers say it.

        Raises `DroppedError` if nothing is learned, or questions otherwise than all of them are.
        """
        on_prompt, marks = self._options.train_on_prompt, [message.get("learned") for message in messages]
        answers = [message["role"] in ANSWERING for message in messages]
        asked = {mark for mark, answer in zip(marks, answers, strict=True) if mark is not None and not answer}
        if asked & ({True} if not on_prompt else {False} if self._jinja else set()):
            raise DroppedError(NOT_UNDERSTOOD, "a question is marked")
        kept = [mark is not False for mark, answer in zip(marks, answers, strict=True) if answer]
        if not on_prompt and not any(kept[-1:] if self._options.mask_history else kept):
            raise DroppedError(NOT_LEARNED)
        if self._jinja:
            return []
        return [(on_prompt and asked is not False, answered) for asked, answered in zip(marks[::2], kept, strict=True)]

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
        found: list[str] = []
        marked = self._marks.marked(value, kept, found)
        self._altered["replacements"] += _surrogates(value)
        how = self._options.special_tokens_in_messages
        if found and how not in SPECIAL_TOKENS:
            raise SpecialTokenError(
                f"a message contains the special token {found[0]!r}; take it as text with "
                "--special-tokens-in-messages text, or as a special token with tokens"
            )
        if found and counted:
            self._altered[SPECIAL_TOKENS[how]] += len(found)
        return value if how == "tokens" else marked

    def _content_of(self, message: Mapping[str, str]) -> str:
        """Return a content as `_said` does. Words around thoughts and between answers of tools are the template's."""
        role, content = message["role"], message["content"]
        if role == "observation":
            return JOINT.join(map(self._said, content.split(JOINT)))
        if role == "function":
            return content  # read when it becomes the template's text
        return str(self._said(content, self._thought_marks if role == "assistant" else ()))

    def _rendered(self, jinja: JinjaTemplate, conversation: Mapping[str, Any]) -> tuple[list[Row], bytes, Learned]:
        """Return the ids before and of each answer, as Jinja writes them, those after them, and what is learned."""
        text, spans, left_out = jinja.written(conversation, self._said)
        borders = [border for span in spans for border in span[:2]]
        learned = [(self._options.train_on_prompt, span[2]) for span in spans]
        self._altered[REWRITTEN] += left_out
        parts = [text[at:to] for at, to in pairwise([0, *borders, len(text)])]
        before = list(accumulate(map(self._size, parts)))
        ids = b"".join(self._encoded(text))
        lengths = map(len, map(self._bytes_of.__getitem__, memoryview(ids).cast("I")))
        ends = array("Q", accumulate(lengths, initial=0))  # of a long row, numbers of Python would take gigabytes
        if ends[-1] != before[-1]:  # NFC may join characters across a border
            before = [self._size(text[:border]) for border in (*borders, len(text))]
        if ends[-1] == before.pop():  # an id belongs to an answer if any byte of it does
            cuts = [
                0,
                *(bisect_left(ends, at) if odd % 2 else bisect_right(ends, at) - 1 for odd, at in enumerate(before)),
            ]
            stretches = [
                ids[ID_BYTES * start : ID_BYTES * stop]
                for start, stop in pairwise([*accumulate(cuts, max), len(ends) - 1])
            ]
        else:  # the tokenizer adds or removes spaces: what is learned is encoded on its own
            stretches = [b"".join(self._encoded(part)) for part in parts]
        return list(zip(stretches[::2], stretches[1::2], strict=False)), stretches[-1], learned

    def _size(self, text: str) -> int:
        """Return how many bytes the tokens of a text have."""
        return len(self._nfc(unmarked(text)).encode())

    def _pairs(self, conversation: Mapping[str, Any]) -> list[Row]:
        """Return the ids of each question and answer."""
        template, options = self._template, self._options
        messages: Messages = conversation["messages"]
        system, tools = (conversation.get(name) or "" for name in ("system", "tools"))
        calls = any(message["role"] == "function" for message in messages)
        if template.tools == NO_TOOLS and (calls or tools.strip() not in ("", "[]")):
            raise DroppedError(NO_TOOL_FORMAT, f"template {template.name}")
        system = self._said(system) if system else ""
        contents = list(map(self._content_of, messages))
        reasons, no_thoughts = template.kind == "reasoning", options.enable_thinking == "false"
        last_only = options.mask_history and not options.preserve_thinking
        if reasons and (no_thoughts or last_only):
            for index in range(1, len(contents), 2):
                if no_thoughts or index < len(contents) - 1:
                    contents[index] = self._thought.sub("", contents[index]).lstrip("\n")
        about = system or self._system
        if tools:
            about += described(tools, template.tools, options.date, self._said)
        spoken = bool(system or self._system or tools)
        in_user = template.kind == "system_in_user"
        if spoken and in_user and messages[0]["role"] == "user":
            first = template.system[0]
            contents[0] = ("" if first in self._ids else first.replace(CONTENT, about, 1)) + contents[0]
        encoded = [
            self._message(message["role"], content, index // 2)
            for index, (message, content) in enumerate(zip(messages, contents, strict=True))
        ]
        encoded[0] = self._start(about if spoken and not in_user else None) + encoded[0]
        if reasons:
            for index in (len(encoded) - 1,) if last_only else range(1, len(encoded), 2):
                if not any(mark in contents[index] for mark in self._thought_marks):
                    if options.enable_thinking == "true":
                        encoded[index] = self._no_thought + encoded[index]
                    else:
                        encoded[index - 1] += self._no_thought
        return list(zip(encoded[::2], encoded[1::2], strict=True))

    def _start_of(self, system: str | None) -> bytes:
        """Return the ids before the first message."""
        about = b"" if system is None else self._slots(self._template.system, system)
        return self._slots(self._template.prefix, "") + about

    def _message(self, role: str, content: str, turn: int) -> bytes:
        template, numbered = self._template, None
        if role == "user" and template.kind != "system_in_user":
            numbered = turn
        if role == "function":
            thought_words = None if template.kind == "system_in_user" else template.thought_words
            content = called(content, template.tools, thought_words, self._said)
        return self._slots(self._slots_of[role], content, numbered)

    def _slots(self, slots: Slots, content: str, turn: int | None = None) -> bytes:
        """Return the ids of slots, each text encoded on its own. turn: what `{{idx}}` becomes, also in a content."""
        parts: list[bytes | memoryview] = []
        for slot in slots:
            if slot in self._ids:
                parts.append(self._ids[slot])
            elif text := slot.replace(CONTENT, content, 1):
                if turn is not None and TURN in text:
                    text = text.replace(TURN, str(turn), 1)
                parts += self._encoded(text)
        return b"".join(parts)

    def _encoded(self, text: str) -> list[memoryview | bytes]:
        """Return the ids of a text, in parts where a message has special tokens as text."""
        if not has_marks(text):
            return [self._encoder.encode_to_buffer(text, self._special)]
        return [
            self._encoder.encode_to_buffer(stretch, self._plain) if id_ is None else _bytes_of(id_)
            for stretch, id_ in self._marks.stretches(text)
        ]

    def _labelled(self, pairs: list[Row], rest: bytes, learned: Learned) -> Row:
        """Cut the turns to the length of a row, and put them together with what is learned.

        rest: ids after the last answer, which are left out where they do not fit. learned: of each question and
        answer.
        """
        options, eos = self._options, self._eos
        size = sum(len(source) + len(target) for source, target in pairs)
        rest = rest if size + len(rest) <= ID_BYTES * self._row_ids else b""
        self.tokens = (size + len(rest) + len(eos)) // ID_BYTES
        if size <= ID_BYTES * self._row_ids and not (eos or options.mask_history):  # all of it fits
            ids = b"".join(chain.from_iterable(pairs)) + rest
            flags = chain.from_iterable(learned)
            parts = zip(chain.from_iterable(pairs), flags, strict=True)
            labels = b"".join(part if flag else _ignored(part) for part, flag in parts)
            return ids, labels + (rest if options.train_on_prompt else _ignored(rest))
        left, last = self._row_ids - bool(eos), True
        taken: list[Row] = []
        turns = list(zip(pairs, learned, strict=True))
        for (source, target), (asks, answers) in reversed(turns) if options.mask_history else turns:
            if left <= 0:
                break
            lengths = infer_seqlen(len(source) // ID_BYTES, len(target) // ID_BYTES, left)
            asked, answered = source[: ID_BYTES * lengths[0]], target[: ID_BYTES * lengths[1]]
            left -= sum(lengths)
            question = asked if asks else _ignored(asked)
            if eos and taken and last and asked:  # without ids of a question no place is left for the label
                question = eos + question[ID_BYTES:]
            last = answers
            learns = answers and not (options.mask_history and taken)
            taken.append((asked + answered, question + (answered if learns else _ignored(answered))))
        if options.mask_history:
            taken.reverse()
        ids, labels = (b"".join(column) for column in zip(*taken, strict=True)) if taken else (b"", b"")
        self._altered[CUT] += len(ids) < size
        return ids + rest + eos, labels + _ignored(rest) + (eos if last or options.mask_history else _ignored(eos))


def _ignored(ids: bytes) -> bytes:
    return IGNORED * (len(ids) // ID_BYTES)


def _surrogates(value: Any) -> int:
    """Return how many surrogates plain values have, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return 0 if value.isascii() else len(_SURROGATE.findall(value))
    if isinstance(value, Mapping):
        return sum(_surrogates(name) + _surrogates(one) for name, one in value.items())
    return sum(map(_surrogates, value)) if isinstance(value, list | tuple) else 0


def _bytes_of(number: int) -> bytes:
    return number.to_bytes(ID_BYTES, "little")
