"""Where answers are in the text of a chat template: where it marks them, or by the text of the messages before each."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from os.path import commonprefix
from typing import NamedTuple

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.extensions.chat.kinds import NOT_UNDERSTOOD, DroppedError
from bpe_pipeline.tokenizer.chat_templates import Message, RenderedDialog

Write = Callable[..., str]  # the text of messages, or of the prompt for an answer with add_generation_prompt
Wanted = Mapping[int, bool]  # whether an answer is trained on, by the number of its message


class Answer(NamedTuple):
    """Where an answer starts and stops in the text, and whether it is trained on."""

    start: int
    stop: int
    trained: bool


def marked_answers(rendered: RenderedDialog, write: Write, messages: Sequence[Message], wanted: Wanted) -> list[Answer]:
    """Return what a template marks. Raises `DroppedError` if it cannot be said which of it is not to be trained on."""
    left_out = []
    for number in (number for number, trained in wanted.items() if not trained):
        before, upto = (write(messages[:count]) if count else "" for count in (number, number + 1))
        if not rendered.text.startswith(upto) or not upto.startswith(before):
            raise DroppedError(NOT_UNDERSTOOD, "the template rewrites an answer that is marked")
        left_out.append((len(before), len(upto)))
    return [
        Answer(start, stop, not any(first <= start < last for first, last in left_out))
        for start, stop in rendered.generated
    ]


def answers_by_prefixes(text: str, write: Write, messages: Sequence[Message], wanted: Wanted) -> Iterator[Answer]:
    """Yield the answers that the text has as the template writes them when nothing follows.

    An answer starts where its prompt ends, and stops with the text of the messages up to it.
    """
    for number, trained in wanted.items():
        with contextlib.suppress(UsageError):  # a template may refuse a part of a dialog
            upto = write(messages[: number + 1])
            prompt = write(messages[:number], add_generation_prompt=True)
            if not text.startswith(upto):
                continue
            if upto.startswith(prompt):
                yield Answer(len(prompt), len(upto), trained)
                continue
            before = write(messages[:number]) if number else ""
            common = commonprefix((prompt, upto))  # noqa: RUF071 - no paths
            start = max(map(common.rfind, "> ]\n")) + 1  # without a thought that the prompt opens, or a part of a word
            if start > len(before) and upto.startswith(before):
                yield Answer(start, len(upto), trained)
