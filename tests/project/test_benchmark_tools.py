"""benchmarks: the measuring of processes, each tool's adapter, and the command from corpus to document."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from peers import generated_text

from benchmarks import __main__ as command
from benchmarks import adapters, cliffs, corpora, counting, ours, process, records, render, run
from benchmarks.tools import PATTERNS, TOOLS, Tool, child_argv

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SPECIAL = "<|endoftext|>"
SLEEPER = "import sys, time; block = bytearray(b'x') * int(sys.argv[1]); time.sleep(float(sys.argv[2]))"


# the measurement of processes


def measure(program: str, directory: Path, timeout_s: float = 30.0, **options: bool) -> process.Measurement:
    argv, environment = [sys.executable, "-S", "-c", program], dict(os.environ)
    return process.measure(argv, timeout_s=timeout_s, directory=directory, environment=environment, **options)


def test_memory_of_the_whole_tree_is_seen(tmp_path: Path) -> None:
    """A parent of 20 MB and two children of 40 MB, alive together, hold a little over 100 MB."""
    program = (
        "import subprocess, sys\n"
        f"child = [sys.executable, '-S', '-c', {SLEEPER!r}, '40000000', '3.0']\n"
        "children = [subprocess.Popen(child) for _ in range(2)]\n"
        "block = bytearray(b'x') * 20_000_000\n"
        "sys.exit(sum(child.wait() for child in children))"
    )
    measured = measure(program, tmp_path)
    assert measured.status == "ok", measured.stderr
    assert 100e6 < measured.peak_memory_bytes < 150e6
    assert measured.most_processes == 3
    assert measured.wall_s > 1.0
    assert 0 < measured.user_s + measured.system_s < 30
    if process.HAS_PSS:
        assert 100e6 < measured.peak_anonymous_bytes <= measured.peak_memory_bytes
    assert measured.largest_rss_bytes > 40e6


def test_a_timeout_kills_the_tool_and_its_children(tmp_path: Path) -> None:
    program = (
        "import pathlib, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {SLEEPER!r}, '1', '60'])\n"
        "pathlib.Path('pid').write_text(str(child.pid))\n"
        "child.wait()"
    )
    started = time.perf_counter()
    measured = measure(program, tmp_path, timeout_s=1.0)
    assert measured.status == "timeout"
    assert time.perf_counter() - started < 20
    child = int((tmp_path / "pid").read_text())
    for _ in range(200):  # its new parent may need a moment to collect it
        state = Path(f"/proc/{child}/stat")
        if not Path("/proc").is_dir() or not state.exists() or state.read_text().split(")")[1].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child still runs")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot keep a process on a core")
def test_one_core_restricts_only_the_child(tmp_path: Path) -> None:
    mine = os.sched_getaffinity(0)
    program = "import os; print(len(os.sched_getaffinity(0)))"
    for one_core, cores in ((True, 1), (False, len(mine))):
        assert int(measure(program, tmp_path, one_core=one_core).stdout) == cores
    assert os.sched_getaffinity(0) == mine


def test_a_failure_keeps_its_exit_code_and_last_line(tmp_path: Path) -> None:
    measured = measure("import sys; sys.exit('no such thing')", tmp_path)
    assert (measured.status, measured.exit_code) == ("failed", 1)
    session = run.start_session(tmp_path / "r.jsonl", 1, 5.0, SPECIAL)
    corpus = corpora.Corpus(tmp_path, "a.txt", 1, "00")
    failed = run.record_of(session, "train", Tool("x"), corpus, "gpt2", 300, measured)
    assert failed["reason"] == "exit code 1: no such thing"
    assert "stderr" not in failed
    json.dumps(failed)


# the tools


@pytest.fixture(scope="module")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 KB of made-up text in ten documents."""
    path = tmp_path_factory.mktemp("corpus") / "small.txt"
    path.write_text("".join(f"{generated_text(seed, 500)}\n{SPECIAL}\n" for seed in range(10)), "utf-8")
    return path


def learned_by(tool: str, corpus: Path, pattern: str = "gpt2", vocab_size: int = 400) -> dict[str, Any]:
    if TOOLS[tool].version is None:
        pytest.skip(f"{tool} is not installed")
    job = adapters.Job("train", tool, str(corpus), vocab_size, PATTERNS[pattern], SPECIAL)
    done = subprocess.run(child_argv(job), capture_output=True, text=True, timeout=60, cwd=corpus.parent, check=False)
    assert done.returncode == 0, done.stderr
    return run.answer_of(done.stdout)


@pytest.mark.parametrize(
    ("tool", "other", "pattern", "same"),
    [
        *((tool, "tokenizers", pattern, True) for tool in ("gigatoken", "ffbpe") for pattern in sorted(PATTERNS)),
        ("rustbpe", "bpeasy", "gpt2", True),  # they order bytes by value
        ("sentencepiece", "tokenizers", "gpt2", False),  # it has no patterns
    ],
)
def test_tools_that_cut_and_break_ties_alike_learn_the_same(
    tool: str, other: str, pattern: str, same: bool, small_corpus: Path
) -> None:
    if TOOLS[tool].refusal(pattern) and same:
        pytest.skip("the tool cannot be given this pattern")
    learned, reference = (learned_by(name, small_corpus, pattern) for name in (tool, other))
    assert 0 < learned["merges"] <= reference["merges"] == 400 - 257
    assert (learned["tokens_digest"] == reference["tokens_digest"]) == same
    assert (other, same) != ("tokenizers", True) or learned["pairs_digest"] in (None, reference["pairs_digest"])


def test_other_merges_have_another_digest(small_corpus: Path) -> None:
    one, two = (learned_by("tokenizers", small_corpus, vocab_size=size) for size in (400, 401))
    assert one["tokens_digest"] != two["tokens_digest"]
    assert adapters.digest([b"a", b"bc"]) != adapters.digest([b"ab", b"c"])


def test_byte_characters_match_byte_level_files() -> None:
    assert sorted(adapters.BYTE_OF_CHARACTER.values()) == list(range(256))
    assert [adapters.BYTE_OF_CHARACTER[one] for one in "ĠĊ"] == [0x20, 0x0A]


STUB = """
import json, pathlib, sys
arguments = dict(a.split("=", 1) for a in sys.argv if a.startswith("--") and "=" in a)
run = pathlib.Path(sys.argv[sys.argv.index("--output") + 1])
assert pathlib.Path(sys.argv[2]).is_file()
(run / "tokenizer").mkdir(parents=True)
merges = [["a", "b"], ["ab", "c"]]
(run / "tokenizer" / "tokenizer.json").write_text(json.dumps({"model": {"merges": merges}}))
(run / "report.json").write_text(json.dumps({"stages": {"counting": 0.5, "merging": None}}))
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the installed command: this tests the harness, not the trainer."""
    script = tmp_path / "stub.py"
    script.write_text(STUB, "utf-8")
    monkeypatch.setattr(ours, "command", lambda: [sys.executable, "-S", str(script)])
    monkeypatch.setattr(ours, "counted", lambda _: {})  # the stub leaves no counters
    monkeypatch.setattr(Tool, "version", property(lambda self: "1" if self.name == ours.NAME else None))


@pytest.mark.usefixtures("stub")
def test_command_from_measurement_to_document(tmp_path: Path, small_corpus: Path) -> None:
    results, document = tmp_path / "results.jsonl", tmp_path / "README.md"
    common = ["--results", str(results), "--rounds", "2"]
    assert command.main(["run", str(small_corpus), *common, "--vocab-size", "300,400"]) == 0
    assert command.main(["counting", str(small_corpus), *common, "--repeat", "3"]) == 0
    grow = ["growth", str(small_corpus), "--sizes", "8kB,16kB", "--vocab-sizes", "300", "--workers", "1,2"]
    assert command.main([*grow, *common]) == 0
    assert command.main(["cliffs", str(small_corpus), *common, "--sizes", "4kB,8kB"]) == 0
    measured = records.read(results)
    shapes = 1 + len(cliffs.SHAPES)
    assert [r["kind"] for r in measured] == ["train"] * 4 + ["count"] * 2 + ["growth"] * 10 + ["cliff"] * 4 * shapes
    assert {r["merges"] for r in measured if r["kind"] == "train"} == {2}
    assert all(r["stage_mb_per_s"] == r["corpus_bytes"] / 1e6 / 0.5 for r in measured if r["kind"] == "count")
    assert all("path" not in key for r in measured for key in r)
    summary = "<!-- benchmarks summary: begin -->\n<!-- benchmarks summary: end -->"
    document.write_text(f"{summary}\n{render.BEGIN}\n{render.END}\n", "utf-8")
    arguments = ["render", "--results", str(results), "--into", str(document), "--plots", str(tmp_path / "plots")]
    if importlib.util.find_spec("matplotlib") is None:
        arguments.append("--no-plots")
    assert command.main(arguments) == 0
    text = document.read_text("utf-8")
    shown = ["small.txt x3", "slope", "| small.txt | workers |", *(shape.name for shape in cliffs.SHAPES)]
    assert [part for part in shown if part not in text] == []
    if "--no-plots" not in arguments:
        assert not (tmp_path / "plots" / "tools.svg").exists()  # nothing to compare
        assert (tmp_path / "plots" / "growth.svg").stat().st_size > 1000


@pytest.mark.usefixtures("stub")
def test_a_tool_that_cannot_do_the_task_is_recorded(tmp_path: Path, small_corpus: Path) -> None:
    session = run.start_session(tmp_path / "r.jsonl", 2, 5.0, SPECIAL)
    corpus = corpora.open_corpus(small_corpus)
    done = run.run(session, [corpus], [TOOLS["gigatoken"]], "llama3", [300])
    assert [r["status"] for r in done] == ["unsupported"]
    assert "gpt2" in done[0]["reason"]


@pytest.mark.parametrize("shape", cliffs.SHAPES, ids=lambda shape: shape.name)
def test_a_cliff_has_the_requested_size(shape: cliffs.Shape, tmp_path: Path, small_corpus: Path) -> None:
    made = cliffs._write(shape, 4000, small_corpus, SPECIAL, tmp_path / "a.txt")
    text = (tmp_path / "a.txt").read_bytes()
    assert (made.bytes, SPECIAL.encode() in text) == (4000, False)
    pieces = {"prose as one single piece": None, "the same piece of two bytes": 1}.get(shape.name)
    assert pieces is None or len(set(text.split())) == pieces


def run_once(words: list[str], results: Path) -> list[records.Record]:
    """Measure one round and return its records."""
    assert command.main([*words, "--results", str(results), "--rounds", "1"]) == 0
    return records.read(results)


def test_startup_is_measured_on_the_installed_command(tmp_path: Path) -> None:
    found = run_once(["startup"], tmp_path / "results.jsonl")
    measured = {r["command"]: r["wall_s"] for r in found}
    assert len(measured) == 5
    assert measured["python alone"] < measured["bpe-pipeline train, 1 MB"]
    assert "a worker answers" in render.markdown(found)


@pytest.mark.parametrize(
    ("files", "tools", "shown", "row"),
    [
        ([], {ours.NAME, "tiktoken", "tokenizers"}, "| 400 | tiktoken", "| same |"),
        (["--files"], {ours.NAME}, "From files to ids", "| - | same |"),
    ],
    ids=["texts", "files"],
)
def test_encoders_return_the_same_ids(
    files: list[str], tools: set[str], shown: str, row: str, tmp_path: Path, small_corpus: Path
) -> None:
    measured = run_once(["encode", str(small_corpus), *files, "--vocab-size", "400"], tmp_path / "results.jsonl")
    assert {r["tool"] for r in measured} >= tools
    assert len({r["ids_digest"] for r in measured}) == 1
    assert files or all(r["mb_per_s"] > 0 and r["message_us"] > 0 and r["tokens"] > 1000 for r in measured)
    text = render.markdown(measured)
    assert shown in text
    assert text.count(row) == len(measured)


def test_regex_counting_answers(tmp_path: Path, small_corpus: Path) -> None:
    session = run.start_session(tmp_path / "r.jsonl", 1, 30.0, SPECIAL)
    counted = counting.count_once(session, Tool("regex"), corpora.open_corpus(small_corpus), "gpt2")
    assert counted["status"] == "ok", counted["reason"]
    assert counted["stage_mb_per_s"] > counted["wall_mb_per_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["run", "does/not/exist"], "does/not/exist"),
        (["run"], "CORPUS"),
        (["run", __file__, "--rounds", "0"], "--rounds"),
        (["run", __file__, "--tools", "youtokentome"], "youtokentome"),
        (["run", __file__, "--vocab-size", "256"], "--vocab-size"),
        (["growth", __file__], "--sizes"),
        (["growth", __file__, "--sizes", "1XB"], "1XB"),
        (["counting", __file__, "--pattern", "o200k"], "o200k"),
        (["encode", __file__, "--tokenizer", "does/not/exist"], "does/not/exist"),
    ],
)
def test_bad_arguments_are_errors_of_one_line(
    arguments: list[str], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(arguments)
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert place in said


def test_missing_results_are_an_error_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["render", "--results", str(tmp_path / "none.jsonl")]) == 1
    assert re.fullmatch(".* measure first.*\n", capsys.readouterr().err)


def test_the_list_names_every_tool() -> None:
    listed = [sys.executable, "-m", "benchmarks", "list"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert all(tool in done.stdout for tool in TOOLS)
