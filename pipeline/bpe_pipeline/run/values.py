"""Read single option values: a reader takes one from a flag, a configuration file or Python and returns it checked.

It raises `ValueError` with what it expects, and the part that is wrong if that is not all of the value.
"""

import contextlib
import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.base.units import THOUSANDS, parse_bytes, parse_whole_number
from bpe_pipeline.corpus.formats import AUTO, input_formats
from bpe_pipeline.pattern.token_rules import TokenRule
from bpe_pipeline.run.ids import MAX_IDS, check_special_tokens
from bpe_pipeline.storage import Location, Remote, is_uri, location, parse_location, path_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from bpe_pipeline.run.record import Record

T = TypeVar("T")
INFINITE = "inf"  # of temperatures
EXPORT_FORMATS = ("hf", "gpt2", "tiktoken", "gguf", "token-bytes")
_MAX_WEIGHT = 10**18  # of its numerator and denominator


def reader_of(record: "Record") -> Callable[[object], Any]:
    """Return what takes a value of an option from any source, and returns it checked."""
    if record.read is not None:
        return record.read
    return partial(parse_one_of, record.choices) if record.choices else _READERS[record.kind | None]


def parse_one_of(names: Sequence[str], value: object) -> str:
    """Read one of these names."""
    if value not in names:
        near = difflib.get_close_matches(value, names, 1) if isinstance(value, str) else []
        raise ValueError("one of " + ", ".join(names) + (f" (did you mean {near[0]}?)" if near else ""))
    return str(value)


@cache
def shard_formats() -> "Mapping[str, EntryPoint]":
    """Return the formats of shards of this package and of others, by name; none of them is imported."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group="bpe_pipeline.shard_formats")}


def parse_shard_format(value: object) -> str:
    """Read the name of a format of shards."""
    return parse_one_of(tuple(shard_formats()), value)


def parse_input_format(value: object) -> str:
    """Read the name of a format of corpus files, or `auto`."""
    return parse_one_of((AUTO, *input_formats()), value)


def parse_text(value: object) -> str:
    """Read a text that is not empty and can be written as UTF-8."""
    if not isinstance(value, str) or not value:
        raise ValueError("a non-empty text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text that is valid Unicode (character {error.start} is a lone surrogate or a byte that is not UTF-8)"
        ) from None
    return value


def is_ray_address(text: str) -> bool:
    """Whether a text names a Ray cluster; `s3://...` and a path do not."""
    return text == "auto" or re.fullmatch(r"ray://.+|[^/]+:\d+", text) is not None


def parse_ray(value: object) -> str | None:
    """Read the address of a Ray cluster; true is `auto`, false is none."""
    if isinstance(value, bool):
        return "auto" if value else None
    if not isinstance(value, str) or not is_ray_address(value):
        raise ValueError("auto, HOST:PORT or ray://HOST:PORT")
    return parse_text(value)


def parse_text_field(value: object) -> str:
    """Read the name of a field; `a.b` is the field b within the field a."""
    name = parse_text(value)
    if "" in name.split("."):
        raise ValueError("the name of a field, such as text or page.body")
    return name


def parse_texts(value: object) -> tuple[str, ...]:
    """Read a list of texts in order; a single text is a list of one."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, AbstractSet):
        raise ValueError("a list of texts (their order decides the ids: give a list)")
    texts = tuple(value) if isinstance(value, Iterable) and not isinstance(value, Mapping) else (None,)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a list of texts")
    return texts


def parse_globs(value: object) -> tuple[str, ...]:
    """Read one glob or several, none of them empty."""
    if not (globs := parse_texts(value)) or not all(glob.strip("/.") for glob in globs):
        raise ValueError("globs, such as *.log or old/**")
    return globs


def listed(value: object) -> tuple[str, ...]:
    """Read texts, in a list or separated by commas."""
    return tuple(name.strip() for text in parse_texts(value) for name in text.split(",") if name.strip())


def parse_special_tokens(value: object) -> tuple[str, ...]:
    """Read special tokens; raises `UsageError` for one that is not possible."""
    texts = parse_texts(value)
    check_special_tokens(texts)
    return texts


def parse_added_tokens(value: object) -> dict[str, TokenRule]:
    """Read tokens that are added, in order of their ids: texts, entries as tokenizer.json has them, or text -> flags.

    Flags that are not given are false: such a token is not special, and white space around it is not its own.
    """
    rules: dict[str, TokenRule] = {}
    for entry in _entries(value):
        content: dict[str, Any] = dict(entry) if isinstance(entry, Mapping) else {"content": entry}
        text = content.pop("content", None)
        flags = vars(TokenRule())
        if not isinstance(text, str) or any(
            not isinstance(flag, bool) or name not in flags for name, flag in content.items()
        ):
            raise ValueError(f"texts, or entries with a 'content' and true or false for {', '.join(flags)}", entry)
        check_special_tokens([*rules, text])
        rules[text] = TokenRule(**content)
    return rules


def _entries(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        rules = {text: vars(rule) if isinstance(rule, TokenRule) else rule for text, rule in value.items()}
        return [{"content": text, **rule} if isinstance(rule, Mapping) else rule for text, rule in rules.items()]
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else value


def parse_reserved(value: object) -> int | str:
    """Read a number of tokens, or also what they are called: `100:<|lab_{}|>`, whose braces are a number from 0."""
    count, colon, name = value.partition(":") if isinstance(value, str) else (value, "", "")
    number = parse_whole_number(0, 1 << 20)(count)
    if colon and name.count("{}") != 1:
        raise ValueError("a number, or one with a name that has {} once, such as 100:<|lab_{}|>")
    check_special_tokens([name.replace("{}", "0")] if colon else [])
    return f"{number}:{name}" if colon else number


def parse_first_stage(value: object) -> int | str:
    """Read a number of tokens, or a share of the vocabulary size such as `80%`."""
    if isinstance(value, str) and (found := re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,6})?)\s*%\s*", value)):
        if Fraction(found[1]) <= 100:
            return f"{found[1]}%"
        raise ValueError("a share of at most 100%")
    try:
        return parse_whole_number(1, MAX_IDS)(value)
    except ValueError as error:
        expected = f"{error.args[0]}, or a share such as 80%"
        raise ValueError(expected, *error.args[1:]) from None


def parse_superword_pattern(value: object) -> str:
    """Read the name of a pattern that cuts superwords, or a regular expression."""
    from bpe_pipeline.pattern.presets import NAME, superword_presets

    text = parse_text(value)
    if text not in superword_presets() and NAME.fullmatch(text):
        raise ValueError(f"{', '.join(superword_presets())}, or a regular expression")
    return text


def parse_superword_words(value: object) -> int | str:
    """Read a number of words, or `none`."""
    return "none" if value == "none" else parse_whole_number(1, MAX_IDS)(value)


def parse_special_token(value: object) -> str:
    """Read one special token."""
    return parse_special_tokens(parse_text(value))[0]


def parse_vocab_size(value: object) -> tuple[int, ...]:
    """Read vocabulary sizes, none twice; commas group digits, as in `48,000`, where they cannot separate sizes."""
    if isinstance(value, list | tuple) and value:
        return tuple(dict.fromkeys(size for one in value for size in parse_vocab_size(one)))
    if isinstance(value, list | tuple):
        raise ValueError("a whole number, or several")
    parts: list[object] = [value]
    if isinstance(value, str):
        split = [part.strip() for part in value.split(",")]
        grouped = re.fullmatch(THOUSANDS, value.strip()) and any(int(part) < len(BYTE_ORDER) for part in split)
        parts = [value.strip()] if grouped else [*split]
    return tuple(dict.fromkeys(map(parse_whole_number(1, MAX_IDS), parts)))


def parse_pattern(value: object) -> str:
    """Read a pattern's name, an alias of it or a regular expression; UsageError for an unknown name."""
    from bpe_pipeline.pattern.presets import resolve

    return resolve(parse_text(value))


def parse_formats(value: object) -> tuple[str, ...]:
    """Read names of export formats, in a list or separated by commas."""
    return tuple(dict.fromkeys(parse_one_of(EXPORT_FORMATS, name) for name in listed(value)))


def parse_paths(value: object) -> tuple[str, ...]:
    """Read one path or several; of URIs without what is not to be stored."""
    if isinstance(value, str | os.PathLike):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | AbstractSet | bytes | bytearray):
        raise ValueError("a path or a list of paths")
    paths = []
    for path in value:
        try:
            text = path_text(path)
            if is_uri(text):  # a local file has no query
                path, where = text.partition("?")[0], location(text)
                of_remote = Remote.as_prefix if path.endswith("/") else str
                text = of_remote(where) if isinstance(where, Remote) else path
            paths.append(text)
        except ValueError as error:
            raise ValueError(str(error), path) from None
    if not paths:
        raise ValueError("files, directories or globs (leave it out to use the sample corpus)")
    return tuple(paths)


def parse_output(value: object) -> Location:
    """Read where a result goes: no standard output."""
    if value == "-":
        raise ValueError("a file, a directory or a URI (write ./- for a file of that name)")
    return parse_location(value)


def parse_locations(value: object) -> tuple[Location, ...]:
    """Read one path or several; None is none."""
    return () if value is None else tuple(map(parse_location, parse_paths(value)))


def parsed(name: str, value: object, read: Callable[[object], T]) -> T:
    """Return what a reader makes of a value; `UsageError` for what it does not take. name: for the message."""
    try:
        return read(value)
    except ValueError as error:
        one = value[0] if isinstance(value, tuple) and len(value) == 1 else value  # of a flag that is given once
        raise unfit(name, *(*error.args, one)[:2]) from None
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def parse_shuffle(value: object) -> bool:
    """Read true or false; a number is a seed, which is an option of its own."""
    if type(value) is int:
        raise ValueError(f"true or false (shuffle=True, seed={value})")
    return parse_flag(value)


def parse_weights(value: object) -> tuple[str, ...]:
    """Read weights, one per input, as fractions; 0 is a weight here."""
    listed = list(value) if isinstance(value, list | tuple) else []
    weights = [Fraction(0) if one in (0, "0") and one is not False else parse_weight(one) for one in listed]
    if not any(weights):
        raise ValueError("a list of numbers, one for each input, not all of them 0")
    return tuple(map(str, weights))


def relative(weights: Sequence[Fraction]) -> list[Fraction]:
    """Scale weights so that the smallest one above 0 is 1; `ValueError` if they have too many digits together.

    >>> list(map(str, relative([Fraction("0.01"), Fraction(0), Fraction("0.025")])))
    ['1', '0', '5/2']
    """
    least = min((weight for weight in weights if weight), default=Fraction(1))
    scaled = [weight / least for weight in weights]
    if any(max(weight.numerator, weight.denominator) >= _MAX_WEIGHT for weight in scaled):
        raise ValueError("weights whose ratios have at most 18 digits; round them")
    return scaled


def shown_weight(weight: Fraction) -> str:
    """A weight for people: as a decimal number where it is one."""
    decimal = f"{float(weight):.15g}"
    return decimal if Fraction(decimal) == weight else str(weight)


def number(value: object) -> float:
    """Return a number, which may be written as text; not a number (NaN) for anything else."""
    with contextlib.suppress(ValueError):
        return math.nan if isinstance(value, bool) or not isinstance(value, str | int | float) else float(value)
    return math.nan


def parse_share(value: object) -> float:
    """Read a share between 0 and 1, which may be written in percent: `1%`, `0.01`."""
    percent = isinstance(value, str) and value.strip().endswith("%")
    share = number(str(value).strip().removesuffix("%")) / 100 if percent else number(value)
    if not 0 < share < 1:
        raise ValueError("a share such as 1% or 0.01")
    return share


def parse_sample(value: object) -> float | int:
    """Read a share between 0 and 1, a float, or a size in bytes, a whole number: `1%`, `0.01`, `2GB`."""
    for read in (parse_share, parse_bytes):
        with contextlib.suppress(ValueError):
            if (taken := read(value)) != 1:
                return taken
    raise ValueError("a share below 1 such as 1% or 0.01, or a size such as 2GB")


def parse_weight(value: object) -> Fraction:
    """Read a factor for counts exactly as written: `2.5` -> 5/2, `1/3`, `1e6`; a float as its shortest decimal."""
    weight = Fraction(0)
    if isinstance(value, str) and (found := re.fullmatch(r"\s*([0-9]{1,18})/([0-9]{1,18})\s*", value)):
        weight = Fraction(int(found[1]), int(found[2])) if int(found[2]) else weight
    elif isinstance(value, int | Fraction) and not isinstance(value, bool):
        weight = Fraction(value)
    elif isinstance(value, str | float | Decimal):
        with contextlib.suppress(ArithmeticError):  # not a number
            number = Decimal(str(value))
            weight = Fraction(number) if number.is_finite() and abs(number.adjusted()) <= 18 else weight
    if weight <= 0 or max(weight.numerator, weight.denominator) > _MAX_WEIGHT:
        raise ValueError("a decimal number above 0 such as 2.5, or a fraction such as 1/3, of at most 18 digits")
    return weight


def parse_flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def parse_temperature(value: object) -> str:
    """Read a temperature from 1 on, exactly as written, or inf."""
    text = str(value).strip().lower()
    if text in (INFINITE, "infinity"):
        return INFINITE
    try:
        number = Decimal(text) if not isinstance(value, bool) else Decimal(0)
    except ArithmeticError:
        number = Decimal(0)
    if not number.is_finite() or not 1 <= number < Decimal(10) ** 6 or len(text) > 18:
        raise ValueError("a number from 1 on such as 3 or 1.5, or inf")
    return format(number.normalize(), "f")


def parse_shares(value: object) -> tuple[str, ...]:
    """Read shares by the names of inputs, `NAME=10%`, as NAME=1/10."""
    if isinstance(value, Mapping):
        words = [(str(name), one) for name, one in value.items()]
    else:
        listed = value if isinstance(value, list | tuple) else [value]
        words = [str(one).rpartition("=")[::2] for one in listed]
    return tuple(f"{name}={_parse_share(name, one)}" for name, one in words)


def _parse_share(name: str, value: object) -> Fraction:
    text = str(value).strip()
    try:
        share = Fraction(text.removesuffix("%").strip()) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not name or not 0 < share <= 1 or len(text) > 18:
        raise ValueError("NAME=SHARE with a share such as 10% or 0.1", f"{name}={text}")
    return share


_READERS: dict[Any, Callable[[Any], Any]] = {  # of types, each with None
    bool | None: parse_flag,
    str | None: parse_text,
    tuple[str, ...] | None: parse_texts,
    Location | None: parse_location,
    tuple[Location, ...] | None: parse_locations,
}
