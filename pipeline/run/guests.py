"""The guests that made a directory or choose a run's merges: found by its manifest, imported by name when used."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from pipeline.run.stored import stored
from pipeline.storage import Location

_MAKERS = {"made-from.json": "pipeline.guests.adapt.made"}  # the manifest of a directory -> `verify`, `report`, `info`
_CHOOSERS = {"languages": "pipeline.guests.parity.parity"}  # the kind of a run's source -> `Chooser`, with the same


def guest_of(location: Location) -> ModuleType | None:
    """Return the module of the guest that made what is in a directory, or None."""
    found = next((module for name, module in _MAKERS.items() if (location / name).exists()), None)
    return None if found is None else import_module(found)


def chooser_of(kind: str, chosen_by: Mapping[str, Any]) -> Any:
    """Return the `Chooser` of a guest for what a source stores; raises `TypeError`, `KeyError` or `ValueError`."""
    return stored(import_module(_CHOOSERS[kind]).Chooser, chosen_by)
