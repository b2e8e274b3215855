"""Commands that change a tokenizer: extend, prune."""

from typing import Any

from bpe_pipeline.commands.declaration import Session, command
from bpe_pipeline.extensions.adapt.options import ExtendOptions, PruneOptions

_CHANGE = "Change"


def _extended() -> Any:
    from bpe_pipeline.extensions.adapt.extend import extended_of

    return extended_of


def _pruned() -> Any:
    from bpe_pipeline.extensions.adapt.prune import pruned_of

    return pruned_of


@command(group=_CHANGE, takes=ExtendOptions, returns=_extended, works=lambda _: True)
def extend(session: Session) -> Any:
    """Add tokens learned from the counts in RUN to the tokenizer BASE.

    All ids and merges of BASE stay. new-tokens.parquet next to the new tokenizer says how to start their embeddings.

    \b
    bpe-pipeline count swahili/*.txt --like gpt2/tokenizer.json --output runs/sw
    bpe-pipeline extend gpt2/tokenizer.json runs/sw --add 50000 --dry-run
    bpe-pipeline extend gpt2/tokenizer.json runs/sw --add 10000 --output gpt2-sw

    >>> bpe_pipeline.Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w")]).save("base")
    >>> run = bpe_pipeline.combine({"lowlow": 3, "low": 9}, special_tokens=[], output="runs/a")
    >>> done = bpe_pipeline.extend("base", run, add=1, output="extended")
    >>> done.plan[0].id, done.plan[0].token, done.plan[0].old_ids
    (258, b'lowlow', (257, 257))
    >>> done.tokenizer.encode("low lowlow")
    [257, 220, 258]

    Returns:
        The tokenizer and its new tokens.

    Raises:
        UsageError: a new id is taken, memory is too small, or counts do not show how the tokenizer prepares text.
        RunDirectoryError: the run is not completely counted, or was cut differently.
        TrainingError: there is nothing to learn.
        ExportRefusedError: tokenizer.json cannot hold the result.
    """
    from bpe_pipeline.extensions.adapt import extend

    options = session.options
    change = extend.change_of(options)
    if options.dry_run:
        return extend.run_dry(change, options, session.executor, session.listener)
    extended = extend.run_extend(change, options, session.executor, session.listener)
    return extend.result_of(extended, options.output), extended


@command(group=_CHANGE, takes=PruneOptions, returns=_pruned)
def prune(session: Session) -> Any:
    """Remove the tokens of BASE that the counts in RUN use least.

    Without RUN, those that were merged last are removed. A text whose encoding holds no removed token keeps its tokens.
    id-map.parquet and removed.parquet next to the new tokenizer say which ids moved, and which tokens went.

    \b
    bpe-pipeline count my-texts --like base/tokenizer.json --output runs/mine
    bpe-pipeline prune base/tokenizer.json runs/mine --keep 50000 --output smaller

    Bytes and added tokens stay. `protect` is a list or a file of tokens, as in vocab.json or as text.

    >>> bpe_pipeline.Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")]).save("base")
    >>> run = bpe_pipeline.combine({"low": 5, "lower": 1}, output="runs/a")
    >>> done = bpe_pipeline.prune("base", run, keep=258, output="pruned")
    >>> done.removed
    (RemovedToken(old_id=258, token=b'er', score=1, new_ids=(68, 81)),)
    >>> done.tokenizer.encode("lower"), done.id_map[257]
    ([257, 68, 81], 257)

    Returns:
        The tokenizer, the map of its ids, and what was removed.

    Raises:
        UsageError: there is nothing to remove, fewer tokens cannot stay, or what is protected is not a token.
        RunDirectoryError: the run is not completely counted.
        ExportRefusedError: tokenizer.json cannot hold the result.
    """
    from bpe_pipeline.extensions.adapt.prune import result_of, run_prune

    pruned = run_prune(session.options, session.executor, session.listener)
    return result_of(pruned, session.options.output), pruned


COMMANDS = (extend, prune)
