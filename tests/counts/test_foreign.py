"""Counts of other programs are terms of a run, and what cannot be a counter is named with its place."""

import gzip
import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import files_in, refused, run, succeeded
from counter_files import read as read_counter
from hypothesis import example, given, settings
from hypothesis import strategies as st
from object_store import Store
from reference import train_reference

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, RunDirectoryError, TrainingError, UsageError
from bpe_pipeline.corpus.read_budget import UNLIMITED
from bpe_pipeline.counts import foreign_worker
from bpe_pipeline.counts.foreign_worker import ForeignTask, cut_otherwise, read_foreign, read_parquet
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.storage import sha256_of


def table_in(path: Path, rows: Sequence[tuple[Any, int]]) -> Path:
    """Write rows to a Parquet file; returns its path."""
    pre_tokens = pa.array([pre_token for pre_token, _ in rows], pa.binary())
    pq.write_table(pa.table({"pre_token": pre_tokens, "count": pa.array([n for _, n in rows], pa.uint64())}), path)
    return path


def read(path: Path) -> list[tuple[bytes, int]]:
    batches = read_parquet(path, UNLIMITED)
    return [row for batch in batches for row in zip(batch.pre_tokens, batch.counts, strict=True)]


NO_ROWS = pa.table({"pre_token": pa.array([], "string"), "count": pa.array([], "int8")})
REFUSED: list[tuple[bytes | dict[Any, Any] | pa.Table, str]] = [
    *((counts, "not a single count") for counts in ({}, NO_ROWS)),
    *((data, r"c\.parquet is no Parquet file") for data in (b"", b"the\t5\n", gzip.compress(b"PAR1", mtime=0))),
    (b"PAR1 no more", r"c\.parquet is no Parquet file"),
    (pa.table({"pre_token": ["a"]}), r"c\.parquet.*needs the columns pre_token and count; it has pre_token"),
    *(
        (pa.table({"pre_token": pre_tokens, "count": counts}), message)
        for pre_tokens, counts, message in (
            (["a"], [1.5], "count is of type double"),
            ([1], [1], "pre_token is of type int64"),
            (["a", None], [1, 2], "row 2 has no pre-token"),
            (["a", "b"], [1, -2], "row 2: the count -2"),
            (["a", ""], [1, 2], r"c\.parquet.*row 2: the pre-token is empty"),
            (["a", "b"], [1, 0], "row 2: the count 0 is not"),
            (["a", "a"], [(1 << 63) - 1, 1], r"2\^63 - 1"),
            (["a", "x<|endoftext|>"], [1, 2], r"row 2: 'x<\|endoftext\|>' holds the special token"),
        )
    ),
    *(({"a": -1}, "the count of 'a': the count -1"), ({"a": 0}, "the count 0"), ({"a": 1.5}, "count of 'a' is 1.5")),
    ({"a": 1 << 63}, "is not a whole number from 1 to"),
    ({"a": (1 << 63) - 1, "b": 1}, r"add up to more than 2\^63 - 1; give smaller counts"),
    *(({"": 1}, "the pre-token is empty"), ({3: 1}, "of type int"), ({"\ud800": 1}, "lone surrogate")),
    ({"<|endoftext|>": 1}, "holds the special token"),
]


@pytest.mark.parametrize(("counts", "message"), REFUSED)
def test_counts_that_are_refused(tmp_path, counts, message):
    """Files, tables in Parquet, and mappings."""
    source = counts
    if not isinstance(counts, dict):
        source = tmp_path / "c.parquet"
        source.write_bytes(counts) if isinstance(counts, bytes) else pq.write_table(counts, source)
    with pytest.raises((InputError, TrainingError), match=message):
        bpe_pipeline.combine([source], output=tmp_path / "run", workers=1)
    assert not (tmp_path / "run" / "counter.parquet").exists()


def task_of(path: Path, **changes: object) -> ForeignTask:
    task = ForeignTask(
        path, str(sha256_of(path)), "{}", (), compile_pattern("none"), path.with_name(".p"), "f", 1 << 30
    )
    return replace(task, **changes)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 1 << 30)), min_size=1, max_size=60))
@example([(b"a", 2), (b"a", 3)])
def test_repeated_pre_tokens_are_added(tmp_path_factory, rows):
    home = tmp_path_factory.mktemp("take")
    taken = read_foreign(task_of(table_in(home / "c.parquet", rows), part_bytes=1))
    expected = sum((Counter({pre_token: count}) for pre_token, count in rows), Counter())
    assert sum((read_counter(part) for part in taken.parts), Counter()) == expected
    assert (taken.rows, taken.pre_tokens) == (len(rows), expected.total())


def test_many_batches_are_many_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_worker, "BATCH_ROWS", 10)
    rows = [(b"p%02d" % (number % 30), 1) for number in range(100)]
    assert len(read_foreign(task_of(table_in(tmp_path / "c.parquet", rows), part_bytes=1)).parts) == 10
    with pytest.raises(InputError, match="row 26"):
        read_foreign(task_of(table_in(tmp_path / "c.parquet", [(b"a", 1)] * 25 + [(b"a", 0)])))


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    path = table_in(tmp_path / "c.parquet", [(b"a", 1)])
    with pytest.raises(InputError, match=r"c\.parquet changed while it was read"):
        read_foreign(task_of(path, key="of another"))


TEXT_TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("pre_token_type", TEXT_TYPES)
@pytest.mark.parametrize("count_type", [pa.int8(), pa.uint64(), pa.int64()])
def test_parquet_of_all_types(tmp_path, pre_token_type, count_type):
    pre_tokens = pa.array(["the", "é", "the"]).cast(pa.binary() if "binary" in str(pre_token_type) else pa.string())
    table = pa.table(
        {"count": pa.array([3, 4, 5], count_type), "other": [1, 2, 3], "pre_token": pre_tokens.cast(pre_token_type)}
    )
    rows = [(b"the", 3), ("é".encode(), 4), (b"the", 5)]
    with pq.ParquetWriter(tmp_path / "c.parquet", table.schema) as writer:
        for part in (table.slice(0, 0), table.slice(0, 1), table.slice(0, 0), table.slice(1), table.slice(0, 0)):
            writer.write_table(part)  # empty row groups are skipped
    assert read(tmp_path / "c.parquet") == rows


@pytest.mark.filterwarnings("ignore:the pattern runs on the regex package")
@pytest.mark.parametrize("pattern", ["gpt2", "llama3", r"(?<=x)a|.|\s"])
def test_pre_tokens_of_another_pattern_are_found_and_warned_about(pattern, tmp_path):
    compiled = compile_pattern(pattern)
    pre_tokens = [b"a b", b"ab", b" a", b"12345", "é\xa0".encode(), b"\xff", b"\n\n"]
    expected = [
        pre_token
        for pre_token in pre_tokens
        if pre_token == b"\xff" or compiled.cut(pre_token.decode()) != [pre_token.decode()]
    ]
    assert cut_otherwise(pre_tokens, compiled) == expected
    assert cut_otherwise([pre_token for pre_token in pre_tokens if pre_token not in expected], compiled) == []
    some = rf"would split {len(expected)} pre-tokens of {len(pre_tokens)} differently, such as 'a b'"
    with pytest.warns(UserWarning, match=some):
        bpe_pipeline.combine(dict.fromkeys(pre_tokens, 1), output=tmp_path / "run", pattern=pattern)


def test_the_counter_of_a_run_is_its_export(trained: Path, tmp_path: Path) -> None:
    counts, home = Path(shutil.copy(trained / "counter.parquet", tmp_path)), tmp_path / "run"
    result = succeeded(run("combine", counts, "--output", home))
    assert "differently" not in result.stderr
    assert f"counts from {counts}" in result.stdout
    succeeded(run("merge", home, "--vocab-size", 600))
    assert files_in(home / "tokenizer")["tokenizer.json"] == files_in(trained / "tokenizer")["tokenizer.json"]
    assert "kept" in run("combine", counts, "--output", home).stdout
    other = refused(run("combine", counts, "--pattern", "qwen2", "--output", tmp_path / "other"), 1)
    assert "has other pre-tokens: --pattern is 'gpt2' there and 'qwen2' here" in other
    bpe_pipeline.count(__file__, output=tmp_path / "qwen", pattern="qwen2")
    assert "--pattern is 'gpt2' there" in refused(
        run("combine", tmp_path / "qwen", counts, "--output", tmp_path / "x"), 1
    )
    with pytest.raises(RunDirectoryError, match="with --pattern 'qwen2', not 'gpt2'"):
        bpe_pipeline.combine([tmp_path / "qwen", counts], pattern="gpt2", output=tmp_path / "x")
    table_in(counts, [(b"a", 1)])
    assert "another run" in refused(run("combine", counts, "--output", home), 1)
    assert list(home.glob(".*.part")) == []


def test_overwrite_keeps_the_run_until_counts_are_checked(trained: Path, tmp_path: Path) -> None:
    home, one, other = shutil.copytree(trained, tmp_path / "run"), tmp_path / "b.parquet", tmp_path / "c.parquet"
    before = files_in(home)
    table_in(one, [(b"a", 1 << 62)])
    for rows, files in (([(b"a", 1), (b"b", 0)], [other]), ([], [other]), ([(b"b", 1 << 62)], [one, other])):
        table_in(other, rows)
        with pytest.raises((InputError, TrainingError)):
            bpe_pipeline.combine(files, output=home, overwrite=True)
    with pytest.raises(InputError, match="the count of 'a'"):
        bpe_pipeline.combine({"a": 0}, output=home, overwrite=True)
    assert files_in(home) == before
    table_in(other, [(b"a", (1 << 62) - 1)])
    bpe_pipeline.combine([one, other], output=home, overwrite=True)
    left = {path.name for path in home.iterdir()}
    assert left == {".lock", "counter.parquet", "counts", "log.txt", "report.json", "report.txt", "run.json"}


@pytest.mark.slow
def test_counts_in_a_store(store: Store, trained: Path, tmp_path: Path) -> None:
    counts, made = store.uri("counts/c.parquet"), store.uri("runs/made")
    store.put("counts/c.parquet", (trained / "counter.parquet").read_bytes())
    assert f"counts from {counts}" in succeeded(run("combine", counts, "--output", made)).stdout
    assert not [key for key in store.listing() if "/." in key]
    assert bpe_pipeline.merge(made, vocab_size=600)[600].merges == bpe_pipeline.load(trained).merges
    bpe_pipeline.combine([trained / "counter.parquet"], output=made)  # the same counts, from another place
    store.put("bad.parquet", "no Parquet")
    line = refused(run("combine", store.uri("bad.parquet"), "--output", made, "--overwrite"), 1)
    assert re.search(r"bad\.parquet\S* is no Parquet file", line)
    assert "runs/made/tokenizer/tokenizer.json" in store.listing()
    with pytest.raises(InputError, match=r"none\.parquet\S* cannot be read"):
        bpe_pipeline.combine([store.uri("none.parquet")], output=tmp_path / "other")


@pytest.mark.parametrize("factor", [1, 1 << 33])
def test_training_on_a_mapping_gives_the_reference_merges(factor: int, tmp_path: Path) -> None:
    counts = {word: factor * n for word, n in {"low": 5, "lower": 2, "widest": 3, "newest": 6}.items()} | {"th": 5}
    [tokenizer] = bpe_pipeline.merge(bpe_pipeline.combine(counts, output=tmp_path / "run"), vocab_size=263).values()
    expected = train_reference({pre_token.encode(): count for pre_token, count in counts.items()}, 6)
    assert tokenizer.merges == [(tokenizer.vocab[a], tokenizer.vocab[b]) for a, b, _ in expected]
    reordered = dict(reversed(counts.items()))
    assert bpe_pipeline.combine(reordered, output=tmp_path / "run") == tmp_path / "run"  # the same counts, kept


def test_foreign_counts_have_weights_as_runs_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_worker, "BATCH_ROWS", 2)
    one = bpe_pipeline.combine({"a": 5, "b": 1}, output=tmp_path / "one")
    file = table_in(tmp_path / "c.parquet", [(b"a", 1), (b"b", 1), (b"a", 2), (b"c", 1)])
    bpe_pipeline.combine([one, {"a": 2, "d": 3}, file], weights=["1", "1.5", "2.5"], output=tmp_path / "sum")
    assert read_counter(tmp_path / "sum/counter.parquet") == {b"a": 5 + 3 + 8, b"b": 1 + 3, b"c": 3, b"d": 5}
    for more, message in (({"temperature": 2}, "combine each file"), ({"part": "0/2"}, "--part combines runs")):
        with pytest.raises(UsageError, match=message):
            bpe_pipeline.combine([one, file], output=tmp_path / "other", **more)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.parquet")
    pipe = tmp_path / "c.parquet"
    for counts, message in (
        ([pipe], f"{pipe} is not a regular file: save its content to a file"),
        (3, "a list of run directories"),
        (("a.parquet", "a.parquet"), "named twice"),
        (["none.parquet"], r"none\.parquet cannot be read"),
    ):
        with pytest.raises((InputError, UsageError), match=message):
            bpe_pipeline.combine(counts, output=tmp_path / "run", workers=1)
