"""Measure a mixture of a sweep in a worker: on the counter of each source, exactly, and on held-out text.

Everything is encoded once, with the largest vocabulary. A smaller one lacks the last merges, so a token that they made
is as many tokens in it as their parts.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add as plus
from operator import gt, mul

from bpe_pipeline.corpus.sampling import Chosen, read_chosen
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.merges.merge_list import rare_share
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.encode import TextEncoder
from bpe_pipeline.tokenizer.export import Trained
from bpe_pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class SweepTask:
    """A merge list to be measured at some sizes. runs: names of the sources in the mixture that it was learned from.

    sources: name, counter and its fingerprint of each run; files: name, kind and stretches of each that is measured.
    """

    trained: Trained
    sizes: Sequence[int]
    mixture: str
    runs: Collection[str]
    sources: Sequence[tuple[str, Location, str]]
    files: Sequence[tuple[str, str, Sequence[Chosen]]]

    def __str__(self) -> str:
        return f"measuring {self.mixture}"


@dataclass(frozen=True)
class Measured:
    """Text of one kind: its bytes, and its tokens. kind: "mixture" (what was learned from), "source", "held out" (a
    file that is not in a run's list) or "counted" (one that is).
    """

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
    """A vocabulary of a mixture. vocab_size: as asked for; size: what it has; rare_merges: the share of its
    merges that occur fewer than 20 times in the text itself, without weights."""

    mixture: str
    vocab_size: int
    size: int
    rare_merges: float
    measured: tuple[Measured, ...]


def measure(task: SweepTask) -> list[Point]:
    """Measure each size; raises `InputError` for text that cannot be read."""
    trained, points = task.trained, dict[int, Point]()
    drawn = ((kind, name, read_chosen(chosen, "text", skip_changed=False)) for name, kind, chosen in task.files)
    texts = [(kind, name, [one.text for one in found]) for kind, name, found in drawn]
    models = {size: trained.model(size) for size in task.sizes}
    sizes_with = defaultdict[tuple[str, ...], list[int]](list)
    for size, model in models.items():  # rounded sizes have more or fewer reserved tokens, which the texts may hold
        sizes_with[tuple(model.vocabulary.special_tokens)].append(size)
    for sizes in sizes_with.values():
        merges = {size: len(trained.merges(size)) for size in sizes}
        measured, occurrences = _measure(task, texts, models[max(sizes)], {*merges.values()})
        for size, most in merges.items():
            rare = rare_share(occurrences[:most])
            points[size] = Point(task.mixture, size, models[size].vocabulary.size, rare, tuple(measured[most]))
    report_progress(len(points))
    return [points[size] for size in task.sizes]


def _measure(
    task: SweepTask, texts: Sequence[tuple[str, str, list[str]]], model: Model, numbers: Collection[int]
) -> tuple[Mapping[int, list[Measured]], list[int]]:
    """Return what is measured with the first merges, by their numbers, and how often each merge occurs in the text of
    the mixture. model: has all merges."""
    vocabulary, learned, encoder = model.vocabulary, task.trained.learned, TextEncoder(model)
    parts = {number: vocabulary.parts(partial(gt, number)) for number in numbers}
    found = {
        number: [Measured("mixture", task.mixture, learned.bytes, learned.first(number).tokens)] for number in numbers
    }

    def add(kind: str, name: str, size: int, uses: Sequence[int]) -> None:
        for number, of in parts.items():
            found[number].append(Measured(kind, name, size, sum(map(mul, uses, of))))

    of_mixture = [0] * (vocabulary.max_id + 1)
    for name, path, mark in task.sources:
        with open_counter(path, fingerprint=mark) as counter:
            uses = model.uses(counter.read_all())
        if name in task.runs:
            of_mixture = list(map(plus, of_mixture, uses))
        add("source", name, sum(len(token) * uses[id_] for id_, token in vocabulary.tokens.items()), uses)
    for kind, name, documents in texts:
        stretches = [stretch for text in documents for stretch in encoder.text_stretches(text)]
        times = Counter(id_ for ids, _ in stretches for id_ in ids)
        size = sum(len(text) for _, text in stretches)
        add(kind, name, size, [times[id_] for id_ in range(vocabulary.max_id + 1)])
    return found, vocabulary.occurrences(of_mixture)
