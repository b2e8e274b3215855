"""What was typed -> the options of a command: values of flags, then of the configuration file, then defaults."""

from collections.abc import Callable, Mapping
from typing import Any

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.commands.declaration import Command, Session, of_options
from bpe_pipeline.run.config_file import read_config
from bpe_pipeline.run.make_options import known_options, make_options, parsed, require_known
from bpe_pipeline.run.options import RECORDS, flag_of
from bpe_pipeline.run.record import CALL, Record, records_of
from bpe_pipeline.storage import parse_location


def _read(config: str) -> dict[str, Any]:
    try:
        return read_config(parse_location(config))
    except ValueError as error:
        raise unfit("--config", str(error), config) from None


def settle(declared: Command, typed: Mapping[str, Any]) -> Session:
    """Return the options of a command, without what carries them out."""
    kind, records = declared.takes, records_of(declared.takes)
    flags = {name: value for name, value in typed.items() if value is not None and value != ()}
    config = flags.pop("config", None)
    in_file = {} if config is None else _read(config)
    if declared.of_file is not None:
        in_file = declared.of_file(in_file)
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
