"""Data sets: entries of dataset_info.json, and the columns that they require."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_cases import turns

import bpe_pipeline
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.executors import ignore
from bpe_pipeline.extensions.chat.about import NOT_TRAINED_ON, DroppedError
from bpe_pipeline.extensions.chat.plan import DataSet, listed_data_sets
from bpe_pipeline.extensions.chat.rows import rows_of


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"columns": {"prompt": "instruction", "qurey": "input"}},
            "columns: 'qurey' is not understood",
        ),
        ({"format": "sharegpt"}, "'format' is not understood"),
        ({"tags": {"role": "role"}}, "tags: 'role' is not understood"),
        ({"hf_hub_url": "a/b"}, "data set 'a': 'hf_hub_url' is not understood; known are"),
        ({"formatting": "odd"}, "data set 'a': formatting 'odd' is none of alpaca, sharegpt, openai"),
        ({"tags": []}, "data set 'a': tags: Expected `object | null`, got `array`"),
    ],
)
def test_an_entry_that_is_not_understood_is_refused(entry: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "dataset_info.json"
    path.write_text(json.dumps({"a": {"file_name": "rows.jsonl", **entry}}))
    with pytest.raises(bpe_pipeline.UsageError) as raised:
        listed_data_sets(path, ["a"])
    assert message in str(raised.value)


def test_a_column_is_required_of_one_row_of_a_data_set(tmp_path: Path) -> None:
    path, unlimited = tmp_path / "rows.jsonl", ReadBudget(None, ignore)
    path.write_text('{"p": "a"}\n' * 1500 + '{"p": "a", "s": "S"}\n')
    columns: dict[str, str | None] = {"prompt": "p", "system": "s"}
    DataSet("a", (), "alpaca", columns).require_columns([describe(str(path))], unlimited)
    with pytest.raises(bpe_pipeline.PipelineError, match="the column 'r', which data set a names; it has p, s"):
        DataSet("a", (), "alpaca", {**columns, "response": "r"}).require_columns([describe(str(path))], unlimited)


def test_a_row_of_a_data_set_that_is_marked_is_not_trained_on(tmp_path: Path) -> None:
    columns: dict[str, str | None] = {"prompt": "p", "response": "r"}
    data_set, path = DataSet("a", (), "alpaca", columns), tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([{"p": "a", "r": "bad", "train": False}, {"p": "a", "r": "b"}]), path)
    data_set.require_columns([describe(str(path))], ReadBudget(None, ignore))
    marked, plain = (row for row, _ in rows_of(describe(str(path)), data_set.names, ReadBudget(None, ignore)))
    with pytest.raises(DroppedError, match=NOT_TRAINED_ON):
        data_set.dialog(marked)
    assert data_set.dialog(plain)["messages"] == turns("a", "b")
