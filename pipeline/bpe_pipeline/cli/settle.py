"""What was typed -> the options of a command: values of flags, then of the configuration file, then defaults."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.printable import printable
from bpe_pipeline.commands.declaration import Command, Session, of_options
from bpe_pipeline.run.config_file import read_config
from bpe_pipeline.run.make_options import known_options, make_options, parsed, require_known
from bpe_pipeline.run.options import RECORDS, flag_of
from bpe_pipeline.run.record import CALL, Record, records_of
from bpe_pipeline.storage import Location, parse_location


def settle(declared: Command, typed: Mapping[str, Any]) -> Session | None:
    """Return the options of a command, without what carries them out; None after `--print-config`."""
    kind, records = declared.takes, records_of(declared.takes)
    flags = {name: value for name, value in typed.items() if value is not None and value != ()}
    config, print_config = flags.pop("config", None), flags.pop("print_config", False)
    in_file = read_config(parse_location(config)) if config is not None else {}
    if declared.foreign is not None:
        in_file, flags = declared.foreign.of_file(in_file), declared.foreign.of_flags(flags)
    from_flags = {*flags}

    def spell(name: str) -> str:
        if config is None or name in from_flags:
            return records[name].spelling if name in records else flag_of(name)
        return f"configuration file {config}: {name!r}"

    for record in (record for record in records.values() if record.without):
        _add_to_list(record, flags, in_file, spell)
    own = {name for name, record in records.items() if record.stage != CALL}
    negated = {f"no_{name}" for name in own if records[name].without}
    others = {name: value for name, value in in_file.items() if name not in own | negated}  # of other commands
    negations = {f"no_{name}" for name, record in RECORDS.items() if record.without}
    require_known((name for name in others if name not in negations), spell, {})
    for name in others.keys() - negations:
        parsed((RECORDS if name in RECORDS else known_options())[name], others[name], spell)
    given = {**in_file, **flags}
    if declared.settled is not None:
        given = declared.settled(given, kind)
    options = make_options(kind, {name: value for name, value in given.items() if name not in others}, spell)
    if declared.check is not None:
        declared.check(options, given)
    if print_config:
        _print(options, [name for name in ("inputs", *records) if name in own])
        return None
    return Session(options, of_options(given, kind))


def _add_to_list(record: Record, flags: dict[str, Any], in_file: dict[str, Any], spell: Callable[[str], str]) -> None:
    """Add what a flag names to the list of the file, or to the default; `--no-NAME` starts from none."""
    name, none = record.name, f"no_{record.name}"
    if not flags.keys() & {name, none}:
        return
    stored, without = in_file.pop(name, None), in_file.pop(none, None)
    if stored and without:
        raise UsageError(f"{spell(name)} and {spell(none)} exclude each other; give one")
    before = (
        () if flags.pop(none, False) or without else record.default if stored is None else parsed(record, stored, spell)
    )
    flags[name] = (*before, *(text for text in flags.get(name, ()) if text not in before))


def _print(options: Any, names: list[str]) -> None:
    import yaml

    yaml.SafeDumper.add_multi_representer(str, yaml.SafeDumper.represent_str)  # of URIs
    plain = {name: _plain(name, getattr(options, name)) for name in dict.fromkeys(names)}
    readable = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    shown = all(line == printable(line) for line in readable.split("\n"))
    click.echo(readable if shown else yaml.safe_dump(plain, sort_keys=False), nl=False)


def _plain(name: str, value: Any) -> Any:
    """Return an option's value as a configuration file would have it."""
    if name == "vocab_size" and len(value) == 1:
        return value[0]
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Location) else value
