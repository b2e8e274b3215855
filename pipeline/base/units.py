"""Reading and writing single values of options: sizes, numbers, names, texts, paths.

A reader takes what a flag, a configuration file or a Python caller gives and returns the value checked, or raises
`ValueError` with what it expected; `pipeline.run.options` adds which option it was.
"""

import difflib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from pipeline.storage import Location, Remote, is_uri, location

EXPORT_FORMATS = ("hf", "gpt2", "tiktoken")
CHAT_TEMPLATES = ("llama3", "chatml")
SHARD_FORMATS = ("npy", "bin", "parquet")
_MOST_BYTES = 1 << 62
_GREATEST_WEIGHT = 10**18  # of its numerator and denominator
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


def parse_piece_bytes(value: object) -> int:
    """A size of at least one character: `4`, `1KiB`."""
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


def parse_whole_number(at_least: int, at_most: int) -> Callable[[object], int]:
    """A reader of whole numbers within bounds, both included; `_` may group digits."""

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


def parse_one_of(*names: str) -> Callable[[object], str]:
    """A reader of one of these names; the error names the nearest."""

    def parse(value: object) -> str:
        if value not in names:
            near = difflib.get_close_matches(value, names, 1) if isinstance(value, str) else []
            raise ValueError("one of " + ", ".join(names) + (f" (did you mean {near[0]}?)" if near else ""))
        return str(value)

    return parse


def parse_text(value: object) -> str:
    """A text that is not empty and that a UTF-8 file could hold."""
    if not isinstance(value, str) or not value:
        raise ValueError("a non-empty text")
    return _without_surrogates(value)


def parse_text_field(value: object) -> str:
    """The name of a field, or several with dots between them, each within the one before."""
    name = parse_text(value)
    if "" in name.split("."):
        raise ValueError("the name of a field, such as text or page.body")
    return name


def _without_surrogates(text: str) -> str:
    """The text itself; `ValueError` for one that no UTF-8 file could hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text that is valid Unicode (character {error.start} is a lone surrogate or a byte that is not UTF-8)"
        ) from None
    return text


def parse_texts(value: object) -> tuple[str, ...]:
    """Texts in an order that means something; one text may stand for itself."""
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


def parse_special_tokens(value: object) -> tuple[str, ...]:
    """Special tokens: texts, none empty, none twice."""
    texts = parse_texts(value)
    if "" in texts:
        raise ValueError("a list of texts without an empty one (an empty special token is everywhere)")
    doubled = next((text for text, times in Counter(texts).items() if times > 1), None)
    if doubled is not None:
        raise ValueError(f"a list of different texts ({doubled!r} is given twice)")
    return texts


def parse_formats(value: object) -> tuple[str, ...]:
    """Names of export formats, in a list or with commas."""
    names = [name.strip() for text in parse_texts(value) for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(parse_one_of(*EXPORT_FORMATS)(name) for name in names))


def _path_name(value: object) -> str:
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError("a path: a text that is not empty and has no NUL character")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError("a path whose name is valid UTF-8: rename it") from None
    return name


def parse_location(value: object) -> Location:
    """A path, where `~` is the home directory, or a URI."""
    if isinstance(value, Remote):
        return value
    _path_name(value)
    where = location(value)  # type: ignore[arg-type]  # a text or a path, as was just seen
    try:
        return where.expanduser() if isinstance(value, str) and isinstance(where, Path) and not is_uri(value) else where
    except RuntimeError:
        raise ValueError("a path below an existing home directory (write ./~name for a file of that name)") from None


def parse_paths(value: object) -> tuple[str, ...]:
    """One path or several, as they were given."""
    if isinstance(value, str | os.PathLike):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | AbstractSet | bytes | bytearray):
        raise ValueError("a path or a list of paths")
    return tuple(map(_path_name, value))


def parse_weight(value: object) -> Fraction:
    """A factor for counts, exactly as it is written: `2.5` -> 5/2, `1/3`, `1e6`.

    A float counts as the shortest decimal number that stands for it.
    """
    weight = Fraction(0)
    if isinstance(value, str) and (found := re.fullmatch(r"\s*([0-9]{1,18})/([0-9]{1,18})\s*", value)):
        weight = Fraction(int(found[1]), int(found[2])) if int(found[2]) else weight
    elif isinstance(value, int | Fraction) and not isinstance(value, bool):
        weight = Fraction(value)
    elif isinstance(value, str | float | Decimal):
        try:
            number = Decimal(str(value))
            weight = Fraction(number) if number.is_finite() and abs(number.adjusted()) <= 18 else weight
        except ArithmeticError:
            weight = Fraction(0)
    if weight <= 0 or max(weight.numerator, weight.denominator) > _GREATEST_WEIGHT:
        raise ValueError("a decimal number above 0 such as 2.5, or a fraction such as 1/3, of at most 18 digits")
    return weight


def parse_flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value
