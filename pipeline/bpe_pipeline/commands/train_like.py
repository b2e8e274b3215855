"""What `train_like` takes from the BpeTrainer and the pre-tokenizer of Hugging Face: options that learn the same.

The trainer and the pre-tokenizer are read, not run; the first setting that no option reproduces is refused by name.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.merges.vocabulary import bytes_to_unicode
from bpe_pipeline.pattern.presets import NAME
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.record import Scope
from bpe_pipeline.tokenizer.formats.fields import Field
from bpe_pipeline.tokenizer.formats.pre_tokenizer import read_pre_tokenizer
from bpe_pipeline.tokenizer.formats.tokenizer_json import REGEX_STAGE

_READ = ("vocab_size", "min_frequency", "special_tokens", "initial_alphabet", "limit_alphabet", "max_token_length")
_REFUSED = ("continuing_subword_prefix", "end_of_word_suffix")  # unless empty
_WITHOUT_EFFECT = ("show_progress", "progress_format")
_RULES = ("single_word", "lstrip", "rstrip")  # of a special token
_BYTES = 256


def like(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `train_like` with those that the trainer and the pre-tokenizer decide."""
    files, texts = given.get("files"), given.get("texts")
    if (files is None) == (texts is None):
        raise UsageError("give either files or texts, as tokenizers' train or train_from_iterator take them")
    follow = _options_like(given["trainer"])
    follow |= {"pattern": _pattern_like(given["pre_tokenizer"]), "special_tokens_as_text": True}
    follow |= {} if files is None else {"input_format": "lines", "files": _different(files)}
    roles = TrainOptions().in_scope(Scope.SPECIAL)
    for name in (*follow, "tie_break", "min_pre_token_count", *roles, "input_format"):
        if name in given and name != "files":
            raise UsageError(
                f"option {name!r} is not for train_like: the trainer and the pre-tokenizer say what is trained"
            )
    if files is None and given.get("ray"):
        raise UsageError("option 'ray' is for files: leave it out")
    return {"errors": "strict", "fail_on_loss": True, **given, **follow}


def _options_like(trainer: Any) -> dict[str, Any]:
    """Return the options that mean what a BpeTrainer is set to; UsageError names a setting that has none."""
    for reason in _not_reproduced(trainer):
        raise UsageError(reason)
    longest = getattr(trainer, "max_token_length", None)
    return {
        "vocab_size": trainer.vocab_size,
        "min_frequency": max(1, trainer.min_frequency),  # tokenizers merges no pair that never occurs either
        "special_tokens": list(dict.fromkeys(token.content for token in trainer.special_tokens)),
        "special_ids": "first",
        # In tokenizers a longer token must stay below the limit; a first merge of two characters is always allowed.
        **({} if longest is None else {"max_token_bytes": max(2, longest - 1)}),
    }


def _not_reproduced(trainer: Any) -> Iterator[str]:
    """Yield what of a trainer cannot be reproduced exactly, each with its remedy."""
    if type(trainer).__name__ != "BpeTrainer":
        yield f"the trainer is a {type(trainer).__name__}: only tokenizers.trainers.BpeTrainer is reproduced"
    remedies = dict.fromkeys(_REFUSED, "byte-level tokens have none; leave it out")
    for name in dir(trainer):  # settings of later releases of tokenizers, unless they are off
        if not name.startswith("_") and name not in {*_READ, *_REFUSED, *_WITHOUT_EFFECT}:
            remedies[name] = "it is not known here; leave it out"
    for name, remedy in remedies.items():
        value = getattr(trainer, name, None)
        if value and not callable(value):
            yield _setting(name, value, remedy)
    if set(bytes_to_unicode().values()) != set(trainer.initial_alphabet):
        yield (
            "BpeTrainer's initial_alphabet is not the 256 bytes, so the vocabulary would lack those that the corpus "
            "lacks, or have others: give initial_alphabet=pre_tokenizers.ByteLevel.alphabet()"
        )
    if trainer.limit_alphabet is not None and trainer.limit_alphabet < _BYTES:
        yield _setting("limit_alphabet", trainer.limit_alphabet, "it would drop bytes from the texts; leave it out")
    for token in trainer.special_tokens:
        for rule in _RULES:
            if getattr(token, rule):
                yield (
                    f"BpeTrainer's special token {token.content!r} has {rule}=True, which is not reproduced exactly: "
                    "leave it out, and set it in the tokenizer.json"
                )


def _setting(name: str, value: object, remedy: str) -> str:
    text = repr(value)
    return f"BpeTrainer's {name}={text if len(text) <= 60 else text[:57] + '...'} is not reproduced exactly: {remedy}"


def _pattern_like(pre_tokenizer: Any) -> str:
    """Return the pattern that cuts as a pre-tokenizer of tokenizers does; UsageError where there is none."""
    try:
        state = json.loads(pre_tokenizer.__getstate__())
    except Exception as error:  # of any object
        raise UsageError(
            f"the pre-tokenizer is a {type(pre_tokenizer).__name__} that cannot be read ({error}): give one of "
            "tokenizers.pre_tokenizers, such as ByteLevel(add_prefix_space=False)"
        ) from None
    try:
        if not isinstance(state, dict) or state.get("type") == REGEX_STAGE:
            raise InputError("it is none of tokenizers")
        source = Path("the pre-tokenizer")
        pattern, space_in_front = read_pre_tokenizer(Field(state, source), Field(None, source))
    except InputError as error:
        raise UsageError(str(error)) from None
    if space_in_front:
        raise UsageError(
            "the pre-tokenizer's add_prefix_space=True is not reproduced in training: give "
            "ByteLevel(add_prefix_space=False)"
        )
    expression = pattern.expression
    return pattern.name or (f"(?:{expression})" if NAME.fullmatch(expression) else expression)


def _different(files: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    """Return the paths of files; UsageError for one that is listed twice, which only tokenizers would read twice."""
    listed = [os.fspath(file) for file in ([files] if isinstance(files, str | PathLike) else files)]
    seen: set[str] = set()
    for file in listed:
        real = os.path.realpath(file)
        if real in seen:
            raise UsageError(f"{file} is given twice, which tokenizers would count twice; name it once")
        seen.add(real)
    return listed
