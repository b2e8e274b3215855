"""The connection to a Ray cluster: made quickly or refused in one line, and quiet.

Ray prints what happens on its nodes (a raylet that ended, a worker that was lost) into a program's own output, and has
no option against it. The executor reports what happens to its tasks itself, so Ray's messages go to the log. If the
logger `pipeline` is set to DEBUG, as by `--debug`, they are printed.
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
_CONNECT_S = 10.0


def connect(address: str | None) -> bool:
    """Connect this process to a cluster; return False if it is connected already.

    address: as `ray.init` takes it; None: `RAY_ADDRESS`, or the cluster that this machine is part of. Workers get no
    runtime environment of their own, so that Ray can use those that it started ahead. Raises `UsageError` if Ray is
    not installed or there is no cluster.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise UsageError("the executor ray needs Ray: pip install 'bpe-pipeline[ray]'") from None
    if ray.is_initialized():
        return False
    verbose = logging.getLogger(log.ROOT).isEnabledFor(logging.DEBUG)
    job = {}
    if "://" not in (address or os.environ.get("RAY_ADDRESS", "")):
        # Otherwise Ray's workers look for modules in the current directory first, and in the project's own directory
        # they find the package's source without its core. Ray's client (`ray://`) has no such setting.
        job = {"job_config": import_module("ray.job_config").JobConfig(_client_job=True)}
    try:
        _require_listener(address)
        ray.init(
            address=address or "auto",
            log_to_driver=verbose,
            logging_level=logging.INFO if verbose else logging.ERROR,
            **job,
        )
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        remedy = "start one with `ray start --head`, or name one with --ray-address"
        if "Initialization failure from server" in str(error):
            # The server of Ray's client sometimes dies when it forks next to gRPC's threads (ray-project/ray, issue
            # 63202), with this message and empty logs.
            remedy = "run the same command again, or start Ray with GRPC_ENABLE_FORK_SUPPORT=0 in its environment"
        raise UsageError(f"no Ray cluster at {address or 'this machine'} ({last_line(error)}); {remedy}") from None
    if not verbose:
        _log_messages_of_ray()
    return True


def last_line(error: Exception) -> str:
    """Return the type and the last line of an error of Ray."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no reason given'}"


def _require_listener(address: str | None) -> None:
    """Raise OSError if nothing listens at the address: Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S):
            pass


def _log_messages_of_ray() -> None:
    """Send what Ray would print to the log: messages of a direct connection, and those that its client receives."""
    with suppress(ImportError, AttributeError):  # internals of Ray: if they change, its messages are printed
        worker: Any = import_module("ray._private.worker")
        worker.print_to_stdstream = _write_to_log
    with suppress(ImportError, AttributeError):
        client: Any = import_module("ray.util.client").ray.get_context().client_worker.log_client
        client.stdstream = lambda level, msg: _write_to_log({"lines": [msg]})  # noqa: ARG005 - Ray passes keywords


def _write_to_log(data: Mapping[str, Any], **_: object) -> None:
    for text in data.get("lines", ()):
        _log.info("Ray: %s", str(text).strip())
