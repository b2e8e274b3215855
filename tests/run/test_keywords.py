"""The types of keywords for editors and mypy say what the table of options says."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.run.keywords import keyword_type, keywords_of
from bpe_pipeline.run.options import RECORDS, EncodeOptions, ExportOptions, TrainOptions
from bpe_pipeline.run.values import parsed, reader_of

KINDS = (TrainOptions, EncodeOptions, ExportOptions)
KEYWORDS = {name: keyword_type(one) for kind in KINDS for name, one in keywords_of(kind).items() if one.group}
SAMPLES: dict[str, dict[Any, Any]] = {  # a value of each type, where another option's would mean nothing
    **{f"{role}_token": {str: f"<|{role}|>"} for role in ("bos", "eos", "pad")},
    **{f"{added}special_tokens": {str: "<|x|>"} for added in ("", "added_")},
    "split_at": {str: "<|x|>"}, "added_tokens": {str: "<|x|>"}, "shard_format": {str: "npy"},
    "input_format": {str: "jsonl"},
    "vocab_size": {str: "300,400", int: 300}, "output": {str: "runs/a"}, "pattern": {str: "llama3"},
    "ray": {str: "auto"}, "export": {str: "hf"}, "val_fraction": {str: "0.1"}, "stop_at_saving": {str: "1%"},
    "chat_template": {str: "chatml"}, "superwords_from": {str: "80%", int: 300},
    "superword_pattern": {str: "superbpe"}, "rank_pattern": {str: "gpt2"}, "superword_words": {str: "none", int: 3},
    "part": {str: "1/8"},
}  # fmt: skip
SCRIPT = """import bpe_pipeline
bpe_pipeline.train('a.txt', vocab_size=300, special_tokens=['<|x|>'], tie_break='lowest-ids', progress=True)
bpe_pipeline.train('a.txt', vocab_sise=300)
bpe_pipeline.train('a.txt', tie_break='lowest')
bpe_pipeline.encode('a.txt', 'runs/a', documents='offsets')
bpe_pipeline.encode('a.txt', 'runs/a', vocab_size=300)
"""


@pytest.mark.parametrize("name", sorted(KEYWORDS))
def test_types_are_those_that_the_option_reads(name: str) -> None:
    hint = KEYWORDS[name]
    if get_origin(hint) is Literal:
        for value in get_args(hint):
            assert parsed(name, value, reader_of(RECORDS[name])) == value
        with pytest.raises(UsageError) as caught:
            parsed(name, "nonsense", reader_of(RECORDS[name]))
        assert f"one of {', '.join(get_args(hint))}" in str(caught.value)
        return
    kinds = set(get_args(hint)) or {hint}
    assert (type(None) in kinds) == (RECORDS[name].default is None)
    for kind in kinds & {int, str, bool}:
        value = SAMPLES.get(name, {}).get(kind) or {int: 7, str: "7", bool: True}[kind]
        parsed(name, value, reader_of(RECORDS[name]))
    for kind in {int, str, bool} - kinds:
        if kind is int and bool in kinds:
            continue
        with pytest.raises(UsageError):
            parsed(name, {int: 7, str: "yes", bool: True}[kind], reader_of(RECORDS[name]))


@pytest.mark.slow
def test_mypy_knows_the_keywords(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (script := tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(script)]
    home = Path(bpe_pipeline.__file__).parents[1]
    installed = home.name == "site-packages"  # where mypy looks itself, and does not want to be told
    environment = {**os.environ, **({} if installed else {"MYPYPATH": str(home)})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    errors = re.findall(r"script\.py:(\d+: error: .*)", done.stdout)  # of a source tree there are more
    lines = dict.fromkeys(int(line.partition(":")[0]) for line in errors)  # an overload may have two
    assert [*lines] == [3, 4, 6], done.stdout + done.stderr
    assert '"vocab_sise"' in errors[0]
