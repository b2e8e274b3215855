"""What encoding chat data starts from: its data sets, template and settings, and the plan of chunks.

Each chunk is of one data set. All of it is stored in `encoding.json`; a resumed encoding keeps its plan, and the day
that its template names as today.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import partial
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError, refuse_if
from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import Listing
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.executors import Node
from bpe_pipeline.extensions.chat.align import COLUMN_NAMES, COLUMNS, READ_COLUMNS, ROW_MARKS, TAGS, Dialog, dialog_of
from bpe_pipeline.extensions.chat.options import ChatOptions
from bpe_pipeline.extensions.chat.rows import as_chat_file, rows_of
from bpe_pipeline.extensions.chat.training_rows import NEAT, ConversationRows
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.options import RowOptions
from bpe_pipeline.run.plan import Plan
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards import manifest as shards
from bpe_pipeline.shards.formats import shard_format
from bpe_pipeline.shards.manifest import Encoding
from bpe_pipeline.shards.plan import chunk_bytes_of, open_encoding
from bpe_pipeline.storage import Location, is_uri, read_json
from bpe_pipeline.tokenizer.model import ChatTemplate, Model
from bpe_pipeline.tokenizer.named_templates import chat_template_named

_MOST_CHUNK_BYTES = 16 << 20


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


@dataclass(frozen=True)
class Chat:
    """All that decides the rows of chat data. day: what templates name as today, if any do.

    options: `sequence_length` is the most ids of conversations in a row, one less than a packed row has.
    """

    template: ChatTemplate
    options: ChatOptions
    sets: tuple[DataSet, ...]
    rows: ConversationRows
    day: str | None


def chat_of(options: ChatOptions, model: Model, data_sets: Sequence[DataSet], day: str | None) -> Chat:
    """Return the settings of these options; raises `UsageError` for what a vocabulary or a format cannot have."""
    template = chat_template_named(options.template, model)
    require_fitting(options)
    packed, length = options.pack in ("greedy", NEAT), options.sequence_length or 2048
    pad = model.pad_token or model.eos_token
    refuse_if(
        (
            not shard_format(options.shard_format).columns,
            f"--shard-format {options.shard_format} has no column for labels: choose arrow or parquet",
        ),
        (
            options.pack == "best-fit",
            "--pack best-fit is for documents: of conversations, choose none, greedy or neat",
        ),
        (packed and length < 2, "--sequence-length of packed rows must be at least 2: one id is filled"),
        (
            packed and pad is None,
            "packed rows are filled with a pad token, and the tokenizer has neither one nor an end of text",
        ),
    )
    rows = ConversationRows.of(options.pack, length, model.vocabulary.special_tokens[pad] if pad else 0)
    options = options.replace(sequence_length=length - packed)
    day = (day or date.today().isoformat()) if "strftime_now" in template.jinja else None
    return Chat(template, options, tuple(data_sets), rows, day)


def require_fitting(options: ChatOptions) -> None:
    """Raise `UsageError` for options that exclude each other."""
    both = options.train_on_prompt and options.mask_history
    refuse_if((both, "--train-on-prompt excludes --mask-history"))


def named_data_sets(options: ChatOptions) -> list[DataSet]:
    """Return the data sets of `--dataset-info`, or one of the INPUTs; raises `UsageError` if there is neither."""
    if options.dataset_info is None:
        refuse_if((options.dataset, "--dataset names entries of a file: give --dataset-info dataset_info.json"))
        sets = [DataSet("inputs", options.inputs)] if options.inputs else []
    elif not options.dataset or options.inputs:
        raise UsageError("--dataset-info takes --dataset NAME[,NAME...] and no INPUT: its entries name the files")
    else:
        sets = listed_data_sets(options.dataset_info, options.dataset)
    if options.output is None or not sets:
        raise UsageError("encoding chat data takes INPUT, or --dataset-info and --dataset, and --output")
    return sets


def open_chat(
    runner: Runner, directory: Directory, options: ChatOptions, model: Model, data_sets: Sequence[DataSet]
) -> tuple[Encoding, Chat]:
    """Return the encoding that the options ask for, stored or new."""
    stored = None if options.overwrite else shards.load(directory)
    chat = chat_of(options, model, data_sets, stored.options.get("day") if stored else None)
    requested = {
        "input_format": options.input_format,
        **options.in_scope(Scope.CHAT),
        **{name: getattr(options, name) for name in RowOptions.records},
        "seed": 0,  # nothing is chosen by it
        "shuffle": False,
        "dataset_info": None,  # what its entries say counts, not where it is stored
        "tokenizer": shards.tokenizer_fingerprint(model),
        "dtype": "uint32",
        "chat_template": plain(chat.template),
        "data_sets": list(map(plain, chat.sets)),
        "day": chat.day,
    }
    inputs = tuple(name for data_set in chat.sets for name in data_set.inputs)
    of_sets, cut = options.replace(inputs=inputs), partial(_cut, sets=chat.sets, options=options, nodes=runner.nodes)
    return open_encoding(runner, directory, of_sets, requested, cut), chat


def _cut(listing: Listing, sets: Sequence[DataSet], options: ChatOptions, nodes: Sequence[Node]) -> Plan:
    """Return the plan: each chunk is of one data set. Raises `UsageError` for a file of two, also by a link."""
    files, owners = tuple(map(as_chat_file, listing.files)), listing.inputs
    if len(sets) == 1:
        owners = (0,) * len(files)
    elif listing.repeated:
        again = sets[listing.repeated[0]]
        raise UsageError(f"{again.inputs[0]} is of data set {again.name} and of one before it: give one of them a copy")
    plan = Plan(empty=listing.empty, owners=owners)
    chunk_bytes = chunk_bytes_of(files, options, nodes, _MOST_CHUNK_BYTES)
    return plan.extended(files, Cutting(text_field=""), chunk_bytes, owners)
