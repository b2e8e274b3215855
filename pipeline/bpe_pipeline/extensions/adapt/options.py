"""What `extend` and `prune` take."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run.ids import MAX_IDS
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import OutputOptions, TokenizerOptions, VocabularyOptions
from bpe_pipeline.run.record import argument, but, flag
from bpe_pipeline.run.values import parse_share
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

    output: Location | None = but(OutputOptions.output, help=_OUTPUT)
    min_frequency: int | None = but(VocabularyOptions.min_frequency, default=None,
        help="merge no pair that occurs fewer times than this; default: 2, for imported counts 1")
    whole_characters: bool = VocabularyOptions.whole_characters
    added_special_tokens: tuple[str, ...] = TokenizerOptions.added_special_tokens
    base: Location = argument("BASE", _BASE)
    run: Location = argument("RUN", "a run whose pre-tokens were split as the tokenizer splits")
    add: int | None = flag(None, "number of new tokens; with --stop-at-saving the most, default: 64000", "N",
        read=parse_whole_number(0, MAX_IDS))
    first_id: int | None = flag(None, "the first new id; default: one more than the largest of BASE", "N",
        read=parse_whole_number(0, MAX_IDS))
    stop_at_saving: float | None = flag(None,
        "stop when doubling the new tokens saves less than this in every input, such as 1%", "SHARE",
        read=parse_share)
    dry_run: bool = flag(False, "print how many tokens each number of new ones saves, and stop", command_only=True)


class PruneOptions(OutputOptions):
    """What `prune` takes."""

    output: Location | None = but(OutputOptions.output, help=_OUTPUT)
    base: Location = argument("BASE", _BASE)
    run: Location | None = argument("[RUN]", "a run; without one, the tokens that were merged last go", None)
    keep: int | None = flag(None, "how many tokens stay, special tokens included", "N",
        read=parse_whole_number(1, MAX_IDS))
    min_count: int | None = flag(None, "instead of --keep: remove tokens that are used less often", "N",
        read=parse_whole_number(1, MAX_IDS))
    protect: Location | None = flag((), "tokens that stay, one per line, as in vocab.json", "FILE",
        read=parse_protected, keyword=AnyPath | Sequence[str | bytes])
    keep_ids: bool = flag(False, "leave gaps where tokens were, so that no id moves")
# fmt: on
