"""The plan of an encoding: what is read, where it is cut, what separates documents, and the workers and their memory.

The plan is made once and stored in `encoding.json`; a resumed encoding keeps it, whatever workers it has then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.base.errors import RunDirectoryError, UsageError
from pipeline.base.units import format_bytes
from pipeline.corpus.chunks import Cutting
from pipeline.corpus.files import CorpusFile
from pipeline.executors import Need, Node
from pipeline.run import manifest, memory
from pipeline.run.options import READING_OPTIONS, Options, names_of
from pipeline.run.plan import Plan, corpus_bytes, list_corpus
from pipeline.run.standard_input import with_standard_input
from pipeline.run.work import Work
from pipeline.run.workers import worker_count
from pipeline.shards import manifest as shards
from pipeline.shards.manifest import Encoding
from pipeline.storage import exists
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
_BUFFER_BYTES = 8 << 20  # a block of text and its ids
_LEAST_TEXT_BYTES = 4 << 20  # for a long piece


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


def open_encoding(work: Work, model: Model, separator: str | None) -> Encoding:
    """Return the encoding that the options ask for: the one in the directory, or a new one with its plan saved."""
    options, directory = work.options, work.directory
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
        listing = list_corpus(settled, work.listener, may_be_empty=stored is not None)
        if stored is not None:
            added = stored.plan.added_files(directory, listing)
            if added:
                raise RunDirectoryError(
                    f"{directory} holds the shards of another corpus, without {added[0].path}; choose another "
                    "--output, or start again with --overwrite"
                )
            return stored
        directory.refuse_corpus_inside(file.path for file in listing.files)
        if not options.overwrite:
            directory.refuse_foreign_files()
        plan = cut_corpus(Plan(empty=listing.empty), listing.files, model, options, work.nodes)
        return _replaced(Encoding(directory, asked, plan))


def _replaced(encoding: Encoding) -> Encoding:
    """Delete the encoding in the directory, if there is one, and save this one in its place."""
    try:
        old = shards.load(encoding.directory)
    except RunDirectoryError:
        old = None  # damaged: no list of its files can be trusted, and new files replace them one by one
    if old is not None:
        shards.clear(old, keep=[file.path for file in encoding.plan.files])
    shards.save(encoding)
    return encoding


def cut_corpus(
    plan: Plan, files: tuple[CorpusFile, ...], model: Model, options: Options, nodes: Sequence[Node] = ()
) -> Plan:
    """Return the plan with the chunks of these files; raises `InputError` if they have nothing to read."""
    cores = sum(node.cores for node in nodes)
    workers = min(options.workers or cores, cores) if nodes else worker_count(options)
    size = -(-corpus_bytes(files) // (workers * _CHUNKS_A_WORKER))  # so that all workers end together
    chunk_bytes = options.chunk_size or min(max(size, _LEAST_CHUNK_BYTES), _MOST_CHUNK_BYTES)
    return plan.extended(files, _cutting(model, options), chunk_bytes)


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


@dataclass(frozen=True)
class EncodingWorkers:
    """How many workers encode on a machine, and the bytes that each has: for known pieces, for text, and in all."""

    count: int
    cache_bytes: int
    text_bytes: int
    limit_bytes: int
    need: Need


def encoding_workers(options: Options, model: Model, chunks: int, nodes: Sequence[Node] = ()) -> EncodingWorkers:
    """Return the workers that encode that many chunks; `UsageError` if not even one has memory for the tokenizer."""
    whole = memory.budget(options.memory_limit, nodes)
    model_bytes = _MODEL_BYTES_A_TOKEN * model.vocabulary.size
    least = model_bytes + _LEAST_CACHE_BYTES + _BUFFER_BYTES + _LEAST_TEXT_BYTES
    asked = max(node.cores for node in nodes) if nodes else worker_count(options)
    for count in range(whole.workers(max(1, min(asked, chunks))), 0, -1):
        work_bytes = whole.per_worker(count)
        if work_bytes >= least:
            cache = max(_LEAST_CACHE_BYTES, min(CACHE_BYTES // count, (work_bytes - least) // 2))
            text = work_bytes - model_bytes - _BUFFER_BYTES - cache
            need = Need(memory_bytes=whole.worker_bytes + work_bytes)
            return EncodingWorkers(count, cache, text, whole.limit_bytes, need)
    needed = format_bytes(whole.taken_bytes + whole.worker_bytes + least)
    raise UsageError(
        f"{format_bytes(whole.limit_bytes)} of memory is too little for a tokenizer of {model.vocabulary.size:,} "
        f"tokens: give a --memory-limit of at least {needed}"
    )
