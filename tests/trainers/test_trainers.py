"""The real trainers read our rows, and LLaMA-Factory's own rows are ours. They are in the extra `trainers`.

They may be in another environment, whose Python BPE_PIPELINE_TRAINERS names.
"""

import csv
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import peers
import pyarrow as pa
import pytest
from command import run, succeeded

import bpe_pipeline
from bpe_pipeline import compat

pytestmark = pytest.mark.slow
PYTHON = os.environ.get("BPE_PIPELINE_TRAINERS", sys.executable)
SCRIPTS = Path(__file__).parent.parent / "support" / "trainer_scripts.py"
MARKS = (
    *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    *("<|im_start|>", "<|im_end|>"),
)
TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "int"}}}}
CONFIGS: list[dict[str, Any]] = [  # what their configuration files say of rows
    {"template": "llama3", "dataset": "alpaca", "cutoff_len": 128},
    {"template": "chatml", "dataset": "alpaca,turns", "cutoff_len": 200, "neat_packing": True, "val_size": 0.05},
    {"template": "qwen3", "dataset": "turns", "cutoff_len": 90, "mask_history": True, "enable_thinking": False},
    {"template": "qwen", "dataset": "tools", "cutoff_len": 600, "train_on_prompt": True},
    {"template": "llama3", "dataset": "cells,batches", "cutoff_len": 128},
    {"template": "llama3", "dataset": "openai,turns", "cutoff_len": 99, "packing": True, "max_samples": 300},
    {"template": "fewshot", "dataset": "few,turns", "mix_strategy": "interleave_over", "interleave_probs": "0.7,0.3"},
    {"template": "default", "dataset": "alpaca,turns", "mix_strategy": "interleave_under", "val_size": 50, "seed": 7},
]


def _python(*arguments: object) -> str:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "WANDB_DISABLED": "true"}
    command = [PYTHON, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, (result.stdout + result.stderr)[-3000:]
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with marks, a tiny model with it, and data sets of every formatting."""
    found = subprocess.run([PYTHON, "-c", "import llamafactory"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("needs LLaMA-Factory: install the extra trainers, or name its Python, BPE_PIPELINE_TRAINERS")
    home = tmp_path_factory.mktemp("trainers")
    (home / "text.txt").write_text("\n<|endoftext|>\n".join(peers.generated_text(seed, 3000) for seed in range(4)))
    marks = [word for text in MARKS for word in ("--special-token", text)]
    options = ("--vocab-size", 1000, "--pattern", "llama3", "--bos-token", MARKS[0], "--add-bos", "--quiet")
    succeeded(run("train", home / "text.txt", "--output", home / "run", *options, *marks))
    _python(SCRIPTS, "model", home / "run" / "tokenizer", home / "model")
    _write_data_sets(home)
    return home


def _write_data_sets(home: Path) -> None:
    chosen = random.Random(5)
    words = peers.generated_text(1, 4000).split()

    def text(most: int = 60) -> str:
        start = chosen.randrange(len(words))
        return " ".join(words[start : start + chosen.randint(1, most)])  # LLaMA-Factory's fewshot errs for empty texts

    def turns(names: tuple[str, str], keys: tuple[str, str], count: int) -> list[dict[str, str]]:
        return [{keys[0]: names[turn % 2], keys[1]: text()} for turn in range(count)]

    def called() -> list[dict[str, str]]:
        said = {"human": text(), "function_call": '{"name": "f", "arguments": {"x": 1}}', "observation": "2"}
        return [{"from": name, "value": value} for name, value in {**said, "gpt": text()}.items()]

    own, openai = (("human", "gpt"), ("from", "value")), (("user", "assistant"), ("role", "content"))
    tags = dict(zip(("role_tag", "content_tag", "user_tag", "assistant_tag"), (*openai[1], *openai[0]), strict=True))
    sharegpt = {"formatting": "sharegpt"}
    rows: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        "alpaca": ([{"instruction": text(), "input": text(20), "output": text()} for _ in range(1200)], {}),
        "turns": ([{"conversations": turns(*own, chosen.choice((2, 4, 6, 3)))} for _ in range(1300)], sharegpt),
        "openai": (
            [{"messages": turns(*openai, chosen.choice((2, 4)))} for _ in range(400)],
            {"formatting": "openai", "columns": {"messages": "messages"}, "tags": tags},
        ),
        "few": ([{"instruction": text(), "input": "", "output": text()} for _ in range(50)], {"num_samples": 80}),
        "tools": (
            [{"conversations": called(), "tools": json.dumps([TOOL])} for _ in range(50)],
            sharegpt | {"columns": {"messages": "conversations", "tools": "tools"}},
        ),
    }
    for name, (listed, _) in rows.items():
        (home / f"{name}.json").write_text(json.dumps(listed))
    info = {name: {"file_name": f"{name}.json", **entry} for name, (_, entry) in rows.items()}
    cells = [{**row, "input": row["input"] * (number % 3)} for number, row in enumerate(rows["alpaca"][0][:100])]
    with (home / "cells.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cells[0]))
        writer.writeheader()
        writer.writerows(cells)
    table = pa.Table.from_pylist(rows["turns"][0][:100])
    with pa.ipc.new_stream(home / "batches.arrow", table.schema) as batches:
        batches.write_table(table)
    info |= {"cells": {"file_name": "cells.csv"}, "batches": {"file_name": "batches.arrow", "formatting": "sharegpt"}}
    (home / "dataset_info.json").write_text(json.dumps(info))


def _encode(home: Path, *words: object) -> None:
    succeeded(run("encode-chat", "--tokenizer", home / "run" / "tokenizer", *words))


def test_its_own_rows_are_ours(home: Path) -> None:
    paths = []
    for number, config in enumerate(CONFIGS):
        theirs = {"model_name_or_path": str(home / "model"), "stage": "sft", "do_train": True, "report_to": "none"}
        theirs |= {"output_dir": str(home / "unused"), "dataset_dir": str(home), "overwrite_cache": True}
        paths.append(home / f"config-{number}.json")
        paths[-1].write_text(json.dumps({"cutoff_len": 2048, **theirs, **config}))
    _python(SCRIPTS, "rows", *paths)
    for number, config in enumerate(CONFIGS):
        output, options = home / f"ours-{number}", home / f"config-{number}.yaml"
        options.write_text(json.dumps({"dataset_dir": str(home), "compatible": True, **config}))
        _encode(home, "--config", options, "--output", output)
        expected = json.loads((home / f"config-{number}.rows.json").read_text())
        assert expected["train"]
        for split, rows in expected.items():
            directory = output / split if len(expected) > 1 else output
            found = _rows(directory)
            assert len(found) == len(rows), (config, split)
            assert [{name: row[name] for name in rows[0]} for row in found] == rows, (config, split)


def test_conversations_at_random_are_encoded_alike(home: Path) -> None:
    chosen = random.Random(7)
    words = [*MARKS, "the", "king", "\n", "{{idx}}", "{{content}}", "<think>", "</think>", "你好", "  ", "", "low er"]

    def text(*, empty: bool) -> str:
        return ("" if empty else "x") + " ".join(chosen.choices(words, k=chosen.randint(0, 9)))

    def conversation(*, empty: bool) -> dict[str, Any]:
        messages = []
        for _ in range(chosen.randint(1, 4)):
            asked = {"role": chosen.choice(("user", "user", "observation")), "content": text(empty=empty)}
            thought = chosen.choice(("", "<think>\nhm\n</think>\n\n"))
            answer = {"role": "assistant", "content": thought + text(empty=empty)}
            if chosen.random() < 0.2:
                answer = {"role": "function", "content": thought + '{"name": "f", "arguments": {"x": 1}}'}
            messages += [asked, answer]
        system, tools = chosen.choice(("", "Be kind.")), chosen.choice(("", "", json.dumps([TOOL])))
        return {"messages": messages, "system": system, "tools": tools}

    jobs = []
    for template in ("llama3", "chatml", "qwen", "qwen3", "default", "empty", "fewshot", "alpaca") * 4:
        options = {"template": template, "cutoff_len": chosen.choice((5, 16, 60, 2000))}
        options |= chosen.choice(({}, {"mask_history": True}, {"train_on_prompt": template != "fewshot"}))
        options |= chosen.choice(({}, {"default_system": "Sys."}, {"preserve_thinking": True}))
        options |= chosen.choice(({}, {"enable_thinking": False}, {"enable_thinking": None}))
        jobs.append((options, [conversation(empty=template != "fewshot") for _ in range(25)]))
    (home / "jobs.json").write_text(json.dumps(jobs))
    _python(SCRIPTS, "encoded", home / "run" / "tokenizer", home / "jobs.json")
    found = iter(json.loads((home / "jobs.json").read_text()))
    tokenizer = bpe_pipeline.Tokenizer.load(home / "run" / "tokenizer")
    for options, conversations in jobs:
        ours: dict[str, Any] = {"sequence_length": options["cutoff_len"], "date": "today", **options}
        ours["special_tokens_in_messages"] = "tokens"
        del ours["cutoff_len"]
        for one in conversations:
            assert next(bpe_pipeline.encode_chat([one], tokenizer, **ours), None) == next(found), (options, one)


def test_rows_at_random_are_aligned_alike(home: Path) -> None:
    chosen = random.Random(8)
    names = {"user": "human", "assistant": "gpt", "observation": "tool", "function": "call", "system": "system"}
    calls = [{"function": {"name": "f", "arguments": {"x": 1}}}]
    jobs = []
    for _ in range(2000):
        roles = [name for _ in range(chosen.randint(0, 3)) for name in ("user", "assistant")]
        roles = ["system"] * (chosen.random() < 0.3) + roles
        roles = [role if chosen.random() < 0.9 else chosen.choice(list(names)) for role in roles]
        messages: list[dict[str, Any]] = [{"from": names[role], "value": chosen.choice("abc")} for role in roles]
        for message in messages:
            message |= {"tool_calls": calls} if chosen.random() < 0.1 else {}
        row = {"messages": messages, "system": chosen.choice(("", "S", None)), "tools": chosen.choice(("", "[1]"))}
        optional = {"observation_tag": "tool", "function_tag": "call", "system_tag": "system"}
        tags = {name: tag for name, tag in optional.items() if chosen.random() < 0.8}
        tags |= {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"}
        columns = {name: name for name in ("system", "tools") if chosen.random() < 0.6} | {"messages": "messages"}
        jobs.append(({"formatting": chosen.choice(("sharegpt", "openai")), "columns": columns, "tags": tags}, row))
    (home / "align.json").write_text(json.dumps(jobs))
    _python(SCRIPTS, "aligned", home / "align.json")
    for (entry, row), (messages, system) in zip(jobs, json.loads((home / "align.json").read_text()), strict=True):
        ours = compat.align_chat(row, **entry)
        assert ours["messages"] == messages, (entry, row)
        assert not messages or ours["system"] == system, (entry, row)


def _rows(directory: Path) -> list[dict[str, list[int]]]:
    found: list[dict[str, list[int]]] = []
    for path in sorted(directory.glob("data-*.arrow")):
        with pa.ipc.open_stream(path) as reader:
            found += reader.read_all().to_pylist()
    return found


@pytest.mark.parametrize(
    ("stage", "template", "options"),
    [
        ("pt", "llama3", ("text.txt", "--sequence-length", 64, "--shard-format", "arrow")),
        ("sft", "llama3", ("alpaca.json", "--template", "llama3", "--sequence-length", 128)),
        ("sft", "chatml", ("turns.json", "--template", "chatml", "--sequence-length", 128, "--pack", "neat")),
    ],
)
def test_llamafactory_trains_from_our_rows(home: Path, stage: str, template: str, options: tuple[object, ...]) -> None:
    output, trained = home / f"rows-{stage}-{template}", home / f"trained-{stage}-{template}"
    first, *rest = options
    _encode(home, home / str(first), *rest, "--output", output)
    settings = {
        "model_name_or_path": str(home / "model"),
        "tokenized_path": str(output),
        "output_dir": str(trained),
        "stage": stage,
        "do_train": True,
        "finetuning_type": "full",
        "dataset": "any",
        "template": template,
        "neat_packing": template == "chatml",
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "report_to": "none",
        "logging_steps": 1,
        "use_cpu": True,
        "bf16": False,
        "fp16": False,
    }
    config = home / f"train-{stage}-{template}.yaml"
    config.write_text(json.dumps(settings))
    printed = _python("-c", "from llamafactory.cli import main; main()", "train", config)
    assert "Loaded tokenized dataset from" in printed
    loss = re.search(r"train_loss +=\s+([0-9.]+)", printed)
    assert loss is not None
    assert 5 < float(loss[1]) < 9  # of a random model with 1,000 tokens: log(1000) = 6.9
