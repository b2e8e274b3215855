"""Conversations -> text by a chat template in Jinja, and which of it is trained on.

A template gets the messages as the data have them. What is trained on is what it marks with `{% generation %}`; without
such marks it is each answer, from the end of its prompt to the start of the next message. An answer that the template
rewrites in later turns, as templates do that remove thoughts, is not trained on.
"""

import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.extensions.chat.align import JOINT, TEMPLATE_COLUMNS, TEMPLATE_INPUT
from bpe_pipeline.extensions.chat.answers import SYSTEM, Dialog, text_parts
from bpe_pipeline.extensions.chat.kinds import REFUSED, DroppedError
from bpe_pipeline.extensions.chat.options import ChatOptions, day_of
from bpe_pipeline.extensions.chat.tools import calls_in, objects_in
from bpe_pipeline.tokenizer.chat_templates import Message, render
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.named_templates import Template

_GENERATION = re.compile(r"{%[-+]?\s*generation\b")
_ARGUMENTS = {"add_generation_prompt", "documents", "messages", "tools"}  # are never variables of a row
Span = tuple[int, int, bool]  # where an answer starts and stops, and whether it is trained on
Said = Callable[..., Any]  # what becomes of the values that the data hold
Write = Callable[[Sequence[Message]], str]  # the text of messages by the template; `UsageError` if it refuses them
Written = tuple[list[Message], str]  # messages in a form that the template takes, and their text


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
        self._model = replace(model, chat_template=self._template)
        special = sorted(model.vocabulary.special_tokens, key=len, reverse=True)
        self._next_mark = re.compile(r"\s*(?:" + ("|".join(map(re.escape, special)) or "(?!)") + ")")
        self._ends = tuple(text for text in special if not text.startswith("</") or text == model.eos_token)

    def written(self, conversation: Mapping[str, Any], said: Said) -> tuple[str, list[Span], int]:
        """Return the text, where answers are in it, and how many are not.

        Raises `DroppedError` where the template refuses the messages or leaves calls out, or nothing is trained on.
        """
        messages, variables = self._input(conversation, said)
        marked = _GENERATION.search(self._template.chosen_by(variables)) is not None
        write = partial(render, self._model, add_generation_prompt=False, **variables)
        wanted = {
            number: message.get("trained_on") is not False
            for number, message in enumerate(messages)
            if message["role"] == "assistant"
        }
        try:
            taken, text = self._spelled(messages, self._taken(messages, said, write), said, write)
            _require_calls(taken, text, write)
            dialog = Dialog(self._model, taken, variables, text)
            answers = dialog.marked() if marked else dialog.answers(list(wanted))
            spans = [
                (start, stop if marked else self._end(start, stop, number, dialog), wanted.get(number, True))
                for start, stop, number in answers
            ]
            trained = sum(span[2] for span in spans)
            if not trained:
                raise UsageError("it writes no answer to train on")
        except UsageError as error:
            raise DroppedError(REFUSED, f"template {self._name}: {error}") from None
        return text, spans, 0 if marked else sum(wanted.values()) - trained

    def _end(self, start: int, stop: int, number: int, dialog: Dialog) -> int:
        """Return where an answer stops, with the end of turn that the next message starts with if it has none."""
        if dialog.precedes_question(number) and not dialog.text[start:stop].rstrip().endswith(self._ends):
            mark = self._next_mark.match(dialog.text, stop)  # such as GLM's <|user|>
            return mark.end() if mark else stop
        return stop

    def _input(self, conversation: Mapping[str, Any], said: Said) -> tuple[list[Message], dict[str, Any]]:
        """Return the messages as OpenAI has them, and the variables of the template."""
        source = conversation.get(TEMPLATE_INPUT) or conversation
        messages = list(self._as_openai(source["messages"]))
        system = conversation.get("system") or self._default_system
        if system and not (messages and messages[0].get("role") in SYSTEM):
            messages.insert(0, {"role": "system", "content": system})
        values = {"tools": objects_in(conversation.get("tools"))}
        for name in TEMPLATE_COLUMNS:
            try:
                values[name] = objects_in(source.get(name))
            except ValueError:
                raise DroppedError(REFUSED, f"its {name} are no objects") from None
        of_row = ChainMap(*map(dict, values.pop("chat_template_kwargs")))
        variables = {name: value for name, value in of_row.items() if name not in _ARGUMENTS and value is not None}
        variables |= {name: value or None for name, value in values.items()}
        return messages, {**self._variables, **said(variables)}

    def _as_openai(self, messages: Sequence[Message]) -> Iterator[Message]:
        for message in messages:
            role, content = message["role"], message.get("content")
            if role == "observation" and isinstance(content, str):
                yield from ({"role": "tool", "content": text} for text in content.split(JOINT))
            elif role == "function" and isinstance(content, str):
                before, calls = calls_in(content, self._thought_words)
                functions = ({"name": name, "arguments": arguments} for name, arguments in calls)
                listed = [{"type": "function", "function": function} for function in functions]
                yield {**message, "role": "assistant", "content": before, "tool_calls": listed}
            else:
                yield message

    def _taken(self, messages: list[Message], said: Said, write: Write) -> Written:
        """Return the messages in the first form that the template takes, and their text.

        Arguments are objects and contents as they are; if that fails, arguments as they are, and contents as texts.
        """
        forms: list[list[Message]] = []
        fitting: Written | None = None
        reason: UsageError | None = None
        for change in (_with_objects, dict, lambda message: _with_text(_with_objects(message)), _with_text):
            form = [change(message) for message in messages]
            if form in forms:
                continue
            marked = [self._said_in(message, said, counted=not forms) for message in form]
            forms.append(form)
            try:
                text = write(marked)
            except UsageError as error:
                reason = reason or error
                continue
            contents = (message.get("content") for message in marked)
            parts = [part for content in contents if isinstance(content, list) for part in content]
            if any(str(part) in text for part in parts):  # as Python writes it
                continue
            if all(str(part.get("text", "")).strip() in text for part in parts if isinstance(part, dict)):
                return marked, text
            fitting = fitting or (marked, text)
        if fitting is None:
            raise reason or UsageError("it does not take lists of contents")
        return fitting

    def _spelled(self, messages: list[Message], taken: Written, said: Said, write: Write) -> Written:
        """Return the messages and the text with arguments as the data spell them, if that is all that differs."""
        texts = (said(text, counted=False) for message in messages for text in _spellings(message))
        spellings = {text: json.dumps(json.loads(text or "{}"), ensure_ascii=False) for text in texts}
        if all(text == again for text, again in spellings.items()):
            return taken
        marked = [self._said_in(message, said, counted=False) for message in messages]
        try:
            same = spelled = write(marked)
        except UsageError:
            return taken
        for text, again in spellings.items():
            same = same.replace(text, again)
        return (marked, spelled) if same == taken[1] else taken

    def _said_in(self, message: Message, said: Said, *, counted: bool) -> Message:
        thoughts = [word.strip() for word in self._thought_words] if message.get("role") == "assistant" else []
        return {
            name: said(value, () if name == "tool_calls" else thoughts, counted=counted)
            for name, value in message.items()
            if name != "trained_on"
        }


def _require_calls(messages: Sequence[Message], text: str, write: Write) -> None:
    """Raise `UsageError` if a text does not depend on the calls of tools in the messages."""
    silent = [{name: value for name, value in message.items() if name != "tool_calls"} for message in messages]
    if silent == messages:
        return
    try:
        silent_text = write(silent)
    except UsageError:
        return  # a template that needs the calls writes them
    if silent_text == text:
        raise UsageError("it writes no calls of tools")


def _with_objects(message: Message) -> Message:
    """Return a message whose calls have objects as arguments, not JSON in a text."""
    if not _spellings(message):
        return dict(message)
    return {**message, "tool_calls": list(map(_with_object, message["tool_calls"]))}


def _with_object(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    text = function.get("arguments")
    return {
        **call,
        "function": {**function, "arguments": json.loads(text or "{}")} if isinstance(text, str) else function,
    }


def _spellings(message: Message) -> list[str]:
    """Return the arguments that an answer calls tools with and that are JSON in a text."""
    calls = message.get("tool_calls") if message.get("role") == "assistant" else None
    arguments = (call["function"].get("arguments") for call in calls or ())
    return [text for text in arguments if isinstance(text, str)]


def _with_text(message: Message) -> Message:
    """Return a message whose content is one text."""
    return {**message, "content": "".join(part["text"] for part in text_parts(message))}
