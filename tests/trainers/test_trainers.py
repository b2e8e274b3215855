"""LLaMA-Factory trains on our rows. It is in the extra `trainers`.

They may be in another environment, whose Python BPE_PIPELINE_TRAINERS names.
"""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import peers
import pytest
from command import run, succeeded

pytestmark = pytest.mark.slow
PYTHON = os.environ.get("BPE_PIPELINE_TRAINERS", sys.executable)
SCRIPTS = Path(__file__).parent.parent / "support" / "trainer_scripts.py"
MARKS = (
    *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    *("<|im_start|>", "<|im_end|>"),
)


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

    def text() -> str:
        start = chosen.randrange(len(words))
        return " ".join(words[start : start + chosen.randint(1, 60)])

    alpaca = [{"instruction": text(), "input": text(), "output": text()} for _ in range(200)]
    turns = [[{"from": ("human", "gpt")[at % 2], "value": text()} for at in range(4)] for _ in range(200)]
    (home / "alpaca.json").write_text(json.dumps(alpaca))
    (home / "turns.json").write_text(json.dumps([{"conversations": listed} for listed in turns]))


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
    command = "encode" if stage == "pt" else "encode-chat"
    words = ("--tokenizer", home / "run" / "tokenizer", "--output", output)
    succeeded(run(command, home / str(first), *rest, *words))
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
