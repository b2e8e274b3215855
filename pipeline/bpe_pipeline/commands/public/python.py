"""Functions of Python that are no commands: train_from_iterator, train_like, encode_files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, replace
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.commands.declaration import Session, command
from bpe_pipeline.commands.public.values import ValuesOptions, as_given, parse_tokenizer, tokenizer_of
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import CorpusOptions, EncodeFilesOptions, TextOptions, TrainOptions, Values, WorkOptions
from bpe_pipeline.run.record import CALL, argument, as_in, flag
from bpe_pipeline.storage import Location


class TrainFromIteratorOptions(ValuesOptions):
    """What `train_from_iterator` takes."""

    documents: Iterable[Any] = argument(
        "DOCUMENTS",
        as_given,
        "any iterable of documents as str or bytes, of mappings with these in `text_field`, of lists of either, or of "
        "pyarrow Arrays, RecordBatches or Tables; also one of these, or a `datasets.Dataset`. Columns do not become "
        "Python strings. A special token inside an item separates documents",
        keyword=Iterable[Any],
    )
    text_join: str | None = as_in(TextOptions, "text_join")
    text_field: str = as_in(TextOptions, "text_field", help="key of the text in a mapping, or the column in a table")
    workers: int | None = as_in(WorkOptions, "workers", help="number of threads; default: one per physical core")
    memory_limit: int | None = as_in(
        WorkOptions,
        "memory_limit",
        help="memory for the work; counters of more than a quarter of it are written out; default: 80 % of what is "
        "free",
    )


class TrainLikeOptions(TrainOptions):
    """What `train_like` takes: how the work is done. The trainer and the pre-tokenizer say what is trained."""

    inputs: tuple[str, ...] | None = None
    dry_run: bool = False
    trainer: Any = argument("TRAINER", as_given, "a `tokenizers.trainers.BpeTrainer`", keyword=Any)
    pre_tokenizer: Any = argument(
        "PRETOKENIZER",
        as_given,
        "a ByteLevel, or a Sequence of Splits, Digits, Punctuation and a ByteLevel; there is no normalizer",
        keyword=Any,
    )
    files: tuple[str, ...] | None = as_in(
        CorpusOptions,
        "inputs",
        stage=CALL,
        help="as for `tokenizers.Tokenizer.train`: each line with its ending is a document; special tokens are text",
        keyword=AnyPath | Sequence[AnyPath] | None,
    )
    texts: Iterable[Any] | None = flag(
        None,
        as_given,
        "instead of files: texts, or lists of texts",
        keyword=Iterable[Any] | None,
    )


@command(name="", takes=TrainFromIteratorOptions, returns=tokenizer_of)
def train_from_iterator(session: Session) -> Any:
    """Train a tokenizer on the documents of an iterable, in bounded memory.

    A lone surrogate is treated as `errors` says of invalid UTF-8. A stop while counting changes nothing, since an
    iterable cannot be read again; complete counts are an ordinary run, from which `merge_run` continues.

    >>> documents = ["low low lower", "newest"]
    >>> bpe_pipeline.train_from_iterator(documents, output="runs/a", vocab_size=259).merges
    [(b'l', b'o'), (b'lo', b'w')]

    Returns:
        The tokenizer; of several sizes the first (`merge_run` returns all).

    Raises:
        PipelineError: as `train` does.
        Exception: whatever the iterable raises.
    """
    from bpe_pipeline.commands.train_iterator import train_on

    return train_on(session.options.documents, session.options, session.executor, session.listener)


def _like_the_trainer(given: Mapping[str, Any], _: type[Values]) -> dict[str, Any]:
    """Take what the trainer and the pre-tokenizer say from these."""
    from bpe_pipeline.commands.train_like import like

    return like(given)


@command(
    name="",
    takes=TrainLikeOptions,
    positional=("trainer", "pre_tokenizer", "files"),
    returns=tokenizer_of,
    settled=_like_the_trainer,
)
def train_like(session: Session) -> Any:
    """Train what `tokenizers` trains with this trainer and pre-tokenizer: the same merges, vocabulary and ids.

    Skipped or altered input, such as invalid UTF-8, is an error as it is there, unless `errors` or `fail_on_loss` says
    otherwise.

    >>> from tokenizers.pre_tokenizers import ByteLevel
    >>> from tokenizers.trainers import BpeTrainer
    >>> trainer = BpeTrainer(vocab_size=258, initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    >>> pre_tokenizer = ByteLevel(add_prefix_space=False)
    >>> tokenizer = bpe_pipeline.train_like(trainer, pre_tokenizer, texts=["low low lower"], output="runs/a")
    >>> tokenizer.merges
    [(b'l', b'o'), (b'lo', b'w')]

    Returns:
        The tokenizer.

    Raises:
        UsageError: a setting is not reproduced exactly; the message names it.
        ExportRefusedError: a merge makes the text of a special token, so tokenizers would give both one id.
        PipelineError: as `bpe_pipeline.train` raises it.
    """
    options = session.options
    if options.files is not None:
        from bpe_pipeline.commands.train import run_train

        return run_train(replace(options, inputs=options.files), session.executor, session.listener)
    from bpe_pipeline.commands.train_iterator import train_on

    texts = (text for item in options.texts for text in (item if isinstance(item, list | tuple) else [item]))
    return train_on(texts, options, session.executor, session.listener)


class EncodeFilesCallOptions(EncodeFilesOptions):
    """What `encode_files` takes."""

    tokenizer: Location = flag(
        MISSING, parse_tokenizer, "a tokenizer, or the path or URI of one", "DIR", keyword=AnyPath | Any
    )
    workers: int | None = as_in(
        WorkOptions,
        "workers",
        help="number of threads; default: all cores, but one for a pattern that the `regex` package runs",
    )
    memory_limit: int | None = as_in(
        WorkOptions, "memory_limit", help="memory for the work, without the result; default: 80 % of what is free"
    )


def _encoded() -> Any:
    from bpe_pipeline.shards.in_memory import EncodedFiles

    return EncodedFiles


def _inputs_first(given: Mapping[str, Any], _: type[Values]) -> dict[str, Any]:
    """Refuse a tokenizer in the place of the inputs."""
    from bpe_pipeline.shards.plan import refuse_swapped

    refuse_swapped(given.get("inputs"), "encode_files(inputs, tokenizer)")
    return {**given}


@command(
    name="",
    takes=EncodeFilesCallOptions,
    positional=("inputs", "tokenizer"),
    required=("inputs",),
    returns=_encoded,
    settled=_inputs_first,
    workers=None,
)
def encode_files(session: Session) -> Any:
    """Encode a corpus in memory: the same ids as `encode_corpus` writes, document by document.

    It takes 2 or 4 bytes per id and up to an eighth more, 8 bytes per document, and limited memory for the work.

    >>> encoded = bpe_pipeline.encode_files("corpus", tokenizer)
    >>> encoded.ids.tolist()
    [257, 258, 259, 257, 259]
    >>> [tokenizer.decode(document) for document in encoded]
    ['lower<|endoftext|>', 'low<|endoftext|>']

    Returns:
        The ids, where documents end, and what was skipped or altered.

    Raises:
        UsageError: an option is unknown, wrong or means nothing here, or the memory limit is too small.
        InputError: a file is missing, damaged or empty; with `errors="strict"`, or `fail_on_loss`, invalid text.
        TrainingError: a pre-token exceeds the memory budget.
    """
    from bpe_pipeline.shards.in_memory import encode_in_memory
    from bpe_pipeline.shards.plan import model_of

    options = session.options
    inputs = options.inputs or ()
    if not inputs or "-" in inputs:
        raise UsageError(
            "encode_files takes the names of files: give some, and encode standard input with encode_iterable"
        )
    return encode_in_memory(model_of(options.tokenizer, inputs[0] if len(inputs) == 1 else inputs), options)


FUNCTIONS = (train_from_iterator, train_like, encode_files)
