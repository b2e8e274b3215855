"""MergeRules: which merges are right, whatever way they are found; tasks carry it, and the core takes it whole."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from bpe_pipeline import _core

if TYPE_CHECKING:
    from bpe_pipeline.run.options import TrainOptions, Values


@dataclass(frozen=True)
class MergeRules:
    """What may be merged, and what is merged first. The core reads it by the names of its fields.

    A field that is an option has the name of that option.
    """

    min_frequency: int = 1  # pairs that occur less often are not merged
    min_pre_token_count: int = 1  # pre-tokens that occur less often are left out
    max_token_bytes: int | None = None
    whole_characters: bool = False  # tokens are characters of UTF-8, or the beginning of one
    tie_break: str = "lowest-ids"
    max_words: int = 0  # in a token that the merges known before do not make; 0: any number
    no_colon: bool = False  # in such a token, with a space after it

    @classmethod
    def of(cls, options: "Values") -> "MergeRules":
        """Return the rules by which pre-tokens are merged."""
        return cls.among(options.values)

    @classmethod
    def among(cls, values: Mapping[str, Any]) -> "MergeRules":
        """Return the rules among values by name; the others are the default."""
        return cls(**{rule.name: values[rule.name] for rule in fields(cls) if rule.name in values})

    @classmethod
    def of_superwords(cls, options: "TrainOptions") -> "MergeRules":
        """Return the rules of the second stage of superwords."""
        return replace(cls.of(options), max_words=options.most_words, no_colon=not options.superword_colon)


def require_obeyed(obeyed: Iterable[str]) -> None:
    """Raise `ImportError` if the core's engine does not obey the rules that `MergeRules` has, all of them."""
    if differing := {rule.name for rule in fields(MergeRules)} ^ set(obeyed):
        raise ImportError(f"MergeRules and the core differ in {', '.join(sorted(differing))}; install again")


require_obeyed(_core.engine_rules())
