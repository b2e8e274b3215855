"""The story of the report: a worker computes numbers, then report.json, report.txt and report.html are written.

After training it is quick, and its failures are warnings: the run has its tokenizer. `report` makes it again with a
larger sample, held-out text, and other tokenizers to compare with.
"""

import contextlib
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.base.errors import PipelineError, RunDirectoryError, UsageError
from pipeline.base.events import Listener, Notice
from pipeline.base.printable import printable_lines
from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.listing import files_in_both, find_files
from pipeline.corpus.sampling import choose
from pipeline.counts.count import Counted, require_counted
from pipeline.executors import Executor
from pipeline.merges import merge, merge_list
from pipeline.merges.merge_list import MergeList
from pipeline.reports import model_card, page
from pipeline.reports.compared import REFERENCES, cached_or_reference
from pipeline.reports.numbers import Numbers
from pipeline.reports.numbers_worker import NumbersTask, compute_numbers
from pipeline.reports.result import Result
from pipeline.reports.summary import ChosenBy, Report, Summary
from pipeline.reports.tables import how_made, options_of
from pipeline.run import manifest
from pipeline.run.manifest import Run
from pipeline.run.memory import Broker
from pipeline.run.options import WorkOptions
from pipeline.run.patterns import tokenizer_pattern
from pipeline.run.runner import Runner
from pipeline.storage import MANIFEST_BYTES, Location, read_bounded
from pipeline.storage.atomic import single_output, whole_file, write_whole
from pipeline.tokenizer.export import Check, Trained, facts_of
from pipeline.tokenizer.formats.files import tokenizer_path

STAGE = "reporting"
EXTENT = "BPE_PIPELINE_REPORT"
"""An environment variable: `train` and `merge` write everything (`page`, the default), no page (`text`), or only the
summary (`none`), which suits many runs in a row."""
_log = logging.getLogger(__name__)
_LEAST_SAMPLE_BYTES, _SAMPLE_BYTES = 1 << 16, 21 << 19
_OF_CORPUS = 1 << 12  # after training the sample is a part of the corpus that takes next to no time
_RANDOM = (
    "Drawn at random, the same each time; to measure on text of your own: bpe-pipeline report RUN --held-out PATH."
)
_SMALL = _RANDOM.replace("; to", "; to draw 10 MiB: bpe-pipeline report RUN; to")  # after training


@dataclass(frozen=True)
class Extras:
    """What a report has only if asked for: tokenizers to compare with, text that was held out, and the hidden size of a
    model, to say what its embedding costs."""

    compare: Sequence[Location] = ()
    held_out: Sequence[Location] = ()
    hidden_size: int | None = None


@dataclass(frozen=True)
class WrittenReport(Result):
    """The files of a report that was made again, and a hint about one that was not."""

    written: tuple[Location, ...]
    hint: str = ""

    event = "reported"

    @property
    def brief(self) -> str:
        """The paths, a line each."""
        return printable_lines(self.written)

    def __str__(self) -> str:
        return self.brief


def _sample_bytes(learned: MergeList) -> int:
    """Return the size of the sample after training; `report` takes the full size."""
    return min(max(learned.bytes // _OF_CORPUS, _LEAST_SAMPLE_BYTES), _SAMPLE_BYTES)


def _needed_bytes(tokens: int, token_bytes: int, sample_bytes: int) -> int:
    """Memory that computing numbers takes: at all, for each token and its bytes, and for the sample."""
    return (14 << 20) + tokens * 480 + token_bytes * 6 + sample_bytes * 8


def _least_bytes(learned: MergeList) -> int:
    """Memory that computing numbers takes after training."""
    return _needed_bytes(len(learned), learned.token_bytes(), _sample_bytes(learned))


def _shortage(needed_bytes: int, broker: Broker) -> str:
    """Say what is needed and what of the memory limit nothing uses now; empty if it is enough."""
    free_bytes = broker.unused_bytes()
    there = f"{format_bytes(needed_bytes)} and there are {format_bytes(max(free_bytes, 0))}"
    return "" if needed_bytes <= free_bytes else there


def fits_next_to(other_bytes: int, runner: Runner, learned: MergeList) -> bool:
    """Whether numbers can be computed here while other work takes `other_bytes`."""
    return not runner.nodes and not _shortage(_least_bytes(learned) + other_bytes, runner.broker)


def after_training(runner: Runner, run: Run, trained: Trained) -> Numbers | None:
    """Compute the numbers of the new vocabulary; None, with a notice, if they fail."""
    if os.environ.get(EXTENT) == "none":
        return None
    learned = trained.learned
    try:
        if not runner.nodes and (shortage := _shortage(_least_bytes(learned), runner.broker)):
            remedy = f"bpe-pipeline report {run.directory} makes them where there is more"
            runner.inform(f"no numbers in the report: they take {shortage}; {remedy}")
            return None
        chosen = choose(run.manifest.plan.files, _sample_bytes(learned))
        text_field = str(run.manifest.counting["text_field"])
        task = NumbersTask(trained, chosen, text_field, _SMALL, references=tuple(REFERENCES))
        numbers = runner.executor.one(compute_numbers, task, fresh=True)
    except Exception as error:  # the tokenizer is written, whatever happens to the report
        _warn(runner.listener, "no numbers in the report", error)
        return None
    return numbers


def _warn(listener: Listener, what: str, error: Exception) -> None:
    reason = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error} (see log.txt)"
    _log.warning("%s: %s", what, reason, exc_info=not isinstance(error, PipelineError))
    listener(Notice("warning", f"{what}: {reason}"))


def write_summary(runner: Runner, run: Run, counted: Counted, numbers: Numbers | None = None, **found: Any) -> Summary:
    """Return the result of the command, after writing it into the run directory as its report; a failure warns."""
    runner.watch.look()
    used = runner.executor.used()
    summary = Summary(
        run.directory.location,
        run.manifest.counting["pattern"],
        counted.facts,
        stages=runner.times,
        peak_memory_bytes=runner.watch.peak_bytes,
        retries=runner.executor.retries,
        nodes=0 if used is None else used.nodes,
        peak_node_bytes=0 if used is None else used.peak_bytes,
        stage_peak_bytes=dict(runner.watch.stage_peaks),
        **found,
    )
    if newer := counted.facts.newer_characters():
        runner.warn(f"newer characters: {newer}")
    for name, reason in summary.refused.items():
        runner.inform(f"no {name} files: {reason}")
    try:
        _write_files(run, Report(summary, numbers), summary.tokenizer_directory, with_page=_page_wanted())
    except Exception as error:
        _warn(runner.listener, "the report is incomplete", error)
    runner.listener(Notice("summary", str(summary)))
    return summary


def _page_wanted() -> bool:
    return os.environ.get(EXTENT, "page") == "page"


def prepare_page() -> None:
    """Compress what every page holds, while a worker computes its numbers."""
    if _page_wanted() and (script := page.plotly_script()) is not None:
        with contextlib.suppress(OSError):  # writing the page will say so
            page.packed_script(script)


def names_of(run: Run, numbers: Numbers | None) -> tuple[str, tuple[str, ...]]:
    """Return the path of the report, with a hint if plotly is missing, and what it adds to the tokenizer directory."""
    if numbers is None or not _page_wanted():
        return str(run.directory / "report.txt"), ()
    if page.plotly_script() is not None:
        return str(run.directory / "report.html"), (model_card.NAME,)
    hint = f"{run.directory / 'report.txt'} (as a page with plots: pip install 'bpe-pipeline[report]')"
    return hint, (model_card.NAME,)


def run_report(
    path: Location,
    extras: Extras,
    options: WorkOptions,
    executor: Executor,
    listener: Listener,
    outputs: tuple[Location, Location] | None = None,
) -> WrittenReport:
    """Make the report of a tokenizer again. path: the tokenizer in its run, or the run, for its own. outputs: paths of
    the page and of its numbers; None: in the run directory.

    Raises `UsageError` for a run without a tokenizer, `InputError` for paths that cannot be read.
    """
    run, home = manifest.tokenizer_named(path)
    if run.manifest.merging is None or not (home / "tokenizer.json").exists():
        raise UsageError(f"{path} has no tokenizer yet: bpe-pipeline merge {run.directory}")
    of_run = run.manifest.options_of(home.name)
    [size] = of_run.vocab_size
    loading = size * 1000 * (1 + len(extras.compare))  # a token takes that much while a tokenizer is read from its file
    if shortage := _shortage(_needed_bytes(size, size * 8, _SAMPLE_BYTES) + loading, Broker.of(options.memory_limit)):
        raise UsageError(f"the report takes {shortage}: give a larger --memory-limit, or compare with fewer tokenizers")
    learned = merge_list.load(run.merges_path, merge.merges_fingerprint(run, of_run))
    if learned is None:
        raise RunDirectoryError(f"{run.merges_path} is missing or belongs to another run: merge first")
    trained = Trained(learned, tokenizer_pattern(of_run), of_run)
    task = _task_of(run, home, trained, extras, listener)
    with contextlib.nullcontext() if outputs is not None else run.directory.locked():
        numbers = executor.one(compute_numbers, task)
        run = manifest.require(run.directory.location)
        report = replace(_stored_report(run, home, trained, executor), numbers=numbers)
        written = _write_files(run, report, home, outputs)
    if numbers.unread:
        lacks = "a part of its sample" if numbers.sample else "the sample"
        lost = f"{len(numbers.unread):,} of {format_count(len(task.chosen), 'files')}"
        changed = f"{lost} changed, cannot be read or have no text: {numbers.unread[0]}"
        listener(Notice("warning", f"the report is without {lacks}: {changed}; --held-out measures on other text"))
    hint = "" if page.plotly_script() is not None else page.HINT
    if hint:
        listener(Notice("info", hint))
    return WrittenReport(written, hint)


def _task_of(run: Run, home: Location, trained: Trained, extras: Extras, listener: Listener) -> NumbersTask:
    """Return the task of a report with these extras; warns if text that is held out was trained on."""
    compare, held_out, files = extras.compare, extras.held_out, run.manifest.plan.files
    trained_on, description = "", _RANDOM
    if held_out:
        files = find_files(map(str, held_out)).files
        trained_on, description = _about_held_out(held_out, files, run)
    if trained_on:
        listener(Notice("warning", f"--held-out names text that was trained on: {trained_on}"))
    found = {
        name: tokenizer_path(one) if not isinstance(one, Path) or one.exists() else cached_or_reference(str(one))
        for name, one in zip(short_names(compare), compare, strict=True)
    }
    return NumbersTask(
        trained,
        choose(files, _SAMPLE_BYTES),
        "text" if held_out else trained.options.text_field,
        description,
        held_out=bool(held_out) and not trained_on,
        skip_changed=not held_out,
        home=home,
        compare=tuple((name, path) for name, path in found.items() if not isinstance(path, str)),
        references=tuple(path for path in found.values() if isinstance(path, str)) if compare else tuple(REFERENCES),
        hidden_size=extras.hidden_size,
    )


def page_outputs(output: Location, *, overwrite: bool) -> tuple[Location, Location]:
    """Return where to write a page that the user named and its numbers; raises as `single_output` does."""
    as_json = output.parent / f"{output.name.removesuffix('.html')}.json"
    return single_output(output, overwrite=overwrite), single_output(as_json, overwrite=overwrite)


def _about_held_out(named: Sequence[Location], files: Sequence[CorpusFile], run: Run) -> tuple[str, str]:
    """Say what of these files was trained on, if the run's listing has them; and describe them for the report."""
    origin = f"From {', '.join(map(str, named))}."
    if run.manifest.source is not None:
        return "", f"{origin} Not checked: the run has no list of its corpus."
    found = files_in_both(files, run.manifest.plan.files)
    if not found:
        return "", origin
    share = sum(file.size for file in found) / sum(file.size for file in files)
    names = ", ".join(file.path for file in found[:3]) + (", ..." if len(found) > 3 else "")
    trained_on = f"{len(found):,} of {format_count(len(files), 'files')}, {share:.0%} of the bytes: {names}"
    return trained_on, f"{origin} In the training corpus, itself or as a copy: {trained_on}."


def short_names(paths: Sequence[Location]) -> list[str]:
    """Name tokenizers by the last component of their paths if these differ, else by the whole paths."""
    short = [path.parent.name if path.name in ("tokenizer", "tokenizer.json") else path.name for path in paths]
    return short if all(short) and len(set(short)) == len(short) else list(map(str, paths))


def _write_files(
    run: Run,
    report: Report,
    tokenizer: Location | None,
    outputs: tuple[Location, Location] | None = None,
    *,
    with_page: bool = True,
) -> tuple[Location, ...]:
    """Write numbers and, if they are known and plotly is installed, the page; into the run directory text, too."""
    where, as_json = outputs or (run.directory / "report.html", run.directory / "report.json")
    written = [as_json] if outputs is not None else [run.directory / "report.txt", as_json]
    _store(report, *written)
    script, numbers = page.plotly_script(), report.numbers
    if not with_page or numbers is None or tokenizer is None:
        return tuple(written)
    if script is not None:
        with whole_file(where) as path, path.open("wb") as file:
            page.write_page(file, script, report, how_made(run, tokenizer, report.summary, numbers))
        written.insert(0, where)
    if outputs is None and not _is_edited(tokenizer / model_card.NAME):
        written.append(tokenizer / model_card.NAME)
        write_whole(written[-1], model_card.model_card(options_of(run, tokenizer), numbers))
        manifest.store_written(run, written[-1:])
    return tuple(written)


def _store(report: Report, *files: Location) -> None:
    """Write a report as text and as JSON: with indentation everywhere, that takes much longer."""
    for file in files:
        members = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in report.to_json().items())
        write_whole(file, "{\n" + ",\n".join(members) + "\n}\n" if file.suffix == ".json" else f"{report}\n")


def add_checks(run: Run, directory: Location, checks: Sequence[Check]) -> None:
    """Add checks of the files in a directory to the run's report, in place of earlier ones, if there is a report."""
    if (report := _load(run)) is not None:
        checked = replace(report, checks={**report.checks, str(directory): tuple(checks)})
        _store(checked, run.directory / "report.txt", run.directory / "report.json")


def _load(run: Run) -> Report | None:
    """Return the report of a run; None if it has none, or a damaged one."""
    try:
        return Report.from_json(json.loads(read_bounded(run.directory / "report.json", MANIFEST_BYTES)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _log.info("the report of %s cannot be read: %s", run.directory, error)
        return None


def _is_edited(card: Location) -> bool:
    """Whether a person wrote or edited a model card."""
    return card.exists() and model_card.MARK not in read_bounded(card, MANIFEST_BYTES).decode(errors="replace")


def remove_card(run: Run, vocab_size: int) -> None:
    """Remove the model card of a tokenizer that is written again, unless somebody has edited it."""
    if not _is_edited(run.tokenizer_directory(vocab_size) / model_card.NAME):
        run.directory.remove([f"{run.tokenizer_name(vocab_size)}/{model_card.NAME}"])


def chosen_by(run: Run, learned: MergeList) -> ChosenBy | None:
    """Return what a guest that chose the merges reports of them."""
    chooser = run.manifest.chooser
    found: ChosenBy | None = chooser and chooser.report(learned)
    return found


def _stored_report(run: Run, home: Location, trained: Trained, executor: Executor) -> Report:
    """Return the stored report, or one without times if that is of another tokenizer, missing or damaged."""
    [size] = trained.options.vocab_size
    facts = facts_of(trained, size, trained.model(size).vocabulary)
    if (stored := _load(run)) is not None and stored.is_of(home.name, facts):
        return stored
    written = [name.partition("/")[2] for name in run.manifest.written if name.startswith(f"{home.name}/")]
    summary = Summary(
        run.directory.location,
        trained.options.pattern,
        require_counted(run, executor).facts,
        vocabulary=facts,
        tokenizer_directory=home,
        written=tuple(written),
        chosen_by=chosen_by(run, trained.merges(size)),
    )
    return Report(summary)
