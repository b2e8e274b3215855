"""Merging that parts share makes the same merges as one engine, whatever the parts are and whichever are lost."""

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from amount import FULL
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_cases import arrays, engine_of, learn, merge_rules, merges_of, natural_counter, small_counters, split
from parts_here import PartsHere
from reference import train_reference

from pipeline import _core
from pipeline.counts.counter_file import open_counter, write_counter
from pipeline.merges import shared_worker
from pipeline.merges.forecast import CounterShape, Sharing, choose
from pipeline.merges.rules import MergeRules


def train_shared(counter, max_merges, *, parts, lost=tuple, stop=None, **options):
    """The result of merging in parts, with a stop after that many merges, from where another training continues."""
    known: dict[str, Any] = {}
    pieces = list(counter.items())
    rules, tuning = split(options)
    of_parts, of_trainings = (
        {name: value for name, value in tuning.items() if name != other} for other in ("index_positions", "threads")
    )
    for merges in ([stop] if stop is not None else []) + [max_merges]:
        training = _core.SharedTraining(merges, rules, **of_trainings, **known)
        columns = [arrays(dict(pieces[index::parts])) for index in range(parts)]
        held = PartsHere(columns, training, rules, lost, **of_parts)
        shared_worker.merge(training, held, lambda: None)
        known = {name: getattr(training.result, name) for name in ("left", "right", "counts", "joined")}
    return training.result, held


NUMBERS = {"threads": (1, 3), "narrow_symbols": (0, 300), "index_positions": (1, 50), "stop": (0, 20)}
optional = {name: st.integers(*limits) for name, limits in NUMBERS.items()}
tuning = st.fixed_dictionaries({"parts": st.integers(1, 4)}, optional=optional)


@settings(max_examples=5000 if FULL else 150, deadline=None)
@given(small_counters, st.integers(0, 60), merge_rules, tuning, st.one_of(st.none(), st.integers(0, 1000)))
def test_parts_make_the_merges_of_the_reference_also_if_some_are_lost(counter, max_merges, rules, tuning, seed):
    chance = random.Random(seed)

    def lost() -> list[int]:
        return [] if seed is None or chance.random() < 0.7 else [chance.randrange(tuning["parts"])]

    tuning["stop"] = min(tuning.get("stop", 0), max_merges)
    result, _ = train_shared(counter, max_merges, **rules, **tuning, lost=lost)
    assert merges_of(result) == train_reference(counter, max_merges, **rules)
    assert result.stop == ("limit" if len(result.counts) == max_merges else "min-frequency")


@pytest.mark.parametrize(("parts", "threads"), [(1, 1), (3, 2)])
def test_parts_make_the_merges_of_one_engine_on_a_long_tail(parts: int, threads: int) -> None:
    counter = natural_counter(seed=parts, n_pieces=20_000)
    expected = learn(engine_of(counter), 3000, min_piece_count=2)
    result, held = train_shared(counter, 3000, parts=parts, threads=threads, min_piece_count=2)
    for name in ("left", "right", "counts", "joined"):
        assert bytes(getattr(result, name)) == bytes(getattr(expected, name))
    assert (result.bytes, result.left_out_pieces) == (expected.bytes, expected.left_out_pieces)
    assert held.exchanges < 3000 / 4


def test_part_of_another_version_is_refused() -> None:
    part = _core.Part(MergeRules(), lambda: [arrays({b"aaa": 1})], 4, b"")
    with pytest.raises(ValueError, match="a part of version 0 cannot go to 1"):
        part.join(1, b"", b"")


@pytest.mark.parametrize(("rows", "partitions"), [(0, 1), (5, 1), (40, 8), (41, 4)])
def test_ranges_of_a_counter_have_every_row_once(rows: int, partitions: int, tmp_path: Path) -> None:
    pieces = [b"%03d" % number for number in range(rows)]
    split = [arrays(dict.fromkeys(pieces[index::partitions], 1)) for index in range(partitions)]
    write_counter(tmp_path / "counter.parquet", split, fingerprint="")
    with open_counter(tmp_path / "counter.parquet") as counter:
        for parts in range(1, 10):
            found = []
            for index in range(parts):
                for offsets, data, counts in shared_worker.columns_of(counter, index, parts):
                    ends = memoryview(offsets).cast("B").cast("q")
                    found += [bytes(data)[start:stop] for start, stop in pairwise(ends)]
                    assert len(counts) == 8 * (len(ends) - 1)
            assert sorted(found) == pieces


def test_nodes_share_what_one_has_no_memory_for_or_too_much_work_with() -> None:
    shape = CounterShape(pieces=10**8, bytes=10**9, slots=11 * 10**8)
    alone, one = {"threads": 2, "budget_bytes": 10**11}, {"threads": 2, "budget_bytes": 2 * 10**9}
    sharing = Sharing(parts=4, threads=2, budget_bytes=2 * 10**9, from_bytes=10**10)
    assert choose(shape, 32_000, **one).resident_bytes > 0
    shared = choose(shape, 32_000, **one, sharing=sharing)
    assert (shared.parts, shared.resident_bytes) == (4, 0)
    assert shared.bytes <= sharing.budget_bytes
    assert choose(shape, 32_000, **alone, sharing=sharing).parts == 1
    assert choose(shape, 32_000, **alone, sharing=replace(sharing, from_bytes=10**9)).parts == 4
    assert choose(shape, 32_000, **one, sharing=replace(sharing, budget_bytes=10**9)).resident_bytes > 0
