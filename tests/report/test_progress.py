"""What a user sees: progress on a terminal and in a pipe, JSON lines, help with examples, completion."""

import io
import json
import re
from pathlib import Path
from typing import Any

import peers
import pytest
from command import run, succeeded
from terminal import output_on_a_terminal, screens

import bpe_pipeline
from bpe_pipeline.base.events import Advanced, Notice, StageEnded, StageStarted
from bpe_pipeline.reports import progress

COMPLETE = "_BPE_PIPELINE_COMPLETE"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("terminal")
    (home / "a.txt").write_text(peers.generated_text(1, 3000))
    return home


def test_lines_show_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    with progress.listener(quiet=False, log_json=False) as listen:
        listen(StageStarted("counting", 100 << 20, "bytes", done=40 << 20))
        now_s += 10
        listen(Advanced("counting", 20 << 20))  # what an earlier run did is not in the rate
        now_s += 1
        listen(Advanced("counting", 1 << 20))
        listen(StageEnded("counting", 11.0))
        listen(StageStarted("merging", 1000, "merges"))
        now_s += 500
        listen(Advanced("merging", 100))
        listen(Notice("warning", "slow"))
    assert capsys.readouterr().err.splitlines() == [
        "counting: 100.0 MiB (40.0 MiB kept from before)",
        "counting: 60.0 MiB of 100.0 MiB, 60%, about 20 s left, 2.0 MiB/s",
        "counting: done in 11.00 s",
        "merging: 1,000 merges",
        "merging: 100 of 1,000 merges, 10%, about 4 min left",
        "warning: slow",
    ]


TERMINALS = [({}, True, True), ({"NO_COLOR": "1"}, False, True), ({"TERM": "dumb"}, False, False)]


@pytest.mark.parametrize(("variables", "colour", "bars"), TERMINALS)
def test_terminal_shows_coloured_bars(variables: Any, colour: bool, bars: bool, corpus: Path, tmp_path: Path) -> None:
    words = ["train", "a.txt", "--output", str(tmp_path / "run"), "--vocab-size", "400", "--workers", "1"]
    seen = output_on_a_terminal(words, corpus, **variables)
    assert bool(re.search(rb"\x1b\[[0-9;]*[39][0-7]m", seen)) == colour
    assert ("━".encode() in seen) == bars
    assert b"counting" in seen
    assert b"bytes per token" in seen
    assert len(screens(seen)) > 3 or not bars
    last = re.sub(r"\x1b\[[\d;]*m", "", screens(seen)[-1]).splitlines()
    assert sum(line.startswith("counting") for line in last) == (1 if bars else 2)  # a bar is drawn over itself
    assert any(line.startswith("next ") and line.endswith(" \\") for line in last)  # a command of several lines


class FakeTerminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("columns", "counting", "merging"),
    [
        (60, "", ""),
        (74, ", about 5 s left", ", about 4 s left"),
        (80, ", about 5 s left", ", about 4 s left"),
        (99, ", about 5 s left, 28.7 MiB/s", ", about 4 s left"),
    ],
)
def test_bar_keeps_its_name_and_width(
    columns: int, counting: str, merging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate goes first; merging has none, since its first merges take the longest."""
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    monkeypatch.setattr("sys.stderr", terminal := FakeTerminal())
    for name, value in {"COLUMNS": str(columns), "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    with progress.listener(quiet=False, log_json=False) as listen:
        listen(StageStarted("counting", 254_070_000, "bytes"))
        listen(StageStarted("merging superwords", 31_743, "merges"))
        now_s += 3
        listen(Advanced("counting", 86 << 20))
        listen(Advanced("merging superwords", 5))
        listen(Advanced("merging superwords", 71))
    seen = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())
    first, *_, last = (screen.splitlines() for screen in screens(seen.encode()))
    assert first[0].split("━ ")[1].startswith("0 of 242.3 MiB")
    assert [re.sub("[━╸╺]+", lambda drawn: f"{len(drawn[0])}", line.rstrip()) for line in last] == [
        f"counting           10 86.0 MiB of 242.3 MiB, 35%{counting}",
        f"merging superwords 10 76 of 31,743 merges, 0%{merging}",
    ]


def test_pipe_gets_no_escape_sequences_and_decoded_text_no_line_end(corpus: Path, tmp_path: Path) -> None:
    words = ["train", "a.txt", "--output", str(tmp_path / "run"), "--vocab-size", "400"]
    done = succeeded(run(*words, cwd=corpus))
    assert "\x1b" not in done.stdout + done.stderr
    again = run(*words, "--quiet", cwd=corpus)
    assert (again.stdout, again.stderr) == (f"{tmp_path}/run/tokenizer\n", "")
    decode = ["decode", "--tokenizer", str(tmp_path / "run"), "39", "40"]  # b"HI"
    assert run(*decode).stdout == "HI"
    for written in (decode, [*decode, "198"]):  # b"\n"
        assert output_on_a_terminal(written, corpus) == b"HI\r\n"


FIELDS: dict[str, dict[str, Any]] = {
    "stage_started": {"stage": str, "total": int, "unit": str, "done": int},
    "advanced": {"stage": str, "amount": int},
    "stage_ended": {"stage": str, "elapsed_s": float},
    "notice": {"level": str, "text": str},
}


def test_json_events_have_the_documented_fields(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    words = ["train", "a.txt", str(tmp_path / "empty.txt"), "--vocab-size", "400", "--log-json", "--output"]
    done = run(*words, str(tmp_path / "run"), cwd=corpus)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr == ""
    for event in events[:-1]:
        fields = {name: type(value) for name, value in event.items()}
        assert fields == {"event": str, "time": float} | FIELDS[event["event"]]
    assert {event["event"] for event in events[:-1]} == set(FIELDS)
    assert events[-1]["event"] == "summary"
    stored = json.loads((tmp_path / "run" / "report.json").read_text())
    later = {name: stored[name] for name in ("advice", "numbers")}  # what the report adds
    assert events[-1] | later == stored | {"event": "summary", "time": events[-1]["time"]}
    page = (Path(__file__).parents[2] / "docs" / "pages" / "reference" / "command.md").read_text()
    for name, wanted in FIELDS.items():
        assert f"| `{name}` | {', '.join(f'`{field}`' for field in wanted)} |" in page


def test_shell_completion() -> None:
    for typed, wanted in {
        "ver": "plain,verify",
        "train --vocab": "plain,--vocab-size",
        "train --pattern ll": "plain,llama3",
        "train --tie-break g": "plain,greatest-bytes",
        "merge runs/a --export hf,ti": "plain,hf,tiktoken",
        "encode --shard-format b": "plain,bin",
        "encode --tokenizer run": "file,run",
        "train cor": "file,cor",
        "train --output run": "file,run",
        "train --ray a": "plain,auto",
        "train --ray cor": "file,cor",
    }.items():
        words = f"bpe-pipeline {typed}"
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), COMPLETE: "bash_complete"}
        assert wanted in succeeded(run(env=asked)).stdout.splitlines()
    assert run(env={COMPLETE: "zsh_source"}).stdout.startswith("#compdef bpe-pipeline")


def test_python_shows_a_bar_on_a_terminal_and_warnings_as_warnings(corpus: Path, tmp_path: Path) -> None:
    keywords = f"output={str(tmp_path / 'run')!r}, vocab_size=90_000, workers=1, progress=True"
    script = f"import bpe_pipeline; tokenizer = bpe_pipeline.train({str(corpus / 'a.txt')!r}, {keywords})"
    shown = output_on_a_terminal([script], corpus, ["-c"])
    assert "━".encode() in shown
    assert b"counting" in shown
    words = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).split()
    assert b"UserWarning: the vocabulary is smaller than asked for" in b" ".join(words)


def test_python_shows_lines_in_a_pipe_if_asked(corpus: Path, tmp_path: Path, capfd: Any) -> None:
    for shown in (False, True):
        bpe_pipeline.train(corpus / "a.txt", output=tmp_path / str(shown), vocab_size=300, workers=1, progress=shown)
        error = capfd.readouterr().err
        found = "counting: " in error, "\nvocabulary       300 tokens" in error, error != ""
        assert found == (shown, shown, shown)
        made = tmp_path / str(shown) / "tokenizer"
        for tokenizer in (made, bpe_pipeline.load(made)):
            bpe_pipeline.encode(corpus / "a.txt", tokenizer, tmp_path / f"shards-{shown}", progress=shown)
            error = capfd.readouterr().err
            assert bool(re.search(r"\ntokens +\d", error)) == shown
            assert ("\nnext " in error) == (shown and tokenizer == made)


def test_a_notebook_shows_a_bar(corpus: Path, tmp_path: Path) -> None:
    modules = ("nbformat", "nbclient", "ipykernel", "ipywidgets")
    nbformat, nbclient, *_ = (pytest.importorskip(name, reason=f"needs {name}") for name in modules)
    options = f"output={str(tmp_path / 'run')!r}, vocab_size=90_000, progress=True"
    code = f"import bpe_pipeline\npipeline.train({str(corpus / 'a.txt')!r}, {options})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = str(notebook)
    for part in ("counting", "━", "UserWarning: the vocabulary is smaller than asked for", "tokens, gpt2"):
        assert part in shown
    assert 'install "ipywidgets"' not in shown


@pytest.mark.parametrize(
    ("measured", "earlier"),
    [  # new merges, and seconds since the start:
        # mixed-250 in memory, with a third of its words there, with fewer
        ([(76, 8.0), (404, 10.6), (1651, 13.3), (6731, 18.3), (31743, 23.7)], 0),
        ([(10, 14.8), (102, 43.1), (404, 65.1), (1311, 85.9), (8288, 115.7), (31743, 131.1)], 0),
        ([(1, 19.0), (77, 38.0), (150, 43.0), (821, 57.0), (31743, 82.0)], 0),
        ([(86, 5.41), (582, 5.74), (2346, 6.11), (43999, 9.87)], 19744),  # superwords
    ],
)
def test_time_left_of_merging_is_close(measured: Any, earlier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    *points, (new, whole_s) = measured
    name = "merging superwords" if earlier else "merging"
    stage = progress._Stage(StageStarted(name, earlier + new, "merges", earlier))
    assert stage._left_s(5.0) is None
    for done, now_s in points:
        stage.advance(earlier + done - stage.done)
        left_s = stage._left_s(now_s)
        assert (left_s is None) == (done < 10)
        if left_s is not None:
            assert 1 / (3 if earlier else 2) <= left_s / (whole_s - now_s) <= 2
