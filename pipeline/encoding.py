"""The story of `encode --output`: a corpus becomes shards of token ids.

Workers encode chunks into parts, each a checkpoint; from the parts' sizes follows where shards begin and end; workers
write the shards from the parts. A run that was stopped goes on with the parts and shards that are missing. What is in
the shards depends on corpus, tokenizer and options alone: not on workers, chunk size, memory or kills.
"""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

from pipeline import budget, environment, losses, run_directory, shards
from pipeline.atomic import make_directory
from pipeline.config import READING_OPTIONS, Options, make_options, names_of, refuse_unfit
from pipeline.encode_chunk import EncodeTask, encode_chunk, packed
from pipeline.encode_plan import open_encoding, separator_of, special_bytes
from pipeline.errors import InputError, RunDirectoryError, StorageError, UsageError
from pipeline.events import Advanced, Listener, Notice, StageEnded, StageStarted
from pipeline.executors import Executor, Need, Node
from pipeline.id_parts import Part, PartReader, look_at_part
from pipeline.load import load_model
from pipeline.log import log_to
from pipeline.model import CACHE_BYTES, Model
from pipeline.report.encoded import Encoded
from pipeline.shard_plan import PlannedShard, plan_shards
from pipeline.shards import EncodedCorpus, Encoding
from pipeline.standard_input import refused_goes
from pipeline.storage import Location, Remote, each, existing, named
from pipeline.tokenizer import Tokenizer
from pipeline.training import warn_of
from pipeline.values import format_bytes
from pipeline.workers import ENCODING, as_workers_know, executor_for, worker_count
from pipeline.write_shard import Shard, ShardTask, write_shard

_log = logging.getLogger(__name__)
ENCODING_STAGE, WRITING_STAGE = "encoding", "writing shards"
_MODEL_BYTES_A_TOKEN = 600  # of a worker: the vocabulary in Python and in the encoder
_LEAST_CACHE_BYTES = 4 << 20
_OF_TRAINING = names_of("count", "vocabulary", "merge") - {"errors", *READING_OPTIONS} | {
    *("no_special_tokens", "export", "chat_template", "pattern_timeout", "dry_run")
}
_BUFFER_BYTES = 8 << 20  # text at hand and the ids of it
_LEAST_ROOM_BYTES = 4 << 20  # for a long piece


def encode_corpus(
    inputs: str | PathLike[str] | Sequence[str | PathLike[str]],
    tokenizer: Tokenizer | str | PathLike[str] | Remote,
    output: str | PathLike[str] | Remote,
    **options: Any,
) -> EncodedCorpus:
    """Encode a corpus into shards of token ids in the directory `output`, as `bpe-pipeline encode --output` does.

    inputs: files, directories, globs and URIs, of all formats that training reads. tokenizer: one, or where one lies.
    options: `shard_format="npy"` (or "bin", "parquet"), `shard_size=100_000_000` tokens, `documents="separator"` (or
        "offsets"), `separator="<|endoftext|>"`, `errors`, `workers`, ...; see `pipeline.config.Options`.

    Returns what `shards.json` says. A directory that holds the same shards is completed; one of others is refused.
    Raises as `train` does.
    """
    refuse_unfit(options, _OF_TRAINING, "encoding, which does as the tokenizer says")
    settled = make_options({"inputs": inputs, "output": output, **options})
    with executor_for(settled, ENCODING) as executor:
        model = tokenizer.model if isinstance(tokenizer, Tokenizer) else load_model(named(tokenizer))
        return run_encode(settled, model, executor, warn_of).corpus


def run_encode(options: Options, model: Model, executor: Executor, listener: Listener) -> Encoded:
    """Encode and write shards, each only as far as the directory does not hold it yet."""
    if options.inputs is None or options.output is None:
        raise UsageError("encoding a corpus takes INPUT and --output: name files, and a directory for the shards")
    directory = as_workers_know(options.output, options)
    separator = separator_of(model, options)
    executor.on_notice = lambda text: listener(Notice("warning", text))
    with _at_work(directory, options) as watch:
        nodes = executor.nodes()
        encoding = open_encoding(directory, options, model, separator, listener, nodes)
        shards.sweep(directory)
        with _logged(directory, options), refused_goes(directory, (file.path for file in encoding.files)):
            times: dict[str, float | None] = {ENCODING_STAGE: None, WRITING_STAGE: None}
            corpus = _complete(directory, encoding)
            if corpus is None:
                shards.remove_owned(directory / shards.RESULT)  # which says that all is there
                started = time.monotonic()
                parts = _encode_chunks(directory, encoding, options, model, separator, executor, listener)
                times[ENCODING_STAGE] = time.monotonic() - started
                listener(StageEnded(ENCODING_STAGE, times[ENCODING_STAGE] or 0.0))
                lost = losses.add_up([_empty_files(encoding), *(part.statistics["losses"] for part in parts)])
                if options.fail_on_loss and lost:
                    told = ", ".join(map(str, losses.for_people(lost)))
                    raise InputError(
                        f"not everything was taken as it stood: {told}; mend it, or leave out --fail-on-loss"
                    )
                started = time.monotonic()
                written = _write_shards(directory, encoding, parts, options, executor, listener)
                times[WRITING_STAGE] = time.monotonic() - started
                listener(StageEnded(WRITING_STAGE, times[WRITING_STAGE] or 0.0))
                corpus = _described(encoding, model, separator, parts, lost, written)
                corpus.write(directory)
            shards.remove_owned(directory / "parts")
            if executor.retries:  # workers that were killed left something, too
                shards.sweep(directory)
            watch.look()
            return Encoded(directory, corpus, times, watch.peak_bytes, executor.retries, executor.used())


@contextlib.contextmanager
def _at_work(directory: Location, options: Options) -> Iterator[environment.MemoryWatch]:
    """Work on a directory alone, watching memory; an interruption says how to go on."""
    budget.budget(options.memory_limit).workers(1)  # a limit that is too small for anything is refused first
    try:
        with (
            run_directory.locked(directory, shards.MANIFEST),
            environment.MemoryWatch(options.memory_limit) as watch,
        ):
            yield watch
    except KeyboardInterrupt:
        without = ", without --overwrite," if options.overwrite else ""
        raise KeyboardInterrupt(
            f"interrupted; what is finished is kept: the same command{without} goes on from there"
        ) from None


@contextlib.contextmanager
def _logged(directory: Location, options: Options) -> Iterator[None]:
    with log_to(directory / "log.txt"):
        _log.info("%s", options)
        try:
            yield
        except BaseException as error:
            _log.error("stopped: %s: %s", type(error).__name__, error)
            raise


@dataclass(frozen=True)
class _Share:
    """How many workers encode on a machine, and the bytes that each has for known pieces and for text.

    bytes: all that each takes.
    """

    workers: int
    cache_bytes: int
    room_bytes: int
    limit_bytes: int
    bytes: int


def _share_of(options: Options, model: Model, chunks: int, nodes: Sequence[Node]) -> _Share:
    """What each worker gets; raises `UsageError` where not even one has room for the tokenizer."""
    whole = budget.budget(options.memory_limit, nodes)
    model_bytes = _MODEL_BYTES_A_TOKEN * model.vocabulary.size
    least = model_bytes + _LEAST_CACHE_BYTES + _BUFFER_BYTES + _LEAST_ROOM_BYTES
    asked = max(node.cores for node in nodes) if nodes else worker_count(options)
    for workers in range(whole.workers(max(1, min(asked, chunks))), 0, -1):
        room = whole.room(workers)
        if room >= least:
            cache = max(_LEAST_CACHE_BYTES, min(CACHE_BYTES // workers, (room - least) // 2))
            text = room - model_bytes - _BUFFER_BYTES - cache
            return _Share(workers, cache, text, whole.limit_bytes, whole.worker_bytes + room)
    needed = format_bytes(whole.taken_bytes + whole.worker_bytes + least)
    raise UsageError(
        f"{format_bytes(whole.limit_bytes)} of memory is too little for a tokenizer of {model.vocabulary.size:,} "
        f"tokens: give a --memory-limit of at least {needed}"
    )


def _encode_chunks(
    directory: Location,
    encoding: Encoding,
    options: Options,
    model: Model,
    separator: str | None,
    executor: Executor,
    listener: Listener,
) -> list[Part]:
    """Encode the chunks without parts; gives all parts, in the order of the corpus."""
    if model.pattern.refusal is not None and not hasattr(model.pattern, "steps"):
        listener(Notice("warning", f"the pattern runs on the regex package, slower: {model.pattern.refusal}"))
    nodes = executor.nodes()
    share = _share_of(options, model, len(encoding.chunks), nodes)
    special_tokens = model.vocabulary.special_tokens
    common = partial(
        EncodeTask,
        pattern=replace(model.pattern, tree=None),
        text_field=encoding.options["text_field"],
        special_tokens=special_bytes(model),
        special_ids=tuple(special_tokens.values()),
        errors=encoding.options["errors"],
        max_piece_bytes=None,
        room_bytes=share.room_bytes,
        limit_bytes=share.limit_bytes,
        workers=share.workers,
        model=executor.share(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        separator=None if separator is None else special_tokens[separator],
        separators=encoding.options["documents"] == "separator",
        id_bytes=_id_bytes(encoding),
        cache_bytes=share.cache_bytes,
    )
    found: dict[int, Part] = {}
    tasks: list[tuple[int, EncodeTask]] = []
    paths = [shards.part_path(directory, index) for index in range(len(encoding.chunks))]
    for index, (chunk, path, is_there) in enumerate(zip(encoding.chunks, paths, existing(paths), strict=True)):
        fingerprint = encoding.chunk_fingerprint(chunk)
        part = look_at_part(path, fingerprint) if is_there else None
        if part is None:
            spans = tuple((encoding.files[span.file], span.start, span.stop) for span in chunk.spans)
            tasks.append((index, common(name=f"chunk {index}", spans=spans, output=path, fingerprint=fingerprint)))
        else:
            found[index] = part
    total = sum(chunk.bytes for chunk in encoding.chunks)
    missing = sum(encoding.chunks[index].bytes for index, _ in tasks)
    listener(StageStarted(ENCODING_STAGE, total, "bytes", done=total - missing))
    _log.info("%d chunks, %d to encode", len(encoding.chunks), len(tasks))
    run_directory.require_ours(directory)
    make_directory(directory / "parts")
    for position, part in executor.run(
        encode_chunk,
        [task for _, task in tasks],
        lambda amount: listener(Advanced(ENCODING_STAGE, amount)),
        at_once=None if nodes else share.workers,
        need=Need(memory_bytes=share.bytes),
    ):
        found[tasks[position][0]] = part
    return [found[index] for index in range(len(encoding.chunks))]


def _id_bytes(encoding: Encoding) -> int:
    return 2 if encoding.options["dtype"] == "uint16" else 4


def _empty_files(encoding: Encoding) -> losses.Losses:
    """The files of which no worker sees anything: without a byte, or Parquet without a row."""
    planned = {span.file for chunk in encoding.chunks for span in chunk.spans}
    rowless = [file.path for index, file in enumerate(encoding.files) if index not in planned]
    empty = losses.Tally()
    empty.add("files_empty", len(encoding.empty) + len(rowless), [*encoding.empty, *rowless])
    return empty.found


def _write_shards(
    directory: Location,
    encoding: Encoding,
    parts: Sequence[Part],
    options: Options,
    executor: Executor,
    listener: Listener,
) -> list[Shard]:
    """Write the shards that are missing; gives all of them, in order."""
    format_, size = encoding.options["shard_format"], encoding.options["shard_size"]
    by_offsets = encoding.options["documents"] == "offsets"
    ids = sum(part.ids for part in parts)
    listener(StageStarted(WRITING_STAGE, ids, "tokens"))
    fingerprints = [encoding.chunk_fingerprint(chunk) for chunk in encoding.chunks]

    def last_end(part: int, stop: int) -> int | None:
        with PartReader(shards.part_path(directory, part), fingerprints[part]) as reader:
            return reader.last_end(stop)

    try:
        planned = plan_shards(
            [part.ids for part in parts], size, last_end if by_offsets or format_ == "parquet" else None
        )
    except ValueError as error:
        raise RunDirectoryError(
            f"{error}; remove that file and run the same command again, which makes it anew"
        ) from None

    def task(index: int, shard: PlannedShard) -> ShardTask:
        return ShardTask(
            output=directory / shards.shard_name(index, format_),
            offsets=directory / shards.offsets_name(index) if by_offsets and format_ != "parquet" else None,
            format=format_,
            id_bytes=_id_bytes(encoding),
            tokens=shard.stop - shard.start,
            slices=shard.slices,
            parts=tuple((shards.part_path(directory, one.part), fingerprints[one.part]) for one in shard.slices),
        )

    tasks = [task(index, shard) for index, shard in enumerate(planned)]
    run_directory.require_ours(directory)
    nodes = executor.nodes()
    whole = budget.budget(options.memory_limit, nodes)
    written = dict(
        executor.run(
            write_shard,
            tasks,
            lambda amount: listener(Advanced(WRITING_STAGE, amount)),
            at_once=None if nodes else whole.workers(max(1, min(worker_count(options), len(tasks)))),
            need=Need(memory_bytes=whole.worker_bytes + budget.LEAST_ROOM_BYTES),
        )
    )
    return [written[index] for index in range(len(tasks))]


def _complete(directory: Location, encoding: Encoding) -> EncodedCorpus | None:
    """What is in the directory, where it is complete: every file is there, of its size."""
    corpus = shards.load_result(directory)
    if corpus is None or corpus.encoding != encoding.fingerprint():
        return None
    sizes = {shard.name: shard.bytes for shard in corpus.shards}
    sizes |= {shard.offsets: shard.offsets_bytes or 0 for shard in corpus.shards if shard.offsets is not None}
    files = [directory / name for name in sizes]
    if not all(existing(files)):
        return None
    found = each(_size, files, remote=isinstance(directory, Remote))
    return corpus if list(found) == list(sizes.values()) else None


def _size(where: Location) -> int:
    try:
        return where.stat().st_size
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error.strerror or error}") from None


def _described(
    encoding: Encoding,
    model: Model,
    separator: str | None,
    parts: Sequence[Part],
    lost: Mapping[str, losses.Tallied],
    written: Sequence[Shard],
) -> EncodedCorpus:
    options = encoding.options
    by_offsets = options["documents"] == "offsets" and options["shard_format"] != "parquet"
    return EncodedCorpus(
        format=options["shard_format"],
        dtype=options["dtype"],
        vocab_size=model.vocabulary.max_id + 1,
        tokenizer=options["tokenizer"],
        documents_by=options["documents"],
        separator=separator,
        separator_id=None if separator is None else model.vocabulary.special_tokens[separator],
        tokens=sum(shard.tokens for shard in written),
        documents=sum(shard.documents for shard in written),
        text_bytes=sum(part.statistics["bytes"] for part in parts),
        files=len(encoding.files),
        losses={kind: lost[kind] for kind in losses.KINDS if kind in lost},
        shards=tuple(
            shards.ShardFacts(
                shard.name,
                shard.tokens,
                shard.documents,
                shard.bytes,
                shard.crc32,
                shards.offsets_name(index) if by_offsets else None,
                shard.offsets_bytes,
                shard.offsets_crc32,
            )
            for index, shard in enumerate(written)
        ),
        encoding=encoding.fingerprint(),
    )
