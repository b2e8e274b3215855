"""Pruning a vocabulary, compared with its definition."""

from pathlib import Path
from typing import Any

import counter_files
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vocabulary_rules import Base, base_of_case, bases, counters, pieces, prune_by_rules

from pipeline.base.errors import UsageError
from pipeline.guests.adapt.prune_worker import PruneTask, Pruning, prune
from pipeline.guests.adapt.pruning import protected_ids, pruned

SMALL = base_of_case(
    {
        "vocab": {"ab": 256, "abc": 257, "bc": 258},
        "merges": [("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc")],  # the last one never makes abc
        "added_tokens": {"<x>": 300},
        "ignore_merges": False,
    }
)


def _prune(base: Base, counter: dict[bytes, int], home: Path, **options: Any) -> Pruning:
    model = base.model()
    settled = {"keep": None, "min_count": None, "keep_ids": False} | options
    protected = frozenset(protected_ids(model.vocabulary, settled.pop("protect", ())))
    path = counter_files.write(home / "counter", counter, partitions=2)
    return prune(PruneTask(path, "f", model, protected, **settled, output=home))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(base=bases(), counter=counters, drop=st.integers(1, 12), by_count=st.booleans(), keep_ids=st.booleans(),
       texts=st.lists(pieces), protect=st.integers(0, 300))  # fmt: skip
def test_what_is_removed_and_what_stays_are_those_of_the_definition(
    base: Base, counter: dict[bytes, int], drop: int, by_count: bool, keep_ids: bool, texts: list[bytes],
    protect: int, tmp_path: Path,
) -> None:  # fmt: skip
    model = base.model()
    old = model.vocabulary
    kept = [old.tokens[protect]] if protect in old.tokens else []
    limits = {"min_count": drop} if by_count else {"keep": old.size - drop}
    expected = prune_by_rules(base, counter, kept, **limits)
    if not expected or (not by_count and len(expected) < drop):
        with pytest.raises(UsageError, match=f"{old.size - len(expected):,} tokens|nothing to remove"):
            _prune(base, counter, tmp_path, **limits, protect=kept)
        return
    found = _prune(base, counter, tmp_path, **limits, keep_ids=keep_ids, protect=kept)
    assert [(one.old_id, one.score) for one in found.removed] == expected
    gone = {id_ for id_, _ in expected}
    assert [*found.id_map.values()] == sorted({*old.to_dict()} - gone)
    assert [*found.id_map] == ([*found.id_map.values()] if keep_ids else [*range(len(found.id_map))])
    new, new_of = pruned(model, gone, keep_ids=keep_ids)
    lost = {*model.unreachable_tokens()}
    assert not {found.id_map[id_] for id_ in new.unreachable_tokens()} - lost  # no other token is
    encoders = model.encoder(), new.encoder()
    totals = [sum(len(one.encode_pieces([piece])) * n for piece, n in counter.items()) for one in encoders]
    assert [found.before, found.after] == totals
    for text in (*texts, *counter):
        before, after = (one.encode_pieces([text]) for one in encoders)
        if gone.isdisjoint(before):
            assert after == [new_of[id_] for id_ in before]
    assert all(list(one.new_ids) == encoders[1].encode_pieces([one.token]) for one in found.removed)


@settings(max_examples=100, deadline=None)
@given(base=bases())
def test_parts_are_those_of_the_last_merge(base: Base) -> None:
    model = base.model()
    found = model.encoder().parts(model.vocabulary.tokens)
    expected = {id_: base.parts(token) for token, id_ in base.ids.items()}
    assert found == {id_: tuple(base.ids[part] for part in two) for id_, two in expected.items() if two}


def test_a_removed_token_passes_its_uses_on_and_neighbours_merge_again(tmp_path: Path) -> None:
    counter = {b"abc": 5, b"ab": 1}
    found = _prune(SMALL, counter, tmp_path, keep=257)
    assert [(one.token, one.score, one.new_ids) for one in found.removed] == [
        *((b"bc", 0, (65, 66)), (b"abc", 5, (64, 65, 66)), (b"ab", 6, (64, 65)))
    ]
    assert (found.before, found.after) == (6, 17)
    _prune(SMALL, counter, tmp_path, min_count=1)
    ids = pq.read_table(tmp_path / "id-map.parquet").to_pylist()
    rows = [(256, 256, b"ab"), (257, 257, b"abc"), (258, 300, b"<x>")]
    assert ids[256:] == [dict(zip(("new_id", "old_id", "token"), row, strict=True)) for row in rows]
    removed = pq.read_table(tmp_path / "removed.parquet").to_pylist()
    assert removed == [{"old_id": 258, "token": b"bc", "score": 0, "new_ids": [65, 66]}]


def test_protected_tokens_are_named_as_in_vocab_json_or_as_text() -> None:
    base = Base({**SMALL.ids, b" a": 259, "é".encode(): 260}, SMALL.merges, SMALL.added)
    vocabulary = base.model().vocabulary
    always = {*range(256), 300}
    assert protected_ids(vocabulary, ["Ġa", " a", "é", b"ab"]) == always | {256, 259, 260}
    assert protected_ids(vocabulary, ["<x>"]) == always
    with pytest.raises(UsageError, match="'zz' is to be protected, but is not a token"):
        protected_ids(vocabulary, ["zz"])


@pytest.mark.parametrize("limits", [{"keep": 260}, {"keep": 999}, {"min_count": 1}])
def test_nothing_to_remove_is_an_error(limits: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to remove"):
        _prune(SMALL, {b"abc": 5, b"bc": 1}, tmp_path, **limits)
