"""Shards back to text: what `encode --output` wrote, in any of its formats, in bounded memory."""

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike

from bpe_pipeline.base.errors import InputError, unfit
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.shards.encoded_corpus import RESULT, EncodedCorpus, checksum, find_result
from bpe_pipeline.shards.formats import shard_format
from bpe_pipeline.shards.formats.shard_format import IDS, Block, ShardFacts
from bpe_pipeline.shards.manifest import SHARDS, load, tokenizer_fingerprint
from bpe_pipeline.storage import Location, Remote, named
from bpe_pipeline.tokenizer.decode import tokens_of
from bpe_pipeline.tokenizer.tokenizer import Tokenizer


def decode(shards: str | PathLike[str] | Remote, tokenizer: Tokenizer) -> Iterator[bytes]:
    """Decode a directory of shards, or one shard in it, to the text that was encoded.

    The separator follows each document, also if offsets separate documents. Each shard is checked against its CRC-32
    before any of its text is yielded.

    >>> encoded = bpe_pipeline.encode("corpus", tokenizer, "shards", workers=1)
    >>> b"".join(bpe_pipeline.decode("shards", tokenizer))
    b'lower<|endoftext|>low<|endoftext|>'

    Args:
        shards: path or URI of the directory, or of a shard in it.
        tokenizer: the tokenizer that encoded them.

    Yields:
        The text as UTF-8, block by block.

    Raises:
        InputError: shards are missing or damaged, or another tokenizer or encoding made them.
        RunDirectoryError: `encoding.json` was altered.
        StorageError: the directory cannot be read.
    """
    if not isinstance(tokenizer, Tokenizer):
        raise unfit("tokenizer", "a Tokenizer (bpe_pipeline.load reads one)", tokenizer)
    directory, corpus, facts = shards_of(named(shards, "shards"), tokenizer)
    by_offsets = corpus.layout().offsets
    added = tokenizer.model.behind[-1:] == (corpus.separator,)  # to each document, as the tokenizer's files say
    separator = b"" if corpus.separator is None or added else corpus.separator.encode()
    for shard in facts:
        first = 0
        for ids, ends in blocks_of(directory, corpus, shard):
            tokens = tokens_of(tokenizer.vocab, ids)
            text: list[bytes] = []
            at = 0
            for end in ends if by_offsets else ():
                text += [*tokens[at : end - first], separator]
                at = end - first
            yield b"".join([*text, *tokens[at:]])
            first += len(ids)


def shards_of(where: Location, tokenizer: Tokenizer) -> tuple[Location, EncodedCorpus, tuple[ShardFacts, ...]]:
    """Return the directory, the result and the shards that a path names; raises as `decode` does."""
    result = find_result(where)
    if result is None:
        raise InputError(
            f"{where} is neither a directory of shards nor one of them ({RESULT} is missing); if encoding was stopped, "
            "run the same command again to resume"
        )
    directory, corpus, shards = result
    stored = load(Directory(directory, SHARDS))
    if stored is not None and stored.fingerprint() != corpus.encoding:
        raise InputError(
            f"{directory / RESULT} is of another encoding than {SHARDS.manifest} next to it: run the last command that "
            "encoded there again, which completes the shards"
        )
    made_by = tokenizer_fingerprint(tokenizer.model)
    if made_by != corpus.tokenizer:
        raise InputError(
            f"{directory} was made by another tokenizer ({corpus.tokenizer}, this one is {made_by}): name that one"
        )
    if not shards and corpus.shards:
        raise InputError(f"{where} is not among the shards of {directory}: name one that {RESULT} has")
    return result


def blocks_of(directory: Location, corpus: EncodedCorpus, shard: ShardFacts, column: str = IDS) -> Iterator[Block]:
    """Yield the blocks of a shard, with the values of a column; `InputError` if it is damaged or cannot be read."""
    where = directory / shard.name
    offsets = None if shard.offsets is None else directory / shard.offsets
    tokens, layout = 0, corpus.layout()
    layout = replace(layout, columns={column: layout.columns[column]})
    try:
        for file, crc32, what in (
            (where, shard.crc32, "its CRC-32"),
            (offsets, shard.offsets_crc32, f"the CRC-32 of its offsets, {shard.offsets},"),
        ):
            if file is not None and checksum(file)[1] != crc32:
                raise ValueError(f"{what} is not the one in {RESULT}")
        for values, ends in shard_format(corpus.format).read(where, offsets, layout, shard):
            tokens += len(values)
            yield values, ends
        if tokens != shard.tokens:
            raise ValueError(f"it holds {tokens:,} tokens, not {shard.tokens:,}")
    except (OSError, ValueError) as error:
        wrong = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else f"is damaged: {error}"
        raise InputError(f"{where} {wrong}; restore it, or encode the corpus again") from None
