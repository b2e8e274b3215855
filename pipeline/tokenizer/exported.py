"""What an export of a trained tokenizer reports: facts about its vocabulary, and the files."""

from dataclasses import dataclass

from pipeline.storage import Location


@dataclass(frozen=True)
class VocabularyFacts:
    """The result of merging. `tokens` and `bytes` are the lengths of all pieces of the corpus."""

    vocab_size: int
    merges: int
    special_tokens: tuple[str, ...]
    stopped: str
    tokens: int
    bytes: int
    longest: tuple[str, ...]
    left_out_pieces: int = 0  # different ones, rarer than min_piece_count; not among `bytes`
    left_out_bytes: int = 0

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of merged pieces for each token of the training corpus; None where all pieces were too rare."""
        return self.bytes / self.tokens if self.tokens else None


@dataclass(frozen=True)
class Exported:
    """One tokenizer in its directory."""

    facts: VocabularyFacts
    directory: Location
    written: tuple[str, ...]  # names of files
    refused: dict[str, str]  # formats that could not be written, each with the reason
