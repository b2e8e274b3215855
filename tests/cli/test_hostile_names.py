"""Names of files, tokens and patterns that steer a terminal or forge a line: what commands print and write."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run_here

from bpe_pipeline import cli
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.events import Notice, warn_of
from bpe_pipeline.commands.report import EXTENT

HOSTILE = "a\x1bc\r\nFORGED\x07\x7f\x9b\u2028\u202e\u2066z"
SHOWN = r"a\u001bc\r\nFORGED\u0007\u007f\u009b\u2028\u202e\u2066z"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|^FORGED", re.MULTILINE)
TEXTS = {"token": f"<|{HOSTILE}|>", "pattern": f"[a-z]+|{HOSTILE}", "broken": f"({HOSTILE}", "literal": HOSTILE}

COMMANDS = """
    train |text| --output |run| --vocab-size 300 --special-token |token| --bos-token |token|
    train |text| --output |run| --vocab-size 300 --special-token |token| --bos-token |token| --quiet
    train |text| --output |run| --vocab-size 300
    train |text| --output |log| --vocab-size 300 --special-token |token| --log-json
    train |text| --output |cut| --vocab-size 270 --pattern |pattern|
    train |text| --output |plan| --dry-run
    train |text| --output |run| --special-token |token| --vocab-size 300 --dry-run
    train |text| --pattern |broken|
    train |text| --input-format |literal|
    train |absent|
    count |text| --output |counted| --special-token |token|
    merge |counted| --vocab-size 270,280
    merge |absent|
    combine |run| |counted| --output |combined|
    export |run| --export gpt2,tiktoken --check
    export |run| --chat-template |absent|
    combine |counts.parquet| --output |imported| --special-token |token|
    combine |absent| --output |imported|
    extend |counted| |run| --add 5 --output |extended|
    prune |run| |counted| --keep 280 --output |pruned|
    sweep |run| |counted| --vocab-size 280 --held-out |text| --output |swept|
    verify |run|
    verify |absent|
    report |run| --held-out |text| --compare |counted|
    report |run| --compare |absent|
    info |run|
    info |run| --json
    info |absent|
    encode --tokenizer |run| |literal|
    encode --tokenizer |run| |text| --output |shards| --separator |token|
    info |shards|
    decode --tokenizer |run| |absent|
    explain --tokenizer |run| |token|
    explain --tokenizer |run| |literal| --json
    diff |run| |cut| |text|
    diff |run| |cut| --text |literal| --json
    doctor |run|
    doctor |cut| --json
    doctor |absent|
    |absent|
""".strip().splitlines()  # in this order; what is between bars is hostile: one of TEXTS, or a path


def _words(command: str, home: Path) -> Iterator[str]:
    for word in command.split():
        name = word.strip("|")
        yield word if name == word else TEXTS.get(name, str(home / name))


@pytest.mark.usefixtures("in_process")
@pytest.mark.filterwarnings("ignore")
def test_what_commands_print_and_write_has_no_controls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "page")
    home = tmp_path / HOSTILE
    (home / "text").mkdir(parents=True)
    (home / "text" / f"{HOSTILE}.txt").write_text(f"some text to learn from, <|{HOSTILE}|> again and again\n" * 9)
    (home / "text" / f"{HOSTILE}.empty").touch()
    (home / "text" / f"{HOSTILE}.broken.txt").write_bytes(b"text and \xff and text")
    pq.write_table(pa.table({"pre_token": [HOSTILE], "count": [3]}), home / "counts.parquet")
    for command in COMMANDS:
        result = run_here(*_words(command, home))
        for printed in (result.stdout, result.stderr):
            assert CONTROLS.search(printed) is None, f"{command}: {printed!r}"
        assert "FORGED" in result.stdout + result.stderr, command
        if "json" in command:
            list(map(json.loads, result.stdout.splitlines()))
    written = [path for path in home.rglob("*") if path.name in ("log.txt", "report.txt", "README.md", "report.html")]
    assert {path.name for path in written} == {"log.txt", "report.txt", "README.md", "report.html"}
    for path in written:
        assert CONTROLS.search(path.read_text()) is None, path.name
        assert "FORGED" in path.read_text(), path.name


def test_python_shows_errors_and_warnings_without_controls() -> None:
    assert str(InputError(HOSTILE)) == SHOWN
    with pytest.warns(UserWarning, match=re.escape(SHOWN)):
        warn_of(Notice("warning", HOSTILE))


@pytest.mark.usefixtures("in_process")
def test_decode_prints_text_as_it_is(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "a.txt").write_text("some text")
    assert cli.run(["train", str(tmp_path / "a.txt"), "--output", str(tmp_path / "run"), "--vocab-size", "258"]) == 0
    assert cli.run(["encode", "--tokenizer", str(tmp_path / "run"), "--text", HOSTILE]) == 0
    ids = capfdbinary.readouterr().out.splitlines()[-1].decode().split()
    assert cli.run(["decode", "--tokenizer", str(tmp_path / "run"), *ids]) == 0
    assert capfdbinary.readouterr().out.decode() == HOSTILE
