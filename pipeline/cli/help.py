"""What the help shows: commands in the order of their use, and flags in titled groups, few of them at once."""

import itertools
from collections.abc import Sequence
from typing import Any

import click

from pipeline.run.options import flag_of
from pipeline.run.record import GROUPS
from pipeline.run.values import is_ray_address

SECTIONS = {  # of the list of commands: the file that defines them, or one's name -> its title
    "train": "Train", "use": "Use", "encode-chat": "Chat data", "change": "Change", "inspect": "Inspect",
    "counts": "Counts and system",
}  # fmt: skip
OWN, OTHER = "Options", "Other"  # groups of flags that belong to one command, and to all
_ALL = "bpe-pipeline.help_all"
MEANS: dict[str, dict[str, Any]] = {  # of an option in a command: what differs from its record
    "encode output": {"help": "the directory of the shards, or FILE.bin for a single file; a path or a URI"},
    "encode-chat output": {"help": "the directory of the rows, a path or a URI"},
    "encode-chat shard_format": {"help": "format of the rows: arrow (as save_to_disk) or parquet", "default": "arrow"},
    "encode-chat sequence_length": {"help": "most tokens of a row; longer conversations are cut", "default": 2048},
    "encode-chat pack": {"help": "how rows are filled: none, greedy, neat (greedy, masked apart)", "default": "none"},
    "export output": {"help": "the directory of the files, a path or a URI; default: where the tokenizer is"},
    "parity pattern": {
        "help": "how text that is not counted yet is split; default: as RUN, else gpt2",
        "default": None,
    },
    "parity normalize": {
        "help": "the normal form of such text, none or nfc; default: as RUN, else none",
        "default": None,
    },
    "sweep output": {"help": "the directory of the runs, the page and the tokenizer that is recommended"},
    **{f"{one} output": {"help": "the directory of the new tokenizer, a path or a URI"} for one in ("extend", "prune")},
}


class Flag(click.Option):
    """A flag with the title that it stands under in the help; an advanced one stands there with --help-all."""

    def __init__(self, names: Sequence[str], *, group: str = OWN, advanced: bool = False, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.group, self.advanced = group, advanced


def _show_all(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.meta[_ALL] = True
        click.echo(context.get_help())
        context.exit()


HELP_ALL = Flag(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=_show_all,
    help="show this message with all options, and exit", group=OTHER,
)  # fmt: skip


class _Once(click.Command):
    """Refuse to repeat an option that holds one value: the last one would win without a word."""

    def make_parser(self, ctx: click.Context) -> Any:
        """Return a parser that takes each option once, but those that hold several values."""
        parser: Any = super().make_parser(ctx)
        parse_all = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            values, rest, order = parse_all(args=args)
            once = [one for one in order if isinstance(one, click.Option) and not (one.multiple or one.is_eager)]
            if twice := next((one for one in once if once.count(one) > 1), None):
                raise click.UsageError(f"{twice.opts[0]} is given twice; give it once", ctx)
            return values, rest, order

        parser.parse_args = parse_once
        return parser


class Command(_Once):
    """A command with its flags in titled groups; `section` is the title that it stands under itself."""

    section: str

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what is given; of an option that has no flag, say where it can be given."""
        try:
            return super().parse_args(
                ctx, self._with_address(args) if "ray" in {one.name for one in self.params} else args
            )
        except click.NoSuchOption as error:
            name = error.option_name.removeprefix("--").replace("-", "_")
            if flag_of(name) != name:
                raise
            raise click.UsageError(f"{error.option_name} is no flag; give {name} in a file for --config", ctx) from None

    def _with_address(self, args: Sequence[str]) -> list[str]:
        """Return the words with `--ray` as `--ray=ADDRESS`: the next word if it is an address, otherwise auto."""
        valued = {flag for one in self.params if isinstance(one, click.Option) and not one.is_flag for flag in one.opts}
        words, rest = list[str](), list(args)
        while rest and rest[0] != "--":
            words.append(rest.pop(0))
            if words[-1] == "--ray":
                words[-1] += f"={rest.pop(0) if rest and is_ray_address(rest[0]) else 'auto'}"
            elif words[-1] in valued:
                words += [rest.pop(0)] if rest else []
        return words + rest

    def groups(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Return the flags of each group."""
        order, found = (OWN, *GROUPS), dict[str, list[click.Option]]()
        for one in self.get_params(ctx):
            if isinstance(one, click.Option) and not one.hidden:
                found.setdefault(getattr(one, "group", OTHER if one.is_eager else OWN), []).append(one)
        return dict(sorted(found.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags that most people need, and how many others there are."""
        advanced = 0
        for title, flags in self.groups(ctx).items():
            shown = [flag for flag in flags if _ALL in ctx.meta or not getattr(flag, "advanced", False)]
            advanced += len(flags) - len(shown)
            if shown:
                with formatter.section(title):
                    formatter.write_dl([flag.get_help_record(ctx) or ("", "") for flag in shown])
        if advanced:
            formatter.write_paragraph()
            formatter.write_text(f"{advanced} advanced options: --help-all")


class Group(_Once, click.Group):
    """The commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their use."""
        del ctx
        return sorted(self.commands, key=lambda name: [*SECTIONS.values()].index(self._section(name)))

    def _section(self, name: str) -> str:
        return str(vars(self.commands[name])["section"])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command under its title."""
        for title, names in itertools.groupby(self.list_commands(ctx), self._section):
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].short_help or "") for name in names])
