"""Options of a corpus: which text is read, how it is split, and what it weighs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from bpe_pipeline.base.units import parse_bytes, parse_whole_number
from bpe_pipeline.corpus.formats import input_formats
from bpe_pipeline.pattern.presets import PRESETS
from bpe_pipeline.pattern.token_rules import TokenRule
from bpe_pipeline.run import values as read
from bpe_pipeline.run.record import IN_GROUPS, Scope, Values, argument
from bpe_pipeline.storage import Location

READING_OPTIONS = (  # where the text is and which of it is read, not what its pre-tokens are
    *("input_format", "text_field"),
    *("sample", "seed", "max_document_chars"),
)
_input, _vocabulary, _special, *_others, _resource, _ = IN_GROUPS
_text, _split = partial(_input, scope=Scope.COUNT), partial(_special, scope=Scope.COUNT)
_weight = partial(_input, scope=Scope.MIXTURE)


# fmt: off
class FilesOptions(Values):
    """Which files are read."""

    inputs: tuple[str, ...] | None = argument("[INPUT ...]",
        "files, directories, globs and URIs; None: the sample corpus", None, scope=Scope.RUN, read=read.parse_paths)
    files_from: Location | None = _input(None,
        "read more INPUTs from this file, one per line or NUL-separated; - is standard input", "FILE", advanced=True,
        command_only=True)
    exclude: tuple[str, ...] | None = _input(None,
        "skip files and directories of INPUT with this name or path; repeatable", "GLOB", read=read.parse_globs)


class ReadingOptions(Values):
    """How files are read."""

    input_format: str = _text("auto",
        "format of all inputs: text, lines (each line is a document), jsonl, parquet, arrow or warc; auto: by content "
        "and name", "NAME", read=read.parse_input_format, examples=input_formats, advanced=True)
    chunk_size: int | None = _resource(None,
        "bytes of corpus that a worker counts at a time; default: by memory and cores", "SIZE", read=parse_bytes,
        advanced=True)
    fail_on_loss: bool = _input(False, "fail if input was skipped or altered", advanced=True)


class TextOptions(ReadingOptions):
    """What text files hold."""

    errors: Literal["replace", "strict", "skip"] = _text("replace",
        "replace invalid UTF-8, stop there (strict), or skip its document", advanced=True)
    text_field: str = _text("text",
        "field of JSON Lines, column of Parquet or Arrow with the text; a.b: b in a", "NAME",
        read=read.parse_text_field)
    sample: float | int | None = _text(None,
        "take this share of the documents, or about SIZE of the files' bytes, by a hash of content and --seed",
        "SHARE|SIZE", read=read.parse_sample, keyword=float | int | str | None, advanced=True)
    seed: int = _text(0, "seed of every random choice", "N", read=parse_whole_number(0, (1 << 63) - 1), advanced=True)
    max_document_chars: int | None = _text(None, "take only the first N characters (code points) of a document", "N",
        read=parse_whole_number(1, (1 << 62) - 1), advanced=True)


class PreTokenOptions(Values):
    """How text is split into documents and pre-tokens."""

    special_tokens: tuple[str, ...] = _split(("<|endoftext|>",), "special token, which separates documents", "TEXT",
        read=read.parse_special_tokens, flag="--special-token",
        without="drop the default special token; without any, each file is one document")
    special_tokens_as_text: bool = _split(False, "count special tokens in the corpus as ordinary text", advanced=True)
    pattern: str = _vocabulary("gpt2",
        f"how text is split into pre-tokens: {', '.join(PRESETS)} (not at all), each also with +digits1 and "
        "others, which split numbers; or a regular expression", "NAME|REGEX",
        scope=Scope.COUNT, read=read.parse_pattern, examples=lambda: PRESETS)
    normalize: Literal["none", "nfc"] = _vocabulary("none",
        "Unicode normalization of the text before it is split; Qwen has nfc", scope=Scope.COUNT, advanced=True)
    split_at: tuple[str, ...] = _split((), "text that separates documents, but becomes no token; repeatable", "TEXT",
        read=read.parse_special_tokens, advanced=True)
    added_tokens: Mapping[str, TokenRule] | None = _split(None,
        "token that is never split, but not special: it separates nothing, and decoding keeps it; repeatable "
        "(Python and configuration files take flags, too)", "TEXT", read=read.parse_added_tokens, flag="--added-token",
        advanced=True, keyword=str | Sequence[str | Mapping[str, Any]] | Mapping[str, Mapping[str, bool]] | None)


class MixtureOptions(Values):
    """Weights of inputs or runs that follow from their counted bytes."""

    temperature: str | None = _weight(None,
        "give INPUTs or RUNs shares in proportion to counted bytes to the power of 1/T; 1: as counted, inf: equal",
        "T", read=read.parse_temperature, keyword=int | float | str | None, advanced=True)
    shares: tuple[str, ...] | None = _weight(None,
        "share of the text of the INPUT or RUN of this name, such as sw=10%; others divide the rest; repeatable",
        "NAME=SHARE", read=read.parse_shares, flag="--share", keyword=Mapping[str, float | str] | None, advanced=True)


class WeightOptions(MixtureOptions):
    """Weights of inputs or runs."""

    weights: tuple[str, ...] | None = _weight(None,
        "how often to count an INPUT: 2, 0.5, 1/3; one for each INPUT, in order", "NUMBER",
        read=read.parse_weights, flag="--weight", keyword=Sequence[float | str] | None)
# fmt: on
