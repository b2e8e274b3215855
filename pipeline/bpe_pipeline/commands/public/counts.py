"""Commands of counts and of the system: import-counts, env; and `train_from_counts` of Python."""

from typing import Any

from bpe_pipeline.commands.declaration import SYSTEM, Session, command
from bpe_pipeline.commands.public.values import ValuesOptions, as_given, facts, tokenizer_of
from bpe_pipeline.run.options import ImportOptions, RayOptions
from bpe_pipeline.run.record import argument, as_in
from bpe_pipeline.storage import Location


# fmt: off
class ImportCountsOptions(ImportOptions):
    """What `import-counts` takes."""

    counts: tuple[Location, ...] = argument("FILE ...", as_given,
        "a mapping from pre-tokens (bytes or str) to numbers, such as `collections.Counter`; paths of Parquet "
        "files; or a pyarrow Table or RecordBatch with the columns `pre_token` and `count`",
        keyword=Any)


class TrainFromCountsOptions(ValuesOptions):
    """What `train_from_counts` takes."""

    counts: Any = as_in(ImportCountsOptions, "counts")
# fmt: on


def _directory() -> Any:
    from bpe_pipeline.commands.combine import directory_of

    return directory_of


@command(group=SYSTEM, takes=ImportCountsOptions, positional=("counts",), returns=_directory)
def import_counts(session: Session) -> Any:
    """Make a run from the pre-token counts in FILEs.

    Files are Parquet with the columns `pre_token` and `count`, such as the `counter.parquet` of a run. The options
    describe how they were made; `merge` learns a vocabulary from the run.

    \b
    bpe-pipeline import-counts counts.parquet --pattern gpt2 --output runs/imported
    bpe-pipeline merge runs/imported --vocab-size 32000

    >>> bpe_pipeline.import_counts({"low": 5, "lower": 2}, output="runs/counts")
    PosixPath('runs/counts')

    Returns:
        The run directory.

    Raises:
        PipelineError: as `train_from_counts` does.
    """
    from bpe_pipeline.commands.import_counts import run_import

    return run_import(session.options.counts, session.options, session.executor, session.listener)


@command(name="", takes=TrainFromCountsOptions, returns=tokenizer_of)
def train_from_counts(session: Session) -> Any:
    """Train a tokenizer on counts that exist already and return it.

    `pattern` and `special_tokens` say how the pre-tokens were split, and how the tokenizer will split. A warning names
    a pre-token that the pattern would split.

    >>> counts = {"low": 5, "lower": 2, "widest": 3, "newest": 6}
    >>> bpe_pipeline.train_from_counts(counts, output="runs/a", vocab_size=259).merges
    [(b'e', b's'), (b'es', b't')]

    Returns:
        The tokenizer; of several sizes the first (`merge` returns all).

    Raises:
        InputError: naming the position of a count that is not positive or a pre-token that cannot be one.
        TrainingError: for counts that add up to more than 2^63 - 1.
        PipelineError: as `train` does.
    """
    from bpe_pipeline.commands.import_counts import train_on

    return train_on(session.options.counts, session.options, session.executor, session.listener)


@command(group=SYSTEM, takes=RayOptions, returns=facts)
def env(session: Session) -> Any:
    """Print versions and the machine, for a bug report.

    With --ray, also the nodes of the cluster.

    \b
    bpe-pipeline env
    bpe-pipeline env --ray

    >>> bpe_pipeline.env()["bpe-pipeline"]
    '...'

    Returns:
        The facts by name.

    Raises:
        UsageError: ray is not installed, or there is no cluster.
    """
    from bpe_pipeline.base.machine import describe
    from bpe_pipeline.reports.result import Facts
    from bpe_pipeline.run.workers import nodes

    machines = nodes(session.options)
    described = describe() | {f"node {number}": str(node) for number, node in enumerate(machines)}
    if session.options.ray and not machines:
        described["nodes"] = "none with cores"
    return Facts(described)


COMMANDS = (import_counts, train_from_counts, env)
