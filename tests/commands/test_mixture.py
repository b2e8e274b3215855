"""Weights from counted bytes: laws of temperatures and shares, and what they are given by hand."""

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import oracle_counting
import pytest
from command import files_in, refused, run, succeeded
from counter_files import read
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.run import manifest
from bpe_pipeline.run.mixture import Mixture
from bpe_pipeline.run.values import parse_shares, parse_temperature

SIZES = st.dictionaries(st.text("abcd", min_size=1, max_size=3), st.integers(1, 10**12), min_size=2, max_size=6)
TEMPERATURES = st.sampled_from(["1", "1.5", "2", "3", "100", "inf"])


def shares_of(sizes: dict[str, int], weights: Sequence[str]) -> dict[str, float]:
    parts = {name: size * Fraction(weight) for (name, size), weight in zip(sizes.items(), weights, strict=True)}
    return {name: float(part / sum(parts.values())) for name, part in parts.items()}


@given(SIZES, TEMPERATURES)
@settings(deadline=None)
def test_shares_are_proportional_to_the_power_of_the_bytes(sizes: dict[str, int], temperature: str) -> None:
    shares = shares_of(sizes, Mixture(temperature).weights(sizes))
    powers = {name: size ** (1 / float(temperature)) for name, size in sizes.items()}
    for name, power in powers.items():
        assert shares[name] == pytest.approx(power / sum(powers.values()), rel=1e-4)


@given(SIZES, TEMPERATURES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_and_the_names_of_inputs_change_no_weight(sizes: Any, temperature: str, shuffler: Any) -> None:
    weights = dict(zip(sizes, Mixture(temperature, {min(sizes): "1/3"}).weights(sizes), strict=True))
    order = list(sizes)
    shuffler.shuffle(order)
    renamed = {f"x{name}": sizes[name] for name in order}
    again = Mixture(temperature, {f"x{min(sizes)}": "1/3"}).weights(renamed)
    assert dict(zip(order, again, strict=True)) == weights
    assert min(map(Fraction, weights.values())) == 1


@given(SIZES, TEMPERATURES, st.integers(1, 99))
@settings(deadline=None)
def test_a_share_is_what_its_input_has_and_the_others_keep_their_ratios(sizes: Any, temperature: str, of: int) -> None:
    fixed = max(sizes)
    shares = shares_of(sizes, Mixture(temperature, {fixed: f"{of}/100"}).weights(sizes))
    assert shares[fixed] == pytest.approx(of / 100, rel=1e-4)
    without = shares_of(sizes, Mixture(temperature).weights(sizes))
    for name in sizes.keys() - {fixed}:
        expected = without[name] / sum(without[other] for other in sizes.keys() - {fixed}) * (1 - of / 100)
        assert shares[name] == pytest.approx(expected, rel=1e-3)


def test_weights_are_the_same_decimal_numbers_on_every_machine() -> None:
    sizes = {"en": 10**12 + 7, "ja": 3 * 10**9, "sw": 12_345_678}
    of_3 = Mixture("3").weights(sizes)
    assert of_3 == ("1", "1923/40", "46802/25")
    halves = (Fraction(1, 20_000), Fraction(1, 200))  # of their last digits
    for weight, name, half in zip(of_3[1:], ("ja", "sw"), halves, strict=True):
        cubed = Fraction(sizes["en"], sizes[name]) ** 2  # exactly: the weight is (en / size) ^ (2 / 3), of six digits
        assert (Fraction(weight) - half) ** 3 <= cubed <= (Fraction(weight) + half) ** 3
    assert Mixture("inf").weights({"a": 300, "b": 100}) == ("1", "3")
    assert Mixture("1").weights(sizes) == ("1", "1", "1")


@pytest.mark.parametrize(
    ("shares", "reason"),
    [
        ({"en": "60%", "sw": "50%"}, "the shares are 110 % together, more than 100 %"),
        ({"en": "60%", "sw": "20%", "ja": "1%"}, "are 81 % together, of all inputs, and not 100 %"),
        ({"en": 0.5, "sw": "50%"}, "are 100 % together, nothing is left for the 1 other input"),
        ({"fr": "1%"}, "'fr' is none of the names en, sw, ja.txt"),
        ({"en": "1%", "c/en": "2%"}, "c/en is named twice"),
    ],
)
def test_shares_that_do_not_fit_are_refused_with_numbers(shares: dict[str, Any], reason: str) -> None:
    fixed = dict(one.rpartition("=")[::2] for one in parse_shares(shares))
    with pytest.raises(UsageError, match=reason):
        Mixture("2", fixed).named(["c/en", "c/sw", "c/ja.txt"])


def test_a_name_is_the_last_part_of_a_path_without_its_endings_too() -> None:
    names = ["c/en", "c/sw.jsonl.gz", "d/x", "e/x"]
    assert Mixture("1", {"sw": "1/9", "d/x": "1/9"}).named(names).shares == {"c/sw.jsonl.gz": "1/9", "d/x": "1/9"}
    with pytest.raises(UsageError, match="'x' is 2 inputs; write it in full: d/x, e/x"):
        Mixture("1", {"x": "1/9"}).named(names)


@pytest.mark.parametrize("value", [0.5, "0", "nan", "-1", "x", True, "1e9", None])
def test_temperatures_are_from_1_on(value: object) -> None:
    with pytest.raises(ValueError, match="from 1 on"):
        parse_temperature(value)
    assert [parse_temperature(one) for one in (1, 2.50, "INF", float("inf"), "3.0")] == ["1", "2.5", "inf", "inf", "3"]


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """Three directories of different sizes, whose words differ."""
    generator = random.Random(3)
    for name, letters, words in (("en", "abcde", 900), ("ja", "defgh", 300), ("sw", "ijk", 60)):
        (tmp_path / name).mkdir()
        known = ["".join(generator.choices(letters, k=generator.randint(2, 5))) for _ in range(40)]
        for index in range(2):
            (tmp_path / name / f"{index}.txt").write_text(" ".join(generator.choices(known, k=words)))
    return [tmp_path / name for name in ("en", "ja", "sw")]


def merges_of(home: Path) -> bytes:
    return (home / "tokenizer/merges.txt").read_bytes()


def test_a_temperature_is_the_weights_that_it_prints(inputs: list[Path], tmp_path: Path) -> None:
    how = ["--vocab-size", "400"]
    succeeded(run("train", *inputs, "--temperature", "3", "--share", "sw=5%", *how, "--output", tmp_path / "evened"))
    report = json.loads((tmp_path / "evened/report.json").read_text())
    texts = report["corpus"]["texts"]
    assert [text["name"] for text in texts] == list(map(str, inputs))
    assert [text["bytes"] for text in texts] == [sum(file.stat().st_size for file in path.iterdir()) for path in inputs]
    assert texts[2]["share"] == pytest.approx(0.05, rel=1e-4)
    assert report["corpus"]["mixture"] == f"temperature 3, {inputs[2]} 5 %"
    by_hand = [word for text in texts for word in ("--weight", text["weight"])]
    succeeded(run("train", *inputs, *by_hand, *how, "--output", tmp_path / "by-hand"))
    assert merges_of(tmp_path / "evened") == merges_of(tmp_path / "by-hand")
    last = (tmp_path / "evened/report.txt").read_text().partition("Mixture")[2].partition("/sw ")[2].split()
    assert last[2:4] == [texts[2]["weight"], "5.00%"]
    assert "temperature 3" in run("info", tmp_path / "evened").stdout
    assert "checksums are right" in bpe_pipeline.verify(tmp_path / "evened")["chunks' counters"]


def test_another_temperature_merges_without_counting(inputs: list[Path], tmp_path: Path) -> None:
    home, options = tmp_path / "run", {"vocab_size": 400}
    as_counted = bpe_pipeline.train(inputs, output=home, **options)
    for path in inputs:
        path.rename(f"{path}.away")
    with pytest.raises(RunDirectoryError, match="without --temperature, not with '3'"):
        bpe_pipeline.merge(home, temperature=3)
    written = {path: path.stat().st_mtime_ns for path in (home / "counts").iterdir()}
    merged = bpe_pipeline.merge(home, temperature="inf", overwrite=True, **options)[400]
    assert merged.merges != as_counted.merges
    assert [text.share for text in manifest.require(home).manifest.mixed_texts] == pytest.approx([1 / 3] * 3, rel=1e-4)
    assert {path: path.stat().st_mtime_ns for path in written} == written
    with pytest.raises(RunDirectoryError, match="with --temperature 'inf', not '1'"):
        bpe_pipeline.merge(home, temperature=1)
    assert "with --temperature 'inf', not with --share " in refused(run("merge", home, "--share", "sw=5%"), 1)
    assert bpe_pipeline.merge(home, vocab_size=380)[380].merges == merged.merges[:123]  # with the weights that it has
    again = bpe_pipeline.merge(home, temperature=1, overwrite=True, **options)[400]
    assert again.merges == as_counted.merges
    assert not manifest.require(home).manifest.weighted
    for path in inputs:
        Path(f"{path}.away").rename(path)
    evened = bpe_pipeline.train(inputs, output=tmp_path / "evened", temperature="inf", **options)
    assert evened.merges == merged.merges


@pytest.mark.parametrize("weights", [{"temperature": 3, "shares": {"sw": "5%"}}, {"weights": [1, 3, 9]}])
def test_another_run_has_other_weights(inputs: list[Path], tmp_path: Path, weights: dict[str, Any]) -> None:
    home, new, options = tmp_path / "run", tmp_path / "new", {"vocab_size": 400}
    expected = bpe_pipeline.train(inputs, output=tmp_path / "trained", **options, **weights)
    as_counted = bpe_pipeline.train(inputs, output=home, **options)
    before = files_in(home)
    for path in inputs:
        path.rename(f"{path}.away")
    made = bpe_pipeline.merge(home, output=new, **options, **weights)[400]
    assert made.merges == expected.merges != as_counted.merges
    assert files_in(home) == before
    assert manifest.require(new).manifest.texts == manifest.require(tmp_path / "trained").manifest.texts
    assert bpe_pipeline.merge(home, output=new, vocab_size=380, **weights)[380].merges == expected.merges[:123]
    again = bpe_pipeline.merge(new, temperature=1, overwrite=True, **options)[400]
    assert again.merges == as_counted.merges
    with pytest.raises(RunDirectoryError, match="holds other counts than"):
        bpe_pipeline.merge(home, output=bpe_pipeline.count(__file__, output=tmp_path / "other").directory, **weights)


def test_a_copy_that_was_stopped_is_completed(inputs: list[Path], tmp_path: Path) -> None:
    bpe_pipeline.count(inputs, output=tmp_path / "run")
    given = {"output": tmp_path / "new", "temperature": 2, "vocab_size": 400}
    whole = bpe_pipeline.merge(tmp_path / "run", **given)[400]
    for name in ("counter.parquet", "merges.parquet"):
        (tmp_path / "new" / name).unlink()
    assert not list((tmp_path / "new").glob("counts/*"))  # they stay where they are
    assert bpe_pipeline.merge(tmp_path / "run", **given)[400].merges == whole.merges
    with pytest.raises(RunDirectoryError, match=r"holds counts from .*run, not from a corpus"):
        bpe_pipeline.count(inputs, output=tmp_path / "new")
    (tmp_path / "run").rename(tmp_path / "gone")  # it is needed for other weights alone
    assert "checksums are right" in bpe_pipeline.verify(tmp_path / "new")["counter"]
    assert "completely" in run("info", tmp_path / "new").stdout
    assert bpe_pipeline.merge(tmp_path / "new", vocab_size=380)[380].merges == whole.merges[:123]
    with pytest.raises(RunDirectoryError, match="is missing or damaged"):
        bpe_pipeline.merge(tmp_path / "new", temperature=3, overwrite=True)


def test_a_corpus_that_grew_has_weights_of_all_its_bytes(inputs: list[Path], tmp_path: Path) -> None:
    how = {"vocab_size": 400, "temperature": 2}
    bpe_pipeline.train(inputs, output=tmp_path / "run", **how)
    text = (inputs[2] / "0.txt").read_text() + "\n"
    (inputs[2] / "2.txt").write_text(text * 3)
    grown = bpe_pipeline.train(inputs, output=tmp_path / "run", **how)
    assert grown.merges == bpe_pipeline.train(inputs, output=tmp_path / "new", **how).merges
    (inputs[2] / "2.txt").write_text(text)  # the same text as one file or two
    (inputs[2] / "3.txt").write_text(text * 2)
    assert grown.merges == bpe_pipeline.train(inputs, output=tmp_path / "split", **how).merges
    reordered = bpe_pipeline.train([*reversed(inputs)], output=tmp_path / "reordered", **how)
    assert grown.merges == reordered.merges


def test_a_run_that_was_stopped_while_counting_keeps_its_temperature(inputs: list[Path], tmp_path: Path) -> None:
    how = {"vocab_size": 400, "temperature": 2}
    whole = bpe_pipeline.train(inputs, output=tmp_path / "run", **how)
    stopped = manifest.require(tmp_path / "run")  # as it was while chunks were counted
    unknown = tuple(manifest.replace(text, weight=(1, 1), bytes=None) for text in stopped.manifest.texts)
    manifest.save(
        manifest.Run(
            stopped.directory,
            manifest.replace(stopped.manifest, texts=unknown, merging=None, vocab_size=None),
        )
    )
    (tmp_path / "run/merges.parquet").unlink()
    resumed = bpe_pipeline.train(output=tmp_path / "run", vocab_size=400)
    assert resumed.merges == whole.merges


def test_runs_are_combined_by_temperature_as_inputs_are(inputs: list[Path], tmp_path: Path) -> None:
    runs = [bpe_pipeline.count(path, output=tmp_path / "runs" / path.name).directory for path in inputs]
    mixed = bpe_pipeline.combine(runs, temperature=3, shares={"sw": "5%"}, output=tmp_path / "mixed")
    tokenizer = bpe_pipeline.merge(mixed, vocab_size=400)[400]
    trained = bpe_pipeline.train(
        inputs, temperature=3, shares={"sw": 0.05}, output=tmp_path / "trained", vocab_size=400
    )
    assert tokenizer.merges == trained.merges
    # A combination has the bytes of its runs, with their weights: with itself and another run, equal shares.
    more = bpe_pipeline.combine({"lmno": 50, "nop": 9}, output=tmp_path / "imported")
    even = bpe_pipeline.combine([mixed, more], temperature="inf", output=tmp_path / "even")
    stored = manifest.require(even).manifest
    assert [text.share for text in stored.mixed_texts] == pytest.approx([0.5, 0.5], rel=1e-4)
    assert stored.texts[1].bytes == 50 * 4 + 9 * 3
    assert stored.texts[0].bytes == sum(len(text) * count for text, count in counts_of(mixed).items())


@pytest.mark.one_of(10)
@pytest.mark.parametrize("seed", range(50))
def test_random_mixtures_are_an_independent_sum_of_fractions(seed: int, tmp_path: Path) -> None:
    """INPUTs with weights, runs of them and counts of other programs, and then other weights of the same terms."""
    choose = random.Random(seed)
    counted, texts = [], []
    for number in range(choose.randint(2, 4)):
        words = choose.choices(["low", " low", " lower", " newest", " w"], k=choose.randint(1, 200))
        counted.append(Counter(pre_token for pre_token in oracle_counting.count("".join(words).encode()).elements()))
        (tmp_path / f"{number}.txt").write_text("".join(words))
        texts.append(tmp_path / f"{number}.txt")

    def weights() -> list[str]:
        return [choose.choice(["1", "2.5", "1/3", "0.01", "7/3", str(choose.randint(1, 99))]) for _ in texts]

    def expected(of: list[str]) -> Counter[bytes]:
        total, least = Counter[bytes](), min(map(Fraction, of))
        for counts, weight in zip(counted, (Fraction(one) / least for one in of), strict=True):
            for pre_token, count in counts.items():
                total[pre_token] += max(1, math.floor(count * weight + Fraction(1, 2)))
        return total

    first, second, third = weights(), weights(), weights()
    bpe_pipeline.count(texts, output=tmp_path / "inputs", weights=first, chunk_size=choose.choice([90, 1 << 20]))
    assert counts_of(tmp_path / "inputs") == expected(first)
    runs = [bpe_pipeline.count(text, output=tmp_path / text.stem).directory for text in texts]
    terms = [home if choose.random() < 0.6 else counts for home, counts in zip(runs, counted, strict=True)]
    if len({frozenset(counts.items()) for counts in counted}) == len(counted):
        bpe_pipeline.combine(terms, second, output=tmp_path / "terms")
        assert counts_of(tmp_path / "terms") == expected(second)
    bpe_pipeline.combine(runs, second, output=tmp_path / "runs")
    for home in ("inputs", "runs"):
        bpe_pipeline.merge(tmp_path / home, weights=third, output=tmp_path / f"{home}-2", vocab_size=258)
        assert counts_of(tmp_path / f"{home}-2") == expected(third)
        bpe_pipeline.merge(tmp_path / home, weights=third, overwrite=True, vocab_size=258)
        assert counts_of(tmp_path / home) == expected(third)


def counts_of(home: Path) -> dict[bytes, int]:
    return dict(read(manifest.require(home).counter_path))


def bytes_by_letter(home: Path) -> list[int]:
    """Return the counted bytes of pre-tokens with an a, and of those with a b."""
    counts = counts_of(home)
    return [sum(len(text) * count for text, count in counts.items() if letter in text) for letter in (b"a", b"b")]


def test_a_share_is_of_pre_tokens_not_of_separators_or_skipped_documents(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_bytes(b"aaa<|endoftext|>" * 40 + b"a\xffa " * 200)  # the last document is skipped
    (tmp_path / "long.txt").write_bytes(b"bbbb " * 300)
    inputs = [tmp_path / "short.txt", tmp_path / "long.txt"]
    how: dict[str, Any] = {"errors": "skip", "special_tokens": ["<|endoftext|>"]}
    half: dict[str, Any] = {"shares": {"short": "50%"}}
    runs = [bpe_pipeline.count(path, output=tmp_path / path.stem, **how).directory for path in inputs]
    trained = bpe_pipeline.train(inputs, output=tmp_path / "trained", vocab_size=260, **half, **how)
    plain = bpe_pipeline.count(inputs, output=tmp_path / "merged", **how).directory
    bpe_pipeline.merge(plain, vocab_size=260, **half)
    combined = bpe_pipeline.combine(runs, output=tmp_path / "combined", **half)
    bpe_pipeline.sweep(runs, temperatures=["inf"], vocab_size=260, output=tmp_path / "swept")
    [swept] = (tmp_path / "swept/mixtures").iterdir()
    assert trained is not None
    for home in (tmp_path / "trained", plain, combined, swept):
        short, long = bytes_by_letter(home)
        assert short / (short + long) == pytest.approx(0.5, rel=0.01), home


def test_a_sweep_over_temperatures_has_a_mixture_for_each(inputs: list[Path], tmp_path: Path) -> None:
    runs = [bpe_pipeline.count(path, output=tmp_path / "runs" / path.name).directory for path in inputs]
    swept = bpe_pipeline.sweep(runs, temperatures=[1, "3", "inf"], vocab_size=300, output=tmp_path / "swept")
    mixtures = [point.mixture for point in swept.points]
    assert [one.split("+")[0] for one in mixtures] == ["temperature-1", "temperature-3", "temperature-inf"]
    evened = bpe_pipeline.combine(runs, temperature=3, output=tmp_path / "evened")
    of_3 = tmp_path / "swept/mixtures" / mixtures[1]
    assert len({manifest.require(home).manifest.counter_fingerprint for home in (of_3, evened)}) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--weight", "1", "--weight", "2", "--weight", "3", "--temperature", "2"], "leave one of them out"),
        (["--share", "fr=1%"], "'fr' is none of the names en, ja, sw"),
        (["--temperature", "0.5"], "a number from 1 on"),
        (["--share", "sw=150%"], "a share such as 10%"),
    ],
)
def test_what_means_nothing_is_refused_before_counting(
    inputs: list[Path], tmp_path: Path, words: list[str], reason: str
) -> None:
    assert reason in refused(run("train", *inputs, *words, "--output", tmp_path / "run"), 2)
    assert not (tmp_path / "run").exists()


def test_one_input_has_no_temperature(inputs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="here is 1 input: name two or more"):
        bpe_pipeline.train(inputs[0], temperature=2, output=tmp_path / "run")


@pytest.mark.parametrize("option", [{"temperature": 2}, {"shares": {"a": "10%"}}, {"weights": [1]}])
def test_an_iterator_has_no_inputs_to_weigh(tmp_path: Path, option: Any) -> None:
    with pytest.raises(UsageError, match="means nothing here"):
        bpe_pipeline.train_from_iterator(["low"], output=tmp_path / "run", vocab_size=260, **option)
    assert not (tmp_path / "run").exists()


def test_a_grown_input_of_weight_0_is_counted_before_a_run_is_complete(inputs: list[Path], tmp_path: Path) -> None:
    home, how = tmp_path / "run", {"weights": [1, 0, 2]}
    bpe_pipeline.count(inputs, output=home, **how)
    (inputs[1] / "2.txt").write_text("new words " * 50)
    bpe_pipeline.count(inputs, output=home, **how)
    chunks = manifest.require(home).manifest.plan.chunks
    assert len(list((home / "counts").glob("0*.parquet"))) == len(chunks)
    max((home / "counts").iterdir()).unlink()
    assert f"{len(chunks) - 1} of {len(chunks)} chunks" in succeeded(run("info", home)).stdout
    bpe_pipeline.count(output=home)
    assert "completely" in succeeded(run("info", home)).stdout
