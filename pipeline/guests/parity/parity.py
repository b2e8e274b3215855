"""`parity`: a new run with the sum of the counts of several languages, and its merges, which they take turns to choose.

The merges are learned from the counts of each language, where they are stored. `Chooser` is what other commands ask
of such a run: how its merges are learned, verified, reported and described.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Unpack

from pipeline.base.errors import RunDirectoryError, UsageError, unfit
from pipeline.base.events import Listener
from pipeline.commands.combine import Combination, making_of, require_comparable, write_combination
from pipeline.commands.merge import run_merge
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.count import require_counted
from pipeline.counts.counter_file import Parts
from pipeline.executors import Executor
from pipeline.guests.parity import parity_worker
from pipeline.guests.parity.parity_worker import Language, Parity, read_settings
from pipeline.merges import merge, merge_worker
from pipeline.merges.merge_list import MergeList
from pipeline.merges.merge_worker import Learner
from pipeline.reports.measure import gini
from pipeline.reports.progress import for_python
from pipeline.reports.summary import ChosenBy, Summary
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath, ParityKeywords
from pipeline.run.listed_options import lists_options
from pipeline.run.manifest import Run, Source
from pipeline.run.options import ParityOptions, make_options
from pipeline.run.runner import Runner
from pipeline.run.stored import plain
from pipeline.run.workers import executor_for
from pipeline.storage import Location, named, same_location
from pipeline.tokenizer.export import Trained
from pipeline.tokenizer.tokenizer import Tokenizer

Named = Sequence[tuple[str, Location]]


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
        options = run.manifest.options_of()
        task = merge.task_of(runner, merge.learning_of(run, options), require_counted(run, executor), options)
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


@lists_options
def train_parity(
    languages: Mapping[str, AnyPath],
    *,
    dev: Mapping[str, AnyPath] | None = None,
    ratio: Mapping[str, float] | None = None,
    window: int = 0,
    alpha: float = 2.0,
    global_merges: int = 0,
    progress: bool = False,
    **options: Unpack[ParityKeywords],
) -> Tokenizer:
    """Train one vocabulary on several languages so that all are compressed alike, as `bpe-pipeline parity` does.

    Args:
        languages: the counted run of each language, by a name for it.
        dev: a counted run for each language whose texts are measured, such as translations of the same sentences;
            default: the languages' own texts.
        ratio: instead of dev, how much each language is to be compressed in relation to the others.
        window: how many of the last choices are looked at, so that no language chooses too often; 0: none.
        alpha: with a window, a language may have alpha / number of languages of these choices.
        global_merges: how many merges are chosen by the counts of all languages together, first.
        progress: as of `pipeline.train`.
        **options: of merging, such as `vocab_size`, and the new run's `output`.

    Returns:
        The tokenizer; of several sizes, the first.

    Raises:
        UsageError: for settings that do not fit the languages, or a memory limit that is too small.
        RunDirectoryError: for runs that are not completely counted or cannot be compared.

    >>> one = pipeline.import_counts({"aabb": 10}, output="runs/one")
    >>> two = pipeline.import_counts({"ccdd": 10}, output="runs/two")
    >>> tokenizer = pipeline.train_parity({"one": one, "two": two}, vocab_size=259, output="runs/parity")
    >>> tokenizer.merges
    [(b'b', b'b'), (b'd', b'd')]
    """
    if not isinstance(languages, Mapping) or not languages or not all(isinstance(name, str) for name in languages):
        raise unfit("languages", "a run directory for each name of a language", languages)
    for name, given in (("dev", dev), ("ratio", ratio)):
        if given is not None and (not isinstance(given, Mapping) or set(given) != set(languages)):
            raise unfit(name, "a value for each of the languages", given)
    homes = [(name, named(run, "languages")) for name, run in languages.items()]
    of_dev = [] if dev is None else [(name, named(dev[name], "dev")) for name in languages]
    ratios = None if ratio is None else [ratio[name] for name in languages]
    settings = {"ratio": ratios, "window": window, "alpha": alpha, "global_merges": global_merges}
    with for_python(progress) as listener, executor_for(make_options(ParityOptions, options)) as executor:
        _, trained = run_parity(homes, of_dev, settings, options, executor, listener)
    return Tokenizer.from_model(trained.model(trained.options.vocab_size[0]))


def run_parity(
    languages: Named,
    dev: Named,
    settings: Mapping[str, Any],
    given: Mapping[str, Any],
    executor: Executor,
    listener: Listener,
) -> tuple[Summary, Trained]:
    """Combine the counts of the languages into a new run, and learn its merges as they choose them."""
    settings = read_settings(settings, len(languages), len(dev))
    runs, of_dev = _runs(languages, "RUN"), _runs(dev, "--dev")
    parity = Parity(tuple(map(_language, languages, runs)), tuple(map(_language, dev, of_dev)), **settings)
    for run in (*runs[1:], *of_dev):
        require_comparable(runs[0], run)
    for run in of_dev:
        require_counted(run, executor)
    statistics = sum((require_counted(run, executor).statistics for run in runs), ChunkStatistics())
    making = making_of(given)
    locations = [run.directory.location for run in (*runs, *of_dev)]
    if making.output is not None and any(same_location(making.output, location) for location in locations):
        raise UsageError(f"--output {making.output} is one of the runs to merge; choose another")
    described = " + ".join(str(run.directory) for run in runs) + ", merged by parity"
    parts = Parts([run.counter for run in runs], statistics)
    source = Source(Chooser.KIND, parity.digest(), described, chosen_by=plain(Chooser(parity)))
    summary = write_combination(Combination(runs[0], source, parts, locations), making, executor, listener)
    merging = {name: value for name, value in given.items() if name != "output"}
    return run_merge(summary.directory, merging, executor, listener)


def by_name(runs: Sequence[Location]) -> Named:
    """Give each run the name of its directory, or its whole location where several have that name."""
    homes = [run.resolve() if isinstance(run, Path) else run for run in runs]
    names = [home.name for home in homes]
    return [(name if names.count(name) == 1 else str(home), home) for name, home in zip(names, homes, strict=True)]


def _runs(languages: Named, of_what: str) -> list[Run]:
    """Return the runs of languages; `UsageError` if one is named twice."""
    homes = [home for _, home in languages]
    for index, home in enumerate(homes):
        if any(same_location(home, other) for other in homes[:index]):
            raise UsageError(f"{of_what} {home} is named twice: a language has one run")
    return [manifest.require(home) for home in homes]


def _language(named_run: tuple[str, Location], run: Run) -> Language:
    path = run.counter_path.absolute() if isinstance(run.counter_path, Path) else run.counter_path
    return Language(named_run[0], str(path), run.manifest.counter_fingerprint())
