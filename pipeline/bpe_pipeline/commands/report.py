"""The story of a report: a worker computes the numbers of a tokenizer, then page, text, JSON and card are written.

`report` makes it of a tokenizer that exists. `train` and `merge` make it at their end, from a smaller sample; there its
failures are warnings: the run has its tokenizer.
"""

import contextlib
import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bpe_pipeline.base import machine
from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.printable import columns_of
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.sampling import Choice, choose
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.counts.counted import Counted, text_counters
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.reports.numbers import REFERENCES, Numbers
from bpe_pipeline.reports.summary import Report, Section, Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.extensions import report_sections, unusable
from bpe_pipeline.run.manifest import Manifest, Run
from bpe_pipeline.run.memory import Broker
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.storage import MANIFEST_BYTES, Location, existing, location, read_bounded
from bpe_pipeline.storage.atomic import write_whole
from bpe_pipeline.tokenizer.export import Trained
from bpe_pipeline.tokenizer.formats.fields import CARD

if TYPE_CHECKING:
    from bpe_pipeline.reports.numbers_worker import NumbersTask

STAGE = "reporting"
EXTENT = "BPE_PIPELINE_REPORT"
"""An environment variable: `train` and `merge` write everything (`page`, the default), no page (`text`), or only the
summary (`none`), which suits many runs in a row."""
_log = logging.getLogger(__name__)
_LEAST_SAMPLE_BYTES, SAMPLE_BYTES = 1 << 16, 21 << 19
_OF_CORPUS = 1 << 12  # after training the sample is a part of the corpus that takes next to no time
RANDOM = "Drawn at random, the same each time; to measure on text of your own: bpe-pipeline report RUN --held-out PATH."
_SMALL = RANDOM.replace("; to", "; to draw 10 MiB: bpe-pipeline report RUN; to")  # after training


def _sample_bytes(learned: MergeList) -> int:
    """Return the size of the sample after training; `report` takes the full size."""
    return min(max(learned.bytes // _OF_CORPUS, _LEAST_SAMPLE_BYTES), SAMPLE_BYTES)


def needed_bytes(tokens: int, token_bytes: int, sample_bytes: int) -> int:
    """Memory that computing numbers takes: at all, for each token and its bytes, and for the sample."""
    return (14 << 20) + tokens * 480 + token_bytes * 6 + sample_bytes * 8


def _needed_after(learned: MergeList) -> int:
    return needed_bytes(len(learned), learned.token_bytes, _sample_bytes(learned))


def shortage_of(needed_bytes: int, broker: Broker) -> str:
    """Say what is needed and what of the memory limit nothing uses now; empty if it is enough."""
    free_bytes = broker.limit_bytes - machine.process_tree_memory()
    there = f"{format_bytes(needed_bytes)} and there are {format_bytes(max(free_bytes, 0))}"
    return "" if needed_bytes <= free_bytes else there


def fits_next_to(other_bytes: int, runner: Runner, learned: MergeList) -> bool:
    """Whether numbers can be computed here while other work takes `other_bytes`."""
    return not runner.nodes and not shortage_of(_needed_after(learned) + other_bytes, runner.broker)


def after_training(runner: Runner, run: Run, trained: Trained) -> Numbers | None:
    """Compute the numbers of the new vocabulary; None, with a notice, if they fail."""
    if os.environ.get(EXTENT) == "none":
        return None
    learned = trained.learned
    try:
        if not runner.nodes and (shortage := shortage_of(_needed_after(learned), runner.broker)):
            remedy = f"bpe-pipeline report {run.directory} makes them where there is more"
            runner.inform(f"no numbers in the report: they take {shortage}; {remedy}")
            return None
        from bpe_pipeline.reports.numbers_worker import compute_numbers

        return runner.executor.one(compute_numbers, task_of(run, trained, text_of(run), _sample_bytes(learned)))
    except Exception as error:  # the tokenizer is written, whatever happens to the report
        _warn(runner.listener, "no numbers in the report", error)
        return None


def task_of(run: Run, trained: Trained, text: "RunText", sample_bytes: int) -> "NumbersTask":
    """Return the task of the numbers of merges, with a sample of the text that the run was counted from."""
    from bpe_pipeline.reports.numbers_worker import NumbersTask

    return NumbersTask(
        trained,
        Choice(choose(text.files, sample_bytes), text.names),
        text.text_field,
        (RANDOM if sample_bytes == SAMPLE_BYTES else _SMALL) + text.left_out,
        references=tuple(REFERENCES),
        weighted=run.manifest.weighted,
        counters=counters_of(run),
    )


@dataclass(frozen=True)
class RunText:
    """The text that a run was counted from. names: of the sources of files, in place of those of their paths.

    left_out: in words, runs of a combined one that are gone, or whose text field is not that of the first one.
    """

    files: tuple[CorpusFile, ...]
    text_field: str
    names: Mapping[str, str] = field(default_factory=dict)
    left_out: str = ""


def text_of(run: Run) -> RunText:
    """Return the text of a run; of a combined run that of its runs, with the run of each file as its source."""
    if run.manifest.source is None:
        return RunText(tuple(run.manifest.plan.files), str(run.manifest.counting["text_field"]))
    texts, names, left_out = list[RunText](), dict[str, str](), list[str]()
    for source in run.manifest.texts:
        try:
            of_run = manifest.require(location(source.name))
            text = text_of(of_run)
        except (PipelineError, OSError):
            left_out.append(source.name)
            continue
        if texts and text.text_field != texts[0].text_field:
            left_out.append(source.name)
            continue
        texts.append(text)
        names |= dict.fromkeys((file.path for file in text.files), of_run.directory.location.name)
    without = f" Without the text of {', '.join(left_out)}, which cannot be read along." if left_out else ""
    files = tuple(file for text in texts for file in text.files)
    return RunText(files, texts[0].text_field if texts else "text", names, without)


def counters_of(run: Run) -> tuple[tuple[Location, str], ...]:
    """Return the counters of the text of a run with weights, without these; none if it has none, or a run is gone."""
    if run.manifest.weighted:
        with contextlib.suppress(PipelineError, OSError):
            counters = tuple(text_counters(run))
            return counters if all(existing([path for path, _ in counters])) else ()
    return ()


def _warn(listener: Listener, what: str, error: Exception) -> None:
    reason = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error} (see log.txt)"
    _log.warning("%s: %s", what, reason, exc_info=not isinstance(error, PipelineError))
    listener(Notice("warning", f"{what}: {reason}"))


def sections_of(executor: Executor, run: Run, trained: Trained, listener: Listener) -> tuple[Section, ...]:
    """Return what extensions add to the report of these merges; warn of those that cannot be asked."""
    sections = tuple(report_sections(executor, run, trained))
    for error in unusable.values():
        _warn(listener, "the report may lack a section", error)
    return sections


def summary_of(runner: Runner, run: Run, corpus: CorpusFacts, **facts: Any) -> Summary:
    """Return the result of a command in a run, with what it took so far."""
    runner.watch.look()
    used = runner.executor.used()
    return Summary(
        run.directory.location,
        run.manifest.counting["pattern"],
        corpus,
        stages=runner.times,
        peak_memory_bytes=runner.watch.peak_bytes,
        retries=runner.executor.retries,
        nodes=0 if used is None else used.nodes,
        peak_node_bytes=0 if used is None else used.peak_bytes,
        stage_peak_bytes=dict(runner.watch.stage_peaks),
        **facts,
    )


def write_summary(
    runner: Runner,
    run: Run,
    counted: Counted,
    options: TrainOptions | None = None,
    numbers: Numbers | None = None,
    **facts: Any,
) -> Summary:
    """Return the result of the command, after writing it into the run directory as its report; a failure warns.

    options: with which a tokenizer was made.
    """
    summary = summary_of(runner, run, counted.facts, **facts)
    if newer := counted.facts.newer_characters():
        runner.warn(f"newer characters: {newer}")
    try:
        write_files(run, Report(summary, numbers), options, summary.tokenizer_directory, with_page=_page_wanted())
    except Exception as error:
        _warn(runner.listener, "the report is incomplete", error)
    is_first = {home.name for home in run.tokenizers()} <= {home.name for home in summary.tokenizer_directories}
    for name, reason in summary.refused.items() if is_first else ():  # said once, not under each further size
        runner.inform(f"no {name} files: {reason}")
    runner.listener(Notice("summary", summary.text(columns_of(sys.stderr))))
    return summary


def _page_wanted() -> bool:
    return os.environ.get(EXTENT, "page") == "page"


def prepare_page(broker: Broker, *, alone: bool = False) -> None:
    """Make what every page holds; with a memory limit only what takes next to nothing, if other work is done."""
    if not _page_wanted():
        return
    from bpe_pipeline.reports.drawing import SCRIPT_BYTES, page_script
    from bpe_pipeline.reports.html import templates

    templates()
    fits = not shortage_of(SCRIPT_BYTES, broker) if alone else not broker.given
    page_script(SCRIPT_BYTES if fits else 0)


def names_of(runner: Runner, run: Run, numbers: Numbers | None) -> tuple[str, tuple[str, ...]]:
    """Return the path of the report, with a hint if it has no figures, and what it adds to the tokenizer directory."""
    if numbers is None or not _page_wanted():
        return str(run.directory / "report.txt"), ()
    from bpe_pipeline.reports.drawing import why_no_figures

    prepare_page(runner.broker, alone=True)
    return f"{run.directory / 'report.html'}{why_no_figures()}", (CARD,)


def _shown_options(options: TrainOptions, run: Manifest) -> dict[str, str]:
    """Return the options of counting and merging that a tokenizer was made with, as text."""
    shown = options.in_scope(Scope.COUNT, Scope.SPECIAL) | options.merging | {"vocab_size": options.vocab_size[0]}
    shown |= run.counting | (run.chooser.REPLACED if run.chooser else {})
    listed = ((name, ", ".join(map(str, one)) if isinstance(one, list | tuple) else one) for name, one in shown.items())
    return {name.replace("_", " "): "none" if value in (None, "") else str(value) for name, value in listed}


def write_files(
    run: Run,
    report: Report,
    options: TrainOptions | None,
    tokenizer: Location | None,
    outputs: tuple[Location, Location] | None = None,
    *,
    with_page: bool = True,
) -> tuple[Location, ...]:
    """Write numbers and, if they are known, the page; into the run directory text, too."""
    where, as_json = outputs or (run.directory / "report.html", run.directory / "report.json")
    written = [as_json] if outputs is not None else [run.directory / "report.txt", as_json]
    pages, numbers = list[Location](), report.numbers
    try:
        if with_page and numbers is not None and tokenizer is not None and options is not None:
            from bpe_pipeline.reports import model_card
            from bpe_pipeline.reports.page import report_page

            shown_options = _shown_options(options, run.manifest)
            page = report_page(tokenizer, report, report.how_made(shown_options, run.manifest))
            write_whole(where, page.encode(errors="replace"))
            pages.append(where)
            if outputs is None and not is_edited(card := tokenizer / CARD):
                write_whole(card, model_card.model_card(shown_options, numbers, report.summary.corpus, report.verdict))
                written.append(card)
    finally:  # also without its page
        if outputs is None:
            write_whole(run.directory / "report.txt", f"{report}\n")
        # A member a line: indentation everywhere takes much longer.
        members = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in report.to_json().items())
        write_whole(as_json, "{\n" + ",\n".join(members) + "\n}\n")
    return (*pages, *written)


def is_edited(card: Location) -> bool:
    """Whether a person wrote or edited a model card."""
    from bpe_pipeline.reports.model_card import MARK

    return card.exists() and MARK not in read_bounded(card, MANIFEST_BYTES).decode(errors="replace")
