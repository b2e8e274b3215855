"""`decode --mask`: the rows of chat data as text, with what is learned between two marks."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile

from pipeline.base.errors import UsageError
from pipeline.guests.chat.assemble_worker import POSITIONS
from pipeline.shards.decode import blocks_of, shards_of
from pipeline.shards.encoded_corpus import EncodedCorpus
from pipeline.shards.formats.shard_format import IDS, ShardFacts
from pipeline.storage import Location
from pipeline.tokenizer.decode import tokens_of
from pipeline.tokenizer.tokenizer import Tokenizer

START, STOP = "\u27e6".encode(), "\u27e7".encode()  # around what is learned
_IGNORED = (1 << 32) - 100


def marked_rows(tokenizer_path: Location, paths: Sequence[Location]) -> Iterator[bytes]:
    """Yield each row of shards: how many of its tokens are learned, and its text without what fills it.

    Raises `InputError` as `decode_shards` does, and `UsageError` for shards without labels.
    """
    tokenizer = Tokenizer.load(tokenizer_path)
    found = [shards_of(path, tokenizer) for path in paths]
    for path, (_, corpus, _) in zip(paths, found, strict=True):
        if "labels" not in (corpus.columns or {}):
            raise UsageError(f"{path} has no labels: --mask is for the rows of encode-chat")
    rows = (row for directory, corpus, shards in found for shard in shards for row in _rows(directory, corpus, shard))
    for number, (ids, labels, *positions) in enumerate(rows):
        zeros = sum(1 for _ in takewhile(lambda at: at == 0, reversed(positions[0]))) if positions else 0
        kept, learned = len(ids) - zeros, len(ids) - labels.count(_IGNORED)
        padded = f", {zeros:,} padded" if zeros else ""
        text = [f"row {number}: {kept:,} tokens, {learned:,} learned{padded}\n".encode()]
        tokens = iter(tokens_of(tokenizer.vocab, ids[:kept]))
        for ignored, run in groupby(labels[:kept], _IGNORED.__eq__):
            own = b"".join(next(tokens) for _ in run)
            text.append(own if ignored else START + own + STOP)
        yield b"".join([*text, b"\n"])


def _rows(directory: Location, corpus: EncodedCorpus, shard: ShardFacts) -> Iterator[Sequence["array[int]"]]:
    """Yield the ids, labels and, of packed rows, positions of each row of a shard."""
    columns = [name for name in (IDS, "labels", POSITIONS) if name in (corpus.columns or {})]
    waiting, first = [array("I") for _ in columns], 0
    for blocks in zip(*(blocks_of(directory, corpus, shard, column) for column in columns), strict=True):
        for values, (block, _) in zip(waiting, blocks, strict=True):
            values.frombytes(block.cast("B"))
        ends = blocks[0][1]
        for start, end in zip([first, *ends], ends, strict=False):
            yield [values[start - first : end - first] for values in waiting]
        if ends:
            waiting, first = [values[ends[-1] - first :] for values in waiting], ends[-1]
