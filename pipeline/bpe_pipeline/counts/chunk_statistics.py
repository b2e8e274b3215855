"""What reading a chunk found, as its counter file stores it; added together, what counting found in a corpus."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import add
from typing import TYPE_CHECKING, Any

from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.corpus.skipped_or_altered import SkippedOrAltered, Tallies, add_up

if TYPE_CHECKING:
    from bpe_pipeline.run.texts import MixedText


@dataclass(frozen=True, kw_only=True)
class ChunkStatistics:
    """Numbers of what was read. The fields' names are those in counter files.

    counted_bytes: of all pre-tokens of the counter, each as often as it occurs, as `write_counter` adds them up.
    files: of a counter without a corpus listing, 0 where a manifest lists the files. Of encoding: text_tokens,
    text_bytes: as `TextEncoder.text_stretches` has them, without special tokens; special_found: how often the text has
    each of these, and special_in_text: how often where it is not the separator between documents. looks_special: how
    often ordinary text has well-known special tokens, in the first bytes of each chunk, `searched_bytes` together.
    left_out, cut: documents, bytes and characters, as in `NotTaken`.
    concerned_characters: in order; Unicode versions disagree on them, and the pattern ran on the `regex` package.
    """

    bytes: int = 0
    counted_bytes: int = 0
    documents: int = 0
    pre_tokens: int = 0
    special_tokens: int = 0
    files: int = 0
    searched_bytes: int = 0
    text_tokens: int = 0
    text_bytes: int = 0
    losses: Tallies = field(default_factory=dict)
    special_found: Mapping[str, int] = field(default_factory=dict)
    special_in_text: Mapping[str, int] = field(default_factory=dict)
    looks_special: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[int, int, int] = (0, 0, 0)
    cut: tuple[int, int, int] = (0, 0, 0)
    concerned_characters: str = ""

    @property
    def not_taken(self) -> "NotTaken":
        """What was left out because it was asked for."""
        return NotTaken(*self.left_out, *self.cut)

    def special_text(self, done: str) -> str:
        """Say what looks like special tokens and was "counted" or "encoded" as text."""
        shown = most_frequent(self.looks_special)
        part = f" (in {format_bytes(self.searched_bytes)} of {format_bytes(self.bytes)} that were searched)"
        where = part if self.searched_bytes < self.bytes else ""
        return f"the corpus has what looks like special tokens, and they were {done} as text: {shown}{where}"

    def __add__(self, other: "ChunkStatistics") -> "ChunkStatistics":
        """Add another chunk, which comes later in the corpus: its examples of losses follow."""
        names = [one.name for one in fields(self) if one.name != "losses"]  # not `vars`: what is read has no defaults
        sums = {name: _added(getattr(self, name), getattr(other, name)) for name in names}
        return ChunkStatistics(**sums, losses=add_up([self.losses, other.losses]))


def _added(value: Any, other: Any) -> Any:
    """Return the sum of two numbers, counts, tuples of numbers, or sets of characters."""
    if isinstance(value, str):
        return "".join(sorted({*value, *other}))
    if isinstance(value, tuple):
        return tuple(map(add, value, other))
    # Not `Mapping`: from a moment on in which another thread imports an abstract class, a number may count as one.
    return dict(Counter(value) + Counter(other)) if isinstance(value, dict) else value + other


@dataclass(frozen=True)
class NotTaken:
    """Text that was left out because `--sample` or `--max-document-chars` says so, in plain numbers.

    left_out_documents: those that are not in the sample; cut_documents: those of which only the first characters are.
    """

    left_out_documents: int = 0
    left_out_bytes: int = 0
    left_out_characters: int = 0
    cut_documents: int = 0
    cut_bytes: int = 0
    cut_characters: int = 0

    def __str__(self) -> str:
        documents = (
            (self.left_out_documents, "not in the sample"),
            (self.cut_documents, "truncated at --max-document-chars"),
        )
        text = ((self.left_out_bytes, self.left_out_characters), (self.cut_bytes, self.cut_characters))
        return "; ".join(
            f"{format_count(count, 'documents')} {how} ({format_bytes(size)}, {format_count(length, 'characters')})"
            for (count, how), (size, length) in zip(documents, text, strict=True)
            if count
        )


def most_frequent(counts: Mapping[str, int]) -> str:
    """Say how often the most frequent texts occur: `'<|a|>' 3 times, '<|b|>' 2 times`."""
    most = sorted(counts, key=lambda text: -counts[text])
    return ", ".join(f"{text!r} {format_count(counts[text], 'times')}" for text in most[:8]) + ", ..." * (len(most) > 8)


@dataclass(frozen=True)
class CorpusFacts:
    """Sums over all chunks of a corpus, as plain numbers for the summary and the report."""

    files: int
    bytes: int
    documents: int
    pre_tokens: int
    different_pre_tokens: int
    losses: tuple[SkippedOrAltered, ...] = ()  # skipped or altered input
    concerned_characters: str = ""  # characters of the corpus that `regex` and the runtimes classify differently
    source: str = ""  # where the counts come from, if no corpus was listed
    weights: str = ""  # of inputs whose counts were multiplied, with their names
    weighted: bool = False  # whether any counts were, so that they are not occurrences
    not_taken: NotTaken = NotTaken()
    mixture: str = ""  # what made the weights: a temperature, shares
    texts: "tuple[MixedText, ...]" = ()  # the inputs or runs that have them

    def newer_characters(self) -> str:
        """Say which characters Unicode versions disagree on; empty if there are none."""
        codes = " ".join(f"U+{ord(character):04X}" for character in self.concerned_characters[:8])
        return codes and f"{len(self.concerned_characters)} that runtimes classify differently: {codes}"
