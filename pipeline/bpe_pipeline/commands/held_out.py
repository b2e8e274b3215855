"""What `report` is asked for besides its run: text that was held out, tokenizers to compare with, where it goes.

Text and tokenizers are named as PATH or NAME=PATH.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.commands.report import SAMPLE_BYTES
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import files_in_both, find_sample
from bpe_pipeline.corpus.sampling import Choice, Chosen, choose
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports import drawing
from bpe_pipeline.reports.compared import cached_or_reference, load_compared, written_roles
from bpe_pipeline.reports.drawing import require_figures, write_figures
from bpe_pipeline.reports.numbers_worker import NumbersTask
from bpe_pipeline.reports.page import plain_page
from bpe_pipeline.reports.parts import Rows, Table
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.reports.summary import Report, WrittenReport
from bpe_pipeline.run.options import flag_of
from bpe_pipeline.storage import Location, location
from bpe_pipeline.storage.atomic import single_output, write_whole
from bpe_pipeline.tokenizer.formats.files import tokenizer_path

_OPTION = "--held-out"
_LANGUAGES_BYTES = 1 << 26  # of files that are read whole: 205 languages with 1,000 sentences have 40 MiB


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

    @property
    def drawing_bytes(self) -> int:
        """The memory that drawing figures as files takes."""
        return drawing.FILES_BYTES if self.figures is not None else 0

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

    def added_to(
        self, task: NumbersTask, home: Location, corpus: Sequence[CorpusFile], listener: Listener
    ) -> NumbersTask:
        """Return the task of a report with these; warns if text that is held out was trained on. corpus: of the run."""
        name = self.name or task.name
        if others := _tokenizers_of(self.compare, name, listener):
            loaders = ((label, partial(load_compared, at)) for label, at in others.items() if not isinstance(at, str))
            references = tuple(at for at in others.values() if isinstance(at, str))
            task = replace(task, compare=tuple(loaders), references=references)
        task = replace(task, written_roles=partial(written_roles, home), name=name)
        if not self.held_out:
            return task
        choice, files = choice_of(self.held_out)
        trained_on, description = _about_held_out(split_names(self.held_out)[1], files, corpus)
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

    def with_figures(self, report: Report, written: Sequence[Location], listener: Listener) -> WrittenReport:
        """Return a report that is written, after its figures are, if they are wanted."""
        if why := drawing.why_no_figures():
            listener(Notice("info", f"the page has no figures{why}"))
        if self.figures is not None:
            tables = [part for part in report.shown() if isinstance(part, Table)]
            write_figures(self.figures, report.figures, tables, overwrite=self.overwrite)
            written = (*written, self.figures)
        verdict = (Rows(report.verdict, "Verdict"),)
        return WrittenReport(tuple(written), report.numbers, verdict, report.figures)

    def of_extension(self, maker: Any, path: Location, executor: Executor) -> Facts:
        """Return what an extension reports of a directory that it made, after writing it as a page, if it is wanted."""
        if given := [
            flag_of(name) for name, value in vars(self).items() if value and name not in ("output", "overwrite")
        ]:
            raise UsageError(f"{path} is no trained tokenizer: leave out {given[0]}")
        outputs, report = self.outputs(), maker.report(path, executor)
        if outputs is not None:
            write_whole(outputs[0], plain_page(f"Report: {path}", report.shown()).encode(errors="replace"))
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
