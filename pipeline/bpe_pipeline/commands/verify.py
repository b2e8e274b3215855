"""`verify`: check everything in a run directory that can be checked; nothing is written.

Every counter and merge list is read whole, so that its checksums are checked. Then every tokenizer is exported again
from the merge list, and its files are compared byte by byte.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, StorageError, UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_count
from bpe_pipeline.counts import check_worker
from bpe_pipeline.counts.check_worker import CheckTask
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import forecast, merge, merge_worker
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.extensions import maker_of
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import WorkOptions
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.run.runner import Runner, Stage, watched
from bpe_pipeline.storage import Location, existing, names_in, sha256_of, unreadable
from bpe_pipeline.tokenizer.export import Trained, export_model
from bpe_pipeline.tokenizer.formats.fields import CARD, GGUF_NAME, RANKS_NAME
from bpe_pipeline.tokenizer.formats.huggingface import EDITABLE, write_model
from bpe_pipeline.tokenizer.formats.read_huggingface import check_edited
from bpe_pipeline.tokenizer.formats.settings_files import chat_template_of
from bpe_pipeline.tokenizer.model import Model

_MADE, _AS_WRITTEN, _MISSING = "as the merge list gives them", "as they were written", "missing"
_EDITED, _NOT_OURS = "edited, with tokens that exist", "not of this run"


def run_verify(location: Location, options: WorkOptions, executor: Executor, listener: Listener) -> Facts:
    """Verify counters, merge list and tokenizers. No other process should work on the run meanwhile."""
    if (maker := maker_of(location)) is not None:
        return Facts(maker.verify(location, options, executor, listener), "verified")
    run = manifest.require(location)
    with watched(options, executor, listener) as runner:
        source, plan = run.manifest.source, run.manifest.plan
        files = f"{format_count(len(plan.files), 'files')}, {format_count(len(plan.chunks), 'chunks')}"
        origin = files if source is None else f"counts from {source.description}"
        verified = {"run": f"{run.directory}, {origin}"}
        _verify_counters(runner, run, verified)
        homes = [home for home in run.tokenizers() if home.exists()]
        if run.manifest.merging is None or not run.merges_path.exists():
            if homes or run.manifest.written:
                but = f"{homes[0]} exists" if homes else "run.json lists tokenizers that were made from it"
                raise RunDirectoryError(f"{run.merges_path} is missing, but {but}; run merge again")
            return Facts(verified | {"merges": "none were learned yet"}, "verified")
        merges = _verify_merges(runner, run, verified)
        _verify_tokenizers(runner, run, merges, homes, verified)
        return Facts(verified, "verified")


def _verify_counters(runner: Runner, run: Run, verified: dict[str, str]) -> None:
    """Read every counter: of the run, and of its chunks."""
    counters = [] if run.manifest.counted_in else run.chunk_counters()
    workers = runner.reserve(len(counters) + 1)
    tasks = [CheckTask(*counter, workers.bytes) for counter in (run.counter, *counters)]
    runner.run(Stage("reading", "counters", check_worker.check, tasks, [1] * len(tasks), grant=workers))
    facts = require_counted(run, runner.executor).facts
    verified["counter"] = (
        f"{facts.pre_tokens:,} pre-tokens, {facts.different_pre_tokens:,} unique; the checksums are right"
    )
    if counters:
        verified["chunks' counters"] = f"{len(counters):,}; the checksums are right"


def _verify_merges(runner: Runner, run: Run, verified: dict[str, str]) -> MergeList:
    """Read and return the merge list."""
    stored = merge.learning_of(run).merges
    merges = runner.executor.one(merge_worker.read, stored)
    if merges is None:
        raise RunDirectoryError(
            f"{stored[0]} is missing, or was not learned from these counts with these options; run merge again"
        )
    verified["merges"] = f"{len(merges):,}; the checksum is right"
    return merges


def _verify_tokenizers(
    runner: Runner, run: Run, merges: MergeList, homes: Sequence[Location], verified: dict[str, str]
) -> None:
    """Compare every file of every tokenizer with what the merge list gives; one not in `run.json` may differ."""
    if run.directory / "tokenizer" not in homes:
        verified["tokenizer"] = "none"
    names = run.directory.names_in(run.directory.location)
    others = [run.directory / name for name in names if re.fullmatch("tokenizer-[0-9]+", name)]
    for home in [*(home for home in others if home not in homes), *homes]:
        try:
            verified[home.name] = _verify_tokenizer(runner, run, merges, home)
        except (RunDirectoryError, StorageError, UsageError) as error:
            if home in homes:
                raise
            verified[home.name] = f"not one of this run's: run.json does not list it, and {error}"
    written = [run.directory / name for name in run.manifest.written]
    missing = [path for path, there in zip(written, existing(written), strict=True) if not there]
    if missing:
        size = missing[0].parent.name.removeprefix("tokenizer").removeprefix("-") or run.manifest.vocab_size
        more = f" ({len(missing)} files are)" if len(missing) > 1 else ""
        raise RunDirectoryError(
            f"{missing[0]} was written by this run and is missing{more}; "
            f"`bpe-pipeline merge {run.directory} --vocab-size {size}` writes them again"
        )


def _verify_tokenizer(runner: Runner, run: Run, merges: MergeList, home: Location) -> str:
    options = run.manifest.options_of(home.name)
    tokens = options.vocab_size[0]
    wanted = options.special.merge_budget(tokens)
    if not merges.serves(wanted):
        raise RunDirectoryError(
            f"{home} needs {wanted:,} merges, but the list ends after {len(merges):,} although pairs are left; run "
            f"merge --vocab-size {tokens} again"
        )
    needed = forecast.exporting_bytes(tokens, merges.token_bytes)
    runner.broker.reserve(needed, what=f"reading {home}, of {format_count(tokens, 'tokens')},")
    try:
        trained = Trained(merges, pattern_of(options), options)
        model = replace(trained.model(tokens), chat_template=chat_template_of(home))
    except OSError as error:
        raise _unreadable(home / EDITABLE[0], error) from None
    formats = [name for name, file in (("tiktoken", RANKS_NAME), ("gguf", GGUF_NAME)) if (home / file).exists()]
    with _written(model, with_limits=formats) as right:
        names_by_state = _compare(home, right, model, run.manifest.written)
    listed = (f"{state}: {', '.join(names)}" for state, names in names_by_state.items() if names)
    return "; ".join([f"{model.vocabulary.size:,} tokens", *listed])


def _unreadable(file: Location, error: OSError) -> PipelineError:
    if isinstance(error, PermissionError):
        return unreadable(file, error)
    return RunDirectoryError(f"{file} cannot be read: {error.strerror or error}; run merge again")


@contextmanager
def _written(model: Model, *, with_limits: Sequence[str]) -> Iterator[Path]:
    """Write a tokenizer to temporary files, to be compared."""
    with ExitStack() as stack:
        try:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            export_model(model, home, None, with_limits=with_limits, without_normalizer="gguf" in with_limits)
            if not (home / "tokenizer.json").exists():
                write_model(model, home)
        except (OSError, RunDirectoryError) as error:
            cause = error.__context__ or error
            raise StorageError(
                f"temporary files cannot be written: {getattr(cause, 'strerror', None) or cause}; free disk space, or "
                "name another directory with TMPDIR"
            ) from None
        yield home


def _compare(home: Location, right: Path, model: Model, written: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names of the files in `home` by what they are, compared with `right` and with what was `written`."""
    expected = {path.name: sha256_of(path) for path in right.iterdir()}
    stored = {name.rpartition("/")[2]: digest for name, digest in written.items() if name.startswith(f"{home.name}/")}
    states: dict[str, list[str]] = {state: [] for state in (_MADE, _AS_WRITTEN, _EDITED, _MISSING, _NOT_OURS)}
    in_home = (name for name in names_in(home) if not name.startswith("."))
    states[_NOT_OURS] = sorted(name for name in in_home if name not in expected and name not in stored)
    for name in sorted({*expected, *stored}):
        file = home / name
        try:
            digest = sha256_of(file)
        except OSError as error:
            raise _unreadable(file, error) from None
        same, unchanged = digest == expected.get(name), digest == stored.get(name)
        if digest is None and name != "tokenizer.json":
            state = _MISSING
        elif same and (unchanged or name not in stored or name not in EDITABLE):
            state = _MADE
        elif unchanged and (name not in expected or name in (*EDITABLE, GGUF_NAME)):
            state = _AS_WRITTEN  # with a chat template that is edited or gone now
        elif name in (*EDITABLE, CARD):
            if name in EDITABLE:
                check_edited(file, model.vocabulary)
            state = _EDITED
        else:
            raise RunDirectoryError(f"{file} is not what the merge list gives; remove {home} and run merge again")
        states[state].append(name)
    return states
