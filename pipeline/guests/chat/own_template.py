"""Conversations -> text by a chat template in Jinja, and which of it is learned.

What is learned is what the template marks with `{% generation %}`. Without such marks it is each answer, found by
prefixes: from the end of its prompt to the end of the dialog up to it. An answer that the template writes otherwise
once more is said, as templates do that remove thoughts, is not learned.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.guests.chat.align import JOINT
from pipeline.guests.chat.marks import DroppedError
from pipeline.guests.chat.tools import calls_in, tools_in
from pipeline.run.options import ChatOptions
from pipeline.run.values import day_of
from pipeline.tokenizer.chat_templates import Message, render, render_learned
from pipeline.tokenizer.model import ChatTemplate, Model
from pipeline.tokenizer.named_templates import Template

REFUSED, REWRITTEN = "conversations_refused", "answers_rewritten"
_MOST_ADDED = 64  # characters
_GENERATION = re.compile(r"{%[-+]?\s*generation\b")
Said = Callable[..., Any]  # what becomes of the values that the data hold


class JinjaTemplate:
    """Renders conversations. Names of today's date are those of the options."""

    def __init__(self, template: Template, model: Model, options: ChatOptions) -> None:
        assert template.jinja is not None
        self._name, self._default_system = template.name, options.default_system
        self._thought_words = template.thought_words
        self._marked = _GENERATION.search(template.jinja) is not None
        self._variables: dict[str, Any] = {"date_string": options.date, "strftime_now": day_of(options.date).strftime}
        if options.enable_thinking == "false":
            self._variables["enable_thinking"] = False
        self._own = replace(model, chat_template=ChatTemplate(template.jinja))

    def written(self, conversation: Mapping[str, Any], said: Said) -> tuple[str, list[int], int]:
        """Return the text, where what is learned starts and stops in turn, and how many answers are not learned.

        Raises `DroppedError` where the template refuses the messages or leaves calls out, or nothing is learned.
        """
        messages = list(self._messages(conversation, said))
        variables = {**self._variables, "tools": said(tools_in(conversation.get("tools") or "")) or None}
        try:
            text, borders = render_learned(self._own, messages, variables)
            silent = [{name: one[name] for name in ("role", "content")} for one in messages]
            if silent != messages and render_learned(self._own, silent, variables)[0] == text:
                raise UsageError("it writes no calls of tools")
            left_out = 0 if self._marked else self._add_by_prefixes(borders, text, messages, variables)
        except UsageError as error:
            raise DroppedError(REFUSED, f"template {self._name}: {error}") from None
        if not borders:
            raise DroppedError(REFUSED, f"template {self._name}: it writes no answer to learn")
        return text, borders, left_out

    def _messages(self, conversation: Mapping[str, Any], said: Said) -> Iterator[Message]:
        """Yield the messages as OpenAI has them."""
        kept = [word.strip() for word in self._thought_words]
        if system := conversation.get("system") or self._default_system:
            yield {"role": "system", "content": said(system)}
        for message in conversation["messages"]:
            role, content = message["role"], message["content"]
            if role == "observation":
                yield from ({"role": "tool", "content": said(text)} for text in content.split(JOINT))
            elif role == "function":
                before, calls = calls_in(content, self._thought_words)
                called = [{"name": said(name), "arguments": said(arguments)} for name, arguments in calls]
                listed = [{"type": "function", "function": call} for call in called]
                yield {"role": "assistant", "content": said(before, kept), "tool_calls": listed}
            else:
                yield {"role": role, "content": said(content, kept if role == "assistant" else ())}

    def _add_by_prefixes(
        self, borders: list[int], text: str, messages: Sequence[Message], variables: Mapping[str, Any]
    ) -> int:
        """Add where answers start and stop; returns how many were not found."""

        def shown(count: int, *, prompt: bool = False) -> str:
            return render(self._own, messages[:count], add_generation_prompt=prompt, **variables)

        answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        for index in answers:
            prompt, said = shown(index, prompt=True), messages[index]["content"].strip()
            until = text if index == len(messages) - 1 else shown(index + 1)
            start = common_length(prompt, text)
            known = start == len(prompt) or text.startswith(shown(index))  # else a prompt is no start of a dialog
            if known and start >= max(borders, default=0):
                # What the template adds to a last answer alone, such as an empty thought, may be absent.
                rests = (until[start + added :] for added in range(_MOST_ADDED))
                same = (rest for rest in rests if rest and said in rest and text.startswith(rest, start))
                borders += [start, start + len(rest)] if (rest := next(same, "")) else []
        return len(answers) - len(borders) // 2


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts start with in common."""
    if other.startswith(one):
        return len(one)
    ends = (at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its)
    return next(ends, min(len(one), len(other)))
