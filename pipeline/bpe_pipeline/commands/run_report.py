"""The story of `report`: its numbers are computed from text that was held out, or a sample, and for other tokenizers.

Text and tokenizers are named as PATH or NAME=PATH.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.commands.report import (
    SAMPLE_BYTES,
    needed_bytes,
    prepare_page,
    sections_of,
    shortage_of,
    task_of,
    text_of,
    write_files,
)
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import files_in_both, find_sample
from bpe_pipeline.corpus.sampling import Choice, Chosen, choose
from bpe_pipeline.corpus.skipped_or_altered import in_words
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import merge, merge_list
from bpe_pipeline.reports import drawing
from bpe_pipeline.reports.compared import cached_or_reference, load_compared, written_roles
from bpe_pipeline.reports.drawing import require_figures, write_figures
from bpe_pipeline.reports.numbers import Numbers
from bpe_pipeline.reports.numbers_worker import NumbersTask, compute_numbers
from bpe_pipeline.reports.page import plain_page
from bpe_pipeline.reports.parts import Rows, Table
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.reports.summary import Report, Summary, WrittenReport
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.memory import Broker
from bpe_pipeline.run.options import flag_of
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.storage import Location, location
from bpe_pipeline.storage.atomic import single_output, write_whole
from bpe_pipeline.tokenizer.export import Trained, facts_of
from bpe_pipeline.tokenizer.formats.fields import CARD
from bpe_pipeline.tokenizer.formats.files import tokenizer_path

if TYPE_CHECKING:
    from bpe_pipeline.commands.public.inspect import ReportOptions

_OPTION = "--held-out"
_LANGUAGES_BYTES = 1 << 26  # of files that are read whole: 205 languages with 1,000 sentences have 40 MiB


def run_report(options: "ReportOptions", executor: Executor, listener: Listener) -> WrittenReport:
    """Make the report of a tokenizer again, which is named in its run, or by the run, for its own.

    Raises `UsageError` for a run without a tokenizer, `InputError` for paths that cannot be read.
    """
    outputs, (run, home) = _outputs(options), manifest.tokenizer_named(options.run)
    if run.manifest.merging is None or not (home / "tokenizer.json").exists():
        raise UsageError(f"{options.run} has no tokenizer yet: bpe-pipeline merge {run.directory}")
    of_run = run.manifest.options_of(home.name)
    if (learned := merge_list.load(*merge.learning_of(run).merges)) is None:
        raise RunDirectoryError(f"{run.merges_path} is missing or belongs to another run: merge first")
    trained = Trained(learned, pattern_of(of_run), of_run)
    text = text_of(run)
    task = _added_to(task_of(run, trained, text, SAMPLE_BYTES), options, home, text.files, listener)
    broker = Broker.of(options.memory_limit)
    if shortage := shortage_of(_needed_by(task) + (drawing.FILES_BYTES if options.figures is not None else 0), broker):
        raise UsageError(f"the report takes {shortage}: give a larger --memory-limit, or compare with fewer tokenizers")
    with contextlib.nullcontext() if outputs is not None else run.directory.locked():
        numbers = executor.one(compute_numbers, task)
        run = manifest.require(run.directory.location)
        report = Report(_summary_of(run, home, trained, executor, listener), numbers)
        prepare_page(broker, alone=True)
        written = write_files(run, report, of_run, home, outputs)
        if (card := home / CARD) in written:
            manifest.store_written(run, [card])
    _warn_of_sample(task, numbers, listener)
    return _with_figures(options, report, written, listener)


def _needed_by(task: NumbersTask) -> int:
    """Return the memory that a report takes: a token takes a kilobyte while a tokenizer is read from its file."""
    [size], choice = task.trained.options.vocab_size, task.choice
    sample_bytes = max(SAMPLE_BYTES, sum(one.file.size for one in choice.chosen) if choice.languages else 0)
    return needed_bytes(size, size * 8, sample_bytes) + size * 1000 * (1 + len(task.compare))


def _warn_of_sample(task: NumbersTask, numbers: Numbers, listener: Listener) -> None:
    """Warn of files of the sample that gave no text, and of what was altered in those that are held out."""
    if numbers.unread:
        lacks = "a part of its sample" if numbers.sample else "the sample"
        lost = f"{len(numbers.unread):,} of {format_count(len(task.choice.chosen), 'files')}"
        changed = f"{lost} changed, cannot be read or have no text: {numbers.unread[0]}"
        listener(Notice("warning", f"the report is without {lacks}: {changed}; --held-out measures on other text"))
    if not task.skip_changed and numbers.sample is not None:
        for altered in in_words(numbers.sample.losses):
            listener(Notice("warning", f"--held-out: {altered}"))


def _summary_of(run: Run, home: Location, trained: Trained, executor: Executor, listener: Listener) -> Summary:
    """Return what is known of a tokenizer that exists; how long it took is in the log of its run."""
    [size] = trained.options.vocab_size
    return Summary(
        run.directory.location,
        trained.options.pattern,
        require_counted(run, executor).facts,
        vocabulary=facts_of(trained, size, trained.model(size).vocabulary),
        tokenizer_directory=home,
        written=tuple(name.partition("/")[2] for name in run.manifest.written if name.startswith(f"{home.name}/")),
        sections=sections_of(executor, run, trained, listener),
    )


def _outputs(options: "ReportOptions") -> tuple[Location, Location] | None:
    """Return the paths of the page and of its numbers; None: in the run directory."""
    if options.figures is not None:
        require_figures(options.figures, overwrite=options.overwrite)
    elif options.output is None and options.overwrite:
        raise UsageError(
            "--overwrite is for --output and --figures; the report in the run directory is replaced without it"
        )
    if options.output is None:
        return None
    output = partial(single_output, overwrite=options.overwrite)
    return output(options.output), output(options.output.parent / f"{options.output.name.removesuffix('.html')}.json")


def _added_to(
    task: NumbersTask, options: "ReportOptions", home: Location, corpus: Sequence[CorpusFile], listener: Listener
) -> NumbersTask:
    """Return the task of a report with these; warns if text that is held out was trained on. corpus: of the run."""
    name = options.name or task.name
    if others := _tokenizers_of(options.compare, name, listener):
        loaders = ((label, partial(load_compared, at)) for label, at in others.items() if not isinstance(at, str))
        references = tuple(at for at in others.values() if isinstance(at, str))
        task = replace(task, compare=tuple(loaders), references=references)
    task = replace(task, written_roles=partial(written_roles, home), name=name)
    if not options.held_out:
        return task
    choice, files = choice_of(options.held_out)
    trained_on, description = _about_held_out(split_names(options.held_out)[1], files, corpus)
    if trained_on:
        listener(Notice("warning", f"--held-out names text that was trained on: {trained_on}"))
    return replace(
        task,
        choice=choice,
        text_field="text",
        description=description,
        skip_changed=False,
        held_out=not trained_on,
    )


def _with_figures(
    options: "ReportOptions", report: Report, written: Sequence[Location], listener: Listener
) -> WrittenReport:
    """Return a report that is written, after its figures are, if they are wanted."""
    if why := drawing.why_no_figures():
        listener(Notice("info", f"the page has no figures{why}"))
    if options.figures is not None:
        tables = [part for part in report.shown() if isinstance(part, Table)]
        write_figures(options.figures, report.figures, tables, overwrite=options.overwrite)
        written = (*written, options.figures)
    verdict = (Rows(report.verdict, "Verdict"),)
    return WrittenReport(tuple(written), report.numbers, verdict, report.figures)


def report_of_directory(maker: Any, options: "ReportOptions", executor: Executor) -> Facts:
    """Return what an extension reports of a directory that it made, after writing it as a page, if it is wanted."""
    if unfit := [name for name in ("compare", "held_out", "figures", "name") if getattr(options, name)]:
        raise UsageError(f"{options.run} is no trained tokenizer: leave out {flag_of(unfit[0])}")
    outputs, report = _outputs(options), maker.report(options.run, executor)
    if outputs is not None:
        write_whole(outputs[0], plain_page(f"Report: {options.run}", report.shown()).encode(errors="replace"))
        write_whole(outputs[1], f"{json.dumps(report.to_json(), indent=1)}\n")
    of_path: Facts = report
    return of_path


def choice_of(paths: Sequence[Location]) -> tuple[Choice, tuple[CorpusFile, ...]]:
    """Choose a sample of files, or all of them if each has a name: they are languages then. Return all files, too."""
    names, locations = split_names(paths)
    named = [(name, path) for name, path in zip(names, locations, strict=True) if name]
    by_path = {file.path: name for name, path in named for file in find_sample([str(path)], _OPTION)}
    languages = tuple(dict.fromkeys(names)) if all(names) and len(set(names)) > 1 else ()
    files = find_sample(map(str, locations), _OPTION)
    chosen = _whole(files) if languages else choose(files, SAMPLE_BYTES)
    return Choice(chosen, by_path, languages), tuple(files)


def split_names(paths: Sequence[Location]) -> tuple[list[str], list[Location]]:
    """Split each NAME=PATH that is not itself a path; the name of another one is empty."""
    names, locations = list[str](), list[Location]()
    for path in paths:
        name, _, rest = str(path).partition("=")
        is_named = bool(name and rest) and "/" not in name and not (isinstance(path, Path) and path.exists())
        names.append(name if is_named else "")
        locations.append(location(re.sub(r"^([a-z]\w+):/(?!/)", r"\1://", rest)) if is_named else path)
    return names, locations


def _whole(files: Sequence[CorpusFile]) -> list[Chosen]:
    """Choose all of the files of languages; raises `UsageError` for more than a report reads."""
    if (total := sum(file.size for file in files)) > _LANGUAGES_BYTES:
        most = f"a report reads at most {format_bytes(_LANGUAGES_BYTES)}: give the same lines of each"
        raise UsageError(f"the files of {_OPTION} NAME=PATH have {format_bytes(total)}, and {most}")
    return [Chosen(file, _LANGUAGES_BYTES, (0,)) for file in files]


def short_names(paths: Sequence[Location]) -> list[str]:
    """Name tokenizers by the last component of their paths if these differ, else by the whole paths."""
    short = [path.parent.name if path.name in ("tokenizer", "tokenizer.json") else path.name for path in paths]
    return short if all(short) and len(set(short)) == len(short) else list(map(str, paths))


def _tokenizers_of(paths: Sequence[Location], own: str, listener: Listener) -> dict[str, Location | str]:
    """Return other tokenizers by the names that are shown: where each is, or the name of a reference."""
    labels, locations = split_names(paths)
    names = [label or short for label, short in zip(labels, short_names(locations), strict=True)]
    if (any(labels) or own != NumbersTask.name) and len({own, *names}) <= len(names):
        raise UsageError(f"--compare has a label twice, or that of this tokenizer: {', '.join(names)}")
    return {
        name: tokenizer_path(path)
        if not isinstance(path, Path) or path.exists()
        else cached_or_reference(str(path), listener)
        for name, path in zip(names, locations, strict=True)
    }


def _about_held_out(
    named: Sequence[Location], files: Sequence[CorpusFile], corpus: Sequence[CorpusFile]
) -> tuple[str, str]:
    """Say what of these files was trained on, if the corpus is known; and describe them for the report."""
    origin = f"From {', '.join(map(str, named))}."
    if not corpus:
        return "", f"{origin} Not checked: the run has no list of its corpus."
    known = files_in_both(files, corpus)
    if not known:
        return "", origin
    share = sum(file.size for file in known) / sum(file.size for file in files)
    names = ", ".join(file.path for file in known[:3]) + (", ..." if len(known) > 3 else "")
    trained_on = f"{len(known):,} of {format_count(len(files), 'files')}, {share:.0%} of the bytes: {names}"
    return trained_on, f"{origin} In the training corpus, itself or as a copy: {trained_on}."
