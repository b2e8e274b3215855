"""Rows of chat data files: JSON in any layout, columns of Parquet and Arrow."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_cases import turns

import bpe_pipeline
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.executors import ignore
from bpe_pipeline.extensions.chat.align import READ_COLUMNS
from bpe_pipeline.extensions.chat.rows import as_chat_file, read_rows


def row_of(text: str) -> str:
    return json.dumps({"messages": turns(text, "er")})


def read(path: Path, budget: ReadBudget | None = None) -> list[Any]:
    """Read all rows of a file, or the kinds of what is skipped."""
    file = as_chat_file(describe(str(path)))
    stop = pq.read_metadata(path).num_row_groups if file.format == "parquet" else file.size
    budget = budget or ReadBudget(None, ignore)
    return [row for row, _ in read_rows(FileSpan(file, 0, stop), ignore, READ_COLUMNS, budget)]


A, B, C = map(row_of, ("low", "the", "é"))
SHAPES = {
    f"[{A}]\n[{B}, {C}]": 3,
    f"[{A}][{B}]": 2,
    f"[{A}]\n{B}\n{C}\n": 3,
    f"\ufeff [{A}, {B}]": 2,
    "[]\n[]": 0,
    f"{json.dumps(json.loads(A), indent=1)}\n{json.dumps(json.loads(B), indent=1)}": 2,
    f"{A}\r{B}\r": 2,
    f"{A}\r\n{B}\r\n": 2,
    f"{A}\n\n{B}": 2,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("text", SHAPES)
def test_json_is_read_to_its_end_in_any_layout(text: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("rows.json.gz" if packed else "rows.jsonl")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert read(path) == [json.loads(row) for row in (A, B, C)][: SHAPES[text]]


@pytest.mark.parametrize("block_bytes", [1, 7, 1000])
def test_blocks_change_nothing_in_arrays(block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.json").write_text(f" [{A} , {C}]\n[ ] {B}\n[{C}]")
    file = as_chat_file(describe(str(tmp_path / "rows.json")))
    monkeypatch.setattr("bpe_pipeline.corpus.readers.BLOCK_BYTES", block_bytes)
    rows = [row for row, _ in read_rows(FileSpan(file, 0, file.size), ignore, READ_COLUMNS)]
    assert rows == [json.loads(row) for row in (A, C, B, C)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[{A} {B}]", "a comma is missing before"),
        (f"[{A},]", "Expecting value at ']'"),
        (f"[{A}, {B[:9]}", "after 1 rows (Unterminated"),
        (f"[{A}", "its array does not end"),
        (f"[{A}] xyz", "Expecting value at 'xyz'"),
        (f"[{A}],{B}", "Expecting value at ',"),
    ],
)
def test_broken_json_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(bpe_pipeline.PipelineError) as raised:
        read(tmp_path / "rows.json")
    assert message in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_a_file_that_is_not_utf_8_says_how_to_convert_it(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(A.encode(encoding))
    with pytest.raises(bpe_pipeline.PipelineError, match="iconv"):
        read(tmp_path / "rows.jsonl")


CALLS = [
    [{"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}]
    for name, arguments in (("add", {"x": 1, "y": 2}), ("find", {"city": "Rome", "at": [{"z": 1}]}))
]


@pytest.mark.parametrize("kind", ["parquet", "stream", "file"])
def test_nulls_that_arrow_adds_are_left_out(kind: str, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    rows = [{"messages": CALLS[0], "tools": [schema]}, {"messages": CALLS[1], "tools": [{"type": "object"}]}]
    table, path = pa.table({name: [row[name] for row in rows] for name in rows[0]}), tmp_path / "rows.arrow"
    if kind == "parquet":
        path = tmp_path / "rows.parquet"
        pq.write_table(table, path)
    else:
        with (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(path, table.schema) as writer:
            writer.write_table(table)
    assert read(path) == rows


UNREADABLE = {
    "nanoseconds": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
    "zone": pa.array([1], pa.timestamp("us", "No/Where")),
    "text": pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_column_that_is_not_needed_is_not_read(name: str, tmp_path: Path) -> None:
    table = pa.table({"messages": pa.array([turns("low", "er")]), "at": UNREADABLE[name]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pa.ipc.new_stream(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    for path in ("rows.parquet", "rows.arrow"):
        assert read(tmp_path / path) == [{"messages": turns("low", "er"), "at": None}]
    if name == "text":
        pq.write_table(pa.table({"instruction": UNREADABLE[name]}), tmp_path / "bad.parquet")
        with pytest.raises(bpe_pipeline.PipelineError, match=r"bad.parquet cannot be read as Parquet \('utf-8'"):
            read(tmp_path / "bad.parquet")


def test_a_column_that_occurs_twice_is_an_error(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, ["messages"] * 2)
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(bpe_pipeline.PipelineError, match=r"twice.parquet cannot be read as Parquet .* exists 2 times"):
        read(tmp_path / "twice.parquet")


@pytest.mark.parametrize(
    "write",
    [
        lambda path, rows: path.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows))),
        lambda path, rows: path.with_suffix(".json").write_text(json.dumps(rows)),
        lambda path, rows: pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet")),
    ],
)
def test_a_row_that_exceeds_the_budget_names_a_limit(write: Callable[..., Any], tmp_path: Path) -> None:
    write(tmp_path / "rows", [{"messages": turns("q", "low " * (1 << 19))}])
    [path] = tmp_path.iterdir()
    with pytest.raises(bpe_pipeline.PipelineError, match=r"would take (6|7)\d\.\d MiB to read, and a worker has 32"):
        read(path, ReadBudget(32 << 20, ignore))
    held = ReadBudget(80 << 20, ignore)
    assert len(read(path, held)) == 1
