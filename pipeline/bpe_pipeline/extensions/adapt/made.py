"""What an extended or pruned tokenizer is, verified and reported: it is made again from its base and its run."""

import tempfile
from pathlib import Path

from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_count, format_share
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.adapt.change_worker import same_rows, tokens_by_merges
from bpe_pipeline.extensions.adapt.extend import make_extended
from bpe_pipeline.extensions.adapt.origin import Change, Origin, require
from bpe_pipeline.extensions.adapt.prune import make_pruned
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import WorkOptions
from bpe_pipeline.run.runner import watched
from bpe_pipeline.shards.manifest import tokenizer_fingerprint
from bpe_pipeline.storage import MODEL_BYTES, Location, named, read_bounded
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.formats.huggingface import EDITABLE
from bpe_pipeline.tokenizer.formats.read_huggingface import check_edited
from bpe_pipeline.tokenizer.model import Model


def verify(location: Location, options: WorkOptions, executor: Executor, listener: Listener) -> dict[str, str]:
    """Return what was verified, by name; `RunDirectoryError` for the first thing that is wrong."""
    origin = require(location)
    model, run = made_from(location, origin)
    with watched(options, executor, listener) as runner, tempfile.TemporaryDirectory() as scratch:
        expected = Path(scratch)
        change = Change(origin.done, named(origin.base), model, run, origin.options)
        if origin.done == "extend":
            learned, written = make_extended(runner, change, expected)
            done = f"{format_count(len(learned.left), 'merges')} added, each the right one with the right count"
        else:
            pruning, written = make_pruned(runner, change, expected)
            done = f"{format_count(len(pruning.removed), 'tokens')} removed, each the right one"
        same, edited = _compare(executor, location, expected, written)
    counts = "" if run is None else f" and {run.directory}, both"
    verified = {"made from": f"{change.base}{counts} as {'it was' if run is None else 'they were'}", origin.done: done}
    verified["files"] = f"as they were made: {', '.join(same)}"
    return verified | ({"edited": f"with tokens that exist: {', '.join(edited)}"} if edited else {})


def report(location: Location, executor: Executor) -> Facts:
    """Return the facts; `RunDirectoryError` if the base or the counts changed or are gone."""
    origin = require(location)
    base, run = made_from(location, origin)
    model, counted = load_model(location), None if run is None else require_counted(run, executor)
    old, new = ({*one.vocabulary.tokens.values()} for one in (base, model))
    facts: dict[str, object] = {
        "tokenizer": str(location),
        "made_by": origin.done,
        "base": origin.base,
        "run": origin.run,
        "vocabulary_before": base.vocabulary.size,
        "vocabulary_after": model.vocabulary.size,
        "added": len(new - old),
        "removed": len(old - new),
    }
    if counted is None:
        return Facts(facts, "reported")
    whole = ((counted.path, counted.fingerprint, one, (len(one.vocabulary.left),)) for one in (base, model))
    [before], [after] = (executor.one(tokens_by_merges, task) for task in whole)
    facts |= {"tokens_before": before, "tokens_after": after}
    shown = {"tokens_after": f"{after:,} ({format_share(after / max(before, 1) - 1, '+.1%')})"}
    if documents := counted.facts.documents:
        facts["documents"] = documents
        shown["tokens_per_document"] = f"{before / documents:,.2f} before, {after / documents:,.2f} after"
    return Facts(facts, "reported", shown_as=shown)


def info(home: Location) -> Facts:
    """Return what the tokenizer in a directory was made from."""
    origin = require(home)
    asked = {name: value for name, value in origin.options.items() if name != "protected"}
    return Facts({"made_by": origin.done, "base": origin.base, "run": origin.run, "options": asked})


def made_from(location: Location, origin: Origin) -> tuple[Model, Run | None]:
    """Return the base of a changed tokenizer and its run, if any; `RunDirectoryError` if one is missing or another."""
    base = named(origin.base)
    try:
        model, run = load_model(base), None if origin.run is None else manifest.require(named(origin.run))
    except (InputError, RunDirectoryError) as error:
        counts = "" if origin.run is None else f" and {origin.run}"
        raise RunDirectoryError(
            f"{location} was made from {base}{counts}, which must be there as they were: {error}"
        ) from None
    if tokenizer_fingerprint(model) != origin.base_fingerprint:
        raise RunDirectoryError(f"{base} is not the tokenizer that {location} was made from; bring that one back")
    if run is not None and run.manifest.counter_fingerprint() != origin.counter_fingerprint:
        raise RunDirectoryError(f"{run.directory} has other counts than {location} was made from; bring those back")
    return model, run


def _compare(executor: Executor, home: Location, expected: Path, model: Model) -> tuple[list[str], list[str]]:
    """Return the names of the files in `home` that are as in `expected`, and of settings that were edited."""
    same, edited = [], []
    for right in sorted(file for file in expected.rglob("*") if file.is_file()):
        file = home / right.relative_to(expected).as_posix()
        if right.suffix == ".parquet":
            is_same = executor.one(same_rows, (file, right))
        else:
            is_same = file.exists() and _content(file) == right.read_bytes()
        if is_same:
            same.append(right.name)
        elif file.exists() and right.name in EDITABLE:
            check_edited(file, model.vocabulary)
            edited.append(right.name)
        else:
            raise RunDirectoryError(f"{file} is not what the base and the counts give; remove {home} and make it again")
    return same, edited


def _content(file: Location) -> bytes:
    try:
        return read_bounded(file, MODEL_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}") from None
