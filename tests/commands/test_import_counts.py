"""Counts in and out: what is written reads back exactly, and what cannot be a counter is named with its place."""

import bz2
import gzip
import lzma
import os
import random
import re
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import files_in, refused, run, succeeded
from counter_files import read as read_counter
from counter_files import write
from hypothesis import example, given, settings
from hypothesis import strategies as st
from object_store import Store
from reference import train_reference

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, RunDirectoryError, TrainingError, UsageError
from bpe_pipeline.commands import import_counts
from bpe_pipeline.counts import counts_file, import_worker
from bpe_pipeline.counts.counts_file import escaped, read_counts
from bpe_pipeline.counts.export_worker import WriteTask, write_tsv
from bpe_pipeline.counts.import_worker import TakeTask, cut_otherwise, take_file
from bpe_pipeline.pattern.compiler import compile_pattern

ONE_COUNT = st.integers(1, 3) | st.integers(1, (1 << 63) - 1)
COUNTS = st.dictionaries(st.binary(min_size=1, max_size=12), ONE_COUNT, min_size=1, max_size=60)


def written(counts: dict[bytes, int], home: Path, band_bytes: int = 1 << 20) -> Path:
    counter = write(home / "c.parquet", Counter(counts), partitions=2)
    assert write_tsv(WriteTask(counter, "f", home / "c.tsv", band_bytes)) == len(counts)
    return home / "c.tsv"


def read(path: Path) -> list[tuple[bytes, int]]:
    return [row for batch in read_counts(path) for row in zip(batch.pre_tokens, batch.counts, strict=True)]


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.sampled_from([1, 100, 1 << 20]))
def test_tsv_holds_any_bytes(tmp_path_factory, counts, band_bytes):
    path = written(counts, tmp_path_factory.mktemp("tsv"), band_bytes)
    rows = read(path)
    assert dict(rows) == counts
    assert [count for _, count in rows] == sorted(counts.values(), reverse=True)
    lines = path.read_text(encoding="utf-8").split("\n")  # valid UTF-8, a line a pre-token
    assert escaped("Ġé\t\n\r\\\0\x7f".encode() + b"\xff\xc3") == r"Ġé\t\n\r\\\x00\x7f\xff\xc3"
    assert len(lines) == len(counts) + 1
    assert all(line.count("\t") == 1 for line in lines[:-1])
    assert written(counts, path.parent, 1 << 19).read_text(encoding="utf-8").split("\n") == lines  # ties, too


PACKED = [gzip.compress(b"a\t1\n", mtime=0), bz2.compress(b"a\t1\n"), lzma.compress(b"a\t1\n")]
WITHOUT_A_COUNT = "not a single count"
REFUSED: list[tuple[bytes | dict[Any, Any] | pa.Table, str]] = [
    *((b"a\t1\nb\n", r"c\.tsv, line 2 has 1 fields"), (b"a\t1\t2\n", r"line 1 has 3 fields.*\\t")),
    (b"a\t1\nb\t-2\n", r"line 2: the count '-2' is not a whole number from 1"),
    *((b"a\t1.5\n", "line 1: the count '1.5'"), (b"a\t\n", "line 1: the count ''")),
    (b"a\t0\n", "line 1: the count 0 is not"),
    (b"a\t9223372036854775808\n", "line 1: the count 9223372036854775808 is not"),
    (b"a\t" + b"9" * 5000 + b"\n", "line 1: the count 9223372036854775808 is not"),
    (b"a\t9223372036854775807\na\t1\n", r"2\^63 - 1"),
    *((b"\t3\n", "line 1: the pre-token is empty"), (b"a\\\t2\n", "is no escape")),
    (b"pre_token\tcount\na\t1\n\\q\t2\n", r"line 3: .* is no escape"),
    (b"a\t1\nx<|endoftext|>\t2\n", r"line 2: 'x<\|endoftext\|>' holds the special token"),
    *((empty, WITHOUT_A_COUNT) for empty in (b"", b"pre_token\tcount\n", {})),
    *((packed, r"c\.tsv is compressed with \w+: decompress it") for packed in PACKED),
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
    """Lines of TSV, tables in Parquet, and mappings."""
    source = counts
    if not isinstance(counts, dict):
        source = tmp_path / ("c.parquet" if isinstance(counts, pa.Table) or counts[:4] == b"PAR1" else "c.tsv")
        source.write_bytes(counts) if isinstance(counts, bytes) else pq.write_table(counts, source)
    with pytest.raises((InputError, TrainingError), match=message):
        bpe_pipeline.train_from_counts(source, output=tmp_path / "run", vocab_size=300, workers=1)
    assert not (tmp_path / "run" / "counter.parquet").exists()


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.from_regex(rb"([a-z\\xf0-9]{0,6}\t[0-9]{0,3}\r?\n){0,5}", fullmatch=True)))
def test_any_file_is_read_or_refused_with_its_location(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "c.tsv"
    path.write_bytes(data)
    rows = [line for line in data.split(b"\n") if line and not line.startswith(b"pre_token\tcount")]
    try:
        taken, reason = take_file(take_task(path)), ""
    except InputError as error:
        taken, reason = None, str(error)
    assert "c.tsv, line " in reason if taken is None else taken.rows == len(rows)


def take_task(path: Path, **changes: object) -> TakeTask:
    task = TakeTask(path, (), compile_pattern("none"), path.with_name(".p.part"), "f", 1 << 30)
    return replace(task, **changes)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 1 << 30)), min_size=1, max_size=60))
@example([(b"a", 2), (b"a", 3)])
def test_repeated_pre_tokens_are_added(tmp_path_factory, rows):
    home = tmp_path_factory.mktemp("take")
    (home / "c.tsv").write_text("".join(f"{escaped(pre_token)}\t{count}\r\n" for pre_token, count in rows), newline="")
    taken = take_file(take_task(home / "c.tsv", part_bytes=1))
    expected = sum((Counter({pre_token: count}) for pre_token, count in rows), Counter())
    assert sum((read_counter(part) for part in taken.parts), Counter()) == expected
    assert (taken.rows, taken.pre_tokens) == (len(rows), expected.total())


def test_many_batches_are_many_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(counts_file, "_READ_BYTES", 60)
    (tmp_path / "c.tsv").write_text("".join(f"p{number % 30:02d}\t1\n" for number in range(100)))
    assert len(take_file(take_task(tmp_path / "c.tsv", part_bytes=1)).parts) == 10
    for wrong in ("x", "0"):
        (tmp_path / "c.tsv").write_text("a\t1\n" * 25 + f"a\t{wrong}\n")
        with pytest.raises(InputError, match="line 26"):
            take_file(take_task(tmp_path / "c.tsv"))
    monkeypatch.setattr(counts_file, "_MOST_LINE_BYTES", 100)
    (tmp_path / "c.tsv").write_text("a\t1\n" + "b" * 300 + "\t1\n")
    with pytest.raises(InputError, match=r"c\.tsv, line 2 is longer than 1 GiB; no pre-token may be so long"):
        take_file(take_task(tmp_path / "c.tsv"))


def test_sorted_rows_take_no_longer(tmp_path):
    """As a large counter gives them: a table that lies in that order would be crowded at one end."""
    rows = sorted((b"%d" % number for number in range(300_000)), key=_core.hash64)[:30_000]
    elapsed_s = {}
    for name in ("sorted", "shuffled"):
        (tmp_path / "c.tsv").write_bytes(b"".join(pre_token + b"\t1\n" for pre_token in rows))
        started = time.process_time()
        assert take_file(take_task(tmp_path / "c.tsv")).rows == len(rows)
        elapsed_s[name] = time.process_time() - started
        random.Random(1).shuffle(rows)
    assert elapsed_s["sorted"] < 2 * elapsed_s["shuffled"] + 0.3


@pytest.mark.parametrize(("home", "name"), [(import_counts.hashlib, "file_digest"), (import_worker, "read_counts")])
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch, home, name):
    path, own = tmp_path / "c.tsv", getattr(home, name)
    path.write_text("a\t1\n")

    def then_write(*args: Any) -> Any:
        found = own(*args)
        found = iter(list(found)) if name == "read_counts" else found
        path.write_text("b\t22\n")
        return found

    monkeypatch.setattr(home, name, then_write)
    with pytest.raises(InputError, match=r"c\.tsv changed while it was read"):
        bpe_pipeline.import_counts(path, output=tmp_path / "run", workers=1)
    assert not (tmp_path / "run" / "counter.parquet").exists()


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
    assert [row for b in counts_file.counts_in(table) for row in zip(b.pre_tokens, b.counts, strict=True)] == rows


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
    some = rf"would cut {len(expected)} pre-tokens of {len(pre_tokens)} differently, such as 'a b'"
    with pytest.warns(UserWarning, match=some):
        bpe_pipeline.import_counts(dict.fromkeys(pre_tokens, 1), output=tmp_path / "run", pattern=pattern)


def test_out_and_in_again_gives_the_same_tokenizer(trained: Path, tmp_path: Path) -> None:
    tsv, home = tmp_path / "c.tsv", tmp_path / "run"
    assert run("export-counts", trained, tsv).stdout.split()[1] == str(tsv)
    result = succeeded(run("import-counts", tsv, "--output", home))
    assert "differently" not in result.stderr
    assert f"counts from {tsv}" in result.stdout
    succeeded(run("merge", home, "--vocab-size", 600))
    assert files_in(home / "tokenizer")["tokenizer.json"] == files_in(trained / "tokenizer")["tokenizer.json"]
    assert "kept" in run("import-counts", tsv, "--output", home).stdout
    counts = tsv.read_bytes()
    tsv.write_text("a\t1\n")
    assert "another run" in refused(run("import-counts", tsv, "--output", home), 1)
    succeeded(run("export-counts", trained, tmp_path / "c.parquet"))
    succeeded(run("import-counts", tmp_path / "c.parquet", "--pattern", "qwen2", "--output", tmp_path / "other"))
    assert refused(run("export-counts", trained, tmp_path / "c.txt"), 2)
    assert refused(run("export-counts", trained, tsv, "--export", "hf"), 2)
    assert list(home.glob(".*.part")) == []
    limited = tmp_path / "limited.tsv"
    succeeded(run("export-counts", trained, limited, "--memory-limit", "150MiB"))
    assert limited.read_bytes() == counts
    line = refused(run("export-counts", trained, tmp_path / "d.tsv", "--memory-limit", "20MiB"), 2)
    assert "--memory-limit 20.0 MiB is too small" in line


def test_a_damaged_counter_is_not_exported(trained: Path, tmp_path: Path) -> None:
    counter = shutil.copytree(trained, tmp_path / "run") / "counter.parquet"
    data = bytearray(counter.read_bytes())
    data[len(data) // 3] ^= 1
    counter.write_bytes(data)
    for name in ("c.parquet", "c.tsv"):
        with pytest.raises(RunDirectoryError, match=r"counter\.parquet is damaged"):
            bpe_pipeline.export_counts(tmp_path / "run", tmp_path / name)
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["c.tsv", "c.parquet"])
def test_exported_counts_replace_only_what_they_may(trained: Path, tmp_path: Path, name: str) -> None:
    path, link = tmp_path / name, tmp_path / f"link-{name}"
    link.symlink_to(path)
    bpe_pipeline.export_counts(trained, link)  # the link leads to nothing yet
    right = path.read_bytes()
    assert link.is_symlink()
    path.write_text("somebody's")
    for one in (path, link):
        with pytest.raises(RunDirectoryError, match=f"{one} exists; .* --overwrite"):
            bpe_pipeline.export_counts(trained, one)
        assert "exists" in refused(run("export-counts", trained, one), 1)
        assert path.read_text() == "somebody's"
    assert run("export-counts", trained, link, "--overwrite").returncode == 0
    assert path.read_bytes() == right
    assert link.is_symlink()
    path.write_bytes(b"")  # nothing is lost
    bpe_pipeline.export_counts(trained, path)
    with pytest.raises(RunDirectoryError, match=r"No such file or directory; .*make its directory, or name another"):
        bpe_pipeline.export_counts(trained, tmp_path / "missing" / name)


def test_overwrite_keeps_the_run_until_counts_are_checked(trained: Path, tmp_path: Path) -> None:
    home, one, other = shutil.copytree(trained, tmp_path / "run"), tmp_path / "b.tsv", tmp_path / "c.tsv"
    before = files_in(home)
    one.write_text(f"a\t{1 << 62}\n")
    for lines, files in (("a\t1\nb\n", [other]), ("", [other]), (f"a\t{1 << 62}\n", [one, other])):
        other.write_text(lines)
        with pytest.raises((InputError, TrainingError)):
            bpe_pipeline.import_counts(files, output=home, overwrite=True)
    with pytest.raises(InputError, match="the count of 'a'"):
        bpe_pipeline.train_from_counts({"a": 0}, output=home, vocab_size=300, overwrite=True)
    assert files_in(home) == before
    other.write_text(f"a\t{(1 << 62) - 1}\n")
    bpe_pipeline.import_counts([one, other], output=home, overwrite=True)
    left = {path.name for path in home.iterdir()}
    assert left == {".lock", "counter.parquet", "counts", "log.txt", "report.json", "report.txt", "run.json"}


def test_counts_in_a_store(store: Store, trained: Path, tmp_path: Path) -> None:
    tsv, parquet, imported = (store.uri(key) for key in ("counts/c.tsv", "counts/c.parquet", "runs/imported"))
    bpe_pipeline.export_counts(trained, tmp_path / "c.tsv")
    assert run("export-counts", trained, tsv).stdout.split()[1] == tsv
    assert store.get("counts/c.tsv") == (tmp_path / "c.tsv").read_bytes()
    bpe_pipeline.export_counts(trained, parquet)
    assert store.get("counts/c.parquet") == (trained / "counter.parquet").read_bytes()
    assert f"counts from {tsv}" in succeeded(run("import-counts", tsv, "--output", imported)).stdout
    assert not [key for key in store.listing() if "/." in key]
    expected = bpe_pipeline.load(trained).merges
    assert bpe_pipeline.merge(imported, vocab_size=600)[600].merges == expected
    bpe_pipeline.import_counts(tmp_path / "c.tsv", output=imported)  # the same counts, from another place
    assert bpe_pipeline.train_from_counts([parquet], output=tmp_path / "run", vocab_size=600).merges == expected
    store.put("bad.tsv", "a\t1\nb\n")
    line = refused(run("import-counts", store.uri("bad.tsv"), "--output", imported, "--overwrite"), 1)
    assert re.search(r"bad\.tsv\S*, line 2 has 1 fields", line)
    assert "runs/imported/tokenizer/tokenizer.json" in store.listing()
    with pytest.raises(RunDirectoryError, match="NO_SUCH_BUCKET"):
        bpe_pipeline.export_counts(trained, f"s3://nobucket/c.tsv?{store.query}")
    with pytest.raises(InputError, match=r"none\.tsv\S* cannot be read"):
        bpe_pipeline.import_counts(store.uri("none.tsv"), output=tmp_path / "other")
    with pytest.raises(UsageError, match="is no file of counts: expected a path, or a URI of a known scheme"):
        bpe_pipeline.import_counts("s4://bucket/c.tsv", output=tmp_path / "other")


@pytest.mark.parametrize("factor", [1, 1 << 33])
def test_training_on_a_mapping_gives_the_reference_merges(factor: int, tmp_path: Path) -> None:
    counts = {word: factor * n for word, n in {"low": 5, "lower": 2, "widest": 3, "newest": 6}.items()} | {"th": 5}
    tokenizer = bpe_pipeline.train_from_counts(counts, output=tmp_path / "run", vocab_size=263)
    expected = train_reference({pre_token.encode(): count for pre_token, count in counts.items()}, 6)
    assert tokenizer.merges == [(tokenizer.vocab[a], tokenizer.vocab[b]) for a, b, _ in expected]
    table = pa.table({"pre_token": list(counts), "count": list(counts.values())})
    again = bpe_pipeline.train_from_counts(table, output=tmp_path / "table", vocab_size=263)
    assert again.merges == tokenizer.merges
    reordered = dict(reversed(counts.items()))
    assert bpe_pipeline.import_counts(reordered, output=tmp_path / "run") == tmp_path / "run"  # the same counts, kept


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.tsv")
    (tmp_path / "kept.tsv").write_text("a\t1\n")
    with (tmp_path / "kept.tsv").open("rb") as kept:
        pipes = tmp_path / "c.tsv", Path("/dev/null"), Path(f"/dev/fd/{kept.fileno()}")
        refusals = {pipe: f"{pipe} is not a regular file: save its content to a file" for pipe in pipes}
        refusals |= {3: "given as int", ("a.tsv", "a.tsv"): "named twice", "none.tsv": r"none\.tsv cannot be read"}
        for counts, message in refusals.items():
            with pytest.raises((InputError, UsageError), match=message):
                bpe_pipeline.import_counts(counts, output=tmp_path / "run", workers=1)
