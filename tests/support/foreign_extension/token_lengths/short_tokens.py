"""A way to choose merges: as usual, but no token is longer than a limit."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from bpe_pipeline import _core
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.merges.chooser import Chooser
from bpe_pipeline.merges.forecast import Merging, surely_enough
from bpe_pipeline.merges.merge_list import Choices, MergeList
from bpe_pipeline.merges.merge_worker import Learner, MergeTask, OnMerged
from bpe_pipeline.reports.parts import Table
from bpe_pipeline.reports.summary import Section
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import ClusterOptions, OutputOptions, Values, VocabularyOptions


class Options(ClusterOptions, OutputOptions, VocabularyOptions):
    """The options that a merge of such a run takes."""


@dataclass(frozen=True)
class ShortTokens(Chooser):
    """The chooser of a run; `run.json` stores its fields. longest: bytes of a token."""

    longest: int

    KIND: ClassVar[str] = "lengths"
    TAKES: ClassVar[type[Values]] = Options
    REPLACED: ClassVar[dict[str, Any]] = {"tie_break": "lowest-ids"}

    def learner(self) -> Learner:
        """Return the functions that a worker calls."""
        return Learner(way, partial(learn, self.longest))

    def info(self) -> dict[str, Any]:
        """Say how the merges are chosen."""
        return {"longest_token": self.longest}


def way(task: MergeTask) -> Merging:
    """Return the memory and threads of merging; too little memory is refused."""
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        needed = surely_enough(counter.rows, counter.pre_token_bytes, task.merges, threads=task.threads)
    task.grant.require(needed, "merging short tokens")
    return Merging(needed, task.threads)


def learn(
    longest: int, task: MergeTask, threads: int, known: MergeList | None, on_merged: OnMerged
) -> tuple[_core.MergeResult, Choices]:
    """Learn all merges of the task after those that are known."""
    choices = Choices({}, {})  # nothing but the counts and the limit decides
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        engine = _core.MergeEngine()
        if known:
            engine.resume(known.left, known.right, known.counts, known.joined)
        engine.stream(counter.read_all, counter.pre_token_bytes + counter.rows)
        rules = replace(task.rules, max_token_bytes=longest)
        ended = partial(on_merged, choices=choices)
        return engine.run(task.merges, rules, threads=threads, phase_end=ended), choices


def section(_executor: Any, run: Run, trained: Any) -> Section:
    """Return what the report says of such a run."""
    tokens = trained.vocabulary(trained.options.vocab_size[0]).tokens.values()
    lengths = tuple(sorted(Counter(map(len, tokens)).items()))
    limit = f"{run.manifest.chooser.longest} bytes at most"
    return Section((("length", limit),), {"lengths": lengths}, (Table("Lengths", ("bytes", "tokens"), lengths),))
