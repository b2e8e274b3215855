"""What an extended or pruned tokenizer was made from, in made-from.json next to its files: `verify` makes it again."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.base.errors import RunDirectoryError, UsageError
from pipeline.guests.adapt.extend_worker import PLAN_NAME
from pipeline.guests.adapt.prune_worker import MAP_NAME, REMOVED_NAME
from pipeline.run.directory import Directory, Kind
from pipeline.run.manifest import refuse_other_options, run_of
from pipeline.run.stored import stored
from pipeline.storage import Location, same_location
from pipeline.tokenizer.formats.changed import CHANGED_NAMES
from pipeline.tokenizer.formats.files import tokenizer_home

_NAMES = (PLAN_NAME, MAP_NAME, REMOVED_NAME, *CHANGED_NAMES)
DERIVED = Kind("made-from.json", re.compile("|".join(map(re.escape, _NAMES))), 1)


@dataclass(frozen=True)
class Origin:
    """A base tokenizer and a run, by name and fingerprint, and what was done with them. done: "extend" or "prune"."""

    done: str
    base: str
    base_fingerprint: str
    run: str
    counter_fingerprint: str
    options: Mapping[str, Any]


@contextmanager
def claimed(directory: Directory, origin: Origin, *, base: Location, overwrite: bool) -> Iterator[None]:
    """Write what the directory will hold when the block ends; `RunDirectoryError` if it holds something else."""
    if same_location(directory.location, tokenizer_home(base)):
        raise UsageError(f"--output {directory} is the base itself; choose another directory")
    if (run := run_of(directory.location)) is not None:
        own = {name.partition("/")[0] for name in run.manifest.tokenizers}
        if any(same_location(directory.location, run.directory / name) for name in own):
            raise UsageError(f"--output {directory} belongs to the run {run.directory}; choose another directory")
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
    directory.remove(_NAMES)
    directory.write_manifest(asdict(origin))
    try:
        yield
    except BaseException:
        directory.remove([*_NAMES, DERIVED.manifest])
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
