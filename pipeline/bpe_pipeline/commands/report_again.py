"""`report`: make a run's report again, with a larger sample, held-out text and other tokenizers to compare with."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.printable import printable_lines
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands.held_out import choice_of, short_names, split_names
from bpe_pipeline.commands.report import (
    RANDOM,
    SAMPLE_BYTES,
    counters_of,
    load,
    needed_bytes,
    sections_of,
    shortage_of,
    text_of,
    write_files,
)
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import files_in_both
from bpe_pipeline.corpus.sampling import Choice, choose
from bpe_pipeline.corpus.skipped_or_altered import in_words
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import merge, merge_list
from bpe_pipeline.reports import drawing
from bpe_pipeline.reports.compared import cached_or_reference, load_compared, written_roles
from bpe_pipeline.reports.drawing import HINT, images, require_figures, write_figures
from bpe_pipeline.reports.numbers import REFERENCES, Numbers
from bpe_pipeline.reports.numbers_worker import NumbersTask, compute_numbers
from bpe_pipeline.reports.parts import Part, Table, as_text
from bpe_pipeline.reports.plots import page_figures
from bpe_pipeline.reports.result import NOT_STORED, Result
from bpe_pipeline.reports.summary import Report, Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.extensions import maker_of
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.memory import Broker
from bpe_pipeline.run.options import WorkOptions, flag_of
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.shards.encoded_corpus import find_result
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import single_output
from bpe_pipeline.tokenizer.export import Trained, facts_of
from bpe_pipeline.tokenizer.formats.fields import CARD
from bpe_pipeline.tokenizer.formats.files import tokenizer_path


@dataclass(frozen=True)
class Extras:
    """What a report has only if asked for: tokenizers to compare with and text that was held out, both with names if
    they are NAME=PATH. name: of this tokenizer.

    output: the page, with its numbers next to it; None: the run directory. figures: a directory for them as files.
    """

    compare: Sequence[Location] = ()
    held_out: Sequence[Location] = ()
    output: Location | None = None
    overwrite: bool = False
    figures: Location | None = None
    name: str | None = None

    def outputs(self) -> tuple[Location, Location] | None:
        """Return the paths of the page and of its numbers; None: in the run directory."""
        if self.figures is not None:
            require_figures(self.figures, overwrite=self.overwrite)
        elif self.output is None and self.overwrite:
            raise UsageError(
                "--overwrite is for --output and --figures; the report in the run directory is replaced without it"
            )
        if self.output is None:
            return None
        as_json = self.output.parent / f"{self.output.name.removesuffix('.html')}.json"
        return single_output(self.output, overwrite=self.overwrite), single_output(as_json, overwrite=self.overwrite)

    def command(self, path: Location) -> tuple[str, ...]:
        """Return the words of the command that makes a report of a path with these; none of a plain one."""
        named = [("--held-out", self.held_out), ("--compare", self.compare)]
        words = [word for flag, paths in named if paths for word in (flag, *map(str, paths))]
        words += [] if self.name is None else ["--name", self.name]
        return ("bpe-pipeline", "report", str(path), *words) if words else ()

    def refuse(self, path: Location) -> None:
        """Refuse all of it where a report has no such thing."""
        if given := [flag_of(name) for name, value in vars(self).items() if value]:
            raise UsageError(f"{path} is no trained tokenizer, and its report is only printed: leave out {given[0]}")


@dataclass(frozen=True)
class WrittenReport(Result):
    """The files of a report that was made again, its numbers, a hint if the page has no figures, and the
    verdict."""

    written: tuple[Location, ...]
    hint: str = ""
    numbers: Numbers | None = None
    parts: tuple[Part, ...] = field(default=(), metadata=NOT_STORED)

    event = "reported"

    def shown(self) -> Iterable[Part]:
        """Return the verdict."""
        return self.parts

    def _repr_html_(self) -> str:
        return super()._repr_html_() + ("" if self.numbers is None else images(page_figures(self.numbers)))

    @property
    def brief(self) -> str:
        """The paths, a line each."""
        return printable_lines(self.written)

    def text(self, columns: int) -> str:
        """Return the verdict, and the paths, whole."""
        return f"{as_text(self.parts, columns)}\n\n{self.brief}"


def run_report(path: Location, extras: Extras, options: WorkOptions, executor: Executor, listener: Listener) -> Result:
    """Make the report of a tokenizer again. path: the tokenizer in its run, the run, for its own, or rows.

    Raises `UsageError` for a run without a tokenizer, `InputError` for paths that cannot be read.
    """
    encoded = find_result(path)
    if (maker := maker_of(path, encoded and encoded[1].made_by)) is not None:
        extras.refuse(path)
        of_extension: Result = maker.report(path, executor)
        return of_extension
    outputs = extras.outputs()
    run, home = manifest.tokenizer_named(path)
    if run.manifest.merging is None or not (home / "tokenizer.json").exists():
        raise UsageError(f"{path} has no tokenizer yet: bpe-pipeline merge {run.directory}")
    of_run = run.manifest.options_of(home.name)
    [size] = of_run.vocab_size
    if (learned := merge_list.load(*merge.learning_of(run).merges)) is None:
        raise RunDirectoryError(f"{run.merges_path} is missing or belongs to another run: merge first")
    trained = Trained(learned, pattern_of(of_run), of_run)
    task = _task_of(run, home, trained, extras, listener)
    loading = size * 1000 * (1 + len(extras.compare))  # a token takes that much while a tokenizer is read from its file
    sample_bytes = max(SAMPLE_BYTES, sum(one.file.size for one in task.choice.chosen) if task.choice.languages else 0)
    if shortage := shortage_of(needed_bytes(size, size * 8, sample_bytes) + loading, Broker.of(options.memory_limit)):
        raise UsageError(f"the report takes {shortage}: give a larger --memory-limit, or compare with fewer tokenizers")
    with contextlib.nullcontext() if outputs is not None else run.directory.locked():
        numbers = executor.one(compute_numbers, task)
        run = manifest.require(run.directory.location)
        stored = _stored_report(run, home, trained, executor, listener)
        made_again = replace(stored, numbers=numbers, made_by=extras.command(path))
        written = write_files(run, made_again, of_run, home, outputs)
        if (card := home / CARD) in written:
            manifest.store_written(run, [card])
    if numbers.unread:
        lacks = "a part of its sample" if numbers.sample else "the sample"
        lost = f"{len(numbers.unread):,} of {format_count(len(task.choice.chosen), 'files')}"
        changed = f"{lost} changed, cannot be read or have no text: {numbers.unread[0]}"
        listener(Notice("warning", f"the report is without {lacks}: {changed}; --held-out measures on other text"))
    for altered in in_words(numbers.sample.losses) if extras.held_out and numbers.sample is not None else ():
        listener(Notice("warning", f"--held-out: {altered}"))
    hint = "" if drawing.can_draw() else f"the page has no figures; for these: {HINT}"
    if hint:
        listener(Notice("info", hint))
    shown = made_again.parts()
    if extras.figures is not None:
        tables = [part for parts in shown.values() for part in parts if isinstance(part, Table)]
        write_figures(extras.figures, page_figures(numbers), tables, overwrite=extras.overwrite)
        written = (*written, extras.figures)
    return WrittenReport(written, hint, numbers, tuple(shown["verdict"]))


def _task_of(run: Run, home: Location, trained: Trained, extras: Extras, listener: Listener) -> NumbersTask:
    """Return the task of a report with these extras; warns if text that is held out was trained on."""
    text = text_of(run)
    if extras.held_out:
        choice, files = choice_of(extras.held_out)
        trained_on, description = _about_held_out(split_names(extras.held_out)[1], files, text.files)
    else:
        choice = Choice(choose(text.files, SAMPLE_BYTES), text.names)
        trained_on, description = "", RANDOM + text.left_out
    if trained_on:
        listener(Notice("warning", f"--held-out names text that was trained on: {trained_on}"))
    name = extras.name or NumbersTask.name
    others = _tokenizers_of(extras.compare, name, listener)
    return NumbersTask(
        trained,
        choice,
        "text" if extras.held_out else text.text_field,
        description,
        held_out=bool(extras.held_out) and not trained_on,
        skip_changed=not extras.held_out,
        written_roles=partial(written_roles, home),
        compare=tuple((name, partial(load_compared, one)) for name, one in others.items() if not isinstance(one, str)),
        references=tuple(one for one in others.values() if isinstance(one, str)) if others else tuple(REFERENCES),
        weighted=run.manifest.weighted,
        counters=counters_of(run),
        name=name,
    )


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


def _stored_report(run: Run, home: Location, trained: Trained, executor: Executor, listener: Listener) -> Report:
    """Return the stored report, or one without times if that is of another tokenizer, missing or damaged."""
    [size] = trained.options.vocab_size
    facts = facts_of(trained, size, trained.model(size).vocabulary)
    if (stored := load(run)) is not None and stored.summary.vocabulary == facts:
        there = stored.summary.tokenizer_directory
        if there is not None and there.name == home.name:
            return stored
    written = [name.partition("/")[2] for name in run.manifest.written if name.startswith(f"{home.name}/")]
    summary = Summary(
        run.directory.location,
        trained.options.pattern,
        require_counted(run, executor).facts,
        vocabulary=facts,
        tokenizer_directory=home,
        written=tuple(written),
        sections=sections_of(executor, run, trained, listener),
    )
    return Report(summary)
