"""What changes of a tokenizer share in a worker: their task, and what `verify` asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.base.memory import Grant
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.storage import Location, arrow_source, sealed_parquet
from bpe_pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class ChangeTask:
    """A counter with its fingerprint, if any, and the tokenizer to change. asked: as an origin has it."""

    counter: tuple[Location, str] | None
    model: Model
    asked: Mapping[str, Any]
    threads: int
    grant: Grant

    @property
    def counts(self) -> tuple[Location, str]:
        """The counter, of a change by one."""
        assert self.counter is not None
        return self.counter

    def __str__(self) -> str:
        return "changing a tokenizer" + (f" by {self.counter[0]}" if self.counter else "")


def same_rows(files: tuple[Location, Location]) -> bool:
    """Return whether two Parquet files have the same columns and rows: each release of Arrow writes other bytes."""
    import pyarrow.parquet as pq

    try:
        found, expected = (pq.read_table(arrow_source(file)) for file in files)
    except sealed_parquet.DAMAGE:
        return False
    return bool(found.equals(expected))


def tokens_by_merges(counter_and_model: tuple[Location, str, Model, Sequence[int]]) -> list[int]:
    """Return how many tokens all pre-tokens of a counter are with these numbers of first merges of the tokenizer."""
    path, fingerprint, model, numbers = counter_and_model
    with open_counter(path, fingerprint=fingerprint) as counter:
        made = model.uses(counter.read_all())  # each token, at last in others, too
    vocabulary, tokens = model.vocabulary, [sum(made)]
    for left, right, result in zip(*map(reversed, (vocabulary.left, vocabulary.right, vocabulary.result)), strict=True):
        times, made[result] = made[result], 0
        made[left] += times
        made[right] += times
        tokens.append(tokens[-1] + times)
    return [tokens[len(vocabulary.left) - number] for number in numbers]
