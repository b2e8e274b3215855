"""What a part does, and who works in a directory: parts at the same time, or something else alone."""

import errno
import fcntl
import json
import os
import platform
import threading
import time
from itertools import chain
from pathlib import Path

import pytest
from command import files_in, refused, run
from hypothesis import given
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.parts import Part, parse_part, part_of
from bpe_pipeline.storage import holders, lock

TEXT = "low lower lowest newer newest\n" * 300


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for number in range(4):
        (tmp_path / "corpus").mkdir(exist_ok=True)
        (tmp_path / "corpus" / f"{number}.txt").write_text(TEXT + str(number))
    return tmp_path / "corpus"


@given(st.integers(1, 50), st.integers(0, 200), st.sampled_from([0, 1]))
def test_every_chunk_is_of_one_part(count: int, chunks: int, first: int) -> None:
    parts = [part_of(parse_part(f"{index}/{count}")) for index in range(first, first + count)]
    assert sorted(chain(*([n for n in range(chunks) if part.has(n)] for part in parts))) == list(range(chunks))


@pytest.mark.parametrize("text", ["", "1", "3/2", "0/0", "-1/2", "1/2/3", "1/ 2", "a/b", "Auto", 1, None])
def test_what_is_no_part_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="I/N, one of N processes counted from 0 or from 1, or auto"):
        parse_part(text)


SLURM = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_COUNT": "8"}
SGE = {"SGE_TASK_ID": "6", "SGE_TASK_FIRST": "2", "SGE_TASK_LAST": "11", "SGE_TASK_STEPSIZE": "2"}


@pytest.mark.parametrize(
    ("variables", "part"),
    [
        (SLURM, Part(4, 8)),
        (SLURM | {"SLURM_ARRAY_TASK_ID": "13", "SLURM_ARRAY_TASK_STEP": "2"}, Part(5, 8)),
        (SGE, Part(2, 5)),
        ({**SGE, "SGE_TASK_STEPSIZE": "undefined"}, Part(4, 10)),
        (
            {**SLURM, "SLURM_ARRAY_TASK_COUNT": "4"},
            "one of a list of 4 tasks and not of a range: submit a range such",
        ),
        ({"PBS_ARRAY_INDEX": "5"}, "PBS does not say how many tasks an array has: give --part 5/N"),
        (
            {"SGE_TASK_ID": "undefined", "SGE_TASK_FIRST": "undefined"},
            "_ID, .*, SGE_TASK_LAST: give --",
        ),
        ({}, "this is no task of an array, since none has set SLURM_ARRAY_TASK_ID, SLURM_ARRAY_TASK_MIN, "),
    ],
)
def test_tasks_of_arrays(variables: dict[str, str], part: Part | str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in filter(lambda name: name.startswith(("SLURM_", "SGE_", "PBS_")), [*os.environ]):
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if isinstance(part, Part):
        assert part_of("auto") == part
    else:
        with pytest.raises(UsageError, match=part):
            part_of("auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--overwrite"], "--part with --overwrite: every process would start again"),
        (["--pattern", "llama3"], "counting was done with --pattern 'gpt2', not 'llama3'"),
        (["--weight", "1", "--weight", "2"], "counting was done without --weight, not with '1' '2'"),
        (["--part", "auto"], "no task of an array"),
    ],
)
def test_another_run_is_refused_by_a_part(corpus: Path, tmp_path: Path, options: list[str], message: str) -> None:
    inputs = [corpus / "0.txt", corpus / "1.txt"]
    assert bpe_pipeline.count(inputs, output=tmp_path / "run", part="0/2", workers=1).part
    part = [] if "--part" in options else ["--part", "1/2"]
    line = refused(run("count", *inputs, "--output", tmp_path / "run", *part, *options), 1 if "'" in message else 2)
    assert message in line


def test_a_part_needs_a_plan_that_it_can_keep(corpus: Path, tmp_path: Path) -> None:
    line = refused(run("count", corpus, "--output", tmp_path / "run", "--part", "0/2", "--ray", "host:1"), 2)
    assert "--part and --ray exclude each other" in line
    with pytest.raises(UsageError, match="--part: every process would make a run of its own; give --output"):
        bpe_pipeline.count(corpus, part="0/2")
    bpe_pipeline.count(corpus, output=tmp_path / "run", part="0/2", workers=1)
    (corpus / "more.txt").write_text("more")
    with pytest.raises(RunDirectoryError, match=r"planned without .*more.txt, and parts keep the plan: .*`combine`"):
        bpe_pipeline.count(corpus, output=tmp_path / "run", part="1/2", workers=1)
    (corpus / "more.txt").unlink()
    (corpus / "3.txt").write_text("other")
    with pytest.raises(RunDirectoryError, match=r"3\.txt changed since"):
        bpe_pipeline.count(corpus, output=tmp_path / "run", part="1/2", workers=1)


def _part(home: Path, **differs: object) -> Path:
    """Write the registration of a part; by default, of one that works on this machine."""
    (home / "parts").mkdir(parents=True, exist_ok=True)
    path = home / "parts" / f"3-of-8.0123456789abcdef-{os.getpid()}.json"
    path.write_text(json.dumps({**json.loads(holders.identity(part="3/8")), **differs}))
    return path


def test_foreign_files_among_parts_are_neither_read_nor_removed(corpus: Path, tmp_path: Path) -> None:
    home, secret = tmp_path / "run", tmp_path / "secret"
    bpe_pipeline.count(corpus, output=home)
    named_otherwise = _part(home, part="x/y")
    secret.write_text("not for the log")
    own = f"0123456789abcdef-{os.getpid()}"
    foreign = [home / "parts" / f"{name}.{own}.{ending}" for name in ("1-of-8", "2-of-8") for ending in ("json", "log")]
    for path in foreign[:2]:
        os.mkfifo(path)
    for path in foreign[2:]:
        path.symlink_to(secret)
    assert "completely" in run("info", home).stdout
    assert named_otherwise.exists()
    bpe_pipeline.count(corpus, output=home)
    assert secret.read_text() not in (home / "log.txt").read_text()
    assert sorted((home / "parts").iterdir()) == sorted(foreign)


def test_parts_and_what_works_alone_exclude_each_other(corpus: Path, tmp_path: Path) -> None:
    directory = Directory(tmp_path / "run", RUN)
    with directory.locked("0/2"), Directory(tmp_path / "run", RUN).locked("1/2"):
        line = refused(run("count", corpus, "--output", directory), 1)
        assert f"part 0/2 ({platform.node()}, process {os.getpid()})" in line or "part 1/2" in line
        assert "bpe-pipeline info" in line
    assert list(files_in(tmp_path / "run", but=())) == [".lock"]
    with directory.locked():
        line = refused(run("count", corpus, "--output", directory, "--part", "0/2"), 1)
        assert f"another process is working on {directory} ({platform.node()}, process {os.getpid()})" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("differs", "age_s", "state"),
    [
        ({}, 0, "running"),
        ({"started": 5.0}, 0, "dead"),
        ({"process": 2**22 + 1}, 0, "dead"),
        ({"place": "elsewhere"}, 100, "running"),
        ({"place": "elsewhere"}, 200, "dead"),
        ({"ended": "stopped"}, 200, "stopped"),
    ],
)
def test_parts_that_were_killed_are_recognised(
    corpus: Path, tmp_path: Path, differs: dict[str, object], age_s: int, state: str
) -> None:
    bpe_pipeline.count(corpus, output=tmp_path / "run", part="0/2", workers=1)
    path = _part(tmp_path / "run", **differs)
    os.utime(path, (time.time() - age_s,) * 2)
    shown = run("info", tmp_path / "run").stdout
    assert f"0/2: done ({platform.node()}, process " in shown
    assert f"3/8: {state} (" in shown
    if state == "running" and not differs:
        with pytest.raises(RunDirectoryError, match=r"part 3/8 \(.*\) works in"):
            bpe_pipeline.count(corpus, output=tmp_path / "run", workers=1)
    elif state != "running":
        bpe_pipeline.count(corpus, output=tmp_path / "run", workers=1)
        assert not (tmp_path / "run" / "parts").exists()
        assert "counting: " in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize("lives", [True, False])
def test_a_part_on_another_machine_is_waited_for_until_it_is_known_whether_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    monkeypatch.setattr(lock, "_LOOK_S", 0.05)
    path, told = _part(tmp_path, place="elsewhere"), list[str]()
    os.utime(path, (time.time() - (170 if lives else 179.7),) * 2)
    refreshing = threading.Timer(0.3, os.utime, [path])
    if lives:
        refreshing.start()
        with pytest.raises(RunDirectoryError, match=r"part 3/8 \(.*\) works in"), lock.held(tmp_path, told.append):
            pass
        refreshing.join()
    else:
        with lock.held(tmp_path, told.append):
            pass
    assert [text.startswith("waiting up to 180 s for part 3/8 (") for text in told] == [True]


def test_a_part_that_lost_the_directory_stops(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "run", RUN)
    with directory.locked("0/2"):
        [own] = (tmp_path / "run" / "parts").iterdir()
        directory.require_lock()
        own.unlink()
        with pytest.raises(RunDirectoryError, match="another process took over"):
            directory.require_lock()


def test_of_many_that_create_a_file_one_does(tmp_path: Path) -> None:
    start, made = threading.Barrier(8), list[int]()

    def create(number: int) -> None:
        path = tmp_path / "run.json"
        start.wait()
        if lock.create(path, str(number) * 10_000):
            made.append(number)
        assert path.read_text() in [str(one) * 10_000 for one in range(8)]

    # Temporary files are named for their process, so threads need names of their own.
    threads = [threading.Thread(target=create, args=[number]) for number in range(8)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "own_mark", lambda: f"mark-{threading.get_ident()}")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (tmp_path / "run.json").read_text() == str(made[0]) * 10_000
    assert len(made) == 1
    assert list(files_in(tmp_path)) == ["run.json"]


def test_a_file_system_without_locks_has_files_in_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    home, directory = tmp_path / "run", Directory(tmp_path / "run", RUN)
    with directory.locked():
        assert len(list(home.glob(".lock-*"))) == 1
        for part in ("", "1/2"):
            refused_ = pytest.raises(RunDirectoryError, match=r"another process \(.*\) is working on")
            with refused_, Directory(home, RUN).locked(part):
                pass
        directory.require_lock()
    assert not list(tmp_path.glob("run/.lock-*"))
    with directory.locked("1/2"), pytest.raises(RunDirectoryError, match=r"part 1/2 \(.*\) works in"), lock.held(home):
        pass


def test_a_lock_that_cannot_be_emptied_hides_no_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may refuse that, too, while the command ends for another reason."""

    def refusing(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "ftruncate", refusing)
    with pytest.raises(RunDirectoryError, match="the reason"), lock.held(tmp_path):
        raise RunDirectoryError("the reason")
    with lock.held(tmp_path):
        pass
