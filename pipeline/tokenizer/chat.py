"""Dialogs to ids and messages back: Llama 3's format, and ChatML.

A message is `{"role": ..., "content": ...}`. Everything that a message says is ordinary text: special tokens written
in it are not recognised, so a message cannot be ended from inside. (`apply_chat_template` in transformers renders text
first and recognises them; without such text the ids are the same.)
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from pipeline.base.errors import InputError, UsageError
from pipeline.tokenizer.chat_templates import CHAT_TEMPLATES
from pipeline.tokenizer.decode import numbers_of
from pipeline.tokenizer.llama3 import Llama3Tokenizer
from pipeline.tokenizer.tokenizer import Tokenizer

Message = Mapping[str, str]


class ChatFormat:
    """Llama 3's chat format.

    >>> from pipeline import ChatFormat, Llama3Tokenizer
    >>> chat = ChatFormat(Llama3Tokenizer("tokenizer.model"))
    >>> chat.tokenizer.decode(chat.encode_message({"role": "user", "content": "lower"}))
    '<|start_header_id|>user<|end_header_id|>\\n\\nlower<|eot_id|>'

    Args:
        tokenizer: Llama 3's; kept as the attribute `tokenizer`.
    """

    def __init__(self, tokenizer: Llama3Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._start, self._end, self._end_of_turn = (
            tokenizer.special_tokens[text] for text in ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
        )
        self._blank_line = self._text("\n\n")

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
        return [self._start, *self._text(_member(message, "role")), self._end, *self._blank_line]

    def encode_message(self, message: Message) -> list[int]:
        """Return the ids of a message: header, content without outer white space, end of turn.

        >>> chat.encode_message({"role": "user", "content": " lower "})[-3:]
        [257, 258, 268]

        Args:
            message: "role" and "content".

        Returns:
            The token ids.

        Raises:
            UsageError: the message has no role or no content.
        """
        content = _member(message, "content").strip()
        return [*self.encode_header(message), *self._text(content), self._end_of_turn]

    def encode_dialog_prompt(self, dialog: Sequence[Message]) -> list[int]:
        """Return the ids of a dialog, up to where the assistant's answer starts.

        >>> chat.tokenizer.decode(chat.encode_dialog_prompt([]))
        '<|begin_of_text|><|start_header_id|>assistant<|end_header_id|>\\n\\n'

        Args:
            dialog: messages in order.

        Returns:
            The token ids.

        Raises:
            UsageError: a message has no role or no content.
        """
        messages = chain.from_iterable(map(self.encode_message, dialog))
        return [self.tokenizer.bos_id, *messages, *self.encode_header({"role": "assistant"})]

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
        if listed[:1] != [self._start] or self._end not in listed or listed[-1] != self._end_of_turn:
            raise InputError(_NOT_A_MESSAGE.format("start_header_id, a role, end_header_id, content and eot_id"))
        header = listed.index(self._end)
        content = header + 1 + len(self._blank_line)
        if listed[header + 1 : content] != self._blank_line or self._end_of_turn in listed[:-1]:
            raise InputError(_NOT_A_MESSAGE.format("one header, a blank line, content and one eot_id"))
        decode = self.tokenizer.decode
        return {"role": decode(listed[1:header]), "content": decode(listed[content:-1])}

    def _text(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, bos=False, eos=False)


class ChatMLFormat:
    """ChatML: <|im_start|>, role, line end, content, <|im_end|>, line end.

    >>> from pipeline import ChatMLFormat, Tokenizer
    >>> chatml = ChatMLFormat(Tokenizer.from_merges([], ["<|im_start|>", "<|im_end|>"]))
    >>> chatml.tokenizer.decode(chatml.encode_dialog_prompt([{"role": "user", "content": "low"}]))
    '<|im_start|>user\\nlow<|im_end|>\\n<|im_start|>assistant\\n'

    Args:
        tokenizer: any with the two special tokens; kept as the attribute `tokenizer`.

    Raises:
        UsageError: the tokenizer lacks a special token.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        required = CHAT_TEMPLATES["chatml"].required
        missing = [text for text in required if text not in tokenizer.special_tokens]
        if missing:
            raise UsageError(
                f"ChatML needs the special tokens {' and '.join(required)}; the tokenizer lacks {missing[0]}"
            )
        self.tokenizer = tokenizer
        self._start, self._end = (tokenizer.special_tokens[text] for text in required)
        self._line_end = tokenizer.encode_ordinary("\n")

    def encode_message(self, message: Message) -> list[int]:
        """Return the ids of a message and the line end after it.

        >>> chatml.tokenizer.decode(chatml.encode_message({"role": "user", "content": "low"}))
        '<|im_start|>user\\nlow<|im_end|>\\n'

        Args:
            message: "role" and "content".

        Returns:
            The token ids.

        Raises:
            UsageError: the message has no role or no content.
        """
        text = f"{_member(message, 'role')}\n{_member(message, 'content')}"
        return [self._start, *self.tokenizer.encode_ordinary(text), self._end, *self._line_end]

    def encode_dialog_prompt(self, dialog: Sequence[Message]) -> list[int]:
        """Return the ids of a dialog, up to where the assistant's answer starts.

        >>> chatml.tokenizer.decode(chatml.encode_dialog_prompt([]))
        '<|im_start|>assistant\\n'

        Args:
            dialog: messages in order.

        Returns:
            The token ids.

        Raises:
            UsageError: a message has no role or no content.
        """
        prompt = [self._start, *self.tokenizer.encode_ordinary("assistant\n")]
        return [*chain.from_iterable(map(self.encode_message, dialog)), *prompt]

    def decode_message(self, ids: Iterable[int]) -> dict[str, str]:
        """Return the message of ids; the inverse of `encode_message`.

        >>> chatml.decode_message(chatml.encode_message({"role": "user", "content": "low"}))
        {'role': 'user', 'content': 'low'}

        Args:
            ids: of one whole message.

        Returns:
            "role" and "content".

        Raises:
            InputError: the ids are not one message.
        """
        listed = numbers_of(ids)
        tail = [self._end, *self._line_end]
        inner = listed[1 : -len(tail)]
        role, line_end, content = self.tokenizer.decode(inner).partition("\n")
        whole = listed[:1] == [self._start] and listed[-len(tail) :] == tail and len(listed) > len(tail)
        if not whole or not line_end or self._start in inner or self._end in inner:
            raise InputError(_NOT_A_MESSAGE.format("im_start, a role, a line end, content, im_end and a line end"))
        return {"role": role, "content": content}


_NOT_A_MESSAGE = "these ids are not one message, which is {}: give what encode_message returned"


def _member(message: Message, name: str) -> str:
    text = message.get(name)
    if not isinstance(text, str):
        raise UsageError(f"a message lacks the text {name!r}: give {{'role': ..., 'content': ...}}")
    return text
