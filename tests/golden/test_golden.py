"""Golden files: 300 runs make what commit 9aa37f0 made; 133 of them, which named an option that goes, what 31bd3c21
made without it. hashes.json names what each run is given, between bars.
Weights are relative now: a run of one INPUT with `--weight 1/3` makes what that commit made with weight 1. Names of
ways to merge (`disk-300`, `resumed`) say how the core merged once more: tests/merges compares these ways.

`PYTHONPATH=tests/support python tests/golden/test_golden.py` runs them and writes their hashes again.
"""

import hashlib
import itertools
import json
import shlex
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tasks_here
from command import run, succeeded
from corpora import chat_rows, corpus, sample

import bpe_pipeline

HASHES = Path(__file__).with_name("hashes.json")
PRIVATE = "made-from.json", ".lock", "README.md"  # or for people
PARITY = {"--window": "window", "--alpha": "alpha", "--global-merges": "global_merges"}  # which have no flags
BY_DEFAULT = {"train": 22, "parity": 5, "adapt": 5, "chat": 4}  # the first runs of each kind; the others are slow


def _cases() -> list[Any]:
    numbers, cases = Counter[str](), []
    for name, hashes in json.loads(HASHES.read_text(encoding="utf-8")).items():
        kind, corpus = name.split()[:3:2]
        numbers[kind] += 1
        slow = [pytest.mark.slow] * (numbers[kind] > BY_DEFAULT[kind])
        cases.append(pytest.param(name, hashes, marks=slow, id=f"{kind}-{numbers[kind]}-{corpus}"))
    return cases


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("name", "hashes"), _cases())
def test_same_bytes_as_before(name: str, hashes: dict[str, str], tmp_path: Path) -> None:
    assert made(name, tmp_path) == hashes


def made(name: str, home: Path) -> dict[str, str]:
    """Run a case in an empty directory; return the hashes of what it made."""
    kind, *rest = (shlex.split(part) for part in name.split(" | "))
    texts = []
    for number, text in enumerate(rest[0]):
        texts.append(home / f"{number}-{text}{'' if '.' in text else '.txt'}")
        texts[-1].write_bytes(corpus(text))
    return {"train": _train, "parity": _parity, "adapt": _adapt, "chat": _chat}[kind[0]](home, texts, *rest[1:])


def _train(
    home: Path, texts: list[Path], counting: list[str], merging: list[str], how: list[str], shards: list[str]
) -> dict[str, str]:
    way = how[0]
    if "--superword-colon" in merging:  # which has no flag
        (home / "colon.yaml").write_text("superword_colon: true")
        at = merging.index("--superword-colon")
        merging = [*merging[:at], "--config", str(home / "colon.yaml"), *merging[at + 1 :]]
    counted, superwords = home / "run", "--superwords-from" in merging
    if superwords:
        counted = home / "run-first-stage"
    if way == "train":
        _command("train", *texts, *counting, *merging, output=home / "run")
    elif superwords:
        _superwords_of_two_runs(home, texts, counting, merging, way.partition("after-")[2])
    else:
        _command("count", *texts, *counting, *merging[-2:], output=home / "run")
        if way != "count-merge":  # a vocabulary of another size before, whose merges may be used
            _command("merge", home / "run", "--vocab-size", way[6:], *merging[2:])
        _command("merge", home / "run", *merging)
    found = _hashes(home / "run", counted)
    if shards != ["no-shards"]:
        _command("encode", *texts, "--tokenizer", home / "run", *shards, *merging[-2:], output=home / "shards")
        found |= _of_files(home / "shards", "**/*[0-9].*")
    return found


def _superwords_of_two_runs(
    home: Path, texts: list[Path], counting: list[str], merging: list[str], before: str
) -> None:
    """Count both stages and merge them; what is of the second stage alone goes to its merging, and the other way."""
    values = dict(zip(merging, [*merging[1:], ""], strict=True))
    of_second = {"--superwords-from": 1, "--superword-words": 1, "--config": 1, "--vocab-size": 1}
    both = _without(merging, {**of_second, "--min-pre-token-count": 1})
    rare = [word for name in ["--min-pre-token-count"] if name in merging for word in (name, values[name])]
    size, share = int(values["--vocab-size"]), values["--superwords-from"]
    first = size * int(share[:-1]) // 100 if share.endswith("%") else int(share)
    pattern = counting.index("--pattern")
    coarse = [*counting[:pattern], "--pattern", "superwords", *counting[pattern + 2 :]]
    _command("count", *texts, *counting, *merging[-2:], output=home / "run-first-stage")
    _command("count", *texts, *coarse, *merging[-2:], output=home / "run")
    _command("merge", home / "run-first-stage", "--vocab-size", first + 20, *both, *rare)
    plain = _without(merging, {"--min-pre-token-count": 1})
    for sizes in ([before] if before else []) + [values["--vocab-size"]]:
        stage = "--first-stage", home / "run-first-stage", "--vocab-size", sizes
        _command("merge", home / "run", *stage, *_without(plain, {"--vocab-size": 1}))


def _without(words: list[str], names: dict[str, int]) -> list[str]:
    """Return words without options and their values, by the numbers of these."""
    kept, rest = [], iter(words)
    for word in rest:
        if word in names:
            for _ in range(names[word]):
                next(rest)
        else:
            kept.append(word)
    return kept


def _parity(home: Path, texts: list[Path], counting: list[str], merging: list[str], how: list[str]) -> dict[str, str]:
    runs = [home / f"run-{number}" for number in range(3)]
    for path, text in zip(runs, texts, strict=True):
        _command("count", text, *counting, output=path)
    dev = (
        [*runs[1:], runs[0]]
        if how[0] == "dev"
        else []
        if {"--ratio", "--temperature", "--share"} & {*merging}
        else runs
    )
    flags = list(itertools.takewhile(lambda word: word not in PARITY, merging))
    rest = merging[len(flags) :]
    settings = {PARITY[name]: json.loads(value) for name, value in zip(rest[::2], rest[1::2], strict=True)}
    (home / "how.yaml").write_text(json.dumps(settings))
    measured = (word for one in dev for word in ("--dev", one))
    _command("parity", *runs, *measured, *flags, "--config", home / "how.yaml", output=home / "run")
    return _hashes(home / "run")


def _adapt(home: Path, texts: list[Path], counting: list[str], change: list[str]) -> dict[str, str]:
    base = home / "base" / "tokenizer"
    _command("train", texts[0], *counting, "--vocab-size", 500, output=base.parent)
    _command("count", texts[1], "--like", base, *change[-2:], output=home / "counted")
    _command(change[0], base, home / "counted", *change[1:], output=home / "run" / "tokenizer")
    return _of_tokenizers(home / "run")


def _chat(home: Path, texts: list[Path], counting: list[str], encoding: list[str]) -> dict[str, str]:
    marks = "--special-token", "<|im_start|>", "--special-token", "<|im_end|>"
    _command("train", *texts, *counting, "--vocab-size", 500, *marks, output=home / "run")
    (home / "rows.jsonl").write_text(chat_rows())
    _command("encode-chat", home / "rows.jsonl", "--tokenizer", home / "run", *encoding, output=home / "rows")
    return _of_files(home / "rows", "*.arrow")


def _command(*arguments: object, output: Path | None = None) -> None:
    succeeded(run(*arguments, *(("--output", output) if output else ()), "--quiet"))


def _rows(path: Path) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in pq.read_table(path).columns), strict=True))


def _hashes(run: Path, counted: Path | None = None) -> dict[str, str]:
    merges = [(left, right, count) for left, right, count, *_ in _rows(run / "merges.parquet")]
    counter = sorted(_rows((counted or run) / "counter.parquet"))
    return {"counter": _hash(repr(counter)), "merges": _hash(repr(merges)), **_of_tokenizers(run)}


def _of_tokenizers(home: Path) -> dict[str, str]:
    ids = bpe_pipeline.load(home / "tokenizer").encode(sample())
    return {"ids": _hash(repr(ids)), **_of_files(home, "tokenizer*/*")}


def _of_files(home: Path, pattern: str) -> dict[str, str]:
    """Hash files: of Arrow's formats the rows, of Python the values; not those for people, nor the private ones."""
    found = {}
    for path in sorted(home.glob(pattern)):
        content: str | bytes = path.read_bytes()
        if path.suffix == ".parquet":
            content = repr(pq.read_table(path).to_pydict())
        elif path.suffix == ".arrow":
            content = repr(pa.ipc.open_stream(content).read_all().to_pydict())
        elif path.suffix == ".py":
            content = path.read_text().partition("encoding = ")[2]
        if path.name == "merges.txt" or (path.suffix not in (".txt", ".html") and path.name not in PRIVATE):
            found[path.relative_to(home).as_posix()] = _hash(content)
    return found


def _hash(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


if __name__ == "__main__":
    lines = []
    for name in json.loads(HASHES.read_text(encoding="utf-8")):
        with tempfile.TemporaryDirectory() as home, tasks_here.activated():
            lines.append(f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(made(name, Path(home)))}")
    HASHES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
