"""Memory that processes were granted, and the refusal that names a limit with which the same work is accepted."""

from dataclasses import replace

import pytest

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import parse_bytes

GRANT = Grant(bytes=30 << 20, limit_bytes=200 << 20, taken_bytes=50 << 20, worker_bytes=20 << 20, count=3, on_one=3)


def test_processes_share_what_is_left_of_the_limit() -> None:
    assert GRANT.need_bytes == 50 << 20
    assert GRANT.fitting(30 << 20) == 3
    assert GRANT.fitting(1 << 30) == 1


def test_work_within_the_grant_is_accepted() -> None:
    GRANT.require(30 << 20, "sorting")
    with pytest.raises(UsageError):
        GRANT.require((30 << 20) + 1, "sorting")


@pytest.mark.parametrize("later_bytes", [0, 500 << 20])
def test_refusal_names_a_limit_that_is_enough(later_bytes: int) -> None:
    needed, grant = 400 << 20, replace(GRANT, later_bytes=later_bytes)
    message = str(grant.refusal(needed, "sorting", ", or sort less"))
    assert "--memory-limit 200.0 MiB is too small: sorting takes at least 470.0 MiB" in message
    assert message.endswith(", or sort less")
    limit = parse_bytes(message.split("give --memory-limit ")[1].split(",")[0])
    assert limit - grant.other_bytes >= max(needed, later_bytes)


def test_refusal_of_free_memory_says_to_free_some() -> None:
    message = str(replace(GRANT, given=False).refusal(1 << 30, "sorting"))
    assert message.startswith("the memory that is free, 200.0 MiB is too small")
    assert "free some, or give --memory-limit" in message
