"""How a pattern fits the pre-tokens of a counter, in a worker process: a coarser one cuts between them, not inside."""

from dataclasses import dataclass
from itertools import pairwise

from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.storage import Location

_MOST_ROWS = 20_000  # in order of a hash, so a sample; of different pre-tokens


@dataclass(frozen=True)
class SplitTask:
    """A counter of pre-tokens, and the pattern that should be coarser than theirs."""

    counter: Location
    fingerprint: str
    pattern: CompiledPattern

    def __str__(self) -> str:
        return f"looking at the pre-tokens of {self.counter}"


def pre_tokens_cut(task: SplitTask) -> tuple[float, str]:
    """Return the share of different pre-tokens that the pattern would cut, and an example."""
    with open_counter(task.counter, fingerprint=task.fingerprint) as counter:
        columns = counter.read(0)
    ends, data = memoryview(columns[0]).cast("B").cast("q")[: _MOST_ROWS + 1], bytes(columns[1])
    texts = (data[start:end].decode(errors="replace") for start, end in pairwise(ends))
    cut = [text for text in texts if len(task.pattern.cut(text)) > 1]
    return len(cut) / max(len(ends) - 1, 1), min(cut, key=len, default="")
