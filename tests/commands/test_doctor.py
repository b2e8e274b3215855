"""The exit codes and the output of `doctor`."""

import json
from pathlib import Path

from command import refused, run


def test_exit_codes_and_json(trained: Path, tmp_path: Path) -> None:
    result = run("doctor", trained, "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["wrong"] == 0
    found = {(one["outcome"], one["what"]) for one in document["findings"]}
    assert {("fine", "files"), ("fine", "tokens"), ("fine", "round trip"), ("fine", "runtimes")} <= found
    assert [one["what"] for one in document["findings"] if one["outcome"] == "advice"] == ["special tokens"]  # no pad
    assert run("doctor", trained, "--strict").returncode == 1
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    result = run("doctor", tmp_path)
    assert result.returncode == 1
    assert "wrong:" in result.stdout
    assert "remedy:" in result.stdout
    assert "run.json" in refused(run("doctor", trained, "--counts", tmp_path), 1)
