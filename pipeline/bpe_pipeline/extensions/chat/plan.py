"""What encoding chat data starts from: its data sets, template and settings, and the plan of chunks.

Each chunk is of one data set. All of it is stored in `encoding.json`; a resumed encoding keeps its plan and its date.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from bpe_pipeline.base.errors import UsageError, refuse_if
from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.listing import Listing
from bpe_pipeline.executors import Node
from bpe_pipeline.extensions.chat.align import MESSAGES
from bpe_pipeline.extensions.chat.assemble_worker import NEAT, POSITIONS
from bpe_pipeline.extensions.chat.data_sets import DataSet, listed_data_sets
from bpe_pipeline.extensions.chat.mixing import check_mixing
from bpe_pipeline.extensions.chat.options import ChatOptions, date_of
from bpe_pipeline.extensions.chat.rows import as_chat_file
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.options import RowOptions
from bpe_pipeline.run.plan import Plan
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.run.stored import plain
from bpe_pipeline.shards import manifest as shards
from bpe_pipeline.shards.formats import shard_format
from bpe_pipeline.shards.formats.shard_format import Layout
from bpe_pipeline.shards.manifest import Encoding
from bpe_pipeline.shards.plan import chunk_bytes_of, open_encoding
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.named_templates import (
    Template,
    eos_of,
    missing_marks,
    needs_eos,
    template_named,
    with_tool_format,
)

_MOST_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True)
class Chat:
    """All that decides the rows of chat data. pad_id: fills packed rows.

    options: `sequence_length` is the most ids of conversations in a row, one less than a packed row has, and `date` the
    day that templates name as today.
    """

    template: Template
    options: ChatOptions
    sets: tuple[DataSet, ...]
    layout: Layout
    pad_id: int

    @property
    def pack(self) -> str | None:
        """How rows are packed, if they are."""
        return self.options.pack if self.layout.row_tokens else None


def chat_of(options: ChatOptions, model: Model, data_sets: Sequence[DataSet] | None, day: str) -> Chat:
    """Return the settings of these options; raises `UsageError` for what a vocabulary or a format cannot have."""
    if options.template is None:
        raise UsageError("chat data need a --template: llama3, chatml, qwen, ..., tokenizer (its own), or a file")
    template = template_named(options.template, model)
    if options.tool_format is not None:
        template = with_tool_format(template, options.tool_format)
    require_fitting(template, model, options)
    packed, length = options.pack in ("greedy", "neat"), options.sequence_length or 2048
    pad = model.pad_token or eos_of(template, model)
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
    mask = "int32" if options.pack == NEAT else "int8"
    columns = {"input_ids": "int32", "labels": "int32", "attention_mask": mask}
    layout = Layout({**columns, POSITIONS: "int32"}, length, documents=False) if packed else Layout(columns)
    sets = tuple(data_sets or [DataSet("inputs", options.inputs or (), MESSAGES)])
    check_mixing(options, len(sets))
    options = replace(options, sequence_length=length - packed, date=day)
    return Chat(template, options, sets, layout, model.vocabulary.special_tokens[pad] if pad else 0)


def require_fitting(template: Template, model: Model, options: ChatOptions) -> None:
    """Raise `UsageError` for a template that the vocabulary lacks tokens for, or that excludes other options."""
    name, missing = f"template {template.name}", missing_marks(template, model)
    refuse_if(
        (options.train_on_prompt and options.mask_history, "--train-on-prompt excludes --mask-history"),
        (
            options.train_on_prompt and template.efficient_eos,
            f"--train-on-prompt excludes {name}, whose turns share one end of text",
        ),
        (
            template.jinja is not None and (options.tool_format or options.preserve_thinking),
            f"{name} is Jinja and writes calls and thoughts itself: leave tool_format out",
        ),
        (
            missing,
            f"{name}: the vocabulary has no special token {' '.join(missing)}; add "
            f"{' '.join(f'--special-token {text!r}' for text in missing)} with `merge` or `export --output`, or choose "
            "another --template",
        ),
        (
            needs_eos(template) and eos_of(template, model) is None,
            f"{name} ends answers with the end of text, and the tokenizer has none",
        ),
    )


def named_data_sets(options: ChatOptions) -> list[DataSet] | None:
    """Return the data sets of `--dataset-info`, or None where INPUT is what is read."""
    if options.dataset_info is None:
        refuse_if((options.dataset, "--dataset names entries of a file: give --dataset-info dataset_info.json"))
        return None
    if not options.dataset or options.inputs:
        raise UsageError("--dataset-info takes --dataset NAME[,NAME...] and no INPUT: its entries name the files")
    return listed_data_sets(options.dataset_info, options.dataset)


def open_chat(
    runner: Runner, directory: Directory, options: ChatOptions, model: Model, data_sets: list[DataSet] | None
) -> tuple[Encoding, Chat]:
    """Return the encoding that the options ask for, stored or new."""
    stored = None if options.overwrite else shards.load(directory)
    before = stored.options if stored else {}
    day = str(before["day"] if before.get("date") == options.date else date_of(options.date))
    chat = chat_of(options, model, data_sets, day)
    if chat.template.starts_with_bos and model.bos_token not in (None, *model.front):
        runner.warn(
            f"template {chat.template.name} starts with {model.bos_token}, which the tokenizer's files do not add: a "
            "tool that takes its template from them may write it before every turn; export them with --add-bos"
        )
    elif chat.template.starts_with_bos and model.bos_token is None:
        runner.warn(f"template {chat.template.name} starts with a bos token, and the tokenizer has none: left out")
    sampled = any(data_set.num_samples for data_set in chat.sets)
    requested = {
        "input_format": options.input_format,
        **options.of_stage("chat"),
        **{field.name: getattr(options, field.name) for field in fields(RowOptions)},
        "seed": options.seed if options.val_size or options.interleave_probs or sampled else 0,  # of choices made
        "dataset_info": None,  # what its entries say counts, not where it is stored
        "tokenizer": shards.tokenizer_fingerprint(model),
        "dtype": "uint32",
        "template_fields": plain(chat.template),
        "data_sets": list(map(plain, chat.sets)),
        "day": day,
    }
    inputs = tuple(name for data_set in chat.sets for name in data_set.inputs)
    of_sets, cut = replace(options, inputs=inputs), partial(_cut, sets=chat.sets, options=options, nodes=runner.nodes)
    return open_encoding(runner, directory, of_sets, requested, cut), chat


def _cut(listing: Listing, sets: Sequence[DataSet], options: ChatOptions, nodes: Sequence[Node]) -> Plan:
    """Return the plan: each chunk is of one data set. Raises `UsageError` for a file of two, also by a link."""
    files, owners = tuple(map(as_chat_file, listing.files)), listing.inputs
    if len(sets) == 1:
        owners = (0,) * len(files)
    elif listing.repeated:
        again = sets[listing.repeated[0]]
        raise UsageError(f"{again.inputs[0]} is of data set {again.name} and of one before it: give one of them a copy")
    plan = Plan(empty=listing.empty, inputs=tuple(data_set.name for data_set in sets), owners=owners)
    chunk_bytes = chunk_bytes_of(files, options, nodes, _MOST_CHUNK_BYTES)
    return plan.extended(files, Cutting(text_field=""), chunk_bytes, owners)
