"""`export --check`: what it finds, what it says, and the exit code that follows."""

import json
from importlib import metadata
from pathlib import Path

import pytest
import samples
import tiktoken
from command import refused, run

from bpe_pipeline import Tokenizer
from bpe_pipeline.tokenizer.check import check_exports
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS

EOT = "<|endoftext|>"


def made(directory: Path) -> tuple[Tokenizer, list[str]]:
    ours, formats = samples.tokenizer("gpt2", (EOT, "<|pad|>")), ["hf", "gpt2", "tiktoken"]
    for name in formats:
        FORMATS[name].write(ours.model, directory)
    return ours, formats


def test_differences_are_found_in_every_format(tmp_path: Path) -> None:
    _, formats = made(tmp_path)
    other = Tokenizer.from_merges(samples.trained("gpt2")[:-40], [EOT, "<|pad|>"])
    checks = check_exports(other, tmp_path, formats, ["the low the"])
    assert {check.outcome for check in checks} == {"different"}
    assert all("other ids for" in check.detail for check in checks)
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer.tiktoken").write_text("x")
    failed = check_exports(other, tmp_path, ["hf", "tiktoken"], [])
    assert all("it failed with" in check.detail for check in failed)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_of_a_downloaded_tokenizer_is_never_run(name, tmp_path, monkeypatch):
    """Not even where a person, or a pipe, would answer `y` to transformers' question."""
    monkeypatch.setattr("builtins.input", lambda _: "y")
    ours, _ = made(tmp_path)
    (tmp_path / "own.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    home = json.loads((tmp_path / name).read_text()) if (tmp_path / name).exists() else {"model_type": "own"}
    references = {"AutoTokenizer": ["own.Own", "own.Own"], "AutoConfig": "own.Own"}
    (tmp_path / name).write_text(json.dumps(home | {"tokenizer_class": "Own", "auto_map": references}))
    [core, auto] = check_exports(ours, tmp_path, ["hf"], [])
    assert not (tmp_path / "ran").exists()
    assert core.outcome == "same"
    assert auto.outcome == ("not checked" if name == "tokenizer_config.json" else "same")


def test_missing_libraries_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    ours, formats = made(tmp_path)
    monkeypatch.setattr(metadata, "version", missing)
    checks = check_exports(ours, tmp_path, formats, [])
    assert {check.outcome for check in checks} == {"not checked"}
    assert str(checks[0]) == "not checked hf with tokenizers: tokenizers is not installed"


def test_export_check_prints_each_check(trained: Path, tmp_path: Path) -> None:
    result = run("export", trained, "--check", "--export", "hf,gpt2,tiktoken")
    lines = [line for line in result.stdout.splitlines() if line.startswith("checked ")]
    assert [line.split(":")[1][:13] for line in lines] == [" the same ids"] * 4
    (tmp_path / "s.txt").write_text("the low")
    sample = ["--sample", tmp_path / "s.txt"]
    elsewhere = ["--output", tmp_path / "o", "--check", *sample, "--export", "tiktoken"]
    assert run("export", trained / "tokenizer", *elsewhere).stdout.count("the same ids") == 1
    assert "give both" in refused(run("export", trained, *sample), 2)


@pytest.mark.usefixtures("in_process")
def test_different_ids_are_exit_code_1(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tiktoken.Encoding.encode
    monkeypatch.setattr(tiktoken.Encoding, "encode", lambda *text, **options: real(*text, **options)[1:])
    result = run("export", trained, "--export", "tiktoken", "--check")
    assert "1 of 1 checks found a difference" in refused(result, 1)
    assert "other ids for" in result.stdout
