"""Measure a mixture of a sweep in a worker: on the counter of each source, exactly, and on held-out text.

Everything is encoded once, with the largest vocabulary. The tokens say how often each merge was applied, and a smaller
vocabulary lacks the last merges: it has one token more for each time that one of these was applied.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from pipeline.corpus.sampling import Chosen, read_chosen
from pipeline.counts.counter_file import open_counter
from pipeline.executors.worker import report_progress
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
    """A merge list to be cut to some sizes. weights: of the sources that it was learned from, if from all
    of their chunks; held_out: name and stretches of each file."""

    trained: Trained
    sizes: Sequence[int]
    mixture: str
    weights: Mapping[str, Fraction]
    sources: Sequence[SourceCounter]
    held_out: Sequence[tuple[str, Sequence[Chosen]]]

    def __str__(self) -> str:
        return f"measuring {self.mixture}"


@dataclass(frozen=True)
class Measured:
    """Text of one kind: its bytes, and its tokens. kind: "mixture" (what was learned from), "source" or "held out"."""

    kind: str
    name: str
    bytes: int
    tokens: int

    @property
    def bytes_per_token(self) -> float | None:
        """None of a text without tokens."""
        return self.bytes / self.tokens if self.tokens else None


@dataclass(frozen=True)
class Point:
    """A vocabulary of a mixture. vocab_size: as asked for; size: what it has; last_count: of the pair merged last."""

    mixture: str
    vocab_size: int
    size: int
    last_count: int
    measured: tuple[Measured, ...]


_Tokens = Mapping[int, int]  # merges that a vocabulary has -> tokens that some text has with it


def measure(task: SweepTask) -> list[Point]:
    """Measure each size; raises `InputError` for held-out text that cannot be read."""
    trained, texts = task.trained, [(name, _texts(chosen)) for name, chosen in task.held_out]
    alike: defaultdict[tuple[str, ...], dict[int, Model]] = defaultdict(dict)
    for size in task.sizes:  # rounded sizes have more or fewer reserved tokens, which held-out text may hold
        model = trained.model(size)
        alike[tuple(model.vocabulary.special_tokens)][size] = model
    points = {}
    for models in alike.values():
        of_kinds = _measure(task, texts, models)
        for size, model in models.items():
            merges = trained.options.special.merge_budget(size)
            counts = trained.learned.counts[:merges]
            found = tuple(Measured(kind, name, text_bytes, of[merges]) for kind, name, text_bytes, of in of_kinds)
            points[size] = Point(task.mixture, size, model.vocabulary.size, counts[-1] if counts else 0, found)
    report_progress(len(points))
    return [points[size] for size in task.sizes]


def _texts(chosen: Sequence[Chosen]) -> list[str]:
    return [drawn.text for drawn in read_chosen(chosen, "text", skip_changed=False)]


def _measure(
    task: SweepTask, texts: Sequence[tuple[str, list[str]]], models: Mapping[int, Model]
) -> list[tuple[str, str, int, _Tokens]]:
    """Return kind, name, bytes and tokens of everything that is measured."""
    budgets = {size: task.trained.options.special.merge_budget(size) for size in models}
    largest, wanted = models[max(budgets, key=budgets.__getitem__)], sorted(budgets.values())
    learned = task.trained.learned
    own: _Tokens = {merges: learned.first(merges).tokens for merges in wanted}
    sources = _tokens_by_source(task, largest, own)
    found: list[tuple[str, str, int, _Tokens]] = [("mixture", task.mixture, learned.bytes, own)]
    found += [("source", one.name, one.bytes, sources[one.name]) for one in task.sources]
    tokenizer = Tokenizer.from_model(largest)
    for name, listed in texts:
        uses: Counter[int] = Counter()
        for text in listed:
            uses.update(tokenizer.encode(text))
        found.append(("held out", name, sum(len(text.encode()) for text in listed), _tokens(uses, largest, wanted)))
    return found


def _tokens(uses: Mapping[int, int], model: Model, wanted: Sequence[int]) -> _Tokens:
    """Return the tokens that a text has after these numbers of merges. uses: of each token after all of the model's."""
    result = model.vocabulary.result
    times = defaultdict(int, uses)
    for rank in range(len(result) - 1, -1, -1):
        if applied := times[result[rank]]:
            times[model.vocabulary.left[rank]] += applied
            times[model.vocabulary.right[rank]] += applied
    undone = [*accumulate((times[id_] for id_ in reversed(result)), initial=sum(uses.values()))]
    return {merges: undone[max(len(result) - merges, 0)] for merges in wanted}


def _tokens_by_source(task: SweepTask, model: Model, own: _Tokens) -> dict[str, _Tokens]:
    """Count each source's tokens; those of the largest follow from the mixture's, where weights are whole numbers.

    Then no count was rounded, so the mixture's tokens, which the merges' counts say, are the weighted sum of them all.
    """
    rounded = any(weight.denominator > 1 for weight in task.weights.values())
    if not task.weights or rounded or task.trained.learned.left_out_pieces:
        return {one.name: _tokens_of(model, one, list(own)) for one in task.sources}
    mixed = [one for one in task.sources if one.name in task.weights]
    largest = max(mixed, key=lambda one: one.bytes)
    tokens = {one.name: _tokens_of(model, one, list(own)) for one in task.sources if one is not largest}
    others = [(int(task.weights[one.name]), tokens[one.name]) for one in mixed if one is not largest]
    weight = int(task.weights[largest.name])
    tokens[largest.name] = {
        merges: (total - sum(by * of[merges] for by, of in others)) // weight for merges, total in own.items()
    }
    return tokens


def _tokens_of(model: Model, source: SourceCounter, wanted: Sequence[int]) -> _Tokens:
    with open_counter(source.path, fingerprint=source.fingerprint) as counter:
        return _tokens(dict(enumerate(model.uses(counter.read_all()))), model, wanted)
