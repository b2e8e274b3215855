"""`parity`: a new run with the sum of the counts of several languages, and its merges, which they take turns to choose.

The merges are learned from the counts of each language, where they are stored. `Languages` is the chooser of such a
run: how its merges are learned, verified, reported and described.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Unpack

from pipeline.base.errors import RunDirectoryError, UsageError, unfit
from pipeline.base.events import Listener, Notice
from pipeline.commands.combine import (
    Combination,
    making_of,
    require_addable,
    require_comparable,
    run_combine,
    write_combination,
)
from pipeline.commands.count import run_count
from pipeline.commands.merge import run_merge
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.count import require_counted
from pipeline.counts.counter_file import Parts
from pipeline.executors import Executor
from pipeline.guests.parity import KIND, measured, parity_worker
from pipeline.guests.parity.parity_worker import Language, Parity, characters, read_settings, uneven
from pipeline.merges import merge, merge_worker
from pipeline.merges.chooser import Chooser
from pipeline.merges.merge_list import MergeList
from pipeline.merges.merge_worker import Learner
from pipeline.reports.progress import for_python
from pipeline.reports.summary import Summary
from pipeline.run import manifest
from pipeline.run.directory import RUN
from pipeline.run.keywords import AnyPath, ParityKeywords
from pipeline.run.listed_options import lists_options
from pipeline.run.make_options import make_options
from pipeline.run.manifest import Run, Source
from pipeline.run.options import READING_OPTIONS, CountOptions, ParityOptions
from pipeline.run.runner import Runner
from pipeline.run.stored import plain
from pipeline.run.workers import executor_for
from pipeline.storage import Location, absolute, named, parse_location, same_location
from pipeline.tokenizer.arguments import flag
from pipeline.tokenizer.export import Trained
from pipeline.tokenizer.tokenizer import Tokenizer

Named = Sequence[tuple[str, Location]]
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class Languages(Chooser):
    """Languages that choose the merges of a run; the source of its counts stores them."""

    parity: Parity

    KIND = KIND
    TAKES = ParityOptions
    REPLACED: ClassVar[dict[str, Any]] = {"tie_break": "greatest-letters"}

    def learner(self) -> Learner:
        """Return what a worker learns the merges with."""
        return Learner(partial(parity_worker.way_of, self.parity), partial(parity_worker.learn, self.parity))

    def info(self) -> dict[str, Any]:
        """Say which languages choose the merges, and how."""
        parity = self.parity
        settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in parity.settings.items())
        dev = {"dev": list(map(str, parity.dev))} if parity.dev else {}
        return {"languages": list(map(str, parity.languages)), **dev, "parity": settings}

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
        for name in ("left", "right", "counts", "joined", "choices", "exhausted"):
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
    compare_plain: bool = False,
    progress: bool = False,
    **options: Unpack[ParityKeywords],
) -> Tokenizer:
    """Train one vocabulary on several languages so that all are compressed alike, as `bpe-pipeline parity` does.

    Args:
        languages: the counted run of each language, by a name for it; or its text, which is counted next to the output.
        dev: a counted run, or text, for each language that is measured in its place, such as translations of the same
            sentences; default: the languages' own texts.
        ratio: instead of dev, how much each language is to be compressed in relation to the others.
        window: how many of the last choices are looked at, so that no language chooses too often; 0: none.
        alpha: with a window, a language may have alpha / number of languages of these choices.
        global_merges: how many merges are chosen by the counts of all languages together, first.
        compare_plain: also learn plain merges of the same counts, in a run next to the output, and report the price.
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
    texts = {name: named(run, "languages") for name, run in languages.items()}
    texts_of_dev = {} if dev is None else {name: named(dev[name], "dev") for name in languages}
    ratios = None if ratio is None else [ratio[name] for name in languages]
    settings = {"ratio": ratios, "window": window, "alpha": alpha, "global_merges": global_merges}
    settings |= {"compare_plain": flag("compare_plain", compare_plain)}
    with for_python(progress) as listener, executor_for(make_options(ParityOptions, options)) as executor:
        given = _with_options_of_runs([*texts.values(), *texts_of_dev.values()], options)
        homes = _counted(texts, "", given, executor, listener)
        of_dev = _counted(texts_of_dev, "-dev", given, executor, listener)
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
    """Combine the counts of the languages into a new run, and learn its merges as they choose them.

    settings: of `Parity`, and `compare_plain`.
    """
    compare_plain, settings = settings.get("compare_plain"), read_settings(settings, len(languages), len(dev))
    runs, of_dev = _runs(languages, "RUN"), _runs(dev, "--dev")
    parity = Parity(tuple(map(_language, languages, runs)), tuple(map(_language, dev, of_dev)), **settings)
    require_addable(runs, listener)
    for run in of_dev:
        require_comparable(runs[0], run)
        require_counted(run, executor)
    if of_dev and (note := uneven(parity.dev, executor.one(characters, parity.dev))) is not None:
        listener(Notice("info", note))
    statistics = sum((require_counted(run, executor).statistics for run in runs), ChunkStatistics())
    making = making_of(given)
    locations = [run.directory.location for run in (*runs, *of_dev)]
    if making.output is not None and any(same_location(making.output, location) for location in locations):
        raise UsageError(f"--output {making.output} is one of the runs to merge; choose another")
    described = " + ".join(str(run.directory) for run in runs) + ", merged by parity"
    parts = Parts([run.counter for run in runs], statistics)
    source = Source(Languages.KIND, parity.digest(), described, chosen_by=plain(Languages(parity)))
    if compare_plain:
        _make_plain(languages, given, executor, listener)
    summary = write_combination(Combination(runs[0], source, parts, locations), making, executor, listener)
    return run_merge(summary.directory, _merging_of(given), executor, listener)


def _read_named(words: Sequence[str], what: str) -> dict[str, Location] | None:
    """Read `en=PATH` words; None if none of them is one. `UsageError` for a mixture, and a name that occurs twice."""
    matches = [None if Path(word).exists() else _NAMED.fullmatch(word) for word in words]
    if not any(matches):
        return None
    if plain := [word for word, match in zip(words, matches, strict=True) if match is None]:
        raise UsageError(f"{what} {plain[0]} has no name, others have: write en={plain[0]}, or name none of them")
    names = [match[1] for match in matches if match]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{what} {twice[0]}= is named twice: a language has one run; a directory may have many files")
    return {match[1]: parse_location(match[2]) for match in matches if match}


def _by_name(runs: Sequence[Location]) -> Named:
    """Give each run the name of its directory, or its whole location where several have that name."""
    homes = [run.resolve() if isinstance(run, Path) else run for run in runs]
    names = [home.name for home in homes]
    return [(name if names.count(name) == 1 else str(home), home) for name, home in zip(names, homes, strict=True)]


def languages_of(
    runs: Sequence[str], dev: Sequence[str], given: Mapping[str, Any], executor: Executor, listener: Listener
) -> tuple[Named, Named]:
    """Return the runs of the command's words and of its --dev, in the order of the languages."""
    named, of_dev = _read_named(runs, "RUN"), _read_named(dev, "--dev")
    if named is None or (dev and of_dev is None):
        if of_dev is not None or named is not None:
            raise UsageError("RUN and --dev need names of languages both, as in en=PATH, or neither")
        return _by_name([parse_location(run) for run in runs]), _by_name([parse_location(run) for run in dev])
    if of_dev and (other := set(named) ^ set(of_dev)):
        raise UsageError(f"--dev: {min(other)} is named by only one of RUN and --dev; give both for each language")
    in_order = {name: of_dev[name] for name in named} if of_dev else {}
    counting = _with_options_of_runs([*named.values(), *in_order.values()], given)
    counted = partial(_counted, given=counting, executor=executor, listener=listener)
    return counted(named, ""), counted(in_order, "-dev")


def _with_options_of_runs(locations: Iterable[Location], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with those by which the first run among these was cut: texts next to it are counted alike."""
    home = next((location for location in locations if (location / RUN.manifest).exists()), None)
    stored = {} if home is None else manifest.require(home).manifest.counting
    cutting = {name: value for name, value in stored.items() if name not in READING_OPTIONS}
    return cutting | {name: value for name, value in given.items() if value is not None}


def _counted(
    named: Mapping[str, Location], ending: str, given: Mapping[str, Any], executor: Executor, listener: Listener
) -> Named:
    """Return a run for each name: the one it names, or a new one of the text there, next to the output."""
    names = {option.name for option in fields(CountOptions)} - {"inputs", "weights"}
    counting, homes = {name: value for name, value in given.items() if name in names}, []
    for name, location in named.items():
        home = location
        if not (location / RUN.manifest).exists():
            output = _required_output(given, f"{location} is counted")
            home = output.parent / f"{output.name}-languages" / (re.sub(r"[^\w.-]", "_", name) + ending)
            options = make_options(CountOptions, {**counting, "inputs": [str(location)], "output": home})
            run_count(options, executor, listener)
        homes.append((name, home))
    return homes


def _required_output(given: Mapping[str, Any], why: str) -> Location:
    """Return the output; `UsageError` without one."""
    output = making_of(given).output
    if output is None:
        raise UsageError(f"parity needs --output DIR: {why} next to it")
    return output


def _make_plain(languages: Named, given: Mapping[str, Any], executor: Executor, listener: Listener) -> None:
    """Make the run of the same counts with plain merges, unless it is there."""
    if given.get("stop_at_saving"):
        raise UsageError("--compare-plain compares vocabularies of one size: leave --stop-at-saving out")
    home = measured.plain_of(_required_output(given, "the run with plain merges is made"))
    making = making_of({**given, "output": home})
    run_combine([location for _, location in languages], (), making, executor, listener)
    run_merge(home, _merging_of(given), executor, listener)


def _merging_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of merging."""
    return {name: value for name, value in given.items() if name not in ("output", *READING_OPTIONS)}


def _runs(languages: Named, of_what: str) -> list[Run]:
    """Return the runs of languages; `UsageError` if one is named twice."""
    homes = [home for _, home in languages]
    for index, home in enumerate(homes):
        if any(same_location(home, other) for other in homes[:index]):
            raise UsageError(f"{of_what} {home} is named twice: a language has one run")
    return [manifest.require(home) for home in homes]


def _language(named_run: tuple[str, Location], run: Run) -> Language:
    return Language(named_run[0], absolute(run.counter_path), run.manifest.counter_fingerprint())
