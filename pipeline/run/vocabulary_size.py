"""Which vocabulary sizes can be learned: for bytes, special tokens, a first stage."""

from pipeline.base.errors import UsageError
from pipeline.base.printable import BYTE_ORDER
from pipeline.run.options import RECORDS, TrainOptions, flag_of


def check_vocabulary(options: TrainOptions) -> None:
    """Raise `UsageError` if a vocabulary size is too small: for bytes, special tokens, a first stage."""
    for size in options.vocab_size:
        options.special.merge_budget(size)
    first = options.first_stage
    if first is None:
        for name in ("superword_pattern", "superword_words", "superword_colon"):
            if getattr(options, name) != RECORDS[name].default:
                raise UsageError(f"{flag_of(name)} means nothing without --superwords-from: give both, or neither")
        return
    if options.stop_at_saving is not None:
        raise UsageError(
            "--stop-at-saving chooses the size of ordinary tokenizers; give one --vocab-size for superwords"
        )
    largest = len(BYTE_ORDER) + min(map(options.special.merge_budget, options.vocab_size))
    if isinstance(options.superwords_from, str) and len(options.vocab_size) > 1:
        raise UsageError(
            f"--superwords-from {options.superwords_from} is another number for each of several sizes, and a run has "
            "one first stage; give a number of tokens, or one --vocab-size"
        )
    if not len(BYTE_ORDER) <= first <= largest:
        raise UsageError(
            f"--superwords-from {options.superwords_from} is {first:,} tokens; give {len(BYTE_ORDER)}, the bytes "
            f"alone, to {largest:,}, the vocabulary size without special tokens"
        )
