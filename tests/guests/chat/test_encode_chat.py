"""`encode-chat`: recorded packing of LLaMA-Factory, one answer however the work is cut or killed, and refusals."""

import csv
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from operator import ne as unlike
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_cases import cases, conversation, dialog, recorded_tokenizer, small_tokenizer
from command import files_in, refused, run, succeeded
from object_store import Store

import pipeline
from pipeline.guests.chat.encode import encode_chat
from pipeline.guests.chat.lengths import Conversations
from pipeline.guests.chat.page import ChatReport
from pipeline.reports.figure import Figure
from pipeline.reports.figure_files import drawn

ALIGNED = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
COLUMNS = {"messages": "messages", "system": "system"}


def _write_lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_rows(directory: Path) -> list[dict[str, list[int]]]:
    """Return the rows of all Arrow streams in a directory."""
    tables = [pa.ipc.open_stream(path.read_bytes()).read_all() for path in sorted(directory.glob("data-*.arrow"))]
    return [row for table in tables for row in table.to_pylist()]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the small tokenizer, and 300 rows in three formats."""
    home = tmp_path_factory.mktemp("chat")
    small_tokenizer().save(home / "tokenizer")
    chosen, words = random.Random(1), ["low", "lower", "the", "other", "<|eot_id|>", "slower"]

    def said(turn: int) -> dict[str, str]:
        return {"from": ("human", "gpt")[turn % 2], "value": " ".join(chosen.choices(words, k=chosen.randint(1, 30)))}

    rows = [{"conversations": [*map(said, range(chosen.choice((2, 2, 4, 6, 3))))]} for _ in range(300)]  # 3 is dropped
    _write_lines(home / "rows.jsonl", rows)
    (home / "rows.json").write_text(json.dumps(rows, indent=2))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, home / "rows.parquet", row_group_size=70)
    for name, opened in (("stream", pa.ipc.new_stream), ("file", pa.ipc.new_file)):
        with opened(home / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=90)
    listed: dict[str, dict[str, Any]] = {"a": {"file_name": "rows.jsonl", "formatting": "sharegpt"}}
    listed |= {"b": {**listed["a"], "file_name": "rows.json"}, "bad": {"file_name": "bad.jsonl"}}
    _write_lines(home / "bad.jsonl", [{"instruction": "a", "output": "b"}])
    listed |= {"more": {**listed["a"], "num_samples": 600}, "link": {**listed["a"], "file_name": "link.jsonl"}}
    (home / "link.jsonl").symlink_to("rows.jsonl")
    files = {"bad.csv": b"instruction,output\na,b\na,b,c\n", "cut.json": b'[{"instruction": "a"}', "a.txt": b"low"}
    files |= {"other.jsonl": b'{"body": "low"}', "lost.jsonl": b'{"messages": 5}'}
    files |= {
        "size.json": b'{"val_size": 3}',
        "names.json": b'{"cutoff_len": 5, "sequence_length": 5}',
        "stage.yaml": b"stage: dpo",
    }
    files["cut.arrow"] = (home / "stream.arrow").read_bytes()[:3000]
    files["bad.parquet"] = b"PAR1" + bytes([255]) * 40 + (home / "rows.parquet").read_bytes()[44:]
    for name, content in files.items():
        (home / name).write_bytes(content)
    (home / "dataset_info.json").write_text(json.dumps(listed))
    return home


def _encode(home: Path, output: object, *arguments: object) -> CompletedProcess[str]:
    return run("encode-chat", "--tokenizer", home / "tokenizer", "--template", "chatml", "--output", output, *arguments)


def _files(directory: Path) -> dict[str, bytes]:
    return files_in(directory, but=("encoding.json", "log.txt", ".lock", "shards.json"))


PACKED = ("--pack", "neat", "--sequence-length", 64, "--val-fraction", "0.1")


@pytest.fixture(scope="module")
def packed(home: Path) -> dict[str, bytes]:
    """The files of the rows when they are packed by one worker."""
    succeeded(_encode(home, home / "packed", home / "rows.jsonl", *PACKED, "--workers", 1))
    found = _files(home / "packed")
    assert {"train/state.json", "validation/state.json", "dataset_dict.json"} < set(found)
    return found


def test_recorded_packing_is_equal(tmp_path: Path) -> None:
    for number, case in enumerate(cases("packing")):
        options, home = case["options"], tmp_path / str(number)
        recorded_tokenizer(case["tokenizer"]).save(home / "tokenizer")
        _write_lines(home / "rows.jsonl", list(map(conversation, case["examples"])))
        entry = {"file_name": "rows.jsonl", "formatting": "sharegpt", "columns": COLUMNS, "tags": ALIGNED}
        (home / "dataset_info.json").write_text(json.dumps({"a": entry}))
        (home / "options.yaml").write_text(json.dumps({**options, "dataset_dir": str(home), "dataset": "a"}))
        common = ("--tokenizer", home / "tokenizer", "--output", home / "out")
        succeeded(run("encode-chat", *common, "--config", home / "options.yaml"))
        found, expected = read_rows(home / "out"), case["result"]
        for name in found[0]:
            assert [row[name] for row in found] == expected[name], (options, name)


def _splits(output: Path) -> list[list[tuple[int, ...]]]:
    """Return the ids of the rows for training and for validation."""
    return [[tuple(row["input_ids"]) for row in read_rows(output / name)] for name in ("train", "validation")]


def test_validation_is_chosen_by_a_hash_of_the_ids(home: Path, tmp_path: Path) -> None:
    lines, held_out = (home / "rows.jsonl").read_text().splitlines(keepends=True), {}
    (tmp_path / "fewer.jsonl").write_text("".join(lines[:200]))
    words: dict[str, tuple[object, ...]] = {
        "fewer": (tmp_path / "fewer.jsonl", "--val-fraction", "20%"),
        "all": (home / "rows.jsonl", "--val-fraction", 0.2),
        "tokens": (home / "rows.jsonl", "--val-tokens", 500),
    }
    for name, arguments in words.items():
        succeeded(_encode(home, tmp_path / name, *arguments, "--seed", 5))
        train, validation = _splits(tmp_path / name)
        assert not {*train} & {*validation}
        held_out[name] = {*validation}
    assert held_out["fewer"] < held_out["all"]
    assert held_out["tokens"] < held_out["all"]
    assert {*train} | {*validation} == {*_ids(home, tmp_path / "plain")}
    assert 0.1 < len(held_out["all"]) / len(lines) < 0.3
    sizes = list(map(len, validation))
    assert sum(sizes) - 2 * max(sizes) < 500 <= sum(sizes)


def _ids(home: Path, output: Path) -> list[tuple[int, ...]]:
    """Return the ids of all rows, none held out."""
    succeeded(_encode(home, output, home / "rows.jsonl"))
    return [tuple(row["input_ids"]) for row in read_rows(output)]


def test_validation_may_be_drawn_at_random(home: Path, tmp_path: Path) -> None:
    succeeded(_encode(home, tmp_path / "out", home / "rows.jsonl", "--config", home / "size.json"))
    assert len(_splits(tmp_path / "out")[1]) == 3


def test_rows_that_are_drawn_again_are_held_out_once(home: Path, tmp_path: Path) -> None:
    listed = ("--dataset-info", home / "dataset_info.json", "--dataset", "more")
    succeeded(_encode(home, tmp_path / "more", *listed, "--val-fraction", 0.2))
    rows = Counter(_ids(home, tmp_path / "once"))
    train, validation = map(Counter, _splits(tmp_path / "more"))
    assert validation <= rows
    assert not train <= rows


def test_a_warning_says_that_all_conversations_are_held_out(home: Path, tmp_path: Path) -> None:
    done = succeeded(_encode(home, tmp_path / "out", home / "rows.jsonl", "--val-tokens", 10**7))
    assert re.search(r"--val-tokens 10,000,000 holds out all \d+ conversations, which leaves none", done.stderr)


@pytest.fixture(scope="module")
def cut(home: Path) -> Path:
    """The rows of the conversations, cut to 50 tokens."""
    succeeded(_encode(home, home / "cut", home / "rows.jsonl", "--sequence-length", 50))
    return home / "cut"


def _in_memory(home: Path, sequence_length: int) -> list[dict[str, list[int]]]:
    lines = map(json.loads, (home / "rows.jsonl").read_text().splitlines())
    conversations = [pipeline.align_chat(row, "sharegpt") for row in lines]
    return list(encode_chat(conversations, small_tokenizer(), "chatml", sequence_length))


def test_rows_are_those_of_python(home: Path, cut: Path) -> None:
    expected = _in_memory(home, 50)
    assert read_rows(cut) == [row | {"attention_mask": [1] * len(row["labels"])} for row in expected]


def test_info_says_what_is_dropped_and_cut(home: Path, cut: Path) -> None:
    rows, whole = _in_memory(home, 50), _in_memory(home, 10_000)
    shown = run("info", cut).stdout
    assert f"{300 - len(rows)} conversations dropped: not pairs of a question and an answer (first: {home}" in shown
    assert f"{sum(map(unlike, whole, rows))} conversations cut to the sequence length (first: {home}" in shown
    lengths = sorted(len(row["labels"]) for row in whole)
    median = lengths[(len(lengths) - 1) // 2]
    assert f"{len(whole)} of {lengths[0]} to {lengths[-1]} tokens, 50% at most {median}, " in shown


def test_lengths_and_learned_shares_are_stored(home: Path, cut: Path) -> None:
    about = json.loads((cut / "shards.json").read_text())["about"]
    whole = [len(row["labels"]) for row in _in_memory(home, 10_000)]
    assert max(whole) < 1024
    lengths = Counter(length if length < 512 else length + length % 2 for length in whole)  # to nine binary digits
    assert (about["cut_off"], about["lengths"]) == (50, [[*pair] for pair in sorted(lengths.items())])
    labels = [row["labels"] for row in _in_memory(home, 50)]
    shares = Counter(20 * (len(row) - row.count(-100)) // len(row) for row in labels)
    assert about["learned"] == [[5 * share, count] for share, count in sorted(shares.items())]


def test_a_report_is_the_same_as_text_as_json_and_in_python(cut: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shown = succeeded(run("report", cut, "--output", page)).stdout
    assert str(pipeline.report(cut)) == shown.rstrip("\n")
    assert json.loads(page.with_suffix(".json").read_text()) == json.loads(run("report", cut, "--json").stdout)
    assert "Lengths of the conversations" in page.read_text()


def test_a_report_says_what_is_cut_and_dropped(cut: Path) -> None:
    report = pipeline.report(cut)
    lengths = dict(report["conversations"].lengths)
    longer = sum(count for length, count in lengths.items() if length > 50)
    assert f"50 tokens cut {longer} ({longer / sum(lengths.values()):.1%}), leaving out " in str(report)
    assert f"{longer} conversations cut to the sequence length" in str(report)
    assert "conversations dropped: not pairs of a question and an answer" in str(report)


def test_figures_show_shares_of_all_conversations(cut: Path) -> None:
    report = pipeline.report(cut)
    [by_length, learned] = report.figures()
    whole, over = (dict(series.points) for series in by_length.series)
    assert max(map(float, whole)) < by_length.x.mark == 50 < min(map(float, over))
    share = report["conversations"].cut_by(50)[1]
    assert sum(map(float, over.values())) == pytest.approx(100 * share, abs=0.1)
    assert sum(map(float, [*whole.values(), *over.values()])) == pytest.approx(100, abs=0.1)
    assert sum(float(y) for _, y in learned.series[0].points) == pytest.approx(100, abs=0.1)
    assert "data:image/svg" in report._repr_html_()


def test_figures_of_a_report_are_written(cut: Path, tmp_path: Path) -> None:
    succeeded(run("report", cut, "--figures", tmp_path / "figures"))
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        *(f"{name}.{form}" for name in ("lengths", "learned") for form in ("svg", "pdf", "csv")),
        "table-what-a-cut-off-cuts.csv",
    }
    assert "has rows, not a tokenizer: leave out --held-out" in refused(run("report", cut, "--held-out", tmp_path), 2)


def _lengths_drawn(lengths: tuple[tuple[int, int], ...], cut_off: int) -> Figure:
    conversations = Conversations(cut_off, lengths, ((95, 100),))
    facts = {"conversations": conversations, "learned_tokens": 5, "tokens": 9, "padded_tokens": 0}
    figure, _ = ChatReport({**facts, "shards": "a", "template": "b", "skipped_or_altered": []}).figures()
    assert drawn(figure, "svg")
    return figure


@pytest.mark.parametrize(
    ("lengths", "cut_off", "mark"),
    [
        (((7, 5),), 2048, None),  # nothing is near the cut-off
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
    assert "up to 70,000" in _lengths_drawn(((10, 90), (900, 9), (70_000, 1)), 1000).note
    assert "up to" not in _lengths_drawn(((10, 96), (40, 4)), 100).note


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("rows.jsonl", "--workers", 2, "--chunk-size", "4KiB"), marks=pytest.mark.processes),
        ("rows.json",),
        ("rows.parquet",),
        ("stream.arrow",),
        ("file.arrow",),
    ],
)
def test_workers_chunks_and_formats_change_nothing(home: Path, packed: Any, tmp_path: Path, words: Any) -> None:
    succeeded(_encode(home, tmp_path / "out", home / words[0], *PACKED, *words[1:]))
    assert _files(tmp_path / "out") == packed


def test_rows_of_csv_are_those_of_json_lines(home: Path, tmp_path: Path) -> None:
    texts = ['two\nlines, "quoted"', "low", "7", ""]
    names = ("instruction", "input", "output")
    rows = [dict(zip(names, (f"{text}x", text, texts[-1 - at]), strict=True)) for at, text in enumerate(texts)]
    lines = [{name: text or None for name, text in row.items() if text or name == "output"} for row in rows]
    _write_lines(tmp_path / "rows.jsonl", lines)  # the last one has no input
    with gzip.open(tmp_path / "rows.csv.gz", "wt", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    found = []
    for name in ("rows.jsonl", "rows.csv.gz"):
        result = succeeded(_encode(home, tmp_path / f"of {name}", tmp_path / name))
        assert f"(first: {tmp_path / name}, " in result.stdout
        found.append(read_rows(tmp_path / f"of {name}"))
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_rows_and_data_sets_may_be_in_an_object_store(home: Path, packed: dict[str, bytes], store: Store) -> None:
    for name in ("rows.jsonl", "dataset_info.json"):
        store.put(f"data/{name}", (home / name).read_bytes())
    listed = ("--dataset-info", store.uri("data/dataset_info.json"), "--dataset", "a", *PACKED)
    for number, arguments in enumerate([(store.uri("data/rows.jsonl"), *PACKED, "--chunk-size", "16KiB"), listed]):
        succeeded(_encode(home, store.uri(f"out-{number}"), *arguments))
        assert {name: store.get(f"out-{number}/{name}") for name in packed} == packed


def test_packed_rows_hold_every_conversation_once(home: Path, tmp_path: Path) -> None:
    (tmp_path / "compatible.yaml").write_text("compatible: true")
    for length, *pack in ((79, "none"), (80, "neat"), (80, "greedy", "--config", tmp_path / "compatible.yaml")):
        words = (home / "rows.jsonl", "--sequence-length", length, "--pack", *pack)
        succeeded(_encode(home, tmp_path / pack[0], *words))
    found = []
    for row in read_rows(tmp_path / "neat"):
        assert {len(values) for values in row.values()} == {80}
        for part in range(1, max(row["attention_mask"]) + 1):
            places = [place for place, mask in enumerate(row["attention_mask"]) if mask == part]
            assert [row["position_ids"][place] for place in places] == list(range(len(places)))
            found.append([row["input_ids"][place] for place in places])
        assert row["attention_mask"][-1] == 0
        assert row["labels"][-1] == -100
    assert sorted(found) == sorted(row["input_ids"] for row in read_rows(tmp_path / "none"))
    assert all(row["attention_mask"] == [1] * 80 for row in read_rows(tmp_path / "greedy"))


def test_data_sets_are_mixed_in_the_order_that_is_asked_for(home: Path, tmp_path: Path) -> None:
    mixed = ("--dataset-info", home / "dataset_info.json", "--dataset", "a,b", "--max-samples", 5)
    strategy = ("--mix-strategy", "interleave_under", "--shard-format", "parquet")
    succeeded(_encode(home, tmp_path / "out", *mixed, *strategy))
    rows = pq.read_table(tmp_path / "out" / "shard-00000.parquet").to_pylist()
    assert rows[::2] == rows[1::2]
    assert len(rows) > 4


_TEMPLATE = ("--template", "chatml")
_ROWS = ("rows.jsonl", *_TEMPLATE)
_LISTED = ("--dataset-info", "dataset_info.json", *_TEMPLATE, "--dataset")


def _refused(home: Path, output: Path, code: int, *words: object, command: str = "encode-chat") -> str:
    return refused(run(command, *words, "--tokenizer", "tokenizer", "--output", output, cwd=home), code)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("bad.csv", "bad.csv cannot be read as CSV after 1 rows (a row has more cells"),
        ("cut.json", "cut.json cannot be read as JSON after 1 rows (its array does not end)"),
        ("cut.arrow", "cut.arrow cannot be read as Arrow ("),
        ("bad.parquet", "bad.parquet cannot be read as Parquet ("),
        ("a.txt", "a.txt holds text, and chat data are rows: name .jsonl, .json, .csv"),
        ("lost.jsonl", "no conversation is left to learn from: 1 conversation dropped: the messages"),
        ("other.jsonl", "other.jsonl has the columns body: chat data have messages, conversations"),
    ],
)
def test_a_file_without_conversations_is_refused(home: Path, tmp_path: Path, file: str, message: str) -> None:
    assert message in _refused(home, tmp_path / "out", 1, file, *_TEMPLATE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rows.jsonl", "--template", "gemma"), "no special token <start_of_turn> <end_of_turn>"),
        (("rows.jsonl",), "chat data need a --template"),
        (_TEMPLATE, "encoding chat data takes INPUT, or --dataset-info and --dataset, and --output"),
        ((*_ROWS, "--shard-format", "bin"), "no column for labels"),
        ((*_ROWS, "--shuffle", 1), "No such option '--shuffle'"),
        ((*_ROWS, "--val-size", 3), "--val-size is no flag; give val_size in a file for --config"),
        ((*_ROWS, "--pack", "best-fit"), "choose none, greedy or neat"),
        ((*_ROWS, "--pack", "neat", "--sequence-length", 1), "--sequence-length of packed rows must be at least 2"),
        ((*_ROWS, "--val-fraction", "1%", "--val-tokens", 9), "--val-fraction and --val-tokens exclude each other"),
        ((*_ROWS, "--val-tokens", 9, "--config", "size.json"), "--val-tokens and val_size exclude each other"),
        ((*_ROWS, "--config", "names.json"), "cutoff_len and sequence_length are one option: give one of them"),
        ((*_ROWS, "--config", "stage.yaml"), "stage dpo: only sft is done here; leave it out"),
    ],
)
def test_options_that_do_not_fit_are_refused(home: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    assert message in _refused(home, tmp_path / "out", 2, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*_LISTED, "c"), "has no data set 'c'"),
        ((*_LISTED, "a,link"), "link.jsonl is of data set link and of one before it: give one of them a copy"),
        (("--dataset-info", "cut.json", *_LISTED[2:], "a"), "--dataset-info cut.json cannot be read: "),
        ((*_ROWS, "--dataset", "a"), "--dataset names entries of a file: give --dataset-info dataset_info.json"),
        (("rows.jsonl", *_LISTED, "a"), "--dataset-info takes --dataset NAME[,NAME...] and no INPUT"),
    ],
)
def test_data_sets_that_are_not_there_are_refused(
    home: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in _refused(home, tmp_path / "out", 2, *words)


def test_a_column_that_a_data_set_names_and_no_row_has_is_refused(home: Path, tmp_path: Path) -> None:
    line = _refused(home, tmp_path / "out", 1, *_LISTED, "bad")
    assert "bad.jsonl has the column 'input', which data set bad names; it has instr" in line


def test_encode_names_the_command_for_chat_data(home: Path, tmp_path: Path) -> None:
    line = _refused(home, tmp_path / "out", 1, "rows.jsonl", command="encode")
    assert "no document is left to encode: 300 records skipped: no text field (first: " in line
    assert "; name the field with --text-field; for chat data, use encode-chat" in line
    line = _refused(home, tmp_path / "out", 2, "rows.jsonl", "--pack", "neat", command="encode")
    assert "--pack neat is for chat data" in line


MESSAGES = [dialog(*said)["messages"] for said in (("low <|im_end|>", "er"), ("low", ""), ("low", None))]


def test_broken_rows_stop_nothing_and_each_kind_has_its_reason(home: Path, tmp_path: Path) -> None:
    rows = _write_lines(tmp_path / "rows.jsonl", [{"messages": messages} for messages in (*MESSAGES, "no list")])
    rows.write_text(rows.read_text() + "no JSON\n")
    result = succeeded(_encode(home, tmp_path / "out", rows))
    assert len(read_rows(tmp_path / "out")) == 2
    for line in ("the messages are not a list of messages (first: ", "a content is missing or not text"):
        assert f"1 conversation dropped: {line}" in run("info", tmp_path / "out").stdout
    assert "1 record skipped: not a JSON object" in result.stdout
    assert "warning: 1 empty answer learned (first: " in result.stderr
    assert "warning: 1 special token in messages taken as text (first: " in result.stderr
    line = refused(_encode(home, tmp_path / "other", rows, "--special-tokens-in-messages", "refuse"), 1)
    assert f"{rows}, byte 0: a message contains the special token '<|im_end|>'" in line


def test_a_file_with_their_names_means_special_tokens(home: Path, tmp_path: Path) -> None:
    rows = _write_lines(tmp_path / "rows.jsonl", [{"messages": MESSAGES[0]}])
    typed, both = {}, {"cutoff_len": 50, "special_tokens_in_messages": "text"}
    for name, more in (("ours", {}), ("theirs", {"cutoff_len": 50}), ("both", both)):
        config = tmp_path / f"{name}.yaml"
        config.write_text(json.dumps({"template": "chatml", **more}))
        common = ("--config", config, "--tokenizer", home / "tokenizer", "--output", tmp_path / name)
        succeeded(run("encode-chat", rows, *common, "--quiet"))
        typed[name] = read_rows(tmp_path / name)[0]["input_ids"].count(small_tokenizer().special_tokens["<|im_end|>"])
    assert typed == {"ours": 2, "theirs": 3, "both": 2}


def test_the_date_of_the_first_start_is_kept(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _write_lines(tmp_path / "rows.jsonl", [dialog("low", "", tools=[{"name": "f", "parameters": {}}])])
    common = ("encode-chat", rows, "--template", "llama3", "--tokenizer", home / "tokenizer", "--quiet", "--output")
    for output, date, written in (("a", (), "26 Jul 2024"), ("b", ("--date", "today"), "01 Jan 2025")):
        for today in ("01 Jan 2025", "02 Jan 2025"):
            monkeypatch.setattr("pipeline.guests.chat.plan.date_of", lambda text, day=today: text.replace("today", day))
            assert run(*common, tmp_path / output, *date).returncode == 0
            text = small_tokenizer().decode(read_rows(tmp_path / output)[0]["input_ids"])
            assert f"Today Date: {written}" in text
    assert "--date" in refused(run(*common, tmp_path / "b", "--date", "2025-01-01"), 1)
