"""The story of the report: numbers are computed in a worker, then written as report.json, report.txt and report.html.

After training it is quick, and what goes wrong with it is a warning: the run has its tokenizer. `report` makes it anew,
with a larger sample, held-out text, and other tokenizers to compare with.
"""

import contextlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.base import machine
from pipeline.base.errors import PipelineError, UsageError
from pipeline.base.events import Listener, Notice
from pipeline.base.units import format_bytes
from pipeline.commands.encode_text import tokenizer_home
from pipeline.corpus.files import find_files
from pipeline.corpus.formats import Asked
from pipeline.corpus.sampling import Chosen, choose
from pipeline.executors import Executor
from pipeline.merges.merge_list import MergeList
from pipeline.pattern import CompiledPattern
from pipeline.report import page, summary, text
from pipeline.report.numbers import SAMPLE_BYTES, TRAINING_SAMPLE_BYTES, Learned, Numbers, NumbersTask, compute
from pipeline.report.rows import Told, corpus_rows
from pipeline.run import manifest, memory
from pipeline.run.ids import merge_budget, with_pad_token
from pipeline.run.manifest import Run
from pipeline.run.options import Options
from pipeline.storage import Location, exists
from pipeline.storage.atomic import whole_file, write_whole
from pipeline.storage.bounded import MANIFEST_BYTES, read_bounded

STAGE = "reporting"
EXTENT = "BPE_PIPELINE_REPORT"
"""A variable of the environment that says how much `train` and `merge` report: all (`page`, where it is not set), no
page (`text`), or the summary alone (`none`), as for many runs in a row."""
_log = logging.getLogger(__name__)
_WORK_BYTES, _TOKEN_BYTES, _TOKEN_COPIES = 14 << 20, 480, 6  # of computing numbers: at all, a token, and its bytes
_SAMPLE_COPIES = 8  # what a byte of the sample takes while it is measured
_LOADED_TOKEN_BYTES = 1000  # what a token takes while a tokenizer is read from its file


@dataclass(frozen=True)
class Reported:
    """Files that were written, and what is to be said of one that was not."""

    written: tuple[Location, ...]
    hint: str = ""


def has_room(learned: MergeList, options: Options, executor: Executor, beside_bytes: int) -> bool:
    """Whether numbers can be computed here while something else takes so many bytes."""
    return not executor.nodes() and _after_training_bytes(learned) + beside_bytes <= _room(options)


def _after_training_bytes(learned: MergeList) -> int:
    return _needed(len(learned), learned.token_bytes(), TRAINING_SAMPLE_BYTES)


def after_training(
    run: Run, learned: MergeList, pattern: CompiledPattern, options: Options, executor: Executor, listener: Listener
) -> Numbers | None:
    """The numbers of the vocabulary that was just learned; None, and a word why, where they could not be had."""
    if os.environ.get(EXTENT) == "none":
        return None
    special_tokens = tuple(with_pad_token(options.special_tokens, options.pad_token))
    merges = merge_budget(options.vocab_size[0], special_tokens)
    model = Learned(merges, replace(pattern, tree=None), special_tokens, options.special_ids)
    try:
        needed = _after_training_bytes(learned)
        if not executor.nodes() and needed > (room := _room(options)):
            listener(
                Notice(
                    "info",
                    f"no numbers in the report: they take {format_bytes(needed)} and there are "
                    f"{format_bytes(max(room, 0))}; bpe-pipeline report {run.directory} makes them where there is more",
                )
            )
            return None
        task = NumbersTask(
            name="this tokenizer",
            model=model,
            merges=learned,
            chosen=choose(run.manifest.plan.files, TRAINING_SAMPLE_BYTES),
            text_field=str(run.manifest.counting["text_field"]),
            described=_DRAWN,
        )
        [(_, numbers)] = executor.run(compute, [task])
    except Exception as error:  # the tokenizer is there, whatever becomes of the report
        _warn(listener, "no numbers in the report", error)
        return None
    return numbers


def _warn(listener: Listener, what: str, error: Exception) -> None:
    reason = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error} (see log.txt)"
    _log.warning("%s: %s", what, reason, exc_info=not isinstance(error, PipelineError))
    listener(Notice("warning", f"{what}: {reason}"))


_DRAWN = "Drawn at random, the same each time; to measure on text of your own: bpe-pipeline report RUN --held-out PATH."


def _needed(tokens: int, token_bytes: int, sample_bytes: int) -> int:
    return int(_WORK_BYTES + tokens * _TOKEN_BYTES + token_bytes * _TOKEN_COPIES + sample_bytes * _SAMPLE_COPIES)


def _room(options: Options) -> int:
    """Bytes that are left of the memory limit beside all that is taken now."""
    return memory.budget(options.memory_limit).limit_bytes - machine.process_tree_memory()


def write(run: Run, found: summary.Summary, numbers: Numbers | None, listener: Listener) -> None:
    """Write the report of a command into the run directory. What cannot be written is a warning."""
    document = {**found.to_json(), "numbers": None if numbers is None else numbers.to_json()}
    try:
        _write_text(run.directory.location, summary.render(found), document, numbers)
        if numbers is not None and _page_wanted():
            _write_page(run.directory / "report.html", _told(run, document), numbers)
    except Exception as error:
        _warn(listener, "the report is not whole", error)


def _page_wanted() -> bool:
    return os.environ.get(EXTENT, "page") == "page"


def page_name(run: Run, numbers: Numbers | None) -> str:
    """Where a person finds the report, for the summary."""
    if numbers is not None and _page_wanted() and page.plotly_script() is not None:
        return str(run.directory / "report.html")
    hint = (
        "" if numbers is None or not _page_wanted() else " (as a page with plots: pip install 'bpe-pipeline[report]')"
    )
    return f"{run.directory / 'report.txt'}{hint}"


def run_report(
    directory: Location,
    options: Options,
    executor: Executor,
    *,
    compare: Sequence[Location] = (),
    held_out: Sequence[Location] = (),
    output: Location | None = None,
) -> Reported:
    """Make the report of a run again. output: where the page goes, and its numbers beside it as .json, in place of the
    run directory.

    Raises `UsageError` for a run without a tokenizer, `InputError` for paths that cannot be read.
    """
    run = manifest.require(directory)
    if run.manifest.merging is None or not exists(run.directory / "tokenizer" / "tokenizer.json"):
        raise UsageError(f"{directory} has no tokenizer yet: bpe-pipeline merge {directory}")
    task = NumbersTask(
        name="this tokenizer",
        model=run.directory / "tokenizer",
        merges=(run.merges_path, run.manifest.merge_fingerprint()),
        chosen=_chosen(run, held_out),
        text_field="text" if held_out else str(run.manifest.counting["text_field"]),
        held_out=bool(held_out),
        compare=tuple(zip(_names(compare), map(_home, compare), strict=True)),
        thorough=True,
        described=f"From {', '.join(map(str, held_out))}." if held_out else _DRAWN,
    )
    size = int(run.manifest.vocab_size or 0)
    needed = _needed(size, size * 8, SAMPLE_BYTES) + size * _LOADED_TOKEN_BYTES * (1 + len(compare))
    if needed > (room := _room(options)):
        raise UsageError(
            f"the report takes {format_bytes(needed)} and there are {format_bytes(max(room, 0))}: give a larger "
            "--memory-limit, or compare with fewer tokenizers"
        )
    with contextlib.nullcontext() if output is not None else run.directory.locked():
        [(_, numbers)] = executor.run(compute, [task])
        before, rendered = _stored(run)
        document = {**before, "numbers": numbers.to_json()}
        if output is not None:
            beside = output.parent / f"{output.name.removesuffix('.html')}.json"
            write_whole(beside, _as_json(document))
            written = [beside]
        else:
            written = _write_text(run.directory.location, rendered, document, numbers)
        where = run.directory / "report.html" if output is None else output
        drawn = _write_page(where, _told(run, document), numbers)
    return Reported((where, *written) if drawn else tuple(written), "" if drawn else page.HINT)


def _chosen(run: Run, held_out: Sequence[Location]) -> list[Chosen]:
    files = find_files(map(str, held_out), Asked()).files if held_out else run.manifest.plan.files
    return choose(files, SAMPLE_BYTES)


def _home(place: Location) -> Location:
    """What to load for a path: a file itself, of a run the directory of its tokenizer."""
    home = tokenizer_home(place)
    return place if home == place.parent else home


def _names(places: Sequence[Location]) -> list[str]:
    """Short names of tokenizers: the last parts of their places, or all where these are alike."""
    short = [place.parent.name if place.name in ("tokenizer", "tokenizer.json") else place.name for place in places]
    alike = len(set(short)) < len(short)
    return [str(place) if alike or not name else name for place, name in zip(places, short, strict=True)]


def _write_text(
    directory: Location, rendered: str, document: Mapping[str, Any], numbers: Numbers | None
) -> list[Location]:
    below = "" if numbers is None else f"\n{text.render(numbers)}\n"
    write_whole(directory / "report.txt", f"{rendered}\n{below}")
    write_whole(directory / "report.json", _as_json(document))
    return [directory / "report.txt", directory / "report.json"]


def _as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, default=str, indent=1) + "\n"


def _write_page(where: Location, told: Told, numbers: Numbers) -> bool:
    """Write the page, where there is what draws it."""
    script = page.plotly_script()
    if script is None:
        return False
    with whole_file(where) as path, path.open("wb") as file:
        page.write(file, script, told, numbers)
    return True


def _told(run: Run, document: Mapping[str, Any]) -> Told:
    plan = run.manifest
    asked = {**plan.counting, **(plan.merging or {}), "vocab_size": plan.vocab_size}
    listed = ((name.replace("_", " "), _plain(value)) for name, value in asked.items())
    source = plan.source.description if plan.source is not None else ""
    return Told(
        directory=str(run.directory),
        options=tuple(listed),
        corpus=corpus_rows([(file.path, file.size) for file in plan.plan.files], source),
        versions=plan.cutting,
        summary={name: value for name, value in document.items() if name != "numbers"},
    )


def _plain(value: object) -> str:
    if value is None or value == [] or value == ():
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _stored(run: Run) -> tuple[dict[str, Any], str]:
    """What the run's own command left: its report.json, and the summary at the head of report.txt; nothing where they
    are gone or not as we write them."""
    try:
        document = json.loads(read_bounded(run.directory / "report.json", MANIFEST_BYTES))
        rendered = read_bounded(run.directory / "report.txt", MANIFEST_BYTES).decode().split("\n\n")[0].rstrip("\n")
        summary.require_readable(document)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _log.info("the summary of %s is not there: %s", run.directory, error)
        return {}, f"run  {run.directory}"
    return document, rendered
