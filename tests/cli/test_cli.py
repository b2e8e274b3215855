"""The command as a user types it: what it does and what it prints."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import every_command
import pytest
import yaml
from command import refused, run, run_process, succeeded

import bpe_pipeline
from bpe_pipeline import __version__
from bpe_pipeline.cli import all_commands
from bpe_pipeline.cli.command import click_command
from bpe_pipeline.cli.settle import settle
from bpe_pipeline.commands.declaration import TITLES
from bpe_pipeline.commands.public.train import train
from bpe_pipeline.run.options import TrainOptions

EOT = "<|endoftext|>"


def test_version_and_env() -> None:
    assert run("--version").stdout == f"bpe-pipeline {__version__}\n"
    facts = run("env").stdout
    assert "pyarrow" in facts
    assert re.search(r"^installed in  +.*/bpe_pipeline$[^$]*^default workers", facts, re.MULTILINE)


def test_help_lists_commands_in_order_of_use_and_flags_in_groups() -> None:
    shown = run("--help").stdout
    listed = re.findall(r"^  ([a-z-]+)  +(.*)$", shown.partition("Train:\n")[2], re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(all_commands())
    assert listed[0][0] == "train"
    assert [line for _, line in listed if not re.fullmatch(r".*[^.]\.", line) or len(line) > 70] == []
    assert re.findall("^([A-Z].*):$", shown, re.MULTILINE) == ["Examples", "Options", *TITLES]
    assert "_BPE_PIPELINE_COMPLETE=bash_source" in shown
    assert "'train'" in run("trian").stderr
    titles = {name: re.findall(r"^(\w.*):$", run(name, "--help").stdout, re.MULTILINE) for name in ("train", "encode")}
    shared = ["Output", "Resources", "Other"]
    assert titles["train"] == ["Examples", "Input", "Vocabulary", "Special tokens", *shared]
    assert titles["encode"] == ["Examples", "Options", "Input", "Shards", "Order and split", "Packing", *shared]


@pytest.mark.parametrize("name", all_commands())
def test_help_of_a_command_has_an_example_and_what_most_people_need(name: str) -> None:
    """The rest is counted and shown by --help-all."""
    few, every = (run(name, option).stdout for option in ("--help", "--help-all"))
    assert f"\n  bpe-pipeline {name}" in few
    below = (text.rpartition("\n  bpe-pipeline ")[2] for text in (few, every))
    shown, flags = (set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)) for text in below)
    assert len(shown) <= 24
    assert shown < flags
    assert f"\n{len(flags - shown)} advanced options: --help-all" in few
    options = [one for one in all_commands()[name].params if isinstance(one, click.Option) and not one.hidden]
    assert flags == {"--help", *(next(flag for flag in one.opts if flag.startswith("--")) for one in options)}


def test_encode_and_decode(trained: Path, tmp_path: Path) -> None:
    text = f"the cat{EOT} sat\n"
    (tmp_path / "t.txt").write_text(text)
    from_file = run("encode", "--tokenizer", trained, tmp_path / "t.txt").stdout
    assert run("encode", "--tokenizer", trained / "tokenizer", "--text", text).stdout == from_file
    assert run("encode", "--tokenizer", trained, "-", stdin=text).stdout == from_file
    assert "599" in from_file.split()
    as_text = ("--special-tokens-in-text", "text")
    assert "599" not in run("encode", "--tokenizer", trained, *as_text, "--text", text).stdout.split()
    assert "599" not in run("encode", "--tokenizer", trained, *as_text, tmp_path / "t.txt").stdout.split()
    refuse = ("--special-tokens-in-text", "refuse")
    assert "refuse is for a corpus" in refused(run("encode", "--tokenizer", trained, *refuse, "--text", text), 2)
    assert run("decode", "--tokenizer", trained, *from_file.split()).stdout == text
    assert run("decode", "--tokenizer", trained, stdin=from_file).stdout == text
    assert run("decode", "39 40", "41", "--tokenizer", trained).stdout == "HIJ"
    assert "neither a directory of shards" in refused(run("decode", "missing", "--tokenizer", trained), 1)
    assert run("encode", "--tokenizer", trained, "--text", text, "--text", "").stdout == f"{from_file}\n"
    line = refused(run("encode", "Hello world", "--tokenizer", trained, cwd=tmp_path), 1)
    assert "there is no file 'Hello world'; to encode it as text: --text 'Hello world'" in line
    assert "--text" in refused(run("encode", "long " * 2000, "--tokenizer", trained, cwd=tmp_path), 1)


def test_flags_override_the_configuration_file(text: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(f"inputs: ['{text}']\nvocab_size: 400\npattern: llama3\n")
    shown = run("train", "--config", tmp_path / "run.yaml", "--vocab-size", 500, "--dry-run").stdout
    assert 'pattern: "llama3"' in shown
    assert "vocab_size: [500]" in shown
    (tmp_path / "wrong.yaml").write_text("vocabsize: 400\n")
    line = refused(run("train", "--config", tmp_path / "wrong.yaml"), 2)
    assert "wrong.yaml" in line
    assert "did you mean 'vocab_size'" in line


def test_default_output_is_a_new_directory_and_the_summary_says_that_pairs_ran_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab ab ab")
    for number in ("001", "002"):
        shown = succeeded(run("train", "a.txt", "--vocab-size", 5000, cwd=tmp_path)).stdout
        assert f"runs/{number}" in shown
        assert "no pair" in shown


def test_merge_uses_the_options_of_the_run(text: Path, tmp_path: Path) -> None:
    options = ["--tie-break", "greatest-bytes", "--min-frequency", 2, "--pad-token", "<pad>", "--pattern", "llama3"]
    succeeded(run("train", text, "--output", tmp_path / "run", "--vocab-size", 500, *options))
    assert "2 special" in succeeded(run("merge", tmp_path / "run", "--vocab-size", 400)).stdout
    (tmp_path / "other.yaml").write_text("pattern: gpt2\n")
    assert "--pattern" in refused(run("merge", tmp_path / "run", "--config", tmp_path / "other.yaml"), 1)


def settled(*words: str) -> TrainOptions:
    """Return the options that the words of `train` and its configuration file say."""
    typed = click_command(train).make_context("train", [*words]).params
    options: TrainOptions = settle(train, typed)
    return options


@pytest.mark.parametrize(("words", "own", "listed"), [
    ("--special-token <a> --special-token <b>", [], [EOT, "<a>", "<b>"]),
    (f"--special-token <a> --special-token {EOT}", [], [EOT, "<a>"]),
    ("--no-special-tokens --special-token <a>", [], ["<a>"]), ("--no-special-tokens", [], []),
    ("", ["<s>", "</s>"], ["<s>", "</s>"]), ("--special-token <a>", ["<s>", "</s>"], ["<s>", "</s>", "<a>"]),
    ("--no-special-tokens --special-token <a>", ["<s>", "</s>"], ["<a>"]),
])  # fmt: skip
def test_special_token_adds_to_the_default(words: str, own: list[str], listed: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"special_tokens": own} if own else {}))
    assert settled(*words.split(), "--config", str(tmp_path / "own.yaml")).special_tokens == tuple(listed)


@pytest.mark.parametrize(("words", "address", "inputs"), [
    ("", None, None), ("--ray", "auto", None), ("a --ray", "auto", ["a"]), ("--ray a b", "auto", ["a", "b"]),
    ("--ray auto a", "auto", ["a"]), ("--ray head:63 a", "head:63", ["a"]), ("--ray ray://h:1", "ray://h:1", None),
    ("--ray [::1]:1 a", "[::1]:1", ["a"]), ("--ray=head:1 a", "head:1", ["a"]), ("--ray s3://b:1", "auto", ["s3://b:1/"]),
    ("--ray -q a", "auto", ["a"]), ("--ray -- a:1", "auto", ["a:1"]), ("-- --ray", None, ["--ray"]),
    ("--text-field --ray a:1", None, ["a:1"]), ("a executor", None, ["a", "executor"]),
])  # fmt: skip
def test_only_an_address_that_follows_ray_is_its_own(words: str, address: str | None, inputs: list[str] | None) -> None:
    options = settled(*words.split())
    assert (options.ray, options.inputs and [*options.inputs]) == (address, inputs)


def test_words_are_utf8_whatever_the_locale(tmp_path: Path) -> None:
    """Python escapes the bytes of arguments one by one where neither the locale nor its own mode is UTF-8."""
    in_c = partial(run_process, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    (tmp_path / "a.txt").write_text("low é lower é<é>é", encoding="utf-8")
    output = tmp_path / "run"
    words = ["--output", output, "--vocab-size", "260", "--special-token", "<é>", "--pattern", "é| ?low|."]
    assert "incomplete" not in succeeded(in_c("train", tmp_path / "a.txt", *words)).stderr
    tokenizer = bpe_pipeline.Tokenizer.load(output / "tokenizer")
    assert "<é>" in tokenizer.special_tokens
    found = in_c("encode", "--tokenizer", output, "--text", "é<é>low", "--text", "中 é")
    rows = [[int(word) for word in line.split()] for line in found.stdout.splitlines()]
    assert rows == [tokenizer.encode(text) for text in ("é<é>low", "中 é")], found.stderr
    line = refused(in_c("encode", "--tokenizer", output, "--text", "a\udcff"), 2)
    assert "--text is not valid UTF-8" in line
    assert "lone surrogate" in refused(in_c("train", "--special-token", "\udcff"), 2)


def test_short_flags(text: Path, tmp_path: Path) -> None:
    result = run("train", text, "-o", tmp_path / "run", "--vocab-size", "1k", "-q")
    assert (result.stdout, result.stderr) == (f"{tmp_path / 'run' / 'tokenizer'}\n", "")
    succeeded(run("export", tmp_path / "run", "-o", tmp_path / "files", "--export", "gpt2"))
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["merges.txt", "vocab.json"]
    quiet = succeeded(run("export", tmp_path / "run", "-o", tmp_path / "quiet", "--export", "gpt2", "-q"))
    assert (len(quiet.stdout.splitlines()), quiet.stderr) == (2, "")


def test_verbose_prints_the_log_with_debug_messages(text: Path, tmp_path: Path) -> None:
    result = succeeded(run("train", text, "-o", tmp_path / "run", "--vocab-size", 400, "-v"))
    log = (tmp_path / "run" / "log.txt").read_text()
    for shown in (result.stderr, log):
        assert " DEBUG " in shown
        assert "unique pre-tokens in" in shown  # a worker's
    assert " DEBUG " not in run("-v", "env").stdout
    quiet = run("train", text, "-o", tmp_path / "other", "--vocab-size", 400)
    assert " DEBUG " not in quiet.stderr + (tmp_path / "other" / "log.txt").read_text()


def test_json_is_the_result_alone(text: Path, tmp_path: Path) -> None:
    """One document on standard output, of every command; events of --log-json go to standard error then."""
    found = {}
    for line in every_command.lines(tmp_path, text.read_text()):
        result = run(*line.split(), "--json", cwd=tmp_path)
        assert result.returncode == int("diff" in line), result.stderr
        found[line] = json.loads(result.stdout)
        assert "--log-json" not in line or all(map(json.loads, result.stderr.splitlines()))
    assert {line.split()[0] for line in found} == set(all_commands())
    assert found["decode --tokenizer a 39 255"] == {"text": "H\ufffd"}
    assert found["decode --tokenizer a shards"]["text"].startswith((tmp_path / "a.txt").read_text())
    assert found["encode --tokenizer a --text low --text er"]["ids"][0] == bpe_pipeline.load(tmp_path / "a").encode(
        "low"
    )


_LOST = """
import os, signal, sys
import bpe_pipeline.__main__ as main
import bpe_pipeline.cli

class Callback:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)  # Python loses what is raised here

bpe_pipeline.cli.run = lambda words: 0 if Callback() else 1
sys.exit(main.main())
"""


def test_a_signal_that_is_repeated_when_the_command_has_ended_changes_nothing() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", _LOST], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
