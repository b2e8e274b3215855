"""`encode --part`: any processes, in any order, leave what one process writes; the last one writes the shards."""

import json
import random
from pathlib import Path

import peers
import pytest
from command import files_in, refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError

pytestmark = pytest.mark.filterwarnings("ignore:the pattern runs on the regex package")
OPTIONS = [
    {},
    {"shard_format": "bin", "val_fraction": 0.2, "shard_size": 3000},
    {"shuffle": True, "seed": 3, "val_fraction": 0.2, "shard_size": 3000},
    {"sequence_length": 64, "pack": "best-fit", "shard_format": "parquet"},
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    home = tmp_path_factory.mktemp("corpus")
    paths = [home / f"{seed}.txt" for seed in range(6)]
    for seed, path in enumerate(paths):
        path.write_text("<|endoftext|>".join(peers.generated_text(10 * seed + n, 150) for n in range(5)))
    return paths


@pytest.fixture(scope="module", params=["gpt2", r"(?<=x)y| ?\w+|\s+|[^\w\s]+"])
def tokenizer(request: pytest.FixtureRequest, corpus: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trained")
    bpe_pipeline.train(corpus, output=home / "run", vocab_size=400, pattern=request.param)
    return home / "run"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parts_leave_what_one_process_writes(corpus: list[Path], tokenizer: Path, tmp_path: Path, options) -> None:
    choose = random.Random(str(options))
    encode = {"chunk_size": 2000, "workers": 1, **options}
    one = bpe_pipeline.encode(corpus, tokenizer, tmp_path / "one", **encode)
    output = tmp_path / "parts"
    for count in choose.sample(range(1, 7), 2):
        for number in choose.sample(range(1, count + 1), max(1, count // 2)):
            held = bpe_pipeline.encode(corpus, tokenizer, output, part=f"{number}/{count}", **encode)
            assert (held.shards, held.tokens > 0) == ((), True)
    kept = {path: path.stat().st_mtime_ns for path in (output / "parts").glob("*.ids")}
    assert kept
    assert bpe_pipeline.encode(corpus, tokenizer, output, **encode) == one
    assert files_in(output) == files_in(tmp_path / "one")
    done = run("encode", *corpus, "--tokenizer", tokenizer, "--output", output, "--part", "1/2", *_words(encode))
    assert "all of its" not in done.stdout
    assert "next" in done.stdout
    assert done.returncode == 0


def _words(options: dict[str, object]) -> list[object]:
    words: list[object] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, list) else [value]:
            words += [flag] if one is True else [flag, one]
    return words


def test_parts_of_chat_data_leave_what_one_process_writes(tmp_path: Path) -> None:
    pairs = [
        {"messages": [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": "a" * n}]}
        for n in range(90)
    ]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    bpe_pipeline.merge(bpe_pipeline.combine({"low": 5, "qa": 3}, output=tmp_path / "run"), vocab_size=259)
    words = ["encode-chat", tmp_path / "chat.jsonl", "--tokenizer", tmp_path / "run", "--template", "empty"]
    words += ["--chunk-size", 1000, "--workers", 1, "--quiet"]
    assert run(*words, "--output", tmp_path / "one").returncode == 0
    for part in ("1/3", "0/2"):
        assert run(*words, "--output", tmp_path / "parts", "--part", part).returncode == 0
    assert "9 of 13 chunks; the same command resumes" in run("info", tmp_path / "parts").stdout
    assert run(*words, "--output", tmp_path / "parts").returncode == 0
    one, parts = (files_in(tmp_path / name) for name in ("one", "parts"))
    manifests = [json.loads(files.pop("encoding.json")) for files in (one, parts)]
    assert manifests[0] == manifests[1]
    assert one == parts
    late = succeeded(run(*words[:-1], "--output", tmp_path / "parts", "--part", "1/2")).stdout
    assert "nothing: the shards are complete" in late


def test_what_parts_cannot_encode_is_refused(corpus: list[Path], tokenizer: Path, tmp_path: Path) -> None:
    bpe_pipeline.encode(corpus, tokenizer, tmp_path / "out", part="1/2", workers=1)
    with pytest.raises(RunDirectoryError, match="encoding was done without --sequence-length, not with 64"):
        bpe_pipeline.encode(corpus, tokenizer, tmp_path / "out", part="2/2", workers=1, sequence_length=64)
    words = ["encode", *corpus, "--tokenizer", tokenizer, "--output", tmp_path / "out"]
    assert "--part with --overwrite" in refused(run(*words, "--part", "1/2", "--overwrite"), 2)
