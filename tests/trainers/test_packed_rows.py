"""The page's collator keeps the documents of a row apart in transformers, and what it says of other collators is so.

torch may be in another environment, whose Python BPE_PIPELINE_TRAINERS names.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import peers
import pytest

import bpe_pipeline

pytestmark = pytest.mark.slow
PYTHON = os.environ.get("BPE_PIPELINE_TRAINERS", sys.executable)
PAGE = Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "training-code.md"
SCRIPT = """
import json, sys
import pyarrow.parquet as pq
import torch
from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM
{collate}
rows = pq.read_table(sys.argv[1]).to_pylist()[:4]
batch = collate(rows)
batch.pop("labels")
flattened = {{name: values.reshape(1, -1) for name, values in batch.items()}}
ids = [{{"input_ids": row["input_ids"]}} for row in rows]
renumbered = {{name: values for name, values in DataCollatorWithFlattening()(ids).items() if name in batch}}
ways = {{
    "collate": (batch, False), "flattened": (flattened, False),
    "renumbered": (renumbered, False), "cache": (batch, True),
    "mask": (batch | {{"attention_mask": torch.ones_like(batch["input_ids"])}}, False),
}}
found = {{}}
for attention in ("eager", "sdpa"):
    torch.manual_seed(0)
    sizes = {{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=400, attn_implementation=attention, **sizes)).eval()
    for way, (inputs, cache) in ways.items():
        worst = 0.0
        with torch.no_grad():
            logits = model(**inputs, use_cache=cache).logits.reshape(len(rows), -1, 400)
            for row, of_row in zip(rows, logits):
                for number in range(1, max(row["document_ids"]) + 1):
                    at = [one == number for one in row["document_ids"]]
                    alone = model(torch.tensor([row["input_ids"]])[:, at]).logits[0]
                    worst = max(worst, (of_row[at] - alone).abs().max().item())
        found[f"{{attention}}, {{way}}"] = worst
labels = [[label for label in row if label != -100] for row in collate(rows)["labels"].tolist()]
print(json.dumps([found, labels]))
"""


def test_logits_of_a_document_in_a_row_are_those_of_the_document_alone(tmp_path: Path) -> None:
    found = subprocess.run([PYTHON, "-c", "import torch, transformers, pyarrow"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("needs torch, transformers and pyarrow: install them, or name their Python, BPE_PIPELINE_TRAINERS")
    documents = [peers.generated_text(1, 4000)[at : at + 10 + at % 90] for at in range(0, 8000, 97)]
    (tmp_path / "a.txt").write_text("<|endoftext|>".join(documents))
    tokenizer = bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "run", vocab_size=400)
    rows = {"shard_format": "parquet", "sequence_length": 128, "pack": "best-fit"}
    bpe_pipeline.encode(tmp_path / "a.txt", tokenizer, tmp_path / "rows", **rows)
    [collate] = re.findall(r"^def collate.*?^    return .*?$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "script.py").write_text(SCRIPT.format(collate=collate))
    shard = tmp_path / "rows" / "shard-00000.parquet"
    words = [PYTHON, str(tmp_path / "script.py"), str(shard)]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    differences, labels = json.loads(result.stdout.splitlines()[-1])
    for way, largest in differences.items():
        assert (largest < 1e-5) == way.endswith((", collate", ", flattened")), (way, largest)
    learned = [ids[1:] for ids in map(tokenizer.encode, (f"{text}<|endoftext|>" for text in documents))]
    for row in labels:
        texts = tokenizer.decode(row).split("<|endoftext|>")[:-1]
        assert texts
        assert {*texts} <= {tokenizer.decode(ids[:-1]) for ids in learned}
