"""Sizes and numbers: read them from text, write them for people.

A reader takes the value of a flag, a configuration file or a Python keyword and returns it checked, or raises
`ValueError` with what it expects.
"""

import re
from collections.abc import Callable
from decimal import Decimal

_MAX_BYTES = 1 << 62
THOUSANDS = r"[0-9]{1,3}(?:,[0-9]{3})+"  # a number whose digits commas group
_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{unit}": base ** (power + 1)
    for power, prefix in enumerate("kmgt")
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def parse_bytes(value: object) -> int:
    """Read a size in bytes: `64MiB` -> 67108864, `1GB` -> 1000000000, `4096` -> 4096."""
    size: int | Decimal = 0
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        if match is not None and match[2].lower() in _UNITS:
            size = Decimal(match[1]) * _UNITS[match[2].lower()]
    if not 1 <= size <= _MAX_BYTES:
        raise ValueError("a size such as 64MiB, 1GB or a number of bytes" + (", at most 2**62" if size > 1 else ""))
    return int(size)


def parse_whole_number(at_least: int, at_most: int) -> Callable[[object], int]:
    """Return a reader of whole numbers within these bounds, both included: `48_000`, `48,000`, `48k`, `1M`."""

    def parse(value: object) -> int:
        number = value
        if isinstance(value, str) and (match := re.fullmatch(rf"({THOUSANDS}|[0-9]+(?:_[0-9]+)*)([kKmM]?)", value)):
            digits = re.sub("[,_]", "", match[1]).lstrip("0") or "0"
            number = int(digits) * _UNITS[match[2].lower()] if len(digits) < 30 else at_most + 1
        if not isinstance(number, int) or isinstance(number, bool) or number < at_least:
            raise ValueError(f"a whole number of at least {at_least}")
        if number > at_most:
            raise ValueError(f"a whole number of at most {at_most}")
        return number

    return parse


def format_bytes(size: float) -> str:
    """Write a size for people: 67108864 -> `64.0 MiB`."""
    power = min((max(int(size), 1).bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.{1 if power else 0}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def format_apart(first: int, second: int) -> tuple[str, str]:
    """Write two sizes; in bytes if they differ but would look the same: (2000, 2001) -> `2,000 B`, `2,001 B`."""
    shown = format_bytes(first), format_bytes(second)
    return shown if shown[0] != shown[1] or first == second else (f"{first:,} B", f"{second:,} B")


def format_limit(size: float) -> str:
    """Write a limit that is enough for this size, as `--memory-limit` reads it: 1.5 MiB -> `2MiB`."""
    return f"{-(-int(size) >> 20)}MiB"


def format_share(share: float, form: str = ".1%") -> str:
    """Write a share in a form of percent, with as many more digits as it takes not to look like none.

    >>> format_share(0.123), format_share(0.00004), format_share(-0.00004, "+.1%"), format_share(0.0)
    ('12.3%', '0.004%', '-0.004%', '0.0%')
    """
    shown, digits = format(share, form), 0
    while share and not shown.strip("+-0.%"):
        digits += 1
        shown = format(share, f"{'+' * form.startswith('+')}.{digits}%")
    return shown


def format_count(number: int, things: str) -> str:
    """Write a number of things for people: (1, "files") -> `1 file`, (2000, "files") -> `2,000 files`."""
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"
