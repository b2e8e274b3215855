"""The options: by subject in the modules of this folder, here as commands and their parts take them, and as a table.

Flags, configuration files, Python's keywords, help and fingerprints are made of their records. A command takes the
options of its value, and nothing else can be said.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from bpe_pipeline.run.ids import Reserved, Roles, SpecialTokens
from bpe_pipeline.run.options.corpus import (
    READING_OPTIONS,
    FilesOptions,
    MixtureOptions,
    PreTokenOptions,
    ReadingOptions,
    TextOptions,
    WeightOptions,
)
from bpe_pipeline.run.options.shards import ArrangementOptions, IdsOptions, StorageOptions
from bpe_pipeline.run.options.vocabulary import (
    FileOptions,
    LearningOptions,
    SecondStageOptions,
    SuperwordOptions,
    TokenizerOptions,
    VocabularyOptions,
)
from bpe_pipeline.run.options.work import (
    ClusterOptions,
    OutputOptions,
    OverwriteOptions,
    PartOptions,
    PlanOptions,
    RayOptions,
    WorkOptions,
)
from bpe_pipeline.run.record import Record, Scope, Values, but
from bpe_pipeline.run.stored import plain
from bpe_pipeline.storage import Location

__all__ = [
    "READING_OPTIONS",
    "ClusterOptions",
    "CorpusOptions",
    "CountOptions",
    "EncodeFilesOptions",
    "EncodeOptions",
    "ExportOptions",
    "LearningOptions",
    "MergeOptions",
    "MixtureOptions",
    "OutputOptions",
    "OverwriteOptions",
    "PartOptions",
    "PreTokenOptions",
    "RayOptions",
    "RowOptions",
    "ShardsOptions",
    "TextOptions",
    "TokenizerOptions",
    "TrainOptions",
    "Values",
    "VocabularyOptions",
    "WeightOptions",
    "WorkOptions",
]


class CorpusOptions(ReadingOptions, FilesOptions, WorkOptions):
    """Which files are read, and how."""


class CountOptions(
    PlanOptions, WeightOptions, ClusterOptions, OutputOptions, PreTokenOptions, TextOptions, CorpusOptions
):
    """How a corpus is counted."""


class ExportOptions(FileOptions, TokenizerOptions):
    """How the files of a tokenizer that exists are written."""

    output: Location | None = but(
        OutputOptions.output, help="the directory of the files, a path or a URI; default: where the tokenizer is"
    )
    overwrite: bool = but(OverwriteOptions.overwrite, help="replace files of the output that have other content")
    quiet: bool = WorkOptions.quiet


class MergeOptions(SuperwordOptions, WeightOptions, ClusterOptions, OverwriteOptions, LearningOptions):
    """How the counts of a run become merges and tokenizers."""


class TrainOptions(SecondStageOptions, CountOptions, MergeOptions):
    """All that a tokenizer of a run is made by."""

    superwords_from: int | str | None = but(
        SuperwordOptions.superwords_from,
        help="let tokens span several words from this size or share on; reads the corpus twice",
    )

    @property
    def special(self) -> SpecialTokens:
        """The special tokens of the vocabulary that is asked for."""
        roles = Roles(self.bos_token, self.eos_token, self.pad_token)
        roles = replace(roles, separator=roles.separator_among(self.special_tokens))
        added = self.added_special_tokens
        rules = self.added_tokens or {}
        count, _, name = str(self.reserve_tokens).partition(":")
        reserved = Reserved(int(count), self.round_vocab_to, name or Reserved.name)
        return SpecialTokens(self.special_tokens, roles, reserved, added, rules)

    @property
    def first_size(self) -> int | None:
        """The size without special tokens from which on merges may cross spaces; None: none does."""
        if not isinstance(self.superwords_from, str):
            return self.superwords_from
        return int(Fraction(self.superwords_from.removesuffix("%")) * self.vocab_size[0] / 100)

    @property
    def merging(self) -> dict[str, Any]:
        """The options of merging as a manifest stores them."""
        return self.in_scope(Scope.MERGE) | {"superwords_from": self.first_size}

    @property
    def most_words(self) -> int:
        """Words in a token of the second stage; 0: any number."""
        return 0 if isinstance(self.superword_words, str) else self.superword_words


class EncodeFilesOptions(IdsOptions, TextOptions, CorpusOptions):
    """Which text becomes which ids."""


class RowOptions(StorageOptions):
    """How ids are stored, and which of them for validation."""

    seed: int = but(TextOptions.seed, group="Order and split", advanced=False)


class ShardsOptions(PartOptions, OutputOptions, CorpusOptions):
    """Which files become shards, and where these go."""


class EncodeOptions(ArrangementOptions, ClusterOptions, ShardsOptions, EncodeFilesOptions, RowOptions):
    """How a corpus becomes shards."""

    output: Location | None = but(OutputOptions.output, help="the directory of the shards; a path or a URI")
    seed: int = RowOptions.seed
    add_bos: bool = TokenizerOptions.add_bos


_KINDS = (CountOptions, TrainOptions, EncodeOptions, ExportOptions)  # which have all of the package's own
RECORDS: dict[str, Record] = {name: record for kind in _KINDS for name, record in kind.records.items()}
FLAGS = {record.spelling: name for name, record in reversed(RECORDS.items())}  # of two options, the first


def add_records(kind: type[Values]) -> None:
    """Add the options of an extension's value to those that configuration files may have."""
    for name, record in kind.records.items():
        if record.scope is not Scope.CALL:
            RECORDS.setdefault(name, record)


def flag_of(name: str) -> str:
    """Return the command's spelling of an option: `special_tokens` -> `--special-token`."""
    return RECORDS[name].spelling if name in RECORDS else "--" + name.replace("_", "-")


def without_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults, as they are stored and fingerprinted.

    So a run that was made before an option existed is one with that option's default.
    """
    return {name: one for name, one in options.items() if name not in RECORDS or one != plain(RECORDS[name].default)}


def with_defaults(options: Mapping[str, Any], *scopes: Scope) -> dict[str, Any]:
    """Return stored options with the defaults of the others: of these scopes, or of all."""
    records = RECORDS.items()
    defaults = {name: plain(record.default) for name, record in records if not scopes or record.scope in scopes}
    return {**defaults, **options}
