"""Functions of Python that are no commands: train_from_iterator, train_like."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bpe_pipeline.commands.declaration import Session, command
from bpe_pipeline.commands.public.values import as_given, tokenizer_of
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import (
    CorpusOptions,
    LearningOptions,
    MergeOptions,
    OutputOptions,
    PreTokenOptions,
    TextOptions,
    TrainOptions,
    WorkOptions,
)
from bpe_pipeline.run.record import Scope, argument, but, flag


class TrainFromIteratorOptions(OutputOptions, PreTokenOptions, TextOptions, LearningOptions):
    """What `train_from_iterator` takes: no file is read, on one machine."""

    documents: Iterable[Any] = argument(
        "DOCUMENTS",
        "an iterable of str or bytes, of mappings with these in `text_field`, of lists of either, or of Arrow tables, "
        "batches or arrays; also one of these, or a `datasets.Dataset`. Special tokens separate documents",
        read=as_given,
        keyword=Iterable[Any],
    )
    text_field: str = but(TextOptions.text_field, help="key of the text in a mapping, or the column in a table")
    workers: int | None = but(WorkOptions.workers, help="number of threads; default: one per physical core")
    memory_limit: int | None = but(
        WorkOptions.memory_limit,
        help="memory for the work; counters of more than a quarter of it are written out; default: 80 % of what is "
        "free",
    )


class TrainLikeOptions(OutputOptions, PreTokenOptions, TextOptions, MergeOptions):
    """What `train_like` takes: how the work is done. The trainer and the pre-tokenizer say what is trained."""

    exclude: tuple[str, ...] | None = CorpusOptions.exclude
    superwords_from: int | str | None = TrainOptions.superwords_from
    superword_pattern: str = TrainOptions.superword_pattern
    trainer: Any = argument("TRAINER", "a `tokenizers.trainers.BpeTrainer`", read=as_given, keyword=Any)
    pre_tokenizer: Any = argument(
        "PRETOKENIZER",
        "a ByteLevel, or a Sequence of Splits, Digits, Punctuation and a ByteLevel; there is no normalizer",
        read=as_given,
        keyword=Any,
    )
    files: tuple[str, ...] | None = but(
        CorpusOptions.inputs,
        scope=Scope.CALL,
        help="as for `tokenizers.Tokenizer.train`: each line with its ending is a document; special tokens are text",
        keyword=AnyPath | Sequence[AnyPath] | None,
    )
    texts: Iterable[Any] | None = flag(
        None, "instead of files: texts, or lists of texts", read=as_given, keyword=Iterable[Any] | None
    )


@command(name="", takes=TrainFromIteratorOptions, returns=tokenizer_of)
def train_from_iterator(session: Session) -> Any:
    """Train a tokenizer on the documents of an iterable, in bounded memory.

    A stop while counting changes nothing; complete counts are an ordinary run, from which `merge` continues.

    >>> documents = ["low low lower", "newest"]
    >>> bpe_pipeline.train_from_iterator(documents, output="runs/a", vocab_size=259).merges
    [(b'l', b'o'), (b'lo', b'w')]

    Returns:
        The tokenizer; of several sizes the first (`merge` returns all).

    Raises:
        PipelineError: as `train` does.
        Exception: whatever the iterable raises.
    """
    from bpe_pipeline.commands.train_iterator import train_on

    options = session.options
    return train_on(options.documents, options.to(TrainOptions), session.executor, session.listener)


def _like_the_trainer(given: Mapping[str, Any]) -> dict[str, Any]:
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

        return run_train(options.to(TrainOptions, inputs=options.files), session.executor, session.listener)
    from bpe_pipeline.commands.train_iterator import train_on

    texts = (text for item in options.texts for text in (item if isinstance(item, list | tuple) else [item]))
    return train_on(texts, options.to(TrainOptions), session.executor, session.listener)


FUNCTIONS = (train_from_iterator, train_like)
