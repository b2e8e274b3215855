"""The small tokenizer, and 300 rows in several formats."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_cases import small_tokenizer, write_lines


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the small tokenizer, and 300 rows in three formats."""
    home = tmp_path_factory.mktemp("chat")
    small_tokenizer().save(home / "tokenizer")
    chosen, words = random.Random(1), ["low", "lower", "the", "other", "<|eot_id|>", "slower"]

    def said(turn: int) -> dict[str, str]:
        return {"from": ("human", "gpt")[turn % 2], "value": " ".join(chosen.choices(words, k=chosen.randint(1, 30)))}

    rows = [{"conversations": [*map(said, range(chosen.choice((2, 2, 4, 6, 3))))]} for _ in range(300)]  # 3 is dropped
    write_lines(home / "rows.jsonl", rows)
    (home / "rows.json").write_text(json.dumps(rows, indent=2))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, home / "rows.parquet", row_group_size=70)
    for name, opened in (("stream", pa.ipc.new_stream), ("file", pa.ipc.new_file)):
        with opened(home / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=90)
    listed: dict[str, dict[str, Any]] = {"a": {"file_name": "rows.jsonl", "formatting": "sharegpt"}}
    listed |= {"b": {**listed["a"], "file_name": "rows.json"}, "bad": {"file_name": "bad.jsonl"}}
    write_lines(home / "bad.jsonl", [{"instruction": "a", "output": "b"}])
    listed |= {"link": {**listed["a"], "file_name": "link.jsonl"}}
    (home / "link.jsonl").symlink_to("rows.jsonl")
    files = {"rows.csv": b"instruction,output\na,b\n", "cut.json": b'[{"instruction": "a"}', "a.txt": b"low"}
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
