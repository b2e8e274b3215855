"""Merge by parity: each language is a part of its own, and the coordinator asks the one that is compressed least.

The merges are those of Hugging Face's `ParityBpeTrainer` (Foroutan et al., 2025, arXiv:2508.04796).
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pipeline import _core
from pipeline.base.errors import RunDirectoryError, TrainingError
from pipeline.base.units import format_bytes
from pipeline.counts.counter_file import CounterFile, open_counter
from pipeline.merges import shared_worker
from pipeline.merges.forecast import Merging, merging_bytes, shape_of
from pipeline.merges.merge_list import Chosen, MergeList
from pipeline.run.parity import Language
from pipeline.storage import parse_location

if TYPE_CHECKING:
    from pipeline.merges.merge_worker import MergeTask

_SECONDS = 0.1  # between reports of progress


def learn(
    task: "MergeTask", threads: int, known: MergeList | None, on_merged: Callable[[_core.MergeResult, Chosen], None]
) -> tuple[_core.MergeResult, Chosen]:
    """Learn the asked number of merges after those that are known."""
    parity = task.parity
    assert parity is not None
    columns: dict[str, Any] = {}
    if known and known.chosen:
        columns = {name: getattr(known, name) for name in ("left", "right", "counts", "joined")}
        columns |= {"chosen_by": known.chosen.by, "spent": known.chosen.spent, "recent": known.chosen.recent}
    training = _core.SharedTraining(
        task.merges,
        min_frequency=task.min_frequency,
        max_token_bytes=task.max_token_bytes,
        whole_characters=task.whole_characters,
        tie_break="greatest-letters",
        languages=len(parity.languages),
        dev=bool(parity.dev),
        ratios=parity.ratios,
        window=parity.window,
        alpha=parity.alpha,
        global_merges=parity.global_merges,
        **columns,
    )
    with ExitStack() as stack:
        counters = [stack.enter_context(_counter_of(one)) for one in (*parity.languages, *parity.dev)]
        made = bytes(training.merges())
        parts = [
            _core.Part(
                counter.read_all,
                made,
                min_piece_count=task.min_piece_count if index < len(parity.languages) else 1,
                max_token_bytes=task.max_token_bytes,
                whole_characters=task.whole_characters,
            )
            for index, counter in enumerate(counters)
        ]

    def phase() -> None:
        while training.merge_with(parts, threads, _SECONDS):
            on_merged(training.result, _chosen(training))
        on_merged(training.result, _chosen(training))

    with ThreadPoolExecutor(threads) as pool:
        shared_worker.merge(training, _Here(parts, pool), lambda: None, phase)
    return training.result, _chosen(training)


def _counter_of(language: Language) -> CounterFile:
    try:
        return open_counter(parse_location(language.counter), fingerprint=language.fingerprint)
    except RunDirectoryError as error:
        raise RunDirectoryError(
            f"the counts of the language {language.name}, {language.counter}, are missing, damaged or not those that "
            "this run was made from; count it again as before, or run merge --parity into a new --output"
        ) from error


class _Here:
    """Parts in this process."""

    def __init__(self, parts: Sequence[_core.Part], pool: ThreadPoolExecutor) -> None:
        self._parts, self._pool = parts, pool

    def ask(self, method: str, *arguments: object, catch_up: object = None) -> Iterator[Any]:
        """Call a method of all parts and yield their answers in order."""
        del catch_up  # no part is ever lost
        return self._pool.map(lambda part: getattr(part, method)(*arguments), self._parts)


def _chosen(training: _core.SharedTraining) -> Chosen:
    return Chosen(array("I", training.chosen_by), *training.choice, training.measured)


def way_of(task: "MergeTask") -> Merging:
    """Return how the languages are merged; `TrainingError` if their words do not fit in memory, or there are none.

    All words are kept in memory: merging by parity writes none to disk.
    """
    parity = task.parity
    assert parity is not None
    languages = (*parity.languages, *parity.dev)
    merges = 2 * task.merges // (len(languages) + 1)  # the pairs that are indexed for each
    needed = 0
    for index, one in enumerate(languages):
        least = task.min_piece_count if index < len(parity.languages) else 1
        tally = _core.CountTally(least)
        with _counter_of(one) as counter:
            for columns in counter.read_all():
                tally.add(*columns)
        shape = shape_of(tally, merges, least)
        if shape.slots == 0:
            remedy = "leave it out" if least == 1 else f"leave it out, or give less than --min-piece-count {least:,}"
            raise TrainingError(f"{one.counter}: the language {one.name} has no pieces to merge; {remedy}")
        needed += merging_bytes(shape, merges, threads=1)
    if needed > task.budget_bytes:
        together, there = needed + task.other_bytes, max(task.budget_bytes + task.other_bytes, 0)
        raise TrainingError(
            f"merging {len(languages)} counters by parity takes {format_bytes(together)} for all processes together, "
            f"and there are {format_bytes(there)}; give --memory-limit {-(-together >> 20)}MiB, or leave rare pieces "
            "out with --min-piece-count"
        )
    return Merging(needed, min(task.threads, len(languages)))
