"""Dialogs to ids by any chat template, where what a message says stays text.

Rendered text does not say what came from a message. So a mark, a character that no text has, goes before each special
token that a message contains; what is marked is not recognised, and the marks are gone before text is encoded.
"""

import re
from collections.abc import Sequence
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.tokenizer.chat_render import Message, render
from pipeline.tokenizer.tokenizer import Tokenizer

_MARK, _ROLE, _CONTENT = "\ufdd0", "\ufdd1", "\ufdd2"  # noncharacters
_ROLES = ("user", "assistant", "system", "tool")
_HELLO = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]


class TemplateDialogs:
    """Encode the dialogs and messages of a tokenizer's chat template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        longest_first = sorted(tokenizer.special_tokens, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, longest_first)) or "(?!)"
        self._special = re.compile(f"(?={alternatives})")
        self._recognised = re.compile(f"(?<!{_MARK})({alternatives})")

    def dialog(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a dialog up to where the assistant's answer starts."""
        return self._ids(self._text(messages, add_generation_prompt=True))

    def message(self, message: Message) -> list[int]:
        """Return the ids that a message adds to a dialog."""
        return self._ids(self._added(message))

    def header(self, role: str) -> list[int]:
        """Return the ids before what a message says."""
        return self._ids(self._added({"role": role, "content": _CONTENT}).partition(_CONTENT)[0])

    def read(self, ids: list[int]) -> dict[str, str] | None:
        """Return the message of which these are the ids."""
        text = self._tokenizer.decode(ids)
        for role in (_ROLE, *_ROLES):
            try:
                shape = re.escape(self._added({"role": role, "content": _CONTENT}))
            except UsageError:
                continue  # a role that the template refuses
            shape = shape.replace(_ROLE, "(?P<role>.*?)", 1).replace(_CONTENT, "(?P<content>.*)", 1)
            found = re.fullmatch(shape, text, re.DOTALL)
            message = ({} if role == _ROLE else {"role": role}) | (found.groupdict() if found else {})
            if message.keys() == {"role", "content"} and self.message(message) == ids:
                return message
        return None

    def _text(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
        marked = [self._marked(message) for message in messages] if isinstance(messages, list | tuple) else messages
        return render(self._tokenizer.model, marked, add_generation_prompt=add_generation_prompt)

    def _marked(self, value: Any) -> Any:
        """Return what a message says, with its special tokens marked."""
        if isinstance(value, str):
            return self._special.sub(_MARK, value)
        if isinstance(value, dict):
            return {name: self._marked(member) for name, member in value.items()}
        return [self._marked(member) for member in value] if isinstance(value, list | tuple) else value

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
        if _MARK not in text:
            return self._tokenizer.encode(text, add_special_tokens=False)
        special_tokens, ids = self._tokenizer.special_tokens, []
        for index, part in enumerate(self._recognised.split(text)):
            if index % 2:
                ids.append(special_tokens[part])
            else:
                ids += self._tokenizer.encode_ordinary(part.replace(_MARK, ""))
        return ids
