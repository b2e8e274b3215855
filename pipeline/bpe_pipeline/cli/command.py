"""Declared commands as commands of click: flags from their records, and what carries out a session."""

import json
from collections.abc import Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import click

from bpe_pipeline.base import log
from bpe_pipeline.base.errors import ExportRefusedError, UsageError
from bpe_pipeline.cli.completion import Word
from bpe_pipeline.cli.help import HELP, HELP_ALL, Command, Flag
from bpe_pipeline.cli.settle import settle
from bpe_pipeline.commands.declaration import Command as Declared
from bpe_pipeline.commands.declaration import Session
from bpe_pipeline.run.options import RECORDS, Values, WorkOptions, flag_of
from bpe_pipeline.run.record import ARGUMENT, Record, Scope

if TYPE_CHECKING:
    from bpe_pipeline.reports.result import Result

_AS_JSON, _MORE = "bpe-pipeline.as_json", "more"
_CONFIG = Record(
    group="Other",
    default=None,
    help="read options from this file, YAML, JSON or TOML, by the same names; flags override it",
    metavar="FILE",
    kind=str,
)


def _be_verbose(_context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        log.show_all()


_hidden = partial(Flag, is_flag=True, expose_value=False)
DEBUGGING: list[click.Parameter] = [
    _hidden(["--verbose", "-v"], callback=_be_verbose, help="print the log, with debug messages", advanced=True),
    _hidden(["--debug"], help="show the traceback of a failure", advanced=True),
]
_JSON = _hidden(
    ["--json"],
    callback=lambda context, _, wanted: context.meta.update({_AS_JSON: wanted}),
    help="print the result as one JSON document; progress and logs go to standard error",
)


@cache
def click_command(declared: Declared) -> Command:
    """Return a declared command as one of click."""
    arguments = [_argument(one) for one in declared.takes.records.values() if one.group == ARGUMENT]
    if declared.too_many:
        arguments.append(click.Argument([_MORE], nargs=-1, metavar=""))

    def call(**typed: Any) -> int | None:
        if more := typed.pop(_MORE, ()):
            raise UsageError(declared.too_many.format(word=more[0]))
        return _carry_out(declared, settle(declared, typed))

    params = [*arguments, *_flags(declared), _JSON, *DEBUGGING, HELP, HELP_ALL]
    return Command(declared, callback=call, params=params)


def _argument(record: Record) -> click.Argument:
    several = record.several
    return click.Argument(
        [record.name], nargs=-1 if several else 1, required=record.required, metavar=record.metavar, type=Word(record)
    )


def _order(kind: type[Values]) -> list[Record]:
    """List the options that are flags of a command, in the order of the table; of two with the same flag the first."""
    own = {name: one for name, one in kind.records.items() if one.group != ARGUMENT and one.spelling != name}
    of_call = [one for one in own.values() if one.scope is Scope.CALL]
    of_table = [own[name] for name in dict.fromkeys((*RECORDS, *own)) if name in own and own[name] not in of_call]
    of_flags = dict[str, Record]()
    for record in (*of_call, *of_table):
        of_flags.setdefault(record.spelling, record)
    return [*of_flags.values()]


def _flags(declared: Declared) -> Iterator[click.Option]:
    """Make the flags of a command, and for one with options of a run --config."""
    if issubclass(declared.takes, WorkOptions):
        yield Flag(["--config"], type=Word(_CONFIG), metavar=_CONFIG.metavar, help=_CONFIG.help)
    for record in _order(declared.takes):
        yield from _flags_of(record)


def _flags_of(record: Record) -> Iterator[Flag]:
    place = partial(Flag, group=record.group, advanced=record.advanced)
    help_text = record.help + ("; repeatable, adds to the default" if record.without else "")
    kind: dict[str, Any] = {"is_flag": True, "default": None}
    if record.kind is not bool:
        help_text += f"  [default: {record.default_text}]" if record.default_text else ""
        kind = {"metavar": record.metavar or "|".join(record.choices), "multiple": record.several}
        kind |= {"type": Word(record), "words": record.words}
        # A required one gets no default: click takes None for a value.
        kind |= {"required": True} if record.required else {"default": None}
    spellings = [record.spelling, record.name, *([record.short] if record.short else [])]
    yield place(spellings, help=help_text, **kind)
    if record.without:
        yield place([flag_of(f"no_{record.name}")], is_flag=True, default=None, help=record.without)


def _carry_out(declared: Declared, options: Values) -> int | None:
    """Start workers, tell the story with progress, and print its result; return its exit code."""
    quiet, log_json = (bool(getattr(options, name, False)) for name in ("quiet", "log_json"))
    as_json = bool(click.get_current_context().meta[_AS_JSON])
    with declared.executor(options) as executor:
        from bpe_pipeline.reports import progress

        with progress.listener(quiet=quiet, log_json=log_json, apart=as_json) as listener:
            done = declared.story(Session(options, executor, listener))
        result: Result = done[0] if isinstance(done, tuple) else done
        if as_json:
            progress.write(json.dumps(result.to_json(), ensure_ascii=False))
        elif log_json:
            progress.write_json(result.event, result.to_json())
        else:
            for part in result.printed(quiet=quiet):
                progress.write(part)
    if failure := getattr(result, "failure", ""):
        raise ExportRefusedError(failure)
    return result.exit_code
