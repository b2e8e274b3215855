"""Measure one vocabulary of a sweep in a worker: on the counter of each source, exactly, and on held-out text."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.corpus.sampling import Chosen, read_chosen
from pipeline.counts.counter_file import open_counter
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
    """A merge list to be cut to one size. held_out: name and stretches of each file."""

    trained: Trained
    vocab_size: int
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


def measure_size(task: SweepTask) -> tuple[int, tuple[Measured, ...]]:
    """Return the size of the vocabulary and its measures; raises `InputError` for held-out text that cannot be read."""
    model = task.trained.model(task.vocab_size)
    found = [Measured("source", one.name, one.bytes, _tokens_of(model, one)) for one in task.sources]
    tokenizer = Tokenizer.from_model(model)
    for name, chosen in task.held_out:
        texts = [drawn.text for drawn in read_chosen(chosen, "text", skip_changed=False)]
        sizes = sum(len(text.encode()) for text in texts)
        found.append(Measured("held out", name, sizes, sum(map(tokenizer.count_tokens, texts))))
    return model.vocabulary.size, tuple(found)


def _tokens_of(model: Model, source: SourceCounter) -> int:
    with open_counter(source.path, fingerprint=source.fingerprint) as counter:
        return sum(model.uses(counter.read_all()))
