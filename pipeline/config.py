"""The options of a run: one table that the command's flags, the configuration file and Python's keywords come from.

Each field of `Options` says how its value is read, what it means, and what depends on it (`stage`): "count" and
"merge" options are part of what a run *is*, "run" options only say how it is carried out.
"""

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import Field, dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError

DEFAULT_SPECIAL_TOKENS = ("<|endoftext|>",)
_MOST_BYTES = 1 << 62
_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{unit}": base ** (power + 1)
    for power, prefix in enumerate("kmgt")
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def parse_bytes(value: object) -> int:
    """Bytes of a size: `64MiB` -> 67108864, `1GB` -> 1000000000, `4096` -> 4096.

    Raises `ValueError` for anything else.
    """
    size: int | Decimal = 0
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        if found is not None and found[2].lower() in _UNITS:
            size = Decimal(found[1]) * _UNITS[found[2].lower()]
    if not 1 <= size <= _MOST_BYTES:
        raise ValueError("a size such as 64MiB, 1GB or a number of bytes" + (", at most 2**62" if size > 1 else ""))
    return int(size)


def _piece_bytes(value: object) -> int:
    size = parse_bytes(value)
    if size < 4:
        raise ValueError("a size of at least 4 bytes (one character may take 4)")
    return size


def format_bytes(size: float) -> str:
    """A size for people: 67108864 -> `64.0 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def format_count(number: int, things: str) -> str:
    """A number of things for people: (1, "files") -> `1 file`, (2000, "files") -> `2,000 files`."""
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def _whole_number(at_least: int, at_most: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        number = value
        if isinstance(value, str) and re.fullmatch(r"[0-9]+(_[0-9]+)*", value):
            digits = value.replace("_", "").lstrip("0") or "0"
            number = int(digits) if len(digits) < 30 else at_most + 1
        if not isinstance(number, int) or isinstance(number, bool) or number < at_least:
            raise ValueError(f"a whole number of at least {at_least}")
        if number > at_most:
            raise ValueError(f"a whole number of at most {at_most}")
        return number

    return parse


def _vocab_size(value: object) -> int:
    from pipeline.vocabulary import MAX_IDS

    return _whole_number(1, MAX_IDS)(value)


def _one_of(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in names:
            near = difflib.get_close_matches(value, names, 1) if isinstance(value, str) else []
            raise ValueError("one of " + ", ".join(names) + (f" (did you mean {near[0]}?)" if near else ""))
        return str(value)

    return parse


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a non-empty text")
    return _without_surrogates(value)


def _without_surrogates(text: str) -> str:
    """The text itself; `ValueError` for one that no UTF-8 file could hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text that is valid Unicode (character {error.start} is a lone surrogate or a byte that is not UTF-8)"
        ) from None
    return text


def _pattern(value: object) -> str:
    from pipeline.pattern.presets import PRESETS

    text = _text(value)
    near = difflib.get_close_matches(text, PRESETS, 1)
    if near and text not in PRESETS and text.isalnum():
        raise ValueError(f"a pattern's name or a regular expression (did you mean {near[0]}?)")
    return text


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, AbstractSet):
        raise ValueError("a list of texts (their order decides the ids: give a list)")
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise ValueError("a list of texts")
    texts = tuple(value)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a list of texts")
    return tuple(map(_without_surrogates, texts))


def _special_tokens(value: object) -> tuple[str, ...]:
    texts = _texts(value)
    if "" in texts:
        raise ValueError("a list of texts without an empty one (an empty special token is everywhere)")
    doubled = next((text for text, times in Counter(texts).items() if times > 1), None)
    if doubled is not None:
        raise ValueError(f"a list of different texts ({doubled!r} is given twice)")
    return texts


def _formats(value: object) -> tuple[str, ...]:
    names = [name.strip() for text in _texts(value) for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(_one_of(*EXPORT_FORMATS)(name) for name in names))


def _path_name(value: object) -> str:
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError("a path: a text that is not empty and has no NUL character")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError("a path whose name is valid UTF-8: rename it") from None
    return name


def _path(value: object) -> Path:
    name = _path_name(value)
    try:
        return Path(name).expanduser() if isinstance(value, str) else Path(name)
    except RuntimeError:
        raise ValueError("a path below an existing home directory (write ./~name for a file of that name)") from None


def _paths(value: object) -> tuple[str, ...]:
    if isinstance(value, str | os.PathLike):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | AbstractSet | bytes | bytearray):
        raise ValueError("a path or a list of paths")
    return tuple(map(_path_name, value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


EXPORT_FORMATS = ("hf", "gpt2", "tiktoken")


def _option(parse: Callable[[object], Any], default: Any, stage: str, text: str, metavar: str | None = None) -> Any:
    return field(default=default, metadata={"parse": parse, "stage": stage, "help": text, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that can be asked of a run; sizes in bytes, times in seconds."""

    inputs: tuple[str, ...] | None = _option(
        _paths, None, "run", "files, directories and globs; none: the sample corpus (Python's own library)"
    )
    output: Path | None = _option(_path, None, "run", "the run directory; default: a new one under runs/", "DIR")
    vocab_size: int = _option(
        _vocab_size, 32_000, "vocabulary", "tokens in all: 256 bytes, merges, special tokens", "N"
    )
    special_tokens: tuple[str, ...] = _option(
        _special_tokens,
        DEFAULT_SPECIAL_TOKENS,
        "count",
        "text that separates documents; has an id of its own",
        "TEXT",
    )
    pattern: str = _option(
        _pattern,
        "gpt2",
        "count",
        "gpt2, cl100k, llama3, o200k, qwen2, none, or a regular expression",
        "NAME|REGEX",
    )
    errors: str = _option(
        _one_of("replace", "strict", "skip"),
        "replace",
        "count",
        "invalid UTF-8: replace it, stop, or skip its document",
    )
    max_piece_bytes: int | None = _option(
        _piece_bytes, None, "count", "cut longer pieces (the tokenizer will not cut so)", "SIZE"
    )
    tie_break: str = _option(
        _one_of("lowest-ids", "greatest-bytes"),
        "lowest-ids",
        "merge",
        "which of equally frequent pairs is merged first",
    )
    min_frequency: int = _option(
        _whole_number(1, (1 << 63) - 1), 1, "merge", "merge no pair that occurs less often", "N"
    )
    max_token_bytes: int | None = _option(
        _whole_number(2, 1 << 30), None, "merge", "make no token longer than this", "N"
    )
    special_ids: str = _option(
        _one_of("last", "first"),
        "last",
        "merge",
        "where the special tokens' ids are: after the merges or before",
    )
    pad_token: str | None = _option(_text, None, "count", "one more special token, for padding", "TEXT")
    export: tuple[str, ...] | None = _option(
        _formats,
        None,
        "run",
        "formats to write: hf, gpt2, tiktoken; default: each that can express the tokenizer",
        "LIST",
    )
    workers: int | None = _option(_whole_number(1, 4096), None, "run", "worker processes; default: physical cores", "N")
    chunk_size: int | None = _option(
        parse_bytes, None, "run", "bytes of corpus in a chunk; default: by memory and cores", "SIZE"
    )
    memory_limit: int | None = _option(
        parse_bytes, None, "run", "memory for all processes together; default: 80 % of what is free", "SIZE"
    )
    fail_on_loss: bool = _option(_flag, False, "run", "fail if any text was replaced, skipped or cut")
    dry_run: bool = _option(_flag, False, "run", "print the plan and stop")
    overwrite: bool = _option(_flag, False, "run", "start anew in a directory that holds another run")
    quiet: bool = _option(_flag, False, "run", "print only errors and the final result")
    log_json: bool = _option(_flag, False, "run", "print one JSON object a line instead of text")

    def of_stage(self, *stages: str) -> dict[str, Any]:
        """The options that belong to these stages, as plain JSON values."""
        return {
            option.name: list(value) if isinstance(value := getattr(self, option.name), tuple) else value
            for option in fields(self)
            if option.metadata["stage"] in stages
        }


OPTION_FIELDS: dict[str, Field[Any]] = {option.name: option for option in fields(Options)}


def flag_of(name: str) -> str:
    """The command's spelling of an option: `special_tokens` -> `--special-token`."""
    special = {"special_tokens": "--special-token", "inputs": "INPUT"}
    return special.get(name) or "--" + name.replace("_", "-")


def _shown(value: object) -> str:
    """A value for a message, in one line of at most 80 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list nested in a list in a list ...
        text = f"such {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


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
            raise UsageError(f"{spell(name)}: expected {error}, not {_shown(value)}") from None
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


def _check_special_tokens(name: str, texts: Sequence[str], spell: Callable[[str], str]) -> None:
    from pipeline.vocabulary import check_special_tokens

    try:
        check_special_tokens(texts)
    except UsageError as error:
        raise UsageError(f"{spell(name)}: {error}") from None


def check_vocabulary(options: Options) -> None:
    """Raise `UsageError` where the vocabulary asked for has no room for the bytes and all special tokens."""
    from pipeline.vocabulary import merge_budget, with_pad_token

    merge_budget(options.vocab_size, with_pad_token(options.special_tokens, options.pad_token))


def read_config(path: Path) -> dict[str, Any]:
    """The names and values in a YAML, JSON or TOML file, dashes read as underscores.

    Raises `UsageError` naming the file and the place in it where it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
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


def _parse_config(suffix: str, text: str) -> object:
    if suffix == ".json":
        return json.loads(text)
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if suffix in (".yaml", ".yml"):
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    raise ValueError("the name must end in .yaml, .yml, .json or .toml")
