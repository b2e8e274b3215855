"""A sweep's points are those of single runs, and it resumes."""

import json
import re
import shutil
import sys
import time
from contextlib import chdir
from fractions import Fraction
from pathlib import Path

import peers
import pytest
from amount import FULL
from command import refused, run, succeeded
from killing import ended, kill, start
from pyarrow import parquet

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.extensions.sweep.mixtures import mixtures_of
from bpe_pipeline.extensions.sweep.rule import recommend
from bpe_pipeline.extensions.sweep.sweep import SWEEP
from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.stored import stored

SIZES = (300, 400, 600)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sweep")
    for number, name in enumerate(("a", "b"), 1):
        (home / f"{name}.txt").write_text(peers.generated_text(number, 4000 * number) + "<|endoftext|>xyz " * number)
        succeeded(run("count", f"{name}.txt", "--output", f"runs/{name}", "--quiet", cwd=home))
    (home / "held.txt").write_text(peers.generated_text(9, 500) + "<|endoftext|>x")
    return home


WORDS = ["sweep", "runs/a", "runs/b", "--weight", "a=1,2.5 b=1,0", "--vocab-size", "300,400,600"]
WORDS += ["--held-out", "held.txt"]


@pytest.fixture(scope="module")
def swept(home: Path) -> Path:
    done = succeeded(run(*WORDS, "--output", "sweep", "--workers", 1, "--log-json", cwd=home))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["total"] for one in events if one["event"] == "stage_started" and one["stage"] == "combining"] == [3]
    return home / "sweep"


def _points(swept: Path) -> dict[tuple[str, int], Point]:
    values = json.loads((swept / "sweep.json").read_text())["points"].values()
    return {(one.mixture, one.vocab_size): one for one in (stored(Point, value) for value in values)}


def _measure(tokenizer: bpe_pipeline.Tokenizer, text: str) -> tuple[int, int]:
    """Return the bytes and tokens of a text without its separators."""
    parts = text.split("<|endoftext|>")
    return len("".join(parts).encode()), sum(len(tokenizer.encode_ordinary(part)) for part in parts)


def test_each_point_is_what_a_single_run_has(home: Path, swept: Path, tmp_path: Path) -> None:
    points = _points(swept)
    weights = {"a-x1+b-x1": (1, 1), "a-x1": (1,), "a-x2.5+b-x1": ("2.5", 1)}  # of a alone, any weight is 1
    assert {name for name, _ in points} == set(weights)
    texts = {name: (home / name).read_bytes().decode() for name in ("held.txt", "a.txt", "b.txt")}
    for name, listed in weights.items():
        runs = [home / "runs" / one for one in "ab"[: len(listed)]]
        combined = bpe_pipeline.combine(runs, weights=list(listed), output=tmp_path / name)
        tokenizers = bpe_pipeline.merge(combined, vocab_size=list(SIZES))
        report = json.loads((tmp_path / name / "report.json").read_text())
        for own in (one["vocabulary"] for one in (report, *report["other_sizes"])):
            point, tokenizer = points[name, own["vocab_size"]], tokenizers[own["vocab_size"]]
            assert point.size == tokenizer.vocab_size
            assert {(one.kind, one.name): (one.bytes, one.tokens) for one in point.measured} == {
                ("mixture", name): (own["bytes"], own["tokens"]),
                ("held out", "held.txt"): _measure(tokenizer, texts["held.txt"]),
                **{("source", one): _measure(tokenizer, texts[f"{one}.txt"]) for one in "ab"},
            }


def test_the_table_and_the_tokenizer_are_written(swept: Path) -> None:
    points = _points(swept)
    table = parquet.read_table(swept / "sweep.parquet").to_pylist()
    names = ("mixture", "vocab_size", "kind", "text", "bytes", "tokens")
    assert sorted(tuple(row[name] for name in names) for row in table) == sorted(
        (*at, own.kind, own.name, own.bytes, own.tokens) for at, point in points.items() for own in point.measured
    )
    chosen = recommend(list(points.values()))
    made = bpe_pipeline.merge(swept / "mixtures" / chosen.mixture, vocab_size=chosen.vocab_size)
    assert bpe_pipeline.load(swept / "tokenizer").merges == made[chosen.vocab_size].merges


def test_workers_and_memory_change_no_number(home: Path, swept: Path, tmp_path: Path) -> None:
    words = [*WORDS, "--output", tmp_path / "sweep", "--workers", 3, "--memory-limit", "300MiB", "--log-json"]
    result = succeeded(run(*words, cwd=home))
    assert _points(tmp_path / "sweep") == _points(swept)
    [stage] = [
        one
        for one in map(json.loads, result.stdout.splitlines())
        if one.get("stage") == "merging" and one["event"] == "stage_started"
    ]
    assert stage["total"] == 3 * (600 - 257)  # all mixtures in one stage
    for path in swept.rglob("merges.parquet"):
        other = tmp_path / "sweep" / path.relative_to(swept)
        assert parquet.read_table(path).equals(parquet.read_table(other))


@pytest.mark.parametrize("kept", [0, 1, 5, 9] if FULL else [5])
def test_an_interrupted_sweep_measures_what_it_lacks(home: Path, swept: Path, tmp_path: Path, kept: int) -> None:
    output = shutil.copytree(swept, tmp_path / "sweep")
    known = list(json.loads((output / "sweep.json").read_text())["points"].items())
    Directory(output, SWEEP).write_manifest({"points": dict(known[:kept])})
    for name in ("sweep.parquet", "mixtures/a-x1/merges.parquet", "mixtures/a-x2.5+b-x1/counter.parquet"):
        (output / name).unlink()
    (output / ".sweep.parquet.elsewhere-1.partial").touch()  # of a process that was killed on another machine
    words = [*WORDS, "--output", output]
    assert run(*words, "--quiet", cwd=home).stdout == f"{output}/tokenizer\n"
    assert _points(output) == _points(swept)
    assert (output / "sweep.parquet").exists()
    assert not list(output.glob(".*.partial"))
    before = {path: path.stat().st_mtime_ns for path in output.rglob("merges.parquet")}
    result = succeeded(run(*words, "--vocab-size", "500", "--workers", 2, cwd=home))
    assert "measuring: 12 tokenizers (9 tokenizers kept from before)" in result.stderr
    assert {path: path.stat().st_mtime_ns for path in output.rglob("merges.parquet")} == before
    assert len(_points(output)) == 12


@pytest.mark.slow
def test_a_killed_sweep_ends_with_the_same_points(home: Path, swept: Path, tmp_path: Path) -> None:
    for tenths in range(4, 40, 4):
        with chdir(home):
            process = start([sys.executable, "-P", "-m", "bpe_pipeline", *WORDS, "--output", str(tmp_path / "sweep")])
        time.sleep(tenths / 10)
        kill(process.pid, "all")
        ended(process)
    succeeded(run(*WORDS, "--output", tmp_path / "sweep", cwd=home))
    assert _points(tmp_path / "sweep") == _points(swept)
    names = [path.relative_to(swept) for path in swept.rglob("merges.parquet")]
    assert all((tmp_path / "sweep" / name).exists() for name in names)


def test_counted_text_is_not_called_held_out(home: Path, tmp_path: Path) -> None:
    copies = shutil.copy(home / "a.txt", tmp_path / "copy.txt"), shutil.copy(home / "held.txt", tmp_path / "other.txt")
    words = ["sweep", home / "runs/a", "--vocab-size", 300, "--output", tmp_path / "sweep", "--held-out"]
    result = succeeded(run(*words, *copies))  # as a shell expands *.txt
    assert re.search("--held-out names text that was counted: .*copy.txt", result.stderr)
    table = parquet.read_table(tmp_path / "sweep/sweep.parquet")
    kinds = dict(zip(table["text"].to_pylist(), table["kind"].to_pylist(), strict=True))
    assert (kinds["copy.txt"], kinds["other.txt"]) == ("counted", "held out")


def test_mixtures_are_all_choices_of_weights() -> None:
    found = mixtures_of(["a=1,1/3", "c=0,2"], ["a", "b", "c"])
    assert [one.weights for one in found] == [
        {"a": a, "b": b} | ({"c": 2 * b} if c else {}) for a, b in ((1, 1), (1, 3)) for c in (0, 2)
    ]  # the smallest is 1
    assert [one.name for one in mixtures_of(["a=1,2/3"], ["a", "b"])] == ["a-x1+b-x1", "a-x1+b-x1.5"]
    for by in ("10", "0.01", "1/3"):
        listed = [
            f"{name}={','.join(str(Fraction(one) * Fraction(by)) for one in several)}"
            for name, several in (("a", ("1", "1/3")), ("b", ("1",)), ("c", ("0", "2")))
        ]
        assert mixtures_of(listed, ["a", "b", "c"]) == found
    [long] = mixtures_of([], ["n" * 100, "m" * 100])
    assert len(long.name) < 220
    assert [one.name for one in mixtures_of(["a b=2 c=3"], ["a b", "c"])] == ["a b-x1+c-x1.5"]
    for wrong in ("d=1", "a", "a=1 a=2", "a=x", "a=-1", "a=0 b=0 c=0", "a=" + ",".join(map(str, range(1, 300)))):
        with pytest.raises(UsageError, match="--weight"):
            mixtures_of([wrong], ["a", "b", "c"])


@pytest.mark.filterwarnings("ignore:.* that other runs seem to count too")  # the texts end with the same part
def test_the_recommendation_does_not_depend_on_scale_order_names_or_files(home: Path, tmp_path: Path) -> None:
    texts = {name: (home / f"{name}.txt").read_bytes().decode() for name in ("a", "b", "held")}
    a, b, held = (texts[name].split("<|endoftext|>") for name in ("a", "b", "held"))
    for name, parts in {"a": [texts["a"]], "b": [texts["b"]], "one/x": a, "two/y": b}.items():
        for index, part in enumerate(parts):
            (tmp_path / f"{name}.d").mkdir(parents=True, exist_ok=True)
            (tmp_path / f"{name}.d" / f"{index}.txt").write_text(part)
        bpe_pipeline.count(tmp_path / f"{name}.d", output=tmp_path / name)
    found = []
    for names, weights in (
        (("a", "b"), {"a": ["1", "2.5"], "b": ["1", "5"]}),
        (("b", "a"), {"a": ["10", "25"], "b": ["10", "50"]}),
        (("one/x", "two/y"), {"x": ["1/30", "1/12"], "y": ["1/30", "1/6"]}),
    ):
        held_out = [tmp_path / f"{names[0].replace('/', '')}-{part}.txt" for part in (0, 1)]
        for path, text in zip(held_out, held if names[0] == "a" else reversed(held), strict=True):
            path.write_text(text)
        swept = bpe_pipeline.sweep(
            [tmp_path / name for name in names],
            weights=weights,
            vocab_size=[300, 400, 600],
            held_out=held_out,
            output=tmp_path / f"sweep-{names[0][0]}",
        )
        short = {name.rpartition("/")[2]: "ab"[name in ("b", "two/y")] for name in names}
        chosen = swept.recommendation
        evidence = [(one.about, one.evidence.get("saved_by_doubling")) for one in chosen.advice]
        rare_merges = sorted((point.vocab_size, point.rare_merges) for point in swept.points)
        mixture = {short[name]: by for name, by in swept.weights[chosen.mixture].items()}
        found.append((mixture, chosen.vocab_size, chosen.rate, evidence, rare_merges))
    assert found == [found[0]] * 3


def test_what_does_not_fit_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine" / "mixtures").mkdir(parents=True)
    (tmp_path / "mine" / "mixtures" / "x").write_text("mine")
    succeeded(run("count", "a.txt", "--pattern", "llama3", "--output", "runs/other", cwd=home))
    new = ("--output", tmp_path / "new")
    for code, message, *words in (
        (2, "--output"),
        (2, "runs/a is named twice", "runs/a", *new),
        (2, "--held-out a.txt", "a.txt", *new),
        (2, "one of the runs", "--output", "runs/a"),
        (2, "--weight", "--weight", "z=1", *new),
        (1, "mixtures", "--output", tmp_path / "mine"),
        (1, "--pattern", "runs/other", "--vocab-size", 300, "--output", tmp_path / "other"),
        (2, "at least 257", "--vocab-size", 200, *new),
        (1, "nosuch.jinja", "--vocab-size", 300, "--chat-template", "nosuch.jinja", *new),
        (1, "runs/b is a run (run.json)", "--vocab-size", 300, "--output", "runs/b", "--overwrite"),
    ):
        assert message in refused(run("sweep", "runs/a", *words, cwd=home), code), words
    assert not (tmp_path / "new").exists(), "nothing is computed before the options are checked"


def test_runs_with_the_same_text_are_swept_apart_but_not_together(home: Path, tmp_path: Path) -> None:
    one, same = home / "runs" / "a", shutil.copytree(home / "runs" / "a", tmp_path / "same")
    words = ["sweep", one, same, "--vocab-size", 300, "--held-out", home / "held.txt", "--output", tmp_path / "sweep"]
    message = refused(run(*words), 2)
    assert f"{one} and {same} have both counted {home / 'a.txt'}" in message
    assert not (tmp_path / "sweep" / "mixtures").exists()
    with pytest.raises(UsageError, match="sum would count twice"):
        bpe_pipeline.combine([one, same], output=tmp_path / "sum")


def test_other_options_need_overwrite_and_leave_no_file_of_another(home: Path, tmp_path: Path) -> None:
    words = ["sweep", "runs/a", "--vocab-size", "300,400", "--output", tmp_path / "x"]
    succeeded(run(*words, cwd=home))
    assert (tmp_path / "x" / "tokenizer" / "vocab.json").exists()
    (tmp_path / "x" / "tokenizer" / "tokenizer.gguf").write_text("somebody's")
    again = [*words, "--min-frequency", 2, "--export", "hf"]
    assert "--overwrite" in refused(run(*again, cwd=home), 1)
    succeeded(run(*again, "--overwrite", cwd=home))
    names = {path.name for path in (tmp_path / "x" / "tokenizer").iterdir()}
    assert names == {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.gguf"}
    assert len(_points(tmp_path / "x")) == 2
    (tmp_path / "x" / "sweep.json").write_text("{}")
    assert "start again with --overwrite" in refused(run(*again, cwd=home), 1)
    succeeded(run(*again, "--overwrite", cwd=home))
    assert (tmp_path / "x" / "tokenizer" / "tokenizer.gguf").read_text() == "somebody's"
