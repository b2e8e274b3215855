"""What changes of a tokenizer share in a worker: their task, and how many tokens a counter has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.base.memory import Grant
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.storage import Location
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
