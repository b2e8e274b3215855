"""Several fields of a record: which they are, by format, and how their texts are joined, in every format alike."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import refused, run, succeeded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus import columns
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.fields import fields_of, with_join
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.items import blocks
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.readers import read_span
from bpe_pipeline.run.values import parse_text_field

TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=4)
ROWS = st.lists(st.fixed_dictionaries({"title": TEXT, "body": TEXT}), min_size=1, max_size=8)
ALIKE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def texts_of(records: Records) -> list[bytes]:
    data = bytes(records.data)
    return [data[start:stop] for start, stop in zip(records.starts, records.starts[1:], strict=False)]


def read(path: Path, text_field: str) -> tuple[list[bytes], dict[str, int]]:
    file = describe(str(path))
    stop = 1 if file.format == "parquet" else file.size
    blocks_read = list(read_span(FileSpan(file, 0, stop), text_field, lambda _: None))
    assert all(isinstance(block, Records) for block in blocks_read)
    skipped: dict[str, int] = {}
    for block in blocks_read:
        for one in block.skipped:
            skipped[one.kind] = skipped.get(one.kind, 0) + one.count
    return [text for block in blocks_read for text in texts_of(block)], skipped


@pytest.mark.parametrize(
    ("text_field", "format_", "names"),
    [
        ("text", "jsonl", ("text",)),
        ("title,body", "parquet", ("title", "body")),
        ("jsonl=a,b,parquet=c", "jsonl", ("a", "b")),
        ("jsonl=a,b,parquet=c", "parquet", ("c",)),
        ("jsonl=a,b,parquet=c", "arrow", ("text",)),
        ("x,jsonl=a", "arrow", ("x",)),
        ("a\\,b,c=d", "jsonl", ("a,b", "c=d")),
        ("", "parquet", ()),
    ],
)
def test_fields_are_named_in_order_and_by_format(text_field: str, format_: str, names: tuple[str, ...]) -> None:
    assert fields_of(text_field, format_) == names


@pytest.mark.parametrize("text_field", ["a,", ",a", "a,a", "a..b", "jsonl=a,jsonl=b", "jsonl=a,,b"])
def test_names_that_are_empty_or_twice_are_refused(text_field: str) -> None:
    with pytest.raises(ValueError, match=r"the (names|fields) of"):
        parse_text_field(text_field)


@given(ROWS, st.sampled_from([None, "", ", ", "\\", ",join=\n"]))
@ALIKE
def test_texts_are_joined_alike_in_every_format(tmp_path: Path, rows: list[dict[str, Any]], join: str | None) -> None:
    """By the definition: two line feeds between the fields that have a text; a record without any has no text."""
    fields = "title,body" if join is None else with_join("title,body", join)
    expected = [
        ("\n\n" if join is None else join).join(filter(None, (row["title"], row["body"]))).encode() for row in rows
    ]
    without = sum(row["title"] is None and row["body"] is None for row in rows)
    table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in ("body", "title")})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as sink:
        sink.write_table(table)
    some = [
        {name: text for name, text in row.items() if text is not None or len(row["title"] or "") % 2} for row in rows
    ]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n\n" for row in some))
    for name in ("a.parquet", "a.arrow", "a.jsonl"):
        texts, skipped = read(tmp_path / name, fields)
        assert texts == expected, name
        assert skipped == ({"records_without_field": without} if without else {}), name
    for items in (rows, [table], [rows]):
        read_items = list(blocks(items, fields))
        assert [text for one in read_items for text in texts_of(one)] == expected
        assert sum(one.count for block in read_items for one in block.skipped) == without


def test_a_record_is_skipped_for_what_all_of_its_fields_are(tmp_path: Path) -> None:
    lines = ['{"a": 5, "b": "x"}', '{"a": 5}', '{"c": 1}', "no json", '{"a": "", "b": null}', '{"b": "y", "a": "z"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    texts, skipped = read(tmp_path / "a.jsonl", "a,b")
    assert texts == [b"x", b"", b"", b"", b"", b"z\n\ny"]
    assert skipped == {"records_not_text": 1, "records_without_field": 1, "records_not_json": 1}


def test_columns_of_a_dictionary_are_joined() -> None:
    table = pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode(), "b": pa.array(["1", None, "2"])})
    [texts] = columns.texts_of(table.to_struct_array().combine_chunks(), fields_of("b,a"))
    assert texts.to_pylist() == [b"1\n\nx", b"y", b"2\n\nx"]


def test_another_text_joins_the_fields_of_a_run_and_of_an_iterator(tmp_path: Path) -> None:
    rows = [{"title": "low", "body": "er"}] * 4
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    how: Any = {"vocab_size": 259, "text_field": "title,body", "text_join": ""}
    expected = bpe_pipeline.train_from_iterator(["lower"] * 4, output=tmp_path / "texts", vocab_size=259)
    assert bpe_pipeline.train(tmp_path / "a.jsonl", output=tmp_path / "run", **how).merges == expected.merges
    assert bpe_pipeline.train_from_iterator(rows, output=tmp_path / "rows", **how).merges == expected.merges
    words = [
        "train",
        tmp_path / "a.jsonl",
        "--output",
        tmp_path / "run",
        "--vocab-size",
        259,
        "--text-field",
        "title,body",
    ]
    succeeded(run(*words, "--text-join", ""))
    assert "--text-field 'title,body,join=', not 'title,body'" in refused(run(*words), 1)


def test_a_text_that_joins_nothing_is_refused(tmp_path: Path) -> None:
    line = refused(run("count", tmp_path, "--text-join", " ", "--text-field", "title", "--output", tmp_path / "run"), 2)
    assert line.endswith("--text-join joins several fields: name them with --text-field a,b")


def test_a_file_without_one_of_the_columns_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"title": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="has no column 'body': it has title"):
        bpe_pipeline.count(tmp_path / "a.parquet", text_field="title,body", output=tmp_path / "run")


def test_fields_by_format_make_the_same_counts_as_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"title": "low", "body": "lower"}\n')
    pq.write_table(pa.table({"content": ["newest"]}), tmp_path / "b.parquet")
    files = [tmp_path / "a.jsonl", tmp_path / "b.parquet"]
    how: Any = {"vocab_size": 270, "text_field": "jsonl=title,body,parquet=content"}
    tokenizer = bpe_pipeline.train(files, output=tmp_path / "run", **how)
    texts = bpe_pipeline.train_from_iterator(["low\n\nlower", "newest"], output=tmp_path / "texts", vocab_size=270)
    assert tokenizer.merges == texts.merges
    encoded = bpe_pipeline.encode(files, tokenizer, text_field=how["text_field"], workers=1)
    assert [tokenizer.decode(ids) for ids in encoded] == ["low\n\nlower<|endoftext|>", "newest<|endoftext|>"]
