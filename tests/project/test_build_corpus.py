"""data/build_corpus.py, run from the command line."""

import gzip
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "data" / "build_corpus.py"
JOINT = b"\n<|endoftext|>\n"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A directory of texts, some of which must not become documents."""
    root = tmp_path / "texts"
    (root / "b").mkdir(parents=True)
    (root / "a.txt").write_bytes("größer\n".encode())
    (root / "b" / "one.py").write_bytes(b"print('one')\n\n")
    (root / "b" / "two.md").write_bytes(b"two")
    (root / "b" / "image.png").write_bytes(b"\x89PNG")
    (root / "c.txt.gz").write_bytes(gzip.compress(b"packed away"))
    (root / "empty.txt").write_bytes(b" \n")
    (root / "latin1.txt").write_bytes("größer".encode("latin-1"))
    (root / "special.txt").write_bytes(b"this holds <|endoftext|> itself")
    (root / ".hidden.txt").write_bytes(b"hidden")
    (root / ".git").mkdir()
    (root / ".git" / "notes.txt").write_bytes(b"not for a corpus")
    (root / "link.txt").symlink_to(root / "a.txt")
    return root


def test_documents_are_joined_in_order_and_the_rest_is_counted(texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "corpus.txt"
    done = run(output, "--sources", "", "--add", texts)
    assert done.returncode == 0, done.stderr
    documents = ["größer".encode(), b"packed away", b"print('one')", b"two"]
    assert output.read_bytes() == JOINT.join(documents)
    assert "4 documents" in done.stdout
    assert f"{output.stat().st_size:,} bytes" in done.stdout
    assert "3 files left out" in done.stdout


def test_separator_and_size_limit_keep_documents_whole(texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "corpus.txt"
    done = run(output, "--sources", "", "--add", texts, "--separator", "<s>", "--max-bytes", "30B")
    assert done.returncode == 0, done.stderr
    assert output.read_bytes() == "größer\n<s>\npacked away".encode()
    assert "stopped at --max-bytes" in done.stdout


def test_kernel_tree_and_archive_are_read(tmp_path: Path) -> None:
    tree = tmp_path / "linux-source-9.9"
    (tree / "kernel").mkdir(parents=True)
    (tree / "Makefile").write_bytes(b"all:")
    (tree / "kernel" / "fork.c").write_bytes(b"int fork(void);\n")
    (tree / "kernel" / "head.S").write_bytes(b"mov r0, r1\n")
    archive = tmp_path / "linux-source-9.9.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for name in ("kernel/fork.c", "kernel/head.S", "Makefile"):
            body = (tree / name).read_bytes()
            member = tarfile.TarInfo(f"linux-source-9.9/{name}")
            member.size = len(body)
            tar.addfile(member, BytesIO(body))
    for number, path in enumerate((tree, archive)):
        output = tmp_path / f"corpus-{number}.txt"
        done = run(output, "--sources", "kernel", "--kernel", path)
        assert done.returncode == 0, done.stderr
        assert output.read_bytes() == b"int fork(void);" + JOINT + b"mov r0, r1"


def test_the_standard_library_produces_the_same_bytes_twice(tmp_path: Path) -> None:
    outputs = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for output in outputs:
        done = run(output, "--sources", "python", "--max-bytes", "300KiB")
        assert done.returncode == 0, done.stderr
    first, second = (output.read_bytes() for output in outputs)
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
    output = tmp_path / "corpus.txt"
    done = run(output, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert place in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_without_overwrite(texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "corpus.txt"
    output.write_text("mine")
    refused = run(output, "--sources", "", "--add", texts)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert output.read_text() == "mine"
    assert run(output, "--sources", "", "--add", texts, "--overwrite").returncode == 0
    assert output.read_bytes().startswith("größer".encode())


def test_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "linux-source-1.tar.xz"
    broken.write_bytes(b"not an archive")
    for arguments in (["--sources", "", "--add", empty], ["--sources", "kernel", "--kernel", broken]):
        done = run(tmp_path / "corpus.txt", *arguments)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "linux-source-1.tar.xz"]
