"""Run what the documentation shows: commands, Python, and files that a page defines.

Every page starts in a directory with `corpus/` and `unseen.txt`, made by `docs/corpus.py`. Blocks run from top to
bottom:

    ```console              `$ command`, followed by its output; a backslash continues it on the next line
    ```pycon                `>>> expression`, in one interpreter for the page
    ```python               run in the same interpreter; prints nothing
    ```yaml title="a.yaml"  (or any other language) becomes that file
    ```text                 shown, not run
    ```sh                   not run, for the reason in the comment before it: <!-- not run: ... -->;
                            its bpe-pipeline commands must parse

Blocks in a comment that starts with `<!-- setup` are run, too, and not shown: what only the tests need.

A comment `<!-- needs: ray duckdb -->` names packages without which the page is skipped, and `<!-- from here: torch -->`
those without which its rest is. All outputs are compared,
except for times, amounts of memory and versions. Lines of progress, which a terminal shows as bars, are left out. After
`<!-- recorded: ... -->`, what a command printed for a large corpus is shown: only the labels of its lines are compared.

    python tests/support/pages.py PAGE ...      write the current output of each command into the pages
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import object_store
from command import run

HOME = Path(__file__).parents[2]
PAGES = HOME / "docs" / "pages"
README = HOME / "README.md"
REPOSITORY = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
REFERENCE = re.compile(
    r"^<!-- (reference|options) of .*?(?:^<!-- end of \1 -->$|\Z)", re.MULTILINE | re.DOTALL
)  # what docs/hooks.py writes
_NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n\Z")
_RECORDED = re.compile(r"<!-- recorded: [^>]+ -->\n\Z")
_NEEDS = re.compile(r"<!-- needs: ([^>]+) -->")
_FROM_HERE = re.compile(r"<!-- from here: ([^>]+) -->")
_QUOTED = re.compile(r"'[^']*'|\\\n")  # what a shell takes as it is, and a line that is continued
_FOR_A_SHELL = re.compile(r"""[|&;<>`*?~#!{}\[\n]|\$""")
_PROGRESS = re.compile(
    r"^(?:(?:counting|combining|merging)(?: superwords)?|encoding(?: pre-tokens)?|ordering documents|writing shards|"
    r"reading|importing|joining|pruning|measuring): |checking \S+ \S+ \.\.\.$"
)
_MASKS = (
    (re.compile(r"(?<=peak memory)(.*)$", re.MULTILINE), " #"),
    (re.compile(r"(?<=memory )[\d.,]+ [KMG]?i?B"), "#"),
    (re.compile(r"\b\d[\d.,]* (?:s|ms|min)\b"), "# s"),
    (re.compile(r"(?<=merging takes at least )[\d.]+ MiB|(?<=give --memory-limit )\d+MiB"), "#"),
    (re.compile(r"(?<=worker has )[\d.]+ MiB"), "#"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "#.#.#"),
    (re.compile(r'"(time|elapsed_s)": [\d.]+'), r'"\1": #'),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and where its content starts and stops."""

    language: str
    title: str | None
    text: str
    start: int
    stop: int
    reason: bool  # a comment before it says why it is not run
    recorded: bool  # a comment before it says that its output is that of a large corpus


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order, but for those of docstrings and help, which other tests run."""
    hidden = REFERENCE.sub(lambda part: " " * len(part[0]), page)
    said = (_NOT_RUN, _RECORDED)
    return [
        Block(*match.groups(), *match.span(3), *(one.search(page[: match.start()]) is not None for one in said))
        for match in _FENCE.finditer(hidden)
    ]


def needed(page: str) -> list[str]:
    """The packages that a page says it needs."""
    return [name for names in _NEEDS.findall(page) for name in names.split()]


def runnable(page: str) -> str:
    """The page up to the first mark of a package that is not installed."""
    for mark in _FROM_HERE.finditer(page):
        if any(find_spec(name) is None for name in mark[1].split()):
            return page[: mark.start()]
    return page


def alike(*outputs: str) -> bool:
    """Whether outputs are the same but for times, memory and versions."""
    for pattern, instead in _MASKS:
        outputs = tuple(pattern.sub(instead, text) for text in outputs)
    return len({text.strip("\n") for text in outputs}) == 1


def _labels(output: str) -> list[str]:
    """The first column of a summary, without warnings and the line of times."""
    labels = [line.split("  ")[0] for line in output.splitlines() if not line.startswith("warning: ")]
    return [label for label in labels if label != "time"]


@dataclass(frozen=True)
class Outcome:
    """What one command or expression was shown to print, and what it printed."""

    source: str
    shown: str
    printed: str
    right: bool


class Session:
    """The directory and the interpreter of one page."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: dict[str, Any] = {"__name__": "__page__"}

    def outcomes(self, block: Block) -> Iterator[Outcome]:
        """Run a block; yield the outcome of each command."""
        if block.title is not None:
            path = self._directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for given in commands(block.text):
                done = self._command(*given)
                yield replace(done, right=_labels(done.shown) == _labels(done.printed)) if block.recorded else done
        elif block.language == "pycon":
            for example in doctest.DocTestParser().get_examples(block.text):
                printed = self._python(example.source, "single")
                yield Outcome(example.source, example.want, printed, alike(example.want, printed))
        elif block.language == "python":
            printed = self._python(block.text, "exec")
            yield Outcome(block.text, "", printed, printed == "")

    def _command(self, command: str, shown: str) -> Outcome:
        environment = {"PATH": search_path(), "COLUMNS": "110"}
        words = shlex.split(command.replace("\\\n", ""))
        if words[0] == "bpe-pipeline" and not _FOR_A_SHELL.search(_QUOTED.sub("", command)):
            done = run(*words[1:], cwd=self._directory, env=environment)
        else:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=self._directory,
                env=os.environ | environment,
                capture_output=True,
                text=True,
                check=False,
            )
        errors = [line for line in done.stderr.splitlines(keepends=True) if not _PROGRESS.match(line)]
        printed = self._local("".join(errors) + done.stdout)
        right = alike(shown, printed) and (done.returncode != 0) == ("error:" in shown)
        return Outcome(command, shown, printed, right)

    def _python(self, source: str, mode: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(self._directory):
            try:
                exec(compile(source, "<page>", mode), self._names)
            except Exception as error:
                text = "".join(traceback.format_exception_only(error))
                return f"{out.getvalue()}Traceback (most recent call last):\n    ...\n{self._local(text)}"
        return self._local(out.getvalue())

    def _local(self, text: str) -> str:
        """Replace the temporary directory by a usual name."""
        return text.replace(str(self._directory), "/home/me")


def search_path() -> str:
    """Return the PATH for commands: first the directory of the Python that runs the tests; last stand-ins for Slurm."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], str(Path(__file__).parent / "slurm")])


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console block, each with the output shown for it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        length = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        yield "".join(lines[:length]).rstrip("\n"), "".join(lines[length:])


def parses(line: str) -> bool:
    """Say whether a command of bpe-pipeline or of the benchmarks parses; True for any other command."""
    import click

    from bpe_pipeline.cli import all_commands

    words = shlex.split(line.split("#")[0].replace(",...", ""))
    try:
        if words[:1] == ["bpe-pipeline"]:
            all_commands()[words[1]].make_context(words[1], words[2:])
        elif words[:3] == ["python", "-m", "benchmarks"]:
            from benchmarks.__main__ import parse_arguments

            parse_arguments(words[3:])
    except (click.ClickException, SystemExit):
        return False
    return True


def not_run(page: str) -> str:
    """Return what a page shows without running it: its `sh` blocks."""
    return "".join(block.text for block in blocks(page) if block.language == "sh").replace("\\\n", " ")


def store_environment(address: str) -> dict[str, str]:
    """Return the environment for a page that uses an object store with the buckets `texts` and `bucket`."""
    for name in ("texts", "bucket"):
        object_store.new_bucket(address, name)
    return object_store.CREDENTIALS | {"AWS_ENDPOINT_URL": f"http://{address}", "AWS_REGION": "us-east-1"}


def corpus(directory: Path) -> None:
    """Write the texts with which every page of the site starts."""
    subprocess.run([sys.executable, str(HOME / "docs" / "corpus.py"), str(directory)], check=True)


def _rewritten(page: str, session: Session) -> str:
    """Return the page with the current output of each command whose output differs."""
    parts, end = [], 0
    for block in blocks(runnable(page)):
        outcomes, text = list(session.outcomes(block)), ""
        for outcome in outcomes:
            output = outcome.shown if outcome.right else outcome.printed
            text += _as_written(block, outcome.source) + output + "\n" * (output[-1:] not in ("", "\n"))
        right = all(outcome.right for outcome in outcomes)
        parts += [page[end : block.start], block.text if right else text]
        end = block.stop
    return "".join([*parts, page[end:]])


def _as_written(block: Block, source: str) -> str:
    if block.language == "console":
        return f"$ {source}\n"
    first, *rest = source.splitlines()
    return "".join([f">>> {first}\n", *(f"... {line}\n" for line in rest)])


def _main(names: list[str]) -> None:
    os.environ["PATH"] = search_path()
    for path in map(Path, names):
        before = path.read_text(encoding="utf-8")
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            if "moto" in needed(before):
                os.environ.update(store_environment(stack.enter_context(object_store.serving())))
            corpus(Path(directory))
            after = _rewritten(before, Session(Path(directory).resolve()))
            if after != before:
                path.write_text(after, encoding="utf-8")
                sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
