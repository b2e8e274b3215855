"""The types of the public functions' keywords, for editors and type checkers: of the records of options.

`python tests/support/keyword_types.py` writes this file. Sizes are numbers of bytes or texts such as "64MiB".
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict

from pipeline.storage import Remote

AnyPath = str | PathLike[str] | Remote


class WorkingOptions(TypedDict, total=False):
    """How any work is done on this machine."""

    workers: int | str | None
    memory_limit: int | str | None


class OutputOptions(WorkingOptions, total=False):
    """Where the result goes."""

    output: AnyPath | None
    overwrite: bool


class ReadingOptions(WorkingOptions, total=False):
    """How a corpus is read."""

    exclude: str | Sequence[str] | None
    errors: Literal["replace", "strict", "skip"]
    pattern_timeout: int | str
    input_format: Literal["auto", "text", "lines", "jsonl", "parquet"]
    compression: Literal["auto", "none", "gzip", "zstd", "bzip2", "xz"]
    text_field: str
    chunk_size: int | str | None
    fail_on_loss: bool


class EncodeFilesOptions(ReadingOptions, total=False):
    """Of `encode_files`."""

    documents: Literal["separator", "offsets"]
    separator: str | None


class EncodeOptions(EncodeFilesOptions, total=False):
    """Of `encode_corpus`."""

    add_bos: bool
    shard_format: Literal["npy", "bin", "parquet", "arrow", "megatron", "mds"]
    shard_size: int | str
    shuffle: int | str | None
    repeat: int | str
    weights: Sequence[float | str] | None
    val_fraction: float | str | None
    val_tokens: int | str | None
    sequence_length: int | str | None
    pack: Literal["concat", "best-fit", "none"]
    position_ids: bool
    executor: Literal["local", "ray"]
    ray_address: str | None
    overwrite: bool


class ParityOptions(OutputOptions, total=False):
    """Of `train_parity`."""

    vocab_size: int | str | Sequence[int]
    stop_at_saving: float | str | None
    min_frequency: int | str
    min_piece_count: int | str
    max_token_bytes: int | str | None
    whole_characters: bool
    special_ids: Literal["last", "first"]
    bos_token: str | None
    eos_token: str | None
    pad_token: str | None
    added_special_tokens: str | Sequence[str]
    add_bos: bool
    reserve_tokens: int | str
    round_vocab_to: int | str
    export: str | Sequence[str] | None
    chat_template: str | None
    executor: Literal["local", "ray"]
    ray_address: str | None


class MergeOptions(ParityOptions, total=False):
    """What is learned from counts."""

    tie_break: Literal["lowest-ids", "greatest-bytes"]
    superwords_from: int | str | None
    superword_pattern: str
    superword_words: int | str
    superword_colon: bool
    weights: Sequence[float | str] | None


class CountOptions(OutputOptions, ReadingOptions, total=False):
    """Of `count`."""

    special_tokens: str | Sequence[str]
    special_tokens_as_text: bool
    pattern: str
    max_piece_bytes: int | str | None
    weights: Sequence[float | str] | None
    executor: Literal["local", "ray"]
    ray_address: str | None
    no_special_tokens: bool


class TrainOptions(MergeOptions, CountOptions, total=False):
    """Of `train` and of the other functions that count and merge."""
