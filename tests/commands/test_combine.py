"""Combining runs with weights: exact arithmetic, the right sums, and refusals of what cannot be compared."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import oracle_counting
import peers
import pytest
from command import refused, run, succeeded
from counter_files import columns_of, read
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline import _core
from pipeline.base.errors import RunDirectoryError, TrainingError, UsageError
from pipeline.run import manifest
from pipeline.run.directory import Directory
from pipeline.run.manifest import RUN
from pipeline.run.values import parse_weight

COUNTS = st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(1, 1 << 40), max_size=20)
WEIGHTS = st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**6)


def weighted(count: int, weight: Fraction) -> int:
    """The definition: multiplied, rounded half up, never below 1."""
    return max(1, (2 * count * weight.numerator + weight.denominator) // (2 * weight.denominator))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(COUNTS, WEIGHTS), max_size=4), st.randoms())
def test_native_weights_are_exact_and_in_any_order(parts, random):
    expected = Counter()
    for counts, weight in parts:
        expected.update({piece: weighted(count, weight) for piece, count in counts.items()})
    random.shuffle(parts)
    columns = [columns_of(Counter(counts))[0] for counts, _ in parts]
    fractions = [(weight.numerator, weight.denominator) for _, weight in parts]
    assert oracle_counting.as_counter(_core.combine(columns, fractions)) == expected
    assert sum(_core.weighted_total(*pair) for pair in zip(columns, fractions, strict=True)) == expected.total()


def test_counts_beyond_63_bits_are_refused():
    columns = columns_of(Counter({b"a": 1 << 62}))[0]
    assert oracle_counting.as_counter(_core.combine([columns], [(199, 100)]))[b"a"] == weighted(
        1 << 62, Fraction(199, 100)
    )
    for weights in ([(2, 1)], [(10**18, 1)]):
        with pytest.raises(OverflowError):
            _core.combine([columns], weights)
        with pytest.raises(OverflowError):
            _core.weighted_total(columns, weights[0])
    for wrong in ([(0, 1)], [(1, 0)], [(1 << 62, 1)], [(1, 1), (1, 1)]):
        with pytest.raises(ValueError, match="weight"):
            _core.combine([columns], wrong)


@pytest.mark.parametrize(
    ("written", "value"),
    [("2.5", "5/2"), (2.5, "5/2"), (0.1, "1/10"), ("1/3", "1/3"), (3, "3"), ("1e3", "1000"), (Fraction(7, 2), "7/2")],
)
def test_weights_are_taken_as_written(written, value):
    assert parse_weight(written) == Fraction(value)


@pytest.mark.parametrize(
    "wrong", ["0", "-1", "1/0", "many", "", "nan", "inf", "1e99", True, None, "1" * 19, "1" * 5000]
)
def test_invalid_weights_are_refused(wrong):
    with pytest.raises(ValueError, match="above 0"):
        parse_weight(wrong)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    for name, seed in (("a", 1), ("b", 2)):
        (home / f"{name}.txt").write_text(peers.generated_text(seed, 3000))
        succeeded(run("count", home / f"{name}.txt", "--output", home / name))
    return {name: home / name for name in ("a", "b")}


def test_combine_command(runs: dict[str, Path], tmp_path: Path) -> None:
    (one, other), output = runs.values(), tmp_path / "mix"
    result = succeeded(run("combine", one, other, "--weight", "1", "--weight", "2.5", "--output", output))
    assert f"{one} x 1 + {other} x 2.5" in result.stdout
    expected = read(one / "counter.parquet")
    expected.update(
        {piece: weighted(count, Fraction(5, 2)) for piece, count in read(other / "counter.parquet").items()}
    )
    assert read(output / "counter.parquet") == expected
    facts = json.loads((output / "report.json").read_text())["corpus"]
    assert (facts["pieces"], facts["different_pieces"], facts["files"]) == (expected.total(), len(expected), 2)
    succeeded(run("merge", output, "--vocab-size", 400))
    succeeded(run("combine", other, one, "--weight", "2.5", "--weight", "1", "--output", output))  # in another order
    assert (output / "tokenizer" / "tokenizer.json").exists()
    assert "another run" in refused(run("combine", one, other, "--output", output), 1)
    for command in ("train", "count"):
        assert "not from a corpus" in refused(run(command, f"{one}.txt", "--output", output), 1)
    assert "holds no run" in refused(run("combine", tmp_path, "--output", tmp_path / "other"), 1)


def test_unweighted_combination_equals_counting_both(runs: dict[str, Path], tmp_path: Path) -> None:
    mixed = pipeline.combine_runs(list(runs.values()), output=tmp_path / "mix")
    [tokenizer] = pipeline.merge_run(mixed, vocab_size=500).values()
    files = [f"{path}.txt" for path in runs.values()]
    assert tokenizer.merges == pipeline.train(files, output=tmp_path / "both", vocab_size=500).merges
    nested = pipeline.combine_runs([mixed, runs["a"]], [1, "3"], output=tmp_path / "nested")
    straight = pipeline.combine_runs(list(runs.values()), [4, 1], output=tmp_path / "straight")
    assert read(nested / "counter.parquet") == read(straight / "counter.parquet")


def test_incomparable_runs_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    text = runs["a"].with_suffix(".txt")
    for name, options in {
        "--pattern": {"pattern": "llama3"},
        "--special-token": {"special_tokens": ["<x>"]},
        "--errors": {"errors": "skip"},
        "--max-piece-bytes": {"max_piece_bytes": 8},
    }.items():
        pipeline.train(text, output=tmp_path / "other", vocab_size=300, overwrite=True, **options)
        with pytest.raises(RunDirectoryError, match=f"cannot be combined: {name} is"):
            pipeline.combine_runs([runs["a"], tmp_path / "other"], output=tmp_path / "mix")
    other = manifest.require(runs["b"])
    older = replace(other, directory=Directory(tmp_path / "older", RUN))
    cutting = {**other.manifest.cutting, "unicode": "Unicode 3.0"}
    manifest.save(replace(older, manifest=replace(other.manifest, cutting=cutting)))
    with pytest.raises(RunDirectoryError, match=r"the Unicode version is 'Unicode .*' in the one and 'Unicode 3.0'"):
        pipeline.combine_runs([runs["a"], tmp_path / "older"], output=tmp_path / "mix")
    manifest.save(older)
    with pytest.raises(RunDirectoryError, match="not completely counted"):
        pipeline.combine_runs([runs["a"], tmp_path / "older"], output=tmp_path / "mix")
    assert not (tmp_path / "mix").exists()


def test_wrong_arguments_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    one, other = runs.values()
    for listed, weights, output, error, message in (
        ([one, other], [1], "mix", UsageError, "2 runs; give one for each"),
        ([one, other], [1, 0], "mix", UsageError, "--weight: expected"),
        ([one, other], None, one, UsageError, "is one of the runs"),
        ([one, one], None, "mix", UsageError, "named twice"),
        ([one, other], [10**18, 1], "mix", TrainingError, "smaller weights"),
    ):
        with pytest.raises(error, match=message):
            pipeline.combine_runs(listed, weights, output=tmp_path / output)
