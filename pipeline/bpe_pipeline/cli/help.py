"""What the help shows: commands in the order of their use, and flags in titled groups, few of them at once."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from bpe_pipeline.base.printable import wrapped
from bpe_pipeline.commands.declaration import TITLES
from bpe_pipeline.commands.declaration import Command as Declared
from bpe_pipeline.run.extensions import unusable
from bpe_pipeline.run.record import GROUPS, OWN, Record
from bpe_pipeline.run.values import reader_of

OTHER = "Other"  # flags that belong to all commands
_ALL = "bpe-pipeline.help_all"
_HYPHEN = "\ue000"  # for a hyphen, at which no line is broken


class Flag(click.Option):
    """A flag with the title that it stands under in the help; an advanced one stands there with --help-all."""

    def __init__(
        self, names: Sequence[str], *, group: str = OTHER, advanced: bool = False, words: bool = False, **settings: Any
    ) -> None:
        super().__init__(names, **settings)
        self.group, self.advanced, self._words = group, advanced, words

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Refuse a second value where one is held: the last would win without a word; take all words if it does."""
        super().add_to_parser(parser, ctx)
        name = self.opts[0]
        option = parser._long_opt.get(name) or parser._short_opt[name]
        option.process = self._taking(option.process, ctx)

    def _taking(self, process: Callable[[Any, Any], None], ctx: click.Context) -> Callable[[Any, Any], None]:
        seen = list[Any]()

        def take(value: Any, state: Any) -> None:
            if seen and not (self.multiple or self.is_eager):
                raise click.UsageError(f"{self.opts[0]} is given twice; give it once", ctx)
            seen.append(value)
            process(value, state)
            while self._words and state.largs and state.rargs and not state.rargs[0].startswith("-"):
                process(state.rargs.pop(0), state)

        return take


def _show(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.meta[_ALL] = parameter is HELP_ALL
        click.echo(context.get_help())
        context.exit()


_eager = partial(Flag, is_flag=True, is_eager=True, expose_value=False, callback=_show)
HELP = _eager(["--help", "-h"], help="show this message, and exit")
HELP_ALL = _eager(["--help-all"], hidden=True, help="show this message with all options, and exit")


class Formatter(click.HelpFormatter):
    """Breaks texts at spaces alone, not within the names of options, and commands so that a shell takes them."""

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and what is said of each."""
        super().write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        """Return all of it."""
        return super().getvalue().replace(_HYPHEN, "-")


class _Context(click.Context):
    formatter_class = Formatter


class _Helpful(click.Command):
    """A command whose help has a heading for its examples."""

    context_class = _Context

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, and its examples, which follow a line with a backspace."""
        del ctx
        said, _, examples = inspect.cleandoc(self.help or "").partition("\n\b\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(said)
        with formatter.section("Examples"):
            for line in examples.splitlines():
                formatter.write(wrapped(f"  {line}", formatter.width, 4, command=True) + "\n")


class Command(_Helpful):
    """A declared command, with its flags in titled groups."""

    def __init__(self, declared: Declared, **settings: Any) -> None:
        text = declared.help
        super().__init__(declared.name, help=text, short_help=text.partition("\n")[0], **settings)
        self._declared = declared

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what is given; of an option that has no flag, say where it can be given."""
        records = self._declared.takes.records
        for record in records.values():
            args = self._with_value(args, record) if record.alone else args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.removeprefix("--").replace("-", "_")
            if name in records and records[name].spelling == name:
                raise click.UsageError(
                    f"{error.option_name} is no flag; give {name} in a file for --config", ctx
                ) from None
            raise

    def _with_value(self, args: Sequence[str], record: Record) -> list[str]:
        """Return the words with `--ray` as `--ray=VALUE`: the next word if the record reads it, else what it means."""
        valued = {flag for one in self.params if isinstance(one, click.Option) and not one.is_flag for flag in one.opts}
        words, rest = list[str](), list(args)
        while rest and rest[0] != "--":
            words.append(rest.pop(0))
            if words[-1] == record.spelling:
                words[-1] += f"={rest.pop(0) if rest and _reads(record, rest[0]) else record.alone}"
            elif words[-1] in valued:
                words += [rest.pop(0)] if rest else []
        return words + rest

    def groups(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Return the flags of each group."""
        order, found = (OWN, *GROUPS), dict[str, list[click.Option]]()
        for one in self.get_params(ctx):
            if isinstance(one, click.Option) and not one.hidden:
                found.setdefault(getattr(one, "group", OTHER), []).append(one)
        return dict(sorted(found.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags that most people need, and how many others there are."""
        advanced = 0
        for title, flags in self.groups(ctx).items():
            shown = [flag for flag in flags if ctx.meta.get(_ALL) or not getattr(flag, "advanced", False)]
            advanced += len(flags) - len(shown)
            if shown:
                with formatter.section(title):
                    formatter.write_dl([flag.get_help_record(ctx) or ("", "") for flag in shown])
        if advanced:
            formatter.write_paragraph()
            formatter.write_text(f"{advanced} advanced options: --help-all")


def _reads(record: Record, word: str) -> bool:
    try:
        reader_of(record)(word)
    except ValueError:
        return False
    return True


class Group(_Helpful, click.Group):
    """The commands: the package's own, and those of extensions where one of these is not meant.

    own: the declarations of the first; others: asks for those of extensions; make: makes a command of a declaration.
    """

    def __init__(
        self,
        own: Sequence[Declared],
        others: Callable[[], Sequence[Declared]],
        make: Callable[[Declared], Command],
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._own, self._others, self._make = {one.name: one for one in own}, others, make

    def declared(self) -> Mapping[str, Declared]:
        """Return all declarations by name, in the order of the help; no extension takes a name of the package's own."""
        known = {**self._own, **{one.name: one for one in self._others() if one.name not in self._own}}
        titles = [*dict.fromkeys((*TITLES, *(one.group for one in known.values())))]
        return dict(sorted(known.items(), key=lambda one: titles.index(one[1].group)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; extensions are asked for names that are not the package's own."""
        del ctx
        if cmd_name in self._own:
            return self._make(self._own[cmd_name])
        self.commands = {name: self._make(declared) for name, declared in self.declared().items()}
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their use."""
        del ctx
        return list(self.declared())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command under its title."""
        del ctx
        for title, commands in itertools.groupby(self.declared().values(), lambda one: one.group):
            with formatter.section(title):
                formatter.write_dl([(one.name, one.help.partition("\n")[0]) for one in commands])
        for error in unusable.values():
            click.echo(f"warning: {error}", err=True)
