"""`doctor --gates`: each gate is compared with the number of the report, in the direction that the number has."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.extensions.inspect.gates import RELEASE, Gate, read_gates
from bpe_pipeline.reports.definitions import NUMBERS


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "unseen.txt"
    path.write_text("the lowest of the newest words, 12 34 12\n" * 30)
    return path


def gates_file(home: Path, gates: Any) -> Path:
    (home / "gates.json").write_text(json.dumps(gates))
    return home / "gates.json"


def test_gates_are_the_numbers_of_the_report_and_decide_the_exit_code(
    trained: Path, unseen: Path, tmp_path: Path
) -> None:
    whole = (
        bpe_pipeline.report(trained, held_out=unseen, output=tmp_path / "page.html").numbers.sample.tokenizers[0].whole
    )
    directed = {name: value for name, value in whole.numbers.items() if NUMBERS[name].better}
    assert {1, -1} == {NUMBERS[name].better for name in directed}
    file = gates_file(tmp_path, directed)
    document = json.loads(succeeded(run("doctor", trained, "--sample", unseen, "--gates", file, "--json")).stdout)
    assert {one["number"]: one["value"] for one in document["gates"]} == pytest.approx(directed)
    stricter = {name: value + NUMBERS[name].better * 1e-6 for name, value in directed.items()}
    failed = run("doctor", trained, "--sample", unseen, "--gates", gates_file(tmp_path, stricter))
    assert failed.returncode == 1
    table = failed.stdout.partition("\nGates\n")[2]
    assert (table.count("FAILED"), table.count("passed")) == (16, 0)  # the text shows 16 rows
    found = bpe_pipeline.doctor(trained, unseen, gates=gates_file(tmp_path, stricter))
    assert [one.number for one in found.gates if one.passed] == []
    assert found.to_json()["wrong"] == len(stricter)


def test_gates_of_languages_name_the_worst_one(trained: Path, tmp_path: Path) -> None:
    texts = {"en": "the low lower\n" * 9, "sw": "lower lower zyx привет\n" * 9}
    for name, lines in texts.items():
        (tmp_path / name).write_text(lines)
    samples = [f"{name}={tmp_path / name}" for name in texts]
    encode = bpe_pipeline.load(trained).encode_ordinary
    tokens = {name: len(encode(lines.splitlines()[0])) for name, lines in texts.items()}
    gates = {"worst": 1.5, "gini": 0.1, "languages": {"every": {"fertility": 2}, "en": {"fertility": 2, "split": 0}}}
    found = bpe_pipeline.doctor(trained, samples, gates=gates_file(tmp_path, gates)).gates
    values = {(one.number, one.of): one.value for one in found}
    one, other = sorted(tokens.values())
    assert values == pytest.approx(
        {
            ("worst", ""): tokens["sw"] / tokens["en"],
            ("gini", ""): (other - one) / (2 * (one + other)),
            ("fertility", "sw"): tokens["sw"] / 4,
            ("fertility", "en"): tokens["en"] / 3,
            ("split", "en"): None,  # no character of several bytes
        },
        nan_ok=True,
    )
    assert {(one.number, one.of) for one in found if not one.passed} >= {("fertility", "sw"), ("split", "en")}


def test_a_gate_of_the_length_against_another_tokenizer(trained: Path, unseen: Path, tmp_path: Path) -> None:
    other = bpe_pipeline.train(unseen, output=tmp_path / "other", vocab_size=300)
    tokens = [len(each.encode_ordinary(unseen.read_text())) for each in (bpe_pipeline.load(trained), other)]
    file = gates_file(tmp_path, {"nsl": 1})
    [gate] = bpe_pipeline.doctor(trained, unseen, gates=file, compare=tmp_path / "other").gates
    assert (gate.value, gate.passed) == (pytest.approx(tokens[0] / tokens[1]), tokens[0] <= tokens[1])
    alone = run("doctor", trained, "--sample", unseen, "--gates", file)
    assert alone.returncode == 1
    assert alone.stdout.partition("result\n")[2].split()[:5] == ["nsl", "–", "not", "measured", "at"]
    assert "--compare TOKENIZER for nsl" in alone.stdout


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ({"fertilty": 2}, "'fertilty' is no number: give one of "),
        ({"bytes": 2}, "'bytes' is no number: give one of "),
        ({"languages": {"sw": {"gini": 1}}}, "'gini' is no number of the language sw: give one of "),
        ({"languages": {"sw": 2}}, "languages holds numbers by language"),
        ({"languages": 2}, "languages holds numbers by language"),
        ({"fertility": "low"}, "fertility is 'low': give a number, the worst that passes"),
        ({"fertility": True}, "fertility is True: give a number, the worst that passes"),
        ({"fertility": float("nan")}, "fertility is nan: give a number, the worst that passes"),
        ({"languages": {"every": {}}}, "no number in it; give one with the worst value, such as 'fertility: 1.5'"),
    ],
)
def test_gates_of_no_number_are_refused(trained: Path, tmp_path: Path, gates: Any, said: str) -> None:
    assert said in refused(run("doctor", trained, "--gates", gates_file(tmp_path, gates)), 2)


def test_the_set_for_a_release_names_numbers_of_any_text() -> None:
    gates = read_gates(Path(RELEASE))
    assert len(gates) >= 6
    assert {gate.of for gate in gates} == {""}
    assert not {gate.number for gate in gates} & {"gini", "worst", "nsl", "names_whole"}


def test_without_text_the_vocabulary_alone_is_measured(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "tokenizer", tmp_path / "copied")
    found = bpe_pipeline.doctor(tmp_path / "copied", gates=gates_file(tmp_path, {"lost": 0, "long_tokens": 0})).gates
    assert [(one.number, one.value, one.passed) for one in found] == [("lost", None, False), ("long_tokens", 0, True)]


def test_a_gate_passes_at_its_own_value() -> None:
    assert [Gate("fertility", "", 2).passes(value) for value in (2, 1.5, 2.5, None)] == [True, True, False, False]
    assert [Gate("round_trip", "", 1).passes(value) for value in (1, 0.9, None)] == [True, False, False]
