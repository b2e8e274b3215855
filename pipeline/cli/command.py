"""What all commands share: the group, flags from the table of options, and running a command's story.

Values come from flags, then from the configuration file, then from defaults. A command that needs workers imports its
story itself, so that the worker processes start at the same time.
"""

import contextlib
import functools
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pipeline import __version__
from pipeline.base import log
from pipeline.base.printable import printable
from pipeline.cli.completion import LOCATION, PATH_TEXT, names
from pipeline.cli.help import HELP_ALL, MEANS, OTHER, SECTIONS, Command, Flag, Group
from pipeline.cli.llamafactory_names import THEIRS, of_their_file, with_our_names
from pipeline.run.config_file import read_config
from pipeline.run.make_options import check_vocabulary, make_options, parsed, require_known
from pipeline.run.options import (
    RECORDS,
    ClusterOptions,
    CountOptions,
    RayOptions,
    TrainOptions,
    Values,
    WorkOptions,
    flag_of,
)
from pipeline.run.record import Record, records_of
from pipeline.storage import Location

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pipeline.base.events import Listener
    from pipeline.executors import Executor
    from pipeline.reports.result import Result

PROGRAM = "bpe-pipeline"
_AS_JSON = "bpe-pipeline.as_json"


@dataclass(frozen=True)
class Request:
    """What a command was asked for. given: values from flags and configuration file; all others are defaults."""

    options: Any  # the value that the command takes
    given: dict[str, Any]


@dataclass(frozen=True)
class Session(Request):
    """A request with the executor and the listener to carry it out."""

    executor: "Executor"
    listener: "Listener"


def _be_verbose(_context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        log.show_all()


def as_utf8(word: str) -> str:
    """Return a word as the UTF-8 that its bytes are; where the locale is not UTF-8, Python escapes them one by one."""
    try:
        return word.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        return word  # its reader refuses it


_DEBUGGING: list[click.Parameter] = [
    Flag(
        ["--verbose", "-v"], is_flag=True, expose_value=False, callback=_be_verbose,
        help="print the log, with debug messages", group=OTHER, advanced=True,
    ),
    Flag(["--debug"], is_flag=True, expose_value=False, help="show the traceback of a failure", group=OTHER,
         advanced=True),
]  # fmt: skip
_JSON = Flag(
    ["--json"], is_flag=True, expose_value=False, group=OTHER,
    callback=lambda context, _, wanted: context.meta.update({_AS_JSON: wanted}),
    help="print the result as one JSON document; progress and logs go to standard error",
)  # fmt: skip
inputs = click.argument("inputs", nargs=-1, metavar="[INPUT ...]", type=PATH_TEXT)
run_argument = click.argument("run_directory", type=LOCATION, metavar="RUN")
base_argument = click.argument("base", type=LOCATION, metavar="BASE")
overwrite_option = click.option("--overwrite", is_flag=True, help="replace a file that exists")
tokenizer_option = click.option(
    "--tokenizer", type=LOCATION, required=True, metavar="DIR",
    help="a tokenizer directory, tokenizer.json, or a run",
)  # fmt: skip


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, params=[*_DEBUGGING]
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def commands() -> None:
    """Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable.

    \b
    Let the Tab key complete commands, options and values; for bash, and likewise for zsh and fish:
    eval "$(_BPE_PIPELINE_COMPLETE=bash_source bpe-pipeline)"
    """


def command(
    takes: type[Values] | None = None, *, name: str | None = None, in_file: Sequence[str] = ()
) -> "Callable[[Callable[..., Result | None]], click.Command]":
    """Add a function to the group as a command, with the options of the value that it takes.

    It is called with a `Request`, unless it has no options, and the values of its own click arguments but `inputs`. The
    result that it may return is printed. in_file: further names of its own, which a configuration file may have.
    """

    def decorate(function: "Callable[..., Result | None]") -> click.Command:
        title = name or function.__name__.replace("_", "-")
        flags = [] if takes is None else _flags(takes, title)
        own: list[click.Parameter] = list(reversed(getattr(function, "__click_params__", [])))
        own_names = {str(parameter.name) for parameter in own} - {"inputs"}

        def call(**values: Any) -> int | None:
            own_values = {own_name: values.pop(own_name) for own_name in own_names}
            if takes is None:
                return show(function(**own_values))
            request = _settle(takes, values, own_values, in_file)
            return None if request is None else show(function(request, **own_values))

        help_text = inspect.cleandoc(function.__doc__ or "")
        found = Command(
            title,
            callback=call,
            params=[*own, *flags, _JSON, *_DEBUGGING, HELP_ALL],
            help=help_text,
            short_help=help_text.partition("\n")[0],  # otherwise click would cut it
        )
        found.section = SECTIONS.get(title) or SECTIONS[function.__module__.rpartition(".")[2]]
        commands.add_command(found)
        return found

    return decorate


def run_command(
    takes: type[Values],
    *,
    name: str | None = None,
    in_file: Sequence[str] = (),
    settle: "Callable[[Request, dict[str, Any]], Request]" = lambda request, _: request,
) -> "Callable[[Callable[..., Result]], click.Command]":
    """Make a function of a `Session` a command, and print its result.

    in_file: as of `command`. settle: takes options from the values of the command's own arguments, and these from the
    values.
    """

    def decorate(function: "Callable[..., Result]") -> click.Command:
        @functools.wraps(function)
        def call(request: Request, **values: Any) -> None:
            request = settle(request, values)
            if getattr(request.options, "dry_run", False):
                carry_out(request, _plan, lambda _: contextlib.nullcontext())
            else:
                from pipeline.run.workers import executor_for, executor_here

                start = executor_for if issubclass(takes, ClusterOptions) else executor_here
                carry_out(request, lambda session: function(session, **values), start)

        return command(takes, name=name, in_file=in_file)(call)

    return decorate


def as_json() -> bool:
    """Whether the command that runs has --json."""
    return bool(click.get_current_context().meta[_AS_JSON])


def _names(kind: type[Values]) -> list[str]:
    """List the options that are flags of a command: of two with the same flag the first."""
    own = records_of(kind).keys() - {"inputs"}
    flags = {flag_of(name): name for name in reversed(RECORDS) if name in own}
    return [name for name in RECORDS if name in flags.values()]


def _flags(kind: type[Values], title: str) -> list[click.Option]:
    """Make flags for these options, and for those of a run --print-config and --config."""
    of_run: list[click.Option] = [
        Flag(
            ["--config"], type=LOCATION, metavar="FILE", group=OTHER,
            help="read options from this file, YAML, JSON or TOML, by the same names; flags override it",
        ),
        Flag(
            ["--print-config"], is_flag=True, group=OTHER, advanced=True,
            help="print the options that would be used, and stop",
        ),
    ]  # fmt: skip
    flags: list[click.Option] = of_run if issubclass(kind, WorkOptions | RayOptions) else []
    own = records_of(kind)
    records = (replace(own[name], **MEANS.get(f"{title} {name}", {})) for name in _names(kind))
    flags += [flag for record in records if record.spelling != record.name for flag in _flags_of(record)]
    spelt = (
        {name: dict.fromkeys((f"--{name}", flag_of(name))) for name in THEIRS} if kind.__name__ == "ChatOptions" else {}
    )
    return flags + [click.Option([*both, name], default=None, hidden=True) for name, both in spelt.items()]


def _flags_of(record: Record) -> Iterator[Flag]:
    place = partial(Flag, group=record.group, advanced=record.advanced, default=None)
    default = record.default[0] if record.default and isinstance(record.default, tuple) else record.default
    help_text = record.help + ("; repeatable, adds to the default" if record.without else "")
    kind: dict[str, Any] = {"is_flag": True}
    if record.kind is not bool:
        help_text += f"  [default: {default}]" if isinstance(default, str | int) else ""
        kind = {"metavar": record.metavar or "|".join(record.choices), "multiple": record.several}
        kind["type"] = PATH_TEXT if record.name == "output" else names(record)
    spellings = [flag_of(record.name), record.name, *([record.short] if record.short else [])]
    yield place(spellings, help=help_text, **kind)
    if record.without:
        yield place([flag_of(f"no_{record.name}")], is_flag=True, help=record.without)


def _settle(
    kind: type[Values], values: dict[str, Any], own_values: dict[str, Any], in_file: Sequence[str]
) -> Request | None:
    """Make options from flags and configuration file, which may add own values; None after `--print-config`."""
    config, print_config = values.pop("config", None), values.pop("print_config", False)
    flags = {name: value for name, value in values.items() if value is not None and value != ()}
    for name in flags.keys() - {"inputs", "output"}:  # a path is opened by the bytes that it has
        if isinstance(value := flags[name], str | tuple):
            flags[name] = as_utf8(value) if isinstance(value, str) else tuple(map(as_utf8, value))
    stored = read_config(config) if config is not None else {}
    if kind.__name__ == "ChatOptions":
        stored, flags = of_their_file(stored), with_our_names(flags)
    own_values |= {name: stored.pop(name) for name in in_file if name in stored}

    def spell(name: str) -> str:
        return flag_of(name) if name in flags else f"configuration file {config}: {name!r}"

    if flags.keys() & {"special_tokens", "no_special_tokens"}:  # the flag adds to the default, or to the file's list
        listed = {name: stored.pop(name, None) for name in ("special_tokens", "no_special_tokens")}
        start = (
            () if flags.pop("no_special_tokens", False) else make_options(CountOptions, listed, spell).special_tokens
        )
        added = flags.get("special_tokens", ())
        flags["special_tokens"] = (*start, *(text for text in added if text not in start))
    own = {*records_of(kind)}
    given = {**stored, **flags}
    other = set(stored) - own - {"no_special_tokens"}  # one file may serve several commands
    require_known((name for name in stored if name != "no_special_tokens"), spell)
    for name in other:
        parsed(name, stored[name], spell)
    options = make_options(kind, {name: value for name, value in given.items() if name not in other}, spell)
    if isinstance(options, TrainOptions):  # `merge` takes the special tokens of its run
        check_vocabulary(options)
    if print_config:
        import yaml

        yaml.SafeDumper.add_multi_representer(str, yaml.SafeDumper.represent_str)  # of URIs
        plain = {name: _plain(name, getattr(options, name)) for name in ("inputs", *_names(kind)) if name in own}
        readable = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        shown = all(line == printable(line) for line in readable.split("\n"))
        click.echo(readable if shown else yaml.safe_dump(plain, sort_keys=False), nl=False)
        return None
    return Request(options, given)


def _plain(name: str, value: Any) -> Any:
    """Return an option's value as a configuration file would have it."""
    if name == "vocab_size" and len(value) == 1:
        return value[0]
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Location) else value


def show(result: "Result | None", *, log_json: bool = False, quiet: bool = False) -> int | None:
    """Print a result and return its exit code."""
    if result is None:
        return None
    from pipeline.reports import progress

    if as_json():
        progress.write(json.dumps(result.to_json(), ensure_ascii=False))
    elif log_json:
        progress.write_json(result.event, result.to_json())
    elif text := result.brief if quiet else str(result):
        progress.write(text)
    return result.exit_code


def carry_out(
    request: Request,
    story: "Callable[[Session], Result]",
    start: "Callable[[Any], AbstractContextManager[Any]]",
) -> None:
    """Start workers, run a story with progress, and print its result."""
    options = request.options
    with start(options) as executor:
        from pipeline.reports import progress

        with progress.listener(quiet=options.quiet, log_json=options.log_json, apart=as_json()) as listener:
            result = story(Session(options, request.given, executor, listener))
        show(result, quiet=options.quiet, log_json=options.log_json)


def _plan(session: Session) -> "Result":
    """Return what `--dry-run` prints: the run as it would be carried out."""
    from pipeline.commands.dry_run import run_dry
    from pipeline.reports.result import Facts

    plan = Facts(run_dry(make_options(TrainOptions, session.given), session.listener), "plan")
    return replace(plan, short=str(plan))
