"""Make `pipeline/run/keywords.py` of the records of options: `python tests/support/keyword_types.py` writes it."""

from pathlib import Path
from typing import get_args

from pipeline.run import keywords, options
from pipeline.run.record import Record, records_of

FOR_THE_COMMAND = {"inputs", "dry_run", "quiet", "log_json"}  # an argument, or of no use as a keyword
HOME = Path(keywords.__file__)
_HEAD = '''"""The types of the public functions' keywords, for editors and type checkers: of the values of options.

`python tests/support/keyword_types.py` writes this file. Sizes are numbers of bytes or texts such as "64MiB".
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict

from pipeline.storage import Remote

AnyPath = str | PathLike[str] | Remote
'''
_PUBLIC = [getattr(options, f"{name}Options") for name in ("Train", "Parity", "Encode", "Export", "Sweep", "Extend")]


def type_of(record: Record) -> str:
    """What an option's reader takes."""
    if record.keyword or record.kind is bool:
        return record.keyword.replace("'", '"') or "bool"
    kinds = {record.kind, *get_args(record.kind)}
    if record.choices:
        text = f"Literal{[*record.choices]}".replace("'", '"')
    elif Path in kinds:
        text = "AnyPath"
    else:
        text = "str | Sequence[str]" if record.several else "int | str" if int in kinds else "str"
        text = "float | str" if float in kinds else text
    return text + (" | None" if record.default is None else "")


def source() -> str:
    """Return the file as it should be."""
    parts = [_HEAD]
    for kind in vars(options).values():
        if (
            not isinstance(kind, type)
            or kind in (options.Values, options.ShardsOptions)
            or not any(issubclass(one, kind) for one in _PUBLIC)
        ):
            continue
        bases = [base.__name__.replace("Options", "Keywords") for base in kind.__bases__ if base is not options.Values]
        if kind is options.EncodeOptions:  # whose output is an argument
            bases = ["OverwriteKeywords" if base == "ShardsKeywords" else base for base in bases]
        known = records_of(kind)
        own = [known[name] for name in vars(kind).get("__annotations__", ()) if name in known.keys() - FOR_THE_COMMAND]
        lines = [f"{record.name}: {type_of(record)}" for record in own]
        lines += [f"no_{record.name}: bool" for record in own if record.without]
        name = kind.__name__.replace("Options", "Keywords")
        head = f'class {name}({", ".join(bases or ("TypedDict",))}, total=False):\n    """{kind.__doc__}"""\n'
        parts.append("\n    ".join([head, *lines]).rstrip() + "\n")
    return "\n\n".join(parts)


if __name__ == "__main__":
    HOME.write_text(source(), encoding="utf-8")
