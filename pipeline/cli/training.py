"""The commands train, count and merge."""

from typing import Any

from pipeline.cli.group import commands, debug, inputs, run_argument
from pipeline.cli.options import (
    CLUSTER_OPTIONS,
    COUNTING_OPTIONS,
    RUN_OPTIONS,
    carry_out,
    print_plan,
    run_options,
    settle,
)
from pipeline.run.options import OPTION_FIELDS
from pipeline.storage import Location

_MERGE_OPTIONS = (
    *("vocab_size", "tie_break", "min_frequency", "min_piece_count", "max_token_bytes", "special_ids", "export"),
    *("chat_template", "overwrite", *CLUSTER_OPTIONS, *RUN_OPTIONS),
)
_COUNT_OPTIONS = (
    *("output", *COUNTING_OPTIONS, "input_format", "compression", "text_field", "chunk_size", "pattern_timeout"),
    *("fail_on_loss", "dry_run", "overwrite", *CLUSTER_OPTIONS, *RUN_OPTIONS),
)
_TRAIN_OPTIONS = tuple(
    name for name, option in OPTION_FIELDS.items() if name != "inputs" and option.metadata["stage"] != "encode"
)


@commands.command()
@inputs
@run_options(*_TRAIN_OPTIONS)
@debug
def train(inputs: tuple[str, ...], **values: Any) -> None:
    """Count, merge, export and report: INPUT (files, directories, globs, URIs, -: standard input) becomes a tokenizer.

    Without INPUT the sample corpus is used: the running Python's own standard library.

    \b
    bpe-pipeline train
    bpe-pipeline train corpus/*.txt --output runs/a --vocab-size 32000
    bpe-pipeline train corpus --pattern llama3 --special-token '<|endoftext|>' --workers 8
    """
    settled = settle(_TRAIN_OPTIONS, values, inputs)
    if settled is not None and settled.options.dry_run:
        print_plan(settled.options)
    elif settled is not None:
        from pipeline.run.workers import executor_for

        options = settled.options
        with executor_for(options) as executor:  # its workers start beside the next import
            from pipeline.commands.train import run_train

            carry_out(options, lambda listener: run_train(options, executor, listener)[0])


@commands.command()
@inputs
@run_options(*_COUNT_OPTIONS)
@debug
def count(inputs: tuple[str, ...], **values: Any) -> None:
    """Count the pieces of INPUT into a run directory; `merge` makes tokenizers from it.

    \b
    bpe-pipeline count corpus --output runs/a
    bpe-pipeline count corpus/*.jsonl.zst --text-field body --pattern llama3 --output runs/b
    """
    settled = settle(_COUNT_OPTIONS, values, inputs)
    if settled is not None and settled.options.dry_run:
        print_plan(settled.options)
    elif settled is not None:
        from pipeline.run.workers import executor_for

        options = settled.options
        with executor_for(options) as executor:  # its workers start beside the next import
            from pipeline.commands.count import run_count

            carry_out(options, lambda listener: run_count(options, executor, listener))


@commands.command()
@run_argument
@run_options(*_MERGE_OPTIONS)
@debug
def merge(run_directory: Location, **values: Any) -> None:
    """Learn a vocabulary from the counts in RUN and export it; nothing is counted again.

    \b
    bpe-pipeline merge runs/a --vocab-size 32000
    bpe-pipeline merge runs/a --vocab-size 8000,16000 --export hf,tiktoken
    """
    settled = settle(_MERGE_OPTIONS, values)
    if settled is not None:
        from pipeline.run.workers import executor_for

        options, given = settled
        with executor_for(options) as executor:  # its workers start beside the next import
            from pipeline.commands.merge import run_merge

            carry_out(options, lambda listener: run_merge(run_directory, given, executor, listener)[0])
