"""Break the core on purpose, rule by rule, and check that a test fails: `python tests/support/mutations.py [NAME ...]`.

Each mutation in `mutations.txt` is one edit of the source. The tool applies it to a copy of the tree, rebuilds the core
there and runs the tests of the rule. A mutation is killed if one of them fails; it survives if all pass, and then a
test is missing. Without names it tries all. `--in DIRECTORY` keeps the copy and its build, so that the next run
compiles only what changed. Needs what the tests need, a C++ compiler and CMake; `project/test_tools.py` checks that
every edit still matches the source.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[2]
PATIENCE_S = 300  # a core that never returns is noticed, too
_ENTRY = re.compile(r"((?:= .+\n)*)# (\S+): (.+)\n((?:- .+\n)+)((?:\+.*\n)+)")


@dataclass(frozen=True)
class Mutation:
    """In `file`, below `pipeline`, the text `right` becomes `wrong`; `tests` check the rule."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


def read_mutations() -> list[Mutation]:
    table = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").partition("\n\n")[2]
    assert not _ENTRY.sub("", table).strip(), "a line of the table cannot be read"
    mutations, tests = [], ()
    for checked, file, name, *edit in _ENTRY.findall(table):
        tests = tuple(test[2:] for test in checked.splitlines()) or tests
        right, wrong = ("\n".join(line[2:] for line in side.splitlines()) for side in edit)
        mutations.append(Mutation(name, file, right, wrong, tests))
    return mutations


def _output_of(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


class _Copy:
    """A copy of the tree with its own build, and a Python that imports from it first."""

    def __init__(self, directory: Path) -> None:
        self.tree, self._build, environment = directory / "tree", directory / "build", directory / "environment"
        venv.create(environment, symlinks=True)
        self._python = environment / "bin" / "python"
        [packages] = environment.glob("lib/python*/site-packages")
        others = [path for path in sys.path if path and Path(path) not in (HOME, HOME / "tests" / "support")]
        (packages / "mutations.pth").write_text("\n".join([str(self.tree / "pipeline"), *others]) + "\n")
        for folder in ("pipeline", "tests"):
            for file in (HOME / folder).rglob("*"):
                if file.is_file() and file.suffix in (".py", ".json", ".cpp", ".hpp", ".txt", ".c", ".pyi"):
                    self.write(file.relative_to(HOME), file.read_bytes())
        for name in ("CMakeLists.txt", "pyproject.toml"):
            self.write(Path(name), (HOME / name).read_bytes())
        configure = ["cmake", "-S", self.tree, "-B", self._build, "-DCMAKE_BUILD_TYPE=Release"]
        subprocess.run([*configure, f"-DPython_EXECUTABLE={self._python}"], check=True, stdout=subprocess.DEVNULL)

    def write(self, name: Path, content: bytes) -> None:
        """Write a file unless it is the same already: an unchanged file is not compiled again."""
        path = self.tree / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def build(self) -> None:
        jobs = str(len(os.sched_getaffinity(0)))
        build = _output_of("cmake", "--build", self._build, "-j", jobs)
        if build.returncode != 0:
            raise SystemExit(f"{build.stdout}{build.stderr}the core cannot be built")
        [core] = self._build.glob("_core.*.so")
        for built in (core, self._build / "_core.sha256"):
            self.write(Path("pipeline", "bpe_pipeline", built.name), built.read_bytes())

    def first_failure(self, tests: tuple[str, ...]) -> str | None:
        """Return the first test that fails or the other way in which the tests ended; None if all pass."""
        where = "import sys, bpe_pipeline; sys.exit(bpe_pipeline.__file__)"
        home = _output_of(self._python, "-P", "-c", where).stderr
        assert home.startswith(str(self.tree)), f"the tests would not use the copy, but {home}"
        words = ["-n0", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-o", "filterwarnings="]
        named = [f"tests/{test}" for test in dict.fromkeys(tests)]
        try:
            done = _output_of(self._python, "-P", "-m", "pytest", *words, *named, cwd=self.tree, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return f"no end within {PATIENCE_S} s"
        if done.returncode == 0:
            return None
        if done.returncode < 0:
            return f"the end of the process by signal {-done.returncode}"
        failed = re.search(r"^(?:FAILED|ERROR) tests/(\S+)", done.stdout, re.MULTILINE)
        if done.returncode != 1 or failed is None:
            raise SystemExit(f"{done.stdout}{done.stderr}the tests cannot be run")
        return failed[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="Break the core on purpose and see that a test notices.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutation, or the start of its name")
    parser.add_argument("--in", dest="directory", type=Path, metavar="DIRECTORY", help="keeps the copy and its build")
    arguments = parser.parse_args()
    names = tuple(arguments.names)
    chosen = [mutation for mutation in read_mutations() if not names or mutation.name.startswith(names)]
    survived = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = _Copy(arguments.directory.resolve() if arguments.directory else Path(scratch))
        copy.build()
        failed = copy.first_failure(tuple(test for mutation in chosen for test in mutation.tests))
        if failed is not None:
            raise SystemExit(f"{failed} fails without any mutation")
        for mutation in chosen:
            started = time.monotonic()
            name = Path("pipeline", mutation.file)
            right = (HOME / name).read_text()
            if right.count(mutation.right) != 1:
                raise SystemExit(
                    f"{mutation.name}: its text is in {name} {right.count(mutation.right)} times, not once"
                )
            copy.write(name, right.replace(mutation.right, mutation.wrong).encode())
            copy.build()
            failed = copy.first_failure(mutation.tests)
            copy.write(name, right.encode())
            survived += failed is None
            verdict = "SURVIVED" if failed is None else f"killed by {failed}"
            print(f"{mutation.name}: {verdict} ({time.monotonic() - started:.0f} s)", flush=True)  # noqa: T201
    print(f"{len(chosen)} mutations, {survived} survived")  # noqa: T201
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
