"""The command line: turns words into options, calls the command's story, prints what it gives.

click is the chosen library: typed, kept since 2014, two dependencies fewer and a third of the start-up time of those
built upon it. The flags of a run are made from the one table in `pipeline.config`.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import Field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pipeline import __version__
from pipeline.config import (
    DEFAULT_SPECIAL_TOKENS,
    OPTION_FIELDS,
    Options,
    check_vocabulary,
    flag_of,
    make_options,
    read_config,
)
from pipeline.errors import PipelineError, UsageError
from pipeline.values import CHAT_TEMPLATES, EXPORT_FORMATS

if TYPE_CHECKING:
    from pipeline.events import Listener
    from pipeline.report.summary import Summary

PROGRAM = "bpe-pipeline"
_RUN_OPTIONS = ("workers", "memory_limit", "quiet", "log_json")
_MERGE_OPTIONS = (
    *("vocab_size", "tie_break", "min_frequency", "max_token_bytes", "special_ids", "export", "chat_template"),
    *("overwrite", *_RUN_OPTIONS),
)
_COUNT_OPTIONS = (
    *("output", "special_tokens", "pad_token", "pattern", "errors", "max_piece_bytes", "chunk_size"),
    *("fail_on_loss", "dry_run", "overwrite", *_RUN_OPTIONS),
)
_TRAIN_OPTIONS = tuple(name for name in OPTION_FIELDS if name != "inputs")


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. Prints a one-line reason for every failure."""
    debug = "--debug" in arguments
    try:
        result = commands.main([word for word in arguments if word != "--debug"], PROGRAM, standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:  # click turns the second into the first
        _complain(str(error.__cause__ or error) or "interrupted before any work was begun")
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        _complain(" ".join(error.format_message().split()))
        return 2
    except PipelineError as error:
        if debug:
            raise
        _complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left: nothing to say, and nobody to say it to
        return 1
    except OSError as error:
        if debug:
            raise
        _complain(_about_stdout(error) or _defect(error))
        return 1
    except Exception as error:
        if debug:
            raise
        _complain(_defect(error))
        return 1
    return result if isinstance(result, int) else 0


def _complain(reason: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # standard error is full or closed: there is nobody to tell
        click.echo(f"{PROGRAM}: error: {reason}", err=True)


def _defect(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} (a defect: please report it with the output of --debug)"


def _about_stdout(error: OSError) -> str | None:
    """The message for output that click could not write; None where the error came from elsewhere."""
    if any(frame.f_globals.get("__name__") == "click.utils" for frame, _ in traceback.walk_tb(error.__traceback__)):
        return f"standard output cannot be written: {error.strerror or error}; write it somewhere else"
    return None


def _click_option(name: str, option: Field[Any]) -> Callable[[Any], Any]:
    help_text, metavar = option.metadata["help"], option.metadata["metavar"]
    if option.type is bool:
        return click.option(flag_of(name), name, is_flag=True, default=None, help=help_text)
    shown = option.default if isinstance(option.default, str | int) else None
    if name == "special_tokens":
        return click.option(
            flag_of(name), name, multiple=True, default=None, metavar=metavar,
            help=f"{help_text}; repeatable  [default: {' '.join(DEFAULT_SPECIAL_TOKENS)}]",
        )  # fmt: skip
    suffix = "" if shown is None else f"  [default: {shown}]"
    return click.option(flag_of(name), name, default=None, metavar=metavar or "VALUE", help=help_text + suffix)


def _run_options(*names: str) -> Callable[[Any], Any]:
    """Flags for these options, and --config, --print-config and --no-special-tokens beside them."""

    def decorate(function: Any) -> Any:
        for name in reversed(names):
            if name == "special_tokens":
                function = click.option(
                    "--no-special-tokens", is_flag=True, default=None, help="every file is one document"
                )(function)
            function = _click_option(name, OPTION_FIELDS[name])(function)
        function = click.option(
            "--config", type=Path, metavar="FILE", help="YAML, JSON or TOML with the same names; flags override it"
        )(function)
        return click.option("--print-config", is_flag=True, help="print the options that would be used, and stop")(
            function
        )

    return decorate


class _Settled(NamedTuple):
    options: Options
    given: dict[str, Any]  # what was asked for, by name; all else is a default


def _settle(names: Sequence[str], values: dict[str, Any], inputs: Sequence[str] = ()) -> _Settled | None:
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
        plain = {
            name: list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
            for name, value in shown.items()
        }
        click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
        return None
    return _Settled(options, given)


def _carry_out(options: Options, work: "Callable[[Listener], Summary]") -> None:
    """Do the work, showing it as the options ask, and print what came of it."""
    from pipeline import terminal
    from pipeline.report.summary import render

    with terminal.listener(quiet=options.quiet, log_json=options.log_json) as listener:
        summary = work(listener)
    if options.log_json:
        terminal.write_json("summary", summary.to_json())
    elif options.quiet:
        terminal.write(str(summary.tokenizer_directory or summary.directory))
    else:
        terminal.write(render(summary))


def _print_plan(options: Options) -> None:
    """What `--dry-run` shows: the run as it would be carried out."""
    from pipeline import count, terminal
    from pipeline.pattern import compile_pattern

    with terminal.listener(quiet=options.quiet, log_json=options.log_json) as listener:
        directory = options.output or Path("runs/NEW")
        run = count.open_run(directory, options, compile_pattern(options.pattern), listener)
    plan = count.forecast(run, options)
    if options.log_json:
        terminal.write_json("plan", plan)
    else:
        terminal.write("\n".join(f"{name + ':':24}{value}" for name, value in plan.items()))


_debug = click.option("--debug", is_flag=True, expose_value=False, help="show the traceback of a failure")
_inputs = click.argument("inputs", nargs=-1, metavar="[INPUT ...]")
_run_directory = click.argument("run_directory", type=Path, metavar="RUN")
_tokenizer = click.option(
    "--tokenizer", type=Path, required=True, metavar="DIR", help="a tokenizer directory, tokenizer.json, or a run"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name=PROGRAM)
@_debug
def commands() -> None:
    """Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable."""


@commands.command()
@_inputs
@_run_options(*_TRAIN_OPTIONS)
@_debug
def train(inputs: tuple[str, ...], **values: Any) -> None:
    """Count, merge, export and report: INPUT (files, directories, globs) becomes a tokenizer.

    Without INPUT the sample corpus is used: the running Python's own standard library.

    \b
    bpe-pipeline train
    bpe-pipeline train corpus/*.txt --output runs/a --vocab-size 32000
    bpe-pipeline train corpus --pattern llama3 --special-token '<|endoftext|>' --workers 8
    """
    settled = _settle(_TRAIN_OPTIONS, values, inputs)
    if settled is not None and settled.options.dry_run:
        _print_plan(settled.options)
    elif settled is not None:
        from pipeline.workers import executor_for

        options = settled.options
        with executor_for(options) as executor:  # its workers start beside the next import
            from pipeline.training import run_train

            _carry_out(options, lambda listener: run_train(options, executor, listener)[0])


@commands.command()
@_inputs
@_run_options(*_COUNT_OPTIONS)
@_debug
def count(inputs: tuple[str, ...], **values: Any) -> None:
    """Count the pieces of INPUT into a run directory; `merge` makes tokenizers from it."""
    settled = _settle(_COUNT_OPTIONS, values, inputs)
    if settled is not None and settled.options.dry_run:
        _print_plan(settled.options)
    elif settled is not None:
        from pipeline.workers import executor_for

        options = settled.options
        with executor_for(options) as executor:  # its workers start beside the next import
            from pipeline.training import run_count

            _carry_out(options, lambda listener: run_count(options, executor, listener))


@commands.command()
@_run_directory
@_run_options(*_MERGE_OPTIONS)
@_debug
def merge(run_directory: Path, **values: Any) -> None:
    """Learn a vocabulary from the counts in RUN and export it; nothing is counted again."""
    settled = _settle(_MERGE_OPTIONS, values)
    if settled is not None:
        from pipeline.workers import executor_for

        options, given = settled
        with executor_for(options) as executor:  # its workers start beside the next import
            from pipeline.training import run_merge

            _carry_out(options, lambda listener: run_merge(run_directory, given, executor, listener)[0])


@commands.command()
@click.argument("tokenizer", type=Path, metavar="RUN|TOKENIZER")
@click.option("--output", type=Path, metavar="DIR", help="where to write; default: the tokenizer's own directory")
@click.option("--export", "formats", metavar="LIST", help=f"of {', '.join(EXPORT_FORMATS)}; default: all that fit")
@click.option("--chat-template", metavar="NAME", help=f"chat template of the hf files: {' or '.join(CHAT_TEMPLATES)}")
@click.option(
    "--check", is_flag=True, help="load each file in its own library and compare ids; exit code 1 if one differs"
)
@click.option(
    "--sample", "samples", multiple=True, type=Path, metavar="FILE",
    help="text to check with, besides hard strings; repeatable; default: a sample of the run's corpus",
)  # fmt: skip
@_debug
def export(
    tokenizer: Path,
    output: Path | None,
    formats: str | None,
    chat_template: str | None,
    check: bool,
    samples: tuple[Path, ...],
) -> None:
    """Write a trained tokenizer's files for Hugging Face, GPT-2 tools and tiktoken, and check them there."""
    from pipeline.encode import load_tokenizer, tokenizer_home
    from pipeline.training import export_model, with_chat_template

    options = make_options({"export": formats, "output": output, "chat_template": chat_template}, flag_of)
    if samples and not check:
        raise UsageError("--sample is for --check: give both")
    loaded = load_tokenizer(tokenizer)
    directory = options.output or tokenizer_home(tokenizer)
    written, refused = export_model(with_chat_template(loaded.model, options), directory, options.export)
    for path in written:
        click.echo(path)
    for name, reason in refused.items():
        click.echo(f"no {name} files: {reason}", err=True)
    if check:
        from pipeline.check import check_command

        formats_written = [name for name in options.export or EXPORT_FORMATS if name not in refused]
        for line in check_command(loaded, tokenizer, directory, formats_written, samples):
            click.echo(line)


@commands.command()
@click.argument("paths", nargs=-1, type=Path, metavar="[FILE ...]")
@click.option("--text", metavar="STRING", help="encode this text instead of files")
@_tokenizer
@click.option("--ordinary", is_flag=True, help="take special tokens in the text as plain text")
@_debug
def encode(paths: tuple[Path, ...], text: str | None, tokenizer: Path, ordinary: bool) -> None:
    """Print the token ids of FILEs (`-`: standard input) or of --text, a line each."""
    from pipeline.encode import encode_command

    if (text is None) == (not paths):
        raise UsageError("encode needs either files or --text STRING")
    encode_command(tokenizer, paths, text, ordinary=ordinary)


@commands.command()
@click.argument("ids", nargs=-1, metavar="[ID ...]")
@_tokenizer
@_debug
def decode(ids: tuple[str, ...], tokenizer: Path) -> None:
    """Print the text of token IDs, from the command line or, without any, from standard input."""
    from pipeline.encode import decode_command

    decode_command(tokenizer, ids)


@commands.command()
@_debug
def env() -> None:
    """Print versions and machine: what a bug report needs."""
    from pipeline.environment import describe

    for name, value in describe().items():
        click.echo(f"{name + ':':26}{value}")


@commands.command()
@_debug
def version() -> None:
    """Print the version."""
    click.echo(f"{PROGRAM} {__version__}")
