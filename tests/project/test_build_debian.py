"""The corpus of Debian's sources: every text once, in three formats; the same archives give the same documents."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
from command import succeeded

import pipeline

SCRIPT = Path(__file__).parents[2] / "data" / "build_debian.py"
TEXTS = {f"src/{number}.c": f"/* größe {number} */\nint f{number};\n" for number in range(60)}
OTHERS = {"src/a.png": b"\x89PNG\0\1", "src/latin.txt": b"\xe9t\xe9", "src/empty.c": b"", "src/s.txt": b"<|endoftext|>"}


def archive(path, members, compression):
    with tarfile.open(path, f"w:{compression}") as out:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))


def built(home, *options):
    (home / "gcc.orig.tar.gz.asc").write_bytes(b"-----BEGIN PGP SIGNATURE-----")
    archives = map(str, home.glob("*.orig*.tar.*"))
    argv = [sys.executable, str(SCRIPT), str(home / "corpus"), *archives, *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_every_text_is_a_document_once(tmp_path):
    texts = {name: text.encode() for name, text in TEXTS.items()}
    archive(tmp_path / "inner.tar.xz", texts | OTHERS, "xz")
    inner = {"gcc/gcc.tar.xz": (tmp_path / "inner.tar.xz").read_bytes(), "gcc/README": b"read me\n"}
    archive(tmp_path / "gcc.orig.tar.gz", inner, "gz")
    result = succeeded(built(tmp_path, "--files", "10"))
    assert result.stdout.startswith("61 documents")
    found = []
    for path in (tmp_path / "corpus").iterdir():
        if path.suffix == ".parquet":
            found += pq.read_table(path)["text"].to_pylist()
        elif path.suffix == ".txt" and path.stat().st_size:
            found += path.read_bytes().decode().split("<|endoftext|>")
    rest = sorted({*TEXTS.values(), "read me\n"} - {*found})
    assert len(found) + len(rest) == 61
    assert 0 < len(rest) < 30  # in JSON Lines
    tokenizer = pipeline.train(tmp_path / "corpus", output=tmp_path / "run", vocab_size=300)
    assert "größe" in tokenizer.decode(tokenizer.encode("größe"))
    assert "61" in (tmp_path / "run" / "report.txt").read_text()


def test_damaged_archive_is_one_line(tmp_path):
    (tmp_path / "gcc.orig.tar.gz").write_bytes(b"\x1f\x8b\x08nothing")
    result = built(tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("build_debian.py: error: ")
    assert result.stderr.count("\n") == 1
