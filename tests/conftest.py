"""Fixtures and hooks of all tests."""

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import object_store
import peers
import pytest
import tasks_here
from amount import FULL
from browser import chromium
from command import run, succeeded
from hypothesis import HealthCheck, settings

from bpe_pipeline import __main__

sys.path.append(str(Path(__file__).parents[1]))  # for `benchmarks`; at the end: the installed package goes first

pytest_plugins = ["cpu_time"]

# Started in the background by a shell, we would inherit an ignored Ctrl-C, and so would the commands under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Without bytecode, each of many hundred commands that run in a process of their own would compile the package again,
# and each run of the tests would rewrite their assertions again, which takes longer than all else of collecting them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# How long it takes to draw an example says how busy the machine is.
settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

STARTING = {"base", "executors", "trainers"}  # folders about processes, as tests marked `processes` are


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run commands and tasks in processes of their own also where processes are not what a test is about"
    parser.addoption("--processes", action="store_true", help=text)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use two processes, and none but this one for a single file."""
    return 0 if len(config.args) == 1 and Path(config.args[0].partition("::")[0]).is_file() else 2


def pytest_configure() -> None:
    """Stop where the installed package has other entry points than the checkout: those of an older `pyproject.toml`."""
    stated = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["entry-points"]
    points = metadata.distribution("bpe-pipeline").entry_points
    installed = {group: {point.name: point.value for point in points.select(group=group)} for group in stated}
    if installed != stated:
        pytest.exit("pyproject.toml has new entry points: pip install --no-build-isolation --no-deps -e .", 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Do everything in this process, fixtures too, unless processes are what a test is about, or all run in them."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    starts = folder in STARTING or item.get_closest_marker("processes")
    starts = starts or (item.config.getoption("processes") and not item.get_closest_marker("here"))
    with contextlib.nullcontext() if starts else tasks_here.activated():
        return (yield)


def _with_fewer_examples(test: Any) -> None:
    """Leave a sixth of a property test's examples, but not fewer than 20 of more."""
    chosen = getattr(test, "_hypothesis_internal_use_settings", None)
    if chosen is not None and chosen.max_examples > 20:
        fewer = settings(chosen, max_examples=max(20, chosen.max_examples // 6))
        getattr(test, "__func__", test)._hypothesis_internal_use_settings = fewer


def _sampled(item: pytest.Item) -> tuple[str, int]:
    """Return the group that a test is in, of which one of so many runs: of the slow tests of a file one of 24."""
    if item.get_closest_marker("slow"):
        return f"slow tests of {item.path}", 24
    mark = item.get_closest_marker("one_of")
    return item.nodeid.partition("[")[0], mark.args[0] if mark else 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave samples of tests, and fewer examples of properties, unless all checks run."""
    if FULL:
        return
    for test in {id(test): test for item in items if (test := getattr(item, "obj", None))}.values():
        _with_fewer_examples(test)
    seen: Counter[str] = Counter()
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        group, one_of = _sampled(item)
        (left_out if seen[group] % one_of else kept).append(item)
        seen[group] += 1
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_collection_finish() -> None:
    """Collect garbage as seldom as the command does, and leave the thousands of tests out of it."""
    gc.freeze()
    gc.set_threshold(__main__._GARBAGE_AFTER)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text(peers.generated_text(1, 5000) + "\n<|endoftext|>\n" + peers.generated_text(2, 5000))
    return path


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("trained") / "run"
    result = succeeded(run("train", text, "--output", output, "--vocab-size", 600))
    assert "600 tokens (256 bytes, 343 merges, 1 special)" in result.stdout
    assert "bytes per token" in result.stdout
    return output


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; the tests that want it are skipped where there is none."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lets changes of files fail, or kills the process that makes them."""
    compiler = shutil.which("cc") or shutil.which("c++")
    if compiler is None or not Path("/proc/self/fd").exists():
        pytest.skip("needs a C compiler and /proc")
    path = tmp_path_factory.mktemp("library") / "faults.so"
    source = Path(__file__).parent / "support" / "faults.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-x", "c", source, "-o", path, "-ldl"], check=True)
    return path


@pytest.fixture
def in_process() -> Iterator[None]:
    """Run commands and their tasks in this process, also in a test that is marked `processes`."""
    with tasks_here.activated():
        yield


@pytest.fixture(scope="session")
def store_address() -> Iterator[str]:
    """An S3 server, started when the first test asks for it."""
    pytest.importorskip("moto")
    with object_store.serving() as address:
        yield address


@pytest.fixture
def store(store_address: str, monkeypatch: pytest.MonkeyPatch) -> object_store.Store:
    """An empty bucket, and the credentials for it in the environment."""
    for name, value in object_store.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return object_store.new_bucket(store_address)
