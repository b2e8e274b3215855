"""The broker of memory: what it grants never exceeds the limit, and what it refuses names a limit that suffices."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bpe_pipeline.base import machine
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.executors import Node
from bpe_pipeline.run.memory import LEAST_WORK_BYTES, Broker

MIB = 1 << 20
LIMITS = st.integers(1, 1 << 15).map(MIB.__mul__)
NEEDS = st.integers(1, 1 << 12).map(MIB.__mul__)
NODES = st.lists(st.builds(Node, st.just("node"), st.integers(1, 64), LIMITS), min_size=1, max_size=5)


@pytest.fixture(autouse=True, scope="module")
def own_memory():
    """Replace this process's memory, which depends on the tests before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "own_memory", lambda: 40 * MIB)
        yield


def granted(broker: Broker, minimum: int, **options):
    try:
        return broker.reserve(minimum, **options)
    except UsageError:
        assume(False)


@given(LIMITS, NEEDS, st.none() | NEEDS, st.integers(1, 200))
def test_a_grant_never_exceeds_the_limit(limit, minimum, wanted, asked):
    grant = granted(Broker(limit), minimum, wanted=wanted, asked=asked)
    assert grant.taken_bytes + grant.on_one * grant.need_bytes <= limit
    assert 1 <= grant.on_one == grant.count <= asked


@given(LIMITS, NEEDS, NEEDS, st.integers(1, 200))
def test_each_worker_has_between_the_minimum_and_what_it_wants(limit, minimum, more, asked):
    grant = granted(Broker(limit), minimum, wanted=minimum + more, asked=asked)
    assert minimum <= grant.bytes <= minimum + more


@given(LIMITS, NEEDS, st.integers(1, 200))
def test_as_many_workers_as_fit_are_granted(limit, minimum, asked):
    grant = granted(Broker(limit), minimum, asked=asked)
    one_more = grant.taken_bytes + (grant.on_one + 1) * (grant.worker_bytes + minimum)
    assert grant.on_one == asked or one_more > limit


@given(LIMITS, NEEDS, st.integers(0, 1 << 12).map(MIB.__mul__))
def test_the_limit_that_a_refusal_names_suffices_for_it_and_for_later_stages(limit, minimum, later_bytes):
    broker = Broker(limit, later_bytes=later_bytes)
    assume(broker.everything().bytes < minimum)
    with pytest.raises(UsageError) as refused:
        broker.reserve(minimum)
    named = re.search(r"give --memory-limit (\d+)MiB$", str(refused.value))
    for needed in (minimum, later_bytes):
        Broker(int(named[1]) * MIB).reserve(needed)


def test_a_refusal_says_what_takes_the_memory_and_how_to_need_less():
    with pytest.raises(UsageError, match=r"-limit 800\.0 MiB is too small: it all takes at .* \d+MiB, or less$"):
        Broker(800 * MIB).reserve(750 * MIB, what="it all", remedy=", or less")


def test_a_refusal_of_free_memory_says_to_free_some():
    with pytest.raises(UsageError, match=r"the memory that is free, .* free some, or give --memory-limit"):
        Broker(60 * MIB, given=False).reserve()


def test_without_a_limit_most_of_what_is_free_is_granted(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 1000 * MIB)
    monkeypatch.setattr(machine, "process_tree_memory", lambda: 40 * MIB)
    assert Broker.of(None) == Broker(840 * MIB, given=False)
    assert Broker.of(5 * MIB) == Broker(5 * MIB)


def test_memory_that_others_took_since_the_start_is_not_granted(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 100 * MIB)
    grant = Broker(800 * MIB).everything_free()
    assert (grant.bytes, grant.given) == (100 * MIB, False)


@given(NODES, LIMITS, st.integers(1, 200))
def test_a_grant_on_nodes_fits_the_smallest_and_its_cores(nodes, limit, asked):
    grant = granted(Broker(limit), LEAST_WORK_BYTES, asked=asked, nodes=nodes)
    smallest = min(limit, *(node.memory_bytes for node in nodes))
    assert grant.taken_bytes + grant.on_one * grant.need_bytes <= smallest
    assert grant.count <= min(asked, sum(node.cores for node in nodes))
    assert grant.at_once is None  # nodes join and leave
