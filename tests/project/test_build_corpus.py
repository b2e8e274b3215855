"""data/build_corpus.py and data/build_debian.py, run from the command line: every text once, whole and in order."""

import gettext
import gzip
import io
import struct
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import succeeded

import bpe_pipeline

DATA = Path(__file__).resolve().parents[2] / "data"
JOINT = b"\n<|endoftext|>\n"


def run(*arguments: object, script: str = "build_corpus.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DATA / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def error_of(*arguments: object, code: int, script: str = "build_corpus.py") -> str:
    """Return the one line with which a script refused."""
    done = run(*arguments, script=script)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    return done.stderr


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, f"w:{path.suffix[1:]}") as out:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A directory of texts, some of which must not become documents."""
    root, word = tmp_path / "texts", "größer"
    for name, text in {
        "a.txt": f"{word}\n".encode(),
        "b/one.py": b"print('one')\n\n",
        "b/two.md": b"two",
        "b/image.png": b"\x89PNG",
        "c.txt.gz": gzip.compress(b"packed away"),
        "empty.txt": b" \n",
        "latin1.txt": word.encode("latin-1"),
        "special.txt": b"has <|endoftext|>",
        ".hidden.txt": b"hidden",
        ".git/notes.txt": b"not for a corpus",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)
    (root / "link.txt").symlink_to(root / "a.txt")
    return root


def test_documents_are_joined_in_order_and_the_rest_is_counted(texts: Path, tmp_path: Path) -> None:
    output, words = tmp_path / "corpus.txt", ["--sources", "", "--add", texts]
    done = succeeded(run(output, *words))
    documents = ["größer".encode(), b"packed away", b"print('one')", b"two"]
    assert output.read_bytes() == JOINT.join(documents)
    for fact in ("4 documents", f"{output.stat().st_size:,} bytes", "3 files left out"):
        assert fact in done.stdout
    assert "--overwrite" in error_of(output, *words, code=2)
    done = succeeded(run(output, *words, "--separator", "<s>", "--max-bytes", "30B", "--overwrite"))
    assert output.read_bytes() == "größer\n<s>\npacked away".encode()
    assert "stopped at --max-bytes" in done.stdout


def test_kernel_archive_and_standard_library_are_read(tmp_path: Path) -> None:
    name = "linux-source-9.9"
    files = {"kernel/fork.c": b"int fork(void);\n", "kernel/head.S": b"mov r0, r1\n", "Makefile": b"all:"}
    packed = archive(tmp_path / f"{name}.tar.xz", {f"{name}/{path}": text for path, text in files.items()})
    succeeded(run(tmp_path / "kernel", "--sources", "kernel", "--kernel", packed))
    assert (tmp_path / "kernel").read_bytes() == b"int fork(void);" + JOINT + b"mov r0, r1"
    succeeded(run(tmp_path / "python", "--sources", "python", "--max-bytes", "300KiB"))
    assert 0 < (tmp_path / "python").stat().st_size <= 300 * 1024


def test_bad_input_is_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("archives/large").mkdir(parents=True)
    for name in ("linux-source-1.tar.xz", "archives/large/gcc.orig.tar.gz"):
        Path(name).write_bytes(b"\x1f\x8b\x08nothing")
    for arguments, code, place in (
        (["--sources", "python,internet"], 2, "internet"),
        (["--sources", "", "--add", "does/not/exist"], 2, "does/not/exist"),
        (["--sources", "", "--add", "empty"], 1, ""),
        (["--sources", "kernel", "--kernel", "linux-source-1.tar.xz"], 1, ""),
    ):
        assert place in error_of(tmp_path / "corpus.txt", *arguments, code=code)
    assert len(list(tmp_path.iterdir())) == 3
    line = error_of("large", tmp_path / "corpus", "--archives", "archives", code=1, script="build_debian.py")
    assert line.startswith("build_debian.py: error: ")


@pytest.mark.filterwarnings("ignore:.* without a byte")
def test_every_text_of_debian_is_a_document_once(tmp_path: Path) -> None:
    texts = {f"src/{number}.c": f"/* größe {number} */\nint f{number};\n" for number in range(60)}
    others = {"src/a.png": b"\x89PNG\0\1", "src/latin.txt": b"\xe9t\xe9", "src/empty.c": b"", "src/s.txt": JOINT}
    inner = archive(tmp_path / "inner.tar.xz", {name: text.encode() for name, text in texts.items()} | others)
    (archives := tmp_path / "archives" / "large").mkdir(parents=True)
    archive(archives.parent / "b.orig.tar.gz", {"b/b.c": b"of another corpus\n"})
    archive(archives / "a.orig.tar.gz", {"a/a.tar.xz": inner.read_bytes(), "a/README": b"read me\n"})
    (archives / "a.orig.tar.gz.asc").write_bytes(b"-----BEGIN PGP SIGNATURE-----")
    corpus = tmp_path / "corpus"
    made = succeeded(run("large", corpus, "--archives", archives.parent, script="build_debian.py"))
    assert made.stdout.startswith(f"{corpus}: 61 documents")
    found = []
    for path in corpus.iterdir():
        if path.suffix == ".parquet":
            found += pq.read_table(path)["text"].to_pylist()
        elif path.suffix == ".txt":
            found += filter(None, path.read_text().split(JOINT.decode()))
    rest = {*texts.values(), "read me\n"} - {*found}
    assert len(found) + len(rest) == 61
    assert 0 < len(rest) < 30  # in JSON Lines
    tokenizer = bpe_pipeline.train(corpus, output=tmp_path / "run", vocab_size=300)
    assert "größe" in tokenizer.decode(tokenizer.encode("größe"))
    assert "61" in (tmp_path / "run" / "report.txt").read_text()
    archive(archives / "c.orig.tar.gz", {"c/copy.c": texts["src/0.c"].encode()})
    one = tmp_path / "corpus.txt"
    made = succeeded(run("large", one, "--archives", archives.parent, script="build_debian.py"))
    assert made.stdout.startswith(f"{one}: 61 documents")
    assert {*one.read_text().split(JOINT.decode())} == {*texts.values(), "read me\n"}


def message_catalogue(translations: Mapping[str, str]) -> bytes:
    """Return a .mo file, of which Python's gettext says that it is one."""
    texts = [*(key.encode() for key in translations), *(text.encode() for text in translations.values())]
    places, start = b"", 28 + 8 * len(texts)
    for text in texts:
        places += struct.pack("<2I", len(text), start)
        start += len(text) + 1
    header = struct.pack("<7I", 0x950412DE, 0, len(translations), 28, 28 + 4 * len(texts), 0, 0)
    made = header + places + b"".join(text + b"\0" for text in texts)
    read = gettext.GNUTranslations(io.BytesIO(made))
    assert [read.gettext(key) for key in translations if key] == [text for key, text in translations.items() if key]
    return made


def test_translations_are_read_out_of_every_format_once_for_a_language(tmp_path: Path) -> None:
    messages = {"": "Content-Type: text/plain; charset=UTF-8\n", "file": "Datei", "open": "Öffnen"}
    files = {
        "usr/share/locale/de/LC_MESSAGES/a.mo": message_catalogue(messages),
        "usr/share/locale/de_AT/LC_MESSAGES/b.mo": message_catalogue({"file": "Datei", "save": "Sichern"}),
        "l10n-fr/browser/menu.ftl": b"# Licence\nquit =\n    Quitter\n",
        "l10n-fr/browser/menu.properties": b"print=Imprimer\n",
        "x/po/it/docs/x/index.docbook": b"<para>Benvenuto &amp; <b>grazie</b></para>",
        "usr/share/doc/x/page.ja.html": "<p>ようこそ</p>".encode(),
        "usr/share/dictd/freedict-eng-nld.dict.dz": gzip.compress(b"house\n  huis\n"),
        "x/main.c": b"int main(void);",
    }
    (archives := tmp_path / "archives" / "translations").mkdir(parents=True)
    archive(archives / "a.orig.tar.gz", files)
    corpus = tmp_path / "corpus.txt"
    made = succeeded(run("translations", corpus, "--archives", archives.parent, script="build_debian.py"))
    documents = {"Datei\nÖffnen", "Sichern", "Quitter", "Imprimer", "Benvenuto & grazie", "ようこそ", "house\n  huis"}
    assert {*corpus.read_text().split(JOINT.decode())} == documents
    assert "7 documents" in made.stdout
    assert "; 5 languages" in made.stdout


def test_of_a_web_page_there_is_what_a_reader_sees_each_paragraph_once(tmp_path: Path) -> None:
    head = "<html><head><title>T</title><style>p {color: red}</style></head><body><nav>Home</nav>"
    pages = {
        "doc/a.html": f"{head}<p>First &amp; <b>best</b>.</p>\n\n<td>one</td><td>two</td><!-- not shown --></body>",
        "doc/b.html": f"{head}<p>First &amp; best.</p>\n\n<pre>x = 1\ny = 2</pre><script>let z = 3</script>",
        "doc/c.txt": "no page",
    }
    (archives := tmp_path / "archives" / "english").mkdir(parents=True)
    archive(archives / "a.orig.tar.gz", {name: text.encode() for name, text in pages.items()})
    corpus = tmp_path / "corpus.txt"
    succeeded(run("english", corpus, "--archives", archives.parent, script="build_debian.py"))
    assert {*corpus.read_text().split(JOINT.decode())} == {"First & best.\none\ntwo", "x = 1\ny = 2"}
