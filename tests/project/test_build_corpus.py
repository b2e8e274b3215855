"""data/build_corpus.py, run from the command line."""

import gzip
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from command import succeeded

SCRIPT = Path(__file__).resolve().parents[2] / "data" / "build_corpus.py"
JOINT = b"\n<|endoftext|>\n"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def error_of(*arguments: object, code: int) -> str:
    """Return the one line with which the script refused."""
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    return done.stderr


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A directory of texts, some of which must not become documents."""
    root = tmp_path / "texts"
    (root / "b").mkdir(parents=True)
    for name, text in {
        "a.txt": "größer\n".encode(),
        "b/one.py": b"print('one')\n\n",
        "b/two.md": b"two",
        "b/image.png": b"\x89PNG",
        "c.txt.gz": gzip.compress(b"packed away"),
        "empty.txt": b" \n",
        "latin1.txt": "größer".encode("latin-1"),
        "special.txt": b"this holds <|endoftext|> itself",
        ".hidden.txt": b"hidden",
    }.items():
        (root / name).write_bytes(text)
    (root / ".git").mkdir()
    (root / ".git" / "notes.txt").write_bytes(b"not for a corpus")
    (root / "link.txt").symlink_to(root / "a.txt")
    return root


def test_documents_are_joined_in_order_and_the_rest_is_counted(texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "corpus.txt"
    done = succeeded(run(output, "--sources", "", "--add", texts))
    documents = ["größer".encode(), b"packed away", b"print('one')", b"two"]
    assert output.read_bytes() == JOINT.join(documents)
    for fact in ("4 documents", f"{output.stat().st_size:,} bytes", "3 files left out"):
        assert fact in done.stdout


def test_separator_and_size_limit_keep_documents_whole(texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "corpus.txt"
    done = succeeded(run(output, "--sources", "", "--add", texts, "--separator", "<s>", "--max-bytes", "30B"))
    assert output.read_bytes() == "größer\n<s>\npacked away".encode()
    assert "stopped at --max-bytes" in done.stdout


def test_kernel_tree_and_archive_are_read(tmp_path: Path) -> None:
    name = "linux-source-9.9"
    (tmp_path / name / "kernel").mkdir(parents=True)
    files = {"kernel/fork.c": b"int fork(void);\n", "kernel/head.S": b"mov r0, r1\n", "Makefile": b"all:"}
    archive = tmp_path / f"{name}.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for path, text in files.items():
            (tmp_path / name / path).write_bytes(text)
            tar.add(tmp_path / name / path, f"{name}/{path}")
    for number, source in enumerate((tmp_path / name, archive)):
        output = tmp_path / f"corpus-{number}.txt"
        succeeded(run(output, "--sources", "kernel", "--kernel", source))
        assert output.read_bytes() == b"int fork(void);" + JOINT + b"mov r0, r1"


def test_the_standard_library_produces_the_same_bytes_twice(tmp_path: Path) -> None:
    for name in "ab":
        succeeded(run(tmp_path / name, "--sources", "python", "--max-bytes", "300KiB"))
    first, second = ((tmp_path / name).read_bytes() for name in "ab")
    assert first == second
    assert 0 < len(first) <= 300 * 1024
    first.decode("utf-8")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["--max-bytes", "8XB"], "8XB"),
        (["--max-bytes", "0"], "too small"),
        (["--sources", "python,internet"], "internet"),
        (["--sources", ""], "nothing to build from"),
        (["--separator", ""], "--separator"),
        (["--add", "does/not/exist"], "does/not/exist"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_arguments_are_errors_of_one_line(tmp_path: Path, arguments: list[str], place: str) -> None:
    assert place in error_of(tmp_path / "corpus.txt", *arguments, code=2)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_without_overwrite(texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "corpus.txt"
    output.write_text("mine")
    assert "--overwrite" in error_of(output, "--sources", "", "--add", texts, code=2)
    assert output.read_text() == "mine"
    succeeded(run(output, "--sources", "", "--add", texts, "--overwrite"))
    assert output.read_bytes().startswith("größer".encode())


def test_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "linux-source-1.tar.xz"
    broken.write_bytes(b"not an archive")
    for arguments in (["--sources", "", "--add", empty], ["--sources", "kernel", "--kernel", broken]):
        error_of(tmp_path / "corpus.txt", *arguments, code=1)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "linux-source-1.tar.xz"]
