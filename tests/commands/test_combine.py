"""Weights of runs that are combined, and of INPUTs: exact arithmetic, the right sums, and what is refused."""

import json
import random
import shutil
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

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError, TrainingError, UsageError
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.values import parse_weight

COUNTS = st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(1, 1 << 40), max_size=20)
WEIGHTS = ("1/3", "2.5", "1")
ANY_WEIGHTS = st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**6)


def weighted(count: int, weight: Fraction) -> int:
    """The definition: multiplied, rounded half up, never below 1."""
    return max(1, (2 * count * weight.numerator + weight.denominator) // (2 * weight.denominator))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(COUNTS, ANY_WEIGHTS), max_size=4), st.randoms())
def test_native_weights_are_exact_and_in_any_order(parts, source):
    expected = Counter()
    for counts, weight in parts:
        expected.update({pre_token: weighted(count, weight) for pre_token, count in counts.items()})
    source.shuffle(parts)
    columns = [columns_of(Counter(counts))[0] for counts, _ in parts]
    fractions = [(weight.numerator, weight.denominator) for _, weight in parts]
    found = oracle_counting.as_counter(_core.combine(columns, fractions))
    assert found == expected
    assert list(found) == sorted(expected, key=_core.hash64)
    assert sum(_core.totals(one)[0][1] for one in columns) == sum(sum(counts.values()) for counts, _ in parts)


def test_counts_beyond_63_bits_are_refused():
    columns = columns_of(Counter({b"a": 1 << 62}))[0]
    largest = oracle_counting.as_counter(_core.combine([columns], [(199, 100)]))
    assert largest == {b"a": weighted(1 << 62, Fraction(199, 100))}
    for weights in ([(2, 1)], [(10**18, 1)]):
        with pytest.raises(OverflowError):
            _core.combine([columns], weights)
    for wrong in ([(0, 1)], [(1, 0)], [(1 << 62, 1)], [(1, 1), (1, 1)]):
        with pytest.raises(ValueError, match="weight"):
            _core.combine([columns], wrong)


def test_weights_are_taken_as_written_or_refused():
    for written, value in {"2.5": "5/2", 2.5: "5/2", 0.1: "1/10", "1/3": "1/3", 3: "3", "1e3": "1000"}.items():
        assert parse_weight(written) == parse_weight(Fraction(value)) == Fraction(value)
    for wrong in ("0", "-1", "1/0", "many", "", "nan", "inf", "1e99", True, None, "1" * 19, "1" * 5000):
        with pytest.raises(ValueError, match="above 0"):
            parse_weight(wrong)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    homes = [tmp_path_factory.mktemp("runs") / name for name in "ab"]
    for seed, home in enumerate(homes, start=1):
        home.with_suffix(".txt").write_text(peers.generated_text(seed, 3000))
        succeeded(run("count", f"{home}.txt", "--output", home, "--text-field", home.name))  # how texts were found
    return homes


def test_combine_command(runs: list[Path], tmp_path: Path) -> None:
    (one, other), output = runs, tmp_path / "mix"
    result = succeeded(run("combine", one, other, "--weight", "1", "--weight", "2.5", "--output", output))
    assert f"{one} x 1 + {other} x 2.5" in result.stdout
    expected = read(one / "counter.parquet")
    expected.update(
        {pre_token: weighted(n, Fraction(5, 2)) for pre_token, n in read(other / "counter.parquet").items()}
    )
    assert read(output / "counter.parquet") == expected
    facts = json.loads((output / "report.json").read_text())["corpus"]
    assert (facts["pre_tokens"], facts["different_pre_tokens"], facts["files"]) == (expected.total(), len(expected), 2)
    succeeded(run("merge", output, "--vocab-size", 400))
    mixed = manifest.require(output)
    succeeded(run("combine", other, one, "--weight", "2.5", "--weight", "1", "--output", output))  # in another order
    assert manifest.require(output) == mixed
    assert (output / "tokenizer" / "tokenizer.json").exists()
    assert "another run" in refused(run("combine", one, other, "--output", output), 1)
    for command in ("train", "count"):
        assert "not from a corpus" in refused(run(command, f"{one}.txt", "--output", output), 1)
    assert "holds no run" in refused(run("combine", tmp_path, "--output", tmp_path / "other"), 1)


def test_unweighted_combination_equals_counting_both(runs: list[Path], tmp_path: Path) -> None:
    mixed = bpe_pipeline.combine(runs, output=tmp_path / "mix")
    [tokenizer] = bpe_pipeline.merge(mixed, vocab_size=500).values()
    files = [f"{path}.txt" for path in runs]
    assert tokenizer.merges == bpe_pipeline.train(files, output=tmp_path / "both", vocab_size=500).merges
    third = bpe_pipeline.combine({" the": 7}, output=tmp_path / "third")
    nested = bpe_pipeline.combine([mixed, third], [4, "1"], output=tmp_path / "nested")
    straight = bpe_pipeline.combine([*runs, third], [4, 4, 1], output=tmp_path / "straight")
    assert read(nested / "counter.parquet") == read(straight / "counter.parquet")


def test_runs_that_counted_the_same_text_are_refused(runs: list[Path], tmp_path: Path) -> None:
    (one, other), both = runs, tmp_path / "both"
    bpe_pipeline.combine(runs, output=both)
    copied = shutil.copytree(one, tmp_path / "copied")
    third = tmp_path / "third.txt"
    third.write_text("a third text")
    overlapping = bpe_pipeline.count([third, f"{one}.txt"], output=tmp_path / "overlapping").directory
    imported = bpe_pipeline.combine({" the": 7}, output=tmp_path / "imported")
    again = bpe_pipeline.combine({" the": 7}, output=tmp_path / "again")
    merged = tmp_path / "merged"
    bpe_pipeline.merge(both, vocab_size=300, output=merged)
    nested = bpe_pipeline.combine([both, imported], output=tmp_path / "nested")
    for first, second, text in (
        (one, copied, f"{one}.txt"),
        (both, one, f"{one}.txt"),
        (other, both, f"{other}.txt"),
        (one, overlapping, f"{one}.txt"),
        (both, overlapping, f"{one}.txt"),
        (nested, other, f"{other}.txt"),
        (nested, both, f"{one}.txt and 1 more"),
        (merged, one, f"{one}.txt"),
        (imported, again, "a mapping"),
        (nested, again, "a mapping"),
    ):
        with pytest.raises(UsageError, match="sum would count twice") as refused_with:
            bpe_pipeline.combine([first, second], output=tmp_path / "sum")
        for named in (first, second, text):
            assert str(named) in str(refused_with.value)
    languages = {"one": one, "same": copied}
    with pytest.raises(UsageError, match="sum would count twice"):
        bpe_pipeline.parity(languages, temperature=2, vocab_size=300, output=tmp_path / "sum")
    assert not (tmp_path / "sum").exists()


def test_runs_with_other_texts_of_the_same_files_are_combined(runs: list[Path], tmp_path: Path) -> None:
    """Another field of the same records, an input with weight 0, and a copy of a file, which is worth a warning."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a b", "title": "c"}\n' * 9)
    texts, titles = (
        bpe_pipeline.count(rows, text_field=name, output=tmp_path / name).directory for name in ("text", "title")
    )
    weighted = tmp_path / "weighted"
    bpe_pipeline.count([f"{runs[0]}.txt", f"{runs[1]}.txt"], weights=["1", "0"], output=weighted)
    bpe_pipeline.combine([texts, titles, weighted, runs[1]], output=tmp_path / "sum")
    copied = bpe_pipeline.count(
        shutil.copy(f"{runs[0]}.txt", tmp_path / "copy.txt"), output=tmp_path / "copied"
    ).directory
    result = succeeded(run("combine", runs[0], copied, "--output", tmp_path / "twice"))
    assert "counts 1 file that other runs seem to count too" in result.stderr
    assert f"copy.txt has the size and the samples of {runs[0]}.txt" in result.stderr
    mixed = bpe_pipeline.combine([texts, copied], output=tmp_path / "mixed")
    shutil.rmtree(texts)
    result = succeeded(run("combine", mixed, runs[1], "--output", tmp_path / "more"))
    assert f"{texts}, whose counts are in {mixed}, is gone or was counted again" in result.stderr


def test_a_run_that_was_counted_again_makes_another_combination_with_words_that_say_so(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in "ab"]
    for home in runs:
        bpe_pipeline.combine({home.name.encode(): 3}, output=home)
    words = ("combine", *runs, "--output", tmp_path / "both")
    succeeded(run(*words))
    bpe_pipeline.combine({b"b": 4}, output=runs[1], overwrite=True)
    assert f"{runs[1]}, whose counts were others then; choose another --output" in refused(run(*words), 1)


def test_incomparable_runs_and_wrong_arguments_are_refused(runs: list[Path], tmp_path: Path) -> None:
    for name, options in {
        "--pattern": {"pattern": "llama3"},
        "--special-token": {"special_tokens": ["<x>"]},
        "--errors": {"errors": "skip"},
    }.items():
        bpe_pipeline.count(f"{runs[0]}.txt", output=tmp_path / "other", overwrite=True, **options)
        with pytest.raises(RunDirectoryError, match=f"cannot be combined: {name} is"):
            bpe_pipeline.combine([runs[0], tmp_path / "other"], output=tmp_path / "mix")
    other = manifest.require(runs[1])
    older = replace(other, directory=Directory(tmp_path / "other", RUN))
    cutting = {**other.manifest.cutting, "unicode": "Unicode 3.0"}
    manifest.save(replace(older, manifest=replace(other.manifest, cutting=cutting)))
    with pytest.raises(RunDirectoryError, match=r"the Unicode version is 'Unicode .*' in the one and 'Unicode 3.0'"):
        bpe_pipeline.combine([runs[0], tmp_path / "other"], output=tmp_path / "mix")
    manifest.save(older)
    with pytest.raises(RunDirectoryError, match="not completely counted"):
        bpe_pipeline.combine([runs[0], tmp_path / "other"], output=tmp_path / "mix")
    one, other = runs
    for listed, weights, output, error, message in (
        ([one, other], [1], "mix", UsageError, "1 weight for 2 runs: give one for each"),
        ([one, other], [1, 0], "mix", UsageError, "--weight: expected"),
        ([one, other], None, one, UsageError, "is one of the runs"),
        ([one, one], None, "mix", UsageError, "named twice"),
        ([one, other], [10**17, 1], "sum", TrainingError, "weights that differ less"),
        ([one, other], [10**18, "1/10"], "mix", UsageError, "ratios have at most 18 digits"),
    ):
        with pytest.raises(error, match=message):
            bpe_pipeline.combine(listed, weights, output=tmp_path / output)
    assert not (tmp_path / "mix").exists()


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """Two directories and a file, with pre-tokens in common, several times in each."""
    generator = random.Random(5)
    for name, files in (("a", 3), ("b", 2)):
        (tmp_path / name).mkdir()
        for index in range(files):
            text = " ".join(generator.choices(["low", "lower", "newest", "w"], k=99))
            (tmp_path / name / f"{index}.txt").write_text(text)
    (tmp_path / "c.txt").write_text("low\nwidest " * 20)
    return [tmp_path / "a", tmp_path / "b", tmp_path / "c.txt"]


def expected(inputs: list[Path], weights: tuple[str, ...]) -> Counter[bytes]:
    """By the definition: the counts of an INPUT times its weight, of which the smallest is 1, rounded once; 0 leaves
    out."""
    total, fractions = Counter(), list(map(Fraction, weights))
    least = min(filter(None, fractions))
    for path, weight in zip(inputs, (one / least for one in fractions), strict=True):
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        counts = sum((oracle_counting.count(file.read_bytes()) for file in files), Counter())
        total.update({pre_token: weighted(count, weight) for pre_token, count in counts.items()} if weight else {})
    return total


def words(weights: tuple[str, ...]) -> list[str]:
    return [word for weight in weights for word in ("--weight", weight)]


def test_merge_takes_other_weights_without_counting_again(inputs: list[Path], tmp_path: Path) -> None:
    home, options = tmp_path / "run", words(WEIGHTS)
    plain, wanted = (expected(inputs, weights) for weights in (("1", "1", "1"), WEIGHTS))
    train = ["train", *inputs, "--output", home, "--vocab-size", 265, "--chunk-size", 300]
    succeeded(run(*train))
    for path in inputs:
        path.rename(f"{path}.away")
    without = "its merging was done without --weight, not with '1' '15/2' '3'"
    assert without in refused(run("merge", home, *options), 1)
    assert read(home / "counter.parquet") == plain
    merged = run("merge", home, *options, "--overwrite")
    shown = f"{inputs[0]} x 1 + {inputs[1]} x 7.5 + {inputs[2]} x 3"
    assert f"weights {shown}" in merged.stdout
    assert "counting kept" in merged.stdout
    assert read(home / "counter.parquet") == wanted
    report = json.loads((home / "report.json").read_text())
    assert (report["corpus"]["weights"], report["corpus"]["pre_tokens"]) == (shown, wanted.total())
    assert f"weights      {shown}" in run("info", home).stdout
    succeeded(run("report", home))
    succeeded(run("merge", home, "--vocab-size", 262))  # with the weights that it has
    more = run("merge", home, "--vocab-size", 261, "--special-token", "<|im_end|>")
    assert "'<|im_end|>' was never counted as text" in more.stderr  # weights are at least 1: a count is a bound
    succeeded(run("verify", home))
    for path in inputs:
        Path(f"{path}.away").rename(path)
    assert "with --weight '1' '15/2' '3', not without it" in refused(run(*train), 1)
    written = {path: path.stat().st_mtime_ns for path in home.rglob("*.parquet")}
    again = run("train", inputs[2], *inputs[:2], "--weight", "1", *options[:4], *train[-6:])
    assert "counting kept, merging kept" in again.stdout, again.stderr
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*.parquet")} == written
    more = tmp_path / "more.txt"
    more.write_text("lowest " * 9)
    succeeded(run("train", *inputs, more, *options, "--weight", "4", *train[-6:]))
    assert read(home / "counter.parquet") == expected([*inputs, more], (*WEIGHTS, "4"))


@pytest.mark.parametrize("weight", ["1", "100", "1/100"])
def test_advice_speaks_of_occurrences_in_the_text(tmp_path: Path, weight: str) -> None:
    counts = {"often": {"low": 900, "er": 300}, "seldom": {"est": 3, "er": 2}}
    homes = [bpe_pipeline.combine(one, output=tmp_path / name) for name, one in counts.items()]
    mixed = bpe_pipeline.combine(homes, ["1", weight], output=tmp_path / "mixed")
    again = bpe_pipeline.combine([mixed], output=tmp_path / "again")
    vocab_size = 257 + 5  # l o, lo w, e r, and at last e s, es t
    for home in (mixed, again):
        bpe_pipeline.merge(home, vocab_size=vocab_size)
        assert bpe_pipeline.report(home).numbers.merged.rare_merges == 2 / 5
        assert "40.0% of its merges occurred fewer than 20 times, more than 5%" in (home / "report.json").read_text()
    shown = (mixed / "report.txt").read_text()
    assert ("occurred 300 times, counted with the weights" in shown) == (weight == "100")
    swept = bpe_pipeline.sweep(homes, weights={"seldom": [weight]}, vocab_size=vocab_size, output=tmp_path / "sweep")
    assert [point.rare_merges for point in swept.points] == [2 / 5]
    assert "text" in [one.about for one in swept.recommendation.advice]
    homes[1].rename(tmp_path / "gone")
    bpe_pipeline.report(mixed)
    assert ("how often its merges occurred without weights is unknown" in (mixed / "report.json").read_text()) == (
        weight != "1"
    )


def test_weights_that_do_not_fit_are_refused_before_counting(inputs: list[Path], tmp_path: Path) -> None:
    counted = bpe_pipeline.combine({"low": 1}, output=tmp_path / "counts")
    twice, output = [*inputs, inputs[0] / "1.txt"], tmp_path / "run"
    for doing, error in {
        lambda: bpe_pipeline.train(
            inputs, weights=["1"], output=output
        ): "1 weight for 3 inputs: give one for each, and",
        lambda: bpe_pipeline.train(inputs, weights=["0", "0", "0"], output=output): "not all of them 0",
        lambda: bpe_pipeline.train(twice, weights=[1, 1, 1, 2], output=output): "has files that an",
        lambda: bpe_pipeline.train_from_iterator(["low"], weights=[1], output=output): "'weights' means nothing here",
        lambda: bpe_pipeline.combine({"low": 1}, weights=[1, 2], output=output): "2 weights for 1 run",
        lambda: bpe_pipeline.merge(counted, weights=[2]): "has no inputs",
    }.items():
        with pytest.raises(UsageError, match=error):
            doing()
    assert not output.exists()


def test_many_inputs_are_counted_apart_only_on_request(tmp_path: Path) -> None:
    many = [tmp_path / f"{index}.txt" for index in range(33)]
    weights, options = [*["1"] * 32, "3"], {"output": tmp_path / "run", "vocab_size": 258}
    for path in many:
        path.write_text(f"low low {path.stem}")
    bpe_pipeline.train(many, **options)
    with pytest.raises(UsageError, match="are not kept apart; name at most 256"):
        bpe_pipeline.merge(tmp_path / "run", weights=weights, overwrite=True)
    bpe_pipeline.train(many, **options, weights=weights, overwrite=True)
    assert read(tmp_path / "run" / "counter.parquet")[b"low"] == 35


def test_merge_with_an_output_makes_another_run_of_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(peers.generated_text(3, 400))
    bpe_pipeline.train("a.txt", output="a", vocab_size=300)
    before = Path("a/run.json").read_bytes()
    for _ in ("resumed", "kept"):
        succeeded(run("merge", "a", "--output", "b", "--vocab-size", 280, "--min-frequency", 2, "--quiet"))
    assert Path("a/run.json").read_bytes() == before
    assert read(Path("b/counter.parquet")) == read(Path("a/counter.parquet"))
    bpe_pipeline.merge("a", vocab_size=280, min_frequency=2, output="a", overwrite=True)  # the same, in its own place
    assert Path("b/tokenizer/tokenizer.json").read_bytes() == Path("a/tokenizer/tokenizer.json").read_bytes()
    for words in ("info b", "report b", "verify b", "export b --output c"):
        succeeded(run(*words.split()))
    before = Path("b/run.json").read_bytes()
    for output, more in (("b", ["--overwrite"]), ("e", [])):  # nothing is made or deleted before all is checked
        assert "too small" in refused(run("merge", "a", "--output", output, "--vocab-size", 100, *more), 2)
    assert Path("b/run.json").read_bytes() == before
    Path("d.txt").write_text(peers.generated_text(4, 400))
    bpe_pipeline.train("d.txt", output="d", vocab_size=300)
    assert "d holds other counts than a" in refused(run("merge", "a", "--output", "d"), 1)
    counts = bpe_pipeline.combine({"low": 1}, output="imported")
    assert "imported has no inputs" in refused(run("merge", counts, "--output", "e", "--weight", 2), 2)
    bpe_pipeline.parity({"a": "a", "d": "d"}, dev={"a": "a", "d": "d"}, output="p", vocab_size=280)
    bpe_pipeline.merge("p", vocab_size=280, output="q")  # chosen by the same languages
    assert Path("q/merges.parquet").read_bytes() == Path("p/merges.parquet").read_bytes()
    assert not Path("e").exists()
