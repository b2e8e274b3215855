"""Data sets: the files of each, and what its columns mean, by an entry of dataset_info.json or as each row shows.

A key of an entry that is not understood is refused: without it, the rows would mean something else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError, refuse_if
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.extensions.chat.align import (
    FORMATTINGS,
    MESSAGES,
    NOT_READ,
    READ_COLUMNS,
    TAGS,
    USUAL_COLUMNS,
    shown_columns,
)
from bpe_pipeline.extensions.chat.kinds import DroppedError
from bpe_pipeline.extensions.chat.marks import ROW_MARKS
from bpe_pipeline.extensions.chat.rows import rows_of
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location, is_uri, read_json

_FIRST_ROWS = 1000
_ELSEWHERE = ("hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name")
_OTHER_KEYS = ("split", "subset", "folder")  # of LLaMA-Factory, without a meaning for a local file
_COLUMNS = ("prompt", "query", "response", "history", "messages", "system", "tools", "kto_tag", *NOT_READ)


@dataclass(frozen=True)
class DataSet:
    """Names the files of a data set, and its columns and tags as in dataset_info.json.

    columns: None where each row shows what it has.
    """

    name: str
    inputs: tuple[str, ...]
    formatting: str = "alpaca"
    columns: dict[str, str | None] | None = None
    tags: dict[str, str | None] | None = None
    num_samples: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read."""
        return READ_COLUMNS if self.columns is None else (*filter(None, self.columns.values()), *ROW_MARKS)

    def require_columns(self, files: Iterable[CorpusFile], budget: ReadBudget) -> None:
        """Raise `InputError` if no row has a column that is named, or none of the first rows shows what it is."""
        if self.columns:
            self._require_named([column for column in self.columns.values() if column], files, budget)
        elif self.formatting == MESSAGES:
            self._require_shown(files, budget)

    def _require_named(self, missing: list[str], files: Iterable[CorpusFile], budget: ReadBudget) -> None:
        reason = ""
        for file in files:
            for row, _ in rows_of(file, self.names, budget):
                missing = [column for column in missing if column not in row]
                if not missing:
                    return
                reason = f"no row of {file.path} has the column {missing[0]!r}, which data set {self.name} names"
        if reason:
            raise InputError(f"{reason}; it has {', '.join(row)}")

    def _require_shown(self, files: Iterable[CorpusFile], budget: ReadBudget) -> None:
        reason = ""
        for file in files:
            for row, _ in islice(rows_of(file, self.names, budget), _FIRST_ROWS):
                try:
                    shown_columns(row)
                    return
                except DroppedError as error:
                    reason = reason or f"{file.path} has the {error.detail}"
        if reason:
            raise InputError(
                f"{reason}: chat data have messages, conversations, or instruction and output; say what they are with "
                "--dataset-info and --dataset"
            )


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
    elsewhere, file = [key for key in _ELSEWHERE if key in entry], str(entry.get("file_name"))
    refuse_if(
        (
            elsewhere or not isinstance(entry.get("file_name"), str),
            f"{where} is not a local file ({', '.join(elsewhere) or 'no file_name'}): save it as a file",
        ),
        (entry.get("ranking"), f"{where} is for preferences (ranking), which have two answers: name one for sft"),
    )
    keys = [field.name for field in fields(DataSet) if field.name not in ("name", "inputs")]
    _require_known(where, entry, [*keys, *_OTHER_KEYS, "file_name", "ranking"])
    for kind, known in (("columns", _COLUMNS), ("tags", TAGS)):
        _require_known(f"{where}: {kind}", entry.get(kind) or (), known)
    try:
        data_set = stored(DataSet, {**entry, "name": name, "inputs": []})
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    refuse_if(
        (
            data_set.formatting not in FORMATTINGS,
            f"{where}: formatting {data_set.formatting!r} is none of {', '.join(FORMATTINGS)}",
        ),
        (
            data_set.num_samples is not None and data_set.num_samples < 1,
            f"{where}: num_samples must be a whole number from 1",
        ),
    )
    columns, usual = data_set.columns, USUAL_COLUMNS.get(data_set.formatting)
    if columns is None and usual is not None:
        columns = {**usual}
    return replace(data_set, columns=columns, inputs=(file if is_uri(file) else str(path.parent / file),))


def _require_known(where: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UsageError` for a key that is not understood."""
    known = list(known)
    for name in names:
        if name not in known:
            nearest = get_close_matches(name, known, 1, 0.5)
            raise UsageError(
                f"{where}: {name!r} is not understood"
                + (f"; did you mean {nearest[0]!r}?" if nearest else f": known are {', '.join(known)}")
            )
