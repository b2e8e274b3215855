"""An extension in a package of its own, `tests/support/foreign_extension`: installing it with pip is all that it takes.

It is the example for authors, too. An extension that cannot be imported stops nothing but what it brings.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import refused, run_process, succeeded

EXTENSION = Path(__file__).parents[1] / "support" / "foreign_extension"
OFFLINE = ("--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--quiet")


@dataclass(frozen=True)
class Home:
    """A directory where commands run, with packages in `site`."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.path / "site")}

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_process(*words, cwd=self.path, env=self.environment | environment)

    def printed(self, *words: str) -> str:
        return succeeded(self.run(*words)).stdout

    def python(self, source: str) -> str:
        command = [sys.executable, "-P", "-W", "error", "-c", f"import bpe_pipeline\n{source}"]
        environment = os.environ | self.environment
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.path, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def train(self) -> None:
        (self.path / "corpus.txt").write_text("low lower lowest newest widest " * 50)
        self.printed("train", "corpus.txt", "--output", "run", "--vocab-size", "270", "--quiet")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Where the extension is installed, with a run of its chooser, and a directory of its kind."""
    home = Home(tmp_path_factory.mktemp("foreign"))
    pip = [sys.executable, "-m", "pip", "install", *OFFLINE, "--target", home.path / "site", EXTENSION]
    subprocess.run(pip, check=True, cwd=home.path)
    home.train()
    home.printed("merge-short", "run", "--longest", "3", "--output", "short", "--vocab-size", "266", "--quiet")
    home.printed("lengths", "short", "lengths")
    return home


def test_commands_are_in_the_help(home: Home) -> None:
    assert "Lengths of tokens:\n  lengths      Count the tokens of TOKENIZER" in home.printed("--help")
    assert "--most BYTES" in home.printed("lengths", "--help")


def test_commands_are_completed(home: Home) -> None:
    words = {"_BPE_PIPELINE_COMPLETE": "bash_complete", "COMP_WORDS": "bpe-pipeline merge-", "COMP_CWORD": "1"}
    source = "import os, sys; sys.argv = ['bpe-pipeline']; from bpe_pipeline.__main__ import main; main()"
    source = f"import os; os.environ.update({words})\n{source}"
    assert home.python(source) == "plain,merge-short"


def test_command_prints_json(home: Home) -> None:
    printed = json.loads(home.printed("lengths", "short", "of-two", "--most", "2", "--json"))
    assert printed == {"tokenizer": "short", "most": 2, "lengths": {"1": 256, "2": 5}}


def test_command_refuses_values_by_its_records(home: Home) -> None:
    assert "--most: expected a whole number" in refused(home.run("lengths", "short", "x", "--most", "few"), 2)


def test_functions_are_public_names(home: Home) -> None:
    assert home.python("print({'lengths', 'merge_short'} <= {*dir(bpe_pipeline)})") == "True"
    assert home.python("print(bpe_pipeline.lengths('short', 'in-python', most=1)['lengths'])") == "{'1': 256}"
    assert (
        home.python("print(len(bpe_pipeline.merge_short('run', longest=3, vocab_size=266, output='short').merges))")
        == "9"
    )


def test_directory_is_described_verified_and_reported(home: Home) -> None:
    assert home.printed("info", "lengths") == "lengths of  short\nlongest     3\n"
    assert home.printed("verify", "lengths") == "lengths  those of short\n"
    assert home.printed("report", "lengths") == "1  256\n2  5\n3  4\n"


def test_directory_that_was_changed_is_found(home: Home) -> None:
    (home.path / "changed").mkdir()
    text = (home.path / "lengths" / "lengths.json").read_text()
    (home.path / "changed" / "lengths.json").write_text(text.replace("256", "255"))
    assert "make it again" in refused(home.run("verify", "changed"), 1)


def test_merges_of_the_chooser_are_described_and_verified(home: Home) -> None:
    assert "longest token  3\n" in home.printed("info", "short")
    assert "merges     9; the checksum is right" in home.printed("verify", "short")


def test_section_is_in_the_report(home: Home) -> None:
    text = (home.path / "short" / "report.txt").read_text()
    assert "length           3 bytes at most" in text
    assert "Lengths\n  bytes  tokens\n  1         256\n" in text
    [section] = json.loads((home.path / "short" / "report.json").read_text())["sections"]
    assert dict(section["numbers"]["lengths"]) == {1: 256, 2: 5, 3: 4}


def test_run_needs_the_package_of_its_chooser(home: Home) -> None:
    line = refused(home.run("verify", "short", PYTHONPATH=""), 1)
    assert "short/run.json: the merges are chosen by 'lengths', which no installed package brings: install the" in line


PROBLEMS = {  # an entry point, the module `broken`, and the reason
    "missing": ("nothing_there:EXTENSION", "", "ModuleNotFoundError: No module named 'nothing_there'"),
    "names-nothing": ("broken:EXTENSIONS", "", "AttributeError: module 'broken' has no attribute 'EXTENSIONS'"),
    "of-another-version": (
        "broken:EXTENSION",
        "from bpe_pipeline.run.extensions import Visitor",
        "ImportError: cannot import name",
    ),
    "no-extension": (
        "broken:EXTENSION",
        "EXTENSION = 1",
        "TypeError: it is int, and no bpe_pipeline.run.extensions.Extension",
    ),
}
LAZY = """
from bpe_pipeline.run.extensions import Extension

def fail(*_):
    import nothing_there

EXTENSION = Extension(commands=fail, report_section=fail, functions={"lengths": fail})
"""


def _broken(path: Path, value: str, source: str) -> Home:
    """Install an extension that cannot be imported."""
    metadata = path / "site" / "old_extension-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: old-extension\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[bpe_pipeline.extensions]\nold = {value}\n")
    (path / "site" / "broken.py").write_text(source)
    return Home(path)


@pytest.mark.parametrize(("value", "source", "reason"), PROBLEMS.values(), ids=PROBLEMS)
def test_extension_that_cannot_be_imported_is_named_with_its_package(
    tmp_path: Path, value: str, source: str, reason: str
) -> None:
    home, line = (
        _broken(tmp_path, value, source),
        f"the extension old = {value} of old-extension cannot be used ({reason}",
    )
    helped = succeeded(home.run("--help"))
    assert f"warning: {line}" in helped.stderr
    assert helped.stderr.endswith("): update or uninstall old-extension\n")
    assert "encode-chat" in helped.stdout  # of another extension
    unknown = home.run("lengths", "run")
    assert "No such command 'lengths'" in refused(unknown, 2)
    assert f"bpe-pipeline: warning: {line}" in unknown.stderr
    assert line in home.python("try: bpe_pipeline.lengths\nexcept AttributeError as error: print(error)")


def test_extension_whose_members_cannot_be_imported_is_named(tmp_path: Path) -> None:
    home, line = (
        _broken(tmp_path, "broken:EXTENSION", LAZY),
        "the extension old = broken:EXTENSION of old-extension cannot be used",
    )
    assert line in succeeded(home.run("--help")).stderr
    assert line in home.python("try: bpe_pipeline.lengths\nexcept bpe_pipeline.PipelineError as error: print(error)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "source"), [("nothing_there:EXTENSION", ""), ("broken:EXTENSION", LAZY)], ids=["all", "lazy"]
)
def test_extension_that_cannot_be_imported_stops_no_other_command(tmp_path: Path, value: str, source: str) -> None:
    home = _broken(tmp_path, value, source)
    home.train()
    home.printed("verify", "run")
    home.printed("info", "run")
    home.printed("encode", "corpus.txt", "--tokenizer", "run", "--output", "shards", "--quiet")
    home.printed("diff", "run", "run")  # of another extension


def test_training_warns_of_a_extension_that_may_add_to_its_report(tmp_path: Path) -> None:
    home = _broken(tmp_path, "broken:EXTENSION", LAZY)
    home.train()
    merged = succeeded(home.run("merge", "run", "--vocab-size", "265", "--quiet"))
    assert (
        "warning: the report may lack a section: the extension old = broken:EXTENSION of old-extension" in merged.stderr
    )


def test_directory_of_a_extension_that_cannot_be_imported_is_refused_with_its_name(tmp_path: Path) -> None:
    home = _broken(tmp_path, "nothing_there:EXTENSION", "")
    done = home.run("verify", ".")
    assert "holds no run" in refused(done, 3)
    assert "warning: the extension old = nothing_there:EXTENSION of old-extension" in done.stderr
