"""Options of a vocabulary: what is learned from counts, and which files a tokenizer has."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.record import IN_GROUPS, Scope, Values

_, _vocabulary, _special, *_others, _output, _, _ = IN_GROUPS
_merging, _token = partial(_vocabulary, scope=Scope.MERGE), partial(_special, scope=Scope.SPECIAL)


# fmt: off
class TokenizerOptions(Values):
    """What can change in a tokenizer that exists."""

    bos_token: str | None = _token(None, "special token that starts a text; added if missing", "TEXT",
        read=read.parse_special_token)
    eos_token: str | None = _token(None, "special token that ends a text; default: the corpus's separator", "TEXT",
        read=read.parse_special_token)
    pad_token: str | None = _token(None, "special token for padding; added if missing", "TEXT",
        read=read.parse_special_token)
    added_special_tokens: tuple[str, ...] = _token((),
        "another special token, such as one of a chat template; repeatable", "TEXT", read=read.parse_special_tokens,
        flag="--special-token")
    add_bos: bool = _token(False, "start each encoded text with the --bos-token, here and in transformers",
        advanced=True)
    export: tuple[str, ...] | None = _output(None,
        "tokenizer files to write: hf, gpt2, tiktoken, gguf, token-bytes; default: all that can express the tokenizer",
        "LIST", read=read.parse_formats, examples=lambda: read.EXPORT_FORMATS)
    chat_template: str | None = _output(None,
        "chat template for the hf files: llama3, chatml, qwen, ..., tokenizer (its own), or a file", "NAME|FILE")


class VocabularyOptions(TokenizerOptions):
    """What is learned from counts."""

    vocab_size: tuple[int, ...] = _vocabulary((32_000,),
        "number of tokens: 256 bytes, merges, special tokens; of several, the first is the run's own",
        "N[,N...]", scope=Scope.VOCABULARY, read=read.parse_vocab_size, keyword=int | str | Sequence[int],
        examples=lambda: ("8000", "16000", "32000", "64000", "128000", "256000"))
    min_frequency: int = _merging(1, "merge no pair that occurs fewer times than this", "N",
        read=parse_whole_number(1, (1 << 63) - 1))
    min_pre_token_count: int = _merging(1, "ignore pre-tokens that occur fewer times than this", "N",
        read=parse_whole_number(1, (1 << 63) - 1), advanced=True)
    max_token_bytes: int | None = _merging(None, "most bytes of a token", "N", read=parse_whole_number(2, 1 << 30),
        advanced=True)
    whole_characters: bool = _merging(False, "never join part of a UTF-8 character with bytes of another",
        advanced=True)
    special_ids: Literal["last", "first"] = _special("last", "whether special tokens get the last or the first ids",
        scope=Scope.MERGE, advanced=True)
    reserve_tokens: int | str = _token(0,
        "unused special tokens at the end of the vocabulary; '100:<|lab_{}|>' names them", "N[:NAME]",
        read=read.parse_reserved, advanced=True)
    round_vocab_to: int = _token(1,
        "round the vocabulary size up to a multiple of N, with unused special tokens", "N",
        read=parse_whole_number(1, 1 << 20), advanced=True)


class FileOptions(Values):
    """How the files of a tokenizer that exists are written."""

    rank_pattern: str | None = _vocabulary(None,
        "pattern of an unknown tiktoken rank file; --special-token names its special tokens, in order of ids",
        "NAME|REGEX", read=read.parse_pattern, flag="--pattern", advanced=True)
    without_normalizer: bool = _output(False,
        "write GGUF although llama.cpp does not apply NFC; says how many texts get other ids", advanced=True)


class LearningOptions(VocabularyOptions):
    """What is learned from counts of one kind of pre-tokens."""

    tie_break: Literal["lowest-ids", "greatest-bytes"] = _merging("lowest-ids",
        "which of equally frequent pairs is merged first", advanced=True)
    stop_at_saving: float | None = _vocabulary(None,
        "stop growing when doubling the vocabulary saves less than this share of tokens, such as 1%; --vocab-size is "
        "then the most, by default 256000", "SHARE", scope=Scope.VOCABULARY, read=read.parse_share)


class SecondStageOptions(Values):
    """How text is split for tokens of several words."""

    superword_pattern: str = _vocabulary("superbpe",
        "what splits text for --superwords-from: superbpe, superbpe-digits, a regex", "NAME|REGEX",
        read=read.parse_superword_pattern, advanced=True)


class SuperwordOptions(Values):
    """What tokens of several words are."""

    superwords_from: int | str | None = _merging(None,
        "let tokens span several words from this size or share on; default: all tokens of --first-stage", "N|80%",
        read=read.parse_first_stage, advanced=True)
    superword_words: int | str = _merging(4, "most words that such a token spans; none: any number", "N|none",
        read=read.parse_superword_words, advanced=True)
    superword_colon: bool = _merging(False, "let such tokens hold a colon followed by a space", flag="superword_colon")
# fmt: on
