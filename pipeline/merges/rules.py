"""MergeRules: which merges are right, whatever way they are found; tasks carry it, and the core takes it whole."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.run.options import TrainOptions


@dataclass(frozen=True)
class MergeRules:
    """What may be merged, and what is merged first. The core reads it by the names of its fields."""

    min_frequency: int = 1  # pairs that occur less often are not merged
    min_piece_count: int = 1  # pieces that occur less often are left out
    max_token_bytes: int | None = None
    whole_characters: bool = False  # tokens are characters of UTF-8, or the beginning of one
    tie_break: str = "lowest-ids"
    max_words: int = 0  # in a token that the merges known before do not make; 0: any number
    no_colon: bool = False  # in such a token, with a space after it

    @classmethod
    def of(cls, options: "TrainOptions") -> "MergeRules":
        """Return the rules by which a run's pieces are merged, or in the first stage of superwords."""
        return cls(
            min_frequency=options.min_frequency,
            min_piece_count=options.min_piece_count,
            max_token_bytes=options.max_token_bytes,
            whole_characters=options.whole_characters,
            tie_break=options.tie_break,
        )

    @classmethod
    def of_superwords(cls, options: "TrainOptions", scale: int) -> "MergeRules":
        """Return the rules of their second stage. scale: of the coarse counts, not 1 where runs are mixed."""
        return replace(
            cls.of(options),
            min_frequency=options.min_frequency * scale,
            min_piece_count=1,
            max_words=options.most_words,
            no_colon=not options.superword_colon,
        )
