"""What every test can rely on, however the suite was started."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import object_store
import peers
import pytest
from amount import FULL
from browser import chromium
from command import run
from hypothesis import settings

from pipeline.executors import Broadcast, Node

sys.path.append(str(Path(__file__).parents[1]))  # for `benchmarks`; at the end: the installed package goes first

pytest_plugins = ["cpu_time"]

# Started in the background by a shell, we would inherit an ignored Ctrl-C, and so would the commands under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Reports are tested in test_report.py; pages of some megabytes for hundreds of runs are for nobody.
os.environ["BPE_PIPELINE_REPORT"] = "none"


def _with_fewer_examples(test: Any) -> None:
    """Leave a third of a property test's examples, but not fewer than 20 of more."""
    chosen = getattr(test, "_hypothesis_internal_use_settings", None)
    if chosen is not None and chosen.max_examples > 20:
        fewer = settings(chosen, max_examples=max(20, chosen.max_examples // 3))
        getattr(test, "__func__", test)._hypothesis_internal_use_settings = fewer


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a quarter of the cases of a test marked with `one_of(4)`, and fewer examples, unless all checks run."""
    cases: Counter[str] = Counter()
    left_out = []
    for test in {id(test): test for item in items if (test := getattr(item, "obj", None)) and not FULL}.values():
        _with_fewer_examples(test)
    for item in items if not FULL else ():
        mark = item.get_closest_marker("one_of")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % mark.args[0]:
                left_out.append(item)
            cases[test] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text(peers.generated_text(1, 5000) + "\n<|endoftext|>\n" + peers.generated_text(2, 5000))
    return path


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("trained") / "run"
    result = run("train", text, "--output", output, "--vocab-size", 600)
    assert result.returncode == 0, result.stderr
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
    """What kills a process at the n-th change that it makes to files."""
    compiler = shutil.which("cc") or shutil.which("c++")
    if compiler is None or not Path("/proc/self/fd").exists():
        pytest.skip("needs a C compiler and /proc")
    path = tmp_path_factory.mktemp("library") / "kill_at.so"
    source = Path(__file__).parent / "support" / "kill_at.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-x", "c", source, "-o", path, "-ldl"], check=True)
    return path


class _Here:
    """An executor that is no other process."""

    retries = 0

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> "_Here":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def nodes(self) -> list[Node]:
        return []

    def used(self) -> None:
        return None

    def broadcast(self, data: bytes) -> Broadcast:
        return Broadcast(data)

    def meanwhile(self, function: Callable[[], object]) -> None:
        function()

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any], *_: object, **__: object) -> Iterator[Any]:
        yield from ((index, function(task)) for index, task in enumerate(tasks))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run in this process, and files are not forced onto the disk: hundreds of runs in a few seconds."""
    monkeypatch.setattr("pipeline.run.workers.LocalExecutor", _Here)
    monkeypatch.setattr("pipeline.base.system.flush", lambda _: None)


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
