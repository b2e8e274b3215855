"""`combine`: the counts of several runs, or of other programs, each with a weight, become those of a new run.

So mixtures of corpora are tried without counting again. Weights are relative: they are scaled so that the smallest is
1. Every count is multiplied by the weight of its term, rounded half up, and then the terms are added; the arithmetic is
of whole numbers, so their order changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands import report
from bpe_pipeline.corpus.listing import resolved
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine import take_counts, take_part
from bpe_pipeline.counts.counted import as_counted, require_counted, sum_of, terms_of
from bpe_pipeline.counts.counter_file import Counter, CounterFacts, PartPath, Sum, Term
from bpe_pipeline.counts.foreign import Foreign, read_all, text_of_foreign
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.make_options import make_options, refuse_other_options
from bpe_pipeline.run.manifest import COMBINED, Manifest, Run
from bpe_pipeline.run.mixture import Mixture, mixture_of
from bpe_pipeline.run.options import READING_OPTIONS, RECORDS, CountOptions, OutputOptions
from bpe_pipeline.run.patterns import cut_by, pattern_of
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import Runner, opened
from bpe_pipeline.run.texts import Source, Text
from bpe_pipeline.run.values import parse_weight
from bpe_pipeline.storage import Location, Remote, absolute, location, same_location

Identity = tuple[object, ...]  # of a counted text: a counter, or a file
_CUTTING = ("pattern", "normalize", "special_tokens")  # the options that say what foreign pre-tokens are
_NO_FILE = 2  # at most that many members


@dataclass(frozen=True)
class Combination:
    """What becomes a run of this manifest, with as many texts as there are addends."""

    addends: Sequence[Run | Foreign]
    manifest: Manifest

    @property
    def runs(self) -> list[Run]:
        """The runs among the addends."""
        return [addend for addend in self.addends if isinstance(addend, Run)]

    @property
    def locations(self) -> list[Location]:
        """Where the addends are; a mapping is nowhere."""
        places = (addend.directory.location if isinstance(addend, Run) else addend for addend in self.addends)
        return [place for place in places if not isinstance(place, Mapping)]

    def sum(self, runner: Runner, run: Run, part_path: PartPath) -> Sum:
        """Return the terms of the run that is made; foreign counts are read first."""
        pairs = list(zip(self.addends, self.manifest.texts, strict=True))
        foreign = [(addend, text.key) for addend, text in pairs if not isinstance(addend, Run)]
        read = iter(read_all(runner, run, part_path, foreign) if foreign else ())
        terms, statistics = list[Term](), ChunkStatistics()
        one: tuple[Sequence[Counter], ChunkStatistics]
        for addend, text in pairs:
            if isinstance(addend, Run):
                one = [addend.counter], require_counted(addend, runner.executor).statistics
            else:
                one = next(read)
            terms.append(Term(one[0], text.weight))
            statistics += one[1]
        return Sum(terms, statistics)


def directory_of(summary: Summary) -> Path | Remote:  # as the reference shows it
    """Return the run that was made."""
    return summary.directory


def combination_asked(options: Any, executor: Executor, listener: Listener) -> Combination:
    """Return what `combine` is asked to add up. options: of the command."""
    cutting = {name: value for name, value in options.explicit.items() if name in _CUTTING}
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
    options = make_options(CountOptions, given)
    counting, cutting = options.in_scope(Scope.COUNT), cut_by(pattern_of(options))
    if runs:
        own = runs[0].manifest
        asked = {name: counting[name] for name in given if name in counting}
        refuse_other_options(runs[0].directory, "counting", own.counting, asked)
        counting, cutting = own.counting, own.cutting
    made = combined(counting, cutting, texts)
    return Combination(addends, made.weighed(list(map(_factor, weights)) or None, mixture, names))


def combined(counting: Mapping[str, Any], cutting: dict[str, str], texts: Sequence[Text]) -> Manifest:
    """Return the manifest of the run of these texts, still without weights."""
    unread = {**counting, **{name: RECORDS[name].default for name in READING_OPTIONS}}
    return Manifest(unread, cutting, source=Source(COMBINED, "", ""), texts=tuple(texts))


def _factor(weight: Any) -> str:
    try:
        return str(parse_weight(weight))
    except ValueError as error:
        raise UsageError(f"--weight: expected {error}, not {str(weight)[:80]!r}") from None


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
        if isinstance(path, Path) and path.is_file() and not _is_counts(path):
            raise UsageError(
                f"{path} is neither a run nor a file of counts: name the directory of a run, or FILE.parquet with the "
                "columns pre_token and count"
            )
    if mixture is not None and (len(paths) < len(named) or any(map(_is_counts, paths))):
        raise UsageError(
            "--temperature and --share weigh runs, whose bytes are known: combine each file of counts into a run first"
        )


def text_of_run(run: Run, executor: Executor) -> Text:
    """Return a run as a text; its bytes are those of its pre-tokens, with its own weights."""
    size, weighted = require_counted(run, executor).statistics.counted_bytes, run.manifest.weighted
    return Text(absolute(run.directory.location), run.counter[1], bytes=size, is_run=True, weighted=weighted)


def copy_run(run: Run, weighed: Manifest, options: OutputOptions, executor: Executor, listener: Listener) -> Location:
    """Make a run of the same terms as another one, which may have other weights in this manifest.

    A copy that was stopped is completed. Raises `RunDirectoryError` if the output holds other counts.
    """
    origin = absolute(run.directory.location) if run.manifest.source is None else ""
    counted_in = weighed.counted_in or origin
    require_counted(run, executor)

    def terms(copy: Run, _: PartPath) -> Sum:
        return sum_of([Term([run.counter])] if run.counter[1] == copy.counter[1] else terms_of(copy), executor)

    with opened(options, executor, listener) as (runner, directory):
        new = Run(directory, replace(weighed.unlearned(), counted_in=counted_in, first_stage=None))
        stored = None if options.overwrite else manifest.load(directory.location)
        if stored is not None and _without_weights(stored) != _without_weights(new):
            raise RunDirectoryError(
                f"{directory} holds other counts than {run.directory}; choose another --output, or start again with "
                "--overwrite"
            )
        if stored is None:
            directory.refuse_corpus_inside(file.path for file in run.manifest.plan.files)
        if stored is None or not stored.counter_path.exists():
            with take_counts(runner, stored or new, options, terms):
                pass
    return directory.location


def _without_weights(run: Run) -> str:
    texts = tuple(replace(text, weight=(1, 1)) for text in run.manifest.texts)
    return run.changed(texts=texts).manifest.counter_fingerprint


def write_combination(
    combination: Combination, options: OutputOptions, executor: Executor, listener: Listener
) -> Summary:
    """Write the run of a combination."""
    locations = combination.locations
    if options.output is not None and any(same_location(options.output, location) for location in locations):
        raise UsageError(f"--output {options.output} is one of the runs to combine; choose another")
    with opened(options, executor, listener) as (runner, directory):
        for path in locations:  # as they are named, and with links resolved
            names = [path.absolute(), path.resolve()] if isinstance(path, Path) else [path]
            directory.refuse_corpus_inside(map(str, names), "one of the runs to combine")
        new = Run(directory, combination.manifest)
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


def require_addable(runs: Sequence[Run], listener: Listener, foreign: Sequence[Text] = ()) -> None:
    """Refuse runs whose pre-tokens are different things, or texts of which one is in two; warn of what may be in both.

    Their sum would count that text twice.
    """
    for run in runs[1:]:
        require_comparable(runs[0], run)
    if len(runs) + len(foreign) < 2:
        return
    known, copied = dict[Identity, str](), dict[Identity, str]()
    counted = [(str(run.directory), dict(_texts_of(run, listener))) for run in runs]
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
    yield (stored.counter_fingerprint,), str(run.directory)
    if source is None:
        left_out = {number for number, text in enumerate(stored.texts) if not text.weight[0]}
        for index, file in enumerate(stored.plan.files):
            if not (left_out and stored.plan.owners[index] in left_out):
                field = stored.counting["text_field"] if file.kind.has_fields else ""
                yield (resolved(file.path), file.size, file.digest, field), file.path
        return
    if not stored.texts:
        yield (source.kind, source.digest), source.description
    for text in stored.texts:
        yield _identity(text), text.name
    for text in (text for text in stored.texts if text.is_run):
        try:
            counted = manifest.require(location(text.name))
            if counted.manifest.counter_fingerprint == text.key:
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
