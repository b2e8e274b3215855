"""An extension in a package of its own, `tests/support/foreign_extension`: installing it with pip is all that it takes.

It is the example for authors, too. An extension that cannot be imported stops nothing but what it brings.
"""

import json
import os
import shutil
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
    """Where the extension is installed, with a run, and a directory of its kind."""
    home = Home(tmp_path_factory.mktemp("foreign"))
    pip = [sys.executable, "-m", "pip", "install", *OFFLINE, "--target", home.path / "site", EXTENSION]
    subprocess.run(pip, check=True, cwd=home.path)
    home.train()
    home.printed("lengths", "run", "lengths")
    return home


def test_command_is_in_the_help_and_completed(home: Home) -> None:
    assert "Lengths of tokens:\n  lengths  Count the tokens of TOKENIZER" in home.printed("--help")
    words = {"_BPE_PIPELINE_COMPLETE": "bash_complete", "COMP_WORDS": "bpe-pipeline leng", "COMP_CWORD": "1"}
    source = "import os, sys; sys.argv = ['bpe-pipeline']; from bpe_pipeline.__main__ import main; main()"
    assert home.python(f"import os; os.environ.update({words})\n{source}") == "plain,lengths"


def test_command_prints_json_and_refuses_values_by_its_records(home: Home) -> None:
    printed = json.loads(home.printed("lengths", "run", "of-two", "--most", "2", "--json"))
    assert printed == {"tokenizer": "run", "most": 2, "lengths": {"1": 256, "2": 4}}
    assert "--most: expected a whole number" in refused(home.run("lengths", "run", "x", "--most", "few"), 2)


def test_function_is_a_public_name(home: Home) -> None:
    call = "print('lengths' in dir(bpe_pipeline), bpe_pipeline.lengths('run', 'in-python', most=1)['lengths'])"
    assert home.python(call) == "True {'1': 256}"


def test_directory_is_described_verified_and_reported(home: Home) -> None:
    shown = home.python("for name in ('info', 'verify', 'report'): print(getattr(bpe_pipeline, name)('lengths'))")
    assert shown.startswith("lengths of  run\nlongest     7\nlengths  those of run\n1  256\n2  4\n")
    (home.path / "changed").mkdir()
    text = (home.path / "lengths" / "lengths.json").read_text()
    (home.path / "changed" / "lengths.json").write_text(text.replace("256", "255"))
    assert "make it again" in refused(home.run("verify", "changed"), 1)


def test_section_is_in_the_report(home: Home) -> None:
    text = (home.path / "run" / "report.txt").read_text()
    assert "length           7 bytes at most" in text
    assert "Lengths\n  bytes  tokens\n  1         256\n" in text
    [section] = json.loads((home.path / "run" / "report.json").read_text())["sections"]
    assert section["numbers"]["lengths"][:2] == [[1, 256], [2, 4]]


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
    unknown = home.run("lengths", "run")
    assert "No such command 'lengths'" in refused(unknown, 2)
    assert f"bpe-pipeline: warning: {line}" in unknown.stderr
    assert unknown.stderr.count("update or uninstall old-extension\n") == 1


def test_extension_whose_members_cannot_be_imported_is_named(tmp_path: Path) -> None:
    home, line = (
        _broken(tmp_path, "broken:EXTENSION", LAZY),
        "the extension old = broken:EXTENSION of old-extension cannot be used",
    )
    helped = succeeded(home.run("--help"))
    assert line in helped.stderr
    assert "encode-chat" in helped.stdout  # of another extension
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


def test_training_warns_of_a_extension_that_may_add_to_its_report(home: Home, tmp_path: Path) -> None:
    shutil.copytree(home.path / "run", tmp_path / "run")
    broken = _broken(tmp_path, "broken:EXTENSION", LAZY)
    merged = succeeded(broken.run("merge", "run", "--vocab-size", "265", "--quiet"))
    assert (
        "warning: the report may lack a section: the extension old = broken:EXTENSION of old-extension" in merged.stderr
    )


def test_directory_of_a_extension_that_cannot_be_imported_is_refused_with_its_name(tmp_path: Path) -> None:
    home = _broken(tmp_path, "nothing_there:EXTENSION", "")
    done = home.run("verify", ".")
    assert "holds no run" in refused(done, 3)
    assert "warning: the extension old = nothing_there:EXTENSION of old-extension" in done.stderr
