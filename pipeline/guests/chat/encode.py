"""Conversations in memory to rows of ids and labels: the public function."""

import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pipeline.base.errors import unfit
from pipeline.corpus.skipped_or_altered import Tally, in_words
from pipeline.guests.chat.encoder import ChatEncoder, settings_of
from pipeline.guests.chat.templates import require_marks, template_named
from pipeline.run.keywords import AnyPath
from pipeline.run.options import ChatOptions, make_options
from pipeline.run.values import PUBLISHED_DATE, date_of
from pipeline.shards.plan import model_of
from pipeline.tokenizer.tokenizer import Tokenizer

_log = logging.getLogger(__name__)
_CONVERSATIONS = "conversations as align_chat returns them: mappings with a list of messages"
_ALIGNED = 'conversations as align_chat(row, formatting="messages") returns them, without tool_calls and lists of tools'


def encode_chat(
    conversations: Iterable[Mapping[str, Any]],
    tokenizer: Tokenizer | AnyPath,
    template: str = "llama3",
    sequence_length: int = 4096,
    train_on_prompt: bool = False,
    mask_history: bool = False,
    default_system: str | None = None,
    enable_thinking: bool | None = True,
    preserve_thinking: bool = False,
    special_tokens_in_messages: Literal["text", "tokens", "refuse"] = "text",
    date: str = PUBLISHED_DATE,
) -> Iterator[dict[str, list[int]]]:
    """Iterate over the ids and labels of conversations, as LLaMA-Factory 0.9.5 makes them.

    >>> dialog = {"messages": [{"role": "user", "content": "low"}, {"role": "assistant", "content": "er"}]}
    >>> next(pipeline.encode_chat([dialog], tokenizer, template="empty"))
    {'input_ids': [257, 258], 'labels': [-100, 258]}

    Args:
        conversations: each has "messages", a list of "role" (user, assistant, observation, function) and "content",
            and perhaps "system" and "tools" (JSON); as `align_chat` returns them.
        tokenizer: a tokenizer, or the path or URI of one.
        template: a name (llama3, chatml, qwen, qwen3, mistral, gemma, deepseek3, alpaca, default, ...) or a YAML file.
        sequence_length: ids of a row, at most; of longer ones each question and answer keeps its share. Rows are not
            padded. `encode-chat` has 2,048 by default, as LLaMA-Factory.
        train_on_prompt: whether questions are learned too.
        mask_history: whether only the last answer is learned; the last turns are kept first then.
        default_system: the system text of conversations without one, in place of the template's.
        enable_thinking: of templates for reasoning, where an answer has no thought: True: an empty one is learned;
            None: it is masked; False: it is masked, and thoughts are removed from all answers.
        preserve_thinking: whether `mask_history` keeps thoughts of earlier answers.
        special_tokens_in_messages: what special tokens that a message contains become: "text"; "tokens", as in
            LLaMA-Factory; or "refuse". They are counted in a warning.
        date: what Llama 3's description of tools names as today, such as "26 Jul 2024"; "today": the current date.

    Returns:
        An iterator of "input_ids" and "labels" (-100: not learned); nothing for conversations that are not pairs of a
        question and an answer. At its end it logs a warning with what was dropped or altered.

    Raises:
        UsageError: the template is unknown or has marks that the tokenizer lacks, or options exclude each other.
        SpecialTokenError: a message contains a special token, which is refused.
        InputError: a conversation is none, or calls tools as OpenAI's messages do, unread by `align_chat`.
    """
    if isinstance(conversations, str | bytes | Mapping) or not isinstance(conversations, Iterable):
        raise unfit("conversations", _CONVERSATIONS, conversations)
    given = {
        "sequence_length": sequence_length,
        "train_on_prompt": train_on_prompt,
        "mask_history": mask_history,
        "default_system": default_system,
        "enable_thinking": "null" if enable_thinking is None else enable_thinking,
        "preserve_thinking": preserve_thinking,
        "date": date,
        "special_tokens_in_messages": special_tokens_in_messages,
    }
    options = make_options(ChatOptions, given, str)
    settings = settings_of(options, options.sequence_length or 4096, date_of(options.date))
    found, model = template_named(template), model_of(tokenizer, conversations)
    require_marks(found, model)
    return _rows(ChatEncoder(found, model, settings), conversations)


def _rows(encoder: "ChatEncoder", conversations: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, list[int]]]:
    tally = Tally()
    for number, conversation in enumerate(conversations):
        if not isinstance(conversation, Mapping) or not isinstance(conversation.get("messages", ()), Sequence):
            raise unfit("conversations", _CONVERSATIONS, conversation)
        if _calls_unread(conversation):
            raise unfit("conversations", _ALIGNED, conversation)
        row = None
        with encoder.noting(tally, f"conversation {number}"):
            row = encoder.encode(conversation)
        if row is not None:
            ids, labels = (array("i", column).tolist() for column in row)
            yield {"input_ids": ids, "labels": labels}
    for one in in_words(tally.found):
        _log.warning("encode_chat: %s", one)


def _calls_unread(conversation: Mapping[str, Any]) -> bool:
    """Return whether a conversation has tools, or calls of them, as OpenAI's messages have: they would be lost."""
    calls = ("tool_calls", "function_call")
    messages = (message for message in conversation.get("messages", ()) if isinstance(message, Mapping))
    called = any(message.get(name) for message in messages for name in calls)
    return called or not isinstance(conversation.get("tools"), str | None)
