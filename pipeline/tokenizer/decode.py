"""Ids to text: the bytes they stand for, where each one's bytes lie, and text as it comes, never half a character.

Ids may be any iterable of whole numbers: lists, numpy arrays, torch tensors, memoryviews. None of those packages is
imported here.
"""

import codecs
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from operator import index

from pipeline.base.errors import InputError


def numbers_of(ids: Iterable[int]) -> list[int]:
    """The ids as numbers of Python; InputError for anything but one row of whole numbers."""
    to_list = getattr(ids, "tolist", None)  # of an array or a tensor, in one step
    try:
        return list(map(index, to_list() if to_list is not None else ids))
    except TypeError:
        raise InputError(
            f"ids are wanted as whole numbers in one row, such as [1, 2], not as {type(ids).__name__} of something "
            "else: for several rows use decode_batch"
        ) from None


def tokens_of(vocab: Mapping[int, bytes], ids: Iterable[int]) -> list[bytes]:
    """The bytes of each id; InputError names an id that is none of the vocabulary's."""
    try:
        return list(map(vocab.__getitem__, numbers_of(ids)))
    except KeyError as unknown:
        raise InputError(
            f"{unknown.args[0]!r} is not an id of this vocabulary of {len(vocab)} tokens: "
            "were the ids made by another tokenizer?"
        ) from None


def byte_offsets(tokens: Iterable[bytes]) -> list[tuple[int, int]]:
    """Where each token begins and ends in all their bytes together.

    >>> byte_offsets([b"low", b"er"])
    [(0, 3), (3, 5)]
    """
    return list(pairwise(accumulate(map(len, tokens), initial=0)))


class StreamDecoder:
    """Text of ids that come one after another. The parts together are what `Tokenizer.decode` gives for all ids.

    A character whose bytes have not all come is kept back; bytes that are no UTF-8 become U+FFFD as soon as that is
    certain. One for each stream; not to be shared between threads.
    """

    def __init__(self, vocab: Mapping[int, bytes]) -> None:
        self._vocab = vocab
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, *ids: int) -> str:
        """The text that these ids complete; often of one character or none."""
        return self._decoder.decode(b"".join(tokens_of(self._vocab, ids)))

    def finish(self) -> str:
        """What is left at the end: U+FFFD for a character that stayed incomplete. Another stream may follow."""
        rest = self._decoder.decode(b"", True)
        self._decoder.reset()
        return rest


def decoded_as_it_comes(vocab: Mapping[int, bytes], ids: Iterable[int]) -> Iterator[str]:
    """The text of ids, in parts that are never empty."""
    decoder = StreamDecoder(vocab)
    for id_ in ids:
        if part := decoder.push(id_):
            yield part
    if rest := decoder.finish():
        yield rest
