"""What to read: files, directories and globs become one listing of corpus files, each named once.

The order is that of the inputs, sorted by path within a directory or a glob, so a plan made from the listing is the
same every time. A digest of samples of a file shows later whether it is still the same.
"""

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline.base.errors import InputError
from pipeline.corpus.files import CorpusFile, FileType, file_size, opened, recognise
from pipeline.corpus.inputs import expand, sample_corpus, without
from pipeline.storage import each, is_uri, named

_SAMPLES, _SAMPLE_BYTES = 16, 4096


@dataclass(frozen=True)
class Listing:
    """The files of a corpus in the order to read them, and the paths of those without a byte.

    inputs: the number of the input that each file is of. repeated: the numbers of inputs with files that are of one
    before. unused: globs that should exclude files, and exclude none.
    """

    files: tuple[CorpusFile, ...]
    empty: tuple[str, ...]
    inputs: tuple[int, ...] = ()
    unused: tuple[str, ...] = ()
    repeated: tuple[int, ...] = ()


def find_files(
    inputs: Iterable[str | os.PathLike[str]] | None,
    asked: FileType = FileType(),  # noqa: B008 - a constant
    *,
    exclude: Sequence[str] = (),
    may_be_empty: bool = False,
) -> Listing:
    """List the files that the inputs name, without those that globs exclude; for None, those of the sample corpus.

    Hidden files, run directories and what is below them are skipped in directories; links are followed. A file that is
    named twice, also by another spelling or link, is listed where it first appears. Raises `InputError` for an input
    that names no file or cannot be read, a corpus without a byte (unless it `may_be_empty`), and as `describe` does.
    """
    names = None if inputs is None else [os.fspath(name) for name in inputs]
    if names == []:
        raise InputError("no inputs: name files, directories or globs")
    used: set[str] = set()
    try:
        if names is None:
            paths = [(0, path) for path in without(sysconfig.get_path("stdlib"), sample_corpus(), exclude, used)]
        else:
            listed = (without(name, expand(name), exclude, used) for name in names)
            paths = [(number, path) for number, found in enumerate(listed) for path in found]
    except RecursionError:
        raise InputError("the directories of the inputs are nested too deeply: name the inner ones") from None
    if not paths:
        raise InputError(f"the corpus is empty: all its files are excluded, by {', '.join(exclude)}; exclude fewer")
    different: dict[str, tuple[int, str]] = {}
    repeated: dict[int, None] = {}
    for number, path in paths:
        owner, first = different.setdefault(resolved(path), (number, path))
        if owner != number:
            repeated[number] = None
        if getattr(first, "secret", "") != getattr(path, "secret", ""):
            raise InputError(f"{path} is named twice with different queries, which are not stored: name one of them")
    described = partial(describe, asked=asked)
    chosen = [path for _, path in different.values()]
    files = list(each(described, chosen))
    empty = [file.path for file in files if not file.size]
    if len(empty) == len(files) and not may_be_empty:
        reason = f"none of its {len(empty)} files has a byte" if len(empty) > 1 else f"{empty[0]} has no bytes"
        raise InputError(f"the {'sample ' if names is None else ''}corpus is empty: {reason}; name files with text")
    if names is None:
        empty = []  # the library has empty modules, which the user did not choose
    numbers = (number for (number, _), file in zip(different.values(), files, strict=True) if file.size)
    unused = tuple(glob for glob in exclude if glob not in used)
    return Listing(tuple(file for file in files if file.size), tuple(empty), tuple(numbers), unused, tuple(repeated))


def files_in_both(files: Iterable[CorpusFile], others: Iterable[CorpusFile]) -> list[CorpusFile]:
    """Return the first files that are among the others: the same path when links are resolved, or a copy.

    A copy has the same size and the same samples; text that is compressed or stored in another way is not recognized.
    """
    known: set[object] = set()
    for file in others:
        known |= {resolved(file.path), (file.size, file.digest)}
    return [file for file in files if not known.isdisjoint((resolved(file.path), (file.size, file.digest)))]


def resolved(path: str) -> str:
    """Return the path with all links resolved, by which a file that is named twice is recognized."""
    return path if is_uri(path) else os.path.realpath(path)


def describe(path: str, asked: FileType = FileType()) -> CorpusFile:  # noqa: B008 - a constant
    """Describe a file; raise `InputError` if it cannot be read or its name contradicts its content."""
    with opened(path) as file:
        size = file_size(file)
        last = max(size - _SAMPLE_BYTES, 0)
        offsets = sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)})  # even steps from first to last
        samples = [file.read_at(offset, _SAMPLE_BYTES) for offset in offsets]
        digest = hashlib.sha256(str(size).encode() + b"".join(samples)).hexdigest()[:32]
        found = recognise(path, named(path).name, samples[0], samples[-1], asked)
        _, mtime_ns, ctime_ns = file.state()
        return CorpusFile(path, size, mtime_ns, digest, found.format, found.compression, ctime_ns)
