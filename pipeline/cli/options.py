"""Flags made from the table of options, options made from flags and configuration file, and work shown as they ask."""

from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pipeline.cli.group import location_type
from pipeline.run.options import (
    DEFAULT_SPECIAL_TOKENS,
    OPTION_FIELDS,
    Options,
    check_vocabulary,
    flag_of,
    make_options,
    read_config,
)
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.base.events import Listener
    from pipeline.report.summary import Summary

RUN_OPTIONS = ("workers", "memory_limit", "quiet", "log_json")
CLUSTER_OPTIONS = ("executor", "ray_address")
COUNTING_OPTIONS = (  # what tells what is counted
    *("special_tokens", "special_tokens_as_text", "pad_token", "pattern", "errors", "max_piece_bytes"),
)


def _click_option(name: str, option: Field[Any]) -> Callable[[Any], Any]:
    help_text, metavar = option.metadata["help"], option.metadata["metavar"]
    if option.type is bool:
        return click.option(flag_of(name), name, is_flag=True, default=None, help=help_text)
    default: Any = option.default
    if name == "vocab_size":
        default = default[0]
    shown = default if isinstance(default, str | int) else None
    if name == "special_tokens":
        return click.option(
            flag_of(name), name, multiple=True, default=None, metavar=metavar,
            help=f"{help_text}; repeatable  [default: {' '.join(DEFAULT_SPECIAL_TOKENS)}]",
        )  # fmt: skip
    suffix = "" if shown is None else f"  [default: {shown}]"
    return click.option(flag_of(name), name, default=None, metavar=metavar or "VALUE", help=help_text + suffix)


def run_options(*names: str) -> Callable[[Any], Any]:
    """Flags for these options, and --config, --print-config and --no-special-tokens beside them."""

    def decorate(function: Any) -> Any:
        for name in reversed(names):
            if name == "special_tokens":
                function = click.option(
                    "--no-special-tokens", is_flag=True, default=None, help="every file is one document"
                )(function)
            function = _click_option(name, OPTION_FIELDS[name])(function)
        function = click.option(
            "--config",
            type=location_type,
            metavar="FILE",
            help="YAML, JSON or TOML with the same names; flags override it",
        )(function)
        return click.option("--print-config", is_flag=True, help="print the options that would be used, and stop")(
            function
        )

    return decorate


class Settled(NamedTuple):
    """What a command was asked for."""

    options: Options
    given: dict[str, Any]  # what was asked for, by name; all else is a default


def settle(names: Sequence[str], values: dict[str, Any], inputs: Sequence[str] = ()) -> Settled | None:
    """The options from file and flags; None after `--print-config` printed them."""
    config, print_config = values.pop("config"), values.pop("print_config")
    flags = {name: value for name, value in values.items() if value is not None and value != ()}
    if inputs:
        flags["inputs"] = tuple(inputs)
    stored = read_config(config) if config is not None else {}
    unfit = sorted(set(stored) & set(OPTION_FIELDS) - set(names) - {"inputs"})
    if flags.keys() & {"special_tokens", "no_special_tokens"}:  # a flag overrides either spelling in the file
        stored.pop("special_tokens", None)
        stored.pop("no_special_tokens", None)

    def spell(name: str) -> str:
        return flag_of(name) if name in flags else f"configuration file {config}: {name!r}"

    given = {**stored, **flags}
    options = make_options(given, spell)
    if {"vocab_size", "special_tokens"} <= set(names):  # `merge` takes the special tokens of its run
        check_vocabulary(options)
    if print_config:
        import yaml

        shown = {name: getattr(options, name) for name in ("inputs", *names) if name not in unfit}
        plain = {name: _plain(name, value) for name, value in shown.items()}
        click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
        return None
    return Settled(options, given)


def _plain(name: str, value: Any) -> Any:
    """An option's value as a configuration file would have it."""
    if name == "vocab_size" and len(value) == 1:
        return value[0]
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Location) else value


def carry_out(options: Options, work: "Callable[[Listener], Summary]") -> None:
    """Do the work, showing it as the options ask, and print what came of it."""
    from pipeline.report import progress
    from pipeline.report.summary import render

    with progress.listener(quiet=options.quiet, log_json=options.log_json) as listener:
        summary = work(listener)
    if options.log_json:
        progress.write_json("summary", summary.to_json())
    elif options.quiet:
        progress.write("\n".join(map(str, summary.tokenizer_directories or [summary.directory])))
    else:
        progress.write(render(summary))


def print_plan(options: Options) -> None:
    """What `--dry-run` shows: the run as it would be carried out."""
    from pipeline.commands.dry_run import run_dry
    from pipeline.report import progress

    with progress.listener(quiet=options.quiet, log_json=options.log_json) as listener:
        plan = run_dry(options, listener)
    if options.log_json:
        progress.write_json("plan", plan)
    else:
        progress.write("\n".join(f"{name + ':':24}{value}" for name, value in plan.items()))
