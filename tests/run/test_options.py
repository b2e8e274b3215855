"""Options: the one table, sizes, configuration files, and messages that name the nearest right thing."""

import json
import time
from pathlib import Path

import pytest

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_bytes, format_count, parse_bytes
from bpe_pipeline.extensions.chat.options import ChatOptions
from bpe_pipeline.run.config_file import read_config
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import RECORDS, EncodeOptions, TrainOptions
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.values import parsed, reader_of


@pytest.mark.parametrize(("text", "size"), [
    ("64MiB", 64 << 20), ("1GB", 10**9), ("1 gb", 10**9), ("8GiB", 8 << 30), ("2k", 2000), ("1.5KiB", 1536),
    ("4096", 4096), ("17B", 17), (12345, 12345),
    ("4503599627370495KiB", 4503599627370495 << 10), (str((1 << 62) - 1), (1 << 62) - 1),  # exact, if large
])  # fmt: skip
def test_sizes(text: object, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1XB", "1 MiB MiB", "0", 0, -5, None, True, 1.5, "0.1B"])
def test_invalid_sizes_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="64MiB"):
        parse_bytes(text)


def test_sizes_and_counts_are_formatted() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 64 << 20: "64.0 MiB", 3 << 40: "3.0 TiB"}
    assert {size: format_bytes(size) for size in sizes} == sizes
    assert [format_count(number, "files") for number in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize(("values", "message"), [
    ({"vocab_sise": 1}, "'vocab_sise' is unknown; did you mean 'vocab_size'"),
    ({"vocab_size": "many"}, "'vocab_size': expected a whole number of at least 1, not 'many'"),
    ({"vocab_size": True}, "'vocab_size'"), ({"vocab_size": "8,,000"}, "not '8,,000'"),
    ({"vocab_size": "32x"}, "not '32x'"), ({"vocab_size": "300M"}, "at most 268435456"),
    ({"tie_break": "greatest"}, "did you mean greatest-bytes"),
    ({"special_tokens": ["<a>", "<b>", "<a>"]}, "'<a>' is given twice"),
    ({"special_tokens": [""]}, "'special_tokens': a special token is empty"),
    ({"special_tokens": 5}, "a list of texts"),
    ({"chunk_size": "64 melons"}, "'chunk_size': expected a size such as 64MiB"),
    ({"export": "hf,onnx"}, "one of hf, gpt2, tiktoken"), ({"quiet": "yes"}, "true or false"),
    ({"inputs": []}, "option 'inputs': expected files, directories or globs (leave it out"),
    ({"inputs": {"a": 1}}, "a path or a list of paths"), ({"inputs": {"a"}}, "a path or a list of paths"),
    ({"inputs": b"a"}, "a path or a list of paths"), ({"inputs": [""]}, "not empty"),
    ({"inputs": ("good", "caf\udce9")}, "valid UTF-8: rename it, not 'caf\\udce9'"),
    ({"output": "caf\udce9"}, "valid UTF-8: rename"), ({"special_tokens": {"a"}}, "their order decides the ids"),
    ({"special_tokens": ["a"]}, "token of a single byte"), ({"special_tokens": ["<\ud800>"]}, "lone surrogate"),
    ({"pad_token": "a"}, "'pad_token': the special token 'a'"), ({"pattern": "\udce9+"}, "lone surrogate"),
    ({"min_frequency": 2**63}, "at most 9223372036854775807"), ({"max_token_bytes": 2**31}, "at most 1073741824"),
    ({"workers": 5000}, "at most 4096"), ({"vocab_size": "9" * 400}, "at most 268435456"),
    ({"vocab_size": 10**5000}, "at most 268435456"), ({"chunk_size": "9" * 400}, "at most 2**62"),
    ({"chunk_size": 2**63}, "at most 2**62"),
    ({"ray": "spark"}, "auto, HOST:PORT or ray://HOST:PORT, not 'spark'"),
    ({"ray": "s3://host:1/"}, "auto, HOST:PORT"),
    ({"vocab_size": []}, "a whole number, or several, not []"),
    ({"no_special_tokens": True, "special_tokens": ["a"]}, "exclude each other"),
    ({"text_field": "page..body"}, "such as text or page.body, not 'page..body'"),
    ({"exclude": ["./"]}, "globs, such as *.log or old/**, not ['./']"),
    ({"dataset": ","}, "names, separated by commas, not ','"),
    *(({name: one}, "a share such as 1% or 0.01") for name in ("stop_at_saving", "val_fraction")
      for one in ("5", "0%", "100%", "x", "nan", 0, 1.0, True, [0.1])),
    ({"stop_at_saving": "1%", "vocab_size": [300, 400]}, "chooses one size"),
    ({"shuffle": 3}, "'shuffle': expected true or false (shuffle=True, seed=3), not 3"),
    ({"shuffle": "3"}, "expected true or false, not '3'"),
    ({"template_kwargs": "[1]"}, "an object in JSON, such as"),
    ({"output": "~nobody-there/run"}, "a path below an existing home directory (write ./~name"),
])  # fmt: skip
def test_wrong_options_are_named(values: dict[str, object], message: str) -> None:
    kinds = (TrainOptions, EncodeOptions, ChatOptions)
    kind = next((kind for kind in kinds if set(values) <= kind.records.keys()), TrainOptions)
    with pytest.raises(UsageError) as caught:
        make_options(kind, values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_values_are_completed() -> None:
    given = {"special_tokens": "<s>", "export": "hf, tiktoken", "inputs": Path("a"), "chunk_size": "1MiB"}
    completed = TrainOptions(special_tokens=("<s>",), export=("hf", "tiktoken"), inputs=("a",), chunk_size=1 << 20)
    assert make_options(TrainOptions, given) == completed
    assert make_options(TrainOptions, {"no_special_tokens": True}).special_tokens == ()
    texts = [f"<{number}>" for number in range(50_000)]
    started = time.process_time()
    assert make_options(TrainOptions, {"special_tokens": texts, "workers": "3"}).special_tokens == tuple(texts)
    assert time.process_time() - started < 2  # each is compared with all others in linear time
    with pytest.raises(UsageError, match="option 'shuffle' means nothing here: leave it out"):
        make_options(TrainOptions, {"shuffle": 1})
    assert make_options(TrainOptions, {"shuffle": None}) == TrainOptions()


def test_options_have_documented_defaults_and_stages() -> None:
    options = make_options(TrainOptions, {})
    assert options == TrainOptions()
    assert (options.vocab_size, options.pattern, options.special_tokens) == ((32_000,), "gpt2", ("<|endoftext|>",))
    assert (options.tie_break, options.min_frequency, options.errors) == ("lowest-ids", 1, "replace")
    assert set(options.in_scope(Scope.COUNT)) == {
        "special_tokens", "special_tokens_as_text", "pattern", "normalize", "split_at", "errors",
        "input_format", "text_field", "sample", "seed", "max_document_chars", "added_tokens",
    }  # fmt: skip
    assert "vocab_size" not in options.in_scope(Scope.COUNT, Scope.MERGE)
    assert json.loads(json.dumps(options.in_scope(Scope.COUNT, Scope.MERGE))) == options.in_scope(
        Scope.COUNT, Scope.MERGE
    )


@pytest.mark.parametrize(("name", "typed", "number"), [
    ("vocab_size", "32k", (32_000,)), ("vocab_size", "48,000", (48_000,)), ("vocab_size", "8000,300", (8000, 300)),
    ("vocab_size", "1,000,500", (1_000_500,)), ("vocab_size", "100,400,000", (100_400_000,)),
    ("vocab_size", "8k,16K, 32_000", (8000, 16_000, 32_000)), ("vocab_size", "300,400", (300, 400)),
    ("vocab_size", ["48,000", 500], (48_000, 500)), ("min_frequency", "1,500", 1500), ("shard_size", "1M", 10**6),
    ("ray", True, "auto"), ("ray", False, None),
])  # fmt: skip
def test_values_as_people_write_them(name: str, typed: object, number: object) -> None:
    assert parsed(name, typed, reader_of(RECORDS[name])) == number


CONFIG = {"vocab_size": 500, "special_tokens": ["<a>", "<b>"], "pattern": "llama3", "chunk_size": "1MiB"}


@pytest.mark.parametrize(("name", "text"), [
    ("run.json", json.dumps(CONFIG)),
    ("run.yaml", "vocab-size: 500\nspecial-token: ['<a>', '<b>']\npattern: llama3\nchunk_size: 1MiB\n"),
    ("run.toml", 'vocab_size = 500\nspecial_tokens = ["<a>", "<b>"]\npattern = "llama3"\nchunk-size = "1MiB"\n'),
])  # fmt: skip
def test_configuration_files(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_config(path) == CONFIG
    assert make_options(TrainOptions, read_config(path)).chunk_size == 1 << 20


@pytest.mark.parametrize(("name", "text"), [
    ("run.json", "{"), ("run.yaml", "a: [1"), ("run.toml", "a = "), ("run.ini", ""), ("run.json", "[1]"),
    ("run.json", "[" * 100_000), ("run.yaml", "[" * 5_000), ("run.yaml", "vocab-size: 1\nvocab_size: 2\n"),
    ("run.json", '{"special_token": "<a>", "special_tokens": ["<b>"]}'),
    ("run.yaml", "!!python/object/apply:os.system ['true']"), ("run.yaml", None),
])  # fmt: skip
def test_unreadable_configuration_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    reason = r"configuration file .*run\." if text is not None else "yaml cannot be read"
    with pytest.raises(UsageError, match=reason) as caught:
        read_config(path)
    assert "\n" not in str(caught.value)
