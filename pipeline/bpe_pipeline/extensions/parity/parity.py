"""`parity`: a new run with the sum of the counts of several languages, and its merges, which they take turns to choose.

The merges are learned from the counts of each language, where they are stored. `Languages` is the chooser of such a
run: how its merges are learned, reported and described.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from bpe_pipeline.base.errors import UsageError, refuse_if, unfit
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands.combine import (
    Combination,
    combined,
    require_addable,
    require_comparable,
    text_of_run,
    write_combination,
)
from bpe_pipeline.commands.count import run_count
from bpe_pipeline.commands.merge import run_merge
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.parity import KIND, parity_worker
from bpe_pipeline.extensions.parity.options import ParityCommandOptions, ParityOptions
from bpe_pipeline.extensions.parity.parity_worker import Language, Parity, characters, uneven
from bpe_pipeline.merges.chooser import Chooser
from bpe_pipeline.merges.merge_worker import Learner
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import RUN
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.mixture import asked_mixture
from bpe_pipeline.run.options import READING_OPTIONS, CountOptions, OutputOptions, TrainOptions, WeightOptions
from bpe_pipeline.run.stored import plain
from bpe_pipeline.run.texts import Source, described
from bpe_pipeline.run.values import parse_paths
from bpe_pipeline.storage import Location, absolute, parse_location, same_location
from bpe_pipeline.tokenizer.export import Trained

Named = Sequence[tuple[str, Location]]
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
_LEAST_SHARE = 0.01  # of the merges, that a language should choose


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


def run_parity(
    languages: Named,
    dev: Named,
    options: ParityCommandOptions,
    executor: Executor,
    listener: Listener,
) -> tuple[Summary, Trained]:
    """Combine the counts of the languages into a new run, and learn its merges as they choose them.

    Raises `UsageError` for options that do not fit the languages.
    """
    names = [name for name, _ in languages]
    mixture, ratios = asked_mixture(options.temperature, options.shares), _ratios(options, names, dev)
    runs, of_dev = _runs(languages, "RUN"), _runs(dev, "--dev")
    _require_measure(languages, dev, ratios, mixture)
    require_addable(runs, listener)
    texts, first = [text_of_run(run, executor) for run in runs], runs[0].manifest
    mixed = combined(first.counting, first.cutting, texts).weighed(None, mixture, names)
    weights = [text.weight for text in mixed.texts]
    settings = {name: getattr(options, name) for name in ("window", "alpha", "global_merges")}
    parity = Parity(
        tuple(map(_language, languages, runs, weights)), tuple(map(_language, dev, of_dev)), ratios, **settings
    )
    for run in of_dev:
        require_comparable(runs[0], run)
        require_counted(run, executor)
    if of_dev and (note := uneven(parity.dev, executor.one(characters, parity.dev))) is not None:
        listener(Notice("info", note))
    making = options.to(OutputOptions)
    locations = [run.directory.location for run in (*runs, *of_dev)]
    if making.output is not None and any(same_location(making.output, location) for location in locations):
        raise UsageError(f"--output {making.output} is one of the runs to merge; choose another")
    described_as = f"{described([str(run.directory) for run in runs], mixed.texts)}, merged by parity"
    source = Source(Languages.KIND, parity.digest(), described_as, chosen_by=plain(Languages(parity)))
    summary = write_combination(Combination(runs, replace(mixed, source=source)), making, executor, listener)
    of_counts = ("output", *WeightOptions.records, *READING_OPTIONS)
    merging = {name: value for name, value in options.to(TrainOptions).explicit.items() if name not in of_counts}
    merged = run_merge(summary.directory, TrainOptions(**merging), executor, listener)
    _warn_of_silent_languages(names, merged[1], listener)
    return merged


def _ratios(options: ParityCommandOptions, names: Sequence[str], dev: Named) -> tuple[float, ...]:
    """Return the ratios of the languages; `UsageError` for settings that do not fit."""
    ratios: Any = options.ratio or ()
    if isinstance(ratios, Mapping):
        if set(ratios) != {*names}:
            raise unfit("ratio", "a value for each of the languages", ratios)
        ratios = tuple(ratios[name] for name in names)
    for name, number in (("dev", len(dev)), ("ratio", len(ratios))):
        if number not in (0, len(names)):
            raise UsageError(
                f"{name} is given {format_count(number, 'times')} for {format_count(len(names), 'runs')}; "
                "give one for each run, in their order"
            )
    refuse_if(
        (dev and ratios, "dev and ratio exclude each other: leave one of them out"),
        (
            options.alpha != Parity.alpha and not options.window,
            "alpha means nothing without window: give both, or neither",
        ),
    )
    return tuple(ratios)


def _require_measure(languages: Named, dev: Named, ratio: Any, mixture: Any) -> None:
    """Raise `UsageError` for fewer than two languages, and where nothing says what 'alike' means for them.

    Counts of different texts say how much text a language has, not how well it is compressed: the language with the
    most text would choose nearly all merges.
    """
    if len(languages) < 2:
        raise UsageError("parity lets several languages choose merges: give two RUNs or more, or use `merge` for one")
    if not dev and not ratio and mixture is None:
        raise UsageError(
            "parity needs a measure of the languages: give --dev with the same text in each language (RUNs that are "
            "translations of one another are named as --dev, too), --ratio for each, or --temperature"
        )


def _warn_of_silent_languages(names: Sequence[str], trained: Trained, listener: Listener) -> None:
    """Warn of languages that chose less than `_LEAST_SHARE` of the merges: hardly a token is theirs."""
    choices = trained.merges(max(trained.options.vocab_size)).choices
    chosen = Counter[int](() if choices is None else choices.columns[parity_worker.LANGUAGE])
    total = chosen.total()
    few = [f"{name} {chosen[at]:,}" for at, name in enumerate(names) if chosen[at] < _LEAST_SHARE * total]
    if few:
        listener(
            Notice(
                "warning",
                f"of {total:,} merges few were chosen by {', '.join(few)}: the vocabulary compresses other languages; "
                "give --dev texts that say the same in each language, or other --ratio or --share",
            )
        )


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


def _by_name(words: Iterable[str]) -> Named:
    """Give each run the name of its directory, or as many of the directories above it as tell them apart.

    Raises `UsageError` for what is there but is no run.
    """
    runs = [parse_location(word) for word in words]
    for run in runs:
        if run.exists() and not (run / RUN.manifest).exists():
            raise UsageError(f"{run} is no run: if its text is to be counted, name its language, as in NAME={run}")
    homes = [str(run.resolve() if isinstance(run, Path) else run).strip("/").split("/") for run in runs]
    longest = max(map(len, homes), default=1)
    by_depth = [["/".join(home[-depth:]) for home in homes] for depth in range(1, longest + 1)]
    names = next((names for names in by_depth if len({*names}) == len(names)), by_depth[0])
    return list(zip(names, runs, strict=True))


def languages_of(options: ParityCommandOptions, executor: Executor, listener: Listener) -> tuple[Named, Named]:
    """Return the runs of the languages, and those that are measured in their place, in the order of the languages."""
    languages: Any = options.languages
    dev: Any = options.dev
    if isinstance(languages, Mapping):
        if dev is not None and (not isinstance(dev, Mapping) or set(dev) != set(languages)):
            raise unfit("dev", "a value for each of the languages", dev)
        named, of_dev = {**languages}, {**(dev or {})}
    else:
        words = tuple(dev or ())
        by_name, dev_by_name = _read_named(languages, "RUN"), _read_named(words, "--dev")
        if by_name is None or (words and dev_by_name is None):
            if dev_by_name is not None or by_name is not None:
                raise UsageError("RUN and --dev need names of languages both, as in en=PATH, or neither")
            return _by_name(languages), _by_name(words)
        if dev_by_name and (other := set(by_name) ^ set(dev_by_name)):
            raise UsageError(f"--dev: {min(other)} is named by only one of RUN and --dev; give both for each language")
        named, of_dev = by_name, dev_by_name or {}
    in_order = {name: of_dev[name] for name in named} if of_dev else {}
    like = _options_of_first([*named.values(), *in_order.values()])
    own = {name: one for name, one in options.explicit.items() if name not in ("inputs", *WeightOptions.records)}
    counting = make_options(CountOptions, like).replace(**CountOptions(**own).to(CountOptions).explicit)
    counted = partial(_counted, options=counting, executor=executor, listener=listener)
    return counted(named, ""), counted(in_order, "-dev")


def _options_of_first(locations: Iterable[Location]) -> dict[str, Any]:
    """Return the options by which the first run among these was cut: texts next to it are counted alike."""
    home = next((location for location in locations if (location / RUN.manifest).exists()), None)
    stored = {} if home is None else manifest.require(home).manifest.counting
    return {name: value for name, value in stored.items() if name not in READING_OPTIONS}


def _counted(
    named: Mapping[str, Location], ending: str, options: CountOptions, executor: Executor, listener: Listener
) -> Named:
    """Return a run for each name: the one it names, or a new one of the text there, next to the output."""
    homes = []
    for name, path in named.items():
        home = path
        if not (path / RUN.manifest).exists():
            output = options.output
            if output is None:
                raise UsageError(f"parity needs --output DIR: {path} is counted next to it")
            home = output.parent / f"{output.name}-languages" / (re.sub(r"[^\w.-]", "_", name) + ending)
            run_count(options.replace(inputs=parse_paths(str(path)), output=home), executor, listener)
        homes.append((name, home))
    return homes


def _runs(languages: Named, of_what: str) -> list[Run]:
    """Return the runs of languages; `UsageError` if one is named twice."""
    homes = [home for _, home in languages]
    for index, home in enumerate(homes):
        if any(same_location(home, other) for other in homes[:index]):
            raise UsageError(f"{of_what} {home} is named twice: a language has one run")
    return [manifest.require(home) for home in homes]


def _language(named_run: tuple[str, Location], run: Run, weight: tuple[int, int] = (1, 1)) -> Language:
    return Language(named_run[0], absolute(run.counter_path), run.manifest.counter_fingerprint, weight)
