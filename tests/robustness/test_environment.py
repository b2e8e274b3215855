"""What an environment refuses is one line with its remedy, and never called a defect of the package."""

import _multiprocessing
import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import refused, run, run_process, succeeded

import bpe_pipeline
from bpe_pipeline.base import log, system
from bpe_pipeline.base.errors import InputError

COMMAND = f"{sys.executable} -P -m bpe_pipeline"
IN_C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def in_a_namespace(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a script that may mount what no one else sees."""
    return subprocess.run(["unshare", "-m", "sh", "-ec", script], cwd=home, capture_output=True, text=True, check=False)


MOUNTS = shutil.which("unshare") is not None and not in_a_namespace("mount -t tmpfs tmpfs /mnt", Path("/")).returncode
needs_mounts = pytest.mark.skipif(not MOUNTS, reason="needs a mount namespace")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the river runs to the sea, and the stone stays\n" * 2000)
    return tmp_path


def test_no_semaphore_is_needed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(_multiprocessing.SemLock):
        def __new__(cls, *_: object, **__: object) -> "Refusing":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(_multiprocessing, "SemLock", Refusing)
    with log.log_to(home / "log.txt") as logger:
        logger.info("a record")
    assert "a record" in (home / "log.txt").read_text()
    assert bpe_pipeline.train("text.txt", output="run", vocab_size=260).merges
    assert "merge" in Path("run/log.txt").read_text()


@needs_mounts
@pytest.mark.one_of(2)
@pytest.mark.parametrize("options", ["size=4k", "ro"])
def test_shared_memory_that_cannot_be_written_is_not_needed(home: Path, options: str) -> None:
    fill = "head -c 9000 /dev/zero >/dev/shm/x || true" if options != "ro" else "true"
    mount = f"mount -t tmpfs -o {options} tmpfs /dev/shm; {fill}"
    train = f"{COMMAND} train text.txt -o run --vocab-size 260 --quiet --workers 1"
    done = in_a_namespace(f"{mount}; {train}; {COMMAND} encode text.txt --tokenizer run -o out --quiet", home)
    assert done.returncode == 0, done.stderr


@needs_mounts
def test_a_missing_proc_and_a_disk_that_is_full_from_the_start_are_named(home: Path) -> None:
    Path("disk").mkdir()
    train = f"{COMMAND} train text.txt --vocab-size 260 --quiet -o"
    done = in_a_namespace(f"mount -t tmpfs tmpfs /proc; {train} run", home)
    assert "/proc/meminfo: No such file or directory; mount /proc" in done.stderr
    full = "mount -t tmpfs -o size=64k tmpfs disk; head -c 70000 /dev/zero >disk/x || true"
    done = in_a_namespace(f"{full}; {train} disk/run", home)
    [line] = [line for line in done.stderr.splitlines() if "error: " in line and "head" not in line]
    assert "disk/run cannot be written: No space left on device" in line


@pytest.mark.parametrize("limit", [300 << 20, 450 << 20])
def test_a_limit_of_address_space_is_named_with_the_remedy(home: Path, limit: int) -> None:
    done = subprocess.run(
        [*COMMAND.split(), "train", "text.txt", "-o", "run", "--vocab-size", "280", "--workers", "2", "--quiet"],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert "a defect" not in done.stderr
    if done.returncode:  # how much is mapped depends on the libraries
        assert f"{limit >> 20} MiB (ulimit -v); raise that limit, or give a smaller --memory-limit" in done.stderr


def test_what_a_library_says_of_a_limit_of_address_space_has_its_remedy(home: Path) -> None:
    limited = (
        "import resource; from bpe_pipeline.executors import failed_too_often;"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40));"
        "print(failed_too_often('the task', 'ArrowException: Failed to launch worker thread'))"
    )
    said = subprocess.check_output([sys.executable, "-c", limited], cwd=home, text=True)
    assert "thread; perhaps memory is short: each process may map 1,048,576 MiB (ulimit -v); raise that limit" in said


def test_a_name_that_the_locale_cannot_read_is_not_called_invalid(home: Path) -> None:
    (home / "d").mkdir()
    (home / "d/Königin.txt").write_text("text")
    for given in ("d", "d/Königin.txt"):
        error = refused(run_process("count", given, "-o", "run", env=IN_C_LOCALE), 1 if given == "d" else 2)
        assert "has letters that this locale (ascii) does not have: set LC_ALL=C.UTF-8" in error


@pytest.mark.parametrize("option", [("--config", "é.yaml"), ("--chat-template", "é.jinja")])
def test_a_named_file_that_the_locale_cannot_name_has_the_same_remedy(option: tuple[str, str], home: Path) -> None:
    """Arguments are read as UTF-8 in any locale; the system takes names in that of the locale."""
    (home / option[1]).write_text("{}")
    words = "train", "text.txt", "-o", "run", "--vocab-size", "260", *option
    assert "(ascii) does not have: set LC_ALL=C.UTF-8" in refused(run_process(*words, env=IN_C_LOCALE), 2)


@pytest.mark.processes
def test_a_file_system_that_cannot_flush_is_written_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refusing)
    system.flush(home / "text.txt")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        system.flush(home / "text.txt")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.ENOMEM, errno.ENOSYS])
def test_what_the_system_refuses_has_a_remedy(number: int) -> None:
    refusal = system.refusal_of(OSError(number, os.strerror(number)))
    assert "; " in refusal
    assert system.refusal_of(OSError(errno.EBADF, os.strerror(errno.EBADF))) == ""


def test_a_wrong_field_is_said_after_the_first_thousand_records(home: Path) -> None:
    (home / "a.jsonl").write_text('{"body": "text", "id": 1}\n' * 100_000)
    expected = (
        "records has the field 'text'; they have body, id: say which one is the text with --text-field, or leave the "
        "file out"
    )
    assert expected in refused(run("count", "a.jsonl", "-o", "run"), 1)
    with pytest.raises(InputError, match="has the field 'txt'; they have body, id"):
        bpe_pipeline.train("a.jsonl", output="run2", vocab_size=260, text_field="txt")
    for name, lines in {  # a few, a field without a value, and one that comes later
        "few.jsonl": '{"body": "text"}\n' * 999 + '{"text": "a"}\n',
        "null.jsonl": '{"text": null}\n' * 2000 + '{"text": "a"}\n',
    }.items():
        Path(name).write_text(lines)
        succeeded(run("count", name, "-o", f"run-{name}"))
