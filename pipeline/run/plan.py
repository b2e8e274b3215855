"""The plan of a corpus: its files, the chunks they are cut into, and what each chunk's output depends on.

A plan is made once and stored in the manifest of a run or of shards. A resumed command keeps it; a run whose corpus
got new files extends it.
"""

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from pipeline.base.errors import InputError, RunDirectoryError
from pipeline.base.events import Listener, Notice
from pipeline.base.units import format_count
from pipeline.corpus.chunks import Chunk, Cutting, Span, plan_chunks
from pipeline.corpus.files import CorpusFile, Listing, find_files
from pipeline.corpus.formats import COMPRESSIONS, FORMATS, FileType
from pipeline.corpus.skipped_or_altered import Tallies, Tally
from pipeline.run.directory import Directory, fingerprint
from pipeline.run.options import Options
from pipeline.run.standard_input import DIRECTORY as STANDARD_INPUT
from pipeline.run.standard_input import copy_in, with_identities


@dataclass(frozen=True)
class Plan:
    """What is read and where it is cut. empty: the files of the corpus without a byte."""

    files: tuple[CorpusFile, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all chunks together."""
        return sum(chunk.bytes for chunk in self.chunks)

    def spans(self, index: int) -> tuple[tuple[CorpusFile, int, int], ...]:
        """Return what one chunk is made of: each span's file, start and stop."""
        return tuple((self.files[span.file], span.start, span.stop) for span in self.chunks[index].spans)

    def sizes(self, index: int) -> tuple[int, ...]:
        """Return the bytes of text of each span of a chunk."""
        return tuple(span.bytes for span in self.chunks[index].spans)

    def fingerprint(self, index: int, *dependencies: object) -> str:
        """Return what one chunk's output depends on: its text, and these JSON values."""
        ranges = [[*dependencies_of(file), start, stop] for file, start, stop in self.spans(index)]
        return fingerprint(*dependencies, ranges)

    def extended(self, files: tuple[CorpusFile, ...], cutting: Cutting, chunk_bytes: int) -> "Plan":
        """Return the plan with chunks for more files; `InputError` if there is nothing to read at all."""
        shift = len(self.files)
        planned = plan_chunks(files, cutting, chunk_bytes=chunk_bytes)
        moved = tuple(Chunk(tuple(replace(span, file=span.file + shift) for span in chunk.spans)) for chunk in planned)
        if not self.chunks + moved:
            raise InputError(f"the corpus is empty: {files[0].path} has no rows; name a file with text in it")
        return replace(self, files=self.files + files, chunks=self.chunks + moved)

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
            same_time = known.identity or file is None or file.mtime_ns == known.mtime_ns
            if file is None or (file.size, file.digest) != (known.size, known.digest) or not same_time:
                shrank = f": it shrank from {known.size} bytes to 0" if empty else ""
                raise RunDirectoryError(
                    f"{known.path} changed since {directory} was planned{shrank}; restore it, {remedy}"
                )
            if 0 != known.ctime_ns != file.ctime_ns and not known.identity:
                touched.append(known.path)
        if touched:
            named = ", ".join(touched[:3]) + (", ..." if len(touched) > 3 else "")
            text = f"{len(touched):,} of {format_count(len(self.files), 'files')} were written, moved or given other "
            text += (
                f"attributes since {directory} was planned, with the same size, time of change and samples of content: "
            )
            listener(Notice("warning", f"{text}{named}; if the text changed, start again with --overwrite"))
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
        return tally.found

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a manifest."""
        return {
            "files": [_to_json(file) for file in self.files],
            "empty": self.empty,
            "chunks": [
                [[part for part in astuple(span) if part is not None] for span in chunk.spans] for chunk in self.chunks
            ],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any], directory: Directory) -> "Plan":
        """Read back what `to_json` returned for a plan of this directory; KeyError, TypeError or ValueError if not."""
        files = tuple(_stored_file(file, directory) for file in document["files"])
        chunks = tuple(Chunk(tuple(Span(*map(int, span)) for span in spans)) for spans in document["chunks"])
        for number, chunk in enumerate(chunks):
            if not chunk.spans:
                raise ValueError(f"chunk {number} is empty")
            for span in chunk.spans:
                if not 0 <= span.file < len(files):
                    raise ValueError(f"chunk {number} is of a file that is not listed")
                if not 0 <= span.start < span.stop <= files[span.file].size or (span.size or 0) < 0:
                    raise ValueError(f"chunk {number} is not within its file")
        return cls(files, chunks, tuple(map(str, document["empty"])))


def dependencies_of(file: CorpusFile) -> list[str | int]:
    """Return what the text of a file depends on."""
    return [file.identity or file.path, file.size, file.digest, file.format, file.compression]


def _to_json(file: CorpusFile) -> dict[str, Any]:
    values = asdict(file)
    identity = values.pop("identity")
    return values | {"path": identity or file.path}


def _stored_file(file: dict[str, Any], directory: Directory) -> CorpusFile:
    kind = FileType(str(file["format"]), str(file["compression"]))
    if kind.format not in FORMATS or kind.compression not in COMPRESSIONS:
        raise ValueError(f"a file is of the unknown kind {kind}")
    found = CorpusFile(
        *(str(file["path"]), int(file["size"]), int(file["mtime_ns"]), str(file["digest"])),
        *(kind.format, kind.compression, int(file.get("ctime_ns", 0))),
    )
    return copy_in(directory, found) if found.path.startswith(f"{STANDARD_INPUT}/") else found


def list_corpus(
    options: Options, listener: Listener, directory: Directory | None = None, *, may_be_empty: bool = False
) -> Listing:
    """List the files of a corpus; raises as `find_files` does. directory: may hold copies of standard input."""
    asked = FileType(options.input_format, options.compression)
    listing = find_files(options.inputs, asked, exclude=options.exclude or (), may_be_empty=may_be_empty)
    if listing.unused:
        listener(Notice("warning", f"--exclude {' '.join(listing.unused)} excludes no file: check the globs"))
    if listing.empty and options.inputs:
        named = ", ".join(listing.empty[:3]) + (", ..." if len(listing.empty) > 3 else "")
        listener(Notice("warning", f"{format_count(len(listing.empty), 'files')} without a byte: {named}"))
    return listing if directory is None else replace(listing, files=with_identities(directory, listing.files))


def corpus_bytes(files: Sequence[CorpusFile]) -> int:
    """Return the bytes of all files together."""
    return sum(file.size for file in files)
