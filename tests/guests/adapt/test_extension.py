"""Extending a vocabulary, compared with its definition."""

import itertools
from array import array
from pathlib import Path
from typing import Any

import counter_files
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vocabulary_rules import Base, base_of_case, bases, counters, extend_by_rules, pieces

from pipeline.base.errors import TrainingError, UsageError
from pipeline.guests.adapt.extend_worker import ExtendTask, learn
from pipeline.guests.adapt.extension import Learned, extended, start_of

BIG = 1 << 40
SMALL = base_of_case(
    {
        "vocab": {"lo": 256, "low": 257, "wid": 258, "wide": 259},
        "merges": [("l", "o"), ("lo", "w"), ("wid", "e")],
        "added_tokens": {"<x>": 300},
        "ignore_merges": False,
    }
)


def _learn(base: Base, counter: dict[bytes, int], add: int, home: Path, **options: Any) -> Learned:
    model = base.model()
    first_id = options.pop("first_id", None)
    settled = {"min_frequency": 1, "whole_characters": False, "threads": 1, "budget_bytes": BIG} | options
    path = counter_files.write(home / "counter", counter, partitions=2)
    start = start_of(model, add, first_id)
    task = ExtendTask(path, "f", model.vocabulary, model.whole_pieces, start, add, **settled, output=home / "plan")
    return learn(task)


def _pairs(base: Base, learned: Learned) -> list[tuple[bytes, bytes, int]]:
    tokens = extended(base.model(), learned).vocabulary.tokens
    rows = zip(learned.left, learned.right, learned.counts, strict=True)
    return [(tokens[left], tokens[right], count) for left, right, count in rows]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=180, deadline=None)
@given(base=bases(), counter=counters, add=st.integers(1, 8), min_frequency=st.integers(1, 3), texts=st.lists(pieces),
       gap=st.integers(0, 3).map(lambda number: not number))  # fmt: skip
def test_merges_and_ids_are_those_of_the_definition(
    base: Base, counter: dict[bytes, int], add: int, min_frequency: int, texts: list[bytes], gap: bool, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"min_frequency": min_frequency}
    if gap:  # in the ids, from which the first new one is taken: it decides ties
        moved = {token: id_ + 40 * (id_ > 257) for token, id_ in base.ids.items()}
        base, options["first_id"] = Base(moved, base.merges, {}, base.whole_pieces), 258
    expected = extend_by_rules(base, counter, add, **options)
    if not expected.merges:
        with pytest.raises(TrainingError, match="nothing to learn"):
            _learn(base, counter, add, tmp_path, **options)
        return
    learned = _learn(base, counter, add, tmp_path, **options)
    old = base.model()
    assert _pairs(base, learned) == expected.merges
    new = learned.new_tokens(old.vocabulary)
    assert {one.token: one.id for one in new} == expected.new_ids
    assert learned.made_again(old.vocabulary) == expected.made_again
    assert all(list(one.old_ids) == [base.ids[token] for token in base.merged(one.token)] for one in new)
    encoders = old.encoder(), extended(old, learned).encoder()
    totals = [sum(len(one.encode_pieces([piece])) * n for piece, n in counter.items()) for one in encoders]
    assert [learned.before, learned.after] == totals
    fires = {(base.ids.get(left), base.ids.get(right)) for left, right, _ in expected.merges}
    for text in (*texts, *counter):
        before, after = (one.encode_pieces([text]) for one in encoders)
        assert before == base.encode(text)
        whole = base.whole_pieces and text in base.ids
        assert (after == before) == (whole or not fires & {*itertools.pairwise(before)})


def test_threads_and_partitions_change_nothing(tmp_path: Path) -> None:
    counter = {bytes([97 + n % 7, 97 + n % 5, 97 + n % 3, 108, 111, 119]) * (1 + n % 4): 1 + n % 9 for n in range(4000)}
    found = [_learn(SMALL, counter, 60, tmp_path, threads=threads) for threads in (1, 2, 3)]
    assert found[0] == found[1] == found[2]
    assert _pairs(SMALL, found[0]) == extend_by_rules(SMALL, counter, 60).merges


def test_a_token_that_a_merge_needs_is_not_made_and_one_that_none_needs_keeps_its_id(tmp_path: Path) -> None:
    learned = _learn(SMALL, {b"wid": 9, b"wide": 8, b"<x>": 7}, 9, tmp_path)
    made = [left + right for left, right, _ in _pairs(SMALL, learned)]
    assert b"wid" not in made
    assert b"<x>" not in made
    assert learned.made_again(SMALL.model().vocabulary) == [259]
    assert [one.id for one in learned.new_tokens(SMALL.model().vocabulary)] == [301, 302, 303]


def test_the_table_of_new_tokens_has_a_row_a_token(tmp_path: Path) -> None:
    learned = _learn(SMALL, {b"lowlow": 3, b"low": 9}, 5, tmp_path)
    names = ["id", "token", "text", "left_id", "right_id", "count", "old_ids"]
    row = [301, b"lowlow", "lowlow", 257, 257, 3, [257, 257]]
    assert pq.read_table(tmp_path / "plan").to_pylist() == [dict(zip(names, row, strict=True))]
    assert (learned.exhausted, learned.before, learned.after) == (True, 15, 12)
    none = _learn(SMALL, {b"lowlow": 3}, 0, tmp_path)  # a copy
    assert (none.left, extended(SMALL.model(), none).vocabulary) == (array("I"), SMALL.model().vocabulary)


@pytest.mark.parametrize(("first_id", "add", "taken"), [(257, 1, 257), (299, 2, 300), (260, 100, 300)])
def test_an_id_that_is_taken_is_refused(first_id: int, add: int, taken: int) -> None:
    with pytest.raises(UsageError, match=rf"would take the id {taken}.*--first-id 301"):
        start_of(SMALL.model(), add, first_id)


def test_too_little_memory_is_refused_with_numbers(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"--memory-limit"):
        _learn(SMALL, {b"lowlow": 3}, 1, tmp_path, budget_bytes=1000)
