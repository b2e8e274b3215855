"""Read single option values: names, texts, special tokens, paths, weights.

A reader takes the value of a flag, a configuration file or a Python keyword and returns it checked, or raises
`ValueError` with what it expects; `pipeline.run.options` adds the option's name.
"""

import difflib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from fractions import Fraction

from pipeline.storage import path_text

EXPORT_FORMATS = ("hf", "gpt2", "tiktoken")
CHAT_TEMPLATES = ("llama3", "chatml")
SHARD_FORMATS = ("npy", "bin", "parquet")
_MAX_WEIGHT = 10**18  # of its numerator and denominator


def parse_one_of(*names: str) -> Callable[[object], str]:
    """Return a reader of one of these names; its error suggests the nearest."""

    def parse(value: object) -> str:
        if value not in names:
            near = difflib.get_close_matches(value, names, 1) if isinstance(value, str) else []
            raise ValueError("one of " + ", ".join(names) + (f" (did you mean {near[0]}?)" if near else ""))
        return str(value)

    return parse


def parse_text(value: object) -> str:
    """Read a text that is not empty and can be written as UTF-8."""
    if not isinstance(value, str) or not value:
        raise ValueError("a non-empty text")
    return _without_surrogates(value)


def parse_text_field(value: object) -> str:
    """Read the name of a field; `a.b` is the field b within the field a."""
    name = parse_text(value)
    if "" in name.split("."):
        raise ValueError("the name of a field, such as text or page.body")
    return name


def _without_surrogates(text: str) -> str:
    """Return the text, or raise `ValueError` if it cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text that is valid Unicode (character {error.start} is a lone surrogate or a byte that is not UTF-8)"
        ) from None
    return text


def parse_texts(value: object) -> tuple[str, ...]:
    """Read a list of texts in order; a single text is a list of one."""
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
    """Read special tokens: texts, none empty, none twice."""
    texts = parse_texts(value)
    if "" in texts:
        raise ValueError("a list of texts without an empty one (an empty special token is everywhere)")
    doubled = next((text for text, times in Counter(texts).items() if times > 1), None)
    if doubled is not None:
        raise ValueError(f"a list of different texts ({doubled!r} is given twice)")
    return texts


def parse_formats(value: object) -> tuple[str, ...]:
    """Read names of export formats, in a list or separated by commas."""
    names = [name.strip() for text in parse_texts(value) for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(parse_one_of(*EXPORT_FORMATS)(name) for name in names))


def parse_paths(value: object) -> tuple[str, ...]:
    """Read one path or several, unchanged."""
    if isinstance(value, str | os.PathLike):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | AbstractSet | bytes | bytearray):
        raise ValueError("a path or a list of paths")
    return tuple(map(path_text, value))


def parse_weight(value: object) -> Fraction:
    """Read a factor for counts exactly as written: `2.5` -> 5/2, `1/3`, `1e6`.

    A float is read as the shortest decimal number that prints it.
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
    if weight <= 0 or max(weight.numerator, weight.denominator) > _MAX_WEIGHT:
        raise ValueError("a decimal number above 0 such as 2.5, or a fraction such as 1/3, of at most 18 digits")
    return weight


def parse_flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value
