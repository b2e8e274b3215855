"""Data sets: files and the formatting of their rows, as INPUT or as an entry of LLaMA-Factory's dataset_info.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.base.errors import InputError, UsageError
from pipeline.corpus.files import CorpusFile
from pipeline.guests.chat.align import FORMATTINGS, MESSAGES
from pipeline.guests.chat.rows import first_columns
from pipeline.storage import Location, is_uri, read_json

_ELSEWHERE = ("hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name")


@dataclass(frozen=True)
class DataSet:
    """One data set; columns and tags as in dataset_info.json. nullable: columns that a row may lack."""

    name: str
    inputs: tuple[str, ...]
    formatting: str = "alpaca"
    columns: dict[str, str | None] | None = None
    tags: dict[str, str | None] | None = None
    num_samples: int | None = None
    nullable: tuple[str, ...] = ()


def listed_data_sets(path: Location, names: Sequence[str]) -> list[DataSet]:
    """Return the data sets of these names in a dataset_info.json; raises `UsageError` naming what is wrong."""
    try:
        listed = read_json(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--dataset-info {path} cannot be read: {reason}") from None
    found = []
    for name in names:
        if not isinstance(listed, dict) or not isinstance(listed.get(name), dict):
            known = ", ".join(list(listed)[:20]) if isinstance(listed, dict) else "none"
            raise UsageError(f"{path} has no data set {name!r}: it has {known}; name one with --dataset")
        found.append(_entry(path, name, listed[name]))
    return found


def _entry(path: Location, name: str, entry: Mapping[str, Any]) -> DataSet:
    where = f"{path}: data set {name!r}"
    elsewhere = [key for key in _ELSEWHERE if key in entry]
    if elsewhere or not isinstance(entry.get("file_name"), str):
        raise UsageError(f"{where} is not a local file ({', '.join(elsewhere) or 'no file_name'}): save it as a file")
    if entry.get("ranking"):
        raise UsageError(f"{where} is for preferences (ranking), which have two answers: name one for sft")
    formatting = entry.get("formatting", "alpaca")
    if formatting not in FORMATTINGS:
        raise UsageError(f"{where}: formatting {formatting!r} is none of {', '.join(FORMATTINGS)}")
    for key in ("columns", "tags"):
        if not isinstance(entry.get(key, {}), dict):
            raise UsageError(f"{where}: {key} must be names and values")
    number = entry.get("num_samples")
    if number is not None and (type(number) is not int or number < 1):
        raise UsageError(f"{where}: num_samples must be a whole number from 1")
    name_of_file = entry["file_name"]
    inputs = (name_of_file if is_uri(name_of_file) else str(path.parent / name_of_file),)
    return DataSet(name, inputs, formatting, entry.get("columns"), entry.get("tags"), number)


def recognised(files: Sequence[CorpusFile], inputs: tuple[str, ...]) -> DataSet:
    """Return the data set of files without dataset_info.json, whose formatting the columns of the first one show."""
    found = first_columns(files[0])
    columns: dict[str, str | None] = {name: name for name in ("system", "tools") if name in found}
    if "messages" in found:
        return DataSet("inputs", inputs, MESSAGES, columns | {"messages": "messages"})
    if "conversations" in found:
        return DataSet("inputs", inputs, "sharegpt", columns | {"messages": "conversations"})
    if {"instruction", "output"} <= set(found):
        optional = {"query": "input", "history": "history"}
        columns |= {name: column for name, column in optional.items() if column in found}
        return DataSet("inputs", inputs, "alpaca", columns | {"prompt": "instruction", "response": "output"})
    raise InputError(
        f"{files[0].path} has the columns {', '.join(found) or 'none'}: chat data have messages, conversations, or "
        "instruction and output; say what they are with --dataset-info and --dataset"
    )
