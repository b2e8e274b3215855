"""Dialogs to ids by any chat template, where what a message says stays text (`pipeline.tokenizer.message_marks`)."""

import re
from collections.abc import Sequence

from pipeline.base.errors import UsageError
from pipeline.tokenizer.chat_render import Message, render
from pipeline.tokenizer.message_marks import CONTENT, ROLE, MessageMarks, has_marks
from pipeline.tokenizer.tokenizer import Tokenizer

_ROLES = ("user", "assistant", "system", "tool")
_HELLO = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]


class TemplateDialogs:
    """Encode the dialogs and messages of a tokenizer's chat template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._marks = MessageMarks(tokenizer.special_tokens, tokenizer.special_tokens)

    def dialog(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a dialog up to where the assistant's answer starts."""
        return self._ids(self._text(self._marks.marked(messages), add_generation_prompt=True))

    def message(self, message: Message) -> list[int]:
        """Return the ids that a message adds to a dialog."""
        return self._ids(self._added(self._marks.marked(message)))

    def header(self, role: str) -> list[int]:
        """Return the ids before what a message says."""
        return self._ids(self._added({"role": self._marks.marked(role), "content": CONTENT}).partition(CONTENT)[0])

    def read(self, ids: list[int]) -> dict[str, str] | None:
        """Return the message of which these are the ids."""
        text = self._tokenizer.decode(ids)
        for role in (ROLE, *_ROLES):
            try:
                shape = re.escape(self._added({"role": role, "content": CONTENT}))
            except UsageError:
                continue  # a role that the template refuses
            shape = shape.replace(ROLE, "(?P<role>.*?)", 1).replace(CONTENT, "(?P<content>.*)", 1)
            found = re.fullmatch(shape, text, re.DOTALL)
            message = ({} if role == ROLE else {"role": role}) | (found.groupdict() if found else {})
            if message.keys() == {"role", "content"} and self.message(message) == ids:
                return message
        return None

    def _text(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
        return render(self._tokenizer.model, messages, add_generation_prompt=add_generation_prompt)

    def _added(self, message: Message) -> str:
        """Return the text of a message without what starts a dialog, by comparing dialogs with and without it."""
        for before in ([message], _HELLO, _HELLO[:1]):
            try:
                start = self._text(before, add_generation_prompt=False)
                whole = self._text([*before, message], add_generation_prompt=False)
            except UsageError:
                continue  # the template wants other roles before this one
            if whole.startswith(start) and len(whole) > len(start):
                return whole[len(start) :]
        return self._text([message], add_generation_prompt=False)

    def _ids(self, text: str) -> list[int]:
        if not has_marks(text):
            return self._tokenizer.encode(text, add_special_tokens=False)
        ids: list[int] = []
        for stretch, id_ in self._marks.stretches(text):
            ids += self._tokenizer.encode_ordinary(stretch) if id_ is None else [id_]
        return ids
