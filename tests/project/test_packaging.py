"""The wheel and the sdist contain what they should, the stub is the core's, and a clone uses an installed core.

The wheel itself is built and tried by `.ci/package`, which takes minutes.
"""

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from command import succeeded

import bpe_pipeline
from bpe_pipeline import _core

HOME = Path(__file__).parents[2]
PACKAGE = Path(bpe_pipeline.__file__).parent


def test_the_version_has_one_source() -> None:
    assert metadata.version("bpe-pipeline") == bpe_pipeline.__version__
    texts = [(HOME / name).read_text() for name in ("pyproject.toml", "CMakeLists.txt")]
    assert "version" in tomllib.loads(texts[0])["project"]["dynamic"]
    assert not any(bpe_pipeline.__version__ in text for text in texts)


def test_the_sdist_contains_all_versioned_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = pytest.importorskip("scikit_build_core.build")
    if not (HOME / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=HOME, capture_output=True, text=True, check=True).stdout.split()
    monkeypatch.chdir(HOME)
    name = build.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        packed = {member.split("/", 1)[1] for member in archive.getnames()}
    assert name == f"bpe_pipeline-{bpe_pipeline.__version__}.tar.gz"
    kept = {path for path in listed if not path.startswith(".ci/")}
    assert kept - packed == set()
    assert [path for path in packed - kept if path.endswith((".so", ".o", ".parquet"))] == []


def test_the_stub_matches_the_built_module() -> None:
    stub = ast.parse((PACKAGE / "_core.pyi").read_text())
    named = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert set(named) == {name for name in vars(_core) if not name.startswith("_")}
    for name, node in named.items():
        if isinstance(node, ast.ClassDef):
            members = {part.name for part in node.body if isinstance(part, ast.FunctionDef)} - {"__init__"}
            built = {member for member in vars(getattr(_core, name)) if member[:2] != "__" or member == "__len__"}
            assert not members or members == built, name


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ["pipeline/__init__.py", "pipeline.py"])
def test_a_module_called_pipeline_of_the_user_changes_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("raise SystemExit('the module of the user')")
    (tmp_path / "a.txt").write_text("low lower lowest")
    scripts = Path(sys.executable).with_name("bpe-pipeline"), Path("train.py")
    (tmp_path / scripts[1]).write_text("import bpe_pipeline; print(bpe_pipeline.count('a.txt', output='counted'))")
    words = ["train", "a.txt", "--vocab-size", "260", "--quiet", "--output"]
    for command in (
        [scripts[0], "count", "a.txt", "--output", "a"],
        [sys.executable, "-m", "bpe_pipeline", *words, "b"],
        [sys.executable, scripts[1]],
    ):
        succeeded(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A source tree without a core, and what `pip install .` leaves elsewhere."""
    built = Path(str(_core.__file__))
    stamp = built.with_name("_core.sha256")
    if not stamp.exists() or not (HOME / "pipeline" / "native").exists():
        pytest.skip("not a checkout, or a core that was built without the digests of its sources")
    leave = shutil.ignore_patterns("*.so", "*.pyd", "_core.sha256", "__pycache__")
    shutil.copytree(HOME / "pipeline", tmp_path / "clone" / "pipeline", ignore=leave)
    site = tmp_path / "site"
    information = site / f"bpe_pipeline-{bpe_pipeline.__version__}.dist-info"
    for directory in (site / "bpe_pipeline", information):
        directory.mkdir(parents=True)
    for file in (built, stamp):
        shutil.copy(file, site / "bpe_pipeline")
    version = metadata.version("bpe-pipeline")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bpe-pipeline\nVersion: {version}\n")
    points = metadata.distribution("bpe-pipeline").read_text("entry_points.txt")
    (information / "entry_points.txt").write_text(str(points))
    return tmp_path / "clone"


def imported(clone: Path, script: str) -> subprocess.CompletedProcess[str]:
    site = clone.parent / "site"
    others = [path for path in sys.path if path.endswith("site-packages")] if site.exists() else []
    command = [sys.executable, "-S", "-s", "-c", f"import bpe_pipeline; {script}"]  # without an editable install's hook
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(clone / "pipeline"), str(site), *others])}
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)


def test_a_clone_trains_with_the_installed_core_also_where_another_module_has_its_name(clone: Path) -> None:
    (clone / "other").mkdir()
    (clone / "other" / "bpe_pipeline.py").touch()
    (clone / "other" / "a.txt").write_text("low lower")
    trained = "import os; os.chdir('other'); "
    trained += "print(len(bpe_pipeline.train('a.txt', output='run', vocab_size=258, workers=1)))"
    done = succeeded(imported(clone, f"{trained}; print(bpe_pipeline.__file__); print(bpe_pipeline._core.__file__)"))
    size, package, core = done.stdout.splitlines()
    assert (size, Path(package)) == ("258", clone / "pipeline" / "bpe_pipeline" / "__init__.py")
    assert Path(core).is_relative_to(clone.parent / "site")


@pytest.mark.parametrize("change", ["source", "own", "version", "missing"])
def test_another_core_is_not_used(change: str, clone: Path) -> None:
    home = clone / "pipeline" / "bpe_pipeline"
    if change == "own":  # that of an editable install, whose sources have changed since
        for file in (clone.parent / "site" / "bpe_pipeline").iterdir():
            shutil.copy(file, home)
    if change in ("source", "own"):
        with next((clone / "pipeline" / "native").glob("*/*.cpp")).open("a") as source:
            source.write("\n// changed\n")
    elif change == "version":
        init = home / "__init__.py"
        init.write_text(init.read_text().replace(f'"{bpe_pipeline.__version__}"', '"99.0"'))
    else:
        shutil.rmtree(clone.parent / "site")
    done = imported(clone, "bpe_pipeline.Tokenizer")
    assert done.returncode == 1
    again = " again" * (change in ("source", "own"))
    assert f"install the package{again} with `pip install .`" in done.stderr
