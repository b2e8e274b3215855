"""What a guest made is verified, reported and described by it: found by its manifest, imported by name when used."""

from importlib import import_module
from types import ModuleType

from pipeline.storage import Location

_GUESTS = {"made-from.json": "pipeline.guests.adapt.made"}  # each has `verify`, `report` and `info`


def guest_of(location: Location) -> ModuleType | None:
    """Return the module of the guest that made what is in a directory, or None."""
    found = next((module for name, module in _GUESTS.items() if (location / name).exists()), None)
    return None if found is None else import_module(found)
