"""Lines that have each command once or more, and what they need."""

import json
from collections.abc import Iterator
from pathlib import Path

import bpe_pipeline

_LINES = """
    train a.txt --output a --vocab-size 300 --log-json | train a.txt --dry-run | count b.txt --output b --quiet
    merge b --vocab-size 290 | combine a b --output c | parity a b --ratio 1 --ratio 2 --output d --vocab-size 280
    encode --tokenizer a --text low --text er | encode a.txt --tokenizer a --output shards
    decode --tokenizer a 39 255 | decode --tokenizer a shards | export a --export gpt2 | info a | report a | env
    encode-chat chat.jsonl --template chatml --tokenizer chatty --output rows | sweep a --vocab-size 280 --output g
    extend a a --add 3 --output e | report e | prune a a --keep 290 --output f | doctor a | verify a | diff a b
    explain low --tokenizer a | combine a/counter.parquet --output h
"""


def lines(home: Path, text: str) -> Iterator[str]:
    """Write what the commands read, and yield each of them, to be run in this directory and order."""
    (home / "a.txt").write_text(text[:20_000])
    (home / "b.txt").write_text(text[:19_000])
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bpe_pipeline.Tokenizer.from_merges([], marks).save(home / "chatty")
    (home / "chat.jsonl").write_text(json.dumps({"instruction": "a", "output": "b"}))
    yield from (" ".join(one.split()) for one in _LINES.replace("\n", "|").split("|") if one.strip())
