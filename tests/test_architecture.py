"""The folders of the package: imports run down and are light, files and functions are short enough to read."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from code_tokens import code_tokens

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.run import extensions

PACKAGE = Path(bpe_pipeline.__file__).parent
SOURCE = Path(__file__).parents[1] / "pipeline"  # has the core's, too
# From top to bottom: a folder imports only folders below it.
FOLDERS = (
    "__main__",
    "compat",
    "cli",
    "extensions",
    "commands",
    "reports",
    "shards",
    "tokenizer",
    "merges",
    "counts",
    "run",
    "corpus",
    "pattern",
    "executors",
    "storage",
    "base",
    "_core",
    "__init__",
)
MOST_TOKENS = 285_073
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 50  # without its docstring
MOST_PARAMETERS = 6
MOST_UNFORMATTED = 35  # uses of `fmt: skip` and `fmt: off` in package and tests
MOST_BEHIND = {"commands.train": 129, "counts.count_worker": 42}  # modules that are imported sooner or later
LONGEST_CHAIN = 19  # modules that import one another in a row
# Modules that name others as text. The face of the package imports what is public when it is first used.
MAY_NAME_MODULES = {"__init__"}
LEVEL_OF = {name: depth for depth, name in enumerate(FOLDERS)}


@cache
def _modules() -> dict[str, ast.Module]:
    """The package's modules by their names without `bpe_pipeline.`; a folder's __init__ has the folder's name."""
    paths = {path.relative_to(PACKAGE).with_suffix(""): path for path in sorted(PACKAGE.rglob("*.py"))}
    names = {path: ".".join(path.parts).removesuffix(".__init__") for path in paths}
    return {name: ast.parse(paths[path].read_text()) for path, name in names.items()}


def _nodes(tree: ast.AST, types: bool) -> Iterator[ast.AST]:
    """All nodes; without those that only a type checker sees, unless they are asked for."""
    todo = [tree]
    while todo:
        yield (node := todo.pop())
        if types or not isinstance(node, ast.If) or not _is_for_type_checkers(node):
            todo += ast.iter_child_nodes(node)


def _is_for_type_checkers(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def _imports(module: str, types: bool = True) -> frozenset[str]:
    """The modules of the package that one imports, inside functions too, and `_core`."""
    found = set()
    for node in _nodes(_modules()[module], types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            known = {f"bpe_pipeline.{name}" for name in _modules()}
            found |= (names if node.module == "bpe_pipeline" else names & known) or {str(node.module)}
    return frozenset(name.removeprefix("bpe_pipeline.") for name in found if name.startswith("bpe_pipeline.")) - {
        module
    }


@cache
def _named_as_text(module: str) -> frozenset[str]:
    """The modules of the package that one names in text, `bpe_pipeline.x.y` or the start of an f-string."""
    named = set()
    for node in _nodes(_modules()[module], types=False):
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            named |= {f"f-string {text}" for text in [str(node.values[0].value)] if text.startswith("bpe_pipeline.")}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("bpe_pipeline."):
            named |= {node.value.removeprefix("bpe_pipeline.").partition(":")[0]} & {*_modules(), "_core"}
    return frozenset(named - {module} - {extensions.GROUP.removeprefix("bpe_pipeline.")})


@cache
def _behind(module: str) -> frozenset[str]:
    """All modules that are imported sooner or later, by statement or by text, with the module itself."""
    behind, todo = set(), [module]
    while todo:
        if (name := todo.pop()) in _modules() and name not in behind:
            behind.add(name)
            todo += () if name == "__init__" else _imports(name, types=False) | _named_as_text(name)
    return frozenset(behind)


@cache
def _longest_chain(module: str) -> int:
    circle = {other for other in _behind(module) if module in _behind(other)}
    after = {name for other in circle for name in _imports(other, types=False)} & {*_modules()} - circle - {"__init__"}
    return len(circle) + max((_longest_chain(name) for name in after), default=0)


def _length(function: ast.FunctionDef) -> int:
    """Its lines without the docstring."""
    first, lines = function.body[0], int(function.end_lineno or 0) - function.lineno + 1
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    return lines - (int(first.end_lineno or 0) - first.lineno + 1 if documented else 0)


def _parameters(module: str, function: ast.FunctionDef) -> int:
    """How many it has, but for the public ones and those that the command line fills in."""
    if module.startswith("cli.") or function.name in bpe_pipeline.__all__ or module == "tokenizer.tokenizer":
        return 0
    given = function.args
    return sum(argument.arg != "self" for argument in given.posonlyargs + given.args + given.kwonlyargs)


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def _folder(module: str) -> str:
    name = module.split(".")[0]
    return "__init__" if name.startswith("__version") else name


@cache
def _functions() -> list[tuple[str, ast.FunctionDef]]:
    """All functions, each with its module."""
    nodes = ((module, node) for module, tree in _modules().items() for node in ast.walk(tree))
    return [(module, node) for module, node in nodes if isinstance(node, ast.FunctionDef)]


def test_files_are_short() -> None:
    sources = [path for path in SOURCE.rglob("*") if path.suffix in (".py", ".hpp", ".cpp")]
    lines = {path.relative_to(SOURCE).as_posix(): _lines(path) for path in sources}
    assert {name: n for name, n in lines.items() if n > MOST_LINES_OF_A_FILE} == {}


def test_the_package_only_becomes_smaller() -> None:
    tokens = sum(map(code_tokens, PACKAGE.rglob("*.py")))
    assert tokens <= MOST_TOKENS, f"{tokens - MOST_TOKENS:,} tokens more: unify or remove something, or raise no number"


def test_functions_are_short() -> None:
    lengths = {f"{module}.{function.name}": _length(function) for module, function in _functions()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


def test_functions_have_few_parameters() -> None:
    parameters = {f"{module}.{function.name}": _parameters(module, function) for module, function in _functions()}
    assert {name: number for name, number in parameters.items() if number > MOST_PARAMETERS} == {}


def test_formatter_lays_out_nearly_everything() -> None:
    """Records of options and rows of cases that are one value each are exempt, and little else."""
    marker = re.compile(r"fmt: (?:skip|off)")
    paths = [*SOURCE.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]
    markers = {path: len(marker.findall(path.read_text())) for path in paths if path != Path(__file__)}
    assert sum(markers.values()) <= MOST_UNFORMATTED, {str(path): number for path, number in markers.items() if number}


def test_no_circle_of_imports() -> None:
    circles = {frozenset(other for other in _behind(name) if name in _behind(other)) for name in _modules()}
    assert [sorted(circle) for circle in circles if len(circle) > 1] == []


def test_longest_chain_of_imports() -> None:
    assert max((_longest_chain(name), name) for name in _modules()) <= (LONGEST_CHAIN, "~")


@pytest.mark.parametrize("module", MOST_BEHIND)
def test_modules_that_are_imported_sooner_or_later(module: str) -> None:
    assert len(_behind(module)) - 1 <= MOST_BEHIND[module]


def test_modules_are_imported_by_statements() -> None:
    """Import statements are seen by readers, type checkers and these tests; entry points are in pyproject.toml."""
    named = {module: _named_as_text(module) for module in _modules() if module not in MAY_NAME_MODULES}
    assert {module: sorted(names) for module, names in named.items() if names} == {}


def test_imports_run_down() -> None:
    assert [
        f"{module} imports {name}"
        for module in _modules()
        if module != "__init__"  # names the public functions, imported when first used
        for name in _imports(module)
        if LEVEL_OF[_folder(name)] < LEVEL_OF[_folder(module)]
    ] == []


EXTENSIONS = ("adapt", "chat", "inspect", "parity", "sweep")


def _extension(module: str) -> str | None:
    return module.split(".")[1] if module.startswith("extensions.") else None


def _texts(module: str) -> Iterator[str]:
    """The texts of a module, its docstrings too."""
    for node in ast.walk(_modules()[module]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_nothing_names_an_extension_but_entry_points() -> None:
    """Neither a statement nor a text, in the package or in another extension."""
    points = metadata.distribution("bpe-pipeline").entry_points.select(group=extensions.GROUP)
    assert {point.name: point.value.split(".")[2] for point in points} == {name: name for name in EXTENSIONS}
    assert {extension for name in _modules() if (extension := _extension(name))} == set(EXTENSIONS)
    name_of_extension = re.compile(rf"\bextensions[./]({'|'.join(EXTENSIONS)})\b")
    named = {
        module: {name for name in map(_extension, _imports(module)) if name}
        | {match[1] for text in _texts(module) for match in name_of_extension.finditer(text)}
        for module in _modules()
    }
    assert {
        module: names - {_extension(module)} for module, names in named.items() if names - {_extension(module)}
    } == {}


_MAIN_ROAD = """
import sys
import bpe_pipeline
from bpe_pipeline.__main__ import main
assert bpe_pipeline.__file__.startswith(sys.argv[1]), bpe_pipeline.__file__
for words in (
    ["train", "corpus.txt", "--vocab-size", "300", "--output", "run", "--quiet"],
    ["encode", "corpus.txt", "--tokenizer", "run", "--output", "shards", "--quiet"],
    ["verify", "run"],
    ["--help"],
):
    sys.argv = ["bpe-pipeline", *words]
    assert main() == 0, words
"""


@pytest.mark.one_of(5)
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_the_main_road_needs_no_extension(extension: str, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "bpe_pipeline")  # with its bytecode
    shutil.rmtree(tmp_path / "bpe_pipeline" / "extensions" / extension)
    installed = metadata.distribution("bpe-pipeline")
    points = [one for one in installed.entry_points if (one.group, one.name) != (extensions.GROUP, extension)]
    groups = {
        one.group: [f"{other.name} = {other.value}" for other in points if other.group == one.group] for one in points
    }
    entries = "\n".join(line for group, lines in groups.items() for line in (f"[{group}]", *lines))
    (tmp_path / "bpe_pipeline-0.dist-info").mkdir()  # found before the one that is installed
    (tmp_path / "bpe_pipeline-0.dist-info" / "METADATA").write_text("Name: bpe-pipeline\nVersion: 0\n")
    (tmp_path / "bpe_pipeline-0.dist-info" / "entry_points.txt").write_text(entries)
    shutil.copy(str(_core.__file__), tmp_path / "bpe_pipeline")  # which an editable install has elsewhere
    (tmp_path / "corpus.txt").write_text("the theme of the thesis " * 1000)
    command = [sys.executable, "-P", "-S", "-s", "-c", _MAIN_ROAD, tmp_path]  # without an editable install's hook
    others = [path for path in sys.path if path.endswith("site-packages")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *others])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


def test_every_folder_is_listed() -> None:
    assert {_folder(module) for module in _modules()} == set(FOLDERS) - {"_core"}


@pytest.mark.parametrize(
    ("folder", "known"),
    [("executors", {"__init__"}), ("corpus", {"storage", "executors", "pattern"})],
)
def test_executors_and_corpus_know_nothing_of_bpe(folder: str, known: set[str]) -> None:
    imported = {_folder(name) for module in _modules() if _folder(module) == folder for name in _imports(module)}
    assert imported <= known | {folder, "base", "_core"}


def test_native_vectors_of_threads_are_reserved_before_a_thread_starts() -> None:
    """A vector that grows may throw, and the threads that run in it would end the process."""
    grown = 0
    for path in (SOURCE / "native").rglob("*.[ch]pp"):
        source = path.read_text()
        for name in re.findall(r"std::vector<std::thread> (\w+);", source):
            grown += 1
            assert 0 <= source.find(f"{name}.reserve(") < source.find(f"{name}.emplace_back("), path
    assert grown


def test_the_native_core_knows_nothing_of_python() -> None:
    sources = [path for path in (SOURCE / "native").rglob("*.[ch]pp") if path.parent.name != "bind"]
    assert sources
    assert [path.name for path in sources if "nanobind" in path.read_text() or "Python.h" in path.read_text()] == []


HEAVY = {"pyarrow", "numpy", "regex", "psutil", "rich", "click", "yaml", "tokenizers", "transformers", "tiktoken"}


_TRAIN = """
from bpe_pipeline.__main__ import main
words = ["--vocab-size", "300", "--output", "run", "--quiet", "--export", "hf,gpt2,tiktoken"]  # gguf imports numpy
sys.argv = ["bpe-pipeline", "train", "corpus.txt", *words]
assert main() == 0
assert "bpe_pipeline.reports.page" in sys.modules
"""
_LATER = {
    "bpe_pipeline.commands.learn",
    "bpe_pipeline.merges.merge",
    "bpe_pipeline.reports.page",
    "bpe_pipeline.tokenizer.tokenizer",
}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        pytest.param("import bpe_pipeline", HEAVY, id="the package"),
        pytest.param("import bpe_pipeline.executors.worker, bpe_pipeline.counts.count_worker", HEAVY, id="a worker"),
        pytest.param(_TRAIN, HEAVY - {"click", "psutil"} | {"ssl"}, id="training"),
        pytest.param(
            "import bpe_pipeline.cli, bpe_pipeline.run.workers, bpe_pipeline.commands.train", _LATER, id="counting"
        ),
    ],
)
def test_what_is_not_used_yet_is_not_imported(statement: str, absent: set[str], tmp_path: Path) -> None:
    """Heavy packages; and what follows counting, which is imported while workers count."""
    (tmp_path / "corpus.txt").write_text("the theme of the thesis " * 1000)
    command = [sys.executable, "-P", "-c", f"import sys\n{statement}\nprint(*sys.modules)"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert absent & set(output.stdout.split()) == set()
