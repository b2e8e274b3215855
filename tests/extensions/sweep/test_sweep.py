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
from command import refused, run, succeeded
from killing import ended, kill, start
from pyarrow import parquet

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.extensions.sweep.options import SweepOptions
from bpe_pipeline.extensions.sweep.rule import recommend
from bpe_pipeline.extensions.sweep.sweep import SWEEP
from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.make_options import make_options
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


WORDS = ["sweep", "runs/a", "runs/b", "--weight", "a=1,2.5", "--weight", "b=1,0"]
WORDS += ["--held-out", "held.txt", "--vocab-size", "300,400,600"]


@pytest.fixture(scope="module")
def swept(home: Path) -> Path:
    succeeded(run(*WORDS, "--output", "sweep", "--workers", 1, cwd=home))
    return home / "sweep"


def _points(swept: Path) -> dict[tuple[str, int], Point]:
    values = json.loads((swept / "sweep.json").read_text())["points"]
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
    mixture = swept / "mixtures" / chosen.mixture
    made = bpe_pipeline.merge(mixture, vocab_size=chosen.vocab_size)
    assert bpe_pipeline.load(mixture / "tokenizer").merges == made[chosen.vocab_size].merges


def test_the_report_of_the_recommended_tokenizer_has_the_table(swept: Path) -> None:
    chosen = recommend(list(_points(swept).values()))
    mixture = swept / "mixtures" / chosen.mixture
    [section] = json.loads((mixture / "report.json").read_text())["sections"]
    assert section["tables"][0]["headers"] == ["mixture", "300", "400", "600"]
    assert [row[0] for row in section["tables"][0]["rows"]] == ["a-x1+b-x1", "a-x1", "a-x2.5+b-x1"]
    page = (mixture / "report.html").read_text()
    assert "Bytes per token, the geometric mean of the texts" in page
    assert 'id="heat-map"' in page


def test_names_of_runs_are_text_in_the_report(home: Path, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>{{ 7 * 7 }}\u202e" + "n" * 210  # with weights too long for a directory
    run_directory = shutil.copytree(home / "runs" / "a", tmp_path / name)
    swept = bpe_pipeline.sweep([run_directory, home / "runs" / "b"], vocab_size=280, output=tmp_path / "sweep")
    page = (swept.tokenizer.parent / "report.html").read_text()
    assert "<img" not in page
    assert "\u202e" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;{{ 7 * 7 }}" in page


def test_workers_and_memory_change_no_number(home: Path, swept: Path, tmp_path: Path) -> None:
    words = [*WORDS, "--output", tmp_path / "sweep", "--workers", 3, "--memory-limit", "300MiB"]
    succeeded(run(*words, cwd=home))
    assert _points(tmp_path / "sweep") == _points(swept)
    for path in swept.rglob("merges.parquet"):
        other = tmp_path / "sweep" / path.relative_to(swept)
        assert parquet.read_table(path).equals(parquet.read_table(other))


def test_an_interrupted_sweep_learns_what_it_lacks(home: Path, swept: Path, tmp_path: Path) -> None:
    output = shutil.copytree(swept, tmp_path / "sweep")
    Directory(output, SWEEP).write_manifest({"points": []})
    assert "warning" not in succeeded(run("merge", output / "mixtures/a-x1", "--vocab-size", 600)).stderr
    for name in ("sweep.parquet", "mixtures/a-x1/merges.parquet", "mixtures/a-x2.5+b-x1/counter.parquet"):
        (output / name).unlink()
    (output / ".sweep.parquet.elsewhere-1.partial").touch()  # of a process that was killed on another machine
    words = [*WORDS, "--output", output]
    assert run(*words, "--quiet", cwd=home).stdout == run(
        *WORDS, "--output", "sweep", "--quiet", cwd=home
    ).stdout.replace("sweep/", f"{output}/", 1)
    assert _points(output) == _points(swept)
    assert (output / "sweep.parquet").exists()
    assert not list(output.glob(".*.partial"))
    before = {path: path.stat().st_mtime_ns for path in output.rglob("merges.parquet")}
    succeeded(run(*words, "--vocab-size", "500", "--workers", 2, cwd=home))
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
    words = ["sweep", home / "runs/a", "--vocab-size", 300, "--output", tmp_path / "sweep"]
    result = succeeded(run(*words, *(word for copy in copies for word in ("--held-out", copy))))
    assert re.search("--held-out names text that was counted, which is left out: .*copy.txt", result.stderr)
    table = parquet.read_table(tmp_path / "sweep/sweep.parquet")
    assert dict(zip(table["text"].to_pylist(), table["kind"].to_pylist(), strict=True)) == {
        "a": "source",
        "other.txt": "held out",
    }


def _names(home: Path, output: Path, weights: dict[str, list[str]]) -> list[str]:
    runs = [home / "runs" / name for name in ("a", "b")]
    swept = bpe_pipeline.sweep(runs, weights=weights, vocab_size=280, output=output)
    return list(dict.fromkeys(point.mixture for point in swept.points))


def test_mixtures_are_all_choices_of_weights(home: Path, tmp_path: Path) -> None:
    chosen = ["a-x3+b-x1", "a-x1.5+b-x1", "b-x1", "a-x1+b-x1"]
    assert _names(home, tmp_path, {"a": ["3", "1.5", "0", "1"]}) == chosen
    for by in (Fraction(10), Fraction(1, 3)):
        scaled = {"a": [str(Fraction(one) * by) for one in ("3", "1.5", "0", "1")], "b": [str(by)]}
        assert _names(home, tmp_path, scaled) == chosen  # the smallest is 1
    for wrong in ({"d": 1}, {"a": [0], "b": [0]}, {"a": list(range(300))}):
        with pytest.raises(UsageError, match="--weight"):
            bpe_pipeline.sweep(home / "runs/a", weights=wrong, vocab_size=280, output=tmp_path)


@pytest.mark.parametrize("wrong", [["a"], ["a=x"], ["a=-1"], {"a": "1/0"}])
def test_weights_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="weight"):
        make_options(SweepOptions, {"runs": "a", "weights": wrong})


def test_weights_of_a_run_that_is_named_twice_add_up() -> None:
    options = make_options(SweepOptions, {"runs": "a", "weights": ("a b=1,1/3", "c=2", "a b=0")})
    assert options.weights == {"a b": [Fraction(1), Fraction(1, 3), Fraction(0)], "c": [Fraction(2)]}


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
        mixture = {
            short[one.rpartition("-x")[0].rpartition("_")[2]]: one.rpartition("-x")[2]
            for one in chosen.mixture.split("+")
        }
        found.append((mixture, chosen.vocab_size, chosen.rate, evidence, rare_merges))
    assert found == [found[0]] * 3


def test_what_does_not_fit_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine" / "mixtures").mkdir(parents=True)
    (tmp_path / "mine" / "mixtures" / "x").write_text("mine")
    succeeded(run("count", "a.txt", "--pattern", "llama3", "--output", "runs/other", cwd=home))
    new = ("--output", tmp_path / "new")
    for code, message, *words in (
        (2, "--output"),
        (2, "have both counted", "runs/a", *new),
        (2, "--held-out: all of it was counted", "--held-out", "a.txt", "--vocab-size", 300, *new),
        (1, "a.txt is a file; name a directory", "a.txt", *new),
        (1, "runs/a is a run", "--output", "runs/a"),
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
    tokenizer = tmp_path / "x" / "mixtures" / "a-x1" / "tokenizer"
    assert (tokenizer / "vocab.json").exists()
    (tokenizer / "mine.txt").write_text("somebody's")
    again = [*words, "--min-frequency", 2, "--export", "hf"]
    assert "--overwrite" in refused(run(*again, cwd=home), 1)
    succeeded(run(*again, "--overwrite", cwd=home))
    names = {path.name for path in tokenizer.iterdir()}
    names -= {"README.md"}
    assert names == {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "mine.txt"}
    assert len(_points(tmp_path / "x")) == 2
    (tmp_path / "x" / "sweep.json").write_text("{}")
    assert "start again with --overwrite" in refused(run(*again, cwd=home), 1)
    succeeded(run(*again, "--overwrite", cwd=home))
    assert (tokenizer / "mine.txt").read_text() == "somebody's"
