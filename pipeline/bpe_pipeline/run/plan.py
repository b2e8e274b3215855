"""The plan of a corpus: its files, the chunks they are cut into, and what each chunk's output depends on.

A plan is made once and stored in the manifest of a run or of shards. A resumed command keeps it; a run whose corpus
got new files extends it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from bpe_pipeline.base.errors import InputError, RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.units import format_count
from bpe_pipeline.corpus.chunks import Chunk, Cutting
from bpe_pipeline.corpus.contents import is_table
from bpe_pipeline.corpus.cut_files import plan_chunks
from bpe_pipeline.corpus.files import COMPRESSIONS, CorpusFile, FileSpan, FileType
from bpe_pipeline.corpus.formats import AUTO, corpus_formats
from bpe_pipeline.corpus.inputs import is_dangling
from bpe_pipeline.corpus.listing import Listing, find_files
from bpe_pipeline.corpus.skipped_or_altered import Tallies, Tally
from bpe_pipeline.run.directory import Directory, fingerprints
from bpe_pipeline.run.options import CorpusOptions, CountOptions, TextOptions
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location

MOST_INPUTS = 256  # with separate counts
MOST_UNWEIGHTED = 32  # with separate counts if no weight is given; each needs its own chunk, at a fixed cost
_MIN_CHUNK_BYTES, _MAX_CHUNK_BYTES = 1 << 20, 128 << 20
SLOW_CHUNK_BYTES = 8 << 20  # at most, where `regex` cuts: 1 MB/s, a hundredth of what the automaton does
_WORKER_BYTES_PER_CHUNK_BYTE = 2.5
Task = TypeVar("Task")


@dataclass(frozen=True)
class Plan:
    """What is read and where it is cut. empty: the files of the corpus without a byte.

    owners: the number of each file's input, if each chunk is of one alone, and may have a weight.
    held_out: the first chunk of those that `encode` holds out, where no hash of documents decides; 0: none is.
    """

    files: tuple[CorpusFile, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    empty: tuple[str, ...] = ()
    owners: tuple[int, ...] = ()
    held_out: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of all chunks together."""
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def held_out_from(self) -> tuple[str, int] | None:
        """The file and the byte in it from which on all text is held out."""
        if not self.held_out:
            return None
        file, start, *_ = self.spans(self.held_out)[0]
        return file.path, start

    def spans(self, index: int) -> tuple[FileSpan, ...]:
        """Return what one chunk is made of."""
        return tuple(FileSpan(self.files[span.file], span.start, span.stop) for span in self.chunks[index].spans)

    def sizes(self, index: int) -> tuple[int, ...]:
        """Return the bytes of text of each span of a chunk."""
        return tuple(span.bytes for span in self.chunks[index].spans)

    def keys(self, *dependencies: object) -> list[str]:
        """Return what each chunk's output depends on: its text, and these JSON values."""
        of_files = list(map(dependencies_of, self.files))
        ranges = ([[*of_files[span.file], span.start, span.stop] for span in chunk.spans] for chunk in self.chunks)
        return list(fingerprints(dependencies, ranges))

    def extended(
        self, files: tuple[CorpusFile, ...], cutting: Cutting, chunk_bytes: int, owners: Sequence[int] = ()
    ) -> "Plan":
        """Return the plan with chunks for more files; `InputError` if there is nothing to read at all.

        owners: the number of each file's input, if no chunk may be of two.
        """
        shift, moved = len(self.files), list[Chunk]()
        for _, numbers in groupby(range(len(files)), lambda number: owners[number] if owners else 0):
            together = [files[number] for number in numbers]
            for chunk in plan_chunks(together, cutting, chunk_bytes=chunk_bytes):
                moved.append(Chunk(tuple(span._replace(file=span.file + shift) for span in chunk.spans)))
            shift += len(together)
        if not (*self.chunks, *moved):
            raise InputError(f"the corpus is empty: {files[0].path} has no rows; name a file with text in it")
        return replace(self, files=self.files + files, chunks=(*self.chunks, *moved))

    def of_inputs(self, inputs: int, listing: Listing) -> "Plan":
        """Return the plan with the inputs of this listing of its files, or without if they cannot have weights."""
        numbers = {file.path: number for file, number in zip(listing.files, listing.inputs, strict=True)}
        owners = tuple(numbers[file.path] for file in self.files)
        apart = all(len({owners[span.file] for span in chunk.spans}) == 1 for chunk in self.chunks)
        return replace(self, owners=owners if apart and 0 < inputs <= MOST_INPUTS else ())

    def tasks(self, make: Callable[..., Task], outputs: Iterable[tuple[Location, str]]) -> list[Task]:
        """Return the task of each chunk, by what it has of its own. outputs: its file and the fingerprint of that."""
        return [
            make(name=f"chunk {index}", spans=self.spans(index), sizes=self.sizes(index), output=file, fingerprint=mark)
            for index, (file, mark) in enumerate(outputs)
        ]

    def chunks_of_inputs(self, inputs: int) -> list[list[int]]:
        """List the chunks of each of this many inputs."""
        chunks = [list[int]() for _ in range(inputs)]
        for index, chunk in enumerate(self.chunks):
            chunks[self.owners[chunk.spans[0].file]].append(index)
        return chunks

    def added_files(self, directory: Directory, listing: Listing, listener: Listener) -> tuple[CorpusFile, ...]:
        """Return the files of a listing that the plan does not have yet.

        Raises `RunDirectoryError` if a file of the plan changed or is missing: its counters would be of another text.
        Warns of files that may have changed although size, time and samples are the same: only their `ctime_ns` is not.
        """
        now, touched = {file.path: file for file in listing.files}, []
        remedy = "choose another --output, or start again with --overwrite"
        for known in self.files:
            file, empty = now.pop(known.path, None), known.path in listing.empty
            if file is None and not empty:
                raise RunDirectoryError(
                    f"{directory} holds another run: its corpus has {known.path}, which is not among the inputs now; "
                    f"{remedy}"
                )
            same_time = file is None or file.mtime_ns == known.mtime_ns
            if file is None or (file.size, file.digest) != (known.size, known.digest) or not same_time:
                shrank = f": it shrank from {known.size} bytes to 0" if empty else ""
                raise RunDirectoryError(
                    f"{known.path} changed since {directory} was planned{shrank}; restore it, {remedy}"
                )
            if 0 != known.ctime_ns != file.ctime_ns:
                touched.append(known.path)
        if touched:
            text = f"{len(touched):,} of {format_count(len(self.files), 'files')} were written, moved or given other "
            text += (
                f"attributes since {directory} was planned, with the same size, time of change and samples of content: "
            )
            listener(Notice("warning", f"{text}{_shown(touched)}; if the text changed, start again with --overwrite"))
        return tuple(now.values())

    def reopened(self, listing: Listing) -> "Plan":
        """Return the plan with the paths of this listing: it has what of a URI's query is not stored."""
        named = {file.path: file.path for file in listing.files}
        return replace(self, files=tuple(replace(file, path=named.get(file.path, file.path)) for file in self.files))

    def files_without_text(self) -> Tallies:
        """Return the files that no worker reads: without a byte, or Parquet without a row."""
        planned = {span.file for chunk in self.chunks for span in chunk.spans}
        without_rows = [file.path for index, file in enumerate(self.files) if index not in planned]
        tally = Tally()
        tally.add("files_empty", len(self.empty) + len(without_rows), [*self.empty, *without_rows])
        return tally.kinds

    def checked(self) -> "Plan":
        """Return the plan, which was stored; raise `ValueError` if its values do not fit together."""
        for contradiction in self._contradictions():
            raise ValueError(contradiction)
        return self

    def _contradictions(self) -> Iterator[str]:
        for file in self.files:
            if file.format not in corpus_formats() or file.compression not in COMPRESSIONS:
                yield f"{file.path} is of the unknown kind {file.format}, {file.compression}"
        for number, chunk in enumerate(self.chunks):
            if not chunk.spans:
                yield f"chunk {number} is empty"
            for span in chunk.spans:
                if not 0 <= span.file < len(self.files):
                    yield f"chunk {number} is of a file that is not listed"
                elif not 0 <= span.start < span.stop <= self.files[span.file].size or (span.size or 0) < 0:
                    yield f"chunk {number} is not within its file"
        if self.held_out not in range(max(len(self.chunks), 1)):
            yield "what is held out is not in it"
        if self.owners and len(self.owners) != len(self.files):
            yield "a file is of an input that is not listed"


def dependencies_of(file: CorpusFile) -> list[str | int]:
    """Return what the text of a file depends on."""
    return [file.path, file.size, file.digest, file.format, file.compression]


def stored_plan(document: Mapping[str, object]) -> Plan:
    """Return the plan in a manifest; raises `KeyError`, `TypeError` or `ValueError` for damage."""
    return stored(Plan, document).checked()


def list_corpus(
    options: CorpusOptions,
    listener: Listener,
    *,
    weighted: bool = False,
    may_be_empty: bool = False,
) -> Listing:
    """List the files of a corpus; raises as `find_files` does."""
    text_field = options.text_field if isinstance(options, TextOptions) else ""
    requested = FileType(options.input_format, text_field, getattr(options, "special_tokens_as_text", False))
    listing = find_files(options.inputs, requested, exclude=options.exclude or (), may_be_empty=may_be_empty)
    if listing.repeated and weighted:
        twice = (options.inputs or ())[listing.repeated[0]]
        raise UsageError(
            f"--weight: {twice} has files that an input before it has too, and a file is read once, with one weight: "
            "name inputs without files in common"
        )
    if listing.unused:
        listener(Notice("warning", f"--exclude {' '.join(listing.unused)} excludes no file: check the globs"))
    for note in listing.notes:
        listener(Notice("info", note))
    tables = [file.path for file in listing.files if text_field and file.kind.begins_anywhere and is_table(file.path)]
    if tables and options.input_format == AUTO:
        listener(
            Notice(
                "warning",
                f"read as plain text, with all of its columns: {_shown(tables)}; convert tables to JSON "
                "Lines or Parquet, or give --input-format text",
            )
        )
    dangling = [path for path in listing.empty if is_dangling(path)]
    without_bytes = [path for path in listing.empty if path not in dangling]
    for paths, kind, what in (
        (without_bytes, "files", "without a byte"),
        (dangling, "links", "to files that are missing"),
    ):
        if paths and options.inputs:
            listener(Notice("warning", f"{format_count(len(paths), kind)} {what}: {_shown(paths)}"))
    return listing


def _shown(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")


def is_weighted(options: CountOptions) -> bool:
    """Return whether the inputs have weights, or are to have them when they are counted."""
    return options.weights is not None or options.temperature is not None or bool(options.shares)


def owners_of(options: CountOptions, listing: Listing) -> tuple[int, ...]:
    """Return the number of each file's input, or nothing where the inputs are too many to be counted apart."""
    most = MOST_INPUTS if is_weighted(options) else MOST_UNWEIGHTED
    return listing.inputs if len(options.inputs or ()) <= most else ()


def corpus_bytes(files: Sequence[CorpusFile]) -> int:
    """Return the bytes of all files together."""
    return sum(file.size for file in files)


def with_share(options: Mapping[str, Any], files: Sequence[CorpusFile]) -> dict[str, Any]:
    """Return options with the share of documents that a size means in `--sample`: of the bytes of these files.

    A seed of nothing that is chosen is 0.
    """
    if "sample" not in options:
        return {**options}
    if isinstance(sample := options["sample"], int):
        total = corpus_bytes(files)
        sample = sample / total if sample < total else None
    chooses = sample or options.get("shuffle")
    return {**options, "sample": sample, "seed": options["seed"] if chooses else 0}


def default_chunk_bytes(corpus_bytes: int, workers: int, worker_bytes: int, *, slow: bool = False) -> int:
    """Return the bytes of a chunk: the fewest chunks that a worker's memory allows, the same number for each worker.

    Fewer chunks mean fewer counters to sort, write and read; equal numbers mean that all workers end together. slow:
    the pattern runs on `regex`; a chunk takes seconds in either case, and no more is lost by a kill.
    """
    by_memory = int(worker_bytes / _WORKER_BYTES_PER_CHUNK_BYTE)
    most = max(_MIN_CHUNK_BYTES, min(by_memory, SLOW_CHUNK_BYTES if slow else _MAX_CHUNK_BYTES))
    rounds = -(-corpus_bytes // (workers * most))
    return max(_MIN_CHUNK_BYTES, -(-corpus_bytes // (workers * max(1, rounds))))
