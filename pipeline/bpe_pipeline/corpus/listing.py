"""What to read: files, directories and globs become one listing of corpus files, each named once.

The order is that of the inputs, sorted by path within a directory or a glob, so a plan made from the listing is the
same every time. A digest of samples of a file shows later whether it is still the same.
"""

import hashlib
import os
import sysconfig
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.corpus.contents import RECORDS_BYTES, begins_with_object, refuse_records
from bpe_pipeline.corpus.data_sets import data_files
from bpe_pipeline.corpus.files import CorpusFile, FileType, file_size, opened, recognise
from bpe_pipeline.corpus.formats import AUTO
from bpe_pipeline.corpus.inputs import expand, is_dangling, sample_corpus, without
from bpe_pipeline.storage import each, is_uri, named

_SAMPLES, _SAMPLE_BYTES = 16, 4096
_MOST_SHOWN = 8


@dataclass(frozen=True)
class Listing:
    """The files of a corpus in the order to read them, and the paths of those without a byte, or links to nothing.

    inputs: the number of the input that each file is of. repeated: the numbers of inputs with files that are of one
    before. unused: globs that should exclude files, and exclude none. notes: what to say about files that are left out.
    """

    files: tuple[CorpusFile, ...]
    empty: tuple[str, ...]
    inputs: tuple[int, ...] = ()
    unused: tuple[str, ...] = ()
    repeated: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def find_files(
    inputs: Iterable[str | os.PathLike[str]] | None,
    requested: FileType = FileType(),  # noqa: B008 - a constant
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
            paths = [(number, path) for number, files_of_input in enumerate(listed) for path in files_of_input]
    except RecursionError:
        raise InputError("the directories of the inputs are nested too deeply: name the inner ones") from None
    if not paths:
        raise InputError(f"the corpus is empty: all its files are excluded, by {', '.join(exclude)}; exclude fewer")
    files_of = Counter(number for number, _ in paths if names is not None)
    left_out, notes = data_files([path for _, path in paths], [path for number, path in paths if files_of[number] > 1])
    different: dict[str, tuple[int, str]] = {}
    repeated: dict[int, None] = {}
    for number, path in paths:
        if path in left_out:
            continue
        owner, first = different.setdefault(resolved(path), (number, path))
        if owner != number:
            repeated[number] = None
        if getattr(first, "secret", "") != getattr(path, "secret", ""):
            raise InputError(f"{path} is named twice with different queries, which are not stored: name one of them")
    files = _described([path for _, path in different.values()], requested)
    empty = [file.path for file in files if not file.size]
    if len(empty) == len(files) and not may_be_empty:
        reason = f"none of its {len(empty)} files has a byte" if files else "; ".join(notes)
        if len(empty) == 1:
            reason = f"{empty[0]} " + ("is a link that leads to no file" if is_dangling(empty[0]) else "has no bytes")
        raise InputError(f"the {'sample ' if names is None else ''}corpus is empty: {reason}; name files with text")
    if names is None:
        empty = []  # the library has empty modules, which the user did not choose
    numbers = (number for (number, _), file in zip(different.values(), files, strict=True) if file.size)
    unused = tuple(glob for glob in exclude if glob not in used)
    filled = tuple(file for file in files if file.size)
    return Listing(filled, tuple(empty), tuple(numbers), unused, tuple(repeated), tuple(notes))


def find_sample(inputs: Iterable[str], option: str) -> list[CorpusFile]:
    """List the files that an option names to measure text; `UsageError` if none has a byte, else as `find_files`."""
    listing = find_files(inputs, may_be_empty=True)
    if not listing.files:
        reason = f"{listing.empty[0]} has no bytes" if listing.empty else "; ".join(listing.notes)
        raise UsageError(f"{option} names no text: {reason}; name files with text")
    return list(listing.files)


def _described(paths: Sequence[str], requested: FileType) -> list[CorpusFile]:
    """Describe all files; the error for one that cannot be read names the others, too."""

    def description(path: str) -> CorpusFile | InputError:
        try:
            return describe(path, requested)
        except InputError as error:
            return error

    described = list(each(description, paths))
    refused = [(path, error) for path, error in zip(paths, described, strict=True) if isinstance(error, InputError)]
    if refused:
        (_, first), *others = refused
        named_too = ", ".join(path for path, _ in others[:_MOST_SHOWN]) + (", ..." if len(others) > _MOST_SHOWN else "")
        more = f" ({format_count(len(others), 'other files')} cannot be read either: {named_too})" if others else ""
        raise type(first)(f"{first}{more}")
    return [file for file in described if isinstance(file, CorpusFile)]


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


def describe(path: str, requested: FileType = FileType()) -> CorpusFile:  # noqa: B008 - a constant
    """Describe a file; raise `InputError` if it cannot be read, is neither text nor records, or not what its name says.

    A link that leads to nothing is a file without a byte.
    """
    if is_dangling(path):
        return CorpusFile(path, 0, 0, "")
    with opened(path) as file:
        size = file_size(file)
        last = max(size - _SAMPLE_BYTES, 0)
        offsets = sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)})  # even steps from first to last
        samples = [file.read_at(offset, _SAMPLE_BYTES) for offset in offsets]
        digest = hashlib.sha256(str(size).encode() + b"".join(samples)).hexdigest()[:32]
        kind = recognise(path, named(path).name, samples[0], samples[-1], requested.format)
        _, mtime_ns, ctime_ns = file.state()
        described = CorpusFile(path, size, mtime_ns, digest, *kind, ctime_ns, by_name=requested.format != AUTO)
        if described.is_plain and not described.by_name:
            head = file.read_at(0, RECORDS_BYTES) if begins_with_object(samples[0]) else samples[0]
            refuse_records(path, head, requested.text_field, whole=len(head) == size)
        return replace(described, keeps_mark=requested.keeps_mark and described.kind.are_lines)
