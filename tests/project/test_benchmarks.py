"""benchmarks: statistics, records, corpora and rendering; project/test_benchmark_tools.py has the measuring."""

import dataclasses
import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import adapters, cluster, comparison, corpora, cost, cost_text, growth, ours, plots, records, render

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = "<|endoftext|>"


def record(tool: str, round_: int, wall_s: float, **other: Any) -> records.Record:
    task = {"corpus": "a.txt", "corpus_bytes": 3_000_000, "pattern": "gpt2", "vocab_size": 1000}
    measured = {"wall_s": wall_s, "user_s": wall_s, "system_s": 0.0, "peak_memory_bytes": int(wall_s * 1e8)}
    machine = {"cpu": "A CPU", "usable_cores": 2, "memory_bytes": 2**34, "os": "Linux", "python": "3.11"}
    made = {"format": records.FORMAT, "kind": "train", "session": "2026-01-01T00:00:00+00:00", "machine": machine}
    result = {"status": "ok", "reason": None, "merges": 743, "tokens_digest": "abcdef0123456789"}
    return made | {"round": round_, "tool": tool, "version": "1.0"} | task | measured | result | other


THREE_ROUNDS = [
    *(record(ours.NAME, number, wall_s) for number, wall_s in ((1, 1.0), (2, 2.0), (3, 4.0))),
    *(record("tokenizers", number, wall_s) for number, wall_s in ((1, 10.0), (2, 40.0), (3, 20.0))),
]


# statistics and records


@pytest.mark.parametrize(
    ("rounds", "of_rounds", "ratio"),
    [  # medians alone would give 20 / 2 = 10; the ratios of the rounds are 10, 20 and 5
        (THREE_ROUNDS, [], 10),
        (THREE_ROUNDS, [max], 20),
        (THREE_ROUNDS[:3], [], None),
        ([*THREE_ROUNDS[:5], record("tokenizers", 3, 20.0, status="failed")], [], 15),
    ],
    ids=["median", "max", "one-tool", "a-failed-round"],
)
def test_ratios_are_taken_round_by_round(rounds: list[records.Record], of_rounds: list[Any], ratio: int | None) -> None:
    assert records.paired(rounds, "tokenizers", ours.NAME, "wall_s", *of_rounds) == ratio


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_log_log_slope_is_the_power_and_needs_two_points(power: float) -> None:
    points = [(x, 3 * x**power) for x in (1e6, 5e6, 2e8)]
    assert records.log_log_slope(points) == pytest.approx(power)
    assert records.log_log_slope([points[0]] * 2) is None


def test_records_are_appended_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.jsonl"
    for one in THREE_ROUNDS:
        records.append(path, one)
    records.append(path, record("x", 1, 1.0, kind="growth"))
    assert records.read(path, "train") == THREE_ROUNDS
    assert len(records.read(path)) == 7
    assert len(path.read_text("utf-8").splitlines()) == 7


@pytest.mark.parametrize("line", ["{", "[]", '{"format": 99, "kind": "train"}', '{"kind": "train"}'])
def test_an_invalid_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "results.jsonl"
    records.append(path, THREE_ROUNDS[0])
    path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(ValueError, match="line 2"):
        records.read(path)


def test_sessions_are_never_mixed() -> None:
    old = record(ours.NAME, 1, 99.0, session="2025-01-01T00:00:00+00:00")
    groups = records.latest([old, *THREE_ROUNDS])
    assert list(groups.values()) == [THREE_ROUNDS]


# corpora


def test_sizes() -> None:
    sizes = {"5000": 5000, "25MB": 25_000_000, "64 MiB": 64 << 20, "1.5g": 1_500_000_000}
    assert {text: corpora.parse_size(text) for text in sizes} == sizes
    for text in ("", "MB", "-1", "0", "1XB"):
        with pytest.raises(ValueError, match="size"):
            corpora.parse_size(text)


def test_a_part_ends_with_a_document_and_copies_are_joined_by_the_special_token(tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text(f"one\n{SPECIAL}\ntwo\n{SPECIAL}\nthree", "utf-8")
    cut = corpora.prefix(source, 30, SPECIAL, target)
    assert target.read_text("utf-8") == f"one\n{SPECIAL}\ntwo\n"
    assert cut.bytes == target.stat().st_size
    assert corpora.prefix(source, 10**6, SPECIAL, target).bytes == source.stat().st_size
    with pytest.raises(ValueError, match="larger size"):
        corpora.prefix(source, 2, SPECIAL, target)
    assert corpora.repeat(source, 3, SPECIAL, target).name == "a.txt x3"
    assert target.read_text("utf-8").split(f"\n{SPECIAL}\n") == ["one", "two", "three"] * 3


def test_documents_do_not_depend_on_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    text = f"{SPECIAL}größer\r\n{SPECIAL}{SPECIAL}\n<|endof{SPECIAL}last"
    path.write_bytes(text.encode())
    wanted = ["größer\r\n", "\n<|endof", "last"]
    for block_bytes in (1, 2, 5, 13, 14, 1000):
        monkeypatch.setattr(adapters, "READ_BYTES", block_bytes)
        assert list(adapters.read_documents(str(path), SPECIAL)) == wanted


# rendering


def test_rendering_changes_only_the_text_between_markers(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"# Title\n\n{render.BEGIN}\nold\n{render.END}\n\nend\n", "utf-8")
    text = render.markdown(THREE_ROUNDS)
    assert render.write_document(path, {"": text})
    assert path.read_text("utf-8") == f"# Title\n\n{render.BEGIN}\n\n{text}\n\n{render.END}\n\nend\n"
    assert not render.write_document(path, {"": text})
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "document",
    ["", render.BEGIN, f"{render.END}\n{render.BEGIN}", f"{render.BEGIN}{render.BEGIN}{render.END}"],
)
def test_a_document_without_markers_is_unchanged(tmp_path: Path, document: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(document, "utf-8")
    with pytest.raises(ValueError, match=r"README\.md"):
        render.write_document(path, {"": "text"})
    assert path.read_text("utf-8") == document


def test_table_shows_medians_ratios_and_agreement() -> None:
    lines = render.training_table(THREE_ROUNDS)
    assert lines[2].startswith(f"| {ours.NAME} 1.0 | 2.00 s (1.00-4.00) | 1.00x |")
    assert lines[3].startswith("| tokenizers 1.0 | 20.00 s (10.00-40.00) | 10.0x |")
    assert lines[3].endswith("| same |")
    other = [*THREE_ROUNDS[:3], record("tokenizers", 1, 10.0, tokens_digest="0011223344")]
    assert render.training_table(other)[3].endswith("| other, `00112233` |")
    failed = record("rustbpe", 1, 0.0, status="timeout", reason="longer than 5 s")
    assert render.training_table([failed])[-1].startswith("| rustbpe 1.0 | timeout: longer than 5 s |")
    assert render.markdown([]) == render.NOTHING


def test_executors_are_compared_within_a_round() -> None:
    times = {"local": [4.0, 1.0, 2.0], "ray": [6.0, 2.0, 2.4]}
    done = [
        record(ours.NAME, number, wall_s, kind="cluster", executor=executor)
        for executor, walls in times.items()
        for number, wall_s in enumerate(walls, start=1)
    ]
    assert cluster.section(done)[-2] == "| a.txt | 2.0 s | 2.4 s | 1.50x | yes |"
    done[0]["status"], done[1]["tokens_digest"] = "failed", "another"
    assert cluster.section(done)[-2] == "| a.txt | 1.5 s | 2.2 s | 1.60x | no |"
    assert cluster.section([]) == []


def test_tables_in_the_documentation_match_the_results() -> None:
    measured = records.read(ROOT / "benchmarks" / "results.jsonl")
    asked = {
        "README.md": ["summary"],
        "docs/pages/explanation/comparison.md": ["trainers"],
        "docs/pages/reference/benchmarks.md": [""],
    }
    for name, tables in asked.items():
        document = (ROOT / name).read_text("utf-8")
        assert render.names_in(document) == tables
        texts = {table: render.TABLES[table](measured) for table in tables}
        assert render.replace_between_markers(document, texts) == document, f"{name}: run python -m benchmarks render"
    assert len(comparison.summary(measured).splitlines()) == 2 + 4
    planned = cost.Cluster(16, 32, 256 << 30, 1_250_000_000, 0.02)
    predictions = cost_text.text(measured, planned, [10**12, 10**13], 4 << 30)
    assert predictions in (ROOT / "benchmarks" / "SCALE.md").read_text("utf-8")


def grown(source: str, size: int, round_: int, wall_s: float, **other: Any) -> records.Record:
    of_growth = {"kind": "growth", "over": "corpus_bytes", "source": source, "corpus_bytes": size}
    return record(ours.NAME, round_, wall_s, **of_growth, **other)


def test_curves_take_medians_and_slopes_and_plots_are_reproducible(tmp_path: Path) -> None:
    measured = [
        grown("a.txt", size, number, size * 1e-6 * noise, stages={"merge": math.sqrt(size)})
        for size in (1_000_000, 4_000_000)
        for number, noise in ((1, 0.9), (2, 1.0), (3, 7.0))
    ]
    whole, merge = growth.curves(measured)
    assert whole.points == ((1e6, 1.0), (4e6, 4.0))
    assert (whole.slope, merge.slope) == (pytest.approx(1.0), pytest.approx(0.5))
    assert "| merge |" in render.markdown(measured)
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    paths = [tmp_path / "plots" / name for name in ("one.svg", "two.svg", "tools.svg")]
    assert plots.draw_growth(measured, paths[0])
    assert plots.draw_growth(measured, paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert plots.draw_tools(THREE_ROUNDS, paths[2])
    assert not plots.draw_tools([], tmp_path / "none.svg")


# the model of cost


def run_of(size: int, round_: int = 1, **other: Any) -> records.Record:
    """A run with the cost of a known model."""
    pieces, rows = 40 * size**0.6, size / 2**26 * 40 * min(size, 2**26) ** 0.6
    stages = {
        "counting": 0.2 + size / 2e8,
        "combining": rows / 4e6,
        "merging": 0.1 + 9 * pieces / 1e8,
        "exporting": 0.2,
    }
    found = {"different_pieces": pieces, "piece_bytes": 9 * pieces, "repeated_bytes": 4 * pieces}
    found |= {"chunk_rows": rows, "chunk_counter_bytes": 7 * rows, "peak_memory_bytes": 60e6 + 90 * pieces}
    return grown("b.txt", size, round_, sum(stages.values()) + 0.1, stages=stages, **found) | other


RUNS = [run_of(size) for size in (10**7, 10**8, 4 * 10**8, 10**9)]


def test_the_cost_model_recovers_its_parameters() -> None:
    model = cost.fit(RUNS)
    assert model.pieces.exponent == pytest.approx(0.6)
    assert model.row_bytes == pytest.approx(7)
    assert model.counting.each == pytest.approx(2 / 2e8)  # of one core; two were busy
    assert model.merging == cost.Line(pytest.approx(0.1), pytest.approx(1e-8))
    assert model.peak_bytes == cost.Line(pytest.approx(60e6), pytest.approx(10))
    assert model.rest == pytest.approx(0.3)
    wanted = [pytest.approx(run_of(5 * 10**9)[name]) for name in ("wall_s", "peak_memory_bytes")]
    assert [*cost.on_this_machine(model, 5 * 10**9, 2)] == wanted


def test_a_run_is_predicted_from_smaller_runs_only() -> None:
    slow = run_of(10**9, wall_s=1000.0)
    [predicted] = cost.predict([*RUNS[:3], slow, run_of(10**8, 2, status="failed"), run_of(7, session="2025")])
    assert predicted.corpus_bytes == 10**9
    assert predicted.seconds == (pytest.approx(RUNS[3]["wall_s"]), 1000.0)
    assert cost.predict(RUNS[1:]) == []
    assert "No source" in cost_text.text(RUNS[1:], CLUSTER, [10**12], 2**32)


CLUSTER = cost.Cluster(4, 8, 2**38, 1e9, 0.01)


def test_plans_name_the_bottleneck() -> None:
    model = cost.fit(RUNS)
    usual = cost.plan(model, CLUSTER, 1e12, 2**32)
    assert usual.stages[0].seconds_by["processors"] == pytest.approx(model.counting(1e12) / 32)
    small_chunks = cost.plan(model, CLUSTER, 1e12, 2**24)
    assert small_chunks.stages[1].bottleneck == "requests"
    assert small_chunks.bottleneck == "requests in combining"
    assert small_chunks.chunk_counter_bytes > usual.chunk_counter_bytes
    slow, small, alone = (
        cost.plan(model, dataclasses.replace(CLUSTER, **change), 1e12, 2**32)
        for change in ({"network_bytes_s": 1e6}, {"memory_bytes": 2**33}, {"nodes": 1})
    )
    assert slow.bottleneck == "network in counting"
    assert "memory" in small.bottleneck
    assert slow.merging_repeated_bytes < slow.merging_bytes
    assert alone.merging_bytes == pytest.approx(CLUSTER.nodes * usual.merging_bytes, rel=0.02)
    assert cost.share_merging(CLUSTER, 1e11)["processors"] > cost.share_merging(CLUSTER, 1e10)["processors"]
    assert "exchanges" in cost.share_merging(dataclasses.replace(CLUSTER, nodes=200), 1e10)
    text = cost_text.text(RUNS, CLUSTER, [10**12, 10**13], 2**32)
    assert text.count("\n| b.txt | 1") == 3
    assert "| 10 TB |" in text


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([], cost.Line(0, 0)),
        ([(1, 2)], cost.Line(0, 2)),
        ([(1, 3), (2, 1)], cost.Line(1.2, 0)),
        ([(1, 1), (2, 4)], cost.Line(0, 1.2)),
        ([(1, 3), (2, 5), (3, 7)], cost.Line(1, 2)),
    ],
)
def test_lines_neither_fall_nor_start_below_zero(points: list[tuple[float, float]], line: cost.Line) -> None:
    assert cost.fit_line(points) == cost.Line(pytest.approx(line.fixed), pytest.approx(line.each))


def test_times() -> None:
    times = {3.21: "3.2 s", 200: "3.3 min", 7000: "1.9 h", 9e6: "104 d"}
    assert {seconds: cost_text.time_text(seconds) for seconds in times} == times
