"""The rooms of the package: imports run down, executors and corpus know nothing of BPE, imports are light."""

import ast
import subprocess
import sys
from pathlib import Path

import pipeline

PACKAGE = Path(pipeline.__file__).parent
ROOMS = (  # a room imports only rooms below it
    "__main__",
    "cli",
    "commands",
    "report",
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
UPWARD = {  # the one exception, by name: methods of the public Tokenizer that read corpora, and what they return
    "tokenizer/tokenizer": {
        "encode_files": {"shards.in_memory"},
        "encode_corpus": {"commands.encode"},
        "TYPE_CHECKING": {"shards.in_memory", "shards.manifest"},
    }
}
LEVEL_OF = {name: depth for depth, name in enumerate(ROOMS)}


def _modules() -> dict[str, Path]:
    return {str(path.relative_to(PACKAGE).with_suffix("")): path for path in sorted(PACKAGE.rglob("*.py"))}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} has a relative import"
            within = {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "pipeline" else set()
            found |= within or {node.module}
    return {name.removeprefix("pipeline.") for name in found if name.startswith("pipeline.")}


def _imports_within(path: Path, block: str) -> set[str]:
    """The imports of one function, or of the block `if TYPE_CHECKING`."""
    for node in ast.walk(ast.parse(path.read_text())):
        is_block = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == block
        if is_block or (isinstance(node, ast.FunctionDef) and node.name == block):
            names = (one.module for one in ast.walk(node) if isinstance(one, ast.ImportFrom) and one.module)
            return {name.removeprefix("pipeline.") for name in names if name.startswith("pipeline.")}
    raise AssertionError(f"{path} has no {block}")


def _room(module: str) -> str:
    name = module.replace("/", ".").split(".")[0]
    return "__init__" if name.startswith("__version") else name


def test_imports_run_down() -> None:
    upward = []
    for module, path in _modules().items():
        room = _room(module)
        if module == "__init__":
            continue  # names the public functions, imported when first used
        upward += [
            f"{module} imports {name}"
            for name in _imports(path) - set().union(*UPWARD.get(module, {}).values())
            if _room(name) != room and LEVEL_OF[_room(name)] < LEVEL_OF[room]
        ]
    assert upward == []


def test_the_exceptions_are_in_the_named_methods_only() -> None:
    for module, blocks in UPWARD.items():
        path = PACKAGE / f"{module}.py"
        for block, names in blocks.items():
            assert _imports_within(path, block) & set().union(*blocks.values()) == names
        text = path.read_text()
        for name in set().union(*blocks.values()):
            assert text.count(f"from pipeline.{name} ") == sum(name in names for names in blocks.values())


def test_every_room_is_listed() -> None:
    assert {_room(module) for module in _modules()} == set(ROOMS) - {"_core"}


def test_executors_and_corpus_know_nothing_of_bpe() -> None:
    for module, path in _modules().items():
        if _room(module) == "executors":
            assert {_room(name) for name in _imports(path)} <= {"base", "executors", "_core", "__init__"}
        if _room(module) == "corpus":
            known = {"base", "corpus", "_core", "storage", "executors", "pattern"}
            assert {_room(name) for name in _imports(path)} <= known


def test_the_native_core_knows_nothing_of_python() -> None:
    native = Path(__file__).parent.parent / "pipeline" / "native"
    sources = [path for path in native.rglob("*.[ch]pp") if path.parent.name != "bind"]
    assert sources
    assert [path.name for path in sources if "nanobind" in path.read_text() or "Python.h" in path.read_text()] == []


HEAVY = {"pyarrow", "numpy", "regex", "psutil", "rich", "click", "yaml", "tokenizers", "transformers", "tiktoken"}


def _loaded_after(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    output = subprocess.run([sys.executable, "-P", "-c", script], check=True, capture_output=True, text=True)
    return set(output.stdout.split())


def test_importing_the_package_is_light() -> None:
    assert _loaded_after("import pipeline") & HEAVY == set()


def test_a_worker_loads_arrow_only_when_it_writes() -> None:
    assert _loaded_after("import pipeline.executors.worker, pipeline.counts.count_worker") & HEAVY == set()


_TRAIN = """
import sys
from pipeline.__main__ import main
sys.argv = ["bpe-pipeline", "train", *sys.argv[1:]]
assert main() == 0
print(*sys.modules)
"""


def test_training_imports_nothing_heavy_into_the_coordinator(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the theme of the thesis " * 1000)
    words = [str(tmp_path / "corpus.txt"), "--vocab-size", "300", "--output", str(tmp_path / "run"), "--quiet"]
    command = [sys.executable, "-P", "-c", _TRAIN, *words]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert "pipeline.report.page" in loaded
    heavy = HEAVY - {"click", "psutil"} | {"ssl"}
    assert loaded & heavy == set()


def test_what_follows_counting_is_imported_while_workers_count() -> None:
    script = "import sys, pipeline.cli, pipeline.run.workers, pipeline.commands.train; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-P", "-c", script], check=True, capture_output=True, text=True).stdout
    after = {"pipeline.commands.merge", "pipeline.merges.merge", "pipeline.report.page", "pipeline.tokenizer.tokenizer"}
    assert set(output.split()) & after == set()
