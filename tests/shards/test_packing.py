"""Rows of a fixed number of tokens, compared with plain lists."""

from array import array
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.shards.formats.shard_format import IDS
from pipeline.shards.packing import NUMBERS, POSITIONS, Packed, Packing

PAD = 60_000
DOCUMENTS = st.lists(st.integers(0, 25), max_size=40)


def packed(
    sizes: list[int], name: str, row: int, cuts: list[int], *, padded: bool = True, positions: bool = True
) -> tuple[list[list[int]], list[list[int]], list[list[int]], Packed]:
    """Pack documents of these sizes, whose ids count up; returns rows, positions, numbers of documents, amounts."""
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    packing = Packing(name, row, PAD, padded)
    packer = Packed(packing, packing.layout("uint16", positions=positions))
    borders = sorted({0, *(cut % (total + 1) for cut in cuts), total})
    left = ends
    blocks = []
    for start, stop in pairwise(borders):
        inside = [end for end in left if end <= stop]
        left = [end for end in left if end > stop]
        blocks.append((memoryview(array("H", range(start, stop))), array("Q", inside)))
    columns: dict[str, list[int]] = {IDS: [], POSITIONS: [], NUMBERS: []}
    row_ends: list[int] = []
    for rows in packer.rows(iter(blocks)):
        for column, values in rows.columns.items():
            columns[column] += memoryview(values).tolist()
        row_ends += rows.ends
    assert row_ends == sorted(row_ends)

    def cut(values: list[int]) -> list[list[int]]:
        return [values[start:stop] for start, stop in zip([0, *row_ends], row_ends, strict=False)]

    return cut(columns[IDS]), cut(columns[POSITIONS]), cut(columns[NUMBERS]), packer


def documents_of(sizes: list[int]) -> list[list[int]]:
    return [list(range(end - size, end)) for size, end in zip(sizes, accumulate(sizes), strict=True)]


@settings(max_examples=150, deadline=None)
@given(sizes=DOCUMENTS, row=st.integers(1, 12), cuts=st.lists(st.integers(0, 500), max_size=4))
def test_best_fit_keeps_documents_whole(sizes: list[int], row: int, cuts: list[int]) -> None:
    rows, positions, numbers, packer = packed(sizes, "best-fit", row, cuts)
    assert all(len(one) == row for one in rows)
    wanted = [one[start : start + row] for one in documents_of(sizes) for start in range(0, len(one), row)]
    found = []
    for ids, places, parts in zip(rows, positions, numbers, strict=True):
        kept = sum(part > 0 for part in parts)
        assert ids[kept:] == [PAD] * (row - kept)
        assert parts[kept:] == places[kept:] == [0] * (row - kept)
        for number in range(1, max(parts, default=0) + 1):
            own = [at for at, part in enumerate(parts) if part == number]
            assert own == list(range(own[0], own[-1] + 1))
            assert [places[at] for at in own] == list(range(len(own)))
            found.append(ids[own[0] : own[-1] + 1])
    assert sorted(found) == wanted
    assert [piece[0] for piece in found if piece == min(found)] == [0] * bool(found)
    assert packer.padded == sum(row.count(PAD) for row in rows)
    # No two rows would fit in one: otherwise the fuller had taken the longest piece of the other.
    filled = sorted(sum(id_ != PAD for id_ in one) for one in rows)
    assert sum(filled[:2]) > row or len(rows) < 2


@settings(max_examples=100, deadline=None)
@given(sizes=DOCUMENTS, row=st.integers(1, 12), cuts=st.lists(st.integers(0, 500), max_size=4), padded=st.booleans())
def test_none_takes_the_start_of_each_document(sizes: list[int], row: int, cuts: list[int], padded: bool) -> None:
    rows, positions, _, packer = packed(sizes, "none", row, cuts, padded=padded)
    kept = [document[:row] for document in documents_of(sizes) if document]
    assert rows == [[*one, *[PAD] * (row - len(one)) * padded] for one in kept]
    assert [own[: len(one)] for own, one in zip(positions, kept, strict=True)] == [[*range(len(one))] for one in kept]
    assert packer.truncated == sum(max(size - row, 0) for size in sizes)
    assert packer.padded == sum(one.count(PAD) for one in rows)


@settings(max_examples=100, deadline=None)
@given(sizes=DOCUMENTS, row=st.integers(1, 12), cuts=st.lists(st.integers(0, 500), max_size=4), positions=st.booleans())
def test_concat_cuts_documents_end_to_end(sizes: list[int], row: int, cuts: list[int], positions: bool) -> None:
    sizes = [*sizes, row - sum(sizes) % row]  # without a rest, which the plan of the shards leaves out
    rows, places, numbers, _ = packed(sizes, "concat", row, cuts, positions=positions)
    ids = list(range(sum(sizes)))
    assert rows == [ids[start : start + row] for start in range(0, len(ids), row)]
    if positions:
        starts = {0, *accumulate(sizes)}
        for one, own, parts in zip(rows, places, numbers, strict=True):
            at = number = 0
            for id_, place, part in zip(one, own, parts, strict=True):
                if id_ in starts or id_ == one[0]:
                    at, number = 0, number + 1
                assert (place, part) == (at, number)
                at += 1


def test_windows_bound_what_is_packed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.shards.packing._WINDOW_TOKENS", 1)
    monkeypatch.setattr("pipeline.shards.packing._WINDOW_ROWS", 2)
    rows, _, _, _ = packed([6, 6, 6, 4, 4, 4], "best-fit", 10, [])
    assert [sum(id_ != PAD for id_ in row) for row in rows] == [10, 6, 6, 8]  # windows of 22 and 8 tokens
