"""The connection to a Ray cluster: made quickly or refused in one line, and quiet.

Ray prints what happens on its nodes (a raylet that ended, a worker that was lost) among a program's own output, and
has no option for it. What happened to our tasks we say ourselves: Ray's messages go to the log. Where the logger
`pipeline` is set to DEBUG, as `--debug` does, they are shown as Ray shows them.
"""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from pipeline.base import log
from pipeline.base.errors import UsageError

_log = logging.getLogger(__name__)
_ANSWER_S = 10.0  # for a cluster to take a connection


def connect(address: str | None) -> bool:
    """Connect this process to the cluster, unless it is connected; whether this is a new connection.

    address: as `ray.init` takes it; None: `RAY_ADDRESS`, or the cluster that this machine is part of. Workers get no
    surroundings of their own, for then they are those that Ray started ahead. Raises `UsageError` where there is no
    Ray, or no cluster.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise UsageError("the executor ray needs Ray: pip install 'bpe-pipeline[ray]'") from None
    if ray.is_initialized():
        return False
    shown = logging.getLogger(log.ROOT).isEnabledFor(logging.DEBUG)
    try:
        _require_somebody(address)
        ray.init(
            address=address or "auto",
            log_to_driver=shown,
            logging_level=logging.INFO if shown else logging.ERROR,
            **_job(address or os.environ.get("RAY_ADDRESS", "")),
        )
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        where = address or "this machine"
        raise UsageError(f"no Ray cluster at {where} ({in_a_line(error)}); {_remedy(error)}") from None
    if not shown:
        _be_quiet()
    return True


def in_a_line(error: Exception) -> str:
    """What an error of Ray says, its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no reason given'}"


def _remedy(error: Exception) -> str:
    """What to do where `ray.init` failed.

    What answers Ray's client now and then dies as it forks beside gRPC's threads (ray-project/ray, issue 63202), and
    leaves this message and empty logs.
    """
    if "Initialization failure from server" in str(error):
        return "run the same command again, or begin Ray with GRPC_ENABLE_FORK_SUPPORT=0 in its environment"
    return "begin one with `ray start --head`, or name one with --ray-address"


def _job(address: str) -> dict[str, Any]:
    """A job whose workers do not look for modules in the directory that the command was started in.

    Ray would have them look there first; the project's own directory holds the package's source without its core. Its
    client (`ray://`) does without, and takes no such setting.
    """
    if "://" in address:
        return {}
    return {"job_config": import_module("ray.job_config").JobConfig(_client_job=True)}  # what the client says of itself


def _require_somebody(address: str | None) -> None:
    """Raise `OSError` where nobody listens: Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S):
            pass


def _be_quiet() -> None:
    """Let Ray's messages go to the log: those of a direct connection, and those that its client is sent."""
    with suppress(ImportError, AttributeError):  # it is inside Ray, which may change: then it is loud
        worker: Any = import_module("ray._private.worker")
        worker.print_to_stdstream = _keep
    with suppress(ImportError, AttributeError):
        client: Any = import_module("ray.util.client").ray.get_context().client_worker.log_client
        client.stdstream = lambda level, msg: _keep({"lines": [msg]})  # noqa: ARG005 - Ray gives them by name


def _keep(data: Mapping[str, Any], **_: object) -> None:
    """Take what Ray would print."""
    for text in data.get("lines", ()):
        _log.info("Ray: %s", str(text).strip())
