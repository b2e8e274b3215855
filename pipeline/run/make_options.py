"""Names and values as they were given -> the options of a command."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from pipeline.base.errors import UsageError, unfit
from pipeline.base.printable import BYTE_ORDER
from pipeline.run.options import RECORDS, TrainOptions, Values, flag_of
from pipeline.run.values import parse_added_tokens

Kind = TypeVar("Kind", bound=Values)
_REPLACING = {"output", "overwrite"}


def require_known(names: Iterable[str], spell: Callable[[str], str]) -> None:
    """Raise `UsageError` for names that no option has, with all of them."""
    unknown = [name for name in names if name not in RECORDS]
    if len(unknown) > 1:
        others = ", ".join(map(repr, unknown[1:]))
        raise UsageError(f"{spell(unknown[0])} is no option, nor are {others}: leave out what is not for bpe-pipeline")
    for name in unknown:
        near = difflib.get_close_matches(name, RECORDS, 1, cutoff=0.5)
        if set(near) & _REPLACING:  # a wrong guess would replace what that option names
            near = difflib.get_close_matches(name, near, 1, cutoff=0.8)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(RECORDS)}"
        raise UsageError(f"{spell(name)} is unknown{hint}")


def parsed(name: str, value: object, spell: Callable[[str], str]) -> Any:
    """Return the value of an option as its record reads it; `UsageError` for what it is not."""
    try:
        return RECORDS[name].parse(value)
    except ValueError as error:
        one = value[0] if isinstance(value, tuple) and len(value) == 1 else value  # of a flag that is given once
        expected, wrong = (*error.args, one)[:2]
        raise unfit(spell(name), expected, wrong) from None
    except UsageError as error:
        raise UsageError(f"{spell(name)}: {error}") from None


def make_options(
    kind: type[Kind], values: Mapping[str, Any], spell: Callable[[str], str] = "option {!r}".format
) -> Kind:
    """Check and complete the options given by name; `None` means the default. `spell` says how messages name them.

    Raises `UsageError` for a name that is none of the kind's options, and for a value that its record does not take.
    """
    values, taken = dict(values), {one.name for one in fields(kind)}
    if values.pop("no_special_tokens", None):
        if values.get("special_tokens"):
            raise UsageError(f"{spell('special_tokens')} and {spell('no_special_tokens')} exclude each other; give one")
        values["special_tokens"] = ()
    for name, value in values.items():
        if name in RECORDS.keys() - taken and value is not None:
            raise UsageError(f"{spell(name)} means nothing here: leave it out")
    is_rules = "added_tokens" in taken and isinstance(values.get("added_tokens", ""), Mapping | None)
    added = values.pop("added_tokens") if is_rules else None
    given = {name: value for name, value in values.items() if name not in RECORDS or value is not None}
    require_known(given, spell)
    checked = {name: parsed(name, value, spell) for name, value in given.items()}
    if "stop_at_saving" in checked and len(checked.setdefault("vocab_size", (256_000,))) > 1:
        raise UsageError(f"{spell('stop_at_saving')} chooses one size: give {spell('vocab_size')} one, the largest")
    return kind(**checked, **({} if added is None else {"added_tokens": parse_added_tokens(added)}))


def check_vocabulary(options: TrainOptions) -> None:
    """Raise `UsageError` if a vocabulary size is too small: for bytes, special tokens, a first stage."""
    for size in options.vocab_size:
        options.special.merge_budget(size)
    first = options.first_stage
    if first is None:
        for name in ("superword_pattern", "superword_words", "superword_colon"):
            if getattr(options, name) != RECORDS[name].default:
                raise UsageError(f"{flag_of(name)} means nothing without --superwords-from: give both, or neither")
        return
    if options.stop_at_saving is not None:
        raise UsageError(
            "--stop-at-saving chooses the size of ordinary tokenizers; give one --vocab-size for superwords"
        )
    largest = len(BYTE_ORDER) + min(map(options.special.merge_budget, options.vocab_size))
    if isinstance(options.superwords_from, str) and len(options.vocab_size) > 1:
        raise UsageError(
            f"--superwords-from {options.superwords_from} is another number for each of several sizes, and a run has "
            "one first stage; give a number of tokens, or one --vocab-size"
        )
    if not len(BYTE_ORDER) <= first <= largest:
        raise UsageError(
            f"--superwords-from {options.superwords_from} is {first:,} tokens; give {len(BYTE_ORDER)}, the bytes "
            f"alone, to {largest:,}, the vocabulary size without special tokens"
        )
