"""axolotl trains on our rows. It is in an environment of its own, whose Python BPE_PIPELINE_AXOLOTL names."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from chat_cases import dialog, small_tokenizer, write_lines
from command import run, succeeded

pytestmark = pytest.mark.slow
SCRIPTS = Path(__file__).parent.parent / "support" / "trainer_scripts.py"
SETTINGS = {
    "base_model": "model",
    "sequence_len": 100,
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 1,
    "max_steps": 2,
    "learning_rate": 0.001,
    "optimizer": "adamw_torch",
    "bf16": False,
    "flash_attention": False,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a tiny model, and rows that are packed, and that are not."""
    if "BPE_PIPELINE_AXOLOTL" not in os.environ:
        pytest.skip("BPE_PIPELINE_AXOLOTL names no Python with axolotl")
    home = tmp_path_factory.mktemp("axolotl")
    small_tokenizer().save(home / "tokenizer")
    write_lines(home / "rows.jsonl", [dialog("low the", "lower " * (at % 7 + 1)) for at in range(20)])
    words = ("--tokenizer", home / "tokenizer", "--template", "chatml", "--sequence-length", 100)
    for pack in ("none", "neat"):
        succeeded(run("encode-chat", home / "rows.jsonl", *words, "--pack", pack, "--output", home / pack))
    _axolotl(home, "python", str(SCRIPTS), "model", "tokenizer", "model")
    return home


def _axolotl(home: Path, *words: str) -> str:
    python = Path(os.environ["BPE_PIPELINE_AXOLOTL"])
    environment = os.environ | {"PATH": f"{python.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
    environment |= {"HF_HUB_OFFLINE": "1", "WANDB_DISABLED": "true", "AXOLOTL_DO_NOT_TRACK": "1"}
    done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize(("rows", "sample_packing"), [("none", False), ("none", True), ("neat", False)])
def test_two_steps_are_trained(home: Path, rows: str, sample_packing: bool) -> None:
    name = f"{rows}-{sample_packing}"
    settings = {**SETTINGS, "datasets": [{"path": rows}], "sample_packing": sample_packing}
    settings |= {"dataset_prepared_path": f"prepared-{name}", "output_dir": f"trained-{name}"}
    (home / f"{name}.yaml").write_text(json.dumps(settings))
    losses = re.findall(r"'loss': '([\d.]+)'", _axolotl(home, "axolotl", "train", f"{name}.yaml"))
    assert len(losses) == 2
    assert all(0 < float(loss) < 20 for loss in losses)
