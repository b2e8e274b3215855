"""What a run is: `run.json`, and where everything of the run lies.

The manifest holds what was decided before the first chunk was counted: the options that determine the result, the
corpus listing and the plan of chunks. It holds no state: what is finished is told by the files that exist, each of
which carries the fingerprint of everything it depends on.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipeline import __version__
from pipeline.base.errors import RunDirectoryError, StorageError, UsageError
from pipeline.base.machine import versions
from pipeline.corpus.chunks import Chunk, Span
from pipeline.corpus.files import CorpusFile, Listing
from pipeline.corpus.formats import COMPRESSIONS, FORMATS, Kind
from pipeline.run.directory import remove_results, require_ours
from pipeline.run.format_versions import COUNTER_FORMAT, RUN_FORMAT
from pipeline.run.options import Options, flag_of, make_options
from pipeline.storage import Location, RemoteError, exists
from pipeline.storage.atomic import make_directory, write_whole
from pipeline.storage.bounded import MANIFEST_BYTES, read_bounded

LEARNING_OPTIONS = (  # the merge options that the merge list depends on
    *("tie_break", "min_frequency", "min_piece_count", "max_token_bytes"),
)


def fingerprint(*parts: object) -> str:
    """A digest of JSON values: 32 hexadecimal digits, the same on every machine."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Source:
    """Where counts came from that were not counted from a corpus listing.

    kind: "runs" (combined), "counts" (imported) or "iterator". digest: of everything the counts depend on beside the
    options; of an iterator, which cannot be read again, a number drawn for this run alone. description: for people.
    """

    kind: str
    digest: str
    description: str


@dataclass(frozen=True)
class Manifest:
    """What `run.json` says.

    counting: the options that decide what is counted. cutting: what the pattern's name stands for in this release:
    its expression, what cuts by it, and the Unicode version of that. merging, vocab_size: None until merging was first
    asked for. empty: the files of the corpus without a byte. source: in place of files and chunks, for counts that no
    corpus listing gave.
    """

    counting: dict[str, Any]
    cutting: dict[str, str]
    files: tuple[CorpusFile, ...]
    chunks: tuple[Chunk, ...]
    merging: dict[str, Any] | None = None
    vocab_size: int | None = None
    empty: tuple[str, ...] = ()
    source: Source | None = None

    def chunk_fingerprint(self, chunk: Chunk) -> str:
        """What one chunk's counter depends on."""
        spans = [(self.files[span.file], span.start, span.stop) for span in chunk.spans]
        ranges = [
            [file.path, file.size, file.digest, file.format, file.compression, start, stop]
            for file, start, stop in spans
        ]
        return fingerprint(self.counting, self.cutting, COUNTER_FORMAT, ranges)

    def counter_fingerprint(self) -> str:
        """What the combined counter depends on: every chunk, in whatever order, or the source."""
        if self.source is not None:
            return fingerprint(self.counting, self.cutting, COUNTER_FORMAT, [self.source.kind, self.source.digest])
        return fingerprint(sorted(self.chunk_fingerprint(chunk) for chunk in self.chunks))

    def merge_fingerprint(self) -> str:
        """What a merge list depends on, its length aside."""
        assert self.merging is not None, "merge options are settled by with_merging"
        return fingerprint(self.counter_fingerprint(), {name: self.merging[name] for name in LEARNING_OPTIONS})


@dataclass(frozen=True)
class Run:
    """A run directory and its manifest."""

    directory: Location
    manifest: Manifest

    @property
    def counter_path(self) -> Location:
        """The combined counter."""
        return self.directory / "counter.parquet"

    @property
    def merges_path(self) -> Location:
        """The merge list with its counts."""
        return self.directory / "merges.parquet"

    def share_path(self, index: int, shares: int) -> Location:
        """What a worker of a cluster combined: a share of the hashes, on its way into the combined counter."""
        return self.directory / "counts" / f"share-{index:03d}-of-{shares:03d}.parquet"

    def chunk_path(self, index: int) -> Location:
        """The counter of the chunk with this index in the plan."""
        return self.directory / "counts" / f"{index:06d}.parquet"

    def tokenizer_directory(self, vocab_size: int) -> Location:
        """Where the tokenizer of this size lies: `tokenizer` for the run's first size, `tokenizer-8000` for others."""
        return self.directory / ("tokenizer" if vocab_size == self.manifest.vocab_size else f"tokenizer-{vocab_size}")


def save(run: Run) -> None:
    """Write `run.json`, whole or not at all."""
    manifest = run.manifest
    document = {
        "format_version": RUN_FORMAT,
        "written_by": f"bpe-pipeline {__version__}",
        "counting": manifest.counting,
        "merging": manifest.merging,
        "vocab_size": manifest.vocab_size,
        "cutting": manifest.cutting,
        "versions": versions(),
        **({} if manifest.source is None else {"source": asdict(manifest.source)}),
        **plan_document(manifest.files, manifest.empty, manifest.chunks),
    }
    document["digest"] = fingerprint(document)
    require_ours(run.directory)
    make_directory(run.directory / "counts")
    write_whole(run.directory / "run.json", json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def load(directory: Location) -> Run | None:
    """The run in a directory, or None where there is none.

    Raises `RunDirectoryError` where `run.json` is not as it was written, or is of a newer format, and `StorageError`
    where it may not be read.
    """
    path = directory / "run.json"
    try:
        document = json.loads(read_bounded(path, MANIFEST_BYTES))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise RunDirectoryError(f"{directory} is a file, not a run directory; choose another --output") from None
    except RemoteError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}; make it readable") from None
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{path} cannot be read ({error}); --overwrite starts anew") from None
    version = document.get("format_version") if isinstance(document, dict) else None
    if version != RUN_FORMAT:
        raise RunDirectoryError(
            f"{path} is of format {version!r}, this release reads {RUN_FORMAT}; use the release that wrote it, "
            "or start anew with --overwrite"
        )
    try:
        if document.pop("digest", None) != fingerprint(document):
            raise ValueError("it is not as it was written")
        manifest = Manifest(
            counting=dict(document["counting"]),
            merging=None if document["merging"] is None else dict(document["merging"]),
            vocab_size=None if document["vocab_size"] is None else int(document["vocab_size"]),
            cutting={str(name): str(value) for name, value in document["cutting"].items()},
            **stored_plan(document),
            source=_stored_source(document.get("source")),
        )
        _check_plan(manifest)
        _check_options(manifest)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, UsageError) as error:
        raise RunDirectoryError(f"{path} is damaged ({error}); --overwrite starts anew") from None
    return Run(directory, manifest)


def plan_document(files: Sequence[CorpusFile], empty: Sequence[str], chunks: Sequence[Chunk]) -> dict[str, Any]:
    """What is read and where it is cut, as JSON values."""
    return {
        "files": [asdict(file) for file in files],
        "empty": empty,
        "chunks": [[_plain(span) for span in chunk.spans] for chunk in chunks],
    }


def stored_plan(document: dict[str, Any]) -> dict[str, Any]:
    """The same back from JSON: files, empty, chunks. Raises KeyError, TypeError or ValueError where it is damaged."""
    files = tuple(map(_stored_file, document["files"]))
    chunks = tuple(Chunk(tuple(Span(*map(int, span)) for span in spans)) for spans in document["chunks"])
    _check_chunks(files, chunks)
    return {"files": files, "empty": tuple(map(str, document["empty"])), "chunks": chunks}


def _plain(span: Span) -> list[int]:
    return [span.file, span.start, span.stop, *([] if span.size is None else [span.size])]


def _stored_file(file: dict[str, Any]) -> CorpusFile:
    kind = Kind(str(file["format"]), str(file["compression"]))
    if kind.format not in FORMATS or kind.compression not in COMPRESSIONS:
        raise ValueError(f"a file is of the unknown kind {kind}")
    return CorpusFile(
        str(file["path"]), int(file["size"]), int(file["mtime_ns"]), str(file["digest"]), kind.format, kind.compression
    )


def _stored_source(source: dict[str, Any] | None) -> Source | None:
    return None if source is None else Source(*(str(source[name]) for name in ("kind", "digest", "description")))


def _check_plan(manifest: Manifest) -> None:
    if manifest.source is not None and (manifest.files or manifest.chunks):
        raise ValueError("it has both a source and files")


def _check_chunks(files: Sequence[CorpusFile], chunks: Sequence[Chunk]) -> None:
    for number, chunk in enumerate(chunks):
        if not chunk.spans:
            raise ValueError(f"chunk {number} is empty")
        for span in chunk.spans:
            if not 0 <= span.file < len(files):
                raise ValueError(f"chunk {number} is of a file that is not listed")
            if not 0 <= span.start < span.stop <= files[span.file].size:
                raise ValueError(f"chunk {number} is not within its file")
            if span.size is not None and span.size < 0:
                raise ValueError(f"chunk {number} has no size")


def _check_options(manifest: Manifest) -> None:
    for stage, stored in (("count", manifest.counting), ("merge", manifest.merging)):
        if stored is not None and make_options(stored).of_stage(stage) != stored:
            raise ValueError(f"its options of {stage} are not all there")


def require(directory: Location) -> Run:
    """The run in a directory; raises `RunDirectoryError` where there is none."""
    run = load(directory)
    if run is None:
        raise RunDirectoryError(f"{directory} holds no run (no run.json); `bpe-pipeline count` or `train` makes one")
    return run


def refuse_other_options(directory: Location, kind: str, stored: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise `RunDirectoryError` naming the first option in which the stored run and the one asked for differ."""
    for name, value in asked.items():
        if stored.get(name) != value:
            raise RunDirectoryError(
                f"{directory} holds another run: its {kind} was done with {flag_of(name)} "
                f"{_show(stored.get(name))}, not {_show(value)}; choose another --output, or start anew "
                "with --overwrite"
            )


def refuse_source(run: Run) -> None:
    """Raise `RunDirectoryError` for a run whose counts came from no corpus: none can be counted into it."""
    source = run.manifest.source
    if source is not None:
        raise RunDirectoryError(
            f"{run.directory} holds counts that no corpus gave ({source.description}), so nothing can be counted into "
            "it; go on with `bpe-pipeline merge`, choose another --output, or start anew with --overwrite"
        )


def _show(value: object) -> str:
    return " ".join(map(repr, value)) if isinstance(value, list) and value else repr(value)


def added_files(directory: Location, before: Sequence[CorpusFile], listing: Listing) -> list[CorpusFile]:
    """The files of a listing that the run, which had those `before`, does not know yet.

    Raises `RunDirectoryError` where a file of the run changed or is missing from the listing: its counters would be
    of another text.
    """
    now = {file.path: file for file in listing.files}
    empty = set(listing.empty)
    for known in before:
        file = now.pop(known.path, None)
        if known.path in empty:
            raise RunDirectoryError(
                f"{known.path} changed since {directory} was planned: it shrank from {known.size} bytes to 0; restore "
                "it, choose another --output, or start anew with --overwrite"
            )
        if file is None:
            raise RunDirectoryError(
                f"{directory} holds another run: its corpus has {known.path}, which is not among the inputs now; "
                "choose another --output, or start anew with --overwrite"
            )
        if (file.size, file.mtime_ns, file.digest) != (known.size, known.mtime_ns, known.digest):
            raise RunDirectoryError(
                f"{known.path} changed since {directory} was planned; restore it, choose another --output, or "
                "start anew with --overwrite"
            )
    return list(now.values())


def forget_merging(run: Run) -> Run:
    """The run as it was before anything was merged; its counts stay."""
    remove_results(run.directory)
    run = without_merging(run)
    save(run)
    return run


def without_merging(run: Run) -> Run:
    """The run as one from whose counts nothing was learned."""
    return replace(run, manifest=replace(run.manifest, merging=None, vocab_size=None))


def with_merging(run: Run, options: Options) -> Run:
    """The run with its merge options settled: stored if there were none yet, checked if something was learned by them.

    The first vocabulary size that is asked for becomes the run's own.
    """
    asked = options.of_stage("merge")
    manifest = run.manifest
    learned = manifest.merging is not None and exists(run.merges_path)
    if learned:
        refuse_other_options(run.directory, "merging", manifest.merging or {}, asked)
    elif manifest.merging not in (None, asked):
        remove_results(run.directory)  # tokenizers of a list that is gone, learned by other options
    has_own = learned or exists(run.directory / "tokenizer" / "tokenizer.json")
    own = manifest.vocab_size if has_own else None
    settled = replace(manifest, merging=asked, vocab_size=own or options.vocab_size[0])
    if settled == manifest:
        return run
    run = replace(run, manifest=settled)
    save(run)
    return run


def corpus_bytes(files: Iterable[CorpusFile]) -> int:
    """Bytes of all files together."""
    return sum(file.size for file in files)
