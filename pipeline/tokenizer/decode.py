"""Ids to bytes, and to text as they arrive; ids are any iterable: lists, numpy arrays, torch tensors, memoryviews."""

import codecs
from collections.abc import Iterable, Mapping
from operator import index

from pipeline.base.errors import InputError


def numbers_of(ids: Iterable[int]) -> list[int]:
    """Return the ids as Python's numbers; InputError for anything but one row of whole numbers."""
    to_list = getattr(ids, "tolist", None)  # of an array or a tensor, in one step
    if isinstance(ids, int) or getattr(ids, "ndim", None) == 0:
        raise InputError(f"ids must be whole numbers in one row, not the one number {ids}: decode([{ids}])")
    try:
        if isinstance(ids, bytes | bytearray):
            raise TypeError("bytes are numbers too, but hardly ids")
        return list(map(index, to_list() if to_list is not None else ids))
    except TypeError:
        raise InputError(
            f"ids must be whole numbers in one row, such as [1, 2], not {type(ids).__name__} of something else: for "
            "several rows use decode_batch"
        ) from None


def tokens_of(vocab: Mapping[int, bytes], ids: Iterable[int]) -> list[bytes]:
    """Return the bytes of each id; InputError names an id that the vocabulary lacks."""
    try:
        return list(map(vocab.__getitem__, numbers_of(ids)))
    except KeyError as unknown:
        raise InputError(
            f"{unknown.args[0]!r} is not an id of this vocabulary of {len(vocab)} tokens: "
            "were the ids made by another tokenizer?"
        ) from None


class StreamDecoder:
    """Decode ids that arrive one after another; the parts together are what `Tokenizer.decode` returns for all ids.

    A character whose bytes are incomplete waits for the rest. Use one decoder for each stream, in one thread.
    """

    def __init__(self, vocab: Mapping[int, bytes]) -> None:
        self._vocab = vocab
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, *ids: int) -> str:
        """Return the text that these ids complete; often one character or none."""
        return self._decoder.decode(b"".join(tokens_of(self._vocab, ids)))

    def finish(self) -> str:
        """End the stream: return U+FFFD for a character that stayed incomplete. Another stream may follow."""
        rest = self._decoder.decode(b"", True)
        self._decoder.reset()
        return rest
