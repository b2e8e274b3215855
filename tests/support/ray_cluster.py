"""A Ray cluster on this machine: each node has processes of its own, all bound to the loopback interface."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Loopback; for 127.0.0.1 Ray would take another address of this machine, where it is allowed to.
ADDRESS = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"


@contextmanager
def cluster_of(nodes: int, client_port: int | None = None, **environment: str) -> Iterator[Any]:
    """A cluster of a head without cores and so many nodes with one each; workers can import what lies beside us.

    client_port: where Ray's client (`ray://`) is answered, too.
    """
    from ray.cluster_utils import Cluster

    environment = {"PYTHONPATH": str(Path(__file__).parent), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", **environment}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    head = _node(0) | {"include_dashboard": False}
    if client_port is not None:
        head["ray_client_server_port"] = client_port
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes):
            add_node(cluster)
        yield cluster
    finally:
        cluster.shutdown()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def add_node(cluster: Any) -> Any:
    """One more node with one core."""
    return cluster.add_node(**_node(1))


def _node(cores: int) -> dict[str, Any]:
    memory = {"object_store_memory": 80 << 20, "memory": 4 << 30}
    return {"num_cpus": cores, "node_ip_address": ADDRESS, **memory}


def workers_of(cluster: Any) -> list[Any]:
    """Its nodes with a core."""
    return [node for node in cluster.list_all_nodes() if node is not cluster.head_node]


def lose(cluster: Any, node: Any) -> None:
    """Kill all processes of a node, as a machine that loses its power."""
    cluster.remove_node(node, allow_graceful=False)
