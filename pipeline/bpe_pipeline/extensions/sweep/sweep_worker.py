"""Measure a mixture of a sweep in a worker: on the counter of each source, exactly, and on held-out text.

Everything is encoded once, with the largest vocabulary. A smaller one lacks the last merges, so a token that they made
is as many tokens in it as their parts.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import gt, mul

from bpe_pipeline.corpus.sampling import Chosen, read_chosen
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.merges.merge_list import rare_share
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.encode import TextEncoder
from bpe_pipeline.tokenizer.export import Trained


@dataclass(frozen=True)
class SweepTask:
    """The merges of a mixture, to be measured at all sizes. runs: names of the sources that are in the mixture.

    sources: counter and its fingerprint of each run, by name; files: stretches of each that is held out, by name.
    """

    mixture: str
    trained: Trained
    runs: Collection[str]
    sources: Mapping[str, tuple[Location, str]]
    files: Mapping[str, Sequence[Chosen]]

    def __str__(self) -> str:
        return f"measuring {self.mixture}"


@dataclass(frozen=True)
class Measured:
    """A text in a vocabulary. kind: "source" or "held out"; bytes: without special tokens of the largest one."""

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
    trained, sizes, uses = task.trained, task.trained.options.vocab_size, dict[tuple[str, str], Sequence[int]]()
    model = trained.model(max(sizes))
    vocabulary, stretches, tokens = model.vocabulary, TextEncoder(model).text_stretches, model.vocabulary.to_dict()
    ids = range(vocabulary.max_id + 1)
    for name, (path, mark) in task.sources.items():
        with open_counter(path, fingerprint=mark) as counter:
            uses["source", name] = model.uses(counter.read_all())
    for name, chosen in task.files.items():
        drawn = read_chosen(chosen, "text", skip_changed=False)
        times = Counter(id_ for one in drawn for of_stretch, _ in stretches(one.text) for id_ in of_stretch)
        uses["held out", name] = [times[id_] for id_ in ids]
    lengths, points = [len(tokens.get(id_, b"")) for id_ in ids], list[Point]()
    occurrences = vocabulary.occurrences(list(map(sum, zip(*(uses["source", one] for one in task.runs), strict=True))))
    for size in sizes:
        merges = len(trained.merges(size))
        parts, rare = vocabulary.parts(partial(gt, merges)), rare_share(occurrences[:merges])
        measured = (Measured(*text, sum(map(mul, by, lengths)), sum(map(mul, by, parts))) for text, by in uses.items())
        points.append(Point(task.mixture, size, trained.vocabulary(size).size, rare, tuple(measured)))
    report_progress(1)
    return points
