"""What a part does, and who works in a directory: parts at the same time, or something else alone."""

import errno
import fcntl
import json
import os
import platform
import threading
import time
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
from command import files_in, refused, run, succeeded
from hypothesis import given
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.parts import Part, parse_part, part_of
from bpe_pipeline.storage import lock, scratch
from bpe_pipeline.storage.scratch import process_namespace

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


def test_foreign_files_with_names_of_logs_are_neither_read_nor_removed(corpus: Path, tmp_path: Path) -> None:
    home, secret = tmp_path / "run", tmp_path / "secret"
    bpe_pipeline.count(corpus, output=home)
    secret.write_text("not for the log")
    (home / "log-1-of-8.txt").symlink_to(secret)
    os.mkfifo(home / "log-2-of-8.txt")
    (home / "log-x-of-y.txt").write_text("a note")
    (home / "parts").mkdir()
    os.mkfifo(home / "parts" / "1-of-8.json")
    assert "completely" in run("info", home).stdout
    bpe_pipeline.count(corpus, output=home)
    assert secret.read_text() not in (home / "log.txt").read_text()
    assert sorted(path.name for path in home.glob("*-of-*")) == ["log-1-of-8.txt", "log-2-of-8.txt", "log-x-of-y.txt"]


def test_parts_exclude_what_works_alone_and_leave_their_logs(corpus: Path, tmp_path: Path) -> None:
    directory = Directory(tmp_path / "run", RUN)
    with directory.locked():
        line = refused(run("count", corpus, "--output", directory, "--part", "0/2"), 1)
        assert f"another process is working on {directory} ({platform.node()}, process {os.getpid()}, since 2" in line
    assert not (tmp_path / "run").exists()
    with directory.locked("0/2"), Directory(tmp_path / "run", RUN).locked("1/2"):
        pass
    assert not (tmp_path / "run").exists()
    words = ["count", corpus, "--output", directory, "--workers", 1, "--chunk-size", "2KiB"]
    succeeded(run(*words, "--part", "1/4"))
    succeeded(run(*words, "--part", "3/4"))
    logs = [tmp_path / "run" / f"log-{part}-of-4.txt" for part in (1, 3)]
    texts = [log.read_text() for log in logs]
    line = refused(run("merge", directory), 1)
    assert "is not completely counted (part 4/4 has not run, part 2/4 has not run); run the" in line
    told = succeeded(run(*words)).stderr
    assert "are counted here: part 4/4 has not run, part 2/4 has not run" in told
    assert all(text in (tmp_path / "run" / "log.txt").read_text() for text in texts)
    assert not any(log.exists() for log in logs)
    assert "has not run" not in succeeded(run(*words)).stderr


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


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("without_locks")
def test_a_file_system_without_locks_has_a_file_in_their_place(tmp_path: Path) -> None:
    home, directory = tmp_path / "run", Directory(tmp_path / "run", RUN)
    with directory.locked():
        for part in ("", "1/2"):
            refused_ = pytest.raises(
                RunDirectoryError, match=rf"another process is working on .*dead: rm {home}/.locked-by$"
            )
            with refused_, Directory(home, RUN).locked(part):
                pass
        directory.require_lock()
    assert not home.exists()


@pytest.mark.usefixtures("without_locks")
@pytest.mark.parametrize(
    ("differs", "is_dead"),
    [
        ({}, False),
        ({"process": 2**22 + 1}, True),  # no such process
        ({"started": 5.0}, True),  # another process had this id
        ({"place": "elsewhere", "started": 5.0}, True),  # from before this host's last start
        ({"place": "elsewhere"}, False),  # in another container of this host
        ({"place": "elsewhere", "host": "elsewhere"}, False),
        ({"place": "elsewhere", "host": "elsewhere", "started": 5.0}, False),  # whatever its clock says
        (None, False),  # a file that is not ours, or not yet written
    ],
    ids=str,
)
def test_what_a_dead_process_of_this_host_left_is_replaced(
    tmp_path: Path, differs: dict[str, object] | None, is_dead: bool
) -> None:
    file, directory = tmp_path / ".locked-by", Directory(tmp_path, RUN)
    (tmp_path / "a.txt").write_text("so that the directory stays")
    with directory.locked():
        owner = json.loads(file.read_text())
    left = "" if differs is None else json.dumps(owner | differs)
    file.write_text(left)
    if is_dead:
        with directory.locked("1/2"):
            pass
        with directory.locked():
            assert json.loads(file.read_text()) == owner
        assert not file.exists()
        return
    for part in ("", "1/2"):
        with pytest.raises(RunDirectoryError, match="another process is working on"), directory.locked(part):
            pass
    assert file.read_text() == left


@pytest.mark.usefixtures("without_locks")
def test_who_lost_the_directory_stops_and_leaves_the_lock_of_the_other(corpus: Path, tmp_path: Path) -> None:
    """Somebody removed the file, and another process made it again, while this one was suspended."""
    home = tmp_path / "run"
    bpe_pipeline.count(corpus, output=home)
    file, run_json = home / ".locked-by", (home / "run.json").read_bytes()
    with Directory(home, RUN).locked():
        other = json.dumps(json.loads(file.read_text()) | {"host": "elsewhere"})
        file.write_text(other)
        with pytest.raises(RunDirectoryError, match=r"\.locked-by was removed while this process worked"):
            Directory(home, RUN).write_manifest({})
    assert file.read_text() == other
    assert (home / "run.json").read_bytes() == run_json


def _work(
    home: Path, start: threading.Barrier, end: threading.Barrier, worked: list[int], refusals: list[str], number: int
) -> None:
    start.wait()
    try:
        with lock.held(home):
            worked.append(number)
            end.wait()
    except RunDirectoryError as error:
        refusals.append(str(error))
        end.wait()


@pytest.mark.usefixtures("without_locks")
def test_of_many_that_replace_the_file_of_a_dead_process_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "own_mark", lambda: f"mark-{threading.get_ident()}")  # threads stand for processes
    for _ in range(20):
        (tmp_path / ".locked-by").write_text(json.dumps({"place": process_namespace(), "process": 2**22 + 1}))
        start, end, worked, refusals = threading.Barrier(6), threading.Barrier(6), list[int](), list[str]()
        work = partial(_work, tmp_path, start, end, worked, refusals)
        threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(worked) <= 1
        assert len(worked) + len(refusals) == 6


def test_a_lock_that_cannot_be_emptied_hides_no_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may refuse that, too, while the command ends for another reason."""

    def refusing(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "ftruncate", refusing)
    with pytest.raises(RunDirectoryError, match="the reason"), lock.held(tmp_path):
        raise RunDirectoryError("the reason")
    with lock.held(tmp_path):
        pass


@pytest.mark.parametrize("age_s", [0, 100_000])
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_what_a_part_may_be_writing_stays(corpus: Path, tmp_path: Path, where: str, age_s: int) -> None:
    """Parts register nowhere: the command without `--part` may start while they work."""
    bpe_pipeline.count(corpus, output=tmp_path / "run", part="0/2", workers=1, chunk_size=9000)
    namespace = scratch.process_namespace() if where == "here" else "0" * 16
    marks = [f"{namespace}-{os.getppid()}", f"{namespace}-{2**22 + 1}"]
    name = manifest.require(tmp_path / "run").manifest.chunk_names[1]
    files = [tmp_path / "run/counts" / f".{name}.{mark}.partial" for mark in marks]
    for path in files:
        path.touch()
        os.utime(path, (time.time() - age_s,) * 2)
    bpe_pipeline.count(corpus, output=tmp_path / "run", workers=1)
    assert [path.exists() for path in files] == ([True, False] if where == "here" else [not age_s] * 2)


@pytest.mark.parametrize("part", ["", "1/2"])
@pytest.mark.parametrize("started", [0.0, 1e40, float("nan")])
def test_the_file_of_another_host_holds_also_where_the_system_has_locks(
    tmp_path: Path, part: str, started: float
) -> None:
    """Mounts differ by node; the time may be damaged."""
    owner = {"host": "elsewhere", "place": "elsewhere", "process": 7, "started": started}
    (tmp_path / ".locked-by").write_text(json.dumps(owner))
    with (
        pytest.raises(RunDirectoryError, match=r"process 7.* If it is dead: rm "),
        Directory(tmp_path, RUN).locked(part),
    ):
        pass


def test_a_pipe_in_place_of_the_lock_blocks_no_part(corpus: Path, tmp_path: Path) -> None:
    bpe_pipeline.count(corpus, output=tmp_path / "run")
    (tmp_path / "run" / ".lock").unlink()
    os.mkfifo(tmp_path / "run" / ".lock")
    for part in (["--part", "1/2"], []):
        succeeded(run("count", corpus, "--output", tmp_path / "run", *part))
