"""Ids to bytes, and to text as they arrive; ids are any iterable: lists, numpy arrays, torch tensors, memoryviews."""

import codecs
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from operator import index

from bpe_pipeline.base.errors import InputError, unfit
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.tokenizer import arguments
from bpe_pipeline.tokenizer.model import Model


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


def tokens_of(vocab: Mapping[int, bytes], ids: Iterable[int], *, gaps: bool = False) -> list[bytes]:
    """Return the bytes of each id, with `gaps` none for one between others; InputError names an id without a token."""
    numbers = numbers_of(ids)
    try:
        return list(map(vocab.__getitem__, numbers))
    except KeyError as unknown:
        last = max(vocab)
        outside = next((id_ for id_ in numbers if not 0 <= id_ <= last), None)
        if gaps and outside is None:
            return [vocab.get(id_, b"") for id_ in numbers]
        why = "an id without a token" if outside is None else "not an id"
        raise InputError(
            f"{unknown.args[0] if outside is None else outside!r} is {why} of this vocabulary, whose {len(vocab):,} "
            f"tokens have ids up to {last}: were the ids made by another tokenizer?"
        ) from None


class StreamDecoder:
    """Decode ids that arrive one after another; the parts together are what `Tokenizer.decode` returns for all ids.

    A character whose bytes are incomplete waits for the rest. Use one decoder for each stream, in one thread.
    skipped: ids that are left out.
    """

    def __init__(self, vocab: Mapping[int, bytes], skipped: Container[int] = ()) -> None:
        self._vocab, self._skipped = vocab, skipped
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, *ids: int) -> str:
        """Return the text that these ids complete; often one character or none."""
        shown = [id_ for id_ in numbers_of(ids) if id_ not in self._skipped]
        return self._decoder.decode(b"".join(tokens_of(self._vocab, shown, gaps=True)))

    def finish(self) -> str:
        """End the stream: return U+FFFD for a character that stayed incomplete. Another stream may follow."""
        rest = self._decoder.decode(b"", True)
        self._decoder.reset()
        return rest


class Decoding:
    """The tokenizer's methods that say what ids stand for, and which ids tokens have."""

    model: Model

    @cached_property
    def vocab(self) -> dict[int, bytes]:
        """Id -> bytes of every token, special tokens included."""
        return self.model.vocabulary.to_dict()

    @cached_property
    def _letters(self) -> dict[str, int]:
        vocabulary = self.model.vocabulary
        ids = {text: id_ for id_, text in vocabulary.texts.items()} | vocabulary.special_tokens
        return dict(sorted(ids.items(), key=lambda item: item[1]))

    @cached_property
    def _letters_of_ids(self) -> dict[int, str]:
        return {id_: text for text, id_ in self._letters.items()}

    def get_vocab(self) -> dict[str, int]:
        """Return token -> id of every token, in the letters of Hugging Face's files.

        >>> tokenizer.get_vocab()["low"]
        257

        Returns:
            A new dictionary in order of ids; a space is "Ġ".
        """
        return self._letters.copy()

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token.

        >>> tokenizer.token_to_id("low")
        257

        Args:
            token: in these letters, such as "Ġthe" for " the".

        Returns:
            The id, or None.
        """
        if not isinstance(token, str):
            raise unfit("token", "a text", token)
        return self._letters.get(token)

    def id_to_token(self, id: int) -> str | None:  # noqa: A002 - its name in tokenizers
        """Return a token in the same letters.

        >>> tokenizer.id_to_token(257)
        'low'

        Args:
            id: the token's id.

        Returns:
            Token or None.
        """
        return self._letters_of_ids.get(numbers_of([id])[0])

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of ids.

        >>> tokenizer.decode_bytes([257, 259])
        b'low<|endoftext|>'

        Args:
            ids: any iterable of one dimension: list, numpy array, torch tensor, memoryview. A gap between ids has no
                bytes.

        Returns:
            The bytes, joined.

        Raises:
            InputError: an id is not in the vocabulary or not a whole number.
        """
        return b"".join(tokens_of(self.vocab, ids, gaps=True))

    def decode(self, ids: Iterable[int], *, errors: str = "replace", skip_special_tokens: bool = False) -> str:
        """Return the text of one row of ids.

        >>> tokenizer.decode([257, 258])
        'lower'

        Args:
            ids: as in `decode_bytes`.
            errors: as in `bytes.decode`, for incomplete characters.
            skip_special_tokens: whether to leave special tokens out.

        Returns:
            The text.

        Raises:
            InputError: an id is not in the vocabulary or not a whole number.
            UnicodeDecodeError: the bytes are not UTF-8 and `errors` is "strict".
        """
        if arguments.flag("skip_special_tokens", skip_special_tokens):
            ids = [id_ for id_ in numbers_of(ids) if id_ not in self.model.special_ids]
        return self.decode_bytes(ids).decode("utf-8", arguments.error_handler(errors))

    def decode_batch(
        self, batch: Iterable[Iterable[int]], *, errors: str = "replace", skip_special_tokens: bool = False
    ) -> list[str]:
        """Return the text of each row of ids, in order.

        >>> tokenizer.decode_batch([[257], [258]])
        ['low', 'er']

        Args:
            batch: rows of ids, or an array of two dimensions.
            errors: as in `decode`.
            skip_special_tokens: as in `decode`.

        Returns:
            The texts.
        """
        if isinstance(batch, str | bytes) or not isinstance(batch, Iterable):
            raise unfit("batch", "rows of ids, such as [[1, 2], [3]]", batch)
        return [self.decode(ids, errors=errors, skip_special_tokens=skip_special_tokens) for ids in batch]

    def decode_stream(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> Iterator[str]:
        """Yield the text of ids as they arrive, in complete UTF-8 characters.

        >>> list(tokenizer.decode_stream(tokenizer.encode("lowé")))
        ['low', 'é']

        Args:
            ids: as in `decode_bytes`.
            skip_special_tokens: as in `decode`.

        Yields:
            Parts of text.
        """
        decoder = self.stream_decoder(skip_special_tokens=skip_special_tokens)
        arriving = ids if isinstance(ids, Iterable) and not isinstance(ids, bytes) else numbers_of(ids)
        yield from filter(None, map(decoder.push, arriving))
        if rest := decoder.finish():
            yield rest

    def stream_decoder(self, *, skip_special_tokens: bool = False) -> StreamDecoder:
        """Return a decoder like `decode_stream` for ids that are pushed one by one.

        >>> decoder = tokenizer.stream_decoder()
        >>> decoder.push(257) + decoder.push(258) + decoder.finish()
        'lower'

        Args:
            skip_special_tokens: as in `decode`.

        Returns:
            An object whose methods `push(*ids)` and `finish()` return text.
        """
        skipped = self.model.special_ids if arguments.flag("skip_special_tokens", skip_special_tokens) else ()
        return StreamDecoder(self.vocab, skipped)

    def token_byte_offsets(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return where each token starts and ends in the UTF-8 of the decoded text (that after any normalizer).

        >>> tokenizer.token_byte_offsets([257, 258])
        [(0, 3), (3, 5)]

        Args:
            ids: as in `decode_bytes`.

        Returns:
            Pairs of positions.
        """
        lengths = map(len, tokens_of(self.vocab, ids, gaps=True))
        return list(pairwise(accumulate(lengths, initial=0)))
