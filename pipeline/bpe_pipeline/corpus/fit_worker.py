"""Whether a pattern fits a corpus: how much of a sample is in long pre-tokens, or in stretches that it does not match.

Runs in a worker where reading or cutting takes memory.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.corpus.sampling import Chosen, read_chosen
from bpe_pipeline.pattern.by_regex import cut_with_regex
from bpe_pipeline.pattern.compiled import CompiledPattern, PatternSequence
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.translate import leaves_text

_READ_BYTES = 16 << 20  # of memory, at most
LONG_BYTES = 100  # of a pre-token
LEAST_SAMPLE_BYTES = 4096
_TIMEOUT_S = 2  # of `regex`: no more than a sample is worth
_MEMORY_BYTES = 32 << 20  # of `regex`, likewise


@dataclass(frozen=True)
class SampleTask:
    """A pattern, and the sample to try it on."""

    pattern: CompiledPattern
    chosen: Sequence[Chosen]
    text_field: str

    def __str__(self) -> str:
        return "trying the pattern on a sample"


def misfit_of(task: SampleTask) -> list[str]:
    """Say with numbers how the pattern does not fit the sample, as `misfit` does."""
    drawn = read_chosen(task.chosen, task.text_field, most_bytes=_READ_BYTES)
    return misfit(task.pattern, [sample.text for sample in drawn])


def misfit(pattern: CompiledPattern, texts: Sequence[str]) -> list[str]:
    """Say with numbers if most of the texts is in long pre-tokens or in stretches without a match; [] if it is not.

    A smaller sample than LEAST_SAMPLE_BYTES shows nothing, nor does one that `regex` cannot cut in seconds. A stretch
    is noticed if it has two characters or more.
    """
    whole = long = longest = unmatched = 0
    try:
        # It cuts an unmatched stretch into characters, and everything else as the pattern does.
        characters = compile_pattern(rf"(?:{pattern.expression})|(?s:.)") if leaves_text(pattern) else None
        for text in texts:
            ends = _ends(pattern, text)
            finer = _ends(characters, text) if characters else ends
            for start, stop in pairwise([0, *ends]):
                whole += stop - start
                longest = max(longest, stop - start)
                long += (stop - start) * (stop - start > LONG_BYTES)
                unmatched += (stop - start) * (finer[bisect_right(finer, start)] < stop)
    except PipelineError:
        return []
    misfits = []
    if long * 2 > whole >= LEAST_SAMPLE_BYTES:
        misfits.append(f"in pre-tokens longer than {LONG_BYTES} bytes, the longest of {longest:,}: {long:,} bytes")
    if unmatched * 2 > whole >= LEAST_SAMPLE_BYTES:
        misfits.append(
            f"in stretches that the pattern does not match, each of which is a pre-token: {unmatched:,} bytes"
        )
    return [f"of a sample of {whole:,} bytes of the corpus most is {reason}; is --pattern right?" for reason in misfits]


def _ends(pattern: CompiledPattern, text: str) -> list[int]:
    if pattern.automaton is not None:
        return pattern.automaton.cut(text.encode())
    if isinstance(pattern, PatternSequence):
        return pattern.ends(text.encode())
    pre_tokens = cut_with_regex(pattern.expression, text, _TIMEOUT_S, _MEMORY_BYTES)
    return list(accumulate(len(pre_token.encode()) for pre_token in pre_tokens))
