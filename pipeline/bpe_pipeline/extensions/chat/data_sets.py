"""Data sets: the files of each, and what its columns mean, by an entry of dataset_info.json or as each row shows.

A key of an entry that is not understood is refused: without it, the rows would mean something else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.extensions.chat.align import COLUMN_NAMES, COLUMNS, READ_COLUMNS, TAGS, Dialog, dialog_of
from bpe_pipeline.extensions.chat.marks import ROW_MARKS
from bpe_pipeline.extensions.chat.rows import rows_of
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location, is_uri, read_json


@dataclass(frozen=True)
class DataSet:
    """Names the files of a data set, and its columns and tags as in dataset_info.json.

    formatting: None where each row shows what it has.
    """

    name: str
    inputs: tuple[str, ...]
    formatting: str | None = None
    columns: dict[str, str | None] | None = None
    tags: dict[str, str | None] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read."""
        return READ_COLUMNS if self.columns is None else (*filter(None, self.columns.values()), *ROW_MARKS)

    def dialog(self, row: Mapping[str, Any]) -> Dialog:
        """Return the conversation in a row, which may lack columns; raises `DroppedError` for a row that is none."""
        row = row if self.columns is None else {**dict.fromkeys(self.names), **row}
        return dialog_of(row, self.formatting, self.columns, self.tags)

    def require_columns(self, files: Iterable[CorpusFile], budget: ReadBudget) -> None:
        """Raise `InputError` if no row has a column that is named."""
        missing, reason = [column for column in (self.columns or {}).values() if column], ""
        for file in files if missing else ():
            for row, _ in rows_of(file, self.names, budget):
                missing = [column for column in missing if column not in row]
                if not missing:
                    return
                reason = (
                    f"no row of {file.path} has the column {missing[0]!r}, which data set {self.name} names; it has "
                    f"{', '.join(row)}"
                )
        if reason:
            raise InputError(reason)


def listed_data_sets(path: Location, names: Sequence[str]) -> list[DataSet]:
    """Return the data sets of these names in a dataset_info.json; raises `UsageError` naming what is wrong."""
    try:
        listed = read_json(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--dataset-info {path} cannot be read: {reason}") from None
    entries = listed if isinstance(listed, dict) else {}
    for name in names:
        if not isinstance(entries.get(name), dict):
            known = ", ".join(list(entries)[:20]) or "none"
            raise UsageError(f"{path} has no data set {name!r}: it has {known}; name one with --dataset")
    return [_data_set(path, name, entries[name]) for name in names]


def _data_set(path: Location, name: str, entry: Mapping[str, Any]) -> DataSet:
    where = f"{path}: data set {name!r}"
    _require_known(where, entry, ["file_name", *(field.name for field in fields(DataSet)[2:])])
    _require_known(f"{where}: columns", entry.get("columns") or (), COLUMN_NAMES)
    _require_known(f"{where}: tags", entry.get("tags") or (), TAGS["openai"])
    file, formatting = entry.get("file_name"), entry.get("formatting", "alpaca")
    if not isinstance(file, str):
        raise UsageError(f"{where} has no file_name: save it as a local file")
    if formatting not in COLUMNS:
        raise UsageError(f"{where}: formatting {formatting!r} is none of {', '.join(COLUMNS)}")
    columns = entry.get("columns") or dict(COLUMNS[formatting])
    try:
        data_set = stored(DataSet, {**entry, "name": name, "inputs": [], "formatting": formatting, "columns": columns})
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    return replace(data_set, inputs=(file if is_uri(file) else str(path.parent / file),))


def _require_known(where: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UsageError` for a key that is not understood."""
    known = list(known)
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: {name!r} is not understood; known are {', '.join(known)}")
