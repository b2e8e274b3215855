"""The wheel and the sdist contain what they should.

The wheel itself is built and tried by `.ci/package`, which takes minutes.
"""

import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import pipeline

HOME = Path(__file__).parents[2]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())


def test_the_version_has_one_source() -> None:
    assert metadata.version("bpe-pipeline") == pipeline.__version__
    assert "version" in PROJECT["project"]["dynamic"]
    texts = [path.read_text() for path in (HOME / "pyproject.toml", HOME / "CMakeLists.txt")]
    assert not any(pipeline.__version__ in text for text in texts)


def test_the_wheel_has_types_and_no_sources_of_the_core() -> None:
    assert (Path(pipeline.__file__).parent / "py.typed").exists()
    files = {str(path) for path in metadata.files("bpe-pipeline") or ()}
    if "pipeline/__init__.py" not in files:
        pytest.skip("an editable install has no files of its own")
    assert {"pipeline/py.typed", "pipeline/_core.pyi"} <= files
    assert not any(name.startswith(("pipeline/native/", "tests/", "benchmarks/")) for name in files)


def test_an_installed_package_works_without_the_checkout() -> None:
    smoke = [sys.executable, "-P", str(HOME / "tests" / "support" / "smoke.py")]
    done = subprocess.run(smoke, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") or "the wheel does not hold" in done.stderr  # editable


def test_the_sdist_contains_all_versioned_files(tmp_path: Path) -> None:
    build = pytest.importorskip("scikit_build_core.build")
    if not (HOME / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=HOME, capture_output=True, text=True, check=True).stdout.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(HOME)
        name = build.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        packed = {member.split("/", 1)[1] for member in archive.getnames()}
    assert name == f"bpe_pipeline-{pipeline.__version__}.tar.gz"
    kept = {path for path in listed if not path.startswith(".ci/")}
    assert kept - packed == set()
    assert [path for path in packed - kept if path.endswith((".so", ".o", ".parquet"))] == []
