#!/usr/bin/env python3
"""Download public packages of Debian with apt and build a corpus of the benchmarks from them, each with one command.

    python data/build_debian.py kernel kernel.txt                1.25 GB of C: the source of Linux
    python data/build_debian.py multilingual multilingual.txt    translations and documentation in many languages
    python data/build_debian.py english english.txt              web pages in English: the HTML manuals of programs
    python data/build_debian.py large debian-10gb                10 GB of code and translations, in three formats
    python data/build_debian.py large large.txt                  the same as one text, shuffled, each file once

Packages come from the sources that apt is configured with; apt's lists and the archives are kept in a directory of
their own, nothing is installed, and root is not needed. The same archives give the same bytes. `--archives DIR` keeps
the archives in a folder of DIR with the name of the corpus, or builds from those that are there. Needs pyarrow for
`large`, which bpe-pipeline brings along.
"""

import argparse
import gzip
import hashlib
import html
import io
import json
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

SEPARATOR = "<|endoftext|>"
ARCHIVE = re.compile(r"\.tar\.(xz|gz|bz2)$")
NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
ROWS = 2000  # of a row group
FILES, MOST_BYTES = 33, 32 << 20
KERNEL = (".txt", ".rst", ".md", ".c", ".h", ".s", ".dts", ".dtsi", ".py", ".sh", ".rs")
PACKAGES = tomllib.loads(Path(__file__).with_name("debian.toml").read_text())  # of a corpus: patterns of packages

# What holds texts in a language: gettext's .po, Chromium's .xtb, Qt's .ts, MediaWiki's JSON; man pages, HTML, Mallard.
MESSAGE = re.compile(rb'^msgstr(?:\[\d+\])? ((?:"(?:[^"\\\n]|\\.)*"\n?)+)', re.MULTILINE)
TRANSLATION = re.compile(rb"<translation\b[^>]*(?<!/)>(.*?)</translation>", re.DOTALL)
LANGUAGE = re.compile(rb'(?:"Language: |<translationbundle lang="|<TS [^>]*language=")([A-Za-z]{2,3})')
PAGES = re.compile(
    r"/(?:man|html|help|installation-guide-amd64)/([a-z]{2,3})(?:[_@.-][\w@.-]+)?/.*\.(?:\d|html|page)(?:\.gz)?$"
)
# What `translations` reads besides: gettext's .mo, Mozilla's Fluent and properties, DocBook, pages named by language,
# FreeDict's dictionaries.
CATALOGUE = re.compile(r"/([a-z]{2,3})(?:[_@][\w@]+)?/LC_MESSAGES/[^/]+\.mo$")
MOZILLA = re.compile(r"^l10n-([a-z]{2,3})[-/].*\.(?:ftl|properties)$")
VALUE = re.compile(r"^(?:[\w.-]+ *=| +) *(.*\w.*)$", re.MULTILINE)
PAGE = re.compile(
    r"/(?:po|guide|help|manual|HTML)/([a-z]{2,3})(?:[_@][\w@]+)?/.*\.docbook$|\.([a-z]{2})\.html(?:\.gz)?$"
)
DICTIONARY = re.compile(r"/freedict-([a-z]{3})-[a-z]{3}\.dict\.dz$")
NOT_READ = re.compile(r"<(script|style|head|nav)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
BLOCK_END = re.compile(r"</(?:td|th|tr|li|dt|dd|p|div|h\d)\s*>|<br\b[^>]*>", re.IGNORECASE)
TAG, ESCAPE = re.compile(r"<[^<>]*>"), re.compile(r"\\(.)")
Document = tuple[str, str]  # name and text
Write = Callable[[str], None]


class CorpusError(Exception):
    """The corpus cannot be built; the message is the one line that the user reads."""


def download(corpus: str, directory: Path) -> None:
    """Download the packages of a corpus with apt, from copies of its sources that also name source packages."""
    for part in ("lists/partial", "sources"):
        (directory / "apt" / part).mkdir(parents=True, exist_ok=True)
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.suffix in (".list", ".sources") and path.is_file():
            text = re.sub(r"^Types:.*$", "Types: deb deb-src", path.read_text(), flags=re.MULTILINE)
            text = re.sub(r"^deb (.*)$", r"deb \1\ndeb-src \1", text, flags=re.MULTILINE)
            (directory / "apt" / "sources" / path.name).write_text(text)
    places = {"Etc::sourcelist": "/dev/null", "Etc::sourceparts": directory / "apt" / "sources"}
    places |= {"State::lists": directory / "apt" / "lists"}
    options = [f"-oDir::{name}={Path(place).resolve()}" for name, place in places.items()]

    def apt(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*words[:1], *options, *words[1:]]
        return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)

    apt("apt-get", "-qq", "update")  # where one of the sources does not answer, the others may have the packages
    packages = PACKAGES[corpus]
    names = apt("apt-cache", "pkgnames").stdout.split()
    wanted = [name for pattern in packages["binaries"] for name in sorted(names) if Path(name).match(pattern)]
    done = apt("apt-get", "-qq", "download", *wanted)
    if wanted and done.returncode:
        raise CorpusError(f"apt cannot download a package: {done.stderr.strip().splitlines()[-1]}")
    for name in packages["sources"]:
        table = apt("apt-cache", "madison", name).stdout.splitlines()
        versions = {row.split("|")[1].strip() for row in table if row.rstrip().endswith("Sources")}
        newest = sorted(versions, key=lambda one: [int(n) for n in re.findall(r"\d+", one)], reverse=True)
        for version in newest:  # a mirror may have the list of a version and not yet, or no longer, its archive
            done = apt("apt-get", "-qq", "source", "--download-only", "--tar-only", f"{name}={version}")
            if done.returncode == 0:
                break
        else:
            raise CorpusError(f"{name}: apt can download no version of its source; is there one in apt's sources?")


def members(archive: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Return name and content of every file in an archive, also in archives within it."""
    with tarfile.open(fileobj=archive, mode="r|*") as found:
        for member in found:
            file = found.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            if ARCHIVE.search(member.name):
                yield from members(io.BytesIO(file.read()))
            elif 0 < member.size <= MOST_BYTES:
                yield member.name, file.read()


def files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Return name and content of every file in an archive or in a binary package."""
    if path.suffix != ".deb":
        with path.open("rb") as archive:
            yield from members(archive)
        return
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(path)], stdout=subprocess.PIPE) as unpacked:
        yield from members(unpacked.stdout)  # type: ignore[arg-type]


def code(archives: list[Path], suffixes: tuple[str, ...] = ("",)) -> Iterator[Document]:
    """Return every file that is UTF-8 without control characters and the separator."""
    for path in archives:
        for name, data in files(path):
            if name.lower().endswith(suffixes) and NO_TEXT.search(data) is None and SEPARATOR.encode() not in data:
                try:
                    yield name, data.decode()
                except UnicodeDecodeError:
                    continue


def strings(name: str, data: bytes) -> tuple[str, list[str]]:
    """Return the language of a file and its texts; no language: the file is none of those that hold texts in one."""
    page, kind = PAGES.search(f"/{name}"), name.rpartition(".")[2]
    if page:
        text = (gzip.decompress(data) if kind == "gz" else data).decode()
        kept = (line for line in text.splitlines() if not line.startswith('.\\"'))
        return page[1], [html.unescape(TAG.sub("", line)) for line in kept]
    if kind == "json" and "/i18n/" in name and "/qqq" not in name:
        values = json.loads(data).values()
        return name.rpartition("/")[2][:-5].partition("-")[0], [one for one in values if isinstance(one, str)]
    found = LANGUAGE.search(data, 0, 20_000) if kind in ("po", "xtb", "ts") else None
    if found is None:
        return "", []
    if kind == "po":
        joined = ("".join(line[1:-1] for line in entry[1].decode().splitlines()) for entry in MESSAGE.finditer(data))
        texts = [ESCAPE.sub(lambda one: {"n": "\n", "t": "\t"}.get(one[1], one[1]), one) for one in joined]
        texts = [one for one in texts if "\nContent-Type: text" not in one]
    else:
        texts = [html.unescape(one[1].decode()) for one in TRANSLATION.finditer(data)]
    return found[1].decode().lower(), [TAG.sub("", one) for one in texts]


def catalogue(data: bytes) -> list[str]:
    """Return the translations in a .mo file of little-endian numbers."""
    number, _, table = struct.unpack_from("<3I", data, 8)
    places = struct.iter_unpack("<2I", data[table : table + 8 * number])
    texts = (data[start : start + size].decode() for size, start in places)
    return [TAG.sub("", form) for text in texts if "Content-Type: text" not in text for form in text.split("\0")]


def more_strings(name: str, data: bytes) -> tuple[str, list[str]]:
    """Return the language of a file and its texts, as `strings` does, also of what only `translations` has."""
    if found := CATALOGUE.search(name):
        return found[1], catalogue(data)
    if found := MOZILLA.search(name):
        return found[1], VALUE.findall(data.decode())
    packed = name.endswith(("gz", ".dz"))
    if found := PAGE.search(f"/{name}"):
        text = (gzip.decompress(data) if packed else data).decode()
        return found[1] or found[2], [html.unescape(TAG.sub("", one)) for one in text.split("\n\n")]
    if found := DICTIONARY.search(name):
        return found[1], gzip.decompress(data).decode().splitlines()
    return strings(name, data)


def web_page(name: str, data: bytes) -> tuple[str, list[str]]:
    """Return English, and the paragraphs that a reader of an HTML page sees; no language: no HTML."""
    if not name.endswith((".html", ".htm", ".html.en")):
        return "", []
    shown = html.unescape(TAG.sub("", BLOCK_END.sub("\n", NOT_READ.sub("", data.decode()))))
    lines = "\n".join(line.rstrip() for line in shown.splitlines())
    return "en", [one for one in lines.split("\n\n") if one.strip()]


def languages(
    archives: list[Path], count: Counter[str], read: Callable[[str, bytes], tuple[str, list[str]]]
) -> Iterator[Document]:
    """Return the texts of each file in a language, each text once for a language; counts bytes by language."""
    seen: set[bytes] = set()
    for path in archives:
        for name, data in files(path):
            try:
                language, texts = read(name, data)
            except (UnicodeDecodeError, ValueError, AttributeError, EOFError, OSError, struct.error):
                continue  # not what its name says
            new = []
            for text in texts:
                key = hashlib.blake2b(f"{language} {text}".encode(), digest_size=8).digest()
                if text.strip() and SEPARATOR not in text and key not in seen:
                    seen.add(key)
                    new.append(text.strip("\n"))
            if language and new:
                joined = "\n".join(new)
                count[language] += len(joined.encode())
                yield f"{path.name}/{name}", joined


def text_writer(path: Path, closing: ExitStack) -> Write:
    """Write documents with the separator between them."""
    out = closing.enter_context(path.open("wb"))
    return lambda text: void(out.write(f"\n{SEPARATOR}\n{text}".encode() if out.tell() else text.encode()))


def jsonl_writer(path: Path, closing: ExitStack) -> Write:
    """Write records, compressed with zstd."""
    import pyarrow as pa

    out = closing.enter_context(pa.CompressedOutputStream(str(path), "zstd"))
    return lambda text: void(out.write(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n"))


def parquet_writer(path: Path, closing: ExitStack) -> Write:
    """Write rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("text", pa.string())])
    out = closing.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
    rows: list[str] = []

    def flush() -> None:
        if rows:
            out.write_table(pa.table({"text": rows}, schema=schema))
        rows.clear()

    closing.callback(flush)

    def write(text: str) -> None:
        rows.append(text)
        if len(rows) == ROWS:
            flush()

    return write


def void(_: Any) -> None:
    """Drop a value."""


def hash_of(name: str) -> int:
    """Return a number that a document's name decides."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="replace")).digest()[:8], "big")


def shuffled(documents: Iterator[Document], spool: IO[bytes]) -> Iterator[Document]:
    """Return the documents in the order of their hashes, so that a prefix has a share of everything."""
    found = []
    for name, text in documents:
        data = text.encode()
        found.append((hash_of(name), name, spool.tell(), len(data)))
        spool.write(data)
    for _, name, start, size in sorted(found):
        spool.seek(start)
        yield name, spool.read(size).decode()


def distinct(documents: Iterator[Document]) -> Iterator[Document]:
    """Return the first of the documents that have the same text."""
    seen: set[bytes] = set()
    for name, text in documents:
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if key not in seen:
            seen.add(key)
            yield name, text


def build(corpus: str, output: Path, archives: list[Path], max_bytes: int | None) -> str:
    """Write the corpus; returns what it holds, in one line."""
    count: Counter[str] = Counter()
    with ExitStack() as closing:
        in_formats = corpus == "large" and output.suffix != ".txt"
        if in_formats:
            output.mkdir(parents=True, exist_ok=True)
            kinds = [(text_writer, ".txt")] * 3 + [(jsonl_writer, ".jsonl.zst"), (parquet_writer, ".parquet")]
            kinds = [kinds[index % len(kinds)] for index in range(FILES)]
            writers = [kind(output / f"{index:02d}{suffix}", closing) for index, (kind, suffix) in enumerate(kinds)]
            documents = code(archives)
        else:
            writers = [text_writer(output, closing)]
            sources = {
                "kernel": lambda: code(archives, KERNEL),
                "english": lambda: languages(archives, count, web_page),
                "large": lambda: distinct(code(archives)),
                "multilingual": lambda: languages(archives, count, strings),
                "translations": lambda: languages(archives, count, more_strings),
            }
            documents = sources[corpus]()
        if corpus != "kernel" and not in_formats:
            documents = shuffled(documents, closing.enter_context(tempfile.TemporaryFile(dir=output.parent)))
        number = size = 0
        for name, text in documents:
            writers[hash_of(name) % len(writers)](text)
            number, size = number + 1, size + len(text.encode())
            if max_bytes is not None and size >= max_bytes:
                break
    if not number:
        raise CorpusError("no document in the archives; leave out --archives to download them")
    some = f"; {len(count)} languages, {sum(n >= 10**6 for n in count.values())} of them with a megabyte or more"
    return f"{output}: {number:,} documents, {size:,} bytes{some if count else ''}"


def size(text: str) -> int:
    """`250MB` -> 250000000."""
    match = re.fullmatch(r"(\d+)([KMG]?)B?", text.upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 250MB")
    return int(match[1]) * 1000 ** " KMG".index(match[2] or " ")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=PACKAGES)
    parser.add_argument("output", type=Path, help="a file; for `large` a directory, or a file that ends in .txt")
    parser.add_argument("--archives", type=Path, help="keep archives here; what is here is not downloaded")
    parser.add_argument("--max-bytes", type=size, metavar="SIZE", help="of text, such as 250MB; documents are whole")
    asked = parser.parse_args()
    home = asked.archives or Path(tempfile.mkdtemp(prefix=".archives-", dir=asked.output.resolve().parent))
    directory = home / asked.corpus
    try:
        directory.mkdir(parents=True, exist_ok=True)
        patterns = ("*.orig*.tar.?z*", "*.deb")  # the signatures of archives end with .asc
        if not any(found for pattern in patterns for found in directory.glob(pattern)):
            download(asked.corpus, directory)
        archives = [one for pattern in patterns for one in sorted(directory.glob(pattern)) if one.suffix != ".asc"]
        done = build(asked.corpus, asked.output, archives, asked.max_bytes)
    except (
        CorpusError,
        OSError,
        EOFError,
        TypeError,
        tarfile.TarError,
    ) as error:  # tarfile raises four of them for damage
        sys.stderr.write(f"build_debian.py: error: {error or type(error).__name__}\n")
        return 1
    finally:
        if asked.archives is None:
            shutil.rmtree(home, ignore_errors=True)
    sys.stdout.write(f"{done}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
