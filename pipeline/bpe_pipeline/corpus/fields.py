r"""Which fields of a record are its text: `--text-field` as it is written, read for the format of a file.

    text                             one field
    title,body                       several, joined by two line feeds
    jsonl=title,body,parquet=text    by format; those that are not named have the fields before the first, or `text`
    title,body,join=: \             joined by `: ` and a backslash, as `--text-join` writes it: all behind `join=`

A comma in a name is written with a backslash before it.
"""

import re
from collections.abc import Iterable
from functools import cache

FORMATS = ("jsonl", "parquet", "arrow")  # which have fields
_BETWEEN = "\n\n"  # the texts of several fields of a record
_JOIN = re.compile(r"(?<!\\),join=(.*)", re.DOTALL)
_DEFAULT = ("text",)
_COMMA = re.compile(r"(?<!\\),")
_OF_FORMAT = re.compile(rf"({'|'.join(FORMATS)})=(.+)", re.DOTALL)


class Fields(tuple[str, ...]):
    """The names of the fields, in order. between: what joins their texts."""

    between: str

    def __new__(cls, names: Iterable[str], between: str) -> "Fields":
        """Make it of the names."""
        fields = super().__new__(cls, names)
        fields.between = between
        return fields


def with_join(text_field: str, between: str) -> str:
    """Return the fields with another text that joins them."""
    return f"{_JOIN.sub('', text_field)},join={between}"


@cache
def fields_of(text_field: str, format_: str = "") -> Fields:
    """Return the fields of a format; `ValueError` for an empty name, or one that is there twice.

    >>> fields_of("title,body"), fields_of("jsonl=a,b,arrow=c", "jsonl"), fields_of("jsonl=a", "parquet")
    (('title', 'body'), ('a', 'b'), ('text',))
    """
    if not text_field:
        return Fields((), _BETWEEN)
    join = _JOIN.search(text_field)
    text_field = _JOIN.sub("", text_field)
    by_format: dict[str, list[str]] = {}
    current = ""
    for word in _COMMA.split(text_field):
        if found := _OF_FORMAT.fullmatch(word):
            current, word = found[1], found[2]
            if current in by_format:
                raise ValueError(f"the fields of {current} once, with commas")
        by_format.setdefault(current, []).append(word.replace("\\,", ","))
    for names in by_format.values():
        if any("" in name.split(".") for name in names) or len({*names}) < len(names):
            raise ValueError("the names of different fields, such as text, page.body or title,body")
    between = join[1] if join else _BETWEEN
    return Fields(by_format.get(format_) or by_format.get("") or _DEFAULT, between)
