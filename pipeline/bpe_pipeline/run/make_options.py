"""Names and values as they were given -> the options of a command."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.corpus.file_list import read_list
from bpe_pipeline.run.extensions import extensions
from bpe_pipeline.run.options import RECORDS, TrainOptions, Values, add_records, flag_of
from bpe_pipeline.run.record import Record, records_of

Kind = TypeVar("Kind", bound=Values)
_REPLACING = {"output", "overwrite"}


def known_options() -> Mapping[str, Record]:
    """Return the options that configuration files may have, those of all extensions, too."""
    for extension in extensions():
        for command in extension.commands():
            add_records(command.takes)
    return RECORDS


def require_known(names: Iterable[str], spell: Callable[[str], str], own: Mapping[str, Record]) -> None:
    """Raise `UsageError` for names that no option has, with all of them. own: the options of the command."""
    unknown = [name for name in names if name not in RECORDS and name not in own]
    known = known_options() if unknown else RECORDS
    unknown = [name for name in unknown if name not in known]
    if len(unknown) > 1:
        others = ", ".join(map(repr, unknown[1:]))
        raise UsageError(f"{spell(unknown[0])} is no option, nor are {others}: leave out what is not for bpe-pipeline")
    for name in unknown:
        near = difflib.get_close_matches(name, {**own, **known}, 1, cutoff=0.5)
        if set(near) & _REPLACING:  # a wrong guess would replace what that option names
            near = difflib.get_close_matches(name, near, 1, cutoff=0.8)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join({**known, **own})}"
        raise UsageError(f"{spell(name)} is unknown{hint}")


def parsed(record: Record, value: object, spell: Callable[[str], str]) -> Any:
    """Return the value of an option as its record reads it; `UsageError` for what it is not."""
    try:
        return record.parse(value)
    except ValueError as error:
        one = value[0] if isinstance(value, tuple) and len(value) == 1 else value  # of a flag that is given once
        expected, wrong = (*error.args, one)[:2]
        raise unfit(spell(record.name), expected, wrong) from None
    except UsageError as error:
        raise UsageError(f"{spell(record.name)}: {error}") from None


def make_options(
    kind: type[Kind], values: Mapping[str, Any], spell: Callable[[str], str] = "option {!r}".format
) -> Kind:
    """Check and complete the options given by name; `None` means the default. `spell` says how messages name them.

    Raises `UsageError` for a name that is none of the kind's options, and for a value that its record does not take.
    """
    values, records = dict(values), records_of(kind)
    for name in [name for name, record in records.items() if record.without]:
        if values.pop(f"no_{name}", None):
            if values.get(name):
                raise UsageError(f"{spell(name)} and {spell(f'no_{name}')} exclude each other; give one")
            values[name] = ()
    given = {
        name: value
        for name, value in values.items()
        if value is not None
        or name not in RECORDS.keys() | records.keys()
        or (name in records and records[name].required)
    }
    require_known(given, spell, records)
    for name in given:
        if name not in records:
            raise UsageError(f"{spell(name)} means nothing here: leave it out")
    checked = {name: parsed(records[name], value, spell) for name, value in given.items()}
    if (listed := checked.pop("files_from", None)) is not None:
        given_inputs = checked.get("inputs") or ()
        checked["inputs"] = (*given_inputs, *parsed(records["inputs"], tuple(read_list(listed)), spell))
    if checked.get("part") is not None and checked.get("ray") is not None:
        raise UsageError(f"{spell('part')} and {spell('ray')} exclude each other: Ray shares the work itself; give one")
    if (
        "stop_at_saving" in checked
        and "vocab_size" in records
        and len(checked.setdefault("vocab_size", (256_000,))) > 1
    ):
        raise UsageError(f"{spell('stop_at_saving')} chooses one size: give {spell('vocab_size')} one, the largest")
    return kind(**checked)


def check_vocabulary(options: TrainOptions) -> None:
    """Raise `UsageError` if a vocabulary size is too small: for bytes, special tokens, a first stage."""
    for size in options.vocab_size:
        options.special.merge_budget(size)
    first = options.first_size
    if first is None:
        for name in ("superword_pattern", "superword_words", "superword_colon"):
            if getattr(options, name) != RECORDS[name].default:
                raise UsageError(
                    f"{flag_of(name)} means nothing without --superwords-from or --first-stage: give both, or neither"
                )
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
