"""What `shards.json` stores of conversations: why they were dropped or altered, and how long they are."""

import itertools
from collections import Counter
from dataclasses import dataclass

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.skipped_or_altered import add_kinds

NOT_LISTED, UNKNOWN_ROLE = "conversations_not_listed", "conversations_of_unknown_role"
NOT_PAIRS, NO_TEXT = "conversations_dropped", "conversations_without_content"
MALFORMED_TOOLS, UNKNOWN_COLUMNS = "conversations_of_malformed_tools", "conversations_of_unknown_columns"
NOT_TRAINED_ON, NOT_UNDERSTOOD = "conversations_not_trained_on", "conversations_not_understood"
REFUSED, CUT = "conversations_refused", "conversations_cut"
NO_ANSWER, REWRITTEN = "answers_empty", "answers_rewritten"
SPECIAL_TOKENS = {"text": "special_tokens_as_text", "tokens": "special_tokens_in_messages"}  # by what they become

add_kinds(
    {
        NOT_LISTED: "conversations dropped: the messages are not a list of messages",
        UNKNOWN_ROLE: "conversations dropped: a message has an unknown role",
        NOT_PAIRS: "conversations dropped: not pairs of a question and an answer",
        NO_TEXT: "conversations dropped: a content is missing or not text",
        MALFORMED_TOOLS: "conversations dropped: tools, or calls of them, are malformed",
        UNKNOWN_COLUMNS: "conversations dropped: no messages, conversations, or instruction and output",
        NOT_TRAINED_ON: "conversations dropped: no answer is to be trained on",
        NOT_UNDERSTOOD: "conversations dropped: what changes how they are trained on is not understood",
        REFUSED: "conversations dropped: the chat template does not take them",
        CUT: "conversations truncated to the sequence length",
        NO_ANSWER: "empty answers trained on",
        REWRITTEN: "answers not trained on: the chat template rewrites them in later turns",
        SPECIAL_TOKENS["text"]: "special tokens in messages taken as text",
        SPECIAL_TOKENS["tokens"]: "special tokens in messages taken as special tokens",
    }
)


class DroppedError(InputError):
    """A row that is no conversation to train on. kind: why, of skipped or altered input; detail: for its location."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind, self.detail = kind, detail


@dataclass(frozen=True)
class Conversations:
    """The conversations by length, before some of them are held out.

    Dropped ones are left out. cut_off: tokens to which they are cut.
    lengths: tokens before the cut, rounded up to nine binary digits, and how many conversations have that many.
    """

    cut_off: int
    lengths: tuple[tuple[int, int], ...]

    @classmethod
    def counted(cls, cut_off: int, lengths: Counter[int]) -> "Conversations":
        """Return the conversations of these counts."""
        return cls(cut_off, tuple(sorted(lengths.items())))

    def __add__(self, other: "Conversations") -> "Conversations":
        """Add the conversations of another chunk, which are cut to the same length."""
        return self.counted(self.cut_off, Counter(dict(self.lengths)) + Counter(dict(other.lengths)))

    @property
    def count(self) -> int:
        """Number of conversations."""
        return sum(count for _, count in self.lengths)

    def longest(self, share: float) -> int:
        """Return the length that this share of them has at most."""
        ends = itertools.accumulate(count for _, count in self.lengths)
        return next(length for (length, _), end in zip(self.lengths, ends, strict=True) if end >= share * self.count)

    def cut_by(self, cut_off: int) -> tuple[int, float, float]:
        """Return how many of them a cutoff cuts, their share, and the share of the tokens that it leaves out."""
        over = [(length - cut_off, count) for length, count in self.lengths if length > cut_off]
        cut, tokens = sum(count for _, count in over), sum(length * count for length, count in self.lengths)
        return cut, cut / self.count, sum(more * count for more, count in over) / tokens

    def __str__(self) -> str:
        median, most, nearly_all = (f"{self.longest(share):,}" for share in (0.5, 0.9, 0.99))
        range_ = f"{self.count:,} of {self.lengths[0][0]:,} to {self.lengths[-1][0]:,} tokens"
        return f"{range_}: median {median}, 90th percentile {most}, 99th {nearly_all}"
