"""`combine`: the counts of several runs, or of other programs, each with a weight, become those of a new run.

So mixtures of corpora are tried without counting again. Weights are relative: they are scaled so that the smallest is
1. Every count is multiplied by the weight of its term, rounded half up, and then the terms are added; the arithmetic is
of whole numbers, so their order changes nothing.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands import report
from bpe_pipeline.corpus.listing import resolved
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counted import as_counted, require_counted
from bpe_pipeline.counts.counter_file import CounterFacts, PartPath, Sum, Term
from bpe_pipeline.counts.elsewhere import take_counts, take_part
from bpe_pipeline.counts.foreign import Foreign, read_all, text_of_foreign
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import COMBINED, Manifest, Run
from bpe_pipeline.run.mixture import Mixture, mixture_of
from bpe_pipeline.run.open_run import replace_run
from bpe_pipeline.run.options import READING_OPTIONS, RECORDS, CountOptions, OutputOptions
from bpe_pipeline.run.patterns import cut_by, pattern_of
from bpe_pipeline.run.runner import Runner, opened
from bpe_pipeline.run.texts import Source, Text, described, weigh
from bpe_pipeline.storage import Location, absolute, existing, location, open_file, same_location
from bpe_pipeline.storage.atomic import whole_file

Identity = tuple[object, ...]  # of a counted text: a counter, or a file
_CUTTING = ("pattern", "normalize", "special_tokens")  # the options that say what foreign pre-tokens are
_NO_FILE = 2  # at most that many members


@dataclass(frozen=True)
class Combination:
    """What becomes a run. addends: as many as the texts; counting, cutting: how these were split."""

    addends: Sequence[Run | Foreign]
    counting: Mapping[str, Any]
    cutting: dict[str, str]
    source: Source
    texts: Sequence[Text]

    @property
    def runs(self) -> list[Run]:
        """The runs among the addends."""
        return [addend for addend in self.addends if isinstance(addend, Run)]

    @property
    def files(self) -> list[Location]:
        """The files of counts among the addends."""
        return [addend for addend in self.addends if not isinstance(addend, Run | Mapping)]

    def sum(self, runner: Runner, run: Run, part_path: PartPath) -> Sum:
        """Return the terms of the run that is made; foreign counts are read first."""
        pairs = list(zip(self.addends, self.texts, strict=True))
        foreign = [(addend, text) for addend, text in pairs if not isinstance(addend, Run)]
        read = iter(read_all(runner, run, part_path, foreign) if foreign else ())
        terms, statistics = list[Term](), ChunkStatistics()
        for addend, text in pairs:
            if isinstance(addend, Run):
                one = Sum([Term([addend.counter])], require_counted(addend, runner.executor).statistics)
            else:
                one = next(read)
            terms += [replace(term, weight=text.weight) for term in one.terms]
            statistics += one.statistics
        return Sum(terms, statistics)


def directory_of(summary: Summary) -> Location:
    """Return the run that was made."""
    return summary.directory


def combination_asked(options: Any, given: Mapping[str, Any], executor: Executor, listener: Listener) -> Combination:
    """Return what `combine` is asked to add up. options: of the command."""
    cutting = {name: value for name, value in given.items() if name in _CUTTING}
    return combination_of(options.runs, options.weights, mixture_of(options), cutting, executor, listener)


def combination_of(
    named: Sequence[Location | Mapping[Any, Any]],
    weights: Sequence[Any],
    mixture: Mixture | None,
    given: Mapping[str, Any],
    executor: Executor,
    listener: Listener,
) -> Combination:
    """Return what these runs and foreign counts are together; raise if they cannot be added up.

    given: the options that say what pre-tokens are where no run does.
    """
    _refuse_unfit(named, mixture)
    addends = [one if isinstance(one, Mapping) or _is_counts(one) else manifest.require(one) for one in named]
    runs = [addend for addend in addends if isinstance(addend, Run)]
    foreign = {index: text_of_foreign(one) for index, one in enumerate(addends) if not isinstance(one, Run)}
    require_addable(runs, listener, [*foreign.values()])
    texts = [text_of_run(one, executor) if isinstance(one, Run) else foreign[at] for at, one in enumerate(addends)]
    names = [text.name if isinstance(one, Mapping) else str(one) for one, text in zip(named, texts, strict=True)]
    mixed = weigh(texts, weights, mixture, names)
    options = make_options(CountOptions, given)
    counting, cutting = options.of_stage("count"), cut_by(pattern_of(options))
    if runs:
        own = runs[0].manifest
        asked = {name: counting[name] for name in given if name in counting}
        manifest.refuse_other_options(runs[0].directory, "counting", own.counting, asked)
        counting, cutting = own.counting, own.cutting
    weighted = any(text.weight != (1, 1) for text in mixed) or any(run.manifest.weighted for run in runs)
    source = Source(
        COMBINED,
        fingerprint(sorted([text.key, *text.weight] for text in mixed)),
        described(names, [Fraction(*text.weight) for text in mixed]),
        mixed,
        weighted=weighted,
        mixture=mixture.named(names) if mixture is not None and str(mixture) else None,
        counted=not_combined(runs, mixed),
    )
    return Combination(addends, counting, cutting, source, mixed)


def _is_counts(where: Location) -> bool:
    return where.suffix == ".parquet"


def _refuse_unfit(named: Sequence[Location | Mapping[Any, Any]], mixture: Mixture | None) -> None:
    """Raise `UsageError` for what cannot be added up whatever it holds."""
    if not named:
        raise UsageError("combine needs runs, or files of counts; name one or more")
    paths = [one for one in named if not isinstance(one, Mapping)]
    for index, path in enumerate(paths):
        if any(same_location(path, other) for other in paths[:index]):
            what = "file" if _is_counts(path) else "run"
            raise UsageError(f"the {what} {path} is named twice; name it once, with the sum of its weights")
    if mixture is not None and (len(paths) < len(named) or any(map(_is_counts, paths))):
        raise UsageError(
            "--temperature and --share weigh runs, whose bytes are known: combine each file of counts into a run first"
        )


def text_of_run(run: Run, executor: Executor) -> Text:
    """Return a run as a text; its bytes are those of its pre-tokens, with its own weights."""
    size = require_counted(run, executor).statistics.counted_bytes
    return Text(absolute(run.directory.location), run.counter[1], bytes=size)


def copy_counts(location: Location, given: Mapping[str, Any], executor: Executor, listener: Listener) -> Location:
    """Make a run of the counts of another one; what is known of where they came from is kept."""
    run, options = manifest.require(location), making_of(given)
    if (source := run.manifest.source) is None:
        combination = combination_of([location], (), None, {}, executor, listener)
    else:
        own = [text_of_run(run, executor)]
        combination = Combination([run], run.manifest.counting, run.manifest.cutting, source, own)
    return write_combination(combination, options, executor, listener).directory


def copy_run(location: Location, given: Mapping[str, Any], executor: Executor, listener: Listener) -> Location:
    """Make a run of the inputs of another one, by copies of its counters: their weights may be others then.

    A copy that was stopped is completed. Raises `RunDirectoryError` if the output holds other counts.
    """
    run, options = manifest.require(location), making_of(given)
    require_counted(run, executor)
    with opened(options, executor, listener) as (_, directory):
        stored = None if options.overwrite else manifest.load(directory.location)
        if stored is None:
            directory.refuse_linked_directories()
            if not options.overwrite:
                directory.refuse_foreign_files()
            directory.refuse_corpus_inside(file.path for file in run.manifest.plan.files)
            kept = replace(run.manifest, merging=None, vocab_size=None, tokenizers=(), written={}, special={})
            stored = replace_run(Run(directory, kept), results=True)
        originals, copies = run.chunk_counters(), stored.chunk_counters()
        if [mark for _, mark in originals] != [mark for _, mark in copies]:
            raise RunDirectoryError(
                f"{directory} holds other counts than {location}; choose another --output, or start again with "
                "--overwrite"
            )
        of_copies = {copy: original for (original, _), (copy, _) in zip(originals, copies, strict=True)}
        of_copies[stored.counter_path] = run.counter_path
        for (copy, original), is_there in zip(of_copies.items(), existing([*of_copies]), strict=True):
            if not is_there:
                with whole_file(copy) as partial, open_file(original) as source, partial.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    return directory.location


def making_of(given: Mapping[str, Any]) -> OutputOptions:
    """Return the options that say where a new run is made, among all that were given for it."""
    names = {option.name for option in fields(OutputOptions)}
    return make_options(OutputOptions, {name: value for name, value in given.items() if name in names})


def write_combination(
    combination: Combination, options: OutputOptions, executor: Executor, listener: Listener
) -> Summary:
    """Write the run of a combination."""
    unread = {**combination.counting, **{name: RECORDS[name].default for name in READING_OPTIONS}}
    locations = [*(run.directory.location for run in combination.runs), *combination.files]
    if options.output is not None and any(same_location(options.output, location) for location in locations):
        raise UsageError(f"--output {options.output} is one of the runs to combine; choose another")
    with opened(options, executor, listener) as (runner, directory):
        for path in locations:  # as they are named, and with links resolved
            names = [path.absolute(), path.resolve()] if isinstance(path, Path) else [path]
            directory.refuse_corpus_inside(map(str, names), "one of the runs to combine")
        new = Run(directory, Manifest(unread, combination.cutting, source=combination.source))
        if runner.part is not None:
            return _write_part(runner, new, options, combination)
        with take_counts(runner, new, options, partial(combination.sum, runner)) as (run, counted):
            return report.write_summary(runner, run, counted)


def _write_part(runner: Runner, new: Run, options: OutputOptions, combination: Combination) -> Summary:
    if len(combination.runs) < len(combination.addends):
        raise UsageError("--part combines runs: combine files of counts without it")
    total = combination.sum(runner, new, lambda _: Path())
    run, done = take_part(runner, new, options, total)
    facts = as_counted(run, CounterFacts(0, total.statistics)).facts
    return report.summary_of(runner, run, facts, part=done)


def not_combined(runs: Sequence[Run], mixed: Sequence[Text]) -> tuple[Text, ...]:
    """Return the runs of which these were combined, if any was, each with the product of its weights."""
    if not any(map(_runs_in, runs)):
        return ()
    counted = list[Text]()
    for run, whole in zip(runs, (text for text in mixed if text.is_run), strict=True):
        for part in _runs_in(run) or (replace(whole, weight=(1, 1)),):
            weight = Fraction(*whole.weight) * Fraction(*part.weight)
            counted.append(replace(part, weight=(weight.numerator, weight.denominator)))
    return tuple(counted)


def _runs_in(run: Run) -> tuple[Text, ...]:
    parts = run.manifest.source.parts if run.manifest.source else ()
    return parts if all(text.is_run for text in parts) else ()


def require_addable(runs: Sequence[Run], listener: Listener, foreign: Sequence[Text] = ()) -> None:
    """Refuse runs whose pre-tokens are different things, or texts of which one is in two; warn of what may be in both.

    Their sum would count that text twice.
    """
    for run in runs[1:]:
        require_comparable(runs[0], run)
    known, copied = dict[Identity, str](), dict[Identity, str]()
    several = len(runs) + len(foreign) > 1
    counted: list[tuple[str, dict[Identity, str]]] = [
        (str(run.directory), dict(_texts_of(run, listener))) for run in runs if several
    ]
    counted += [(text.name, {_identity(text): text.name}) for text in foreign]
    for name, texts in counted:
        if shared := [key for key in texts if key in known]:
            both = [key for key in shared if len(key) == max(map(len, shared))]  # files, if there are any
            more = f" and {len(both) - 1:,} more" if len(both) > 1 else ""
            raise UsageError(
                f"{known[both[0]]} and {name} have both counted {texts[both[0]]}{more}, which their sum would count "
                "twice: combine runs without text in common, and give a run a larger --weight if its text is to count "
                "more"
            )
        files = {key[1:]: text for key, text in texts.items() if len(key) > _NO_FILE}
        if alike := [text for key, text in files.items() if key in copied]:
            first = copied[next(key for key in files if key in copied)]
            same = f"{alike[0]} has the size and the samples of {first}"
            count = format_count(len(alike), "files")
            listener(Notice("warning", f"{name} counts {count} that other runs seem to count too: {same}"))
        known |= dict.fromkeys(texts, name)
        copied |= files


def _identity(text: Text) -> Identity:
    return (text.key,) if text.is_run else (text.key, "counts")


def _texts_of(run: Run, listener: Listener) -> Iterator[tuple[Identity, str]]:
    """List what a run has counted, with names: itself, the texts that it was combined of, and their files."""
    stored, source = run.manifest, run.manifest.source
    yield (stored.counter_fingerprint(),), str(run.directory)
    if source is None:
        left_out = {number for number, weight in enumerate(stored.weights) if not Fraction(weight)}
        for index, file in enumerate(stored.plan.files):
            if not (left_out and stored.plan.owners[index] in left_out):
                field = "" if file.format == "text" else stored.counting["text_field"]
                yield (resolved(file.path), file.size, file.digest, field), file.path
        return
    if not source.texts:
        yield (source.kind, source.digest), source.description
    for text in (*source.texts, *source.parts):
        yield _identity(text), text.name
    for text in (text for text in source.parts if text.is_run):
        try:
            counted = manifest.require(location(text.name))
            if counted.manifest.counter_fingerprint() == text.key:
                yield from _texts_of(counted, listener)
                continue
        except (PipelineError, OSError):
            pass
        why = f"{text.name}, whose counts are in {run.directory}, is gone or was counted again"
        listener(Notice("warning", f"{why}: whether another run has its files too is unknown"))


def require_comparable(first: Run, other: Run) -> None:
    """Raise `RunDirectoryError` naming the first thing that makes two runs' pre-tokens different things."""
    here, there = first.manifest.pre_tokens, other.manifest.pre_tokens
    for name in (name for name in here | there if here.get(name) != there.get(name)):
        raise RunDirectoryError(
            f"{first.directory} and {other.directory} cannot be combined: {name} is {here.get(name)!r} in the one and "
            f"{there.get(name)!r} in the other; count one of them again, as the other was"
        )
