"""Conversations -> text by a chat template in Jinja, and which of it is learned.

A template gets the messages as the data have them. What is learned is what it marks with `{% generation %}`; without
such marks it is each answer, from the end of its prompt to the start of the next message. An answer that the template
writes otherwise once more is said, as templates do that remove thoughts, is not learned.
"""

import contextlib
import json
import re
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.guests.chat.align import JOINT, TEMPLATE_COLUMNS, TEMPLATE_INPUT
from pipeline.guests.chat.kinds import REFUSED, DroppedError
from pipeline.guests.chat.options import ChatOptions, day_of
from pipeline.guests.chat.tools import calls_in, objects_in
from pipeline.tokenizer.chat_templates import REASONING, Message, render, render_traced
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.named_templates import Template

_GENERATION = re.compile(r"{%[-+]?\s*generation\b")
_MARK = re.compile(r"<[^<>]*>")
_WORDS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\s|[^\s<\[]+|.")  # of a prompt: a mark, a space, a word
_ARGUMENTS = {"add_generation_prompt", "documents", "messages", "tools"}  # are never variables of a row
_SYSTEM = ("system", "developer")
Span = tuple[int, int, bool]  # where an answer starts and stops, and whether it is learned
Said = Callable[..., Any]  # what becomes of the values that the data hold


class JinjaTemplate:
    """Renders conversations. Names of today's date are those of the options."""

    def __init__(self, template: Template, model: Model, options: ChatOptions) -> None:
        assert template.jinja is not None
        self._name, self._default_system = template.name, options.default_system
        self._thought_words = template.thought_words
        self._template = template.of(model)
        self._variables: dict[str, Any] = {"date_string": options.date, "strftime_now": day_of(options.date).strftime}
        if options.enable_thinking == "false":
            self._variables["enable_thinking"] = False
        self._own = replace(model, chat_template=self._template)
        special = sorted(model.vocabulary.special_tokens, key=len, reverse=True)
        self._next_mark = re.compile(r"\s*(?:" + ("|".join(map(re.escape, special)) or "(?!)") + ")")
        self._ends = tuple(text for text in special if not text.startswith("</") or text == model.eos_token)

    def written(self, conversation: Mapping[str, Any], said: Said) -> tuple[str, list[Span], int]:
        """Return the text, where answers are in it, and how many are not found.

        Raises `DroppedError` where the template refuses the messages or leaves calls out, or nothing is learned.
        """
        messages, variables = self._input(conversation, said)
        answers = {at: one.get("learned") is not False for at, one in enumerate(messages) if one["role"] == "assistant"}
        try:
            messages, text = self._spelled(messages, *self._rendered(messages, variables, said), variables, said)
            self._require_calls(messages, variables, text)
            dialog = _Dialog(self._own, messages, variables, text)
        except UsageError as error:
            raise DroppedError(REFUSED, f"template {self._name}: {error}") from None
        marked = _GENERATION.search(self._template.chosen_by(variables)) is not None
        if marked:
            found = list(dialog.marked())
        else:
            found = [
                (start, self._end(start, stop, at, dialog), at) for start, stop, at in dialog.answers(list(answers))
            ]
        spans = [(start, stop, answers.get(at, True)) for start, stop, at in found]
        learned = sum(span[2] for span in spans)
        if not learned:
            raise DroppedError(REFUSED, f"template {self._name}: it writes no answer to learn")
        return text, spans, 0 if marked else sum(answers.values()) - learned

    def _end(self, start: int, stop: int, index: int, dialog: "_Dialog") -> int:
        """Return where an answer stops, with the end of turn that the next message starts with if it has none."""
        if dialog.precedes_question(index) and not dialog.text[start:stop].rstrip().endswith(self._ends):
            mark = self._next_mark.match(dialog.text, stop)  # such as GLM's <|user|>
            return mark.end() if mark else stop
        return stop

    def _input(self, conversation: Mapping[str, Any], said: Said) -> tuple[list[Message], dict[str, Any]]:
        """Return the messages as OpenAI has them, and the variables of the template."""
        source = conversation.get(TEMPLATE_INPUT) or conversation
        messages = list(self._as_openai(source["messages"]))
        system = conversation.get("system") or self._default_system
        if system and not (messages and messages[0].get("role") in _SYSTEM):
            messages.insert(0, {"role": "system", "content": system})
        values = {"tools": objects_in(conversation.get("tools"))}
        for name in TEMPLATE_COLUMNS:
            try:
                values[name] = objects_in(source.get(name))
            except ValueError:
                raise DroppedError(REFUSED, f"its {name} are no objects") from None
        own = ChainMap(*map(dict, values.pop("chat_template_kwargs")))
        kept = {name: value for name, value in own.items() if name not in _ARGUMENTS and value is not None}
        listed = {name: value or None for name, value in values.items()}
        return messages, {**self._variables, **said(kept), **said(listed)}

    def _as_openai(self, messages: Sequence[Message]) -> Iterator[Message]:
        for message in messages:
            role, content = message["role"], message.get("content")
            if role == "observation" and isinstance(content, str):
                yield from ({"role": "tool", "content": text} for text in content.split(JOINT))
            elif role == "function" and isinstance(content, str):
                before, calls = calls_in(content, self._thought_words)
                called = [{"name": name, "arguments": arguments} for name, arguments in calls]
                listed = [{"type": "function", "function": call} for call in called]
                yield {**message, "role": "assistant", "content": before, "tool_calls": listed}
            else:
                yield message

    def _rendered(self, messages: list[Message], variables: Mapping[str, Any], said: Said) -> tuple[list[Message], str]:
        """Return the messages in the form that the template takes, and their text.

        Arguments are objects and contents as they are; if that fails, arguments as they are, and contents as texts.
        """
        forms: list[list[Message]] = []
        fitting: tuple[list[Message], str] | None = None
        reason: UsageError | None = None
        for form in (
            [change(message) for message in messages]
            for change in (_with_objects, dict, lambda one: _with_text(_with_objects(one)), _with_text)
        ):
            if form in forms:
                continue
            marked = [self._said_in(message, said, counted=not forms) for message in form]
            forms.append(form)
            try:
                text = render(self._own, marked, add_generation_prompt=False, **variables)
            except UsageError as error:
                reason = reason or error
                continue
            parts = [part for one in marked if isinstance(one.get("content"), list) for part in one["content"]]
            if any(str(part) in text for part in parts):  # as Python writes it
                continue
            if all(str(part.get("text", "")).strip() in text for part in parts if isinstance(part, dict)):
                return marked, text
            fitting = fitting or (marked, text)
        if fitting is None:
            raise reason or UsageError("it does not take lists of contents")
        return fitting

    def _spelled(
        self, messages: list[Message], taken: list[Message], text: str, variables: Mapping[str, Any], said: Said
    ) -> tuple[list[Message], str]:
        """Return the messages and the text with arguments as the data spell them, if that is all that differs."""
        texts = (said(text, counted=False) for message in messages for _, text in _spellings(message))
        spellings = {text: json.dumps(json.loads(text or "{}"), ensure_ascii=False) for text in texts}
        if any(own != again for own, again in spellings.items()):
            marked = [self._said_in(message, said, counted=False) for message in messages]
            with contextlib.suppress(UsageError):
                same = own_text = render(self._own, marked, add_generation_prompt=False, **variables)
                for own, again in spellings.items():
                    same = same.replace(own, again)
                if same == text:
                    return marked, own_text
        return taken, text

    def _said_in(self, message: Message, said: Said, *, counted: bool) -> Message:
        thoughts = [word.strip() for word in self._thought_words] if message.get("role") == "assistant" else []
        return {
            name: said(value, () if name == "tool_calls" else thoughts, counted=counted)
            for name, value in message.items()
            if name != "learned"
        }

    def _require_calls(self, messages: Sequence[Message], variables: Mapping[str, Any], text: str) -> None:
        silent = [{name: value for name, value in one.items() if name != "tool_calls"} for one in messages]
        if silent == messages:
            return
        with contextlib.suppress(UsageError):  # a template that needs the calls writes them
            if render(self._own, silent, add_generation_prompt=False, **variables) != text:
                return
            raise DroppedError(REFUSED, f"template {self._name}: it writes no calls of tools")


class _Dialog:
    """A dialog as the template writes it; where each message starts, by its loops or else by prefixes of the text."""

    def __init__(
        self, model: Model, messages: Sequence[Message], variables: Mapping[str, Any], text: str | None = None
    ) -> None:
        self._model, self._messages, self._variables = model, messages, variables
        traced = render_traced(model, messages, variables)
        self.text, self._marked, self.starts = traced.text, traced.learned, traced.starts
        altered = text not in (None, traced.text)  # what a loop writes is changed afterwards
        if altered or len({*self.starts} - {None}) < 2:  # or is not written by the loop
            self.text, self._marked = text or self.text, [] if altered else self._marked
            self.starts = [self._common(count) for count in range(len(messages))]

    def marked(self) -> Iterator[tuple[int, int, int]]:
        """Yield where what the template marks starts and stops, and the number of its message."""
        known = [(start, at) for at, start in enumerate(self.starts) if start is not None]
        for start, stop in self._marked:
            before = bisect_right(known, (start, len(self.starts)))
            yield start, stop, known[before - 1][1] if before else -1

    def answers(self, wanted: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Yield where those of these answers that are found start and stop, and their numbers."""
        prompts = self._prompts(wanted)
        for index in wanted:
            if span := self._answer(index, prompts):
                yield *span, index

    def precedes_question(self, index: int) -> bool:
        """Return whether a message follows that is no answer."""
        return any(message.get("role") != "assistant" for message in self._messages[index + 1 : index + 2])

    def _answer(self, index: int, prompts: Collection[str]) -> tuple[int, int] | None:
        start, stop = self.starts[index], self._after(index)
        if start is None or not prompts:
            return None
        text = self.text[start:stop]
        at = max(_common_words(prompt, text) for prompt in prompts)
        if not at and all(prompts):
            return None
        following = self._messages[index + 1 : index + 2]
        merged = bool(following) and self._after(index + 1) == stop  # answers of tools in the turn that calls them
        lacking = any(said.strip() not in text for said in _texts(self._messages[index]))
        if merged or lacking:
            alone = self._alone(index)
            if alone is None or (lacking and _removed(text, alone)):
                return None
            stop = start + common_length(text, alone) if merged else stop
        return (start + at, stop) if start + at < stop else None

    def _after(self, index: int) -> int:
        """Return where a message ends."""
        return next((start for start in self.starts[index + 1 :] if start is not None), len(self.text))

    def _prompts(self, wanted: Sequence[int]) -> set[str]:
        """Return what the prompts of answers add to the dialogs before them, once for each role before an answer."""
        found: dict[Any, str] = {}
        for index in reversed(wanted):
            role, start = self._messages[index - 1].get("role") if index else None, self.starts[index]
            if role in found or start is None:
                continue
            with contextlib.suppress(UsageError):
                prompted = self._shown(index, prompt=True)
                before = self.text[(self.starts[index - 1] if index else 0) or 0 : start] or self.text[:start]
                if prompted.startswith(self.text[:start]):
                    known = start
                elif before in prompted:
                    known = prompted.rfind(before) + len(before)
                else:  # the template writes it otherwise before a prompt
                    known = common_length(self._shown(index), prompted)
                found[role] = prompted[known:]
        return set(found.values())

    def _shown(self, count: int, *, prompt: bool = False) -> str:
        return render(self._model, self._messages[:count], add_generation_prompt=prompt, **self._variables)

    def _alone(self, index: int) -> str | None:
        """Return how an answer is written as the last one, without the turns before its question."""
        roles = [message.get("role") for message in self._messages[: index + 1]]
        question = max((at for at, role in enumerate(roles) if role == "user"), default=0)
        first = next((at for at, role in enumerate(roles) if role not in _SYSTEM), 0)
        with contextlib.suppress(UsageError):
            turn = [*self._messages[:first], *self._messages[question : index + 1]]
            dialog = _Dialog(self._model, turn, self._variables)
            return None if dialog.starts[-1] is None else dialog.text[dialog.starts[-1] :]
        return None

    def _common(self, count: int) -> int | None:
        """Return where the text stops to be that of the first messages."""
        with contextlib.suppress(UsageError):
            return common_length(self._shown(count), self.text)
        return None


def _with_objects(message: Message) -> Message:
    """Return a message whose calls have objects as arguments, not JSON in a text."""
    spelled = {id(function): json.loads(text or "{}") for function, text in _spellings(message)}
    if not spelled:
        return dict(message)
    functions = ((call, call["function"]) for call in message["tool_calls"])
    calls = [
        {**call, "function": {**one, "arguments": spelled.get(id(one), one.get("arguments"))}}
        for call, one in functions
    ]
    return {**message, "tool_calls": calls}


def _spellings(message: Message) -> list[tuple[Mapping[str, Any], str]]:
    """Return the functions that an answer calls with arguments in a text, and the texts."""
    calls = message.get("tool_calls") if message.get("role") == "assistant" else None
    functions = [call["function"] for call in calls or ()]
    return [(one, one["arguments"]) for one in functions if isinstance(one.get("arguments"), str)]


def _with_text(message: Message) -> Message:
    """Return a message whose content is one text."""
    return {**message, "content": "".join(part.get("text", "") for part in _parts(message))}


def _parts(message: Message) -> list[Mapping[str, Any]]:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}] if isinstance(content, str) else []
    return [part for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]


def _texts(message: Message) -> list[str]:
    """Return what an answer says and thinks."""
    thoughts = (message.get(name) for name in REASONING)
    return [*(part["text"] for part in _parts(message)), *(text for text in thoughts if isinstance(text, str))]


def _removed(text: str, alone: str) -> bool:
    """Return whether an answer lacks more than marks of what it has as the last one; it may have more behind it."""
    same = common_length(text, alone)
    rest = text[same:] if same < len(alone) else ""
    return not alone.endswith(rest) or bool(rest and _MARK.sub("", alone[same : len(alone) - len(rest)]).strip())


def _common_words(prompt: str, text: str) -> int:
    """Return how much of a prompt a text starts with: all, or without the end, such as a thought that it opens."""
    at = 0
    for word in _WORDS.findall(prompt):
        if not text.startswith(word, at):
            break
        at += len(word)
    return at


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts start with in common."""
    if other.startswith(one):
        return len(one)
    ends = (at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its)
    return next(ends, min(len(one), len(other)))
