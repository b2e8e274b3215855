"""The story of `train_like`: what Hugging Face's BpeTrainer would learn, learned here, or a refusal.

The trainer and the pre-tokenizer are read, not run: each setting becomes an option of ours that means the same, and the
first one that has none is refused by name. Nothing is approximated, so merges, vocabulary and ids are those that
`tokenizers.Tokenizer.train` gives for the same files, or `train_from_iterator` for the same texts.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pipeline.base.errors import InputError, UsageError
from pipeline.commands.train import train
from pipeline.commands.train_iterator import train_from_iterator
from pipeline.merges.vocabulary import bytes_to_unicode
from pipeline.tokenizer.formats.fields import Field
from pipeline.tokenizer.formats.splits import read_pre_tokenizer
from pipeline.tokenizer.model import REGEX_STAGE
from pipeline.tokenizer.tokenizer import Tokenizer

_READ = ("vocab_size", "min_frequency", "special_tokens", "initial_alphabet", "limit_alphabet", "max_token_length")
_REFUSED = ("continuing_subword_prefix", "end_of_word_suffix")  # unless empty
_WITHOUT_EFFECT = ("show_progress", "progress_format")
_RULES = ("single_word", "lstrip", "rstrip")  # of a special token
_BYTES = 256


def train_like(
    trainer: Any,
    pre_tokenizer: Any,
    files: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    *,
    texts: Iterable[Any] | None = None,
    **options: Any,
) -> Tokenizer:
    """Train what `tokenizers` would train with this trainer and pre-tokenizer: the same merges, vocabulary and ids.

    trainer: a `tokenizers.trainers.BpeTrainer`. pre_tokenizer: of `tokenizers.pre_tokenizers`: a ByteLevel, or a
        Sequence of one Split or Digits and a ByteLevel; the tokenizer has no normalizer.
    files: as for `Tokenizer.train`: each line with its ending is a document, and special tokens in it are text.
    texts: in place of files, what `Tokenizer.train_from_iterator` takes: str, or lists of them.
    options: how it is done, as of `pipeline.train`: `output="runs/a"`, `workers`, `memory_limit`, `chunk_size`,
        `export` and so on. Invalid UTF-8 is an error as it is there, unless `errors` says otherwise, and so is all
        else that is not taken as it stands.

    Raises `UsageError` naming the setting that would give something else here; `ExportRefusedError` where a merge makes
    a special token's text, since tokenizers would give both one id; else as `train` does.
    """
    if (files is None) == (texts is None):
        raise UsageError("give either files or texts, as tokenizers' train or train_from_iterator take them")
    follow = options_like(trainer) | {"pattern": pattern_like(pre_tokenizer), "special_tokens_as_text": True}
    follow |= {} if files is None else {"input_format": "lines"}
    for name in (*follow, "tie_break", "min_piece_count", "pad_token", "max_piece_bytes", "input_format"):
        if name in options:
            raise UsageError(
                f"option {name!r} is not for train_like: the trainer and the pre-tokenizer say what is trained"
            )
    settled: dict[str, Any] = {"errors": "strict", "fail_on_loss": True} | options | follow
    if files is not None:
        return train(_different(files), **settled)
    return train_from_iterator(_flat(texts or ()), **settled)


def options_like(trainer: Any) -> dict[str, Any]:
    """Our options for what a BpeTrainer is set to; raises `UsageError` naming the setting that has none."""
    if type(trainer).__name__ != "BpeTrainer":
        raise UsageError(
            f"the trainer is a {type(trainer).__name__}: only tokenizers.trainers.BpeTrainer is reproduced"
        )
    for name in _REFUSED:
        if getattr(trainer, name, None):
            _refuse(trainer, name, "byte-level tokens have none; leave it out")
    _refuse_unknown(trainer)
    _check_alphabet(trainer)
    options: dict[str, Any] = {
        "vocab_size": trainer.vocab_size,
        "min_frequency": max(1, trainer.min_frequency),  # no pair that never occurs is merged there either
        "special_tokens": _special_tokens(trainer),
        "special_ids": "first",
    }
    longest = getattr(trainer, "max_token_length", None)
    if longest is not None:
        # There a longer token must stay below the limit, and the first merge of two characters is not asked.
        options["max_token_bytes"] = max(2, longest - 1)
    return options


def _refuse(trainer: Any, name: str, remedy: str) -> None:
    value = repr(getattr(trainer, name))
    shown = value if len(value) <= 60 else value[:57] + "..."
    raise UsageError(f"BpeTrainer's {name}={shown} is not reproduced exactly: {remedy}")


def _refuse_unknown(trainer: Any) -> None:
    """Refuse settings of releases of tokenizers that came after this one, unless they are off."""
    known = {*_READ, *_REFUSED, *_WITHOUT_EFFECT}
    for name in dir(trainer):
        if not name.startswith("_") and name not in known:
            value = getattr(trainer, name)
            if not callable(value) and value:
                _refuse(trainer, name, "it is not known here; leave it out")


def _check_alphabet(trainer: Any) -> None:
    missing = set(bytes_to_unicode().values()) ^ set(trainer.initial_alphabet)
    if missing:
        raise UsageError(
            "BpeTrainer's initial_alphabet is not the 256 bytes, so the vocabulary would lack those that the corpus "
            "lacks, or have others: give initial_alphabet=pre_tokenizers.ByteLevel.alphabet()"
        )
    if trainer.limit_alphabet is not None and trainer.limit_alphabet < _BYTES:
        _refuse(trainer, "limit_alphabet", "it would drop bytes from the texts; leave it out")


def _special_tokens(trainer: Any) -> list[str]:
    for token in trainer.special_tokens:
        for rule in _RULES:
            if getattr(token, rule):
                raise UsageError(
                    f"BpeTrainer's special token {token.content!r} has {rule}=True, which is not reproduced exactly: "
                    "leave it out, and set it in the tokenizer.json"
                )
    return list(dict.fromkeys(token.content for token in trainer.special_tokens))


def pattern_like(pre_tokenizer: Any) -> str:
    """The pattern that cuts as a pre-tokenizer of tokenizers does; raises `UsageError` where there is none."""
    try:
        state = json.loads(pre_tokenizer.__getstate__())
    except Exception as error:  # of whatever was given
        raise UsageError(
            f"the pre-tokenizer is a {type(pre_tokenizer).__name__} that cannot be read ({error}): give one of "
            "tokenizers.pre_tokenizers, such as ByteLevel(add_prefix_space=False)"
        ) from None
    try:
        if not isinstance(state, dict) or state.get("type") == REGEX_STAGE:
            raise InputError("it is none of tokenizers")
        place = Path("the pre-tokenizer")
        pattern, space_in_front = read_pre_tokenizer(Field(state, place), Field(None, place))
    except InputError as error:
        raise UsageError(str(error)) from None
    if space_in_front:
        raise UsageError(
            "the pre-tokenizer's add_prefix_space=True is not reproduced in training: give "
            "ByteLevel(add_prefix_space=False)"
        )
    if pattern.tables is None and pattern.name is None and "\n" in pattern.expression:
        raise UsageError(
            f"the pre-tokenizer is not reproduced in training: {pattern.refusal}; give one Split and a ByteLevel"
        )
    return pattern.name or pattern.expression


def _different(files: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    """The paths of files, none of which is there twice: tokenizers would read it twice, and we once."""
    listed = [os.fspath(file) for file in ([files] if isinstance(files, str | PathLike) else files)]
    seen: set[str] = set()
    for file in listed:
        real = os.path.realpath(file)
        if real in seen:
            raise UsageError(f"{file} is given twice, which tokenizers would count twice; name it once")
        seen.add(real)
    return listed


def _flat(texts: Iterable[Any]) -> Iterator[Any]:
    """The texts, also of those that come in lists."""
    for item in texts:
        if isinstance(item, list | tuple):
            yield from item
        else:
            yield item
