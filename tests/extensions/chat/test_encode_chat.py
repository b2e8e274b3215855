"""`encode-chat`: recorded packing of LLaMA-Factory, and one answer however the work is cut or killed."""

import json
import os
import random
import re
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chat_cases import (
    cases,
    conversation,
    dialog,
    encode_rows,
    read_rows,
    recorded_tokenizer,
    small_tokenizer,
    write_lines,
)
from command import files_in, refused, run, run_process, succeeded
from object_store import Store


def _files(directory: Path) -> dict[str, bytes]:
    return files_in(directory, but=("encoding.json", "log.txt", ".lock", "shards.json"))


PACKED = ("--pack", "neat", "--sequence-length", 64, "--val-fraction", "0.1")


@pytest.fixture(scope="module")
def packed(home: Path) -> dict[str, bytes]:
    """The files of the rows when they are packed by one worker."""
    succeeded(encode_rows(home, home / "packed", home / "rows.jsonl", *PACKED, "--workers", 1))
    found = _files(home / "packed")
    assert {"train/state.json", "validation/state.json", "dataset_dict.json"} < set(found)
    return found


def test_recorded_packing_is_equal(tmp_path: Path) -> None:
    for number, case in enumerate(cases("packing")):
        options, home = case["options"], tmp_path / str(number)
        recorded_tokenizer(case["tokenizer"]).save(home / "tokenizer")
        write_lines(home / "rows.jsonl", list(map(conversation, case["examples"])))
        entry = {"file_name": "rows.jsonl", "formatting": "openai"}
        (home / "dataset_info.json").write_text(json.dumps({"a": entry}))
        (home / "options.yaml").write_text(json.dumps({**options, "dataset_dir": str(home), "dataset": "a"}))
        common = ("--tokenizer", home / "tokenizer", "--output", home / "out")
        succeeded(run("encode-chat", *common, "--config", home / "options.yaml"))
        found, expected = read_rows(home / "out"), case["result"]
        for name in found[0]:
            assert [row[name] for row in found] == expected[name], (options, name)


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
    succeeded(encode_rows(home, tmp_path / "out", home / words[0], *PACKED, *words[1:]))
    assert _files(tmp_path / "out") == packed


@pytest.mark.slow
def test_rows_and_data_sets_may_be_in_an_object_store(home: Path, packed: dict[str, bytes], store: Store) -> None:
    for name in ("rows.jsonl", "dataset_info.json"):
        store.put(f"data/{name}", (home / name).read_bytes())
    listed = ("--dataset-info", store.uri("data/dataset_info.json"), "--dataset", "a", *PACKED)
    for number, arguments in enumerate([(store.uri("data/rows.jsonl"), *PACKED, "--chunk-size", "16KiB"), listed]):
        succeeded(encode_rows(home, store.uri(f"out-{number}"), *arguments))
        assert {name: store.get(f"out-{number}/{name}") for name in packed} == packed


def test_packed_rows_hold_every_conversation_once(home: Path, tmp_path: Path) -> None:
    for length, pack in ((79, "none"), (80, "neat"), (80, "greedy")):
        words = (home / "rows.jsonl", "--sequence-length", length, "--pack", pack)
        succeeded(encode_rows(home, tmp_path / pack, *words))
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


MESSAGES = [dialog(*said)["messages"] for said in (("low <|im_end|>", "er"), ("low", ""), ("low", None))]


def test_broken_rows_stop_nothing_and_each_kind_has_its_reason(home: Path, tmp_path: Path) -> None:
    rows = write_lines(tmp_path / "rows.jsonl", [{"messages": messages} for messages in (*MESSAGES, "no list")])
    rows.write_text(rows.read_text() + "no JSON\n")
    result = succeeded(encode_rows(home, tmp_path / "out", rows))
    assert len(read_rows(tmp_path / "out")) == 2
    described = run_process("info", tmp_path / "out").stdout
    for line in ("the messages are not a list of messages (first: ", "the chat template does not take them"):
        assert f"1 conversation dropped: {line}" in described
    assert "1 record skipped: not a JSON object" in result.stdout
    assert "warning: 1 empty answer trained on (first: " in result.stderr
    assert "warning: 1 special token in messages taken as text (first: " in result.stderr
    line = refused(encode_rows(home, tmp_path / "other", rows, "--special-tokens-in-messages", "refuse"), 1)
    assert f"{rows}, byte 0: a message contains the special token '<|im_end|>'" in line


def test_a_file_with_their_names_means_special_tokens(home: Path, tmp_path: Path) -> None:
    rows = write_lines(tmp_path / "rows.jsonl", [{"messages": MESSAGES[0]}])
    typed, both = {}, {"cutoff_len": 50, "special_tokens_in_messages": "text"}
    for name, more in (("ours", {}), ("theirs", {"cutoff_len": 50}), ("both", both)):
        config = tmp_path / f"{name}.yaml"
        config.write_text(json.dumps({"template": "chatml", **more}))
        common = ("--config", config, "--tokenizer", home / "tokenizer", "--output", tmp_path / name)
        succeeded(run("encode-chat", rows, *common, "--quiet"))
        typed[name] = read_rows(tmp_path / name)[0]["input_ids"].count(small_tokenizer().special_tokens["<|im_end|>"])
    assert typed == {"ours": 2, "theirs": 3, "both": 2}


@pytest.mark.usefixtures("in_process")
def test_the_day_of_the_first_start_is_kept(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = write_lines(tmp_path / "rows.jsonl", [dialog("low", "er")])
    jinja = tmp_path / "today.jinja"
    jinja.write_text("{{ strftime_now('%d %b %Y') }}{% generation %}{{ messages[-1].content }}{% endgeneration %}")
    common = ("encode-chat", rows, "--tokenizer", home / "tokenizer", "--quiet", "--template", jinja, "--output")
    for day in (1, 2):
        today = SimpleNamespace(today=lambda day=day: date(2025, 1, day))
        monkeypatch.setattr("bpe_pipeline.extensions.chat.plan.date", today)
        assert run(*common, tmp_path / "out").returncode == 0
        assert small_tokenizer().decode(read_rows(tmp_path / "out")[0]["input_ids"]) == "01 Jan 2025er"


def test_a_configuration_of_llamafactory_is_read(home: Path, tmp_path: Path) -> None:
    config = {"dataset_dir": str(home), "dataset": "a", "template": "chatml", "cutoff_len": 64, "neat_packing": True}
    config |= {"packing": False, "val_size": 0.1, "preprocessing_num_workers": 1, "tokenized_path": str(tmp_path / "a")}
    (tmp_path / "rows.yaml").write_text(json.dumps(config))
    succeeded(run("encode-chat", "--config", tmp_path / "rows.yaml", "--tokenizer", home / "tokenizer"))
    words = (home / "rows.jsonl", *PACKED, "--special-tokens-in-messages", "tokens")
    succeeded(encode_rows(home, tmp_path / "b", *words))
    assert _files(tmp_path / "a") == _files(tmp_path / "b")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell proportional set sizes")
def test_a_dialog_of_18_megabytes_keeps_to_the_limit_that_the_refusal_names(home: Path, tmp_path: Path) -> None:
    answer = " ".join(random.Random(1).choices(["low", "lower", "the", "other"], k=4_000_000))[: 18 << 20]
    rows = write_lines(tmp_path / "rows.jsonl", [dialog("low", answer)])
    words = (rows, "--sequence-length", 1 << 26, "--workers", 1, "--log-json")
    line = refused(encode_rows(home, tmp_path / "out", *words, "--memory-limit", "256MiB"), 1)
    enough = re.search(r"byte 0: the line of 18.0 MiB that begins here .* give --memory-limit (\d+)MiB", line)
    assert enough, line
    limited = succeeded(encode_rows(home, tmp_path / "out", *words, "--memory-limit", f"{enough[1]}MiB"))
    assert json.loads(limited.stdout.splitlines()[-1])["peak_memory_bytes"] <= int(enough[1]) << 20
