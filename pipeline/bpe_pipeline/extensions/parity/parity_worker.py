"""Merge by parity: the language that is compressed least chooses the next merge.

The merges are those of Hugging Face's `ParityBpeTrainer` (Foroutan et al., 2025, arXiv:2508.04796).
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from operator import mul
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError, TrainingError
from bpe_pipeline.counts.counter_file import Columns, CounterFile, as_batch, open_counter
from bpe_pipeline.merges.forecast import ENGINE_BYTES, Merging, merging_bytes, shape_of
from bpe_pipeline.merges.merge_list import Choices, MergeList
from bpe_pipeline.merges.merge_worker import MergeTask, OnMerged
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.storage import parse_location

LANGUAGE = "language"  # the column of a merge list: which one chose a merge, null for all together


@dataclass(frozen=True)
class Language:
    """One run among those that are merged by parity."""

    name: str
    counter: str  # its location
    fingerprint: str
    weight: tuple[int, int] = (1, 1)  # that its counts are multiplied by, as `combine` does

    def __str__(self) -> str:
        return f"{self.name} ({self.counter})"

    def weighted(self, counter: CounterFile) -> Iterator[Columns]:
        """Read the counts of its counter with its weight."""
        read = counter.read_all()
        return read if self.weight == (1, 1) else (_core.combine([columns], [self.weight]) for columns in read)


@dataclass(frozen=True)
class Parity:
    """The languages and settings of Hugging Face's `ParityBpeTrainer`."""

    languages: tuple[Language, ...]
    dev: tuple[Language, ...] = ()  # measured in their place, in the same order
    ratio: tuple[float, ...] = ()
    window: int = 0  # last choices that are looked at; 0: none
    alpha: float = 2.0
    global_merges: int = 0

    def digest(self) -> str:
        """Return what the merges depend on besides the options of merging."""
        marks = [[(one.fingerprint, *one.weight) for one in several] for several in (self.languages, self.dev)]
        return fingerprint(marks, self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """How the languages choose."""
        return {name: value for name, value in asdict(self).items() if name not in ("languages", "dev")}


_SECONDS = 0.1  # between reports of progress
_UNEVEN = 1.2  # times as long as the shortest: translations of one text may be
_LISTED_BYTES = 4.1  # of a slot: lists of pairs that other languages index, besides those of its own


def learn(
    parity: Parity, task: MergeTask, threads: int, known: MergeList | None, on_merged: OnMerged
) -> tuple[_core.MergeResult, Choices]:
    """Learn the asked number of merges after those that are known."""
    columns, how = dict[str, Any](), parity.settings
    if known and known.choices:
        columns = {name: getattr(known, name) for name in ("left", "right", "counts", "joined")}
        columns |= {"chosen_by": known.choices.columns[LANGUAGE]}
        columns |= {name: known.choices.state[name] for name in ("spent", "recent")}
    with ExitStack() as stack:
        languages, dev = (
            [partial(one.weighted, stack.enter_context(_counter_of(one))) for one in several]
            for several in (parity.languages, parity.dev)
        )
        training = _core.ParityTraining(
            task.merges, task.rules, languages, dev, threads=threads, ratios=how.pop("ratio"), **how, **columns
        )
    while training.merge(_SECONDS):
        on_merged(training.result, _choices(training))
    on_merged(training.result, _choices(training))
    return training.result, _choices(training)


def _counter_of(language: Language) -> CounterFile:
    try:
        return open_counter(parse_location(language.counter), fingerprint=language.fingerprint)
    except RunDirectoryError as error:
        raise RunDirectoryError(
            f"the counts of the language {language.name}, {language.counter}, are missing, damaged or not those that "
            "this run was made from; count it again as before, or run `parity` into a new --output"
        ) from error


def characters(languages: Sequence[Language]) -> list[int]:
    """Count the characters of the text of each language."""
    totals = []
    for language in languages:
        total = 0
        with _counter_of(language) as counter:
            for columns in counter.read_all():
                pre_tokens, counts = as_batch(columns).columns
                lengths = (len(pre_token.decode(errors="replace")) for pre_token in pre_tokens.to_pylist())
                total += sum(map(mul, lengths, counts.to_pylist()))
        totals.append(total)
    return totals


def uneven(languages: Sequence[Language], lengths: Sequence[int]) -> str | None:
    """Say how long the texts are if they differ in length by more than a fifth."""
    if max(lengths) <= _UNEVEN * min(lengths):
        return None
    shown = ", ".join(f"{one.name} {length:,}" for one, length in zip(languages, lengths, strict=True))
    return (
        f"the --dev texts differ in length by more than a fifth ({shown} characters): parity gives each as many "
        "tokens, right for translations of one text; for others, give texts of the same length, or --ratio"
    )


def _choices(training: _core.ParityTraining) -> Choices:
    """Return which language chose each merge, and what the next choice depends on.

    spent: languages without a pair that may be merged; recent: the last choices; measured: of each language its bytes,
    and its tokens after the merges.
    """
    spent, recent = training.choice
    state = {"spent": spent, "recent": recent, "measured": list(map(list, training.measured))}
    return Choices({LANGUAGE: array("I", training.chosen_by)}, state)


def way_of(parity: Parity, task: MergeTask) -> Merging:
    """Return how the languages are merged; `UsageError` if their words do not fit in memory.

    All words are kept in memory: merging by parity writes none to disk.
    """
    languages = (*parity.languages, *parity.dev)
    merges = 5 * task.merges // (len(languages) + 1)  # measured: the pairs that are indexed for each
    needed = ENGINE_BYTES
    for index, one in enumerate(languages):
        least = task.rules.min_pre_token_count if index < len(parity.languages) else 1
        tally = _core.CountTally(least)
        with _counter_of(one) as counter:
            for columns in one.weighted(counter):
                tally.add(columns)
        shape = shape_of(tally, merges, least)
        if all(one[0] < least for one in tally.classes()):  # single bytes are spent when it chooses
            remedy = (
                "leave it out" if least == 1 else f"leave it out, or give less than --min-pre-token-count {least:,}"
            )
            raise TrainingError(f"{one.counter}: the language {one.name} has no pre-tokens to merge; {remedy}")
        needed += merging_bytes(shape, merges, threads=1) - ENGINE_BYTES + int(_LISTED_BYTES * shape.slots)
    rare = ", or leave rare pre-tokens out with --min-pre-token-count"
    task.grant.require(needed, f"merging {len(languages)} counters by parity", rare)
    return Merging(needed, min(task.threads, len(languages)))
