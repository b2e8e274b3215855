"""What commands show on terminals of several widths: words are whole, and no line is longer than the terminal."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import every_command
import pytest
import tasks_here
from command import run
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from terminal import output_on_a_terminal

from bpe_pipeline.base.printable import UNBOUNDED, wrapped
from bpe_pipeline.cli import all_commands
from bpe_pipeline.reports.parts import Table, as_text
from bpe_pipeline.reports.result import Result

WIDTHS = (60, 80, 100, 120)
AS_IT_IS = ("decode",)  # prints text and ids, which no one breaks


def too_long(text: str, columns: int) -> list[str]:
    """The lines that the terminal would cut, but for single words that are too long for it."""
    return [
        line for line in text.splitlines() if cell_len(line) > columns and len(line.removesuffix(" \\").split()) > 1
    ]


@pytest.fixture(scope="module")
def shown(text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], list[str]]:
    """What each command shows at each width, asked of its result, so in this process."""
    home, found, results = tmp_path_factory.mktemp("shown"), dict[tuple[str, int], list[str]](), list[Result]()

    def printed(result: Result, *, quiet: bool) -> Iterator[str]:
        del quiet
        results.append(result)
        return iter(())

    with tasks_here.activated(), patch.object(Result, "printed", printed):
        for line in every_command.lines(home, text.read_text()):
            name, *words = line.replace(" --log-json", "").split()
            if name in AS_IT_IS:
                continue
            assert run(name, *words, cwd=home).returncode == int(name == "diff")
            for columns in WIDTHS:
                found.setdefault((name, columns), []).extend(result.text(columns) for result in results)
            results.clear()
    return found


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", [name for name in all_commands() if name not in AS_IT_IS])
def test_result_of_a_command_fits_the_terminal(
    name: str, columns: int, shown: dict[tuple[str, int], list[str]]
) -> None:
    assert shown[name, columns] != []
    assert [line for text in shown[name, columns] for line in too_long(text, columns)] == []


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", all_commands())
def test_help_of_a_command_fits_the_terminal(name: str, columns: int) -> None:
    help_text = run(name, "--help-all", env={"COLUMNS": str(columns)}).stdout
    assert too_long(help_text, columns) == []
    flags = {flag for command in all_commands().values() for one in command.params for flag in one.opts}
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*-?", help_text)) <= flags  # no name is broken at a hyphen
    examples = (all_commands()[name].help or "").partition("\n\b\n")[2].splitlines()
    assert [line for line in examples if line not in help_text.replace(" \\\n    ", " ")] == []


@pytest.mark.parametrize(("variables", "red"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_errors_are_red_where_there_are_colours_and_wrapped(
    variables: dict[str, str], red: bool, tmp_path: Path
) -> None:
    words = ["train", "nowhere.txt", "--output", "run"]
    piped = run(*words, cwd=tmp_path).stderr
    seen = output_on_a_terminal(words, tmp_path, code=1, COLUMNS="60", **variables).decode()
    assert ("\x1b[1;31merror:\x1b[m" in seen) == red
    plain = re.sub(r"\x1b\[[\d;]*m", "", seen)
    assert too_long(plain, 60) == []
    assert (plain.split(), piped.count("\n")) == (piped.split(), 1)


@given(st.text("ab -'語가", max_size=80), st.integers(10, 40), st.integers(0, 8))
@settings(deadline=None)
def test_wrapping_keeps_words_and_their_order(text: str, columns: int, hang: int) -> None:
    lines = wrapped(text, columns, hang)
    assert lines.split() == text.split()
    assert too_long(lines, columns) == []
    assert wrapped(text, UNBOUNDED, hang) == text


@pytest.mark.parametrize("columns", [20, 30, 40])
def test_a_command_that_is_wrapped_means_the_same_to_a_shell(columns: int) -> None:
    line = "printf %s, --tokenizer 'runs/my run' --text 'Hello  big world'"
    broken = wrapped(line, columns, 4, command=True)
    assert " \\\n" in broken
    first, second = (subprocess.check_output(["sh", "-c", text]) for text in (line, broken))
    assert first == second


def test_a_table_leaves_out_columns_that_do_not_fit_but_not_the_recommended_one_and_says_which() -> None:
    rows = ((f"{'long/' * 9}name", 1, 2, 3), ("b", 4, 5, 6))
    table = Table("Sizes", ("run", "tokens", "a column that is long", "picked"), rows, picked=(1, 3))
    text = as_text([table], 60)
    assert too_long(text, 60) == []
    assert re.search(r"^  run +tokens  picked$", text, re.MULTILINE) is not None
    assert "*6" in text
    assert "…" in text
    assert "too wide for 60 columns: a column that is long; see report.json" in " ".join(text.split())
    assert "too wide" not in as_text([table])
