"""What `extend` and `prune` take."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.ids import MAX_IDS
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import OutputOptions, TokenizerOptions, VocabularyOptions
from bpe_pipeline.run.record import argument, as_in, flag
from bpe_pipeline.storage import Location, Remote, parse_location

_OUTPUT = "the directory of the new tokenizer, a path or a URI"
_BASE = "the tokenizer, as for `load`"


def parse_protected(value: object) -> Any:
    """Read a list of tokens, or the location of a file with one a line."""
    if isinstance(value, str | PathLike | Remote):
        return parse_location(value)
    if isinstance(value, bytes) or not isinstance(value, Sequence) or not {*map(type, value)} <= {str, bytes}:
        raise ValueError("a list of tokens, or a file with one per line")
    return value


# fmt: off
class ExtendOptions(OutputOptions):
    """What `extend` takes."""

    output: Location | None = as_in(OutputOptions, "output", help=_OUTPUT)
    min_frequency: int | None = as_in(VocabularyOptions, "min_frequency", default=None,
        help="merge no pair that occurs fewer times than this; default: 2, for imported counts 1")
    whole_characters: bool = as_in(VocabularyOptions, "whole_characters")
    added_special_tokens: tuple[str, ...] = as_in(TokenizerOptions, "added_special_tokens")
    base: Location = argument("BASE", parse_location, _BASE)
    run: Location = argument("RUN", parse_location, "a run whose pre-tokens were split as the tokenizer splits")
    add: int | None = flag(None, parse_whole_number(0, MAX_IDS),
        "number of new tokens; with --stop-at-saving the most, default: 64000", "N")
    first_id: int | None = flag(None, parse_whole_number(0, MAX_IDS),
        "the first new id; default: one more than the largest of BASE", "N")
    stop_at_saving: float | None = flag(None, read.parse_share,
        "stop when doubling the new tokens saves less than this in every input, such as 1%", "SHARE")
    dry_run: bool = flag(False, read.parse_flag, "print how many tokens each number of new ones saves, and stop",
        command_only=True)


class PruneOptions(OutputOptions):
    """What `prune` takes."""

    output: Location | None = as_in(OutputOptions, "output", help=_OUTPUT)
    base: Location = argument("BASE", parse_location, _BASE)
    run: Location | None = argument("[RUN]", parse_location,
        "a run; without one, the tokens that were merged last go", None)
    keep: int | None = flag(None, parse_whole_number(1, MAX_IDS), "how many tokens stay, special tokens included", "N")
    min_count: int | None = flag(None, parse_whole_number(1, MAX_IDS),
        "instead of --keep: remove tokens that are used less often", "N")
    protect: Location | None = flag((), parse_protected, "tokens that stay, one per line, as in vocab.json", "FILE",
        keyword=AnyPath | Sequence[str | bytes])
    keep_ids: bool = flag(False, read.parse_flag, "leave gaps where tokens were, so that no id moves")
# fmt: on
