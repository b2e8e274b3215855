"""The options of a run: one table for the command's flags, the configuration file and Python's keywords.

Each field of `Options` has a reader of its value, a help text, and what depends on it (`stage`): "count" and "merge"
options are part of what a run *is*, "encode" options of what shards are, "run" options only of how it runs.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.base.units import parse_bytes, parse_piece_bytes, parse_whole_number
from pipeline.run.ids import MAX_IDS, check_special_tokens, merge_budget, with_pad_token
from pipeline.run.values import (
    CHAT_TEMPLATES,
    SHARD_FORMATS,
    parse_flag,
    parse_formats,
    parse_one_of,
    parse_paths,
    parse_special_tokens,
    parse_text,
    parse_text_field,
)
from pipeline.storage import Location, parse_location
from pipeline.storage.bounded import CONFIG_BYTES, read_bounded

DEFAULT_SPECIAL_TOKENS = ("<|endoftext|>",)
READING_OPTIONS = ("input_format", "compression", "text_field")  # where the text is, not what its pieces are
# A dotted name in TOML; tomllib takes time that grows with the square of its parts.
_LONG_NAME = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")


def _parse_vocab_size(value: object) -> tuple[int, ...]:
    """Read vocabulary sizes: one, or several in a list or separated by commas, none twice."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    listed = list(value) if isinstance(value, list | tuple) else [value]
    if not listed:
        raise ValueError("a whole number, or several")
    return tuple(dict.fromkeys(map(parse_whole_number(1, MAX_IDS), listed)))


def _parse_pattern(value: object) -> str:
    """Read a pattern's name or a regular expression; a name that is nearly right is refused with the right one."""
    from pipeline.pattern.presets import PRESETS

    text = parse_text(value)
    near = difflib.get_close_matches(text, PRESETS, 1)
    if near and text not in PRESETS and text.isalnum():
        raise ValueError(f"a pattern's name or a regular expression (did you mean {near[0]}?)")
    return text


def _option(parse: Callable[[object], Any], default: Any, stage: str, text: str, metavar: str | None = None) -> Any:
    return field(default=default, metadata={"parse": parse, "stage": stage, "help": text, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that can be asked of a run; sizes in bytes, times in seconds."""

    inputs: tuple[str, ...] | None = _option(
        parse_paths,
        None,
        "run",
        "files, directories, globs, URIs, - for standard input; none: the sample corpus (Python's own library)",
    )
    output: Location | None = _option(
        parse_location, None, "run", "the run directory, a path or a URI; default: a new one under runs/", "DIR"
    )
    vocab_size: tuple[int, ...] = _option(
        _parse_vocab_size,
        (32_000,),
        "vocabulary",
        "tokens in all: 256 bytes, merges, special tokens; several sizes with commas, the first is the run's own",
        "N[,N...]",
    )
    special_tokens: tuple[str, ...] = _option(
        parse_special_tokens,
        DEFAULT_SPECIAL_TOKENS,
        "count",
        "text that separates documents and gets its own id",
        "TEXT",
    )
    special_tokens_as_text: bool = _option(
        parse_flag, False, "count", "count special tokens in the corpus as any text: they separate nothing"
    )
    pattern: str = _option(
        _parse_pattern,
        "gpt2",
        "count",
        "gpt2, cl100k, llama3, o200k, qwen2, none, or a regular expression",
        "NAME|REGEX",
    )
    errors: str = _option(
        parse_one_of("replace", "strict", "skip"),
        "replace",
        "count",
        "invalid UTF-8: replace it, stop, or skip its document",
    )
    pattern_timeout: int = _option(
        parse_whole_number(1, 1_000_000),
        60,
        "run",
        "seconds for a document, for each MiB of a long one, where the regex package cuts",
        "SECONDS",
    )
    max_piece_bytes: int | None = _option(
        parse_piece_bytes, None, "count", "cut longer pieces (the tokenizer will not cut so)", "SIZE"
    )
    input_format: str = _option(
        parse_one_of("auto", "text", "lines", "jsonl", "parquet"),
        "auto",
        "count",
        "of all inputs: text, lines (each a document), jsonl, parquet; auto: by content and name",
    )
    compression: str = _option(
        parse_one_of("auto", "none", "gzip", "zstd", "bzip2", "xz"),
        "auto",
        "count",
        "of all inputs: none, gzip, zstd, bzip2, xz; auto: by content",
    )
    text_field: str = _option(
        parse_text_field,
        "text",
        "count",
        "the field of JSON Lines or column of Parquet to read; a.b for nested",
        "NAME",
    )
    tie_break: str = _option(
        parse_one_of("lowest-ids", "greatest-bytes"),
        "lowest-ids",
        "merge",
        "which of equally frequent pairs is merged first",
    )
    min_frequency: int = _option(
        parse_whole_number(1, (1 << 63) - 1), 1, "merge", "merge no pair that occurs less often", "N"
    )
    min_piece_count: int = _option(
        parse_whole_number(1, (1 << 63) - 1), 1, "merge", "leave pieces that occur less often out of merging", "N"
    )
    max_token_bytes: int | None = _option(
        parse_whole_number(2, 1 << 30), None, "merge", "make no token longer than this", "N"
    )
    special_ids: str = _option(
        parse_one_of("last", "first"),
        "last",
        "merge",
        "where the special tokens' ids are: after the merges or before",
    )
    pad_token: str | None = _option(parse_text, None, "count", "one more special token, for padding", "TEXT")
    export: tuple[str, ...] | None = _option(
        parse_formats,
        None,
        "run",
        "formats to write: hf, gpt2, tiktoken; default: each that can express the tokenizer",
        "LIST",
    )
    chat_template: str | None = _option(
        parse_one_of(*CHAT_TEMPLATES), None, "run", "chat template of the hf export: llama3 or chatml", "NAME"
    )
    shard_format: str = _option(
        parse_one_of(*SHARD_FORMATS), "npy", "encode", "npy, bin (ids alone), or parquet (a row a document)", "NAME"
    )
    shard_size: int = _option(
        parse_whole_number(1, (1 << 31) - 1), 100_000_000, "encode", "tokens in a shard, at most", "N"
    )
    documents: str = _option(
        parse_one_of("separator", "offsets"),
        "separator",
        "encode",
        "what separates documents in shards: the separator after each, or offsets in a file of their own",
        "NAME",
    )
    separator: str | None = _option(
        parse_text,
        None,
        "encode",
        "the special token that ends a document; default: the tokenizer's end of text, or its first",
        "TEXT",
    )
    workers: int | None = _option(
        parse_whole_number(1, 4096),
        None,
        "run",
        "worker processes; default: physical cores (ray: all of the cluster)",
        "N",
    )
    executor: str = _option(
        parse_one_of("local", "ray"), "local", "run", "where workers run: on this machine, or on a Ray cluster"
    )
    ray_address: str | None = _option(
        parse_text,
        None,
        "run",
        "of the Ray cluster: auto, HOST:PORT or ray://HOST:PORT; default: this machine's",
        "ADDRESS",
    )
    chunk_size: int | None = _option(
        parse_bytes, None, "run", "bytes of corpus in a chunk; default: by memory and cores", "SIZE"
    )
    memory_limit: int | None = _option(
        parse_bytes,
        None,
        "run",
        "memory for all processes together (ray: on each node); default: 80 % of what is free",
        "SIZE",
    )
    fail_on_loss: bool = _option(parse_flag, False, "run", "fail if input was skipped or altered")
    dry_run: bool = _option(parse_flag, False, "run", "print the plan and stop")
    overwrite: bool = _option(parse_flag, False, "run", "start again in a directory that holds another run")
    quiet: bool = _option(parse_flag, False, "run", "print only errors and the final result")
    log_json: bool = _option(parse_flag, False, "run", "print one JSON object a line instead of text")

    def of_stage(self, *stages: str) -> dict[str, Any]:
        """Return the options of these stages as plain JSON values."""
        return {
            option.name: list(value) if isinstance(value := getattr(self, option.name), tuple) else value
            for option in fields(self)
            if option.metadata["stage"] in stages
        }


OPTION_FIELDS: dict[str, Field[Any]] = {option.name: option for option in fields(Options)}


def flag_of(name: str) -> str:
    """Return the command's spelling of an option: `special_tokens` -> `--special-token`."""
    special = {"special_tokens": "--special-token", "inputs": "INPUT"}
    return special.get(name) or "--" + name.replace("_", "-")


def _shown(value: object) -> str:
    """Return a value for a message, in one line of at most 80 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list nested in a list in a list ...
        text = f"such {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def _first_wrong(paths: object) -> object:
    """Return the first of several paths that is invalid, so that a message shows it alone."""
    for path in paths if isinstance(paths, list | tuple) else ():
        try:
            parse_paths([path])
        except ValueError:
            return path
    return paths


def make_options(values: Mapping[str, Any], spell: Callable[[str], str] = "option {!r}".format) -> Options:
    """Check and complete the options given by name; `None` means the default. `spell` says how messages name them.

    Raises `UsageError` for an unknown name (naming the nearest known one) or a value that makes no sense.
    """
    values = dict(values)
    if values.pop("no_special_tokens", None):
        if values.get("special_tokens"):
            raise UsageError(f"{spell('special_tokens')} and {spell('no_special_tokens')} exclude each other; give one")
        values["special_tokens"] = ()
    checked = {}
    for name, value in values.items():
        if name not in OPTION_FIELDS:
            near = difflib.get_close_matches(name, OPTION_FIELDS, 1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(OPTION_FIELDS)}"
            raise UsageError(f"{spell(name)} is unknown{hint}")
        if value is None:
            continue
        try:
            checked[name] = OPTION_FIELDS[name].metadata["parse"](value)
        except ValueError as error:
            wrong = _first_wrong(value) if name == "inputs" else value
            raise UsageError(f"{spell(name)}: expected {error}, not {_shown(wrong)}") from None
        if name == "inputs" and not checked[name]:
            raise UsageError(
                f"no inputs: {spell(name)} is an empty list; name files, directories or globs, or leave it out to "
                "use the sample corpus"
            )
    options = Options(**checked)
    if options.pad_token in options.special_tokens:
        raise UsageError(
            f"{spell('pad_token')}: {options.pad_token!r} is a special token already; name another or none"
        )
    _check_special_tokens("special_tokens", options.special_tokens, spell)
    if options.pad_token is not None:
        _check_special_tokens("pad_token", [options.pad_token], spell)
    return options


def names_of(*stages: str) -> set[str]:
    """Return the names of the options of these stages."""
    return {name for name, option in OPTION_FIELDS.items() if option.metadata["stage"] in stages}


def refuse_unfit(given: Mapping[str, Any], unfit: Collection[str], work: str) -> None:
    """Raise `UsageError` for the first option that was given and would change nothing of this work."""
    for name, value in given.items():
        if value is not None and name in unfit:
            raise UsageError(f"option {name!r} means nothing for {work}: leave it out")


def _check_special_tokens(name: str, texts: Sequence[str], spell: Callable[[str], str]) -> None:
    try:
        check_special_tokens(texts)
    except UsageError as error:
        raise UsageError(f"{spell(name)}: {error}") from None


def check_vocabulary(options: Options) -> None:
    """Raise `UsageError` if a vocabulary size is too small for the bytes and all special tokens."""
    for size in options.vocab_size:
        merge_budget(size, with_pad_token(options.special_tokens, options.pad_token))


def read_config(path: Location) -> dict[str, Any]:
    """Read the names and values in a YAML, JSON or TOML file, dashes as underscores.

    Raises `UsageError` naming the file and the position in it that cannot be read.
    """
    try:
        text = read_bounded(path, CONFIG_BYTES).decode("utf-8").replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"configuration file {path} cannot be read: {reason}; give a readable UTF-8 file") from None
    try:
        values = _parse_config(path.suffix.lower(), text)
    except ValueError as error:
        raise UsageError(f"configuration file {path}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(
            f"configuration file {path} is nested too deeply; it needs only names and values, such as "
            "'vocab_size: 32000'"
        ) from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UsageError(f"configuration file {path} must hold names and values, such as 'vocab_size: 32000'")
    renamed: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for name, value in values.items():
        known = name.replace("-", "_")
        known = "special_tokens" if known == "special_token" else known
        if known in renamed:
            raise UsageError(
                f"configuration file {path} has both {spelt[known]!r} and {name!r}, which are one option; remove one"
            )
        renamed[known], spelt[known] = value, name
    return renamed


def _yaml_loader() -> type[Any]:
    """The safe loader, without aliases: lists of aliases of lists of aliases ... are more than could ever be shown."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("it has an alias (*name): write the value out")
            return super().compose_node(parent, index)

    return Loader


def _parse_config(suffix: str, text: str) -> object:
    if suffix == ".json":
        return json.loads(text)
    if suffix == ".toml":
        import tomllib

        if _LONG_NAME.search(text):
            raise ValueError("a name in it has more than 64 parts: give names of options")
        return tomllib.loads(text)
    if suffix in (".yaml", ".yml"):
        import yaml

        try:
            return yaml.load(text, _yaml_loader())  # noqa: S506 - a safe one
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    raise ValueError("the name must end in .yaml, .yml, .json or .toml")
