"""What the command refuses: one line, the exit code, and no file is lost."""

import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
import termios
import time
from array import array
from contextlib import suppress
from pathlib import Path

import peers
import pytest
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.base.units import format_bytes, parse_bytes
from bpe_pipeline.run.directory import RUN, Directory

EOT = "<|endoftext|>"


@pytest.mark.parametrize(("words", "code", "named"), [
    ("train absent.txt", 1, "absent.txt"), ("train empty-directory", 1, "empty-directory"),
    ("train empty.txt", 1, "empty"), ("train specials.txt", 1, "special tokens"),
    ("train a.txt --vocab-size 256", 2, "257"), ("train a.txt --pattern a(", 2, "character 2"),
    ("train a.txt --pattern a*", 2, "empty"), ("train a.txt --pattern gtp2", 2, "gpt2"),
    ("train a.txt --workers 0", 2, "--workers"), ("train a.txt --vocab-sise 300", 2, "--vocab-size"),
    ("train a.txt bad.txt --errors strict", 1, r"bad\.txt.*\b1000\b"),
    ("train a.txt --ray=spark", 2, "--ray: expected auto, HOST:PORT or ray://HOST:PORT, not 'spark'"),
    ("train a.txt --config deep.json", 2, "nested too deeply"),
    ("train a.txt --superword-colon", 2, "--superword-colon is no flag; give superword_colon in a file for --config"),
    ("encode a.txt --tokenizer saved --val-size 3", 2, "No such option '--val-size'"),
    ("verify empty-directory", 3, "holds no run"), ("verify a.txt", 3, "a.txt is a file; name a directory"),
    ("verify saved --workers 0", 2, "--workers"),
    ("encode a.txt --tokenizer saved -o -", 2, "--output: expected a file, a directory or a URI .*, not '-'"),
    ("train saved --output saved", 1, "saved is the corpus itself: choose another --output"),
    ("train --config none.json", 2, "expected files, directories or globs"),
    ("train a.txt --vocab-size 5 --dry-run", 2, "at least 257"), ("count a.txt --special-token a", 2, "single byte"),
    ("train a.txt --superword-words 3", 2, "--superword-words means nothing without --superwords-from or"),
    ("train a.txt empty.txt --weight 0 --weight 1", 2, "no input with text has a weight above 0.*; change one"),
    ("extend saved a --add 4", 2, "extend needs --output, a directory for the extended tokenizer"),
    ("prune saved a --keep 270", 2, "prune needs --output, a directory for the pruned tokenizer"),
    ("combine a.txt", 2, "a.txt is neither a run nor a file of counts: name the directory of a run, or FILE.parquet"),
    ("merge a.txt", 1, "a.txt is a file; name a directory"), ("merge empty-directory", 1, "run.json"),
    ("encode --text a --tokenizer empty-directory", 1, "tokenizer.json"),
    ("encode --tokenizer empty-directory", 2, "--text"),
    ("encode --text a --tokenizer odd", 1, "odd/tokenizer.json cannot be read: Is a directory; give a"),
    ("encode empty-directory --tokenizer saved", 1, "empty-directory cannot be read: Is a directory; name a"),
    ("encode a.txt --tokenizer saved --shuffle", 2, "--shuffle is for a corpus: give --output, the dir"),
    ("encode a.txt --tokenizer saved -o s --shuffle 7", 2, "--shuffle is a switch.*: give --shuffle --seed 7$"),
    ("decode 1", 2, "Missing option '--tokenizer'"), ("encode a.txt -o s", 2, "Missing option '--tokenizer'"),
    ("decode 1 x --tokenizer saved", 1, "'x' is not a token id; decode takes whole numbers"),
    ("encode --text a --tokenizer " + "x" * 300, 1, "cannot be read: File name too long"),
])  # fmt: skip
def test_wrong_input_is_one_line(tmp_path: Path, words: str, code: int, named: str) -> None:
    files = {"a.txt": b"some text to learn from", "empty.txt": b"", "specials.txt": EOT.encode() * 3}
    files |= {"bad.txt": b"x" * 1000 + b"\xff" + b"y" * 10, "deep.json": b"[" * 100_000, "none.json": b'{"inputs": []}'}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name in ("empty-directory", "odd/tokenizer.json"):
        (tmp_path / name).mkdir(parents=True)
    bpe_pipeline.Tokenizer.from_merges([], [EOT]).save(tmp_path / "saved")
    assert re.search(named, refused(run(*words.split(), cwd=tmp_path), code))


def test_unusable_output_is_one_line(text: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "read-only").mkdir(stat.S_IRUSR | stat.S_IXUSR)
    for output in ("file", "/dev/null/run", *["read-only/run"] * (os.geteuid() != 0)):  # root may write everywhere
        assert output in refused(run("train", text, "--output", output, cwd=tmp_path), 1)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(("name", "value", "reason"), [
    ("chunks", [{"spans": []}], "chunk 0 is empty"),
    ("chunks", [{"spans": [[7, 0, "1", None]]}], r"chunks\[0\]\.spans\[0\]\[2\]: Expected `int`, got `str`"),
    ("texts", [{"name": "a", "weight": [1, 0]}], "a weight is no fraction"),
    ("source", {"kind": "combined", "digest": "", "description": ""}, "it has both a source and files"),
    ("files", [{"path": "a"}], r"files\[0\]: Object missing required field `size`"),
    ("counting", None, "is damaged"), ("format_version", 99, "99"),
])  # fmt: skip
def test_damaged_manifest_is_one_line(trained: Path, tmp_path: Path, name: str, value: object, reason: str) -> None:
    document = json.loads((trained / "run.json").read_text())
    del document["digest"]  # made again, of the damaged values
    Directory(tmp_path, RUN).write_manifest(document | {name: value})
    assert re.search(rf"run\.json.*{reason}.*--overwrite", refused(run("merge", tmp_path), 1))


def is_alive(group: int) -> bool:
    """Whether a group of processes has any."""
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("number", "code", "to_all"), [
    (signal.SIGINT, 130, True), (signal.SIGTERM, 143, False), (signal.SIGTERM, 143, True),
])  # fmt: skip
def test_a_signal_during_work_is_resumable(tmp_path: Path, number: int, code: int, to_all: bool) -> None:
    """The exit code of the signal and one line soon, and no worker is left; the same command resumes."""
    (tmp_path / "big.txt").write_text(peers.generated_text(3, 20_000) * 60)
    command = [sys.executable, "-P", "-m", "bpe_pipeline", "train", "big.txt", "--output", "run", "--workers", "1"]
    process = subprocess.Popen(
        [*command, "--chunk-size", "1MiB", "--vocab-size", "5000"],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    counts = tmp_path / "run" / "counts"
    while not (counts.is_dir() and len(list(counts.glob("0*.parquet"))) >= 2):  # so the first is known to be done
        assert process.poll() is None
        time.sleep(0.005)
    (os.killpg if to_all else os.kill)(process.pid, number)
    started = time.monotonic()
    _, stderr = process.communicate(timeout=20)
    assert time.monotonic() - started < 2
    assert process.returncode == code
    assert [line for line in stderr.splitlines() if "error" in line or "warning" in line] == [stderr.splitlines()[-1]]
    assert "Traceback" not in stderr
    kept = re.search(r"finished is kept \((.+) of (.+) counted\): the same command resumes", stderr)
    assert kept is not None, stderr
    assert kept[2] == format_bytes((tmp_path / "big.txt").stat().st_size)
    assert 900_000 < parse_bytes(kept[1]) < parse_bytes(kept[2])
    while is_alive(process.pid):  # a worker ends with its pipe
        assert time.monotonic() - started < 5
        time.sleep(0.005)
    succeeded(run("train", "big.txt", "--output", "run", "--vocab-size", 5000, cwd=tmp_path))


@pytest.mark.parametrize(
    "words", ["count --files-from - --output run", "encode - --tokenizer {0}", "decode --tokenizer {0}"]
)
def test_sigterm_ends_a_command_that_waits_for_input(trained: Path, tmp_path: Path, words: str) -> None:
    command = [sys.executable, "-P", "-m", "bpe_pipeline", *words.format(trained).split()]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, **streams)
    assert process.stdin is not None
    process.stdin.write(b"259")
    process.stdin.flush()
    unread = array("i", [1])
    while unread[0]:  # so the command has started to read
        assert process.poll() is None
        time.sleep(0.005)
        fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
    process.terminate()
    assert process.stderr is not None
    assert b"error: interrupted" in process.stderr.read().splitlines()[-1]
    assert process.wait() == 143
    process.stdin.close()
    process.stderr.close()


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `bpe` is the command."""
    script = script.replace("bpe", f"'{sys.executable}' -P -m bpe_pipeline")
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=cwd, check=False)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("script", "code", "named"), [
    *((f"bpe {words} >/dev/full", 1, "standard output cannot be written: No space left on device") for words in (
        "--version", "--help", "train --dry-run", "train a.txt --vocab-size 260 --output run --quiet",
        "train a.txt --vocab-size 260 --output run --log-json")),
    ("mkdir d; cd d; rmdir ../d; bpe train a.txt --output $OLDPWD/x", 1, "the working directory is gone (No such"),
    *(("bpe train ''", 2, "INPUT"), (r"bpe train $'caf\xe9.txt'", 2, "rename it")),
    *((rf"bpe train a.txt {flag} $'caf\xe9'", 2, flag) for flag in ("--output", "--pattern", "--special-token")),
])  # fmt: skip
def test_unusable_streams_and_texts_are_one_line(tmp_path: Path, script: str, code: int, named: str) -> None:
    (tmp_path / "a.txt").write_text("some text to learn from")
    assert named in refused(shell(script, tmp_path), code)


def test_closed_streams_do_no_harm(trained: Path, text: Path, tmp_path: Path) -> None:
    assert shell(f"bpe train '{text}' --vocab-size 300 --output run <&- >&- 2>&-", tmp_path).returncode == 0
    assert (tmp_path / "run/tokenizer/tokenizer.json").exists()
    for command in ("encode", "decode"):
        words = "-" if command == "encode" else ""
        line = refused(shell(f"bpe {command} --tokenizer '{trained}' {words} <&-", tmp_path), 1)
        assert "standard input is closed" in line
    assert shell("bpe --version 2>&- | cat", tmp_path).stdout.startswith("bpe-pipeline")
    left = shell("bpe train --help | true; exit ${PIPESTATUS[0]}", tmp_path)
    assert left.stderr == ""


def test_control_c_in_a_callback_is_not_lost() -> None:
    """Python's import system has such callbacks; what they raise is printed, and the program would go on."""
    script = (
        "import sys, os, signal, time, weakref; import bpe_pipeline.__main__ as m\n"
        "class Thing: pass\n"
        "def die(_): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.1)\n"
        "def work(words): thing = Thing(); kept = weakref.ref(thing, die); del thing; time.sleep(5); return 0\n"
        "import bpe_pipeline.cli; bpe_pipeline.cli.run = work; sys.exit(m.main())"
    )
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 130
    assert result.stderr == "bpe-pipeline: error: interrupted; what is finished is kept: the same command resumes\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay_s", [0.03, 0.06, 0.1, 0.15, 0.25])
def test_a_signal_during_start_prints_no_traceback(tmp_path: Path, delay_s: float, number: signal.Signals) -> None:
    """The interpreter's own start cannot be guarded: the delay starts when the package is imported."""
    script = (
        "import sys, os, threading, signal, time; import bpe_pipeline.__main__ as m;"
        "sys.argv = ['x', 'train', '--dry-run'];"
        f"threading.Thread(target=lambda: (time.sleep({delay_s}), os.kill(os.getpid(), {number:d}))).start();"
        "sys.exit(m.main())"
    )
    command = [sys.executable, "-P", "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Traceback" not in result.stderr
    assert result.returncode in (128 + number, 0, -number)
