"""A sweep's points are those of single runs; it resumes; and its rule is the one that is written down."""

import json
import math
import re
import shutil
import sys
import time
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import peers
import pytest
from amount import FULL
from command import refused, run, succeeded
from killing import ended, kill, start
from pyarrow import parquet

import pipeline
from pipeline.base.errors import UsageError
from pipeline.guests.sweep.mixtures import mixtures_of
from pipeline.guests.sweep.page import Swept
from pipeline.guests.sweep.rule import ForModel, for_model, rate, recommend
from pipeline.guests.sweep.sweep import SWEEP
from pipeline.guests.sweep.sweep_worker import Measured, Point
from pipeline.reports.page import plotly_script
from pipeline.run.directory import Directory
from pipeline.run.stored import stored

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
    succeeded(run(*WORDS, "--output", "sweep", "--workers", 1, "--log-json", cwd=home))
    return home / "sweep"


def _points(swept: Path) -> dict[tuple[str, int], Point]:
    values = json.loads((swept / "sweep.json").read_text())["points"].values()
    return {(one.mixture, one.vocab_size): one for one in (stored(Point, value) for value in values)}


def _measure(tokenizer: pipeline.Tokenizer, text: str) -> tuple[int, int]:
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
        combined = pipeline.combine_runs(runs, weights=list(listed), output=tmp_path / name)
        tokenizers = pipeline.merge_run(combined, vocab_size=list(SIZES))
        report = json.loads((tmp_path / name / "report.json").read_text())
        for own in (one["vocabulary"] for one in (report, *report["other_sizes"])):
            point, tokenizer = points[name, own["vocab_size"]], tokenizers[own["vocab_size"]]
            assert point.size == tokenizer.vocab_size
            assert {(one.kind, one.name): (one.bytes, one.tokens) for one in point.measured} == {
                ("mixture", name): (own["bytes"], own["tokens"]),
                ("held out", "held.txt"): _measure(tokenizer, texts["held.txt"]),
                **{("source", one): _measure(tokenizer, texts[f"{one}.txt"]) for one in "ab"},
            }


def test_the_table_the_page_and_the_tokenizer_are_written(swept: Path) -> None:
    points = _points(swept)
    table = parquet.read_table(swept / "sweep.parquet").to_pylist()
    names = ("mixture", "vocab_size", "kind", "text", "bytes", "tokens")
    assert sorted(tuple(row[name] for name in names) for row in table) == sorted(
        (*at, own.kind, own.name, own.bytes, own.tokens) for at, point in points.items() for own in point.measured
    )
    page = (swept / "sweep.html").read_text()
    assert "Recommended: a " in page
    drawn = set(re.findall('<div id="(.*?)" role="img"', page))
    assert drawn == ({"sizes", "texts"} if plotly_script() else set())  # one held-out file: no two to compare
    assert page.count('class="recommended"') == 2  # in the two tables with a column for each size
    assert re.findall('<th scope="col">(.*?)</th>', page)[:5] == ["a", "b", "300", "400", "600"]
    chosen = recommend(list(points.values()), ForModel())
    made = pipeline.merge_run(swept / "mixtures" / chosen.mixture, vocab_size=chosen.vocab_size)
    assert pipeline.load(swept / "tokenizer").merges == made[chosen.vocab_size].merges


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
    for name in ("sweep.html", "sweep.parquet", "mixtures/a-x1/merges.parquet", "mixtures/a-x2.5+b-x1/counter.parquet"):
        (output / name).unlink()
    (output / ".sweep.html.elsewhere-1.partial").touch()  # of a process that was killed on another machine
    words = [*WORDS, "--output", output]
    assert run(*words, "--quiet", cwd=home).stdout == f"{output}/tokenizer\n"
    assert _points(output) == _points(swept)
    assert (output / "sweep.html").exists()
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
            process = start([sys.executable, "-P", "-m", "pipeline", *WORDS, "--output", str(tmp_path / "sweep")])
        time.sleep(tenths / 10)
        kill(process.pid, "all")
        ended(process)
    succeeded(run(*WORDS, "--output", tmp_path / "sweep", cwd=home))
    assert _points(tmp_path / "sweep") == _points(swept)
    names = [path.relative_to(swept) for path in swept.rglob("merges.parquet")]
    assert all((tmp_path / "sweep" / name).exists() for name in names)


def test_less_text_is_each_so_many_th_chunk(home: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        succeeded(run("count", f"{name}.txt", "--output", tmp_path / name, "--chunk-size", "8KiB", cwd=home))
    words = ["sweep", tmp_path / "a", tmp_path / "b", "--weight", "b=3", "--vocab-size", 400, "--log-json"]
    document = json.loads(succeeded(run(*words, "--output", tmp_path / "sweep", cwd=home)).stdout.splitlines()[-1])
    assert [part["every"] for part in document["parts"]] == [4, 2]
    expected: Counter[bytes] = Counter()
    for name, weight in (("a", 1), ("b", 3)):
        for chunk in sorted((tmp_path / name / "counts").iterdir())[::4]:
            table = parquet.read_table(chunk).to_pydict()
            for piece, count in zip(table["piece"], table["count"], strict=True):
                expected[piece] += weight * count
    learned = pipeline.merge_run(pipeline.import_counts(expected, output=tmp_path / "own"), vocab_size=400)[400]
    measured = [_measure(learned, (home / f"{name}.txt").read_bytes().decode()) for name in "ab"]
    mean = math.sqrt(math.prod(size / tokens for size, tokens in measured))
    assert document["parts"][0]["rate"] == pytest.approx(mean)
    whole = pipeline.load(tmp_path / "sweep" / "tokenizer").merges
    shared = {b"".join(one) for one in whole} & {b"".join(merge) for merge in learned.merges}
    assert document["parts"][0]["shared"] == len(shared)


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
        pipeline.count(tmp_path / f"{name}.d", output=tmp_path / name)
    found = []
    for names, weights in (
        (("a", "b"), {"a": ["1", "2.5"], "b": ["1", "5"]}),
        (("b", "a"), {"a": ["10", "25"], "b": ["10", "50"]}),
        (("one/x", "two/y"), {"x": ["1/30", "1/12"], "y": ["1/30", "1/6"]}),
    ):
        held_out = [tmp_path / f"{names[0].replace('/', '')}-{part}.txt" for part in (0, 1)]
        for path, text in zip(held_out, held if names[0] == "a" else reversed(held), strict=True):
            path.write_text(text)
        swept = pipeline.sweep(
            [tmp_path / name for name in names],
            weights=weights,
            vocab_size=[300, 400, 600],
            held_out=held_out,
            output=tmp_path / f"sweep-{names[0][0]}",
        )
        short = {name.rpartition("/")[2]: "ab"[name in ("b", "two/y")] for name in names}
        chosen = swept.recommendation
        evidence = [(one.about, one.evidence.get("saved_by_doubling")) for one in chosen.advice]
        last_counts = sorted((point.vocab_size, point.last_count) for point in swept.points)
        mixture = {short[name]: by for name, by in swept.weights[chosen.mixture].items()}
        found.append((mixture, chosen.vocab_size, chosen.rate, evidence, last_counts))
    assert found == [found[0]] * 3


def test_the_predicted_size_is_the_published_one() -> None:
    """The paper's predictions by its third approach; 216k for 70 billion parameters is in its abstract."""
    table = ((3e9, 3200, 37e3), (7e9, 4096, 60e3), (13e9, 5120, 81e3), (30e9, 6048, 142e3), (70e9, 8192, 218e3))
    for parameters, width, published in table:
        found = ForModel(parameters, hidden_size=width).best_size()
        assert found is not None
        assert abs(found / published - 1) < 0.02
    optimum = ForModel(7e9, tokens=7e9 * math.exp(2 * 2.48465102) / 6).best_size()
    assert optimum == pytest.approx(ForModel(7e9).best_size())


def _point(mixture: str, size: int, rates: tuple[float, ...], last_count: int = 100) -> Point:
    measured = tuple(Measured("source", str(at), round(one * 10**6), 10**6) for at, one in enumerate(rates))
    return Point(mixture, size, size, last_count, measured)


POINTS = [
    _point("a", 8000, (3.0, 3.0)),
    _point("b", 8000, (4.0, 2.0)),
    _point("a", 16000, (3.3, 3.3)),
    _point("b", 16000, (4.4, 2.2)),
    _point("a", 32000, (3.4, 3.4)),
    _point("b", 32000, (4.5, 2.2)),
]


def test_the_size_is_the_smallest_from_which_no_doubling_pays_and_the_mixture_the_best_of_it() -> None:
    chosen = recommend(POINTS, ForModel())
    assert (chosen.mixture, chosen.vocab_size) == ("a", 16000)  # to 32,000 it is less than 5 %
    assert chosen.rate == pytest.approx(3.3)


def test_a_later_doubling_that_pays_makes_the_size_larger() -> None:
    larger = [_point("a", 64000, (3.7, 3.7)), _point("b", 64000, (5.0, 2.4)), _point("a", 128000, (3.7, 3.7))]
    assert recommend([*POINTS, *larger], ForModel()).vocab_size == 64000  # doubling 16,000 does not pay


def test_a_large_model_takes_the_largest_size() -> None:
    assert recommend(POINTS, ForModel(70e9)).vocab_size == 32000


def test_sizes_whose_last_pair_is_rare_in_every_mixture_are_left_out() -> None:
    rare = [replace(point, last_count=5) if point.vocab_size > 8000 else point for point in POINTS]
    chosen = recommend(rare, ForModel(70e9))
    assert chosen.vocab_size == 8000
    assert chosen.reasons[2].endswith("in every mixture: 16,000 (5), 32,000 (5)")


def test_mixtures_whose_last_pair_is_rare_are_left_out() -> None:
    chosen = recommend([_point("a", 400, (2.0,)), _point("b", 400, (3.0,), last_count=19)], ForModel())
    assert chosen.mixture == "a"
    assert chosen.reasons[2] == "their last pair occurred fewer than 20 times at this size: b (19)"


def test_too_little_text_is_said() -> None:
    assert "too little text" in recommend([_point("a", 400, (2.0,), last_count=1)], ForModel()).reasons[-1]


def test_a_point_is_judged_by_held_out_text_if_there_is_any() -> None:
    measured = (*POINTS[0].measured, Measured("held out", "x", 50, 10))
    assert rate(replace(POINTS[0], measured=measured)) == pytest.approx(5)


def _of_documents(mixture: str, groups: tuple[int, ...]) -> Point:
    tokens = sum(groups)
    return Point(mixture, 400, 400, 100, (Measured("held out", "x", 4 * 64_000, tokens, groups),))


GROWING = [_point("a", size, (bytes_per_token,)) for size, bytes_per_token in ((8000, 3.0), (16000, 3.3), (32000, 3.4))]


def test_advice_has_its_weight_and_what_would_change_it() -> None:
    of_size = recommend(GROWING, ForModel()).advice[0]
    assert str(of_size) == (
        "doubling 16,000 saves 2.9% of the tokens, less than 5%; 8,000 costs 10.0% more tokens, 32,000 2.9% fewer; "
        "with a limit of 2.9% it would be 32,000, above 9.1% 8,000"
    )
    assert of_size.evidence["saved_by_doubling"] == pytest.approx({16000: 1 - 3 / 3.3, 32000: 1 - 3.3 / 3.4})


def test_advice_of_a_prediction_names_the_one_that_would_change_it() -> None:
    predicted = recommend(GROWING, ForModel(3e9, hidden_size=3200)).advice[0]
    assert predicted.unless == "a prediction below 22,627 would take 16,000"


def test_mixtures_that_hardly_differ_are_equal() -> None:
    close = recommend([_point("a", 400, (2.0,)), _point("b", 400, (1.9985,)), _point("c", 400, (1.9,))], ForModel())
    assert close.advice[1].equal == ("b",)
    assert "equal within 0.1%, so any of these: a | b" in close.reasons[1]


def test_mixtures_are_equal_within_the_interval_over_documents() -> None:
    even, worse = _of_documents("a", (1000,) * 64), _of_documents("b", (1010,) * 64)
    scattered = _of_documents("c", tuple(1010 + (300 if at % 2 else -300) for at in range(64)))
    advice = recommend([even, worse, scattered], ForModel()).advice[1]
    assert advice.equal == ("c",)  # b has as many more tokens, but in every document
    assert advice.evidence["equal_within"]["b"] == pytest.approx(0.001)
    assert 0.04 < advice.evidence["equal_within"]["c"] < 0.11  # 2 x 300 / 1,010 / square root of 64


def test_figures_have_the_points_of_the_mixtures() -> None:
    rates = {"a": (4.0, 2.0), "b": (3.0, 3.0), "c": (2.9, 2.9)}
    points = [_point(name, size, one) for name, one in rates.items() for size in (400, 500)]
    chosen, weights = recommend(points, ForModel()), {name: {name: "1"} for name in rates}
    sizes, texts, pareto = Swept(Path(), tuple(points), (), chosen, (), weights).figures()
    assert chosen.mixture == "b"
    assert {line.name: line.points[0][1] for line in sizes.series} == pytest.approx(
        {"a 1, b 0, c 0": 100 * (3 / math.sqrt(8) - 1), "a 0, b 1, c 0": 0, "a 0, b 0, c 1": 100 * (3 / 2.9 - 1)}
    )
    assert dict(texts.series[0].points) == pytest.approx({"0": 0, "1": 50}, abs=0.001)
    assert [line.star for line in pareto.series] == [False, True, False, False]
    assert [tuple(round(value, 3) for value in point) for point in pareto.series[-1].points] == [(2, 4), (3, 3)]


def test_numbers_of_the_model_are_read_or_refused() -> None:
    assert for_model(parameters="1.5B", tokens="2T", hidden_size="2,048") == ForModel(1.5e9, 2e12, 2048)
    for wrong in ({"parameters": "x"}, {"parameters": "0"}, {"tokens": "2T"}, {"hidden_size": "4096"}):
        with pytest.raises(UsageError, match="--"):
            for_model(**wrong)


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
        pipeline.combine_runs([one, same], output=tmp_path / "sum")


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
