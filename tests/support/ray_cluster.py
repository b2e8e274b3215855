"""A Ray cluster on this machine: each node has its own processes, all bound to the loopback interface."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

# Loopback; Ray replaces 127.0.0.1 by another address of this machine if it can.
NODES = 3
ADDRESS = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"


@contextmanager
def cluster_of(nodes: int, client_port: int | None = None, **environment: str) -> Iterator[Any]:
    """Start a cluster: a head without cores, and nodes with one core each; workers can import modules of this folder.

    client_port: of the server of Ray's client (`ray://`), if there is to be one.
    """
    from ray.cluster_utils import Cluster

    environment = {"PYTHONPATH": str(Path(__file__).parent), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", **environment}
    head = _node(0) | {"include_dashboard": False}
    if client_port is not None:
        head["ray_client_server_port"] = client_port
    with patch.dict(os.environ, environment):
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(nodes):
                add_node(cluster)
            yield cluster
        finally:
            cluster.shutdown()


def add_node(cluster: Any) -> Any:
    """Add a node with one core, and wait until the cluster knows which nodes it has now."""
    node = cluster.add_node(**_node(1))
    cluster.wait_for_nodes(60)
    return node


def _node(cores: int) -> dict[str, Any]:
    memory = {"object_store_memory": 80 << 20, "memory": 4 << 30}
    return {"num_cpus": cores, "node_ip_address": ADDRESS, **memory}


def workers_of(cluster: Any) -> list[Any]:
    """Return the nodes with a core."""
    return [node for node in cluster.list_all_nodes() if node is not cluster.head_node]


def processes_of(function: str) -> list[psutil.Process]:
    """Return the worker processes of this process's clusters that run a function, or hold an object of that class."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "".join(process.cmdline()[:1]).startswith(f"ray::{function}"):
                found.append(process)
    return found


def kill_newest(function: str) -> None:
    """Kill the newest of `processes_of`; do nothing if there is none."""
    found = processes_of(function)
    if found:
        with suppress(psutil.NoSuchProcess):
            max(found, key=lambda process: process.create_time()).kill()


def lose(cluster: Any, node: Any) -> None:
    """Kill all processes of a node, like a power failure."""
    cluster.remove_node(node, allow_graceful=False)
