"""Dialogs to ids and messages back: Llama 3's format, ChatML, and that of any chat template.

A message is `{"role": ..., "content": ...}`. Everything that a message says is ordinary text: special tokens written
in it are not recognised, so a message cannot be ended from inside. (`apply_chat_template` in transformers renders text
first and recognises them; without such text the ids are the same.)
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError, unfit
from bpe_pipeline.compat.llama3 import Llama3Tokenizer
from bpe_pipeline.tokenizer.chat_templates import (
    BORDER,
    CONTENT,
    ROLE,
    Message,
    MessageMarks,
    has_marks,
    render,
    unmarked,
)
from bpe_pipeline.tokenizer.decode import numbers_of
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_ROLES = ("user", "assistant", "system", "tool")
_HELLO = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]


def _llama3(messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
    """Render as Meta's code does, which encodes the blank line after a header on its own."""
    header = f"<|start_header_id|>{{}}<|end_header_id|>\n\n{BORDER}"
    texts = (header.format(_text(each, "role")) + _text(each, "content").strip() + "<|eot_id|>" for each in messages)
    return "<|begin_of_text|>" + "".join(texts) + (header.format("assistant") if add_generation_prompt else "")


def _chatml(messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
    texts = (f"<|im_start|>{_text(each, 'role')}\n{_text(each, 'content')}<|im_end|>\n" for each in messages)
    return "".join(texts) + ("<|im_start|>assistant\n" if add_generation_prompt else "")


def _text(message: Message, name: str) -> str:
    text = message.get(name) if isinstance(message, Mapping) else None
    if not isinstance(text, str):
        raise UsageError(f"a message lacks the text {name!r}: give {{'role': ..., 'content': ...}}")
    return text


class ChatFormat:
    """Llama 3's chat format, or that of a tokenizer's chat template.

    Llama 3's: header marks around the role, a blank line, content without outer white space, <|eot_id|>.

    >>> from bpe_pipeline.compat import ChatFormat, Llama3Tokenizer
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

    def __init__(self, tokenizer: Llama3Tokenizer | Tokenizer) -> None:
        if isinstance(tokenizer, Llama3Tokenizer):
            self._use(tokenizer, _llama3, partial(tokenizer.encode, bos=False, eos=False))
        elif not isinstance(tokenizer, Tokenizer):
            raise unfit("tokenizer", "a Llama3Tokenizer, or a Tokenizer with a chat template", tokenizer)
        elif tokenizer.chat_template is None:
            raise UsageError("the tokenizer has no chat template: ChatFormat needs one, or a Llama3Tokenizer")
        else:
            self._use(tokenizer, partial(render, tokenizer.model), tokenizer.encode_ordinary)

    def _use(self, tokenizer: Any, rendered: Callable[..., str], ordinary: Callable[[str], list[int]]) -> None:
        self.tokenizer, self._rendered, self._ordinary = tokenizer, rendered, ordinary
        self._marks = MessageMarks(tokenizer.special_tokens, tokenizer.special_tokens)

    def encode_header(self, message: Message) -> list[int]:
        """Return the ids before a message's content: in Llama 3 its role between two marks, and a blank line.

        >>> chat.tokenizer.decode(chat.encode_header({"role": "user"}))
        '<|...user...'

        Args:
            message: only "role" matters.

        Returns:
            The token ids.

        Raises:
            UsageError: the message has no role.
        """
        marked = {"role": self._marks.marked(_text(message, "role")), "content": CONTENT}
        return self._ids(self._added(marked).partition(CONTENT)[0])

    def encode_message(self, message: Message) -> list[int]:
        """Return the ids that a message adds to a dialog.

        >>> chat.tokenizer.decode(chat.encode_message({"role": "user", "content": "lower"}))
        '<|...user...lower<|...'

        Args:
            message: "role" and "content".

        Returns:
            The token ids.

        Raises:
            UsageError: the message has no role or no content, or the template refuses it.
        """
        _text(message, "role"), _text(message, "content")
        return self._ids(self._added(self._marks.marked(message)))

    def encode_dialog_prompt(self, dialog: Iterable[Message]) -> list[int]:
        """Return the ids of a dialog and of the start of the assistant's answer.

        >>> chat.tokenizer.decode(chat.encode_dialog_prompt([{"role": "user", "content": "lower"}]))
        '<|...user...lower<|...assistant...'

        Args:
            dialog: messages in order.

        Returns:
            The token ids.

        Raises:
            UsageError: a message has no role or no content, or the template refuses the dialog.
        """
        if not isinstance(dialog, Iterable) or isinstance(dialog, str | bytes | Mapping):
            raise unfit("dialog", "a list of messages", dialog)
        return self._ids(self._rendered(self._marks.marked([*dialog]), add_generation_prompt=True))

    def decode_message(self, ids: Iterable[int]) -> dict[str, str]:
        """Invert `encode_message`.

        >>> chat.decode_message(chat.encode_message({"role": "user", "content": "lower"}))
        {'role': 'user', 'content': 'lower'}

        Args:
            ids: of one whole message.

        Returns:
            "role" and "content".

        Raises:
            InputError: the ids are not one message.
        """
        listed, special = numbers_of(ids), set(self.tokenizer.special_tokens.values())
        decoded = ((is_mark, self.tokenizer.decode(run)) for is_mark, run in groupby(listed, special.__contains__))
        text = "".join(part if is_mark else self._marks.marked(part) for is_mark, part in decoded)
        for role in (ROLE, *_ROLES):
            try:
                shape = re.escape(unmarked(self._added({"role": role, "content": CONTENT})))
            except UsageError:
                continue  # a role that the template refuses
            shape = shape.replace(ROLE, "(?P<role>.*?)", 1).replace(CONTENT, "(?P<content>.*)", 1)
            match = re.fullmatch(shape, text, re.DOTALL)
            said = {name: unmarked(part) for name, part in match.groupdict().items()} if match else {}
            message = {"role": role} | said
            if message["role"] != ROLE and "content" in said and self.encode_message(message) == listed:
                return message
        raise InputError("these ids are not one message of this format: give what encode_message returned")

    def _added(self, message: Message) -> str:
        """Return the text of a message without what starts a dialog, by comparing dialogs with and without it."""
        for before in ([message], _HELLO, _HELLO[:1]):
            try:
                start = self._rendered(before, add_generation_prompt=False)
                whole = self._rendered([*before, message], add_generation_prompt=False)
            except UsageError:
                continue  # the template wants other roles before this one
            if whole.startswith(start) and len(whole) > len(start):
                return whole[len(start) :]
        return self._rendered([message], add_generation_prompt=False)

    def _ids(self, text: str) -> list[int]:
        if not has_marks(text):
            return list(self.tokenizer.encode(text, add_special_tokens=False))
        ids: list[int] = []
        for stretch, id_ in self._marks.stretches(text):
            ids += self._ordinary(stretch) if id_ is None else [id_]
        return ids


class ChatMLFormat(ChatFormat):
    """ChatML: <|im_start|>, role, line end, content, <|im_end|>, line end.

    >>> from bpe_pipeline import Tokenizer
    >>> from bpe_pipeline.compat import ChatMLFormat
    >>> chat = ChatMLFormat(Tokenizer.from_merges([], ["<|im_start|>", "<|im_end|>"]))
    >>> chat.tokenizer.decode(chat.encode_dialog_prompt([{"role": "user", "content": "low"}]))
    '<|im_start|>user\\nlow<|im_end|>\\n<|im_start|>assistant\\n'

    Args:
        tokenizer: any with the two special tokens; kept as the attribute `tokenizer`.

    Raises:
        UsageError: the tokenizer lacks a special token.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not isinstance(tokenizer, Tokenizer):
            raise unfit("tokenizer", "a Tokenizer", tokenizer)
        required = ("<|im_start|>", "<|im_end|>")
        missing = [text for text in required if text not in tokenizer.special_tokens]
        if missing:
            raise UsageError(
                f"ChatML needs the special tokens {' and '.join(required)}; the tokenizer lacks {missing[0]}"
            )
        self._use(tokenizer, _chatml, tokenizer.encode_ordinary)
