"""The command about the system: env."""

from typing import Any

from bpe_pipeline.commands.declaration import SYSTEM, Session, command
from bpe_pipeline.commands.public.values import facts
from bpe_pipeline.run.options import RayOptions


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


COMMANDS = (env,)
