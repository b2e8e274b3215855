"""The tokenizer's methods that make ids of texts: one, a batch, or one that arrives in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from bpe_pipeline.base.errors import unfit
from bpe_pipeline.tokenizer import arguments
from bpe_pipeline.tokenizer.arguments import Array
from bpe_pipeline.tokenizer.encode import Allowed, Disallowed, SpecialChoice, Text, TextEncoder, utf8_blocks
from bpe_pipeline.tokenizer.model import Model


class Encoding:
    """The tokenizer's methods that encode; `model` is what they encode with."""

    model: Model

    def _set_model(self, model: Model) -> None:
        self.model = model
        self._encoder = TextEncoder(model)
        special_tokens = model.vocabulary.special_tokens
        self._choice = SpecialChoice(self._encoder, special_tokens.keys())
        self._every = self._choice.every
        self._front, self._behind = ([special_tokens[text] for text in texts] for texts in (model.front, model.behind))

    def encode(
        self,
        text: Text,
        *,
        add_special_tokens: bool = True,
        allowed_special: Allowed = None,
        disallowed_special: Disallowed = None,
    ) -> list[int]:
        """Return the ids of a text, as calling the tokenizer does.

        Special tokens in the text are recognised, leftmost and longest first. If `allowed_special` or
        `disallowed_special` is given, both mean what they mean in tiktoken.

        >>> tokenizer.encode("low<|endoftext|>")
        [257, 259]
        >>> tokenizer.encode("low<|endoftext|>", allowed_special=set())
        Traceback (most recent call last):
        bpe_pipeline.base.errors.SpecialTokenError: the text contains the disallowed special token '<|endoftext|>'...

        Args:
            text: str or bytes.
            add_special_tokens: whether to add the tokens that the tokenizer's files put around each text.
            allowed_special: special tokens to recognise, or "all".
            disallowed_special: special tokens to refuse, or "all" that are not allowed (the default if
                `allowed_special` is given); others are encoded as text.

        Returns:
            The token ids.

        Raises:
            SpecialTokenError: the text contains a disallowed special token; a ValueError.
            UsageError: the text has another type, or one of the two sets is a text other than "all".
            InputError: a pre-token is longer than 1 GiB.
        """
        if allowed_special is None and disallowed_special is None:  # without a further call: texts may be short
            ids = self._encoder.encode(text, self._every)
        else:
            ids = self._encoder.encode(text, self._choice.of([text], allowed_special, disallowed_special))
        if add_special_tokens is not True:
            arguments.flag("add_special_tokens", add_special_tokens)
            return ids
        return self._front + ids + self._behind if self._front or self._behind else ids

    __call__ = encode

    def encode_ordinary(self, text: Text) -> list[int]:
        """Return the ids of a text in which special tokens are ordinary text.

        >>> len(tokenizer.encode_ordinary("<|endoftext|>"))
        13

        Args:
            text: str or bytes.

        Returns:
            The token ids.
        """
        return self._encoder.encode(text, self._choice.none)

    def encode_batch(
        self,
        texts: Iterable[Text],
        *,
        num_threads: int | None = None,
        add_special_tokens: bool = True,
        allowed_special: Allowed = None,
        disallowed_special: Disallowed = None,
    ) -> list[list[int]]:
        """Return the ids of each text, encoded in parallel.

        >>> tokenizer.encode_batch(["low", "er"])
        [[257], [258]]

        Args:
            texts: str or bytes.
            num_threads: at most this many; None: all cores.
            add_special_tokens: as in `encode`.
            allowed_special: as in `encode`.
            disallowed_special: as in `encode`.

        Returns:
            Lists of ids.

        Raises:
            SpecialTokenError: the text contains a disallowed special token; a ValueError.
            UsageError: `texts` is one text, or `num_threads` is below 1.
        """
        listed = arguments.texts_of(texts)
        specials = self._choice.of(listed, allowed_special, disallowed_special)
        encoded = self._encoder.encode_batch(listed, specials, arguments.threads_of(num_threads))
        front, behind = self._front, self._behind
        added = arguments.flag("add_special_tokens", add_special_tokens) and (front or behind)
        return [front + ids + behind for ids in encoded] if added else encoded

    def encode_ordinary_batch(self, texts: Iterable[Text], *, num_threads: int | None = None) -> list[list[int]]:
        """Return the ids of each text as `encode_ordinary` does, in parallel.

        >>> tokenizer.encode_ordinary_batch(["low", "er"])
        [[257], [258]]

        Args:
            texts: str or bytes.
            num_threads: as in `encode_batch`.

        Returns:
            Lists of ids.

        Raises:
            UsageError: `texts` is one text, or `num_threads` is below 1.
        """
        return self._encoder.encode_batch(
            arguments.texts_of(texts), self._choice.none, arguments.threads_of(num_threads)
        )

    def encode_iterable(
        self, blocks: Iterable[Text], *, allowed_special: Allowed = None, disallowed_special: Disallowed = None
    ) -> Iterator[int]:
        """Iterate over the ids of a text that arrives in blocks, such as an open file; they are those of `encode`.

        Memory is bounded by the longest pre-token and block; with a pattern of the `regex` package, NFC, several splits
        or rules of special tokens by up to the whole text.

        >>> list(tokenizer.encode_iterable(["lo", "wer<|end", "oftext|>"]))
        [257, 258, 259]

        Args:
            blocks: str or bytes; special tokens, pre-tokens and characters may cross blocks.
            allowed_special: as in `encode`.
            disallowed_special: as in `encode`; one is found when the iterator reaches it.

        Returns:
            An iterator.

        Raises:
            SpecialTokenError: the text contains a disallowed special token; a ValueError.
            UsageError: a block has another type.
        """
        if not isinstance(blocks, Iterable):
            raise unfit("blocks", "texts, such as an open file", blocks)
        checked, recognised = self._choice.of_blocks(utf8_blocks(blocks), allowed_special, disallowed_special)
        ids = self._encoder.encode_blocks(checked, recognised)
        return chain(self._front, ids, self._behind) if self._front or self._behind else ids

    def encode_to_numpy(
        self, text: Text, *, dtype: Any = None, allowed_special: Allowed = None, disallowed_special: Disallowed = None
    ) -> Array:
        """Return the ids of a text as a numpy array.

        >>> tokenizer.encode_to_numpy("lower", dtype="uint16")
        array([257, 258], dtype=uint16)

        Args:
            text: str or bytes.
            dtype: an integer type that holds every id; None: int64. "uint32" is not copied.
            allowed_special: as in `encode`.
            disallowed_special: as in `encode`.

        Returns:
            The ids.

        Raises:
            SpecialTokenError: the text contains a disallowed special token; a ValueError.
            UsageError: `dtype` cannot hold every id.
        """
        import numpy as np

        wanted = arguments.integer_dtype(dtype, self.model.vocabulary.max_id)
        recognised = self._choice.of([text], allowed_special, disallowed_special)
        ids: Array = np.asarray(self._encoder.encode_to_buffer(text, recognised))
        if self._front or self._behind:
            ids = np.concatenate([np.asarray(part, ids.dtype) for part in (self._front, ids, self._behind)])
        return ids.astype(wanted, copy=False)

    def count_tokens(
        self, text: Text, *, allowed_special: Allowed = None, disallowed_special: Disallowed = None
    ) -> int:
        """Return the number of ids of a text, without making them.

        >>> tokenizer.count_tokens("lower<|endoftext|>")
        3

        Args:
            text: str or bytes.
            allowed_special: as in `encode`.
            disallowed_special: as in `encode`.

        Returns:
            The number.

        Raises:
            SpecialTokenError: the text contains a disallowed special token; a ValueError.
        """
        recognised = self._choice.of([text], allowed_special, disallowed_special)
        return len(self._front) + len(self._behind) + self._encoder.count(text, recognised)
