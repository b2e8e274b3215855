"""Cases of others, read where they lie: inputs on which chat rows were wrong, and what LLaMA-Factory 0.9.5 recorded.

Of its records, `sft` is tested with the templates, `align` with rows, `infer_seqlen` and `knapsack` with packing, and
`packing` with `encode-chat`. Of the rest,

- `pt`: rows of pretraining are those of `encode`; it has no document where a text is empty.
- `mask4d`: the collator of a trainer makes it of `attention_mask`, whose numbers are those of `packing`.
- `mixing`: data sets are read one after the other; a configuration that says how they are mixed is refused by name,
  as is a number of rows for validation. A share is chosen by a hash of the ids, not by their permutation.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from chat_cases import cases, recorded_tokenizer
from recorded import home as folder

import bpe_pipeline

PUBLIC = folder("public")
SCRIPTS = sorted(path for path in PUBLIC.glob("*/run.sh") if re.search("chat.sh|encode.chat", path.read_text()))
END = "<|end_of_text|>"


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPTS, reason="the recorded cases of public are not on this machine")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_public_cases_pass(script: Path, tmp_path: Path) -> None:
    home = shutil.copytree(script.parent, tmp_path / "case")
    command = f"{sys.executable} -P -m bpe_pipeline"
    environment = os.environ | {"ROOT": str(PUBLIC), "B": command, "PY": sys.executable}
    done = subprocess.run(
        ["sh", "run.sh"], cwd=home, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    alternatives = (script.parent / "expected.txt").read_text(encoding="utf-8").split("--- or ---")
    assert done.stdout.strip() in [text.strip() for text in alternatives], done.stderr


@pytest.mark.filterwarnings("ignore:the corpus has what looks like special tokens")
def test_pretraining_rows_are_those_of_encode(tmp_path: Path) -> None:
    compared = 0
    for number, case in enumerate(cases("pt")):
        options, tokenizer = case["options"], recorded_tokenizer(case["tokenizer"])
        end = END if options.get("template") == "llama3" else case["tokenizer_after"]["eos"]
        if not options["packing"] or not (separator := tokenizer.special_tokens.get(end)):
            continue
        path, output = tmp_path / f"{number}.jsonl", tmp_path / str(number)
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in case["texts"]))
        bpe_pipeline.encode(path, tokenizer, output, separator=end, sequence_length=case["cutoff_len_used"], workers=1)
        found = [id_ for shard in bpe_pipeline.open_shards(output).rows() for id_ in shard.tolist()]
        expected = list(chain(*case["input_ids"]))
        if expected:
            del expected[expected.index(separator) + 1]  # the second text is empty
        assert expected[: len(found)] == found[: len(expected)]
        compared += bool(found)
    assert compared > 5
