"""Make `pipeline/run/option_types.py` of the records of options: `python tests/support/keyword_types.py` writes it."""

from pathlib import Path
from typing import get_args

from pipeline.run import option_types
from pipeline.run.options import RECORDS, Record, options_of

FOR_THE_COMMAND = {"inputs", "dry_run", "quiet", "log_json"}  # an argument, or of no use as a keyword
HOME = Path(option_types.__file__)
_HEAD = '''"""The types of the public functions' keywords, for editors and type checkers: of the records of options.

`python tests/support/keyword_types.py` writes this file. Sizes are numbers of bytes or texts such as "64MiB".
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict

from pipeline.storage import Remote

AnyPath = str | PathLike[str] | Remote
'''
_COUNTED = {*options_of("count")} & {*options_of("encode-files")}
_KINDS = {  # name -> bases, what it is of, and its options
    "WorkingOptions": ((), "How any work is done on this machine.", options_of("verify")),
    "OutputOptions": (("WorkingOptions",), "Where the result goes.", options_of("combine")),
    "ReadingOptions": (("WorkingOptions",), "How a corpus is read.", _COUNTED),
    "EncodeFilesOptions": (("ReadingOptions",), "Of `encode_files`.", options_of("encode-files")),
    "EncodeOptions": (("EncodeFilesOptions",), "Of `encode_corpus`.", {*options_of("encode")} - {"output"}),
    "ParityOptions": (("OutputOptions",), "Of `train_parity`.", options_of("parity")),
    "MergeOptions": (("ParityOptions",), "What is learned from counts.", ("output", *options_of("merge"))),
    "CountOptions": (("OutputOptions", "ReadingOptions"), "Of `count`.", options_of("count")),
    "TrainOptions": (
        ("MergeOptions", "CountOptions"), "Of `train` and of the other functions that count and merge.",
        options_of("train", "merge"),
    ),
}  # fmt: skip


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
    parts, listed = [_HEAD], {name: {*names} - FOR_THE_COMMAND for name, (_, _, names) in _KINDS.items()}
    for name, (bases, about, _) in _KINDS.items():
        inherited = {one for base in bases for one in listed[base]}
        assert inherited <= listed[name], f"{name} does not take {inherited - listed[name]}"
        own = [record for record in RECORDS.values() if record.name in listed[name] - inherited]
        lines = [f"{record.name}: {type_of(record)}" for record in own]
        lines += [f"no_{record.name}: bool" for record in own if record.without]
        head = f'class {name}({", ".join(bases or ("TypedDict",))}, total=False):\n    """{about}"""\n'
        parts.append("\n    ".join([head, *lines]).rstrip() + "\n")
    return "\n\n".join(parts)


if __name__ == "__main__":
    HOME.write_text(source(), encoding="utf-8")
