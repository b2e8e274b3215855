"""What `extend` and `prune` take."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.ids import MAX_IDS
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import MergeOptions, OutputOptions, PartOptions, TokenizerOptions, VocabularyOptions
from bpe_pipeline.run.record import argument, as_in, flag
from bpe_pipeline.storage import Location, Remote, parse_location

_OUTPUT = "the directory of the new tokenizer, a path or a URI"
_BASE = "the tokenizer, as for `load`"


def parse_protected(value: object) -> Any:
    """Read a list of tokens, or the location of a file with one a line."""
    if isinstance(value, str | PathLike | Remote):
        return parse_location(value)
    if isinstance(value, bytes) or not isinstance(value, Sequence) or not {*map(type, value)} <= {str, bytes}:
        raise ValueError("a list of tokens, or a file with one a line")
    return value


def parse_scripts(value: object) -> tuple[str, ...]:
    """Read names of scripts, listed or with commas between them."""
    listed = value if isinstance(value, list | tuple) else [value]
    names = [name.strip() for one in listed for name in (one.split(",") if isinstance(one, str) else [""])]
    if not all(names):
        raise ValueError("names of scripts such as Hangul or Thai, with commas between them")
    return tuple(names)


# fmt: off
class ExtendOptions(OutputOptions):
    """How `extend` learns new tokens."""

    output: Location | None = as_in(OutputOptions, "output", help=_OUTPUT)
    min_frequency: int | None = as_in(VocabularyOptions, "min_frequency", default=None,
        help="merge no pair that occurs fewer times than this; default: 2, for imported counts 1")
    whole_characters: bool = as_in(VocabularyOptions, "whole_characters")
    superword_pattern: str | None = as_in(MergeOptions, "superword_pattern", default=None, advanced=False, shown="",
        help="let new tokens span several words: pattern in place of BASE's, superbpe, superbpe-digits, a regex; reads "
        "the texts of RUN again")
    superword_words: int | str = as_in(MergeOptions, "superword_words",
        help="most words that such a token spans; none: any number")
    superword_colon: bool = as_in(MergeOptions, "superword_colon")
    added_special_tokens: tuple[str, ...] = as_in(TokenizerOptions, "added_special_tokens")
    replace_scripts: tuple[str, ...] = flag((), parse_scripts,
        "give the ids of tokens with letters of these scripts, such as Hangul,Thai, to new tokens; default of --add: "
        "as many", "SCRIPT[,SCRIPT...]", keyword=str | Sequence[str])


class ExtendCommandOptions(ExtendOptions):
    """What `extend` takes."""

    base: Location = argument("BASE", parse_location, _BASE)
    run: Location = argument("RUN", parse_location, "a run whose pre-tokens were split as the tokenizer splits")
    part: str | None = as_in(PartOptions, "part",
        help="do the share of one of N processes in the second count for --superword-pattern; auto: by an array of "
        "Slurm or SGE; then the command without it does the rest")
    add: int | None = flag(None, parse_whole_number(0, MAX_IDS),
        "number of new tokens; with --stop-at-saving the most, default: 64000", "N")
    first_id: int | None = flag(None, parse_whole_number(0, MAX_IDS),
        "the first new id; default: one more than the largest of BASE", "N")
    stop_at_saving: float | None = flag(None, read.parse_share,
        "stop when doubling the new tokens saves less than this in every input, such as 1%", "SHARE")
    dry_run: bool = flag(False, read.parse_flag, "print how many tokens each number of new ones saves, and stop",
        command_only=True)
    html: Location | None = flag(None, parse_location, "with --dry-run: also write a page with a plot", "FILE",
        command_only=True)
    figures: Location | None = flag(None, parse_location, "with --dry-run: also write the plot as SVG, PDF and CSV",
        "DIR", command_only=True)


class PruneOptions(OutputOptions):
    """What `prune` takes."""

    output: Location | None = as_in(OutputOptions, "output", help=_OUTPUT)
    base: Location = argument("BASE", parse_location, _BASE)
    run: Location | None = argument("[RUN]", parse_location,
        "a run; without one, the tokens that were merged last go", None)
    keep: int | None = flag(None, parse_whole_number(1, MAX_IDS), "how many tokens stay, special tokens included", "N")
    min_count: int | None = flag(None, parse_whole_number(1, MAX_IDS),
        "instead of --keep: remove tokens that are used less often", "N")
    protect: Location | None = flag((), parse_protected, "tokens that stay, one a line, as in vocab.json", "FILE",
        keyword=AnyPath | Sequence[str | bytes])
    keep_ids: bool = flag(False, read.parse_flag, "leave gaps where tokens were, so that no id moves")
# fmt: on
