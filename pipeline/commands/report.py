"""The story of the report: a worker computes numbers, then report.json, report.txt and report.html are written.

After training it is quick, and its failures are warnings: the run has its tokenizer. `report` makes it again with a
larger sample, held-out text, and other tokenizers to compare with.
"""

import contextlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.base import machine
from pipeline.base.errors import PipelineError, UsageError
from pipeline.base.events import Listener, Notice
from pipeline.base.units import format_bytes
from pipeline.commands.encode_text import tokenizer_path
from pipeline.corpus.files import find_files
from pipeline.corpus.sampling import choose
from pipeline.executors import Executor
from pipeline.merges.merge_list import MergeList
from pipeline.report import page
from pipeline.report.numbers import Numbers
from pipeline.report.numbers_worker import LearnedTokenizer, NumbersTask, StoredTokenizer, compute_numbers
from pipeline.report.summary import Summary
from pipeline.report.tables import ReportHeader, render_text, report_header
from pipeline.run import manifest, memory
from pipeline.run.ids import merge_budget, with_pad_token
from pipeline.run.manifest import Run
from pipeline.run.options import Options
from pipeline.run.work import Work
from pipeline.storage import Location, exists
from pipeline.storage.atomic import whole_file, write_whole
from pipeline.storage.bounded import MANIFEST_BYTES, read_bounded

STAGE = "reporting"
EXTENT = "BPE_PIPELINE_REPORT"
"""An environment variable: `train` and `merge` write everything (`page`, the default), no page (`text`), or only the
summary (`none`), which suits many runs in a row."""
_log = logging.getLogger(__name__)
_TRAINING_SAMPLE_BYTES, _SAMPLE_BYTES = 1 << 16, 1 << 21
_RANDOM = (
    "Drawn at random, the same each time; to measure on text of your own: bpe-pipeline report RUN --held-out PATH."
)


@dataclass(frozen=True)
class WrittenReport:
    """Files that were written, and a hint about one that was not."""

    written: tuple[Location, ...]
    hint: str = ""


def _needed_bytes(tokens: int, token_bytes: int, sample_bytes: int) -> int:
    """Memory that computing numbers takes: at all, for each token and its bytes, and for the sample."""
    return (14 << 20) + tokens * 480 + token_bytes * 6 + sample_bytes * 8


def _needed_after_training(learned: MergeList) -> int:
    return _needed_bytes(len(learned), learned.token_bytes(), _TRAINING_SAMPLE_BYTES)


def _free_bytes(options: Options) -> int:
    """Bytes of the memory limit that nothing uses now."""
    return memory.budget(options.memory_limit).limit_bytes - machine.process_tree_memory()


def fits_next_to(other_bytes: int, work: Work, learned: MergeList) -> bool:
    """Whether numbers can be computed here while other work takes `other_bytes`."""
    return not work.nodes and _needed_after_training(learned) + other_bytes <= _free_bytes(work.options)


def after_training(work: Work, run: Run, learned: MergeList) -> Numbers | None:
    """Compute the numbers of the vocabulary that was just learned; None, with a notice that says why, if they fail."""
    if os.environ.get(EXTENT) == "none":
        return None
    options = work.options
    special_tokens = tuple(with_pad_token(options.special_tokens, options.pad_token))
    merges = merge_budget(options.vocab_size[0], special_tokens)
    try:
        needed, free = _needed_after_training(learned), _free_bytes(options)
        if not work.nodes and needed > free:
            text = f"they take {format_bytes(needed)} and there are {format_bytes(max(free, 0))}"
            remedy = f"bpe-pipeline report {run.directory} makes them where there is more"
            work.listener(Notice("info", f"no numbers in the report: {text}; {remedy}"))
            return None
        task = NumbersTask(
            "this tokenizer",
            LearnedTokenizer(learned, merges, work.pattern, special_tokens, options.special_ids),
            choose(run.manifest.plan.files, _TRAINING_SAMPLE_BYTES),
            str(run.manifest.counting["text_field"]),
            _RANDOM,
        )
        [(_, numbers)] = work.executor.run(compute_numbers, [task])
    except Exception as error:  # the tokenizer is written, whatever happens to the report
        _warn(work.listener, "no numbers in the report", error)
        return None
    return numbers


def _warn(listener: Listener, what: str, error: Exception) -> None:
    reason = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error} (see log.txt)"
    _log.warning("%s: %s", what, reason, exc_info=not isinstance(error, PipelineError))
    listener(Notice("warning", f"{what}: {reason}"))


def write(run: Run, summary: Summary, numbers: Numbers | None, listener: Listener) -> None:
    """Write the report of a command into the run directory. A failure is a warning."""
    document = summary.to_json()
    try:
        _write_text(run.directory.location, summary.render(), document, numbers)
        if numbers is not None and _page_wanted():
            _write_page(run.directory / "report.html", report_header(run, document), numbers)
    except Exception as error:
        _warn(listener, "the report is incomplete", error)


def _page_wanted() -> bool:
    return os.environ.get(EXTENT, "page") == "page"


def page_name(run: Run, numbers: Numbers | None) -> str:
    """Return the path of the report for the summary, with a hint if plotly is missing."""
    if numbers is None or not _page_wanted():
        return str(run.directory / "report.txt")
    if page.plotly_script() is None:
        return f"{run.directory / 'report.txt'} (as a page with plots: pip install 'bpe-pipeline[report]')"
    return str(run.directory / "report.html")


def run_report(
    directory: Location,
    options: Options,
    executor: Executor,
    *,
    compare: Sequence[Location] = (),
    held_out: Sequence[Location] = (),
    output: Location | None = None,
) -> WrittenReport:
    """Make the report of a run again. output: path of the page, with its numbers next to it as .json; None: the run
    directory.

    Raises `UsageError` for a run without a tokenizer, `InputError` for paths that cannot be read.
    """
    run = manifest.require(directory)
    if run.manifest.merging is None or not exists(run.directory / "tokenizer" / "tokenizer.json"):
        raise UsageError(f"{directory} has no tokenizer yet: bpe-pipeline merge {directory}")
    files = find_files(map(str, held_out)).files if held_out else run.manifest.plan.files
    task = NumbersTask(
        "this tokenizer",
        StoredTokenizer(run.directory / "tokenizer", run.merges_path, run.manifest.merge_fingerprint()),
        choose(files, _SAMPLE_BYTES),
        "text" if held_out else str(run.manifest.counting["text_field"]),
        f"From {', '.join(map(str, held_out))}." if held_out else _RANDOM,
        held_out=bool(held_out),
        compare=tuple(zip(_short_names(compare), map(tokenizer_path, compare), strict=True)),
    )
    size = int(run.manifest.vocab_size or 0)
    loading = size * 1000 * (1 + len(compare))  # a token takes that much while a tokenizer is read from its file
    needed = _needed_bytes(size, size * 8, _SAMPLE_BYTES) + loading
    if needed > (free := _free_bytes(options)):
        raise UsageError(
            f"the report takes {format_bytes(needed)} and there are {format_bytes(max(free, 0))}: give a larger "
            "--memory-limit, or compare with fewer tokenizers"
        )
    with contextlib.nullcontext() if output is not None else run.directory.locked():
        [(_, numbers)] = executor.run(compute_numbers, [task])
        document, rendered, header = _stored_summary(run)
        if output is None:
            written = _write_text(run.directory.location, rendered, document, numbers)
        else:
            written = [output.parent / f"{output.name.removesuffix('.html')}.json"]
            write_whole(written[0], _as_json(document, numbers))
        where = run.directory / "report.html" if output is None else output
        drawn = _write_page(where, header, numbers)
    return WrittenReport((where, *written) if drawn else tuple(written), "" if drawn else page.HINT)


def _short_names(paths: Sequence[Location]) -> list[str]:
    """Name tokenizers by the last component of their paths if these differ, else by the whole paths."""
    short = [path.parent.name if path.name in ("tokenizer", "tokenizer.json") else path.name for path in paths]
    return short if all(short) and len(set(short)) == len(short) else list(map(str, paths))


def _write_text(
    directory: Location, rendered: str, document: Mapping[str, Any], numbers: Numbers | None
) -> list[Location]:
    below = "" if numbers is None else f"\n{render_text(numbers)}\n"
    write_whole(directory / "report.txt", f"{rendered}\n{below}")
    write_whole(directory / "report.json", _as_json(document, numbers))
    return [directory / "report.txt", directory / "report.json"]


def _as_json(document: Mapping[str, Any], numbers: Numbers | None) -> str:
    values = {**document, "numbers": None if numbers is None else asdict(numbers)}
    return json.dumps(values, default=str, indent=1) + "\n"


def _write_page(where: Location, header: ReportHeader, numbers: Numbers) -> bool:
    """Write the page if plotly is installed."""
    script = page.plotly_script()
    if script is None:
        return False
    with whole_file(where) as path, path.open("wb") as file:
        page.write_page(file, script, header, numbers)
    return True


def _stored_summary(run: Run) -> tuple[dict[str, Any], str, ReportHeader]:
    """Read the summary that the run's own command wrote, from report.json and the head of report.txt; an empty one if
    they are missing or damaged."""
    try:
        document = {**json.loads(read_bounded(run.directory / "report.json", MANIFEST_BYTES))}
        rendered = read_bounded(run.directory / "report.txt", MANIFEST_BYTES).decode().split("\n\n")[0].rstrip("\n")
        return document, rendered, report_header(run, document)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _log.info("the summary of %s cannot be read: %s", run.directory, error)
        return {}, f"run  {run.directory}", report_header(run, {})
