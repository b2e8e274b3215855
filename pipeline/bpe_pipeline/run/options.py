"""The options: one record each, of which flags, configuration files, Python's keywords, help and fingerprints are made.

A record is the line of a field. A command takes the options of its value, and nothing else can be said. What depends on
one is its stage: "count" and "merge" options are part of what a run *is*, "special" options of one tokenizer of it,
"mix" options of its counts or of shards, "mixture" options of weights that counted bytes make, "encode" options of what
shards are, "run" options only of how it runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal, dataclass_transform

from bpe_pipeline.base.units import parse_bytes, parse_whole_number
from bpe_pipeline.corpus.formats import input_formats
from bpe_pipeline.pattern.presets import PRESETS
from bpe_pipeline.pattern.token_rules import TokenRule
from bpe_pipeline.run import values as read
from bpe_pipeline.run.ids import Reserved, Roles, SpecialTokens
from bpe_pipeline.run.mixture import parse_shares, parse_temperature
from bpe_pipeline.run.parts import AUTO, parse_part
from bpe_pipeline.run.record import CALL, IN_GROUPS, Record, argument, as_in, records_of
from bpe_pipeline.run.stored import plain
from bpe_pipeline.storage import Location, parse_location

READING_OPTIONS = (  # where the text is and which of it is read, not what its pre-tokens are
    *("input_format", "text_field"),
    *("sample", "seed", "max_document_chars"),
)
_input, _vocabulary, _special, _shards, _order, _packing, _, _output, _resource, _other = IN_GROUPS


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Values:
    """Options that were given together, or have their defaults; sizes in bytes, times in seconds.

    Every subclass is a frozen dataclass with keywords. The methods that all of them have are written once: to generate
    them for each takes longer than the command's whole start.
    """

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **values: Any) -> None:
        for one in fields(self):  # type: ignore[arg-type]  # of a subclass
            vars(self)[one.name] = values.pop(one.name) if one.name in values else one.default
        if values or any(value is MISSING for value in vars(self).values()):
            raise TypeError(f"{type(self).__name__} has other options: {self}, {values}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # some options are mappings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def of_stage(self, *stages: str) -> dict[str, Any]:
        """Return the options of these stages as plain JSON values; of those that cannot be given, the defaults."""
        found = {name: getattr(self, name, one.default) for name, one in RECORDS.items() if one.stage in stages}
        return {name: plain(value) for name, value in found.items()}


# fmt: off
class WorkOptions(Values):
    """How any work is done."""

    workers: int | None = _resource("run", None, parse_whole_number(1, 4096),
        "number of worker processes; default: one per physical core (with Ray: all cores of the cluster)", "N")
    memory_limit: int | None = _resource("run", None, parse_bytes,
        "memory that all processes may use together (with Ray: on each node); default: 80 % of what is free", "SIZE")
    quiet: bool = _other("run", False, read.parse_flag, "print only errors and the final result", short="-q",
        command_only=True)
    log_json: bool = _other("run", False, read.parse_flag,
        "print progress and the log as one JSON object per line", advanced=True, command_only=True)


class RayOptions(Values):
    """Where workers run."""

    ray: str | None = _resource("run", None, read.parse_ray,
        "run on a Ray cluster: [ray://]HOST:PORT, or auto, which Ray finds", "[ADDRESS]", keyword=bool | str | None,
        alone="auto", examples=lambda: ("auto",))


class ClusterOptions(RayOptions, WorkOptions):
    """How work is done that a cluster can do."""


class PartOptions(Values):
    """How the work of one directory is shared by processes."""

    part: str | None = _resource("run", None, parse_part,
        "do the share of one of N processes; auto: by an array of Slurm or SGE; a command without it does the rest",
        "I/N", advanced=True, examples=lambda: (AUTO,))


class OverwriteOptions(WorkOptions):
    """What becomes of an earlier result."""

    overwrite: bool = _other("run", False, read.parse_flag, "start again where the output holds something else")


class OutputOptions(OverwriteOptions):
    """Where the result goes."""

    output: Location | None = _output("run", None, read.parse_output,
        "the run directory to write or resume, a path or a URI; default: a new one under runs/", "DIR", short="-o")


class CorpusOptions(WorkOptions):
    """Which files are read, and how."""

    inputs: tuple[str, ...] | None = argument("[INPUT ...]", read.parse_paths,
        "files, directories, globs and URIs; None: the sample corpus",
        None, stage="run")
    files_from: Location | None = _input("run", None, parse_location,
        "read more INPUTs from this file, one per line or NUL-separated; - is standard input", "FILE", advanced=True,
        command_only=True)
    exclude: tuple[str, ...] | None = _input("run", None, read.parse_globs,
        "skip files and directories of INPUT with this name or path; repeatable", "GLOB")
    input_format: str = _input("count", "auto", read.parse_input_format,
        "format of all inputs: text, lines (each line is a document), jsonl, parquet, arrow or warc; auto: by content "
        "and name", "NAME", examples=input_formats, advanced=True)
    chunk_size: int | None = _resource("run", None, parse_bytes,
        "bytes of corpus that a worker counts at a time; default: by memory and cores", "SIZE", advanced=True)
    fail_on_loss: bool = _input("run", False, read.parse_flag, "fail if input was skipped or altered", advanced=True)


class TextOptions(CorpusOptions):
    """What text files hold."""

    errors: str = _input("count", "replace", read.parse_one_of("replace", "strict", "skip"),
        "replace invalid UTF-8, stop there (strict), or skip its document", advanced=True)
    text_field: str = _input("count", "text", read.parse_text_field,
        "field of JSON Lines, column of Parquet or Arrow with the text; a.b: b in a", "NAME")
    sample: float | int | None = _input("count", None, read.parse_sample,
        "take this share of the documents, or about SIZE of the files' bytes, by a hash of content and --seed",
        "SHARE|SIZE", keyword=float | int | str | None, advanced=True)
    seed: int = _input("count", 0, parse_whole_number(0, (1 << 63) - 1), "seed of every random choice", "N",
        advanced=True)
    max_document_chars: int | None = _input("count", None, parse_whole_number(1, (1 << 62) - 1),
        "take only the first N characters (code points) of a document", "N", advanced=True)


class PreTokenOptions(Values):
    """How text is split into pre-tokens."""

    special_tokens: tuple[str, ...] = _special("count", ("<|endoftext|>",), read.parse_special_tokens,
        "special token, which separates documents", "TEXT",
        flag="--special-token", without="drop the default special token; without any, each file is one document")
    special_tokens_as_text: bool = _special("count", False, read.parse_flag,
        "count special tokens in the corpus as ordinary text", advanced=True)
    pattern: str = _vocabulary("count", "gpt2", read.parse_pattern,
        f"how text is split into pre-tokens: {', '.join(PRESETS)} (not at all), each also with +digits1 and "
        "others, which split numbers; or a regular expression", "NAME|REGEX",
        examples=lambda: PRESETS)
    normalize: str = _vocabulary("count", "none", read.parse_one_of("none", "nfc"),
        "Unicode normalization of the text before it is split; Qwen has nfc", advanced=True)


class MixtureOptions(Values):
    """Weights of inputs or runs that follow from their counted bytes."""

    temperature: str | None = _input("mixture", None, parse_temperature,
        "give INPUTs or RUNs shares in proportion to counted bytes to the power of 1/T; 1: as counted, inf: equal",
        "T", keyword=int | float | str | None, advanced=True)
    shares: tuple[str, ...] | None = _input("mixture", None, parse_shares,
        "share of the text of the INPUT or RUN of this name, such as sw=10%; others divide the rest; repeatable",
        "NAME=SHARE", flag="--share", keyword=Mapping[str, float | str] | None, advanced=True)


class CountOptions(MixtureOptions, ClusterOptions, OutputOptions, PreTokenOptions, TextOptions):
    """Of `count`."""

    weights: tuple[str, ...] | None = _input("mix", None, read.parse_weights,
        "how often to count an INPUT: 2, 0.5, 1/3; one for each INPUT, in order", "NUMBER",
        flag="--weight", keyword=Sequence[float | str] | None)
    split_at: tuple[str, ...] = _special("count", (), read.parse_special_tokens,
        "text that separates documents, but becomes no token; repeatable", "TEXT", advanced=True)
    dry_run: bool = _output("run", False, read.parse_flag, "print what would be done, and what it takes, and stop",
        command_only=True)
    added_tokens: Mapping[str, TokenRule] | None = _special("count", None, read.parse_added_tokens,
        "token that is never split, but not special: it separates nothing, and decoding keeps it; repeatable "
        "(Python and configuration files take flags, too)", "TEXT", flag="--added-token", advanced=True,
        keyword=str | Sequence[str | Mapping[str, Any]] | Mapping[str, Mapping[str, bool]] | None)


class TokenizerOptions(Values):
    """What can change in a tokenizer that exists."""

    bos_token: str | None = _special("special", None, read.parse_special_token,
        "special token that starts a text; added if missing", "TEXT")
    eos_token: str | None = _special("special", None, read.parse_special_token,
        "special token that ends a text; default: the corpus's separator", "TEXT")
    pad_token: str | None = _special("special", None, read.parse_special_token,
        "special token for padding; added if missing", "TEXT")
    added_special_tokens: tuple[str, ...] = _special("special", (), read.parse_special_tokens,
        "another special token, such as one of a chat template; repeatable", "TEXT", flag="--special-token")
    add_bos: bool = _special("special", False, read.parse_flag,
        "start each encoded text with the --bos-token, here and in transformers", advanced=True)
    export: tuple[str, ...] | None = _output("run", None, read.parse_formats,
        "tokenizer files to write: hf, gpt2, tiktoken, gguf, token-bytes; default: all that can express the tokenizer",
        "LIST", examples=lambda: read.EXPORT_FORMATS)
    chat_template: str | None = _output("run", None, read.parse_text,
        "chat template for the hf files: llama3, chatml, qwen, ..., tokenizer (its own), or a file",
        "NAME|FILE")


class ExportOptions(TokenizerOptions):
    """Of `export`."""

    output: Location | None = as_in(OutputOptions, "output",
        help="the directory of the files, a path or a URI; default: where the tokenizer is")
    overwrite: bool = as_in(OverwriteOptions, "overwrite", help="replace files of the output that have other content")
    quiet: bool = as_in(WorkOptions, "quiet")
    rank_pattern: str | None = _vocabulary("run", None, read.parse_pattern,
        "pattern of an unknown tiktoken rank file; --special-token names its special tokens, in order of ids",
        "NAME|REGEX", flag="--pattern", advanced=True)
    without_normalizer: bool = _output("run", False, read.parse_flag,
        "write GGUF although llama.cpp does not apply NFC; says how many texts get other ids", advanced=True)


class VocabularyOptions(TokenizerOptions):
    """What is learned from counts."""

    vocab_size: tuple[int, ...] = _vocabulary("vocabulary", (32_000,), read.parse_vocab_size,
        "number of tokens: 256 bytes, merges, special tokens; of several, the first is the run's own",
        "N[,N...]", keyword=int | str | Sequence[int],
        examples=lambda: ("8000", "16000", "32000", "64000", "128000", "256000"))
    min_frequency: int = _vocabulary("merge", 1, parse_whole_number(1, (1 << 63) - 1),
        "merge no pair that occurs fewer times than this", "N")
    min_pre_token_count: int = _vocabulary("merge", 1, parse_whole_number(1, (1 << 63) - 1),
        "ignore pre-tokens that occur fewer times than this", "N", advanced=True)
    max_token_bytes: int | None = _vocabulary("merge", None, parse_whole_number(2, 1 << 30),
        "most bytes of a token", "N", advanced=True)
    whole_characters: bool = _vocabulary("merge", False, read.parse_flag,
        "never join part of a UTF-8 character with bytes of another", advanced=True)
    special_ids: str = _special("merge", "last", read.parse_one_of("last", "first"),
        "whether special tokens get the last or the first ids", advanced=True)
    reserve_tokens: int | str = _special("special", 0, read.parse_reserved,
        "unused special tokens at the end of the vocabulary; '100:<|lab_{}|>' names them",
        "N[:NAME]", advanced=True)
    round_vocab_to: int = _special("special", 1, parse_whole_number(1, 1 << 20),
        "round the vocabulary size up to a multiple of N, with unused special tokens", "N", advanced=True)


class MergeOptions(MixtureOptions, ClusterOptions, OverwriteOptions, VocabularyOptions):
    """Of `merge`."""

    output: Location | None = as_in(OutputOptions, "output", help="make this run of the counts; default: RUN itself")
    weights: tuple[str, ...] | None = as_in(CountOptions, "weights")
    tie_break: str = _vocabulary("merge", "lowest-ids", read.parse_one_of("lowest-ids", "greatest-bytes"),
        "which of equally frequent pairs is merged first", advanced=True)
    stop_at_saving: float | None = _vocabulary("vocabulary", None, read.parse_share,
        "stop growing when doubling the vocabulary saves less than this share of tokens, such as 1%; --vocab-size is "
        "then the most, by default 256000", "SHARE")
    superwords_from: int | str | None = _vocabulary("merge", None, read.parse_first_stage,
        "let tokens span several words from this size or share on; default: all tokens of --first-stage", "N|80%",
        advanced=True)
    superword_words: int | str = _vocabulary("merge", 4, read.parse_superword_words,
        "most words that such a token spans; none: any number", "N|none", advanced=True)
    superword_colon: bool = _vocabulary("merge", False, read.parse_flag,
        "let such tokens hold a colon followed by a space", flag="superword_colon")


class TrainOptions(CountOptions, MergeOptions):
    """Of `train`: all that a tokenizer of a run is made by."""

    superwords_from: int | str | None = as_in(MergeOptions, "superwords_from",
        help="let tokens span several words from this size or share on; reads the corpus twice")
    superword_pattern: str = _vocabulary("run", "superbpe", read.parse_superword_pattern,
        "what splits text for --superwords-from: superbpe, superbpe-digits, a regex", "NAME|REGEX", advanced=True)

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
        return self.of_stage("merge") | {"superwords_from": self.first_size}

    @property
    def most_words(self) -> int:
        """Words in a token of the second stage; 0: any number."""
        return 0 if isinstance(self.superword_words, str) else self.superword_words


class EncodeFilesOptions(TextOptions):
    """What text becomes which ids."""

    documents: str = _shards("encode", "separator", read.parse_one_of("separator", "offsets"),
        "mark the end of a document by the separator after it, or by offsets in a file", "NAME", advanced=True)
    separator: str | None = _shards("encode", None, read.parse_text,
        "special token after each document; default: the separator of the training corpus", "TEXT", advanced=True)
    special_tokens_in_text: str = _shards("encode", "tokens", read.parse_one_of(*read.SPECIAL_TOKENS_IN_TEXT),
        "what special tokens in the text become; the separator between documents stays one",
        "tokens|text|refuse", advanced=True)


class RowOptions(Values):
    """How ids are stored, and which of them for validation."""

    val_fraction: float | None = _order("encode", None, read.parse_share,
        "hold out this share of documents or rows for validation, by a hash of their content", "SHARE")
    seed: int = as_in(TextOptions, "seed", group="Order and split", advanced=False)
    shard_format: str = _shards("encode", "npy", read.parse_shard_format,
        "npy, bin (raw ids), parquet (one row per document), arrow (as save_to_disk), megatron or mds",
        "NAME", examples=read.shard_formats)
    shard_size: int = _shards("encode", 100_000_000, parse_whole_number(1, (1 << 31) - 1),
        "most tokens in a shard", "N")
    sequence_length: int | None = _packing("encode", None, parse_whole_number(1, 1 << 26),
        "store documents in rows of N tokens, as --pack says", "N")
    pack: str = _packing("encode", "concat", read.parse_one_of(*read.PACKS),
        "how documents fill rows: concat (end to end), best-fit (whole where they fit), none (one each)",
        "NAME", keyword=Literal["concat", "best-fit", "none"])


class ShardsOptions(PartOptions, OutputOptions, CorpusOptions):
    """Which files become shards, and where these go."""


class EncodeOptions(ClusterOptions, ShardsOptions, EncodeFilesOptions, RowOptions):
    """Of `encode` with an output."""

    output: Location | None = as_in(OutputOptions, "output",
        help="the directory of the shards; a path or a URI")
    single: bool = _shards("encode", False, read.parse_flag,
        "one file for training, and one for validation: train.bin and val.bin with --shard-format bin")
    shuffle: bool = _order("encode", False, read.parse_shuffle, "put all documents in one random order")
    seed: int = as_in(RowOptions, "seed")
    position_ids: bool = _packing("encode", False, read.parse_flag,
        "add columns position_ids and document_ids (best-fit has them in any case)", advanced=True)
    add_bos: bool = as_in(VocabularyOptions, "add_bos")
# fmt: on


_KINDS = (CountOptions, TrainOptions, EncodeOptions, ExportOptions)  # which have all of the package's own
RECORDS: dict[str, Record] = {name: record for kind in _KINDS for name, record in records_of(kind).items()}
FLAGS = {record.spelling: name for name, record in reversed(RECORDS.items())}  # of two options, the first


def add_records(kind: type[Values]) -> None:
    """Add the options of an extension's value to those that configuration files may have."""
    new = {name: record for name, record in records_of(kind).items() if name not in RECORDS and record.stage != CALL}
    RECORDS.update(new)


def flag_of(name: str) -> str:
    """Return the command's spelling of an option: `special_tokens` -> `--special-token`."""
    return RECORDS[name].spelling if name in RECORDS else "--" + name.replace("_", "-")


def _default(name: str) -> Any:
    """Return the default of an option as JSON holds it."""
    value = RECORDS[name].default
    return list(value) if isinstance(value, tuple) else value


def without_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults, as they are stored and fingerprinted.

    So a run that was made before an option existed is one with that option's default.
    """
    return {name: value for name, value in options.items() if name not in RECORDS or value != _default(name)}


def with_defaults(options: Mapping[str, Any], *stages: str) -> dict[str, Any]:
    """Return stored options with the defaults of the others: of these stages, or of all."""
    names = [name for name, record in RECORDS.items() if not stages or record.stage in stages]
    return {**{name: _default(name) for name in names}, **options}
