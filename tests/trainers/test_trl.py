"""TRL's SFTTrainer trains on our rows; its collator sees our ids and labels. TRL is in an environment of its own.

BPE_PIPELINE_TRL names the Python of that environment: see .ci/full.
"""

import json
import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chat_cases import small_tokenizer
from command import run, succeeded

pytestmark = pytest.mark.slow
SUPPORT = Path(__file__).parent.parent / "support"
PAGE = Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "sft-rows.md"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[dict[str, list[int]]]]]:
    """What TRL saw of rows that are packed, and that are not; and the rows."""
    python = os.environ.get("BPE_PIPELINE_TRL")
    if python is None:
        pytest.skip("BPE_PIPELINE_TRL names no Python with trl: .ci/full makes one")
    home = tmp_path_factory.mktemp("trl")
    small_tokenizer().save(home / "tokenizer")
    dialogs = [["low the"] * count for count in (2, 4, 2, 6)] + [["other low", "lower"], ["the", "slower lower"]]
    rows = [
        [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(one)] for one in dialogs
    ]
    (home / "rows.jsonl").write_text("".join(json.dumps({"messages": one}) + "\n" for one in rows))
    options = ("--tokenizer", home / "tokenizer", "--template", "chatml", "--sequence-length", 100)
    for pack in ("none", "neat"):
        succeeded(run("encode-chat", home / "rows.jsonl", *options, "--pack", pack, "--output", home / pack))
    [function] = re.findall(r"^def parts.*?(?=\n\n\n)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (home / "tokenizer" / "page.py").write_text(f"from itertools import groupby\n{function}")
    words = [python, SUPPORT / "trainer_scripts.py", "trl", home / "tokenizer", home / "none", home / "neat"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "WANDB_DISABLED": "true"}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    stored = {}
    for name in ("none", "neat"):
        with pa.ipc.open_stream(home / name / "data-00000-of-00001.arrow") as reader:
            stored[name] = reader.read_all().to_pylist()
    return json.loads((home / "tokenizer" / "trl.json").read_text()), stored


def test_the_collator_sees_our_ids_and_labels(seen: Any) -> None:
    found, stored = seen
    assert len(stored["none"]) == 6
    for batch, row in zip(found["none"]["batches"], stored["none"], strict=True):
        assert batch == {name: [row[name]] for name in ("input_ids", "labels", "attention_mask")}
    assert 1 < len(stored["neat"]) < 6
    for batch, row in zip(found["neat"]["batches"], stored["neat"], strict=True):
        size = sum(number > 0 for number in row["attention_mask"])
        assert batch == {name: [row[name][:size]] for name in ("input_ids", "labels", "position_ids")}
        starts = [at for at, (before, after) in enumerate(pairwise([0, *row["attention_mask"]])) if before < after]
        assert [at for at, position in enumerate(batch["position_ids"][0]) if position == 0] == starts


def test_packed_conversations_do_not_see_each_other_and_two_steps_are_trained(seen: Any) -> None:
    found, _ = seen
    assert found["neat"]["loss"] == pytest.approx(found["none"]["loss"], rel=1e-4)
    for one in found.values():
        assert 5.0 < one["trained"] < 6.5  # of a random model with 273 tokens: log(273) = 5.6
