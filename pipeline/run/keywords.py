"""The types of the public functions' keywords, for editors and type checkers: of the values of options.

`python tests/support/keyword_types.py` writes this file. Sizes are numbers of bytes or texts such as "64MiB".
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict

from pipeline.storage import Remote

AnyPath = str | PathLike[str] | Remote


class WorkKeywords(TypedDict, total=False):
    """How any work is done."""

    workers: int | str | None
    memory_limit: int | str | None


class RayKeywords(TypedDict, total=False):
    """Where workers run."""

    ray: bool | str | None


class ClusterKeywords(RayKeywords, WorkKeywords, total=False):
    """How work is done that a cluster can do."""


class OverwriteKeywords(WorkKeywords, total=False):
    """What becomes of an earlier result."""

    overwrite: bool


class OutputKeywords(OverwriteKeywords, total=False):
    """Where the result goes."""

    output: AnyPath | None


class CorpusKeywords(WorkKeywords, total=False):
    """Which files are read, and how."""

    exclude: str | Sequence[str] | None
    input_format: Literal["auto", "text", "lines", "jsonl", "parquet", "arrow"]
    compression: Literal["auto", "none", "gzip", "zstd", "bzip2", "xz"]
    pattern_timeout: int | str
    chunk_size: int | str | None
    fail_on_loss: bool


class TextKeywords(CorpusKeywords, total=False):
    """What text files hold."""

    errors: Literal["replace", "strict", "skip"]
    text_field: str


class PieceKeywords(TypedDict, total=False):
    """Where text is cut."""

    special_tokens: str | Sequence[str]
    special_tokens_as_text: bool
    pattern: str
    normalize: Literal["none", "nfc"]
    max_piece_bytes: int | str | None
    pattern_timeout: int | str
    no_special_tokens: bool


class ImportKeywords(OutputKeywords, PieceKeywords, total=False):
    """Of `import-counts`: what cut the pieces."""


class CountKeywords(ClusterKeywords, ImportKeywords, TextKeywords, total=False):
    """Of `count`."""

    weights: Sequence[float | str] | None
    split_at: str | Sequence[str]


class TokenizerKeywords(TypedDict, total=False):
    """What can change in a tokenizer that exists."""

    bos_token: str | None
    eos_token: str | None
    pad_token: str | None
    added_special_tokens: str | Sequence[str]
    add_bos: bool
    export: str | Sequence[str] | None
    chat_template: str | None


class ExportKeywords(TokenizerKeywords, total=False):
    """Of `export`."""

    output: AnyPath | None
    overwrite: bool
    rank_pattern: str | None
    without_normalizer: bool


class VocabularyKeywords(TokenizerKeywords, total=False):
    """What is learned from counts."""

    vocab_size: int | str | Sequence[int]
    min_frequency: int | str
    min_piece_count: int | str
    max_token_bytes: int | str | None
    whole_characters: bool
    special_ids: Literal["last", "first"]
    reserve_tokens: int | str
    round_vocab_to: int | str


class MergeKeywords(ClusterKeywords, OverwriteKeywords, VocabularyKeywords, total=False):
    """Of `merge`."""

    output: AnyPath | None
    weights: Sequence[float | str] | None
    tie_break: Literal["lowest-ids", "greatest-bytes"]
    stop_at_saving: float | str | None
    superwords_from: int | str | None
    superword_pattern: str
    superword_words: int | str
    superword_colon: bool


class TrainKeywords(CountKeywords, MergeKeywords, total=False):
    """Of `train`: all that a tokenizer of a run is made by."""


class SweepKeywords(OutputKeywords, VocabularyKeywords, total=False):
    """Of `sweep`."""

    tie_break: Literal["lowest-ids", "greatest-bytes"]


class ParityKeywords(ClusterKeywords, OutputKeywords, VocabularyKeywords, total=False):
    """Of `parity`: how its text is read and cut, where it is not counted yet, and how it is merged."""

    pattern: str
    normalize: Literal["none", "nfc"]
    text_field: str
    stop_at_saving: float | str | None


class ExtendKeywords(OutputKeywords, total=False):
    """Of `extend`."""

    min_frequency: int | str | None
    whole_characters: bool
    added_special_tokens: str | Sequence[str]


class EncodeFilesKeywords(TextKeywords, total=False):
    """Of `encode_files`."""

    documents: Literal["separator", "offsets"]
    separator: str | None
    special_tokens_in_text: Literal["tokens", "text", "refuse"]


class RowKeywords(TypedDict, total=False):
    """How ids are stored, and which of them for validation."""

    val_fraction: float | str | None
    val_tokens: int | str | None
    seed: int | str
    shard_format: str
    shard_size: int | str
    sequence_length: int | str | None
    pack: Literal["concat", "best-fit", "none"]


class EncodeKeywords(ClusterKeywords, OverwriteKeywords, EncodeFilesKeywords, RowKeywords, total=False):
    """Of `encode` with an output."""

    weights: Sequence[float | str] | None
    shuffle: bool
    repeat: int | str
    position_ids: bool
    add_bos: bool
