"""Samples of a corpus: bounded, repeatable, of whole characters, and of every format."""

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bpe_pipeline
from bpe_pipeline.corpus.listing import find_files
from bpe_pipeline.corpus.sampling import choose, read_chosen


def test_samples_are_bounded_and_repeatable(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"wörd{number} " * 20_000)
    (tmp_path / "small.txt").write_text("whole text")
    files = find_files([str(tmp_path)]).files
    chosen = choose(files, 1 << 16)
    assert chosen == choose(files, 1 << 16)
    assert chosen != choose(files, 1 << 16, seed=1)
    drawn = read_chosen(chosen, "text")
    assert 0.8 * (1 << 16) < sum(len(one.text.encode()) for one in drawn) <= 1 << 16
    words = {word for one in drawn for word in one.text.split()}
    assert words <= {"whole", "text", *(f"wörd{number}" for number in range(5))}
    (tmp_path / "1.txt").unlink()
    left = read_chosen(chosen, "text")
    assert 0 < len(left) < len(drawn)
    with pytest.raises(bpe_pipeline.PipelineError, match=re.escape("1.txt cannot be read")):
        read_chosen(chosen, "text", skip_changed=False)
    assert choose([], 100) == []


def test_no_character_is_cut_where_a_sample_ends(tmp_path: Path) -> None:
    """Text without spaces, in plain files and in records."""
    (tmp_path / "plain.txt").write_text("夜の海" * 20_000)
    (tmp_path / "records.jsonl").write_text(json.dumps({"text": "a" + "夜の海" * 20_000}, ensure_ascii=False))
    for name in ("plain.txt", "records.jsonl"):
        drawn = read_chosen(choose(find_files([str(tmp_path / name)]).files, 1 << 14), "text")
        assert 0.8 * (1 << 14) < sum(len(one.text.encode()) for one in drawn) <= 1 << 14
        assert sum(one.replaced + one.text.count("\ufffd") for one in drawn) == 0


def test_a_sample_of_small_files_is_as_large_as_asked_for(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text("a few words " * 200 * (1 + number % 5))
    files = find_files([str(tmp_path)]).files
    total = sum(file.size for file in files)
    for wanted in (total // 10, total // 2, total, 2 * total):
        drawn = sum(len(one.text.encode()) for one in read_chosen(choose(files, wanted), "text"))
        assert 0.9 * min(wanted, total) <= drawn <= min(1.3 * wanted, total)


def test_a_sample_of_files_that_fit_is_all_of_them_in_any_order_and_cut(tmp_path: Path) -> None:
    parts = [f"{number} is a number\n" * number for number in range(1, 60)]
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole/all.txt").write_text("".join(parts))
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(parts):
        (tmp_path / "parts" / f"{number:02}.txt").write_text(part)
    size = (tmp_path / "whole/all.txt").stat().st_size
    for folder in ("whole", "parts"):
        files = find_files([str(tmp_path / folder)]).files
        for listed in (files, files[::-1]):
            drawn = sorted(read_chosen(choose(listed, size), "text"), key=lambda one: one.path)
            assert "".join(one.text for one in drawn) == "".join(parts)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl", "a.parquet"])
def test_formats_without_random_access_are_sampled_from_the_start(name: str, tmp_path: Path) -> None:
    texts = [f"document {number} " * 50 for number in range(400)]
    path = tmp_path / name
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    pq.write_table(pa.table({"text": texts}), path)
    if not name.endswith(".parquet"):
        path.write_bytes(lines.encode() if name.endswith(".jsonl") else gzip.compress("".join(texts).encode(), mtime=0))
    chosen = choose(find_files([str(path)]).files, 1 << 12)
    drawn = read_chosen(chosen, "text")
    joined = "".join(one.text for one in drawn)
    assert {one.path for one in drawn} == {str(path)}
    assert "".join(texts).startswith(joined)
    assert len(joined) == sum(one.stretch_bytes * len(one.starts) for one in chosen) == 1 << 12
