"""What `extend` and `prune` share, and what a tokenizer was made from: made-from.json next to its files."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.counts.counted import Counted, require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.adapt.change_worker import ChangeTask
from bpe_pipeline.extensions.adapt.extend_worker import PLAN_NAME
from bpe_pipeline.extensions.adapt.prune_worker import MAP_NAME, REMOVED_NAME
from bpe_pipeline.run.directory import Directory, Kind
from bpe_pipeline.run.make_options import refuse_other_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import OutputOptions
from bpe_pipeline.run.runner import Runner, opened
from bpe_pipeline.run.stored import stored
from bpe_pipeline.shards.manifest import tokenizer_fingerprint
from bpe_pipeline.storage import Location, absolute, same_location
from bpe_pipeline.tokenizer.formats.changed import CHANGED_NAMES, ids_left_out
from bpe_pipeline.tokenizer.formats.files import tokenizer_home
from bpe_pipeline.tokenizer.formats.settings_files import TEMPLATES, named_templates
from bpe_pipeline.tokenizer.model import Model

_NAMES = (PLAN_NAME, MAP_NAME, REMOVED_NAME, *CHANGED_NAMES)
DERIVED = Kind("made-from.json", re.compile("|".join(map(re.escape, (*_NAMES, TEMPLATES)))), 1)


@dataclass(frozen=True)
class Origin:
    """A base tokenizer and a run, by name and fingerprint, and what was done with them. done: "extend" or "prune".

    run: None where tokens were chosen by their merges alone.
    """

    done: str
    base: str
    base_fingerprint: str
    run: str | None
    counter_fingerprint: str | None
    options: Mapping[str, Any]


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
        how = self.asked, runner.threads, runner.broker.everything_free()
        counter = None if counted is None else (counted.path, counted.fingerprint)
        return ChangeTask(counter, self.model, *how)


Checked = Callable[[Runner, Model, Run], None]


@contextmanager
def changing(
    change: Change, options: OutputOptions, executor: Executor, listener: Listener, check: Checked
) -> Iterator[tuple[Runner, Location]]:
    """Open the directory of a changed tokenizer, which is written when the block ends; first check how the run cuts."""
    with opened(options, executor, listener, kind=DERIVED) as (runner, directory):
        if change.run is not None:
            check(runner, change.model, change.run)
        origin = change.origin(change.counted(executor))
        with _claimed(directory, origin, base=change.base, overwrite=options.overwrite):
            yield runner, directory.location


def left_out_of_settings(base: Location, new_of: Mapping[int, int]) -> str:
    """Say which ids of removed tokens the new generation_config.json lacks; empty if it lacks none."""
    listed = [f"{name} without {', '.join(map(str, ids))}" for name, ids in ids_left_out(base, new_of).items()]
    return (
        f"generation_config.json does not name the ids of removed tokens any more: {', '.join(listed)}"
        if listed
        else ""
    )


@contextmanager
def _claimed(directory: Directory, origin: Origin, *, base: Location, overwrite: bool) -> Iterator[None]:
    """Write what the directory will hold when the block ends; `RunDirectoryError` if it holds something else."""
    if same_location(directory.location, tokenizer_home(base)):
        raise UsageError(f"--output {directory} is the base itself; choose another directory")
    stored = None if overwrite else load(directory.location)
    if stored is None and not overwrite:
        directory.refuse_foreign_files()
    if stored is not None:
        if stored.done != origin.done:
            raise _other(directory, f"by `{stored.done}`, not `{origin.done}`")
        if stored.base_fingerprint != origin.base_fingerprint:
            raise _other(directory, f"from another tokenizer, {stored.base}")
        if stored.counter_fingerprint != origin.counter_fingerprint:
            raise _other(directory, f"from other counts, those of {stored.run}")
        refuse_other_options(directory, f"tokenizer's {stored.done}", dict(stored.options), dict(origin.options))
        directory.remove_partial([*_NAMES, DERIVED.manifest])
        yield  # the same files again, each replaced whole: a failure leaves them
        return
    directory.remove([*_NAMES, *named_templates(directory.location)])
    directory.write_manifest(asdict(origin))
    try:
        yield
    except BaseException:
        directory.remove([*_NAMES, *named_templates(directory.location), DERIVED.manifest])
        raise


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


def require(location: Location) -> Origin:
    """Return what a directory was made from; raises `RunDirectoryError` if it does not say."""
    if (origin := load(location)) is None:
        raise RunDirectoryError(f"{location} holds no {DERIVED.manifest}")
    return origin
