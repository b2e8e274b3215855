"""The plan of an encoding: what is read, where it is cut, what stands between documents, and who does it with how much
memory.

The plan of shards is made once and kept in `encoding.json`; an encoding that goes on keeps it, with whatever workers it
has then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.base.errors import InputError, RunDirectoryError, UsageError
from pipeline.base.events import Listener, Notice
from pipeline.base.units import format_bytes
from pipeline.corpus.chunks import Chunk, Cutting, plan_chunks
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.losses import Losses, Tally
from pipeline.executors import Node
from pipeline.run import manifest, memory
from pipeline.run.options import READING_OPTIONS, Options, names_of
from pipeline.run.plan import list_corpus
from pipeline.run.standard_input import with_standard_input
from pipeline.run.workers import worker_count
from pipeline.shards import manifest as shards
from pipeline.shards.manifest import Encoding
from pipeline.storage import Location, exists
from pipeline.tokenizer.model import CACHE_BYTES, Model
from pipeline.tokenizer.prepare import SpecialSearch

# Options that mean nothing for encoding, which does as the tokenizer says.
OF_TRAINING = names_of("count", "vocabulary", "merge") - {"errors", *READING_OPTIONS} | {
    *("no_special_tokens", "export", "chat_template", "dry_run")
}
_LEAST_CHUNK_BYTES, _MOST_CHUNK_BYTES = 1 << 20, 64 << 20
_CHUNKS_A_WORKER = 8
_MODEL_BYTES_A_TOKEN = 600  # of a worker: the vocabulary in Python and in the encoder
_LEAST_CACHE_BYTES = 4 << 20
_BUFFER_BYTES = 8 << 20  # text at hand and the ids of it
_LEAST_ROOM_BYTES = 4 << 20  # for a long piece


def separator_of(model: Model, options: Options) -> str | None:
    """The special token that ends a document."""
    special_tokens = model.vocabulary.special_tokens
    separator = model.eos_token if options.separator is None else options.separator
    if separator is None and options.documents == "separator":
        raise UsageError("the tokenizer has no special token to stand behind each document: choose --documents offsets")
    if separator is not None and separator not in special_tokens:
        raise UsageError(
            f"--separator {separator!r} is not a special token of the tokenizer, which has "
            f"{', '.join(special_tokens) or 'none'}: name one of these"
        )
    return separator


def dtype_of(model: Model) -> str:
    """The narrowest of the two types of ids that holds every id of a model."""
    return "uint16" if model.vocabulary.max_id < 1 << 16 else "uint32"


def id_bytes(dtype: str) -> int:
    """How many bytes an id takes."""
    return 2 if dtype == "uint16" else 4


def open_encoding(
    directory: Location,
    options: Options,
    model: Model,
    separator: str | None,
    listener: Listener,
    nodes: Sequence[Node] = (),
) -> Encoding:
    """The encoding that the options ask for: the one in the directory, or a new one with its plan made and saved."""
    if exists(directory / "run.json"):
        raise RunDirectoryError(f"{directory} is a run directory: choose another --output for the shards")
    stored = None if options.overwrite else shards.load(directory)
    asked = {
        **{name: getattr(options, name) for name in ("errors", *READING_OPTIONS)},
        **options.of_stage("encode"),
        "separator": separator,
        "tokenizer": shards.tokenizer_fingerprint(model),
        "dtype": dtype_of(model),
    }
    if stored is not None:
        manifest.refuse_other_options(directory, "encoding", stored.options, asked)
    with with_standard_input(directory, options) as settled:
        return _opened(directory, stored, asked, settled, model, listener, nodes)


def _opened(
    directory: Location,
    stored: Encoding | None,
    asked: dict[str, Any],
    options: Options,
    model: Model,
    listener: Listener,
    nodes: Sequence[Node],
) -> Encoding:
    listing = list_corpus(options, listener, may_be_empty=stored is not None)
    if stored is not None:
        added = manifest.added_files(directory, stored.files, listing)
        if added:
            raise RunDirectoryError(
                f"{directory} holds the shards of another corpus, without {added[0].path}; choose another --output, or "
                "start anew with --overwrite"
            )
        return stored
    shards.refuse_corpus_inside(directory, listing.files)
    if not options.overwrite:
        shards.refuse_foreign_files(directory)
    chunks = cut_corpus(model, options, listing.files, nodes)
    encoding = Encoding(asked, listing.files, tuple(chunks), listing.empty)
    shards.clear(directory)
    shards.save(directory, encoding)
    return encoding


def cut_corpus(
    model: Model, options: Options, files: Sequence[CorpusFile], nodes: Sequence[Node] = ()
) -> Sequence[Chunk]:
    """The chunks of a corpus; raises `InputError` where there is nothing in it."""
    chunks = plan_chunks(files, _cutting(model, options), chunk_bytes=_chunk_bytes(options, files, nodes))
    if not chunks:
        raise InputError(f"the corpus is empty: {files[0].path} has no rows; name a file with text in it")
    return chunks


def tell_of_pattern(model: Model, listener: Listener) -> None:
    """Say that a pattern has no automaton, where it has none."""
    if runs_on_regex(model):
        listener(Notice("warning", f"the pattern runs on the regex package, slower: {model.pattern.refusal}"))


def runs_on_regex(model: Model) -> bool:
    """Whether the `regex` package cuts text into pieces."""
    return model.pattern.refusal is not None and not hasattr(model.pattern, "steps")


def _cutting(model: Model, options: Options) -> Cutting:
    """Where text may be cut: text that is prepared only at special tokens, and nowhere where their rules reach back."""
    if not model.preparation.changes_ids:
        whole_documents = options.errors == "skip"
        return Cutting(special_bytes(model), model.pattern.automaton, whole_documents, options.text_field)
    reaches_back = SpecialSearch(model.vocabulary.special_tokens, model.preparation).reaches_back
    return Cutting(() if reaches_back else special_bytes(model), None, True, options.text_field)


def special_bytes(model: Model) -> tuple[bytes, ...]:
    """Every special token of a model, in order of ids."""
    return tuple(text.encode() for text in model.vocabulary.special_tokens)


def _chunk_bytes(options: Options, files: Sequence[CorpusFile], nodes: Sequence[Node]) -> int:
    """How large a chunk is: as asked, or so that all workers end together."""
    cores = sum(node.cores for node in nodes)
    workers = min(options.workers or cores, cores) if nodes else worker_count(options)
    size = -(-manifest.corpus_bytes(files) // (workers * _CHUNKS_A_WORKER))
    return options.chunk_size or min(max(size, _LEAST_CHUNK_BYTES), _MOST_CHUNK_BYTES)


def files_without_text(files: Sequence[CorpusFile], chunks: Sequence[Chunk], empty: Sequence[str]) -> Losses:
    """The files of which no worker sees anything: without a byte, or Parquet without a row."""
    planned = {span.file for chunk in chunks for span in chunk.spans}
    rowless = [file.path for index, file in enumerate(files) if index not in planned]
    tally = Tally()
    tally.add("files_empty", len(empty) + len(rowless), [*empty, *rowless])
    return tally.found


@dataclass(frozen=True)
class Share:
    """How many workers encode on a machine, and the bytes that each has for known pieces and for text.

    bytes: all that each takes.
    """

    workers: int
    cache_bytes: int
    room_bytes: int
    limit_bytes: int
    bytes: int


def share_of(options: Options, model: Model, chunks: int, nodes: Sequence[Node]) -> Share:
    """What each worker gets; raises `UsageError` where not even one has room for the tokenizer."""
    whole = memory.budget(options.memory_limit, nodes)
    model_bytes = _MODEL_BYTES_A_TOKEN * model.vocabulary.size
    least = model_bytes + _LEAST_CACHE_BYTES + _BUFFER_BYTES + _LEAST_ROOM_BYTES
    asked = max(node.cores for node in nodes) if nodes else worker_count(options)
    for workers in range(whole.workers(max(1, min(asked, chunks))), 0, -1):
        room = whole.room(workers)
        if room >= least:
            cache = max(_LEAST_CACHE_BYTES, min(CACHE_BYTES // workers, (room - least) // 2))
            text = room - model_bytes - _BUFFER_BYTES - cache
            return Share(workers, cache, text, whole.limit_bytes, whole.worker_bytes + room)
    needed = format_bytes(whole.taken_bytes + whole.worker_bytes + least)
    raise UsageError(
        f"{format_bytes(whole.limit_bytes)} of memory is too little for a tokenizer of {model.vocabulary.size:,} "
        f"tokens: give a --memory-limit of at least {needed}"
    )
