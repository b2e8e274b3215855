#!/usr/bin/env python3
"""Builds one large text corpus from what this machine already has: standard library only, no network.

    python data/build_corpus.py corpus.txt --max-bytes 1GB

Documents are whole files (but for newlines at their end), joined by `<|endoftext|>` on a line of its own.
The order is fixed (sources as named, a directory's files before its subdirectories, each sorted; archives in
their own order), so the same machine produces the same bytes. The output appears under its name only when it is
complete. Files that are empty, not UTF-8, or that hold the separator themselves are left out and counted.
"""

import argparse
import gzip
import os
import re
import signal
import site
import sys
import sysconfig
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

UNITS = {"": 1, "B": 1}
UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", start=1)}
UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGT", start=1)}

PROSE = frozenset({".txt", ".rst", ".md"})
PYTHON = PROSE | {".py", ".pyi"}
KERNEL = PROSE | {".c", ".h", ".s", ".dts", ".dtsi", ".py", ".sh", ".rs"}
DOC = PROSE | {".html", ".tex", ".texi", ".info"}
DOC_NAMES = ("readme", "copyright", "changelog", "news", "todo", "authors", "faq")
SITE_DIRECTORIES = frozenset({"site-packages", "dist-packages"})

USR_SRC = Path("/usr/src")
USR_SHARE_DOC = Path("/usr/share/doc")


class CorpusError(Exception):
    """The corpus cannot be built; the message is the one line that the user reads."""


@dataclass
class Tally:
    """What was written and what was left out."""

    documents: int = 0
    bytes: int = 0
    by_source: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    limit_reached: bool = False


def parse_size(text: str) -> int:
    """`64MiB` -> 67108864, `1GB` -> 1000000000, `5000` -> 5000 (bytes)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].upper() not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 500MB, 1GB, 64MiB or a number of bytes")
    size = int(float(match[1]) * UNITS[match[2].upper()])
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is too small for one document; choose a larger size")
    return size


def walk(root: Path, wanted: Callable[[str], bool], skip: frozenset[str] = frozenset()) -> Iterator[bytes]:
    """Contents of the files under `root` wanted by name, in a fixed order; no links, nothing hidden."""
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = sorted(d for d in subdirectories if d[0] not in "._" and d not in skip)
        for name in sorted(names):
            path = Path(directory, name)
            if name[0] == "." or not wanted(name) or path.is_symlink() or not path.is_file():
                continue
            try:
                yield gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
            except (OSError, EOFError, zlib.error):
                yield b""  # unreadable: left out, and counted as such


def with_suffix(suffixes: frozenset[str]) -> Callable[[str], bool]:
    """A predicate on file names: one of the suffixes in any case, optionally followed by `.gz`?"""
    return lambda name: PurePosixPath(name.lower().removesuffix(".gz")).suffix in suffixes


def is_doc(name: str) -> bool:
    """Is this a text file of the kind that packages put under /usr/share/doc, compressed or not?"""
    return with_suffix(DOC)(name) or name.lower().startswith(DOC_NAMES)


def python_documents() -> Iterator[bytes]:
    """Sources and texts of the standard library, then of the installed packages."""
    roots = [Path(sysconfig.get_path("stdlib"))]
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    roots += sorted(Path(p).resolve() for p in packages)
    for root in dict.fromkeys(roots):
        yield from walk(root, with_suffix(PYTHON), SITE_DIRECTORIES)


def kernel_trees(base: Path = USR_SRC) -> list[Path]:
    """Unpacked kernel sources, and archives of those that are not unpacked: one path for each version."""
    found = {p.name: p for p in sorted(base.glob("linux-source-*.tar.xz"))}
    found = {name.removesuffix(".tar.xz"): p for name, p in found.items()}
    found |= {p.name: p for p in sorted(base.glob("linux-source-*")) if p.is_dir() and (p / "Kconfig").exists()}
    return [found[name] for name in sorted(found)]


def kernel_documents(path: Path) -> Iterator[bytes]:
    """Sources and texts of one kernel, from an unpacked tree or streamed from its .tar.xz."""
    wanted = with_suffix(KERNEL)
    if path.is_dir():
        yield from walk(path, wanted)
        return
    try:
        with tarfile.open(path, mode="r|*") as archive:
            for member in archive:
                if member.isfile() and wanted(member.name):
                    file = archive.extractfile(member)
                    yield file.read() if file else b""
    except (OSError, EOFError, TypeError, tarfile.TarError) as error:
        raise CorpusError(f"{path}: cannot be read as an archive ({error}); fetch the package again") from error


def sources(arguments: argparse.Namespace) -> Iterator[tuple[str, Iterator[bytes]]]:
    """(name, documents) for each requested source, in the requested order."""
    for name in arguments.sources:
        if name == "python":
            yield name, python_documents()
        elif name == "kernel":
            for tree in arguments.kernel or kernel_trees():
                yield name, kernel_documents(tree)
        elif name == "doc" and USR_SHARE_DOC.is_dir():
            yield name, walk(USR_SHARE_DOC, is_doc)
    for path in arguments.add:
        yield (
            str(path),
            walk(path, with_suffix(PYTHON | KERNEL | DOC)) if path.is_dir() else iter([path.read_bytes()]),
        )


def is_document(text: bytes, separator: bytes) -> bool:
    """May this be one document of the corpus?"""
    if not text.strip() or separator in text:
        return False
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def write(out: IO[bytes], arguments: argparse.Namespace) -> Tally:
    """Writes documents until the sources or `--max-bytes` end; whole documents only."""
    separator = arguments.separator.encode("utf-8")
    joint = b"\n" + separator + b"\n"
    tally = Tally()
    for name, documents in sources(arguments):
        for text in documents:
            if not is_document(text, separator):
                tally.left_out += 1
                continue
            block = (joint if tally.documents else b"") + text.rstrip(b"\n")
            if arguments.max_bytes is not None and tally.bytes + len(block) > arguments.max_bytes:
                tally.limit_reached = True
                return tally
            out.write(block)
            tally.documents += 1
            tally.bytes += len(block)
            tally.by_source[name] = tally.by_source.get(name, 0) + len(block)
    return tally


def build(arguments: argparse.Namespace) -> Tally:
    """Write to a temporary file next to the output, flush it to disk, rename it: the output is complete or absent."""
    output: Path = arguments.output
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{output.name}.", suffix=".part", dir=output.parent)
    except OSError as error:
        raise CorpusError(f"{output.parent}: cannot write there ({error.strerror}); choose another place") from error
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as out:
            tally = write(out, arguments)
            out.flush()
            os.fsync(out.fileno())
        if not tally.documents:
            raise CorpusError("no document found (or none below --max-bytes); name a directory of texts with --add")
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(output)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return tally


class OneLineParser(argparse.ArgumentParser):
    """Reports a bad argument in one line."""

    def error(self, message: str) -> NoReturn:
        """One line on stderr, exit code 2."""
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Reads and checks the command line; everything that can be checked before writing is checked here."""
    parser = OneLineParser(prog="build_corpus.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("output", type=Path, help="the file to write")
    parser.add_argument("--max-bytes", type=parse_size, metavar="SIZE", help="stop before this size, such as 1GB")
    parser.add_argument("--separator", default="<|endoftext|>", help="separates documents (default: %(default)s)")
    parser.add_argument(
        "--sources",
        default="python,kernel,doc",
        help="what to take, in this order: python, kernel (/usr/src/linux-source-*), doc (/usr/share/doc); "
        "may be empty with --add (default: %(default)s)",
    )
    parser.add_argument(
        "--kernel",
        type=Path,
        action="append",
        metavar="PATH",
        help="a kernel tree or .tar.xz lying elsewhere",
    )
    parser.add_argument(
        "--add",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a directory or file of your own",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUTPUT if it exists")
    arguments = parser.parse_args(argv)
    arguments.sources = [name.strip() for name in arguments.sources.split(",") if name.strip()]
    unknown = [name for name in arguments.sources if name not in ("python", "kernel", "doc")]
    if unknown:
        parser.error(f"argument --sources: {unknown[0]!r} is not one of python, kernel, doc")
    if not arguments.sources and not arguments.add:
        parser.error("argument --sources: empty, and no --add: nothing to build from")
    if arguments.kernel and "kernel" not in arguments.sources:
        parser.error("argument --kernel: --sources leaves the kernel out")
    if not arguments.separator:
        parser.error("argument --separator: must not be empty")
    for path in [*arguments.add, *(arguments.kernel or [])]:
        if not path.exists():
            parser.error(f"{path}: does not exist")
    if arguments.output.is_dir():
        parser.error(f"{arguments.output}: is a directory; name a file")
    if not arguments.output.parent.is_dir():
        parser.error(f"{arguments.output.parent}: no such directory; make it first")
    if arguments.output.exists() and not arguments.overwrite:
        parser.error(f"{arguments.output}: exists; pass --overwrite to replace it")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the unfinished file is removed
    arguments = parse_arguments(argv)
    try:
        tally = build(arguments)
    except CorpusError as error:
        print(f"build_corpus.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"build_corpus.py: {error.filename or arguments.output}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("build_corpus.py: interrupted; nothing was written", file=sys.stderr)
        return 130
    parts = ", ".join(f"{name} {count:,}" for name, count in tally.by_source.items())
    ended = "; stopped at --max-bytes" if tally.limit_reached else ""
    print(
        f"{arguments.output}: {tally.documents:,} documents, {tally.bytes:,} bytes ({parts}); "
        f"{tally.left_out:,} files left out (empty, not UTF-8 or holding the separator){ended}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
