"""What `encode-chat` refuses: files without conversations, options and data sets that do not fit."""

from pathlib import Path

import pytest
from command import refused, run

_TEMPLATE = ("--template", "chatml")
_ROWS = ("rows.jsonl", *_TEMPLATE)
_LISTED = ("--dataset-info", "dataset_info.json", *_TEMPLATE, "--dataset")


def _refused(home: Path, output: Path, code: int, *words: object, command: str = "encode-chat") -> str:
    return refused(run(command, *words, "--tokenizer", "tokenizer", "--output", output, cwd=home), code)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("rows.csv", "rows.csv holds text, and chat data are rows: name .jsonl, .json, .parquet"),
        ("cut.json", "cut.json cannot be read as JSON after 1 rows (its array does not end)"),
        ("cut.arrow", "cut.arrow cannot be read as Arrow ("),
        ("bad.parquet", "bad.parquet cannot be read as Parquet ("),
        ("lost.jsonl", "no conversation is left to train on: 1 conversation dropped: the messages"),
        (
            "other.jsonl",
            "byte 0, columns body); chat data have messages, conversations, or instruction and output: say",
        ),
    ],
)
def test_a_file_without_conversations_is_refused(home: Path, tmp_path: Path, file: str, message: str) -> None:
    assert message in _refused(home, tmp_path / "out", 1, file, *_TEMPLATE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rows.jsonl",), "template tokenizer: the tokenizer has no chat template; name one, such as chatml"),
        (_TEMPLATE, "encoding chat data takes INPUT, or --dataset-info and --dataset, and --output"),
        ((*_ROWS, "--shard-format", "bin"), "no column for labels"),
        ((*_ROWS, "--shuffle", 1), "No such option '--shuffle'"),
        ((*_ROWS, "--max-samples", 3), "No such option '--max-samples'"),
        ((*_ROWS, "--pack", "best-fit"), "choose none, greedy or neat"),
        ((*_ROWS, "--pack", "neat", "--sequence-length", 1), "--sequence-length of packed rows must be at least 2"),
        ((*_ROWS, "--config", "size.json"), "val_size 3: give a share below 1, which --val-fraction holds out"),
        ((*_ROWS, "--config", "names.json"), "cutoff_len and sequence_length are one option: give one of them"),
        ((*_ROWS, "--config", "stage.yaml"), "'stage' is unknown"),
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
    assert "the corpus holds no text to encode: 300 records skipped: no text field (first: " in line
    assert "; name the field with --text-field; for chat data, use encode-chat" in line
    line = _refused(home, tmp_path / "out", 2, "rows.jsonl", "--pack", "neat", command="encode")
    assert "--pack neat is for chat data" in line
