"""The story of `encode --output`: a corpus becomes shards of token ids.

Workers encode chunks into parts, each a checkpoint; from the parts' sizes follows where shards begin and end; workers
write the shards from the parts. A run that was stopped goes on with the parts and shards that are missing. What is in
the shards depends on corpus, tokenizer and options alone: not on workers, chunk size, memory or kills.
"""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from pipeline.base import machine
from pipeline.base.errors import StorageError, UsageError
from pipeline.base.events import Listener, Notice, StageEnded, warn_of
from pipeline.base.log import log_to
from pipeline.corpus import losses
from pipeline.executors import Executor
from pipeline.report.encoded import Encoded
from pipeline.run import directory as run_directory
from pipeline.run import memory
from pipeline.run.options import Options, make_options, refuse_unfit
from pipeline.run.standard_input import refused_goes
from pipeline.run.workers import ENCODING, as_workers_know, executor_for
from pipeline.shards import manifest
from pipeline.shards.encode import ENCODING_STAGE, WRITING_STAGE, encode_chunks, write_shards
from pipeline.shards.manifest import EncodedCorpus, Encoding
from pipeline.shards.part_file import Part
from pipeline.shards.plan import OF_TRAINING, files_without_text, open_encoding, separator_of
from pipeline.shards.write_worker import Shard
from pipeline.storage import Location, Remote, each, existing, named
from pipeline.tokenizer.formats.load import load_model
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


def encode_corpus(
    inputs: str | PathLike[str] | Sequence[str | PathLike[str]],
    tokenizer: Tokenizer | str | PathLike[str] | Remote,
    output: str | PathLike[str] | Remote,
    **options: Any,
) -> EncodedCorpus:
    """Encode a corpus into shards of token ids in the directory `output`, as `bpe-pipeline encode --output` does.

    inputs: files, directories, globs and URIs, of all formats that training reads. tokenizer: one, or where one lies.
    options: `shard_format="npy"` (or "bin", "parquet"), `shard_size=100_000_000` tokens, `documents="separator"` (or
        "offsets"), `separator="<|endoftext|>"`, `errors`, `workers`, ...; see `pipeline.run.options.Options`.

    Returns what `shards.json` says. A directory that holds the same shards is completed; one of others is refused.
    Raises as `train` does.
    """
    refuse_unfit(options, OF_TRAINING, "encoding, which does as the tokenizer says")
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
        manifest.sweep(directory)
        with _logged(directory, options), refused_goes(directory, (file.path for file in encoding.files)):
            times: dict[str, float | None] = {ENCODING_STAGE: None, WRITING_STAGE: None}
            corpus = _complete(directory, encoding)
            if corpus is None:
                manifest.remove_owned(directory / manifest.RESULT)  # which says that all is there
                started = time.monotonic()
                parts = encode_chunks(directory, encoding, options, model, separator, executor, listener)
                times[ENCODING_STAGE] = time.monotonic() - started
                listener(StageEnded(ENCODING_STAGE, times[ENCODING_STAGE] or 0.0))
                lost = losses.add_up(
                    [
                        files_without_text(encoding.files, encoding.chunks, encoding.empty),
                        *(part.statistics.losses for part in parts),
                    ]
                )
                if options.fail_on_loss and lost:
                    raise losses.refusal(losses.for_people(lost))
                started = time.monotonic()
                written = write_shards(directory, encoding, parts, options, executor, listener)
                times[WRITING_STAGE] = time.monotonic() - started
                listener(StageEnded(WRITING_STAGE, times[WRITING_STAGE] or 0.0))
                corpus = _described(encoding, model, separator, parts, lost, written)
                corpus.write(directory)
            manifest.remove_owned(directory / "parts")
            if executor.retries:  # workers that were killed left something, too
                manifest.sweep(directory)
            watch.look()
            return Encoded(directory, corpus, times, watch.peak_bytes, executor.retries, executor.used())


@contextlib.contextmanager
def _at_work(directory: Location, options: Options) -> Iterator[machine.MemoryWatch]:
    """Work on a directory alone, watching memory; an interruption says how to go on."""
    memory.budget(options.memory_limit).workers(1)  # a limit that is too small for anything is refused first
    try:
        with (
            run_directory.locked(directory, manifest.MANIFEST),
            machine.MemoryWatch(options.memory_limit) as watch,
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


def _complete(directory: Location, encoding: Encoding) -> EncodedCorpus | None:
    """What is in the directory, where it is complete: every file is there, of its size."""
    corpus = manifest.load_result(directory)
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
        text_bytes=sum(part.statistics.bytes for part in parts),
        files=len(encoding.files),
        losses={kind: lost[kind] for kind in losses.KINDS if kind in lost},
        shards=tuple(
            manifest.ShardFacts(
                shard.name,
                shard.tokens,
                shard.documents,
                shard.bytes,
                shard.crc32,
                manifest.offsets_name(index) if by_offsets else None,
                shard.offsets_bytes,
                shard.offsets_crc32,
            )
            for index, shard in enumerate(written)
        ),
        encoding=encoding.fingerprint(),
    )
