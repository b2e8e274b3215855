"""Where the answers are in a dialog that a chat template writes, and whether they are written as they were said.

A message starts where a loop of the template comes to it, or else where the text stops to be that of the messages
before it. An answer starts behind the prompt that the template writes for it.
"""

import contextlib
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from os.path import commonprefix
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.tokenizer.chat_templates import REASONING, Message, render, render_traced
from bpe_pipeline.tokenizer.model import Model

SYSTEM = ("system", "developer")
_MARK = re.compile(r"<[^<>]*>")
_WORDS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\s|[^\s<\[]+|.")  # of a prompt: a mark, a space, a word
Answer = tuple[int, int, int]  # where it starts and stops, and the number of its message


class Dialog:
    """Finds answers in a dialog that a template writes. text: what became of what it writes, if that was altered."""

    def __init__(
        self, model: Model, messages: Sequence[Message], variables: Mapping[str, Any], text: str | None = None
    ) -> None:
        self._model, self._messages, self._variables = model, messages, variables
        traced = render_traced(model, messages, variables)
        self.text, self._marked, self._starts = traced.text, traced.generated, traced.starts
        altered = text not in (None, traced.text)  # what a loop writes is changed afterwards
        if altered or len({*self._starts} - {None}) < 2:  # or is not written by the loop
            self.text, self._marked = text or self.text, [] if altered else self._marked
            self._starts = [self._common(count) for count in range(len(messages))]

    def marked(self) -> Iterator[Answer]:
        """Yield what the template marks."""
        known = [(start, at) for at, start in enumerate(self._starts) if start is not None]
        for start, stop in self._marked:
            before = bisect_right(known, (start, len(self._starts)))
            yield start, stop, known[before - 1][1] if before else -1

    def answers(self, numbers: Sequence[int]) -> Iterator[Answer]:
        """Yield those of the answers with these numbers that are where they can be found."""
        prompts = self._prompts(numbers)
        for number in numbers:
            if span := self._answer(number, prompts):
                yield *span, number

    def precedes_question(self, number: int) -> bool:
        """Return whether a message follows that is no answer."""
        return any(message.get("role") != "assistant" for message in self._messages[number + 1 : number + 2])

    def _answer(self, number: int, prompts: Collection[str]) -> tuple[int, int] | None:
        start, stop = self._starts[number], self._after(number)
        if start is None or not prompts:
            return None
        text = self.text[start:stop]
        at = max(_common_words(prompt, text) for prompt in prompts)
        if not at and all(prompts):
            return None
        following = number + 1 < len(self._messages)
        merged = following and self._after(number + 1) == stop  # answers of tools in the turn that calls them
        lacking = any(said.strip() not in text for said in _texts(self._messages[number]))
        if merged or lacking:
            alone = self._alone(number)
            if alone is None or (lacking and _removed(text, alone)):
                return None
            stop = start + common_length(text, alone) if merged else stop
        return (start + at, stop) if start + at < stop else None

    def _after(self, number: int) -> int:
        """Return where a message ends."""
        return next((start for start in self._starts[number + 1 :] if start is not None), len(self.text))

    def _prompts(self, numbers: Sequence[int]) -> set[str]:
        """Return what the prompts of answers add to the dialogs before them, once for each role before an answer."""
        prompts: dict[Any, str] = {}
        for number in reversed(numbers):
            role, start = self._messages[number - 1].get("role") if number else None, self._starts[number]
            if role in prompts or start is None:
                continue
            with contextlib.suppress(UsageError):
                prompted = self._shown(number, prompt=True)
                before = self.text[(self._starts[number - 1] if number else 0) or 0 : start] or self.text[:start]
                if prompted.startswith(self.text[:start]):
                    known = start
                elif before in prompted:
                    known = prompted.rfind(before) + len(before)
                else:  # the template writes it otherwise before a prompt
                    known = common_length(self._shown(number), prompted)
                prompts[role] = prompted[known:]
        return set(prompts.values())

    def _shown(self, count: int, *, prompt: bool = False) -> str:
        return render(self._model, self._messages[:count], add_generation_prompt=prompt, **self._variables)

    def _alone(self, number: int) -> str | None:
        """Return how an answer is written as the last one, without the turns before its question."""
        roles = [message.get("role") for message in self._messages[: number + 1]]
        question = max((at for at, role in enumerate(roles) if role == "user"), default=0)
        first = next((at for at, role in enumerate(roles) if role not in SYSTEM), 0)
        with contextlib.suppress(UsageError):
            turn = [*self._messages[:first], *self._messages[question : number + 1]]
            dialog = Dialog(self._model, turn, self._variables)
            return None if dialog._starts[-1] is None else dialog.text[dialog._starts[-1] :]
        return None

    def _common(self, count: int) -> int | None:
        """Return where the text stops to be that of the first messages."""
        with contextlib.suppress(UsageError):
            return common_length(self._shown(count), self.text)
        return None


def text_parts(message: Message) -> list[Mapping[str, Any]]:
    """Return the parts of a content that are text; of a content that is a text, that one."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return [part for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]


def _texts(message: Message) -> list[str]:
    """Return what an answer says and thinks."""
    thoughts = (message.get(name) for name in REASONING)
    return [*(part["text"] for part in text_parts(message)), *(text for text in thoughts if isinstance(text, str))]


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


def common_length(text: str, other: str) -> int:
    """Return how many characters two texts start with in common."""
    return len(text if other.startswith(text) else commonprefix((text, other)))  # noqa: RUF071 - no paths
