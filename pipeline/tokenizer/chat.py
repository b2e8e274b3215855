"""Dialogs to ids and messages back: Llama 3's format, ChatML, and that of any chat template.

A message is `{"role": ..., "content": ...}`. Everything that a message says is ordinary text: special tokens written
in it are not recognised, so a message cannot be ended from inside. (`apply_chat_template` in transformers renders text
first and recognises them; without such text the ids are the same.)
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from pipeline.base.errors import InputError, UsageError, unfit
from pipeline.tokenizer.chat_template_format import TemplateDialogs
from pipeline.tokenizer.decode import numbers_of
from pipeline.tokenizer.llama3 import Llama3Tokenizer
from pipeline.tokenizer.tokenizer import Tokenizer

Message = Mapping[str, str]


class _Format(ABC):
    """Messages that one special token starts and another ends; a line end may follow it."""

    _start: int
    _end: list[int]
    _before_dialog: list[int]
    _before_answer: list[int]
    _shape: str

    @abstractmethod
    def _inner(self, role: str, content: str) -> list[int]: ...

    @abstractmethod
    def _parts(self, inner: list[int]) -> tuple[str, str] | None: ...

    def encode_message(self, message: Message) -> list[int]:
        """Return the ids of a message, from the token that starts it to what ends it.

        >>> chat.tokenizer.decode(chat.encode_message({"role": "user", "content": "lower"}))
        '<|...user...lower<|...'

        Args:
            message: "role" and "content".

        Returns:
            The token ids.

        Raises:
            UsageError: the message has no role or no content.
        """
        return [self._start, *self._inner(_member(message, "role"), _member(message, "content")), *self._end]

    def encode_dialog_prompt(self, dialog: Sequence[Message]) -> list[int]:
        """Return the ids of a dialog, up to where the assistant's answer starts.

        >>> chat.tokenizer.decode(chat.encode_dialog_prompt([{"role": "user", "content": "lower"}]))
        '<|...user...lower<|...assistant...'

        Args:
            dialog: messages in order.

        Returns:
            The token ids.

        Raises:
            UsageError: a message has no role or no content.
        """
        if not isinstance(dialog, Iterable):
            raise unfit("dialog", "a list of messages", dialog)
        return [*self._before_dialog, *chain.from_iterable(map(self.encode_message, dialog)), *self._before_answer]

    def decode_message(self, ids: Iterable[int]) -> dict[str, str]:
        """Return the message of ids; the inverse of `encode_message`.

        >>> chat.decode_message(chat.encode_message({"role": "user", "content": "lower"}))
        {'role': 'user', 'content': 'lower'}

        Args:
            ids: of one whole message.

        Returns:
            "role" and "content".

        Raises:
            InputError: the ids are not one message.
        """
        listed = numbers_of(ids)
        inner = listed[1 : -len(self._end)]
        whole = [self._start, *inner, *self._end] == listed and not {self._start, self._end[0]} & set(inner)
        parts = self._parts(inner) if whole else None
        if parts is None:
            raise InputError(
                f"these ids are not one message, which is {self._shape}: give what encode_message returned"
            )
        return {"role": parts[0], "content": parts[1]}


class ChatFormat(_Format):
    """Llama 3's chat format, or that of a tokenizer's chat template (then jinja2 is needed).

    Llama 3's: header marks around the role, a blank line, content without outer white space, <|eot_id|>.

    >>> from pipeline import ChatFormat, Llama3Tokenizer
    >>> chat = ChatFormat(Llama3Tokenizer("tokenizer.model"))
    >>> chat.tokenizer.decode(chat.encode_message({"role": "user", "content": " lower "}))
    '<|start_header_id|>user<|end_header_id|>\\n\\nlower<|eot_id|>'
    >>> chat.tokenizer.decode(chat.encode_dialog_prompt([]))
    '<|begin_of_text|><|start_header_id|>assistant<|end_header_id|>\\n\\n'

    Args:
        tokenizer: Llama 3's, or any `Tokenizer` that has a chat template; kept as the attribute `tokenizer`.

    Raises:
        UsageError: the tokenizer has no chat template.
    """

    _shape = "start_header_id, a role, end_header_id, a blank line, content and eot_id"

    def __new__(cls, tokenizer: Llama3Tokenizer | Tokenizer | None = None) -> "ChatFormat":  # noqa: D102 - as __init__
        return super().__new__(_TemplateFormat if isinstance(tokenizer, Tokenizer) else cls)

    def __init__(self, tokenizer: Llama3Tokenizer | Tokenizer) -> None:
        if not isinstance(tokenizer, Llama3Tokenizer):
            raise unfit("tokenizer", "a Llama3Tokenizer, or a Tokenizer with a chat template", tokenizer)
        self.tokenizer: Any = tokenizer
        special_tokens = tokenizer.special_tokens
        self._start, self._end = special_tokens["<|start_header_id|>"], [special_tokens["<|eot_id|>"]]
        self._after_role = [special_tokens["<|end_header_id|>"], *self._text("\n\n")]
        self._before_dialog, self._before_answer = [tokenizer.bos_id], self.encode_header({"role": "assistant"})

    def encode_header(self, message: Message) -> list[int]:
        """Return the ids of a message's header: its role between the header's marks, and a blank line.

        >>> chat.tokenizer.decode(chat.encode_header({"role": "user"}))
        '<|start_header_id|>user<|end_header_id|>\\n\\n'

        Args:
            message: only its "role" matters.

        Returns:
            The token ids.

        Raises:
            UsageError: the message has no role.
        """
        return [self._start, *self._text(_member(message, "role")), *self._after_role]

    def _inner(self, role: str, content: str) -> list[int]:
        return [*self._text(role), *self._after_role, *self._text(content.strip())]

    def _parts(self, inner: list[int]) -> tuple[str, str] | None:
        header = inner.index(self._after_role[0]) if self._after_role[0] in inner else len(inner)
        content = header + len(self._after_role)
        if inner[header:content] != self._after_role:
            return None
        return self.tokenizer.decode(inner[:header]), self.tokenizer.decode(inner[content:])

    def _text(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, bos=False, eos=False)
        return ids


class _TemplateFormat(ChatFormat):
    """The format of any chat template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.chat_template is None:
            raise UsageError("the tokenizer has no chat template: ChatFormat needs one, or a Llama3Tokenizer")
        self.tokenizer, self._dialogs = tokenizer, TemplateDialogs(tokenizer)

    def encode_header(self, message: Message) -> list[int]:
        return self._dialogs.header(_member(message, "role"))

    def encode_message(self, message: Message) -> list[int]:
        _member(message, "role"), _member(message, "content")
        return self._dialogs.message(message)

    def encode_dialog_prompt(self, dialog: Sequence[Message]) -> list[int]:
        return self._dialogs.dialog(dialog)

    def decode_message(self, ids: Iterable[int]) -> dict[str, str]:
        message = self._dialogs.read(numbers_of(ids))
        if message is None:
            raise InputError("these ids are not one message of the chat template: give what encode_message returned")
        return message


class ChatMLFormat(_Format):
    """ChatML: <|im_start|>, role, line end, content, <|im_end|>, line end.

    >>> from pipeline import ChatMLFormat, Tokenizer
    >>> chat = ChatMLFormat(Tokenizer.from_merges([], ["<|im_start|>", "<|im_end|>"]))
    >>> chat.tokenizer.decode(chat.encode_dialog_prompt([{"role": "user", "content": "low"}]))
    '<|im_start|>user\\nlow<|im_end|>\\n<|im_start|>assistant\\n'

    Args:
        tokenizer: any with the two special tokens; kept as the attribute `tokenizer`.

    Raises:
        UsageError: the tokenizer lacks a special token.
    """

    _shape = "im_start, a role, a line end, content, im_end and a line end"

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not isinstance(tokenizer, Tokenizer):
            raise unfit("tokenizer", "a Tokenizer", tokenizer)
        required = ("<|im_start|>", "<|im_end|>")
        missing = [text for text in required if text not in tokenizer.special_tokens]
        if missing:
            raise UsageError(
                f"ChatML needs the special tokens {' and '.join(required)}; the tokenizer lacks {missing[0]}"
            )
        self.tokenizer = tokenizer
        self._start, end = (tokenizer.special_tokens[text] for text in required)
        self._end = [end, *tokenizer.encode_ordinary("\n")]
        self._before_dialog, self._before_answer = [], [self._start, *tokenizer.encode_ordinary("assistant\n")]

    def _inner(self, role: str, content: str) -> list[int]:
        return self.tokenizer.encode_ordinary(f"{role}\n{content}")

    def _parts(self, inner: list[int]) -> tuple[str, str] | None:
        role, line_end, content = self.tokenizer.decode(inner).partition("\n")
        return (role, content) if line_end else None


def _member(message: Message, name: str) -> str:
    text = message.get(name) if isinstance(message, Mapping) else None
    if not isinstance(text, str):
        raise UsageError(f"a message lacks the text {name!r}: give {{'role': ..., 'content': ...}}")
    return text
