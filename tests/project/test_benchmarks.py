"""benchmarks: what guards a published number: the measuring, the arithmetic, each tool run small, and its table."""

import importlib.util
import sys
import tempfile
import time
from array import array
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from benchmarks import __main__ as command
from benchmarks import corpora, cost, file_adapters, kinds, ours, process, records, render, run
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import generated_text

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = "<|endoftext|>"
SESSION = run.Session(None, 1, 900.0, 50e6, SPECIAL, "2026-01-01T00:00:00+00:00", {})


def record(tool: str, round_: int, wall_s: float, **other: Any) -> records.Record:
    task = {"corpus": "a.txt", "corpus_bytes": 3_000_000, "pattern": "gpt2", "vocab_size": 1000}
    measured = {"wall_s": wall_s, "user_s": wall_s, "system_s": 0.0, "peak_memory_bytes": int(wall_s * 1e8)}
    machine = {"cpu": "A CPU", "usable_cores": 2, "memory_bytes": 2**34, "os": "Linux", "python": "3.11"}
    made = {"format": records.FORMAT, "kind": "train", "session": "2026-01-01T00:00:00+00:00", "machine": machine}
    result = {"status": "ok", "reason": None, "merges": 743, "tokens_digest": "abcdef0123456789"}
    return made | {"round": round_, "tool": tool, "version": "1.0"} | task | measured | result | other


THREE_ROUNDS = [
    *(record(ours.NAME, number, wall_s) for number, wall_s in ((1, 1.0), (2, 2.0), (3, 4.0))),
    *(record("tokenizers", number, wall_s) for number, wall_s in ((1, 10.0), (2, 40.0), (3, 20.0))),
]


def test_ratios_are_taken_round_by_round_in_the_latest_session() -> None:
    """Medians alone would give 20 / 2 = 10; the ratios of the rounds are 10, 20 and 5."""
    failed = [*THREE_ROUNDS[:5], record("tokenizers", 3, 20.0, status="failed")]
    for rounds, of_rounds, ratio in (
        (THREE_ROUNDS, [], 10),
        (THREE_ROUNDS, [max], 20),
        (THREE_ROUNDS[:3], [], None),
        (failed, [], 15),
    ):
        assert records.paired(rounds, "tokenizers", ours.NAME, "wall_s", *of_rounds) == ratio
    old = record(ours.NAME, 1, 99.0, session="2025-01-01T00:00:00+00:00")
    assert records.tasks(records.newest([old, *THREE_ROUNDS]), "train") == [THREE_ROUNDS]


def test_records_are_read_back_and_an_invalid_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.jsonl"
    for one in THREE_ROUNDS:
        records.append(path, one)
    assert records.read(path) == THREE_ROUNDS
    valid = path.read_text("utf-8")
    for line in ("{", "[]", '{"format": 99, "kind": "train"}', '{"kind": "train"}'):
        path.write_text(f"{valid}{line}\n", "utf-8")
        with pytest.raises(ValueError, match="line 7"):
            records.read(path)


@settings(deadline=None)
@given(st.lists(st.text("a\n<", max_size=9)), st.integers(1, 12))
def test_parts_of_a_text_end_where_documents_end(documents: list[str], size: int) -> None:
    text, separator = SPECIAL.join(documents).encode(), SPECIAL.encode()
    with tempfile.TemporaryDirectory() as directory, patch.object(file_adapters, "PART_BYTES", size):
        Path(directory, "text").write_bytes(text)
        parts = [*file_adapters.text_in_parts(str(Path(directory, "text")), separator)]
    assert b"".join(parts) == text
    assert all(part.endswith(separator) for part in parts[:-1])
    assert len(parts) <= max(1, len(documents))


def test_ids_are_compared_by_value_without_a_separator_at_the_end() -> None:
    narrow, wide = array("H", [5, 6, 7]), [array("I", [5, 6]), array("I", [7, 0])]
    found = file_adapters.digest_of_ids([narrow], {0})
    assert (found["tokens"], file_adapters.digest_of_ids(wide, {0})) == (3, found)
    others = (wide, set()), ([array("H", [6, 5, 7])], {0}), ([narrow], {7})
    assert all(file_adapters.digest_of_ids(*other)["ids_digest"] != found["ids_digest"] for other in others)


def test_no_line_of_the_results_is_unused() -> None:
    measured = records.read(ROOT / "benchmarks" / "results.jsonl")
    assert records.newest(measured) == measured, "run python -m benchmarks render --prune"
    assert {result["kind"] for result in measured} <= {"train", "files", "reference", *kinds.KINDS, "cliff"}


def test_figures_in_the_documentation_match_the_results() -> None:
    measured = records.read(ROOT / "benchmarks" / "results.jsonl")
    shown = set()
    for path in command.PAGES:
        document = path.read_text("utf-8")
        names = render.names_in(document)
        texts = {name: render.TABLES[name](measured) for name in names}
        assert render.replace_between_markers(document, texts) == document, f"{path.name}: python -m benchmarks render"
        shown |= {*names}
    assert shown == {*render.TABLES}


def run_of(size: int, round_: int = 1, **other: Any) -> records.Record:
    """A run with the cost of a known model."""
    pre_tokens, rows = 40 * size**0.6, size / 2**26 * 40 * min(size, 2**26) ** 0.6
    merging = 0.1 + 9 * pre_tokens / 1e8
    stages = {"counting": 0.2 + size / 2e8, "combining": rows / 4e6, "merging": merging, "exporting": 0.2}
    counts = {
        "different_pre_tokens": pre_tokens,
        "pre_token_bytes": 9 * pre_tokens,
        "repeated_bytes": 4 * pre_tokens,
        "stages": stages,
    }
    counts |= {"chunk_rows": rows, "chunk_counter_bytes": 7 * rows, "peak_memory_bytes": 60e6 + 90 * pre_tokens}
    source = {"kind": "growth", "over": "corpus_bytes", "source": "b.txt", "corpus_bytes": size}
    return record(ours.NAME, round_, sum(stages.values()) + 0.1, **counts, **source) | other


RUNS = [run_of(size) for size in (10**7, 10**8, 4 * 10**8, 10**9)]


def test_the_cost_model_recovers_its_parameters_and_predicts_from_smaller_runs_only() -> None:
    model = cost.fit(RUNS)
    assert model.pre_tokens.exponent == pytest.approx(0.6)
    assert model.row_bytes == pytest.approx(7)
    assert model.counting.each == pytest.approx(2 / 2e8)  # of one core; two were busy
    assert model.merging == cost.Line(pytest.approx(0.1), pytest.approx(1e-8))
    assert model.peak_bytes == cost.Line(pytest.approx(60e6), pytest.approx(10))
    wanted = [pytest.approx(run_of(5 * 10**9)[name]) for name in ("wall_s", "peak_memory_bytes")]
    assert [*cost.on_this_machine(model, 5 * 10**9, 2)] == wanted
    slow = run_of(10**9, wall_s=1000.0)
    old = run_of(7, session="2025")
    [predicted] = cost.predict(records.newest([*RUNS[:3], slow, run_of(10**8, 2, status="failed"), old]))
    assert (predicted.corpus_bytes, predicted.seconds) == (10**9, (pytest.approx(RUNS[3]["wall_s"]), 1000.0))
    assert cost.predict(RUNS[1:]) == []
    nodes = cost.Cluster(4, 8, 2**38, 1e9, 0.01)
    counted = cost.plan(model, nodes, 1e12, 2**32).stages[0]
    assert counted.seconds_by["processors"] == pytest.approx(model.counting(1e12) / 32)
    assert cost.plan(model, nodes, 1e12, 2**24).bottleneck == "requests in combining"


_FAMILY = """
import pathlib, subprocess, sys
sleeper = 'import time; block = bytearray(b"x") * 40_000_000; time.sleep({})'
children = [subprocess.Popen([sys.executable, '-S', '-c', sleeper]) for _ in range(2)]
pathlib.Path('pid').write_text(str(children[0].pid))
block = bytearray(b'x') * 20_000_000
sys.exit(sum(child.wait() for child in children))
"""


def test_memory_is_that_of_the_work_and_not_of_the_comparison_afterwards(tmp_path: Path) -> None:
    work = "import pathlib, time; kept = bytearray(b'x') * {}; time.sleep(0.8); "
    program = f"{work.format(30_000_000)} pathlib.Path('done').touch(); {work.format(90_000_000)}"
    argv = [sys.executable, "-S", "-c", program]
    how = {"directory": tmp_path, "environment": None, "timeout_s": 30.0}
    assert 30e6 < process.measure(argv, **how, until=tmp_path / "done").peak_memory_bytes < 60e6
    assert process.measure(argv, **how).peak_memory_bytes > 90e6


@pytest.mark.slow
def test_memory_of_the_whole_tree_is_seen_and_a_timeout_ends_all_of_it(tmp_path: Path) -> None:
    """A parent of 20 MB and two children of 40 MB, alive together, hold a little over 100 MB."""

    def measure(program: str, timeout_s: float = 30.0, most_bytes: float = 1e9) -> process.Measurement:
        argv = [sys.executable, "-S", "-c", program]
        stop = {"timeout_s": timeout_s, "most_bytes": most_bytes}
        return process.measure(argv, directory=tmp_path, environment=None, **stop)

    measured = measure(_FAMILY.format(3.0))
    assert (measured.status, measured.most_processes) == ("ok", 3), measured.stderr
    assert 100e6 < measured.peak_memory_bytes < 150e6
    assert 0 < measured.user_s + measured.system_s < 30
    if process.HAS_PSS:
        assert 100e6 < measured.peak_anonymous_bytes <= measured.peak_memory_bytes
    assert measure(_FAMILY.format(60.0), timeout_s=1.0).status == "timeout"
    state = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    deadline = time.monotonic() + 10  # its new parent may need a moment to collect it
    while Path("/proc").is_dir() and state.exists() and state.read_text().split(")")[1].split()[0] != "Z":
        assert time.monotonic() < deadline, "the child still runs"
        time.sleep(0.05)
    task = run.Task("train", "x", corpora.Corpus(tmp_path, "a.txt", 1, "00"), "gpt2", 300)
    for program, why in (("import sys; sys.exit('no')", "exit code 1: no"), (_FAMILY.format(60.0), "killed at 50 MB")):
        assert run.record_of(SESSION, task, measure(program, most_bytes=50e6))["reason"] == why


@pytest.fixture(scope="module")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 KB of made-up text in ten documents."""
    path = tmp_path_factory.mktemp("corpus") / "small.txt"
    path.write_text("".join(f"{generated_text(seed, 500)}\n{SPECIAL}\n" for seed in range(10)), "utf-8")
    return path


def run_once(words: list[object], results: Path) -> list[records.Record]:
    """Measure one round and return its records."""
    assert command.main([*map(str, words), "--results", str(results), "--rounds", "1"]) == 0
    return [one for one in records.read(results) if one["kind"] != "reference"]


def test_a_step_that_was_stopped_or_took_minutes_is_not_repeated() -> None:
    ended = (("slow", 301.0, "ok"), ("stopped", 1.0, "timeout"), ("quick", 1.0, "ok"))
    steps = [(name, partial(record, name, 0, wall_s, status=status)) for name, wall_s, status in ended]
    done = run.rounds(replace(SESSION, rounds=3), steps)
    assert [one["tool"] for one in done] == ["slow", "stopped", "quick", "quick", "quick"]


@pytest.mark.slow
def test_trainers_learn_alike_and_their_table_says_so(
    tmp_path: Path, small_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the other measurements: of growth, of cliffs, under limits, of the start."""
    results, document = tmp_path / "results.jsonl", tmp_path / "README.md"
    found = run_once(["compare", small_corpus, "--vocab-size", "400"], results)
    assert f"| {ours.NAME}" in capsys.readouterr().out
    assert {one["tool"] for one in found if run.version(one["tool"]) is not None} >= {ours.NAME, "tokenizers"}
    alike = {ours.NAME, "tokenizers", "gigatoken", "ffbpe"}  # rustbpe orders bytes by value
    learned = {one["tool"]: one["tokens_digest"] for one in found if one["status"] == "ok"}
    assert len({digest for tool, digest in learned.items() if tool in alike}) == 1
    refused = run.train(SESSION, "gigatoken", corpora.open_corpus(small_corpus), "llama3", 300)
    assert (refused["status"], "gpt2" in refused["reason"]) == ("unsupported", True)
    run_once(["growth", small_corpus, "--sizes", "8kB,16kB", "--vocab-sizes", "300"], results)
    run_once(["memory", small_corpus, "--limits", "1GiB,1MiB", "--vocab-size", "300"], results)
    measured = run_once(["cliffs", small_corpus, "--sizes", "4kB,8kB"], results)
    assert {one["kind"] for one in measured} == {"train", "growth", "memory", "cliff"}
    assert [one["status"] for one in measured if one["kind"] == "memory"] == ["ok", "refused"]
    document.write_text(f"before\n{render.BEGIN}\nold\n{render.END}\nafter\n", "utf-8")
    if importlib.util.find_spec("vl_convert") is not None:
        arguments = ["render", "--results", str(results), "--into", str(document), "--plots", str(tmp_path / "plots")]
        assert command.main([*arguments, "--prune"]) == 0
        text = document.read_text("utf-8")
        assert (text.startswith("before\n"), text.endswith("after\n"), "old\n" in text) == (True, True, False)
    measured = run_once(["startup"], results)
    shown = ["slope", "| 1,024 MiB |", "a worker answers", *kinds.SHAPES]
    assert [part for part in shown if part not in render.markdown(records.newest(measured))] == []
    started = {one["command"]: one["wall_s"] for one in measured if one["kind"] == "startup"}
    assert started["python alone"] < started["bpe-pipeline train, 1 MB"]
    document.write_text(render.END, "utf-8")
    with pytest.raises(ValueError, match=r"README\.md"):
        render.write_document(document, {"": "text"})


@pytest.mark.slow
def test_encoders_return_the_same_ids(tmp_path: Path, small_corpus: Path) -> None:
    sizes = ["--files", "--cold", "--sizes", "12kB"]
    for files, shown in ([], "| 400 | tiktoken"), (sizes, "| small.txt, cold | 400 |"):
        results = tmp_path / f"results-{len(files)}.jsonl"
        measured = run_once(["encode", small_corpus, *files, "--vocab-size", "400"], results)
        assert len({(r["corpus"], r["ids_digest"]) for r in measured}) == len({r["corpus"] for r in measured})
        assert not files or {(r["memory_of"], r["tokens"] > 0) for r in measured} == {("encoding", True)}
        text = render.markdown(measured)
        whole = [one for one in measured if one["corpus"] == "small.txt"]
        assert (shown in text, text.count("| same |")) == (True, len(whole))


def test_bad_arguments_are_errors_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("compare", __file__, "--tools", "no_tool"), ("growth", __file__, "--sizes", "1XB")
    for arguments in (("compare", "does/not/exist"), *wrong):
        with pytest.raises(SystemExit, match="2"):
            command.main(arguments)
        said = capsys.readouterr().err
        assert (len(said.splitlines()), arguments[-1] in said) == (1, True)
