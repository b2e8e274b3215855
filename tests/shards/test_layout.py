"""What is read from chunk files, and rows of a fixed number of tokens, compared with plain lists."""

from array import array
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from amount import FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.shards.blocks import ChunkFile, IdsWriter
from bpe_pipeline.shards.finish import NUMBERS, POSITIONS, PackedRows, Packer
from bpe_pipeline.shards.formats import IDS, Layout, RowGroup, Rows, row_groups


def write(path: Path, blocks: list[tuple[list[int], int]], first_id: int) -> tuple[list[int], list[int]]:
    """Write a part of blocks, each with documents of these lengths and then more ids; returns its ids and ends."""
    ids: list[int] = []
    ends: list[int] = []
    with path.open("wb") as file:
        part = IdsWriter(file, 2)
        for lengths, rest in blocks:
            positions = [len(ids) + end for end in accumulate(lengths)]
            block = [(first_id + len(ids) + i) % 65536 for i in range(sum(lengths) + rest)]
            part.add(memoryview(array("H", block)), memoryview(array("Q", positions)))
            ids += block
            ends += positions
        assert part.finish("f", ChunkStatistics()).ids == len(ids)
    return ids, ends


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(0, 7)), unfinished=st.integers(0, 7), cuts=st.sets(st.integers(0, 80)))
def test_groups_of_rows_do_not_depend_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int], unfinished: int, cuts: set[int]
) -> None:
    monkeypatch.setitem(row_groups.__globals__, "_GROUP_VALUES", 9)
    monkeypatch.setitem(row_groups.__globals__, "_GROUP_ROWS", 4)
    ends, total = list(accumulate(lengths)), sum(lengths) + unfinished
    values = array("H", range(total))
    more = array("i", range(0, -total, -1))
    layout = Layout({IDS: "uint16", "labels": "int32"})

    def groups(borders: list[int]) -> list[RowGroup]:
        blocks = []
        for start, stop in pairwise(borders):
            ended = array("Q", (end for end in ends if start < end <= stop or start == end == 0))
            columns = {IDS: memoryview(values)[start:stop], "labels": more[start:stop]}
            blocks.append(Rows(columns, ended))
        return list(row_groups(layout, blocks))

    found = groups([0, *sorted(cut for cut in cuts if 0 < cut < total), total])
    assert found == groups([0, total])
    assert b"".join(group.columns[IDS] for group in found) == values.tobytes()
    assert b"".join(group.columns["labels"] for group in found) == more.tobytes()
    rows = [end - start for group in found for start, end in pairwise([0, *group.ends])]
    assert rows == [*lengths, *([unfinished] if unfinished else [])]
    assert all(len(group.ends) <= 5 for group in found)  # four rows, and one that is not finished


@pytest.mark.slow
def test_every_changed_bit_of_a_part_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "part"
    ids, ends = write(path, [([3, 4], 2), ([1], 0)], 7)
    whole = path.read_bytes()
    stored = ChunkFile(path, "f")
    part = stored.holds()
    assert (part.ids, len(ends)) == (10, 3)
    blocks = list(stored.blocks())
    assert [id_ for block, _ in blocks for id_ in block] == ids
    assert [end for _, block_ends in blocks for end in block_ends] == ends
    with pytest.raises(RunDirectoryError, match="it is of another chunk"):
        ChunkFile(path, "g").holds()
    with pytest.raises(RunDirectoryError, match="other is missing"):
        ChunkFile(tmp_path / "other", "f").holds()
    for bit in range(0, 8 * len(whole), 1 if FULL else 3):  # of every byte some
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(RunDirectoryError, match=r"part is damaged \((a block|it is not whole)"):
            list(stored.blocks())
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(RunDirectoryError, match=r"part is damaged \((a block|it is not whole)"):
            stored.holds()


PAD = 60_000
DOCUMENTS = st.lists(st.integers(0, 25), max_size=40)


def packed(
    sizes: list[int], name: str, row: int, cuts: list[int], *, padded: bool = True, positions: bool = True
) -> tuple[list[list[int]], list[list[int]], list[list[int]], Packer]:
    """Pack documents of these sizes, whose ids count up; returns rows, positions, numbers of documents, amounts."""
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    columns_of_rows = {IDS: "uint16"} | dict.fromkeys((POSITIONS, NUMBERS) if positions else (), "int32")
    layout = Layout(columns_of_rows, row if padded else None, documents=False)
    packer = Packer(PackedRows(layout, name, row, PAD))
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
    assert [pre_token[0] for pre_token in found if pre_token == min(found)] == [0] * bool(found)
    assert packer.cost()["padded"] == sum(row.count(PAD) for row in rows)
    # No two rows would fit in one: otherwise the fuller had taken the longest pre-token of the other.
    filled = sorted(sum(id_ != PAD for id_ in one) for one in rows)
    assert sum(filled[:2]) > row or len(rows) < 2


@settings(max_examples=100, deadline=None)
@given(sizes=DOCUMENTS, row=st.integers(1, 12), cuts=st.lists(st.integers(0, 500), max_size=4), padded=st.booleans())
def test_none_takes_the_start_of_each_document(sizes: list[int], row: int, cuts: list[int], padded: bool) -> None:
    rows, positions, _, packer = packed(sizes, "none", row, cuts, padded=padded)
    kept = [document[:row] for document in documents_of(sizes) if document]
    assert rows == [[*one, *[PAD] * (row - len(one)) * padded] for one in kept]
    assert [own[: len(one)] for own, one in zip(positions, kept, strict=True)] == [[*range(len(one))] for one in kept]
    assert packer.cost()["truncated"] == sum(max(size - row, 0) for size in sizes)
    assert packer.cost()["padded"] == sum(one.count(PAD) for one in rows)


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
    monkeypatch.setattr("bpe_pipeline.shards.finish._WINDOW_TOKENS", 1)
    monkeypatch.setattr("bpe_pipeline.shards.finish._WINDOW_ROWS", 2)
    rows, _, _, _ = packed([6, 6, 6, 4, 4, 4], "best-fit", 10, [])
    assert [sum(id_ != PAD for id_ in row) for row in rows] == [10, 6, 6, 8]  # windows of 22 and 8 tokens
