"""What `extend` and `prune` share: a change of a tokenizer, the directory that it writes, and what that holds.

made-from.json names the base, the run and the options, and has the SHA-256 of each file that was written.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bpe_pipeline.base.errors import ExportRefusedError, InputError, RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_share
from bpe_pipeline.counts.counted import Counted, require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.adapt.change_worker import ChangeTask, tokens_by_merges
from bpe_pipeline.extensions.adapt.extend_worker import PLAN_NAME
from bpe_pipeline.extensions.adapt.other_files import copy_other_files
from bpe_pipeline.extensions.adapt.prune_worker import MAP_NAME, REMOVED_NAME
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import Directory, Kind
from bpe_pipeline.run.make_options import refuse_other_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import OutputOptions, WorkOptions
from bpe_pipeline.run.runner import Runner, opened
from bpe_pipeline.run.stored import stored
from bpe_pipeline.shards.manifest import tokenizer_fingerprint
from bpe_pipeline.storage import Location, absolute, named, same_location, sha256_of
from bpe_pipeline.tokenizer.formats.files import load_model, tokenizer_home
from bpe_pipeline.tokenizer.formats.huggingface import EDITABLE, MODEL_NAME, write_model
from bpe_pipeline.tokenizer.formats.read_huggingface import check_edited
from bpe_pipeline.tokenizer.formats.settings_files import TEMPLATE_NAME, TEMPLATES
from bpe_pipeline.tokenizer.model import Model

_NAMES = (PLAN_NAME, MAP_NAME, REMOVED_NAME, *EDITABLE, TEMPLATE_NAME, MODEL_NAME)
DERIVED = Kind("made-from.json", re.compile("|".join(map(re.escape, (*_NAMES, TEMPLATES)))), 1)


@dataclass(frozen=True)
class Origin:
    """A base tokenizer and a run, by name and fingerprint, and what was done with them. done: "extend" or "prune".

    run: None where tokens were chosen by their merges alone. written: the SHA-256 of each file, by name; empty until
    all of them are there.
    """

    done: str
    base: str
    base_fingerprint: str
    run: str | None
    counter_fingerprint: str | None
    options: Mapping[str, Any]
    written: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A change of the tokenizer at `base`, by a run's counts, if any. asked: its options, as an origin has them."""

    done: str
    base: Location
    model: Model
    run: Run | None
    asked: Mapping[str, Any]

    @property
    def counts(self) -> Run:
        """The run, of a change that has one."""
        assert self.run is not None
        return self.run

    def counted(self, executor: Executor) -> Counted | None:
        """Return the counts; `RunDirectoryError` if the run is not complete."""
        return None if self.run is None else require_counted(self.run, executor)

    def origin(self, counted: Counted | None) -> Origin:
        """Return what is stored of it."""
        run = None if self.run is None else absolute(self.run.directory.location)
        counts = None if counted is None else counted.fingerprint
        return Origin(self.done, absolute(self.base), tokenizer_fingerprint(self.model), run, counts, self.asked)

    def task(self, runner: Runner, counted: Counted | None) -> ChangeTask:
        """Return what a worker does of it."""
        counter = None if counted is None else (counted.path, counted.fingerprint)
        return ChangeTask(counter, self.model, self.asked, runner.threads, runner.broker.everything_free())

    def write(self, model: Model, directory: Location) -> Model:
        """Write the changed tokenizer's files, and return it as they say."""
        write_model(model, directory)
        written = load_model(directory / MODEL_NAME)
        if (written.vocabulary, written.chat_template) != (model.vocabulary, model.chat_template):
            raise ExportRefusedError(
                f"{directory} cannot hold this tokenizer: another vocabulary or chat template is read there"
            )
        return written


@contextmanager
def changing(
    change: Change,
    options: OutputOptions,
    executor: Executor,
    listener: Listener,
    check: Callable[[Runner, Model, Run], None],
    *,
    moves_ids: bool = False,
) -> Iterator[tuple[Runner, Location]]:
    """Open the directory of a changed tokenizer, which is written when the block ends; first check how the run cuts.

    moves_ids: whether other files of the base may name ids that are another token's now: they are left out by name.
    """
    with opened(options, executor, listener, kind=DERIVED) as (runner, directory):
        if change.run is not None:
            check(runner, change.model, change.run)
        origin = change.origin(change.counted(executor))
        before = _claimed(directory, origin, change.base, overwrite=options.overwrite)
        try:
            yield runner, directory.location
            copied, left_out = copy_other_files(change.base, directory.location, before, moves_ids=moves_ids)
            runner.warn(left_out)
            names = [*_NAMES, *copied]
            digests = ((name, sha256_of(directory / name)) for name in names)
            written = {name: digest for name, digest in digests if digest is not None}
            directory.write_manifest(asdict(replace(origin, written=written)))
        except BaseException:
            if not before:  # else the same files are there, each of them whole
                directory.remove([*_NAMES, DERIVED.manifest])
            raise


def _claimed(directory: Directory, origin: Origin, base: Location, *, overwrite: bool) -> Mapping[str, str]:
    """Write what the directory will hold; return the files that the same change has written there, with their digests.

    Raises `RunDirectoryError` if it holds something else.
    """
    if same_location(directory.location, tokenizer_home(base)):
        raise UsageError(f"--output {directory} is the base itself; choose another directory")
    stored = load(directory.location)
    if stored is None and not overwrite:
        directory.refuse_foreign_files()
    if stored is not None and not overwrite:
        if stored.done != origin.done:
            raise _other(directory, f"by `{stored.done}`, not `{origin.done}`")
        if stored.base_fingerprint != origin.base_fingerprint:
            raise _other(directory, f"from another tokenizer, {stored.base}")
        if stored.counter_fingerprint != origin.counter_fingerprint:
            raise _other(directory, f"from other counts, those of {stored.run}")
        refuse_other_options(directory, f"tokenizer's {stored.done}", dict(stored.options), dict(origin.options))
        directory.remove_partial([*_NAMES, DERIVED.manifest])
        return stored.written
    directory.remove([*_NAMES, *(stored.written if stored else ())])
    directory.write_manifest(asdict(origin))
    return {}


def _other(directory: Directory, what: str) -> RunDirectoryError:
    return RunDirectoryError(f"{directory} was made {what}; choose another --output, or replace it with --overwrite")


def load(location: Location) -> Origin | None:
    """Return what a directory was made from, or None if it does not say."""
    directory = Directory(location, DERIVED)
    if (document := directory.read_manifest()) is None:
        return None
    with directory.damage():
        origin = stored(Origin, document)
        if origin.done not in ("extend", "prune"):
            raise ValueError(f"{origin.done!r} is neither extend nor prune")
    return origin


def _require(location: Location) -> Origin:
    """Return what a directory was made from; `RunDirectoryError` if it does not say, or is not complete."""
    if (origin := load(location)) is None:
        raise RunDirectoryError(f"{location} holds no {DERIVED.manifest}")
    if not origin.written:
        raise RunDirectoryError(f"{location} is not complete: `{origin.done}` was stopped; repeat that command")
    return origin


def verify(location: Location, options: WorkOptions, executor: Executor, listener: Listener) -> dict[str, str]:
    """Return what was verified, by name; `RunDirectoryError` for the first file that is not as it was written."""
    del options, executor, listener  # of extensions that compute something
    origin = _require(location)
    names: dict[str, list[str]] = {"files": [], "edited": []}
    for name, digest in origin.written.items():
        if (found := sha256_of(location / name)) == digest:
            names["files"].append(name)
            continue
        if found is None or (name in _NAMES and name not in EDITABLE):
            raise RunDirectoryError(f"{location / name} is not as it was written; remove {location} and make it again")
        if name in EDITABLE:
            check_edited(location / name, load_model(location).vocabulary)
        names["edited"].append(name)
    counts = "" if origin.run is None else f" by the counts in {origin.run}"
    states = {"files": "as they were written", "edited": "with tokens that exist"}
    verified = {name: f"{states[name]}: {', '.join(listed)}" for name, listed in names.items() if listed}
    return {origin.done: f"of {origin.base}{counts}", **verified}


def report(location: Location, executor: Executor) -> Facts:
    """Return the facts; `RunDirectoryError` if the base or the counts changed or are gone."""
    origin = _require(location)
    base, run = _made_from(location, origin)
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
    origin = _require(home)
    asked = {name: value for name, value in origin.options.items() if name != "protected"}
    return Facts({"made_by": origin.done, "base": origin.base, "run": origin.run, "options": asked})


def _made_from(location: Location, origin: Origin) -> tuple[Model, Run | None]:
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
    if run is not None and run.manifest.counter_fingerprint != origin.counter_fingerprint:
        raise RunDirectoryError(f"{run.directory} has other counts than {location} was made from; bring those back")
    return model, run
