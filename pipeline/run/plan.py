"""The plan of a run: what is read, where it is cut, and by how many workers with how much memory each.

A plan is made once and kept in the manifest; a run that goes on keeps it, and adds to it where the corpus got new
files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.base import machine
from pipeline.base.errors import InputError, RunDirectoryError, UsageError
from pipeline.base.events import Listener, Notice
from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.chunks import Chunk, Cutting, plan_chunks
from pipeline.corpus.files import CorpusFile, Listing, find_files, sample_corpus
from pipeline.corpus.formats import Asked
from pipeline.executors import Node
from pipeline.merges import forecast
from pipeline.pattern import CompiledPattern
from pipeline.run import directory as run_directory
from pipeline.run import manifest
from pipeline.run import memory as budget
from pipeline.run.ids import merge_budget, with_pad_token
from pipeline.run.manifest import Manifest, Run
from pipeline.run.options import Options
from pipeline.run.standard_input import with_standard_input
from pipeline.run.workers import worker_count
from pipeline.storage import Location, exists, named

_MOST_THREADS = 16  # of a stage on a node: beyond, they gain little and keep others from its cores


def open_run(
    directory: Location, options: Options, pattern: CompiledPattern, listener: Listener, nodes: Sequence[Node] = ()
) -> Run:
    """The run that the options ask for: the one in the directory, or a new one with its plan made and saved.

    What was learned from a smaller corpus, or from another one, stays until all of this one is counted (`count.count`).
    With `options.dry_run` nothing is written, and nothing removed.

    Raises `RunDirectoryError` where the directory holds another run, `InputError` for a corpus that cannot be read.
    """
    if options.overwrite and not options.inputs:
        _refuse_another_corpus(directory)
    stored = None if options.overwrite else manifest.load(directory)
    if stored is not None:
        manifest.refuse_source(stored)
        manifest.refuse_other_options(directory, "counting", stored.manifest.counting, options.of_stage("count"))
        if not options.inputs:
            listener(Notice("info", f"going on with the corpus of {directory}"))
            empty = (path for path in stored.manifest.empty if exists(named(path)))
            options = replace(options, inputs=(*(file.path for file in stored.manifest.files), *empty))
    with with_standard_input(directory, options) as settled:
        return _opened(directory, stored, settled, pattern, listener, nodes)


def _opened(
    directory: Location,
    stored: Run | None,
    options: Options,
    pattern: CompiledPattern,
    listener: Listener,
    nodes: Sequence[Node],
) -> Run:
    listing = list_corpus(options, listener, may_be_empty=stored is not None)
    run_directory.refuse_corpus_inside(directory, (file.path for file in listing.files))
    cutting = cut_by(pattern)
    if stored is None:
        if not options.overwrite:
            run_directory.refuse_foreign_files(directory)
        run = _planned(
            Run(directory, Manifest(options.of_stage("count"), cutting, (), (), empty=listing.empty)),
            listing.files,
            options,
            pattern,
            nodes,
        )
        if not options.dry_run:
            run_directory.clear_counts(directory, keep=[file.path for file in listing.files])
            manifest.save(run)
        return run
    if stored.manifest.cutting != cutting:
        raise RunDirectoryError(
            f"{directory} was cut by {' '.join(stored.manifest.cutting.values())}, here it would be by "
            f"{' '.join(cutting.values())}; use the installation that began it, or start anew with --overwrite"
        )
    added = manifest.added_files(directory, stored.manifest.files, listing)
    run = replace(stored, manifest=replace(stored.manifest, empty=listing.empty))
    if added:
        run = _planned(manifest.without_merging(run), tuple(added), options, pattern, nodes)
    if run != stored and not options.dry_run:
        manifest.save(run)
    return run


def _refuse_another_corpus(directory: Location) -> None:
    """Raise `UsageError` where a run of a corpus that somebody named would give way to the sample corpus."""
    try:
        stored = manifest.load(directory)
    except RunDirectoryError:
        return  # nobody can tell any more
    if stored is None:
        return
    files = {file.path for file in stored.manifest.files}
    if stored.manifest.source is not None or not files <= set(sample_corpus()):
        raise UsageError(
            f"--overwrite without INPUT would replace the corpus of {directory} by the sample corpus; name the corpus "
            "again"
        )


def cut_by(pattern: CompiledPattern) -> dict[str, str]:
    """What a pattern's name stands for here and now, as part of a run's fingerprints."""
    by = "the automaton" if pattern.refusal is None else f"regex {machine.versions()['regex']}"
    return {"expression": pattern.expression, "by": by, "unicode": f"Unicode {pattern.unicode_version}"}


def _planned(
    run: Run, files: tuple[CorpusFile, ...], options: Options, pattern: CompiledPattern, nodes: Sequence[Node]
) -> Run:
    """The run with chunks for more files; the chunks that it had stay as they are."""
    before = run.manifest
    whole_documents = options.errors == "skip"
    cutting = Cutting(special_bytes(before), pattern.automaton, whole_documents, before.counting["text_field"])
    planned = plan_chunks(files, cutting, chunk_bytes=_chunk_bytes(options, manifest.corpus_bytes(files), nodes))
    shift = len(before.files)
    moved = tuple(Chunk(tuple(replace(span, file=span.file + shift) for span in chunk.spans)) for chunk in planned)
    if not before.chunks + moved:
        raise InputError(f"the corpus is empty: {files[0].path} has no rows; name a file with text in it")
    return replace(run, manifest=replace(before, files=before.files + files, chunks=before.chunks + moved))


def list_corpus(options: Options, listener: Listener, *, may_be_empty: bool = False) -> Listing:
    """The files of a corpus; raises as `find_files` does."""
    asked = Asked(options.input_format, options.compression)
    listing = find_files(options.inputs, asked, may_be_empty=may_be_empty)
    if listing.empty and options.inputs:
        named = ", ".join(listing.empty[:3]) + (", ..." if len(listing.empty) > 3 else "")
        listener(Notice("warning", f"{format_count(len(listing.empty), 'files')} without a byte: {named}"))
    return listing


def plan_for_people(run: Run, options: Options, nodes: Sequence[Node] = ()) -> dict[str, str]:
    """The plan of a run: what would be counted, by whom, and what it would take at most."""
    plan = run.manifest
    share = share_of(options, len(plan.chunks), nodes)
    sizes = [chunk.bytes for chunk in plan.chunks]
    largest, total = max(sizes, default=0), sum(sizes)
    work = min(share.room_bytes, int(largest * machine.WORKER_BYTES_PER_CHUNK_BYTE))
    counting = share.budget.taken_bytes + share.on_one * (share.budget.worker_bytes + work)
    # Were no piece like another: one every six bytes.
    shape = forecast.CounterShape(total // 6, total, total + total // 6)
    merges = merge_budget(max(options.vocab_size), with_pad_token(options.special_tokens, options.pad_token))
    merging = forecast.least(shape, merges) + share.budget.taken_bytes + share.budget.worker_bytes
    on_each = " on each node" if nodes else ""
    return {
        "run": str(run.directory),
        "corpus": f"{format_count(len(plan.files), 'files')}, {format_bytes(manifest.corpus_bytes(plan.files))}",
        "chunks": f"{len(sizes):,}, the largest {format_bytes(largest)}",
        "workers": f"{share.workers} on {format_count(len(nodes), 'nodes')}" if nodes else f"{share.workers}",
        "disk at most": f"about {format_bytes(2 * total)} for counters",
        "memory limit": f"{format_bytes(share.budget.limit_bytes)}{on_each}",
        "memory while counting": f"at most about {format_bytes(counting)}; a counter beyond "
        f"{format_bytes(share.room_bytes)} is written in parts",
        "memory while merging": f"{format_bytes(merging)} if no piece came twice; forecast when they are counted",
        "vocabulary": f"{' and '.join(f'{size:,}' for size in options.vocab_size)} tokens, pattern {options.pattern}",
    }


@dataclass(frozen=True)
class Share:
    """How many workers count, and the bytes that each has for its counter.

    budget: of each machine. on_one: how many workers share it at most.
    """

    budget: budget.Budget
    workers: int
    on_one: int
    room_bytes: int


def share_of(options: Options, chunks: int, nodes: Sequence[Node] = ()) -> Share:
    """What each worker gets where so many chunks are to be counted, on this machine or on some nodes."""
    whole = budget.budget(options.memory_limit, nodes)
    if nodes:
        on_one = whole.workers(max(node.cores for node in nodes))
        there = sum(min(node.cores, on_one) for node in nodes)
        workers = min(there, options.workers or there, max(chunks, 1))
        return Share(whole, workers, min(on_one, workers), whole.room(on_one) - budget.WRITE_BYTES)
    workers = whole.workers(max(1, min(worker_count(options), chunks)))
    return Share(whole, workers, workers, whole.room(workers) - budget.WRITE_BYTES)


def threads(options: Options, nodes: Sequence[Node] = ()) -> int:
    """Threads for a stage that runs in one process: more than there are cores would only wait for each other."""
    if nodes:
        return min(options.workers or _MOST_THREADS, _MOST_THREADS, max(node.cores for node in nodes))
    return min(worker_count(options), machine.usable_cores())


def _chunk_bytes(options: Options, corpus_bytes: int, nodes: Sequence[Node]) -> int:
    share = share_of(options, sum(node.cores for node in nodes) or worker_count(options), nodes)
    return options.chunk_size or machine.default_chunk_bytes(
        corpus_bytes, share.workers, share.workers * share.room_bytes
    )


def special_bytes(plan: Manifest) -> tuple[bytes, ...]:
    """Every special token that separates documents of a run, in order of ids."""
    counting = plan.counting
    if counting["special_tokens_as_text"]:
        return ()
    return tuple(token.encode() for token in with_pad_token(counting["special_tokens"], counting["pad_token"]))
