"""Configurations of any content: read, or refused in one line and in a bounded time."""

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from command import one_line
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import PipelineError, UsageError
from bpe_pipeline.run.config_file import read_config
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions

GOOD = [
    b"vocab_size: 32000\nspecial-token: ['<s>', \"x\"]\npattern: |\n  a+\nexport: [hf]\nworkers: 0x10\n",
    b'{"vocab_size": 32000, "special_tokens": ["<s>"], "chunk_size": "64MiB", "errors": "skip"}',
    b'vocab_size = 32_000\nspecial_tokens = ["<s>", \'x\']\npattern = """a+"""\nquiet = true\n',
]
WHAT = st.sampled_from(GOOD), st.integers(0, 90), st.integers(0, 9), st.binary(max_size=9)
DAMAGED = st.builds(lambda good, at, size, new: good[:at] + new + good[at + size :], *WHAT)
ANY = st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | DAMAGED


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from([".json", ".yaml", ".toml"]), ANY)
@example(".yaml", b"a: &a [1]\nb: *a")
@example(".yaml", b"[" * 5000)
@example(".yaml", b"? " * 5000)
@example(".yaml", b"- " * 20_000)
@example(".toml", b"a = " + b"[" * 5000)
@example(".toml", b"a = " + b"{a=" * 5000)
@example(".json", b'{"a":' * 5000)
@example(".json", b"9" * 5000)
@example(".yaml", b"vocab_size: " + b"9" * 5000)
@example(".yaml", b"a: !!python/object/apply:os.system ['true']")
@example(".yaml", b"a: 2020-99-99")
@example(".yaml", b"a: 1.0e+99999\nb: .nan")
@example(".yaml", b"a: " + b"1:" * 20_000 + b"1")
@example(".yaml", b"a: " + b"x " * 20_000)
@example(".yaml", b"x: {" + b"a: 1, " * 8_000 + b"}")
@example(".yaml", b"a" + b".a" * 20_000 + b" = 1")
@example(".toml", b"a" + b".a" * 20_000 + b" = 1")
def test_a_configuration_of_any_bytes_is_refused_or_read(suffix: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, f"config{suffix}")
        path.write_bytes(data)
        try:
            found = read_config(path)
        except UsageError as error:
            one_line(error, path.name)
        else:
            with suppress(PipelineError):
                make_options(TrainOptions, found)


LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("a.yaml", "vocab_size: 300\npattern: gpt2\nvocab_size: 400\n", "'vocab_size' is given twice; remove one"),
        ("a.yaml", "{weights: [1], other: {b: 1, b: 2}}", "'b' is given twice; remove one"),
        ("a.json", '{"vocab_size": 300, "vocab_size": 400}', "'vocab_size' is given twice; remove one"),
        ("a.yaml", LAUGHS + "vocab_size: *a39\n", "it has an alias .*write the value out"),
        ("a.toml", "vocab_size = 300\nvocab_size = 400\n", "Cannot overwrite a value"),
    ],
)
def test_repeated_names_and_aliases_are_refused(tmp_path: Path, name: str, text: str, refusal: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=rf"configuration file .*{name}: .*{refusal}"):
        read_config(tmp_path / name)


def test_numbers_that_yaml_reads_to_another_base_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1:30\nb: 1:30.5\nc: 032000\nd: [-010, 0x10, 0.5, 1_000, 0, 1e+3]\n")
    assert read_config(path) == {"a": "1:30", "b": "1:30.5", "c": "032000", "d": ["-010", 16, 0.5, 1000, 0, "1e+3"]}
    path.write_text("workers: 1:30\n")
    with pytest.raises(UsageError, match="expected a whole number of at least 1, not '1:30'"):
        make_options(TrainOptions, read_config(path))


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("yaml", "vocab_size: 300\n"),
        ("json", '{"vocab_size": 300}'),
        ("toml", "vocab_size = 300\n"),
    ],
)
def test_a_byte_order_mark_in_a_configuration_is_ignored(tmp_path: Path, suffix: str, text: str) -> None:
    (tmp_path / f"a.{suffix}").write_text(text, encoding="utf-8-sig")
    assert read_config(tmp_path / f"a.{suffix}") == {"vocab_size": 300}


TRAINING = "model_name_or_path: m\noutput_dir: saves/m\noverwrite_output_dir: true\nlearning_rate: 1e-4\n"


def test_a_training_file_of_another_tool_is_refused_with_all_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TRAINING)
    with pytest.raises(
        UsageError, match="'model_name_or_path' is no option, nor are 'output_dir', 'overwrite_output_dir', 'learn"
    ):
        make_options(TrainOptions, read_config(tmp_path / "a.yaml"))


@pytest.mark.parametrize(
    "name", ["output_dir", "output_path", "overwrite_output_dir", "overwrite_cache", "logging_dir"]
)
def test_no_name_of_another_tool_is_taken_for_what_replaces_files(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is unknown") as error:
        make_options(TrainOptions, {name: "saves"})
    assert "did you mean 'o" not in str(error.value)
    with pytest.raises(UsageError, match="did you mean 'output'"):
        make_options(TrainOptions, {"ouput": "saves"})
