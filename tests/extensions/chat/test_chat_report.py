"""The report on rows of chat data: lengths, what a cutoff cuts, what is trained on."""

import json
from collections import Counter
from operator import ne as unlike
from pathlib import Path

import pytest
from chat_cases import encode_rows, read_rows, small_tokenizer
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.extensions.chat.encode import encode_chat
from bpe_pipeline.extensions.chat.lengths import Conversations
from bpe_pipeline.extensions.chat.page import ChatReport
from bpe_pipeline.reports.figure import Figure
from bpe_pipeline.reports.figure_files import drawn


@pytest.fixture(scope="module")
def cut(home: Path) -> Path:
    """The rows of the conversations, cut to 50 tokens."""
    succeeded(encode_rows(home, home / "cut", home / "rows.jsonl", "--sequence-length", 50))
    return home / "cut"


def _in_memory(home: Path, sequence_length: int) -> list[dict[str, list[int]]]:
    lines = map(json.loads, (home / "rows.jsonl").read_text().splitlines())
    conversations = [compat.align_chat(row, "sharegpt") for row in lines]
    return list(encode_chat(conversations, small_tokenizer(), "chatml", sequence_length))


def test_rows_are_those_of_python(home: Path, cut: Path) -> None:
    expected = _in_memory(home, 50)
    assert read_rows(cut) == [row | {"attention_mask": [1] * len(row["labels"])} for row in expected]


def test_info_says_what_is_dropped_and_cut(home: Path, cut: Path) -> None:
    rows, whole = _in_memory(home, 50), _in_memory(home, 10_000)
    shown = run("info", cut).stdout
    assert f"{300 - len(rows)} conversations dropped: not pairs of a question and an answer (first: {home}" in shown
    assert f"{sum(map(unlike, whole, rows))} conversations truncated to the sequence length (first: {home}" in shown
    lengths = sorted(len(row["labels"]) for row in whole)
    median = lengths[(len(lengths) - 1) // 2]
    assert f"{len(whole)} of {lengths[0]} to {lengths[-1]} tokens: median {median}, 90th percentile " in shown


def test_lengths_and_trained_shares_are_stored(home: Path, cut: Path) -> None:
    about = json.loads((cut / "shards.json").read_text())["about"]
    whole = [len(row["labels"]) for row in _in_memory(home, 10_000)]
    assert max(whole) < 1024
    lengths = Counter(length if length < 512 else length + length % 2 for length in whole)  # to nine binary digits
    assert (about["cut_off"], about["lengths"]) == (50, [[*pair] for pair in sorted(lengths.items())])
    labels = [row["labels"] for row in _in_memory(home, 50)]
    shares = Counter(20 * (len(row) - row.count(-100)) // len(row) for row in labels)
    assert about["trained_on"] == [[5 * share, count] for share, count in sorted(shares.items())]


def test_a_report_is_the_same_as_text_as_json_and_in_python(cut: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shown = succeeded(run("report", cut, "--output", page)).stdout
    assert str(bpe_pipeline.report(cut)) == shown.rstrip("\n")
    assert json.loads(page.with_suffix(".json").read_text()) == json.loads(run("report", cut, "--json").stdout)
    assert "Lengths of the conversations" in page.read_text()


def test_a_report_says_what_is_cut_and_dropped(cut: Path) -> None:
    report = bpe_pipeline.report(cut)
    lengths = dict(report["conversations"].lengths)
    longer = sum(count for length, count in lengths.items() if length > 50)
    assert f"50 tokens truncated {longer} ({longer / sum(lengths.values()):.1%}), leaving out " in str(report)
    assert f"{longer} conversations truncated to the sequence length" in str(report)
    assert "conversations dropped: not pairs of a question and an answer" in str(report)


def test_figures_show_shares_of_all_conversations(cut: Path) -> None:
    report = bpe_pipeline.report(cut)
    [by_length, trained] = report.figures()
    whole, over = (dict(series.points) for series in by_length.series)
    assert max(map(float, whole)) < by_length.x.mark == 50 < min(map(float, over))
    share = report["conversations"].cut_by(50)[1]
    assert sum(map(float, over.values())) == pytest.approx(100 * share, abs=0.1)
    assert sum(map(float, [*whole.values(), *over.values()])) == pytest.approx(100, abs=0.1)
    assert sum(float(y) for _, y in trained.series[0].points) == pytest.approx(100, abs=0.1)
    assert "data:image/svg" in report._repr_html_()


def test_figures_of_a_report_are_written(cut: Path, tmp_path: Path) -> None:
    succeeded(run("report", cut, "--figures", tmp_path / "figures"))
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        *(f"{name}.{form}" for name in ("lengths", "trained-on") for form in ("svg", "pdf", "csv")),
        "table-what-a-cutoff-truncates.csv",
    }
    assert "has rows, not a tokenizer: leave out --held-out" in refused(run("report", cut, "--held-out", tmp_path), 2)


def _lengths_drawn(lengths: tuple[tuple[int, int], ...], cut_off: int) -> Figure:
    conversations = Conversations(cut_off, lengths, ((95, 100),))
    facts = {"conversations": conversations, "trained_on_tokens": 5, "tokens": 9, "padded_tokens": 0}
    figure, _ = ChatReport({**facts, "shards": "a", "template": "b", "skipped_or_altered": []}).figures()
    assert drawn(figure, "svg")
    return figure


@pytest.mark.parametrize(
    ("lengths", "cut_off", "mark"),
    [
        (((7, 5),), 2048, None),  # nothing is near the cutoff
        (((10, 96), (40, 4)), 100, None),
        (((10, 90), (900, 9), (70_000, 1)), 1000, 1000),
        (((1, 1), (3, 1)), 1, 1),
    ],
)
def test_bars_of_lengths_are_few_and_add_up(lengths: tuple[tuple[int, int], ...], cut_off: int, mark: int) -> None:
    figure = _lengths_drawn(lengths, cut_off)
    points = [point for series in figure.series for point in series.points]
    assert sum(float(y) for _, y in points) == pytest.approx(100)
    assert len(points) <= 34
    assert figure.x.mark == mark


def test_a_bar_ends_at_the_cut_off() -> None:
    whole, cut = _lengths_drawn(((1, 1), (3, 1)), 1).series
    assert (whole.points[-1], cut.points) == ((0.5, 50), ((1.5, 0), (2.5, 50)))


def test_the_longest_conversation_is_named_where_its_bar_is_the_last_one() -> None:
    figure = _lengths_drawn(((10, 90), (900, 9), (70_000, 1)), 1000)
    assert "up to 70,000" in figure.note
    assert figure.x.ticks == ((0, "0"), (200, "200"), (400, "400"), (600, "600"), (800, "800"), (1016, ">1,000"))
    assert "up to" not in _lengths_drawn(((10, 96), (40, 4)), 100).note
