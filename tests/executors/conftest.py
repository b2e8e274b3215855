"""A Ray cluster of several nodes, started when the first test of a module asks for it."""

from collections.abc import Iterator
from typing import Any

import pytest
from object_store import CREDENTIALS
from ray_cluster import NODES, cluster_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with cluster_of(NODES, **CREDENTIALS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def on_ray(cluster: Any) -> Iterator[Any]:
    """An executor on the cluster; this process stays connected, so that workers do not start for every test."""
    from bpe_pipeline.executors.ray import RayExecutor

    with RayExecutor(cluster.address, None) as executor:
        yield executor


@pytest.fixture(scope="module")
def address(cluster: Any, on_ray: Any) -> str:  # noqa: ARG001 - connected
    return str(cluster.address)
