"""`--weight` of INPUTs: the same counts as `combine` of runs that were counted apart, and nothing is counted again."""

import json
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import oracle_counting
import pytest
from command import refused, run_here
from counter_files import read

import pipeline
from pipeline.base.errors import RunDirectoryError, UsageError
from pipeline.counts import counter_file
from pipeline.report.tables import report_header
from pipeline.run import manifest

pytestmark = pytest.mark.usefixtures("in_process")
WEIGHTS = ("1/3", "2.5", "1")


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """Two directories and a file, with pieces in common, several times in each."""
    generator = random.Random(5)
    for name, files in (("a", 3), ("b", 2)):
        (tmp_path / name).mkdir()
        for index in range(files):
            (tmp_path / name / f"{index}.txt").write_text(
                " ".join(generator.choices(["low", "lower", "newest", "w"], k=99))
            )
    (tmp_path / "c.txt").write_text("low\nwidest " * 20)
    return [tmp_path / "a", tmp_path / "b", tmp_path / "c.txt"]


def expected(inputs: list[Path], weights: tuple[str, ...]) -> Counter[bytes]:
    """By the definition: the counts of an INPUT times its weight, rounded half up once, never below 1; 0 leaves out."""
    total = Counter()
    for path, weight in zip(inputs, map(Fraction, weights), strict=True):
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        counts = sum((oracle_counting.count(file.read_bytes()) for file in files), Counter())
        half_up = {piece: max(int(weight * count + Fraction(1, 2)), 1) for piece, count in counts.items()}
        total.update(half_up if weight else {})
    return total


@pytest.mark.parametrize("weights", [WEIGHTS, ("0", "1/7", "1"), ("1/1000", "1/1000", "1/9")])
def test_weights_give_what_combine_gives_for_any_chunks(inputs: list[Path], tmp_path: Path, weights: list[str]) -> None:
    right, words = expected(inputs, weights), [word for weight in weights for word in ("--weight", weight)]
    for chunk_size, workers in ((1 << 20, 1), (300, 2), (90, 3)):
        run = tmp_path / f"run-{chunk_size}"
        options = ["--chunk-size", chunk_size, "--workers", workers, "--output", run]
        assert run_here("count", *inputs, *words, *options).returncode == 0
        assert read(run / "counter.parquet") == right
        assert "their sum, " in pipeline.verify_run(run)["chunks' counters"]
    apart = [tmp_path / f"apart-{index}" for index, weight in enumerate(weights) if weight != "0"]
    for run in apart:
        assert run_here("count", inputs[int(run.name[-1])], "--output", run).returncode == 0
    mixed = pipeline.combine_runs(apart, [one for one in weights if one != "0"], output=tmp_path / "mixed")
    assert read(mixed / "counter.parquet") == right


def test_merge_takes_other_weights_without_counting_again(inputs: list[Path], tmp_path: Path) -> None:
    run, words = tmp_path / "run", [word for weight in WEIGHTS for word in ("--weight", weight)]
    wanted = [expected(inputs, weights) for weights in (("1", "1", "1"), WEIGHTS)]
    train = ["train", *inputs, "--output", run, "--vocab-size", 265, "--chunk-size", 300]
    assert run_here(*train).returncode == 0
    assert read(run / "counter.parquet") == wanted[0]
    for path in inputs:
        path.rename(f"{path}.away")
    assert "its merging was done without --weight, not with '1/3' '5/2' '1'" in refused(
        run_here("merge", run, *words), 1
    )
    assert read(run / "counter.parquet") == wanted[0]
    merged = run_here("merge", run, *words, "--overwrite")
    shown = f"{inputs[0]} x 1/3 + {inputs[1]} x 2.5 + {inputs[2]} x 1"
    assert f"weights {shown}" in merged.stdout
    assert "counting kept" in merged.stdout
    assert read(run / "counter.parquet") == wanted[1]
    facts = json.loads((run / "report.json").read_text())["corpus"]
    assert (facts["weights"], facts["pieces"]) == (shown, wanted[1].total())
    header = report_header(manifest.require(run), run / "tokenizer", json.loads((run / "report.json").read_text()))
    assert ("weights", shown) in header.corpus
    assert f"weights      {shown}" in run_here("info", run).stdout
    assert run_here("report", run).returncode == 0
    assert run_here("merge", run, "--vocab-size", 262).returncode == 0  # with the weights that it has
    rounded = run_here("merge", run, "--vocab-size", 261, "--special-token", "<|im_end|>")
    assert "how often '<|im_end|>' was counted as text is unknown" in rounded.stderr
    assert shown in run_here("verify", run).stdout
    for path in inputs:
        Path(f"{path}.away").rename(path)
    assert "with --weight '1/3' '5/2' '1', not without it" in refused(run_here(*train), 1)
    turned = [inputs[2], *inputs[:2]], ["--weight", "1", *words[:4]]
    again = run_here("train", *turned[0], *turned[1], *train[-6:])
    assert "counting kept, merging kept" in again.stdout, again.stderr
    more = tmp_path / "more.txt"
    more.write_text("lowest " * 9)
    added = run_here("train", *inputs, more, *words, "--weight", "4", *train[-6:])
    assert added.returncode == 0, added.stderr
    assert read(run / "counter.parquet") == expected([*inputs, more], (*WEIGHTS, "4"))


def test_verify_finds_a_wrong_sum_of_an_input(inputs: list[Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    pipeline.train(inputs, output=run, weights=WEIGHTS, chunk_size=300, vocab_size=265)
    kept, other = run / "counts" / "input-000.parquet", run / "counts" / "input-001.parquet"
    with counter_file.open_counter(kept) as right, counter_file.open_counter(other) as wrong:
        mark, columns, statistics = right.fingerprint, list(wrong.read_all()), wrong.statistics
    counter_file.write_counter(kept, iter(columns), fingerprint=mark, statistics=statistics)
    with pytest.raises(RunDirectoryError, match="is not the sum of the counters"):
        pipeline.verify_run(run)


@pytest.mark.parametrize(
    ("weights", "more", "error"),
    [
        (["1"], {}, "1 weight for 3 inputs: give one for each, and quote globs"),
        (["0", "0", "0"], {}, "not all of them 0"),
        (["1", "2", "3"], {"superwords_from": 260}, "`combine` these runs with --weight"),
    ],
)
def test_weights_that_do_not_fit_are_refused_before_counting(inputs, tmp_path, weights, more, error) -> None:
    with pytest.raises(UsageError, match=error):
        pipeline.train(inputs, output=tmp_path / "run", weights=weights, vocab_size=265, **more)
    assert not (tmp_path / "run").exists()


def test_weights_are_refused_where_inputs_are_not_counted_apart(inputs: list[Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    for doing, error in {
        lambda: pipeline.train([*inputs, inputs[0] / "1.txt"], weights=[1, 1, 1, 2], output=run): "has files that an",
        lambda: pipeline.train_from_iterator(["low"], weights=[1], output=run): "mean nothing for an iterator",
        lambda: pipeline.import_counts({"low": 1}, weights=[1], output=run): "mean nothing where counts are given",
        lambda: pipeline.merge_run(pipeline.import_counts({"low": 1}, output=run), weights=[2]): "has no inputs",
    }.items():
        with pytest.raises(UsageError, match=error):
            doing()
    many = []
    for index in range(33):
        many.append(tmp_path / f"{index}.txt")
        many[-1].write_text(f"low low {index}")
    weights = [*["1"] * 32, "3"]
    pipeline.train(many, output=tmp_path / "many", vocab_size=258)
    with pytest.raises(UsageError, match="are not kept apart; name at most 256"):
        pipeline.merge_run(tmp_path / "many", weights=weights, overwrite=True)
    pipeline.train(many, output=tmp_path / "many", vocab_size=258, weights=weights, overwrite=True)
    assert read(tmp_path / "many" / "counter.parquet")[b"low"] == 35


def test_superwords_of_runs_with_weights_are_refused(inputs: list[Path], tmp_path: Path) -> None:
    pipeline.train(inputs, output=tmp_path / "run", weights=WEIGHTS, vocab_size=265)
    mixed = pipeline.combine_runs([tmp_path / "run"], output=tmp_path / "mixed")
    for run in (tmp_path / "run", mixed):
        with pytest.raises(UsageError, match="`combine` these runs with --weight"):
            pipeline.merge_run(run, vocab_size=265, superwords_from=260, overwrite=True)
