"""The source tree, imported from the clone, uses the installed core if that was built from the same sources."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from command import succeeded

import pipeline
from pipeline import _core

SCRIPT = (
    "import pipeline; print(pipeline.__file__); "
    "t = pipeline.Tokenizer.from_merges([(b'l', b'o')]); print(t.encode('lo'), pipeline._core.__file__)"
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A source tree without a core, and what `pip install .` leaves elsewhere."""
    built = Path(str(_core.__file__))
    stamp = built.with_name("_core.sha256")
    if not stamp.exists():
        pytest.skip("the core was built without the digests of its sources")
    home = Path(pipeline.__file__).parent
    if not (home / "native").exists():
        pytest.skip("not a checkout")
    leave = shutil.ignore_patterns("*.so", "*.pyd", "_core.sha256", "__pycache__")
    shutil.copytree(home, tmp_path / "clone" / "pipeline", ignore=leave)
    site = tmp_path / "site"
    (site / "pipeline").mkdir(parents=True)
    for file in (built, stamp):
        shutil.copy(file, site / "pipeline")
    information = site / f"bpe_pipeline-{pipeline.__version__}.dist-info"
    information.mkdir()
    version = metadata.version("bpe-pipeline")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bpe-pipeline\nVersion: {version}\n")
    return tmp_path / "clone"


def imported(clone: Path, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    site = clone.parent / "site"
    others = [path for path in sys.path if path.endswith("site-packages")] if site.exists() else []
    command = [sys.executable, "-S", "-s", "-c", script]  # without the hook of an editable install
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *others])}
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)


def test_a_clone_uses_the_installed_core(clone: Path) -> None:
    done = succeeded(imported(clone))
    for part in (clone / "pipeline" / "__init__.py", "[256]", clone.parent / "site"):
        assert str(part) in done.stdout


def test_a_clone_trains_with_the_installed_core(clone: Path) -> None:
    (clone / "a.txt").write_text("low lower")
    script = "import pipeline; print(len(pipeline.train('a.txt', output='run', vocab_size=258, workers=1)))"
    assert succeeded(imported(clone, script)).stdout == "258\n"


@pytest.mark.parametrize("change", ["source", "version", "missing"])
def test_another_core_is_not_used(clone: Path, change: str) -> None:
    if change == "source":
        source = next((clone / "pipeline" / "native").glob("*/*.cpp"))
        source.write_text(source.read_text() + "\n// changed\n")
    elif change == "version":
        init = clone / "pipeline" / "__init__.py"
        init.write_text(init.read_text().replace(f'"{pipeline.__version__}"', '"99.0"'))
    else:
        shutil.rmtree(clone.parent / "site")
    done = imported(clone)
    assert done.returncode == 1
    assert "install the package with `pip install .`" in done.stderr
