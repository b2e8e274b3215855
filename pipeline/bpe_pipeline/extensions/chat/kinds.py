"""Why conversations are dropped or altered: the kinds that tallies have, and their words."""

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
