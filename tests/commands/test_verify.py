"""Verifying: a right run passes, and whatever was tampered with is found and named."""

import errno
import json
import os
import random
import shutil
import tempfile
from array import array
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import peers
import pyarrow.parquet as pq
import pytest
from command import files_in, refused, run, succeeded

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.base import system
from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, StorageError
from bpe_pipeline.merges import merge_list
from bpe_pipeline.merges.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("good")
    (home / "a.txt").write_text(peers.generated_text(8, 20_000))
    bpe_pipeline.train(home / "a.txt", output=home / "run", vocab_size=[420, 360], chunk_size="50KiB", workers=2)
    return home / "run"


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "run"))


def test_intact_run_passes(good: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in good.rglob("*")}
    result = succeeded(run("verify", good))
    assert "163; the checksum is right" in result.stdout
    assert "chunks' counters" in result.stdout
    assert "tokenizer-360" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in good.rglob("*")} == before


def rewrite(path: Path, change: Callable[[dict[str, list[Any]]], object], *, exhausted: bool | None = None) -> None:
    """Change a file's rows, as somebody who knows the format would: checksums, metadata and seal are right again."""
    with pq.ParquetFile(path) as file:
        columns, stored = file.read().to_pydict(), file.metadata.metadata
    change(columns)
    fingerprint = stored[b"fingerprint"].decode()
    before = merge_list.load(path, fingerprint)
    assert before is not None
    vocabulary = Vocabulary.from_merges(zip(columns["left"], columns["right"], strict=True))
    changed = {"left": vocabulary.left, "right": vocabulary.right} | ({} if exhausted is None else {"exhausted": True})
    changed |= {"counts": array("Q", columns["count"]), "joined": array("Q", columns["joined"])}
    merge_list.save(replace(before, **changed), path, fingerprint)


def swap(columns: dict[str, list[Any]], rank: int) -> None:
    for values in columns.values():
        values[rank], values[rank + 1] = values[rank + 1], values[rank]


def swap_merges(file: Path) -> None:
    """Swap two merges of different counts, of which the second does not need the first."""
    rows = pq.read_table(file).to_pylist()
    ranks = (
        rank
        for rank, (one, other) in enumerate(pairwise(rows))
        if rank >= 50 and one["count"] != other["count"]
        if one["left"] + one["right"] not in (other["left"], other["right"])
    )
    rewrite(file, lambda columns: swap(columns, next(ranks)))


def drop_last(columns: dict[str, list[Any]]) -> None:
    columns |= {name: values[:-1] for name, values in columns.items()}


def flip_bit(file: Path, seed: int) -> None:
    """In the first third of a file, which is pages, not metadata."""
    source, damaged = random.Random(seed), bytearray(file.read_bytes())
    damaged[source.randrange(60, len(damaged) // 3)] ^= 1 << source.randrange(8)
    file.write_bytes(damaged)


def edit(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


MERGES, CONFIG, MODEL = "merges.parquet", "tokenizer/tokenizer_config.json", "tokenizer/tokenizer.json"
DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    (MERGES, swap_merges, "is not what the merge list gives"),
    (MERGES, lambda file: rewrite(file, drop_last), "needs 163 merges, but the list ends after 162"),
    (MERGES, lambda file: rewrite(file, drop_last, exhausted=True), "is not what the merge list gives"),
    (MERGES, Path.unlink, r"merges\.parquet is missing, but .*tokenizer exists"),
    ("counts/000000-*.parquet", Path.unlink, r"000000-\w{16}\.parquet is missing"),
    ("tokenizer-360/merges.txt", lambda file: file.write_text("#version: 0.2\na b\n"), "not what the merge list gives"),
    (MODEL, lambda file: edit(file), "tokenizer.json is not what the merge list gives"),  # the same in other words
    (CONFIG, lambda file: edit(file, pad_token="<none>"), "config.json: pad_token names '<none>', which is not one of"),
    (CONFIG, lambda file: edit(file, additional_special_tokens=["<none>"]), r"json: \w+ names '<none>', which is not"),
]
for _name in ("counter.parquet", "counts/000000-*.parquet", MERGES, MODEL):
    _message = Path(_name).name.replace("*", r"\w{16}")
    DAMAGES += [(_name, lambda file, seed=seed: flip_bit(file, seed), _message) for seed in range(2)]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_damage_is_found(copy: Path, name: str, damage: Callable[[Path], object], message: str) -> None:
    damage(*copy.glob(name))
    with pytest.raises(PipelineError, match=message):
        bpe_pipeline.verify(copy)


@pytest.mark.parametrize(("name", "size"), [("tokenizer", 420), ("tokenizer-360", 360)])
@pytest.mark.parametrize("file", ["", "vocab.json", "tokenizer.tiktoken"])
def test_files_of_a_tokenizer_that_are_missing_are_named(copy: Path, name: str, size: int, file: str) -> None:
    before = files_in(copy / name)
    (copy / name / file).unlink() if file else shutil.rmtree(copy / name)
    with pytest.raises(RunDirectoryError, match=rf"{name}/{file or '[mR]'}.* is missing.* --vocab-size {size}` writes"):
        bpe_pipeline.verify(copy)
    bpe_pipeline.merge(copy, vocab_size=size)
    made = files_in(copy / name)
    assert {file: made[file] for file in before} == before
    assert made.keys() - before.keys() <= {"README.md"}  # of the report, which is now that of this size
    bpe_pipeline.verify(copy)


def _set(**values: object) -> Callable[[str], str]:
    return lambda text: json.dumps(json.loads(text or "{}") | values, indent=2)


EDITED = "edited, with tokens that exist: "
CONFIG_VALUES = (
    {"eos_token": "<|im_end|>"}, {"pad_token": {"content": "<|endoftext|>"}, "model_max_length": 2048},
    {"auto_map": {"AutoTokenizer": ["a.B", None]}}, {"chat_template": "{{ messages }}"},
)  # fmt: skip


@pytest.mark.parametrize(("name", "change", "said"), [
    *(("tokenizer_config.json", _set(**values), EDITED) for values in CONFIG_VALUES),
    ("special_tokens_map.json", _set(pad_token="<|im_end|>"), EDITED),
    ("generation_config.json", _set(eos_token_id=[1], temperature=0.6), EDITED),
    ("README.md", lambda text: text + "More.", EDITED),
    ("chat_template.jinja", lambda _: "{{ messages }}", "not of this run: "),
    ("tokenizer.json", lambda text: text, "as they were written: README.md; "),
])  # fmt: skip
def test_every_file_of_a_tokenizer_is_compared(name: str, change: Any, said: str, with_template: Path) -> None:
    file = with_template / "tokenizer" / name
    file.write_text(change(file.read_text() if file.exists() else ""))
    verdict = bpe_pipeline.verify(with_template)["tokenizer"]
    assert (said if said.endswith("; ") else said + name) in verdict + "; "
    if said == EDITED:
        assert name not in verdict.partition(";")[2].partition(";")[0]
    else:
        assert "edited" not in verdict


def test_deleted_model_card_is_missing_until_merge_writes_it_again(with_template: Path) -> None:
    card = with_template / "tokenizer" / "README.md"
    card.unlink()
    with pytest.raises(RunDirectoryError, match=r"README.md was written by this run and is missing; .*merge .* again"):
        bpe_pipeline.verify(with_template)
    bpe_pipeline.merge(with_template, chat_template="chatml")
    assert card.exists()
    bpe_pipeline.verify(with_template)


@pytest.fixture(scope="module")
def made_with_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("template")
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bpe_pipeline.combine({"low": 5, "wide": 4}, output=home / "run", special_tokens=marks)
    bpe_pipeline.merge(home / "run", vocab_size=270, chat_template="chatml")
    return home / "run"


@pytest.fixture
def with_template(made_with_template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_with_template, tmp_path / "run"))


def test_export_into_a_run_is_what_verify_compares_with(with_template: Path) -> None:
    succeeded(run("export", with_template, "--export", "hf", "--bos-token", "<|im_start|>", "--add-bos"))
    (with_template / "tokenizer-5").mkdir()
    (with_template / "tokenizer-5" / "notes.txt").write_text("somebody else's")
    verified = bpe_pipeline.verify(with_template)
    assert verified["tokenizer-5"].startswith("not one of this run's")
    assert "edited" not in verified["tokenizer"]
    assert "missing" not in verified["tokenizer"]
    tokenizer = Tokenizer.load(with_template)
    assert tokenizer.encode("low")[0] == tokenizer.special_tokens["<|im_start|>"]
    bpe_pipeline.merge(with_template, vocab_size=262)
    before = files_in(with_template / "tokenizer-262")
    other = ("export", with_template, "--output", with_template / "tokenizer-262")
    assert "tokenizer-262 holds another tokenizer of the run" in refused(run(*other), 2)
    assert files_in(with_template / "tokenizer-262") == before


def test_an_edited_card_stays_when_a_run_starts_again(with_template: Path) -> None:
    for size in (263, 262):
        bpe_pipeline.merge(with_template, vocab_size=size)
    (with_template / "tokenizer-262" / "README.md").write_text("my own")
    bpe_pipeline.merge(with_template, vocab_size=264, overwrite=True)
    assert not (with_template / "tokenizer-263").exists()
    assert [path.name for path in (with_template / "tokenizer-262").iterdir()] == ["README.md"]


def test_unreadable_tokenizer_is_named(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system says it of a directory without permissions; for root there are none that hold."""
    refused, stat = Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")), Path.stat
    inside = copy / "tokenizer"
    monkeypatch.setattr(Path, "stat", lambda path, **how: (refused if path.parent == inside else stat)(path, **how))
    with pytest.raises(StorageError, match=r"tokenizer/\S+ cannot be read: Permission denied; make it readable"):
        bpe_pipeline.verify(copy)


def test_counts_alone_and_counts_of_other_runs(good: Path, tmp_path: Path) -> None:
    mixed = bpe_pipeline.combine([good], [3], output=tmp_path / "mix")
    assert bpe_pipeline.verify(mixed)["merges"] == "none were learned yet"
    bpe_pipeline.merge(mixed, vocab_size=300)
    assert "the checksum is right" in bpe_pipeline.verify(mixed)["merges"]


@pytest.mark.parametrize(("owner", "name"), [(system, "flush"), (tempfile, "TemporaryDirectory")])
def test_unwritable_temporary_files_are_named(owner: Any, name: str, good: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(owner, name, Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    told = "No space left on device; free disk space, or name another directory with TMPDIR"
    with pytest.raises(StorageError, match=told):
        bpe_pipeline.verify(good)
