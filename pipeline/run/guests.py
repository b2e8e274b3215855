"""What guests bring: parts of the package, or of other packages, outside train -> encode.

A guest is found by the entry points `bpe_pipeline.guests`, each of which names a `Guest`. Nothing else names one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pipeline.storage import Location

GROUP = "bpe_pipeline.guests"
Imported = Callable[[], Any]  # imports something and returns it: naming a guest loads nothing of it


@dataclass(frozen=True, kw_only=True)
class Guest:
    """What a guest brings, each by a name of its own.

    directories: of the manifest of a directory that it makes, or of what shards of it store as `made_by` -> an object
    with `info` and `report`; with `verify` unless they are shards, which have `marked_rows` for `decode --mask`.
    commands: imports the declarations of its commands, in the order of the help. functions: public names of `pipeline`
    -> what imports the function, or its declaration.
    choosers: of the kind of a run's source -> the class that says how such a run's merges are chosen.
    report_section: returns what it adds to the report of merges, from the executor, the run and the merges; None:
    nothing. It is asked for every run, and should import nothing before it knows that the run is its own.
    """

    directories: Mapping[str, Imported] = field(default_factory=dict)
    choosers: Mapping[str, Imported] = field(default_factory=dict)
    commands: Imported = tuple
    functions: Mapping[str, Imported] = field(default_factory=dict)
    report_section: Callable[[Any, Any, Any], Any] | None = None


@cache
def guests() -> tuple[Guest, ...]:
    """Return all installed guests, in the order of their names."""
    from importlib.metadata import entry_points  # takes a fifth of the command's start

    found = {point.name: point for point in entry_points(group=GROUP)}
    return tuple(found[name].load() for name in sorted(found))


def maker_of(location: Location, made_by: str | None = None) -> Any:
    """Return what a guest brings for a directory that it made; None if no guest did. made_by: of shards."""
    kinds = (one for guest in guests() for one in guest.directories.items())
    return next((maker() for name, maker in kinds if name == made_by or (location / name).exists()), None)


def chooser_of(kind: str) -> Any:
    """Return the class that says how the merges of a run with this kind of source are chosen; `KeyError` if missing."""
    return {name: imported for guest in guests() for name, imported in guest.choosers.items()}[kind]()
