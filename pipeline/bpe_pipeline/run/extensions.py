"""What extensions bring: parts of the package, or of other packages, outside train -> encode.

An extension is found by the entry points `bpe_pipeline.extensions`, each of which names an `Extension`. Nothing else
names one. One
that cannot be imported is left out and noted: nothing stops because of it but what it brings.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.storage import Location

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_log = logging.getLogger(__name__)
GROUP = "bpe_pipeline.extensions"
Imported = Callable[[], Any]  # imports something and returns it: naming an extension loads nothing of it


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What an extension brings, each by a name of its own.

    directories: of the manifest of a directory that it makes, or of what shards of it store as `made_by` -> an object
    with `info` and `report`; with `verify` unless they are shards, which have `marked_rows` for `decode --mask`.
    commands: imports the declarations of its commands, in the order of the help. functions: public names of
    `bpe_pipeline` -> what imports the function, or its declaration; `compat.NAME` is one of `bpe_pipeline.compat`.
    choosers: of the kind of a run's source -> the class that says how such a run's merges are chosen.
    report_section: returns what it adds to the report of merges, from the executor, the run and the merges; None:
    nothing. It is asked for every run, and should import nothing before it knows that the run is its own.
    """

    directories: Mapping[str, Imported] = field(default_factory=dict)
    choosers: Mapping[str, Imported] = field(default_factory=dict)
    commands: Imported = tuple
    functions: Mapping[str, Imported] = field(default_factory=dict)
    report_section: Callable[[Any, Any, Any], Any] | None = None


class ExtensionError(PipelineError):
    """Something of an extension cannot be imported; the message names its entry point and its package."""


unusable: dict[
    str, ExtensionError
] = {}  # by entry point, of extensions of which something was asked for in this process


@cache
def extensions() -> tuple[Extension, ...]:
    """Return the installed extensions, in the order of their names, without those that cannot be imported."""
    from importlib.metadata import entry_points  # takes a fifth of the command's start

    points, loaded = {point.name: point for point in entry_points(group=GROUP)}, list[Extension]()
    for name in sorted(points):
        try:
            loaded.append(_guarded(points[name]))
        except ExtensionError:  # it is noted
            continue
    return tuple(loaded)


def _guarded(point: "EntryPoint") -> Extension:
    """Load an extension whose members raise `ExtensionError` where they cannot be imported, as this function does."""

    def guard(member: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            try:
                return member(*arguments)
            except PipelineError:
                raise
            except Exception as error:
                package = "its package" if point.dist is None else point.dist.name
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                unusable[point.name] = ExtensionError(
                    f"the extension {point.name} = {point.value} of {package} cannot be used ({reason}): "
                    f"update or uninstall {package}"
                )
                _log.info("%s", unusable[point.name], exc_info=True)
                raise unusable[point.name] from error

        return guarded

    def load() -> Extension:
        extension = point.load()
        if not isinstance(extension, Extension):
            raise TypeError(f"it is {type(extension).__name__}, and no bpe_pipeline.run.extensions.Extension")
        return extension

    extension: Extension = guard(load)()
    guarded = {
        name: {key: guard(imported) for key, imported in getattr(extension, name).items()}
        for name in ("directories", "choosers", "functions")
    }
    section = extension.report_section and guard(extension.report_section)
    return replace(extension, **guarded, commands=guard(extension.commands), report_section=section)


def commands() -> list[Any]:
    """Return the declarations of the commands of all extensions that can be imported."""
    return [declared for extension in extensions() for declared in _unless_unusable(extension.commands) or ()]


def report_sections(*asked: Any) -> list[Any]:
    """Return what extensions add to a report, without those that fail.

    asked: what an extension's `report_section` takes.
    """
    sections = (
        _unless_unusable(extension.report_section, *asked) for extension in extensions() if extension.report_section
    )
    return [section for section in sections if section is not None]


def _unless_unusable(member: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return member(*arguments)
    except ExtensionError:  # it is noted
        return None


def maker_of(location: Location, made_by: str | None = None) -> Any:
    """Return what an extension brings for a directory that it made; None if no extension did. made_by: of shards."""
    kinds = (one for extension in extensions() for one in extension.directories.items())
    return next((maker() for name, maker in kinds if name == made_by or (location / name).exists()), None)


def choosers() -> dict[str, Imported]:
    """Return what imports the classes that say how merges are chosen, by the kind of a run's source."""
    return {kind: imported for extension in extensions() for kind, imported in extension.choosers.items()}
