"""What a run is whose merges languages choose: how they are learned, verified, reported and described."""

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from pipeline.base.errors import RunDirectoryError
from pipeline.counts.count import require_counted
from pipeline.guests.parity import parity_worker
from pipeline.guests.parity.parity_worker import Parity
from pipeline.merges import merge, merge_worker
from pipeline.merges.merge_list import MergeList
from pipeline.merges.merge_worker import Learner
from pipeline.reports.measure import gini
from pipeline.reports.summary import ChosenBy
from pipeline.run.manifest import Run
from pipeline.run.options import ParityOptions
from pipeline.run.runner import Runner


@dataclass(frozen=True)
class Chooser:
    """What the commands ask of a run whose merges languages choose; the source of its counts stores it."""

    parity: Parity

    KIND = "languages"  # of the run's source
    TAKES = ParityOptions  # what a merge of such a run may be given
    REPLACED: ClassVar[dict[str, Any]] = {"tie_break": "greatest-letters"}  # options of merging that are not the run's

    def learner(self) -> Learner:
        """Return what a worker learns the merges with."""
        return Learner(partial(parity_worker.way_of, self.parity), partial(parity_worker.learn, self.parity))

    def info(self) -> dict[str, Any]:
        """Say which languages choose the merges, and how."""
        parity = self.parity
        settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in parity.settings.items())
        dev = {"dev": list(map(str, parity.dev))} if parity.dev else {}
        return {"languages": list(map(str, parity.languages)), **dev, "parity": settings}

    def report(self, learned: MergeList) -> ChosenBy | None:
        """Return how the merges compress each language; None of a shorter list than was measured.

        The Gini coefficients are those of the languages' lengths before merging, in bytes, and after, in tokens.
        """
        if learned.chosen is None:
            return None
        by, languages, sizes = list(learned.chosen.by), self.parity.languages, learned.chosen.measured
        measured: list[dict[str, Any]] = [
            {"name": one.name, "bytes": size, "tokens": tokens, "merges": by.count(index)}
            for index, (one, (size, tokens)) in enumerate(zip(languages, sizes, strict=True))
        ]
        before, after = (gini([size[which] for size in sizes]) or 0.0 for which in (0, 1))
        differ = f"a Gini coefficient of {before:.3f} in bytes, {after:.3f} in tokens after {len(learned):,} merges"
        rows = [("languages", f"{len(languages)}, whose texts differ in length by {differ}")]
        for one in measured:
            rate = one["bytes"] / max(one["tokens"], 1)
            text = f"{one['tokens']:,} tokens of {rate:.3f} bytes each; it chose {one['merges']:,} merges"
            rows.append((one["name"], text))
        return ChosenBy(tuple(rows), {"measured": measured, "gini_before": before, "gini_after": after})

    def verify(self, runner: Runner, run: Run) -> tuple[MergeList, str]:
        """Learn the merges again, from the languages' counts; returns the merge list, and what was verified."""
        executor, started = runner.executor, time.monotonic()
        task = merge.task_of(runner, run, require_counted(run, executor), run.manifest.options_of())
        stored = executor.one(merge_worker.read, (task.output, task.fingerprint))
        if stored is None:
            raise RunDirectoryError(f"{run.merges_path} belongs to another run; remove it and run merge again")
        task = replace(task, merges=len(stored) + stored.exhausted)
        with runner.reporting("replaying", len(stored), "merges") as advance:
            again = executor.one(parity_worker.learn_again, (self.parity, task), advance)
        for name in ("left", "right", "counts", "joined", "chosen", "exhausted"):
            if getattr(stored, name) != getattr(again, name):
                raise RunDirectoryError(
                    f"{run.merges_path} differs from what is learned again from the languages' counts: its {name}; "
                    "remove it and run merge again"
                )
        end = "and then no pair is left" if stored.exhausted else "as many as were asked for"
        took = f"{time.monotonic() - started:.1f} s"
        return stored, f"{len(stored):,}, each chosen by its language when learned again, {end} (in {took})"
