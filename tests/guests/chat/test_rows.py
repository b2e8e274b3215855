"""Rows of chat files and their data sets: every shape of JSON, columns of Arrow, marks of what is learned."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_cases import small_tokenizer

import pipeline
from pipeline.corpus.files import FileSpan
from pipeline.corpus.listing import describe
from pipeline.corpus.read_budget import ReadBudget
from pipeline.executors import ignore
from pipeline.guests.chat.align import MESSAGES, READ_COLUMNS, aligned
from pipeline.guests.chat.data_sets import DataSet, listed_data_sets
from pipeline.guests.chat.kinds import NOT_LEARNED, DroppedError
from pipeline.guests.chat.rows import as_chat_file, read_rows, rows_of

TOKENIZER = small_tokenizer()


def turns(*said: str, **answer: Any) -> list[dict[str, Any]]:
    """A question and its answer, which has these members too."""
    question, content = said
    return [{"role": "user", "content": question}, {"role": "assistant", "content": content, **answer}]


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
    monkeypatch.setattr("pipeline.corpus.readers.BLOCK_BYTES", block_bytes)
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
    with pytest.raises(pipeline.PipelineError) as raised:
        read(tmp_path / "rows.json")
    assert message in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_a_file_that_is_not_utf_8_says_how_to_convert_it(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(A.encode(encoding))
    with pytest.raises(pipeline.PipelineError, match="iconv"):
        read(tmp_path / "rows.jsonl")


def test_cells_of_csv_that_stand_for_null_are_null(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("instruction,input,output\nNA,null,nan\nNone.,,N/A\n")
    assert [[*row.values()] for row in read(tmp_path / "rows.csv")] == [[None] * 3, ["None.", None, None]]


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
    "duration": pa.array([123], pa.duration("ns")),
    "late": pa.array([4_000_000], pa.date32()),
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
        with pytest.raises(pipeline.PipelineError, match=r"bad.parquet cannot be read as Parquet \('utf-8'"):
            read(tmp_path / "bad.parquet")


def test_times_in_messages_are_texts_where_python_lacks_them(tmp_path: Path) -> None:
    times = {"at": UNREADABLE["nanoseconds"], "took": UNREADABLE["duration"]}
    messages = pa.StructArray.from_arrays([pa.array(["user"]), *times.values()], ["role", *times])
    table = pa.table({"messages": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), messages)})
    pq.write_table(table, tmp_path / "rows.parquet")
    message = {"role": "user", "at": "2023-11-14 22:13:20.123456789", "took": 123}
    assert read(tmp_path / "rows.parquet") == [{"messages": [message]}]
    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, ["messages"] * 2)
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(pipeline.PipelineError, match=r"twice.parquet cannot be read as Parquet .* exists 2 times"):
        read(tmp_path / "twice.parquet")


@pytest.mark.parametrize(
    "write",
    [
        lambda path, rows: path.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows))),
        lambda path, rows: path.with_suffix(".json").write_text(json.dumps(rows)),
        lambda path, rows: pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet")),
        lambda path, rows: path.with_suffix(".csv").write_text(f"q\n{rows[0]['messages'][1]['content']}\n"),
    ],
)
def test_a_row_that_exceeds_the_budget_names_a_limit(write: Callable[..., Any], tmp_path: Path) -> None:
    write(tmp_path / "rows", [{"messages": turns("q", "low " * (1 << 19))}])
    [path] = tmp_path.iterdir()
    with pytest.raises(pipeline.PipelineError, match=r"would take (6|7)\d\.\d MiB to read, and a worker has 32"):
        read(path, ReadBudget(32 << 20, ignore))
    held = ReadBudget(80 << 20, ignore)
    assert len(read(path, held)) == 1


BAD = [{"weight": 0}, {"train": False}, {"trainable": "false"}, {"loss_mask": 0.0}, {"training": 0}, {"loss": False}]


@pytest.mark.parametrize("mark", BAD)
@pytest.mark.parametrize("template", ["chatml", "fewshot"])
def test_an_answer_that_is_marked_is_not_learned(mark: dict[str, Any], template: str) -> None:
    messages = [*turns("low", "the", **mark), *turns("low", "er", weight=1)]
    openai = {"messages": [{**one, "name": None} for one in messages]}
    listed = [{"from": one.pop("role"), "value": one.pop("content"), **one} for one in map(dict, messages)]
    raw = list(pipeline.encode_chat([openai], TOKENIZER, template=template))
    for row in (openai, {"conversations": listed}):
        [found] = pipeline.encode_chat([pipeline.align_chat(row, "messages")], TOKENIZER, template=template)
        assert [found] == raw
        learned = TOKENIZER.decode([id_ for id_ in found["labels"] if id_ >= 0])
        assert learned == {"chatml": "er<|im_end|>\n", "fewshot": "er\n\n<|endoftext|>"}[template]
        [plain] = pipeline.encode_chat([{"messages": turns_only(messages)}], TOKENIZER, template=template)
        assert found["input_ids"] == plain["input_ids"]


def turns_only(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: message[name] for name in ("role", "content")} for message in messages]


DROPPED: dict[str, list[dict[str, Any]]] = {
    "conversations_not_learned": [{**one, "messages": turns("a", "b")} for one in BAD[:4]]
    + [
        {"messages": turns("a", "b"), "label": False},
        {"instruction": "a", "output": "b", "label": "False"},
    ],
    "conversations_not_understood": [
        {"messages": turns("a", "b", weight=0.5)},
        {"messages": turns("a", "b", loss_mask=[0, 1])},
        {"messages": turns("a", "b", weight=1, train=False)},
        {"messages": turns("a", "b"), "images": ["a.png"]},
        {"messages": turns("a", "b"), "rejected": "c"},
        {"messages": turns("a", "b"), "weight": 0.3},
        {"conversations": turns("a", "b"), "image": "a.png"},
    ],
    "conversations_without_content": [
        {"instruction": ["a"], "output": "b"},
        {"instruction": "a", "input": {"k": 1}, "output": "b"},
        {"instruction": "a", "input": 0, "output": "b"},
        {"instruction": "a", "output": 5},
        {"instruction": "a", "output": "b", "system": ["s"]},
        {"messages": turns("a", "b"), "system": 5},
        {"instruction": "a", "output": "b", "history": [[1, 2]]},
    ],
    "conversations_not_listed": [
        {"instruction": "a", "output": "b", "history": history} for history in ("text", [{"a": "b", "c": "d"}], 5)
    ],
    "conversations_of_unknown_columns": [{"text": "a"}, {"data": [{"messages": turns("a", "b")}]}],
}


@pytest.mark.parametrize(("kind", "row"), [(kind, row) for kind in DROPPED for row in DROPPED[kind]])
def test_what_changes_what_is_learned_is_dropped_by_name(kind: str, row: dict[str, Any]) -> None:
    with pytest.raises(DroppedError) as raised:
        aligned(row, MESSAGES, None, None)
    assert raised.value.kind == kind


def test_every_row_shows_its_own_columns() -> None:
    rows = [
        {"instruction": "low", "output": "er"},
        {"instruction": "low", "output": "er", "messages": None, "input": "the", "system": "S", "label": True},
        {"conversations": turns("low", "er"), "label": "sports", "tools": [{"name": "f"}]},
        {"conversations": [{"from": "user", "value": "low"}, {"from": "assistant", "value": "er"}]},
        {"instruction": "low", "output": "er", "history": '[["a", "b"]]'},
        {"messages": None, "conversations": turns("low", "er")},
    ]
    found = [aligned(row, MESSAGES, None, None) for row in rows]
    assert [one["messages"] for one in found] == [
        turns("low", "er"),
        turns("low\nthe", "er"),
        turns("low", "er"),
        turns("low", "er"),
        [*turns("a", "b"), *turns("low", "er")],
        turns("low", "er"),
    ]
    assert [(one["system"], one["tools"]) for one in found[:3]] == [("", ""), ("S", ""), ("", '[{"name": "f"}]')]


def test_advice_and_reasons_name_what_a_row_has() -> None:
    reasons = {}
    messages = [{"from": "ai", "value": "a"}]
    for row in ({"data": [{"messages": messages}]}, {"conversation": messages}, {"messages": messages}):
        with pytest.raises(DroppedError) as raised:
            aligned(row, MESSAGES, None, None)
        reasons[next(iter(row))] = raised.value.detail
    assert "jq -c '.data[]' FILE" in reasons["data"]
    assert reasons["conversation"] == "columns conversation"
    assert reasons["messages"] == "role 'ai'"


def test_a_row_of_a_data_set_that_is_marked_is_not_learned(tmp_path: Path) -> None:
    columns: dict[str, str | None] = {"prompt": "p", "response": "r"}
    data_set, path = DataSet("a", (), columns=columns), tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([{"p": "a", "r": "bad", "train": False}, {"p": "a", "r": "b"}]), path)
    data_set.require_columns([describe(str(path))], ReadBudget(None, ignore))
    marked, plain = (row for row, _ in rows_of(describe(str(path)), data_set.names, ReadBudget(None, ignore)))
    with pytest.raises(DroppedError, match=NOT_LEARNED):
        aligned(marked, "alpaca", columns, None)
    assert aligned(plain, "alpaca", columns, None)["messages"] == turns("a", "b")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"columns": {"prompt": "instruction", "qurey": "input"}},
            "columns: 'qurey' is not understood; did you mean 'q",
        ),
        ({"format": "sharegpt"}, "'format' is not understood; did you mean 'formatting'?"),
        ({"tags": {"role": "role"}}, "tags: 'role' is not understood; did you mean 'role_tag'?"),
        ({"hf_hub_url": "a/b"}, "data set 'a' is not a local file (hf_hub_url): save it as a file"),
        ({"ranking": True}, "data set 'a' is for preferences (ranking), which have two answers: name one"),
        ({"formatting": "odd"}, "data set 'a': formatting 'odd' is none of alpaca, sharegpt, openai"),
        ({"tags": []}, "data set 'a': tags: [] is not of type dict"),
        ({"num_samples": 0}, "data set 'a': num_samples must be a whole number from 1"),
    ],
)
def test_an_entry_that_is_not_understood_is_refused(entry: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "dataset_info.json"
    path.write_text(json.dumps({"a": {"file_name": "rows.jsonl", **entry}}))
    with pytest.raises(pipeline.UsageError) as raised:
        listed_data_sets(path, ["a"])
    assert message in str(raised.value)


def test_a_column_is_required_of_one_row_of_a_data_set(tmp_path: Path) -> None:
    path, unlimited = tmp_path / "rows.jsonl", ReadBudget(None, ignore)
    path.write_text('{"p": "a"}\n' * 1500 + '{"p": "a", "s": "S"}\n')
    columns: dict[str, str | None] = {"prompt": "p", "system": "s"}
    DataSet("a", (), columns=columns).require_columns([describe(str(path))], unlimited)
    with pytest.raises(pipeline.PipelineError, match="the column 'r', which data set a names; it has p, s"):
        DataSet("a", (), columns={**columns, "response": "r"}).require_columns([describe(str(path))], unlimited)


TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"properties": {}}}}


@pytest.mark.parametrize("tools", [TOOL, [json.dumps(TOOL)], json.dumps(json.dumps([TOOL])), json.dumps(TOOL)])
def test_tools_that_are_one_object_or_json_of_json_are_read(tools: Any) -> None:
    rows = [{"messages": turns("low", "er"), "tools": one} for one in (tools, [TOOL], ["f"], 5)]
    found = list(pipeline.encode_chat((pipeline.align_chat(row, "messages") for row in rows), TOOLED, "qwen"))
    assert len(found) == 2
    assert found[0] == found[1]


TOOLED = pipeline.Tokenizer.from_merges([], ["<|im_start|>", "<|im_end|>"])


@pytest.mark.parametrize(("text", "count"), [("\ud83d", 1), ("low \ud83d\ude00", 2), ("\\ud83d", 0), ("é", 0)])
def test_surrogates_are_counted(text: str, count: int, caplog: pytest.LogCaptureFixture) -> None:
    tools = f'[{{"name": "{text}"}}]'
    for conversation in ({"messages": turns(text, "er")}, {"messages": turns("low", "er"), "tools": tools}):
        caplog.clear()
        list(pipeline.encode_chat([conversation], TOOLED, template="qwen"))
        expected = count + ("tools" in conversation and text == "\\ud83d")  # an escape in JSON is one
        assert (f"{expected} invalid UTF-8 sequence" in caplog.text) == bool(expected)


def test_jinja_takes_messages_that_are_no_pairs(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(
        "{% for one in messages %}{{ one.role + ': ' + one.content + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    )
    said = ("user", "user", "assistant", "system", "user")
    messages = [{"role": role, "content": "low"} for role in said]
    for template, count in ((str(path), 1), ("chatml", 0)):
        rows = list(pipeline.encode_chat([{"messages": messages}], TOKENIZER, template=template))
        assert len(rows) == count
        assert not count or TOKENIZER.decode(rows[0]["input_ids"]) == "".join(f"{role}: low\n" for role in said)


def test_a_long_row_by_jinja_takes_few_bytes_a_character(tmp_path: Path) -> None:
    path, size = tmp_path / "mine.jinja", 1 << 17
    path.write_text("{% for one in messages %}{{ one.content }}{% endfor %}")
    rows = pipeline.encode_chat([{"messages": turns("low", "a" * size)}], TOOLED, template=str(path))
    tracemalloc.start()
    try:
        next(rows)
        assert tracemalloc.get_traced_memory()[1] < 30 * size
    finally:
        tracemalloc.stop()
