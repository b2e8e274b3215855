"""Names and values as they were given -> the options of a command."""

import difflib
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError, shown
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.corpus.file_list import read_list
from bpe_pipeline.run.extensions import extensions
from bpe_pipeline.run.options import RECORDS, TrainOptions, add_records, flag_of
from bpe_pipeline.run.record import Kind, Record, Scope
from bpe_pipeline.run.values import parse_paths, parsed, reader_of

MERGING = "merging"  # what a run did with its counts, in words
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


def make_options(
    kind: type[Kind],
    values: Mapping[str, Any],
    spell: Callable[[str], str] = "option {!r}".format,
    in_file: Container[str] = (),
) -> Kind:
    """Check the options given by name; `None` means the default. `spell` says how messages name them.

    in_file: names that may be those of other commands' options, since a configuration file can serve several. Raises
    `UsageError` for a name that is none of the kind's options, and for a value that its record does not take.
    """
    values = dict(values)
    records = {name: one for name, one in kind.records.items() if name not in in_file or one.scope is not Scope.CALL}
    for name in [name for name, record in {**RECORDS, **records}.items() if record.without]:
        if values.pop(f"no_{name}", None):
            if values.get(name):
                raise UsageError(f"{spell(name)} and {spell(f'no_{name}')} exclude each other; give one")
            values[name] = ()
    known, required = RECORDS.keys() | records.keys(), {name for name, record in records.items() if record.required}
    given = {name: one for name, one in values.items() if one is not None or name not in known or name in required}
    require_known(given, spell, records)
    own, others = dict[str, Any](), dict[str, Any]()
    for name, value in given.items():
        if name in records:
            own[name] = parsed(spell(name), value, reader_of(records[name]))
        elif name in in_file:
            others[name] = parsed(spell(name), value, reader_of(RECORDS[name]))
        else:
            raise UsageError(f"{spell(name)} means nothing here: leave it out")
    if (listed := own.pop("files_from", None)) is not None:
        own["inputs"] = (*own.get("inputs", ()), *parsed(spell("inputs"), tuple(read_list(listed)), parse_paths))
    if own.get("part") is not None and own.get("ray") is not None:
        raise UsageError(f"{spell('part')} and {spell('ray')} exclude each other: Ray shares the work itself; give one")
    if "stop_at_saving" in own and "vocab_size" in records and len(own.setdefault("vocab_size", (256_000,))) > 1:
        raise UsageError(f"{spell('stop_at_saving')} chooses one size: give {spell('vocab_size')} one, the largest")
    return kind(**{name: value for name, value in others.items() if name not in kind.records}, **own)


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


def refuse_other_options(where: object, kind: str, stored: dict[str, Any], requested: dict[str, Any]) -> None:
    """Raise `RunDirectoryError` naming the first option whose requested value is not that of the stored work."""
    others = {name: value for name, value in requested.items() if stored.get(name) != value}
    for name, value in others.items():
        before, flag = stored.get(name), flag_of(name)
        how = f"with {flag} {_shown(before)}, not {_shown(value)}"
        if before in (None, []):
            how = f"without {flag}, not with {_shown(value)}"
        elif value in (None, []):
            instead = next(
                (f"with {flag_of(other)} {_shown(new)}" for other, new in others.items() if new), "without it"
            )
            how = f"with {flag} {_shown(before)}, not {instead}"
        remedy = "choose another --output, or start again with --overwrite"
        if kind == MERGING:
            remedy = "train with another --output, or `bpe-pipeline merge --overwrite`, which keeps the counts"
        raise RunDirectoryError(f"{where} holds another run: its {kind} was done {how}; {remedy}")


def _shown(value: object) -> str:
    return " ".join(map(shown, value)) if isinstance(value, list | dict) and value else repr(value)
