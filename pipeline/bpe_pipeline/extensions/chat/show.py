"""`decode --mask`: the rows of chat data as text, with what is trained on between two marks."""

from array import array
from collections.abc import Iterator
from itertools import groupby, takewhile

from bpe_pipeline.extensions.chat.training_rows import LABELS
from bpe_pipeline.shards.encoded_corpus import EncodedCorpus
from bpe_pipeline.shards.finish import POSITIONS
from bpe_pipeline.shards.formats import IDS, ShardFacts
from bpe_pipeline.shards.read import blocks_of
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.decode import tokens_of
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

START, STOP = "\u27e6".encode(), "\u27e7".encode()  # around what is trained on
_IGNORED = (1 << 32) - 100


def marked_rows(tokenizer: Tokenizer, directory: Location, corpus: EncodedCorpus, shard: ShardFacts) -> Iterator[bytes]:
    """Yield each row of a shard: how many of its tokens are trained on, and its text without padding."""
    for ids, labels, *positions in _rows(directory, corpus, shard):
        padded = sum(1 for _ in takewhile(lambda at: at == 0, reversed(positions[0]))) if positions else 0
        size, trained = len(ids) - padded, len(ids) - labels.count(_IGNORED)
        text = [f"{size:,} tokens, {trained:,} trained on{f', {padded:,} padded' if padded else ''}\n".encode()]
        tokens = iter(tokens_of(tokenizer.vocab, ids[:size]))
        for ignored, run in groupby(labels[:size], _IGNORED.__eq__):
            stretch = b"".join(next(tokens) for _ in run)
            text.append(stretch if ignored else START + stretch + STOP)
        yield b"".join([*text, b"\n"])


def _rows(directory: Location, corpus: EncodedCorpus, shard: ShardFacts) -> Iterator[list["array[int]"]]:
    """Yield the ids, labels and, of packed rows, positions of each row of a shard."""
    columns = [name for name in (IDS, LABELS, POSITIONS) if name in (corpus.columns or {})]
    waiting, first = [array("I") for _ in columns], 0
    for blocks in zip(*(blocks_of(directory, corpus, shard, column) for column in columns), strict=True):
        for values, (block, _) in zip(waiting, blocks, strict=True):
            values.frombytes(block.cast("B"))
        ends = blocks[0][1]
        for start, end in zip([first, *ends], ends, strict=False):
            yield [values[start - first : end - first] for values in waiting]
        if ends:
            waiting, first = [values[ends[-1] - first :] for values in waiting], ends[-1]
