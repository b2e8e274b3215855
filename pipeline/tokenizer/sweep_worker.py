"""Measure one vocabulary of a sweep in a worker: on the counter of each source, exactly, and on held-out text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipeline.corpus.sampling import Chosen, read_chosen
from pipeline.counts.counter_file import open_counter
from pipeline.merges.merge_list import MergeList
from pipeline.storage import Location
from pipeline.tokenizer.export import Trained
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class SourceCounter:
    """A source of a sweep: its counter, and the bytes of all of its pieces, with repetitions."""

    name: str
    path: Location
    fingerprint: str
    bytes: int


@dataclass(frozen=True)
class SweepTask:
    """A merge list to be cut to one size. weights: of the sources that it was learned from, if from all
    of their chunks; held_out: name and stretches of each file."""

    trained: Trained
    vocab_size: int
    mixture: str
    weights: Mapping[str, Fraction]
    sources: Sequence[SourceCounter]
    held_out: Sequence[tuple[str, Sequence[Chosen]]]

    def __str__(self) -> str:
        return f"measuring {self.vocab_size:,} tokens"


@dataclass(frozen=True)
class Measured:
    """Text of one kind: its bytes, and its tokens. kind: "mixture" (what was learned from), "source" or "held out"."""

    kind: str
    name: str
    bytes: int
    tokens: int


@dataclass(frozen=True)
class Point:
    """A vocabulary of a mixture. vocab_size: as asked for; size: what it has; last_count: of the pair merged last."""

    mixture: str
    vocab_size: int
    size: int
    last_count: int
    measured: tuple[Measured, ...]


def measure_size(task: SweepTask) -> Point:
    """Measure; raises `InputError` for held-out text that cannot be read."""
    trained = task.trained
    model = trained.model(task.vocab_size)
    learned = trained.learned.first(trained.options.special.merge_budget(task.vocab_size))
    tokens = _tokens_by_source(task, model, learned)
    found = [Measured("mixture", task.mixture, learned.bytes, learned.tokens)]
    found += [Measured("source", one.name, one.bytes, tokens[one.name]) for one in task.sources]
    tokenizer = Tokenizer.from_model(model)
    for name, chosen in task.held_out:
        texts = [drawn.text for drawn in read_chosen(chosen, "text", skip_changed=False)]
        sizes = sum(len(text.encode()) for text in texts)
        found.append(Measured("held out", name, sizes, sum(map(tokenizer.count_tokens, texts))))
    last_count = learned.counts[-1] if learned.counts else 0
    return Point(task.mixture, task.vocab_size, model.vocabulary.size, last_count, tuple(found))


def _tokens_by_source(task: SweepTask, model: Model, learned: MergeList) -> dict[str, int]:
    """Count each source's tokens; those of the largest follow from the mixture's, where weights are whole numbers.

    Then no count was rounded, so the mixture's tokens, which the merges' counts say, are the weighted sum of them all.
    """
    rounded = any(weight.denominator > 1 for weight in task.weights.values())
    if not task.weights or rounded or learned.left_out_pieces:
        return {one.name: _tokens_of(model, one) for one in task.sources}
    own = [one for one in task.sources if one.name in task.weights]
    largest = max(own, key=lambda one: one.bytes)
    tokens = {one.name: _tokens_of(model, one) for one in task.sources if one is not largest}
    others = sum(int(task.weights[one.name]) * tokens[one.name] for one in own if one is not largest)
    tokens[largest.name] = (learned.tokens - others) // int(task.weights[largest.name])
    return tokens


def _tokens_of(model: Model, source: SourceCounter) -> int:
    with open_counter(source.path, fingerprint=source.fingerprint) as counter:
        return sum(model.uses(counter.read_all()))
