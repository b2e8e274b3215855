"""What can fail beside a kill: workers, disks, output and corpus. One clear line, and the run goes on where it was."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import peers
import pytest
import tasks_here
from command import model, refused, run, succeeded
from dying_workers import let_workers_die

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError, PipelineError, RunDirectoryError, UsageError, WorkerError
from bpe_pipeline.base.events import Advanced, Event, StageStarted
from bpe_pipeline.base.units import parse_bytes
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.commands.train import run_train
from bpe_pipeline.executors import MAX_ATTEMPTS
from bpe_pipeline.executors.local import LocalExecutor
from bpe_pipeline.merges import forecast
from bpe_pipeline.run import workers
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.memory import Broker
from bpe_pipeline.run.options import TrainOptions

CHUNKS = "12KiB"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    for number in range(4):
        (directory / f"{number}.txt").write_text(peers.generated_text(number, 2500), newline="")
    return directory


def options_of(corpus: Path, output: Path, **more: object) -> TrainOptions:
    usual = {"inputs": str(corpus), "output": output, "vocab_size": 600, "chunk_size": CHUNKS, "workers": 2}
    return make_options(TrainOptions, usual | more)


@contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    before = resource.getrlimit(what)
    resource.setrlimit(what, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


def train(
    options: TrainOptions,
    listener: Callable[[Event], None] = lambda _: None,
    preload: Callable[[], object] | None = None,
) -> int:
    """Train in this process, and its workers too unless they preload something; how many attempts were made again."""
    setup = replace(TRAINING, preload=(*TRAINING.preload, *filter(None, [preload])))
    with (LocalExecutor if preload else workers.LocalExecutor)(lambda: 2, setup) as executor:
        run_train(options, executor, listener)
        return executor.retries


@pytest.fixture(scope="module")
def expected(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    output = tmp_path_factory.mktemp("expected") / "run"
    assert train(options_of(corpus, output)) == 0
    assert json.loads((output / "report.json").read_text())["retries"] == 0
    return model(output)


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Let workers die so, and that often, at chunk 1; return the directory in which each leaves a mark."""
    (home := tmp_path / "marks").mkdir()
    how, times = request.param
    monkeypatch.setenv("DYING", json.dumps([how, "000001-", times, str(home)]))
    return home


HOW = [(how, 2) for how in ("kill", "segfault", "terminate", "exit", "raise", "no memory")]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("marks", HOW, indirect=True, ids=[how for how, _ in HOW])
@pytest.mark.usefixtures("marks")
def test_a_worker_that_dies_costs_an_attempt(corpus: Path, expected: bytes, tmp_path: Path) -> None:
    assert train(options_of(corpus, tmp_path / "run"), preload=let_workers_die) == 2
    assert model(tmp_path / "run") == expected
    assert json.loads((tmp_path / "run" / "report.json").read_text())["retries"] == 2
    assert "repeated 2 tasks whose process failed" in (tmp_path / "run" / "report.txt").read_text()
    assert (tmp_path / "run" / "log.txt").read_text().count("trying again in a fresh process") == 2


@pytest.mark.parametrize("marks", [("kill", 99)], indirect=True)
def test_failing_chunk_is_named_and_others_finish(corpus: Path, expected: bytes, tmp_path: Path, marks: Path) -> None:
    with pytest.raises(WorkerError, match=r"^chunk 1 \(.*0\.txt, bytes \d+ to \d+\) failed 3 times") as caught:
        train(options_of(corpus, tmp_path / "run"), preload=let_workers_die)
    assert "signal 9, probably out of memory" in str(caught.value)
    assert "run the same command again to resume" in str(caught.value)
    assert len(list(marks.iterdir())) == MAX_ATTEMPTS
    assert train(options_of(corpus, tmp_path / "run")) == 0
    assert model(tmp_path / "run") == expected


def test_processes_and_pipes_that_the_system_refuses(corpus: Path, tmp_path: Path) -> None:
    options = options_of(corpus, tmp_path / "run", chunk_size=512, workers=100)
    with (
        LocalExecutor(lambda: 100, TRAINING) as executor,
        limited(resource.RLIMIT_NOFILE, len([*Path("/dev/fd").iterdir()]) + 12),
        pytest.raises(PipelineError, match="fewer --workers"),
    ):
        run_train(options, executor, lambda _: None)


@pytest.mark.processes
@pytest.mark.parametrize("size", [1000, 9000])
def test_file_size_limit_is_one_line(corpus: Path, expected: bytes, tmp_path: Path, size: int) -> None:
    """As on a full disk, at the manifest or at a counter; then there is room."""
    words = ["train", corpus, "--output", "run", "--vocab-size", 600, "--chunk-size", CHUNKS, "--workers", 2]
    with limited(resource.RLIMIT_FSIZE, size):
        result = run(*words, cwd=tmp_path)
    assert re.search("cannot be written: .*File too large", refused(result, 1))
    assert "Logging error" not in result.stderr
    with tasks_here.activated():
        succeeded(run(*words, cwd=tmp_path))
    assert model(tmp_path / "run") == expected


def in_a_namespace(script: str) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-euc", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def may_mount() -> bool:
    return shutil.which("unshare") is not None and in_a_namespace("mount -t tmpfs tmpfs /mnt").returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not may_mount(), reason="needs a mount namespace")
def test_full_and_read_only_disks_are_named(corpus: Path, expected: bytes, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    words = f"train {corpus} --output disk/run --vocab-size 600 --chunk-size {CHUNKS} --workers 2"
    result = in_a_namespace(f"""
        cd {tmp_path}
        mount -t tmpfs -o size=1m tmpfs disk
        train() {{ {sys.executable} -P -m bpe_pipeline {words} >/dev/null; }}
        for size in size=28k size=90k size=220k size=64m,ro; do
            mount -o remount,$size disk
            echo "code $(train 2>>errors && echo 0 || echo $?)"
        done
        mount -o remount,rw disk
        train
        cp disk/run/tokenizer/tokenizer.json .
    """)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "tokenizer.json").read_bytes() == expected
    errors = (tmp_path / "errors").read_text()
    assert not re.search("Traceback|Logging error", errors)
    lines = [line for line in errors.splitlines() if "error:" in line]
    assert len(lines) == result.stdout.count("code 1") >= 3, errors
    assert all("No space left on device" in line for line in lines[:-1])
    assert "Read-only file system" in lines[-1]


def interfere(moment: type[StageStarted] | type[Advanced], act: Callable[[], object]) -> Callable[[Event], None]:
    """Return a listener that does something to the world when the first chunks are counted, or counting begins."""
    acts = [act]
    return lambda event: acts.pop()() if acts and isinstance(event, moment) else None


def test_vanished_output_is_one_line(corpus: Path, expected: bytes, tmp_path: Path) -> None:
    output = tmp_path / "run"
    with pytest.raises(RunDirectoryError, match=f"{output} is not complete: it was removed while"):
        train(options_of(corpus, output), interfere(Advanced, lambda: shutil.rmtree(output)))
    train(options_of(corpus, output))
    assert model(output) == expected


def test_a_stage_that_refuses_the_limit_names_one_for_all_that_follow(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [40 << 20]
    monkeypatch.setattr("bpe_pipeline.base.machine.own_memory", lambda: own[0])
    grow = interfere(Advanced, lambda: own.insert(0, 70 << 20))
    with pytest.raises(UsageError, match="is too small") as refused:
        train(options_of(corpus, tmp_path / "run", vocab_size=120_000, memory_limit="150MiB", workers=1), grow)
    least = Broker(1).everything().other_bytes + forecast.later_bytes(120_000)
    assert parse_bytes(str(refused.value).split("give --memory-limit ")[1]) >= least


CHANGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "shrank": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "grew": lambda path: path.write_bytes(path.read_bytes() + b" more"),
    "changed": lambda path: path.write_bytes(b"x" + path.read_bytes()[1:]),
    "vanished": lambda path: path.unlink(),
    "became a directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        *(("planned", how) for how in CHANGES),
        *(("between runs", how) for how in ("emptied", "shrank", "vanished")),
    ],
)
def test_a_corpus_that_changes_is_named(corpus: Path, expected: bytes, tmp_path: Path, moment: str, how: str) -> None:
    ours = shutil.copytree(corpus, tmp_path / "corpus")
    output, path = tmp_path / "run", ours / "3.txt"
    listener = interfere(StageStarted, lambda: CHANGES[how](path) if moment == "planned" else None)
    if moment == "between runs":
        train(options_of(ours, output))
        for name in ("counter.parquet", "merges.parquet", "counts/000000-*.parquet"):
            next(output.glob(name)).unlink()
        CHANGES[how](path)
    message = r"3\.txt changed since .* was planned: it shrank from \d+ bytes to 0" if how == "emptied" else r"3\.txt"
    with pytest.raises((InputError, RunDirectoryError), match=message):
        train(options_of(ours, output), listener)
    assert not (output / "counter.parquet").exists()
    if path.is_dir():
        path.rmdir()
    shutil.copy2(corpus / "3.txt", path)
    train(options_of(ours, output))
    assert model(output) == expected


@pytest.mark.parametrize("command", ["count", "encode"])
def test_a_corpus_changed_behind_its_size_time_and_samples_is_named(tmp_path: Path, command: str) -> None:
    """One byte of 300,000 that no sample has, and the modification time set back."""
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_bytes(b"some text " * 30_000)
    other.write_bytes(b"other text")
    words = [command, path, other, "--output", tmp_path / "out"]
    Tokenizer.from_merges([]).save(tmp_path / "tokenizer")
    words += ["--tokenizer", tmp_path / "tokenizer", "--documents", "offsets"] * (command == "encode")
    for _ in "12":
        assert "attributes" not in succeeded(run(*words)).stderr

    def change(at: int) -> None:
        times, data = path.stat(), path.read_bytes()
        path.write_bytes(data[:at] + b"X" + data[at + 1 :])
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    change(10_001)
    again = succeeded(run(*words)).stderr
    assert re.search(rf"1 of 2 files were written, moved or given other attributes since.*{path}", again, re.DOTALL)
    for change_it in (lambda: change(0), lambda: path.write_text("")):
        change_it()
        assert "a.txt changed since" in refused(run(*words), 1)


def test_unwritable_temporary_directory_is_named(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    succeeded(run("train", text, "--output", tmp_path / "run", "--vocab-size", 300, "--export", "hf,gpt2"))


def test_outputs_that_are_not_directories(text: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mknod(tmp_path / "socket", 0o600 | 0o140000)
    (tmp_path / "broken link").symlink_to("nowhere/at/all")
    (tmp_path / "link to itself").symlink_to("link to itself")
    for path in tmp_path.iterdir():
        assert str(path) in refused(run("train", text, "--output", path, "--vocab-size", 300), 1)
