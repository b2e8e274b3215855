"""What a tokenizer is, apart from the machinery that runs it: the value that files are written from and read into."""

from dataclasses import dataclass

from pipeline import _core
from pipeline.errors import UsageError
from pipeline.pattern import CompiledPattern
from pipeline.vocabulary import Vocabulary

# Names that only this project's files use.
PATTERN_KEY = "bpe_pipeline_pattern"  # in tokenizer_config.json: a pattern without a name, as the user wrote it
REGEX_STAGE = "BpePipelineRegex"  # in tokenizer.json: a pre-tokenizer for a pattern that only the `regex` package runs


@dataclass(frozen=True)
class Model:
    """A vocabulary and the pattern that cuts text for it.

    pad_token: one of the special tokens, or None. whole_pieces: a piece that is itself a token is that token before
    any merge is tried (tiktoken's way; Hugging Face calls it `ignore_merges`); a trained vocabulary needs it not.
    trained: the merges are as they were learned, so that no token is unreachable.
    """

    vocabulary: Vocabulary
    pattern: CompiledPattern
    pad_token: str | None = None
    whole_pieces: bool = False
    trained: bool = False

    def __post_init__(self) -> None:
        if self.pad_token is not None and self.pad_token not in self.vocabulary.special_tokens:
            raise UsageError(f"the pad token {self.pad_token!r} is not one of the special tokens: name it among them")

    @property
    def eos_token(self) -> str | None:
        """The token that ends a document: the first special token that is not the pad token."""
        return next((text for text in self.vocabulary.special_tokens if text != self.pad_token), None)

    def encoder(self) -> _core.Encoder:
        """Build the native encoder; about 0.1 s for 256,000 tokens."""
        vocabulary = self.vocabulary
        return _core.Encoder(
            self.pattern.automaton,
            vocabulary.tokens,
            vocabulary.left,
            vocabulary.right,
            vocabulary.result,
            whole_pieces=self.whole_pieces,
        )

    def unreachable_tokens(self) -> list[int]:
        """Ids of the tokens that the merges alone do not make of their own bytes.

        A trained list has none, for each token was made of just these bytes, and what stands beside them is never
        joined across their ends before. So whole-piece lookup and merging by the rank of the resulting bytes, as in
        tiktoken, then change nothing. Telling takes a second for every few megabytes that the tokens have together.
        """
        if self.trained:
            return []
        return self.encoder().unreachable(self.vocabulary.tokens)
