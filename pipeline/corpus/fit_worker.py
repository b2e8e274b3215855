"""Whether a pattern fits a corpus, by a small sample of it. Runs in a worker where reading or cutting takes memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.corpus.sampling import Chosen, read_chosen
from pipeline.pattern.compiled import CompiledPattern
from pipeline.pattern.fit import misfit

_READ_BYTES = 16 << 20  # of memory, at most


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
    return misfit(task.pattern, [one.text for one in drawn])
