"""The command of parity."""

from typing import Any

from bpe_pipeline.commands.declaration import TRAIN, Session, command
from bpe_pipeline.commands.public.values import tokenizer_of
from bpe_pipeline.extensions.parity.options import ParityCommandOptions


@command(group=TRAIN, takes=ParityCommandOptions, positional=("languages",), returns=tokenizer_of)
def parity(session: Session) -> Any:
    """Train one vocabulary that compresses several languages alike.

    The language whose texts have the most tokens chooses the next merge. Nothing is counted again: the counts become
    those of a new run. NAME=PATH names a language; a PATH that is text is counted, with the options of a run among
    them.

    \b
    bpe-pipeline parity runs/en runs/sw --dev runs/en-dev --dev runs/sw-dev --output runs/fair
    bpe-pipeline parity en=texts/en sw=texts/sw --dev en=dev/en --dev sw=dev/sw --output runs/fair
    bpe-pipeline parity runs/en runs/sw --temperature inf --output runs/fair
    bpe-pipeline parity runs/en runs/sw --ratio 1 --ratio 1.2 --vocab-size 32000 --output runs/fair

    >>> one = bpe_pipeline.combine({"aabb": 10}, output="runs/one")
    >>> two = bpe_pipeline.combine({"ccdd": 10}, output="runs/two")
    >>> tokenizer = bpe_pipeline.parity(
    ...     {"one": one, "two": two}, dev={"one": one, "two": two}, vocab_size=259, output="runs/parity"
    ... )
    >>> tokenizer.merges
    [(b'b', b'b'), (b'd', b'd')]

    Returns:
        The tokenizer; of several sizes the first (`merge` returns all).

    Raises:
        UsageError: for settings that do not fit the languages, or a memory limit that is too small.
        RunDirectoryError: for runs that are not completely counted or cannot be compared.
    """
    from bpe_pipeline.extensions.parity.parity import languages_of, run_parity

    workers = (session.executor, session.listener)
    return run_parity(*languages_of(session.options, *workers), session.options, *workers)


COMMANDS = (parity,)
