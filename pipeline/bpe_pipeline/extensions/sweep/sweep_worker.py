"""Measure a mixture of a sweep in a worker: on the counter of each source, exactly, and on held-out text.

Everything is encoded once, with the largest vocabulary. A smaller one lacks the last merges, so a token that they made
is as many tokens in it as their parts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from operator import gt, mul

from bpe_pipeline.corpus.sampling import Chosen, read_chosen
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.encode import TextEncoder
from bpe_pipeline.tokenizer.export import Trained
from bpe_pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class SourceCounter:
    """A source of a sweep: its counter, and the bytes of all of its pre-tokens, with repetitions."""

    name: str
    path: Location
    fingerprint: str
    bytes: int


@dataclass(frozen=True)
class SweepTask:
    """A merge list to be cut to some sizes. weights: of the sources that it was learned from, if from all
    of their chunks; named: name, kind and stretches of each file that is measured too."""

    trained: Trained
    sizes: Sequence[int]
    mixture: str
    weights: Mapping[str, Fraction]
    sources: Sequence[SourceCounter]
    named: Sequence[tuple[str, str, Sequence[Chosen]]]

    def __str__(self) -> str:
        return f"measuring {self.mixture}"


@dataclass(frozen=True)
class Measured:
    """Text of one kind: its bytes, and its tokens. kind: "mixture" (what was learned from), "source", "held out" (a
    file that is not in a run's list) or "counted" (one that is). groups: tokens of a held-out file's documents, which
    take turns in at most 64 groups; none of a single document.
    """

    kind: str
    name: str
    bytes: int
    tokens: int
    groups: tuple[int, ...] = ()

    @property
    def bytes_per_token(self) -> float | None:
        """None of a text without tokens."""
        return self.bytes / self.tokens if self.tokens else None


@dataclass(frozen=True)
class Point:
    """A vocabulary of a mixture. vocab_size: as asked for; size: what it has; last_count: of the pair merged last, in
    the text itself: without weights."""

    mixture: str
    vocab_size: int
    size: int
    last_count: int
    measured: tuple[Measured, ...]

    def without_sources(self) -> "Point":
        """Return the point as texts alone measure it."""
        return replace(self, measured=tuple(text for text in self.measured if text.kind != "source"))


_GROUPS = 64
_Tokens = Mapping[int, int]  # merges that a vocabulary has -> tokens that some text has with it


def measure(task: SweepTask) -> list[Point]:
    """Measure each size; raises `InputError` for text that cannot be read."""
    trained = task.trained
    drawn = ((kind, name, read_chosen(chosen, "text", skip_changed=False)) for name, kind, chosen in task.named)
    texts = [(kind, name, [one.text for one in found]) for kind, name, found in drawn]
    models_with: defaultdict[tuple[str, ...], dict[int, Model]] = defaultdict(dict)
    for size in task.sizes:  # rounded sizes have more or fewer reserved tokens, which the texts may hold
        model = trained.model(size)
        models_with[tuple(model.vocabulary.special_tokens)][size] = model
    points = {}
    for models in models_with.values():
        of_merges = _measure(task, texts, models)
        for size, model in models.items():
            merges = trained.options.special.merge_budget(size)
            last_count = _last_count(task, merges, of_merges)
            points[size] = Point(task.mixture, size, model.vocabulary.size, last_count, tuple(of_merges[merges]))
    report_progress(len(points))
    return [points[size] for size in task.sizes]


def _last_count(task: SweepTask, merges: int, measured: Mapping[int, list[Measured]]) -> int:
    """Return how often the last of these merges joined a pair; with weights, by the tokens that it saves in texts."""
    counts = task.trained.learned.counts[:merges]
    if not counts or len(counts) - 1 not in measured:
        return counts[-1] if counts else 0
    before, after = (
        sum(one.tokens for one in measured[number] if one.kind == "source" and one.name in task.weights)
        for number in (len(counts) - 1, merges)
    )
    return before - after


def _measure(
    task: SweepTask, texts: Sequence[tuple[str, str, list[str]]], models: Mapping[int, Model]
) -> dict[int, list[Measured]]:
    """Return what is measured, by the number of merges."""
    budgets = {size: task.trained.options.special.merge_budget(size) for size in models}
    largest, learned = models[max(budgets, key=budgets.__getitem__)], task.trained.learned
    numbers = {*budgets.values()}
    if set(task.weights.values()) - {1}:  # what the last merge saves is how often it occurs in the text itself
        numbers |= {min(merges, len(learned)) - 1 for merges in numbers if min(merges, len(learned))}
    parts = {merges: largest.vocabulary.parts(partial(gt, merges)) for merges in numbers}
    own: _Tokens = {merges: learned.first(merges).tokens for merges in parts}
    sources = _tokens_by_source(task, largest, parts, own)
    encoder = TextEncoder(largest)
    found = {merges: [Measured("mixture", task.mixture, learned.bytes, own[merges])] for merges in parts}
    for merges, listed in found.items():
        listed += [
            Measured("source", source.name, source.bytes, sources[source.name][merges]) for source in task.sources
        ]
    for kind, name, several in texts:
        documents = [found for text in several for found in encoder.text_stretches(text)]
        groups = [
            [id_ for ids, _ in documents[at::_GROUPS] for id_ in ids] for at in range(min(_GROUPS, len(documents)))
        ]
        size = sum(len(text) for _, text in documents)
        for merges, of in parts.items():
            tokens = tuple(sum(map(of.__getitem__, ids)) for ids in groups)
            alone = kind != "held out" or len(tokens) == 1
            found[merges].append(Measured(kind, name, size, sum(tokens), () if alone else tokens))
    return found


def _tokens_by_source(
    task: SweepTask, model: Model, parts: Mapping[int, Sequence[int]], own: _Tokens
) -> dict[str, _Tokens]:
    """Count each source's tokens; those of the largest follow from the mixture's, where weights are whole numbers.

    Then no count was rounded, so the mixture's tokens, which the merges' counts say, are the weighted sum of them all.
    """
    rounded = any(weight.denominator > 1 for weight in task.weights.values())
    if not task.weights or rounded or task.trained.learned.left_out_pre_tokens:
        return {source.name: _tokens_of(model, source, parts) for source in task.sources}
    mixed = [source for source in task.sources if source.name in task.weights]
    largest = max(mixed, key=lambda one: one.bytes)
    tokens = {source.name: _tokens_of(model, source, parts) for source in task.sources if source is not largest}
    others = [(int(task.weights[one.name]), tokens[one.name]) for one in mixed if one is not largest]
    weight = int(task.weights[largest.name])
    tokens[largest.name] = {
        merges: (total - sum(by * of[merges] for by, of in others)) // weight for merges, total in own.items()
    }
    return tokens


def _tokens_of(model: Model, source: SourceCounter, parts: Mapping[int, Sequence[int]]) -> _Tokens:
    with open_counter(source.path, fingerprint=source.fingerprint) as counter:
        uses = model.uses(counter.read_all())
    return {merges: sum(map(mul, uses, of)) for merges, of in parts.items()}
