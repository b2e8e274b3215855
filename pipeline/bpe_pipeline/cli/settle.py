"""What was typed -> the options of a command: values of flags, then of the configuration file, then defaults."""

from collections.abc import Callable, Mapping
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.commands.declaration import Command
from bpe_pipeline.run.config_file import read_config
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import Values, flag_of
from bpe_pipeline.run.record import Record
from bpe_pipeline.run.values import parsed, reader_of
from bpe_pipeline.storage import parse_location


def settle(declared: Command, typed: Mapping[str, Any]) -> Values:
    """Return the options of a command, and those of other commands that its configuration file has."""
    records = declared.takes.records
    flags = {name: value for name, value in typed.items() if value is not None and value != ()}
    config = flags.pop("config", None)
    in_file = {} if config is None else read_config(parsed("--config", config, parse_location))
    if declared.of_file is not None:
        in_file = declared.of_file(in_file)
    from_flags = {*flags}

    def spell(name: str) -> str:
        if config is None or name in from_flags:
            return records[name].spelling if name in records else flag_of(name)
        return f"configuration file {config}: {name!r}"

    for record in (record for record in records.values() if record.without):
        _add_to_list(record, flags, in_file, spell)
    given = {**in_file, **flags}
    if declared.settled is not None:
        given = declared.settled(given)
    return make_options(declared.takes, given, spell, in_file.keys() - flags.keys())


def _add_to_list(record: Record, flags: dict[str, Any], in_file: dict[str, Any], spell: Callable[[str], str]) -> None:
    """Add what a flag names to the list of the file, or to the default; `--no-NAME` starts from none."""
    name, none = record.name, f"no_{record.name}"
    if not flags.keys() & {name, none}:
        return
    stored, without = in_file.pop(name, None), in_file.pop(none, None)
    if stored and without:
        raise UsageError(f"{spell(name)} and {spell(none)} exclude each other; give one")
    if flags.pop(none, False) or without:
        before = ()
    elif stored is None:
        before = record.default
    else:
        before = parsed(spell(name), stored, reader_of(record))
    flags[name] = (*before, *(text for text in flags.get(name, ()) if text not in before))
