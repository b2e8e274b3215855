"""The command of sweeps."""

from typing import Any

from bpe_pipeline.commands.declaration import INSPECT, Session, command
from bpe_pipeline.extensions.sweep.options import SweepOptions


def _swept() -> Any:
    from bpe_pipeline.extensions.sweep.result import Swept

    return Swept


@command(group=INSPECT, takes=SweepOptions, returns=_swept)
def sweep(session: Session) -> Any:
    """Measure mixtures of RUNs at several sizes, and recommend one.

    Nothing is counted again. Each mixture is a run in --output, with one merge list for all sizes; the recommended
    tokenizer is in its run, with a report. The same command resumes; with more weights, it learns only what is new.

    \b
    bpe-pipeline sweep runs/english runs/code --weight code=1,2,4 --vocab-size 8k,32k,128k --output sweep
    bpe-pipeline sweep runs/en runs/ja runs/sw --temperature 1,2,3,inf --vocab-size 64k --output sweep
    bpe-pipeline sweep runs/* --vocab-size 32k,64k --held-out 'unseen/*.txt' --output sweep

    >>> one = bpe_pipeline.combine({"low": 5, "lower": 9}, output="runs/one")
    >>> two = bpe_pipeline.combine({"newest": 7, "widest": 3}, output="runs/two")
    >>> swept = bpe_pipeline.sweep([one, two], weights={"two": [1, 2]}, vocab_size=[259, 261], output="sweep")
    >>> [(point.mixture, point.vocab_size) for point in swept.points]
    [('one-x1+two-x1', 259), ('one-x1+two-x1', 261), ('one-x1+two-x2', 259), ('one-x1+two-x2', 261)]

    Returns:
        The measured `points` and the `recommendation`.

    Raises:
        UsageError: an argument does not fit.
        RunDirectoryError: a run is not completely counted, or runs cannot be compared.
        InputError: held-out text cannot be read.
    """
    from bpe_pipeline.extensions.sweep.sweep import run_sweep

    return run_sweep(session.options, session.executor, session.listener)


COMMANDS = (sweep,)
