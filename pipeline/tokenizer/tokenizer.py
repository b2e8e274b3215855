"""The public tokenizer: text to ids and back, and to and from files.

Ids are those of exact byte-pair encoding by rank. It holds no state besides caches; threads may share it.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, pairwise
from operator import index
from os import PathLike
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import UsageError
from pipeline.base.machine import default_workers
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern import CompiledPattern, compile_pattern, resolve
from pipeline.run.ids import Roles, SpecialTokens
from pipeline.storage import Remote, named
from pipeline.tokenizer.allowed_special import Allowed, Disallowed, allowed_and_refused, checked
from pipeline.tokenizer.decode import StreamDecoder, tokens_of
from pipeline.tokenizer.encode import Recognised, Text, TextEncoder, utf8_blocks, utf8_of
from pipeline.tokenizer.formats.load import load_model
from pipeline.tokenizer.formats.save import write_model
from pipeline.tokenizer.formats.tiktoken_ranks import model_of_ranks, read_ranks
from pipeline.tokenizer.model import Model

if TYPE_CHECKING:
    from numpy import integer
    from numpy.typing import NDArray

_MAX_SELECTIONS = 64  # combinations of allowed special tokens whose search stays prepared
_MOST_THREADS = 4096  # more than any machine has cores


class Tokenizer:
    """Encode and decode text with a vocabulary and a pattern; `model` is the value that exports are written from.

    Texts are str or bytes; lone surrogates and invalid UTF-8 are read as U+FFFD. The methods' examples use this one:

    >>> from pipeline import Tokenizer
    >>> merges = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")]
    >>> tokenizer = Tokenizer.from_merges(merges, ["<|endoftext|>"])
    >>> tokenizer.encode("lower<|endoftext|>")
    [257, 258, 259]

    Args:
        vocabulary: ids, bytes, merges and special tokens.
        pattern: a name or regular expression, or a compiled pattern.
        pad_token: one of the special tokens, for exports; None for no pad token.
        whole_pieces: whether a piece that is a token is that token, even where no merges lead to it.

    Raises:
        UsageError: the pad token is not one of the special tokens.
        PatternError: the pattern is not a name or a valid expression.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        pattern: CompiledPattern | str = "gpt2",
        *,
        pad_token: str | None = None,
        whole_pieces: bool = False,
    ) -> None:
        compiled = compile_pattern(resolve(pattern)) if isinstance(pattern, str) else pattern
        self._set_model(Model(vocabulary, compiled, Roles(pad=pad_token), whole_pieces))

    def _set_model(self, model: Model) -> None:
        self.model = model
        self._encoder = TextEncoder(model)
        self._recognising = lru_cache(_MAX_SELECTIONS)(self._encoder.recognising)
        self._all_special = self._recognising(frozenset(model.vocabulary.special_tokens))
        self._no_special = self._recognising(frozenset())
        bos = model.bos_token if model.add_bos else None
        self._start = [] if bos is None else [model.vocabulary.special_tokens[bos]]

    @classmethod
    def from_model(cls, model: Model) -> Tokenizer:
        """Make a tokenizer of a model, which also holds a chat template or how another trainer's file prepares text.

        >>> Tokenizer.from_model(tokenizer.model).encode("lower")
        [257, 258]

        Args:
            model: the `model` of another tokenizer, or what `pipeline.tokenizer.formats.load` returns.

        Returns:
            The tokenizer.
        """
        tokenizer = cls.__new__(cls)
        tokenizer._set_model(model)
        return tokenizer

    @classmethod
    def from_merges(
        cls,
        merges: Iterable[tuple[bytes, bytes]],
        special_tokens: Sequence[str] = (),
        *,
        pattern: CompiledPattern | str = "gpt2",
        special_ids: str = "last",
        pad_token: str | None = None,
    ) -> Tokenizer:
        """Make a tokenizer of a merge list: the 256 bytes, then a token for each merge that makes new bytes.

        >>> Tokenizer.from_merges([(b"a", b"b")], pad_token="<pad>").encode("ab<pad>")
        [256, 257]

        Args:
            merges: pairs of byte strings, in order of rank.
            special_tokens: their texts, in order of ids.
            pattern: as for the class.
            special_ids: "last": ids after the merges; "first": ids before the bytes.
            pad_token: one of the special tokens, or one to add after them.

        Returns:
            The tokenizer.

        Raises:
            InputError: a merge joins a token that no earlier merge makes.
            UsageError: a special token is empty, repeated or a single byte, or `special_ids` is unknown.
        """
        listed = SpecialTokens(tuple(special_tokens), Roles(pad=pad_token)).named()
        vocabulary = Vocabulary.from_merges(merges, listed, special_ids=special_ids)
        return cls(vocabulary, pattern, pad_token=pad_token)

    @classmethod
    def from_vocab(
        cls,
        vocab: Mapping[int, bytes],
        merges: Iterable[tuple[bytes, bytes]],
        special_tokens: Sequence[str] | None = None,
        *,
        pattern: CompiledPattern | str = "gpt2",
    ) -> Tokenizer:
        """Make a tokenizer with given ids.

        >>> Tokenizer.from_vocab(tokenizer.vocab, tokenizer.merges, ["<|endoftext|>", "<new>"]).encode("low<new>")
        [257, 260]

        Args:
            vocab: id -> bytes; special tokens as UTF-8 among them, or not.
            merges: pairs of byte strings, in order of rank.
            special_tokens: their texts; one that `vocab` lacks gets the next id after the last one.
            pattern: as for the class.

        Returns:
            The tokenizer.

        Raises:
            InputError: `vocab` lacks a byte or a token of a merge, or has the same bytes twice.
            UsageError: a special token is empty, repeated or a single byte.
        """
        tokens = dict(vocab)
        ids = {token: id_ for id_, token in tokens.items()}
        following = max(tokens, default=-1) + 1
        chosen: dict[str, int] = {}
        for text in SpecialTokens(tuple(special_tokens or ())).named():
            chosen[text] = ids.get(text.encode(), following)
            if tokens.pop(chosen[text], None) is None:
                following += 1
        return cls(Vocabulary.from_tokens(tokens, merges, chosen), pattern)

    @classmethod
    def load(cls, path: str | PathLike[str] | Remote) -> Tokenizer:
        """Read a tokenizer; the ids are those of the file's own runtime without special tokens added around the text.

        >>> Tokenizer.load("my-tokenizer").encode("lower")
        [257, 258]

        Args:
            path: a directory (tokenizer.json, or vocab.json and merges.txt) or one of these files; path or URI.

        Returns:
            The tokenizer.

        Raises:
            InputError: a file is missing, damaged, or has a setting that is not reproduced exactly.
            StorageError: an object store cannot be read.
        """
        return cls.from_model(load_model(named(path)))

    @classmethod
    def from_tiktoken_file(
        cls, path: str | PathLike[str] | Remote, *, pattern: str, special_tokens: Mapping[str, int] | None = None
    ) -> Tokenizer:
        """Read a tiktoken rank file; the ids are those of `tiktoken.Encoding` with the same arguments.

        >>> loaded = Tokenizer.from_tiktoken_file("my-tokenizer/tokenizer.tiktoken", pattern="gpt2")
        >>> loaded.encode("lower")
        [257, 258]

        Args:
            path: the rank file; path or URI.
            pattern: a name, or the expression as tiktoken spells it; the file does not hold it.
            special_tokens: text -> id; the file does not hold them.

        Returns:
            The tokenizer.

        Raises:
            InputError: the file is missing or damaged, or one special token begins another.
            UsageError: tiktoken would read the pattern differently.
            PatternError: the pattern does not compile.
        """
        file = named(path)
        return cls.from_model(model_of_ranks(file, read_ranks(file), pattern, special_tokens or {}))

    def save(self, directory: str | PathLike[str] | Remote) -> None:
        """Write tokenizer.json, tokenizer_config.json and special_tokens_map.json.

        >>> tokenizer.save("copy")
        >>> Tokenizer.load("copy").vocab == tokenizer.vocab
        True

        Args:
            directory: path or URI; made if it is missing.

        Raises:
            ExportRefusedError: tokenizer.json cannot tell a special token from an ordinary one.
        """
        write_model(self.model, named(directory))

    def to_transformers(self) -> Any:
        """Return the tokenizer as one of transformers: with the same ids, pad token and chat template.

        >>> tokenizer.to_transformers()("lower").input_ids
        [257, 258]

        Returns:
            A `transformers.PreTrainedTokenizerFast`.

        Raises:
            UsageError: transformers is not installed.
            ExportRefusedError: tokenizer.json cannot hold the tokenizer.
        """
        try:
            from transformers import PreTrainedTokenizerFast
        except ImportError as reason:
            raise UsageError(f"transformers cannot be imported ({reason}): pip install transformers") from None
        with tempfile.TemporaryDirectory() as directory:
            self.save(directory)
            loaded = PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
        loaded.name_or_path = loaded.init_kwargs["name_or_path"] = ""  # rather than a directory that is gone
        return loaded

    @property
    def vocabulary(self) -> Vocabulary:
        """Ids, bytes and merges."""
        return self.model.vocabulary

    @property
    def pattern(self) -> CompiledPattern:
        """The compiled pattern that cuts text into pieces."""
        return self.model.pattern

    @property
    def vocab_size(self) -> int:
        """Number of ids: bytes, merges and special tokens."""
        return self.vocabulary.size

    @cached_property
    def vocab(self) -> dict[int, bytes]:
        """Id -> bytes of every token, special tokens included, in order of ids."""
        return self.vocabulary.to_dict()

    @cached_property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """The merge list, in order of rank."""
        return self.vocabulary.merges()

    @property
    def special_tokens(self) -> dict[str, int]:
        """Text -> id of the special tokens, in the order in which they were named."""
        return self.vocabulary.special_tokens

    def encode(
        self,
        text: Text,
        *,
        add_special_tokens: bool = True,
        allowed_special: Allowed = None,
        disallowed_special: Disallowed = None,
    ) -> list[int]:
        """Return the ids of a text; special tokens in it are recognised, leftmost and longest first.

        As soon as `allowed_special` or `disallowed_special` is given, both mean what they mean in tiktoken.

        >>> tokenizer.encode("low<|endoftext|>")
        [257, 259]
        >>> tokenizer.encode("low<|endoftext|>", allowed_special=set())
        Traceback (most recent call last):
        pipeline.base.errors.SpecialTokenError: the text contains the disallowed special token '<|endoftext|>'...

        Args:
            text: str or bytes.
            add_special_tokens: whether a tokenizer made with `add_bos` puts its token in front, as in transformers.
            allowed_special: special tokens to recognise, or "all".
            disallowed_special: special tokens to refuse, or "all" that are not allowed (the default as soon as
                `allowed_special` is given); any other is encoded as ordinary text.

        Returns:
            The token ids.

        Raises:
            SpecialTokenError: the text contains a disallowed special token; a ValueError.
            UsageError: the text has another type, or one of the two sets is a text other than "all".
            InputError: a piece is longer than 1 GiB.
        """
        if allowed_special is None and disallowed_special is None:  # without a further call: texts may be short
            ids = self._encoder.encode(text, self._all_special)
        else:
            ids = self._encoder.encode(text, self._recognised([text], allowed_special, disallowed_special))
        return self._start + ids if self._start and add_special_tokens else ids

    def encode_ordinary(self, text: Text) -> list[int]:
        """Return the ids of a text in which special tokens are ordinary text.

        >>> len(tokenizer.encode_ordinary("<|endoftext|>"))
        13

        Args:
            text: str or bytes.

        Returns:
            The token ids.
        """
        return self._encoder.encode(text, self._no_special)

    def encode_batch(
        self,
        texts: Iterable[Text],
        *,
        num_threads: int | None = None,
        add_special_tokens: bool = True,
        allowed_special: Allowed = None,
        disallowed_special: Disallowed = None,
    ) -> list[list[int]]:
        """Return the ids of each text, in order, encoded in parallel.

        >>> tokenizer.encode_batch(["low", "er"])
        [[257], [258]]

        Args:
            texts: str or bytes.
            num_threads: at most this many threads work; None for all cores.
            add_special_tokens: as in `encode`.
            allowed_special: as in `encode`.
            disallowed_special: as in `encode`.

        Returns:
            A list of token ids for each text.

        Raises:
            SpecialTokenError: a text contains a disallowed special token.
            UsageError: `texts` is one text, or `num_threads` is below 1.
        """
        listed = _listed(texts)
        specials = self._recognised(listed, allowed_special, disallowed_special)
        encoded = self._encoder.encode_batch(listed, specials, _threads(num_threads))
        return [self._start + ids for ids in encoded] if self._start and add_special_tokens else encoded

    def encode_ordinary_batch(self, texts: Iterable[Text], *, num_threads: int | None = None) -> list[list[int]]:
        """Return the ids of each text, in which special tokens are ordinary text, encoded in parallel.

        >>> tokenizer.encode_ordinary_batch(["low", "er"])
        [[257], [258]]

        Args:
            texts: str or bytes.
            num_threads: as in `encode_batch`.

        Returns:
            A list of token ids for each text.

        Raises:
            UsageError: `texts` is one text, or `num_threads` is below 1.
        """
        return self._encoder.encode_batch(_listed(texts), self._no_special, _threads(num_threads))

    def encode_iterable(
        self, blocks: Iterable[Text], *, allowed_special: Allowed = None, disallowed_special: Disallowed = None
    ) -> Iterator[int]:
        """Iterate over the ids of a text that arrives in blocks, such as an open file, in bounded memory.

        The ids are those of `encode` for the joined text. Memory is bounded by the longest piece and block; by the
        longest document, with a pattern that the `regex` package runs; with a loaded tokenizer by the longest stretch
        between ASCII characters (NFC) or of its first split, and by the whole text where special tokens have rules.

        >>> list(tokenizer.encode_iterable(["lo", "wer<|end", "oftext|>"]))
        [257, 258, 259]

        Args:
            blocks: str or bytes; special tokens, pieces and characters may lie across blocks.
            allowed_special: as in `encode`.
            disallowed_special: as in `encode`; one is found when the iterator reaches it.

        Returns:
            An iterator of token ids, which reads the blocks as it is read.

        Raises:
            SpecialTokenError: the text contains a disallowed special token.
            UsageError: a block has another type.
        """
        allowed, refused = allowed_and_refused(self.special_tokens.keys(), allowed_special, disallowed_special)
        ids = self._encoder.encode_blocks(checked(utf8_blocks(blocks), refused), self._recognising(allowed))
        return chain(self._start, ids) if self._start else ids

    def encode_to_numpy(
        self, text: Text, *, dtype: Any = None, allowed_special: Allowed = None, disallowed_special: Disallowed = None
    ) -> NDArray[integer]:
        """Return the ids of a text as a numpy array.

        >>> tokenizer.encode_to_numpy("lower", dtype="uint16")
        array([257, 258], dtype=uint16)

        Args:
            text: str or bytes.
            dtype: an integer type that holds every id; None for uint32, which is not copied.
            allowed_special: as in `encode`.
            disallowed_special: as in `encode`.

        Returns:
            An array of one dimension.

        Raises:
            SpecialTokenError: the text contains a disallowed special token.
            UsageError: `dtype` cannot hold every id.
        """
        import numpy as np

        specials = self._recognised([text], allowed_special, disallowed_special)
        ids: NDArray[integer] = np.asarray(self._encoder.encode_to_buffer(text, specials))
        if self._start:
            ids = np.insert(ids, 0, self._start)
        if dtype is None:
            return ids
        wanted = np.dtype(dtype)
        if wanted.kind not in "iu" or np.iinfo(wanted).max < self.vocabulary.max_id:
            raise UsageError(f"dtype {wanted} does not hold the ids up to {self.vocabulary.max_id}: give 'uint32'")
        return ids.astype(wanted)

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
            The length of what `encode` returns.

        Raises:
            SpecialTokenError: the text contains a disallowed special token.
        """
        specials = self._recognised([text], allowed_special, disallowed_special)
        return len(self._start) + self._encoder.count(text, specials)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of ids.

        >>> tokenizer.decode_bytes([257, 259])
        b'low<|endoftext|>'

        Args:
            ids: a list, a numpy array or torch tensor of one dimension, a memoryview, or any other iterable.

        Returns:
            The bytes of all tokens, joined.

        Raises:
            InputError: an id is not in the vocabulary or not a whole number.
        """
        return b"".join(tokens_of(self.vocab, ids))

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        """Return the text of ids.

        >>> tokenizer.decode([257, 258])
        'lower'

        Args:
            ids: as in `decode_bytes`.
            errors: as in `bytes.decode`, for ids that end inside of a character.

        Returns:
            The text; special tokens are written as text.

        Raises:
            InputError: an id is not in the vocabulary or not a whole number.
            UnicodeDecodeError: the bytes are not UTF-8 and `errors` is "strict".
        """
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_batch(self, batch: Iterable[Iterable[int]], *, errors: str = "replace") -> list[str]:
        """Return the text of each row of ids, in order.

        >>> tokenizer.decode_batch([[257], [258]])
        ['low', 'er']

        Args:
            batch: rows of ids, or an array of two dimensions.
            errors: as in `decode`.

        Returns:
            A text for each row.
        """
        return [self.decode(ids, errors=errors) for ids in batch]

    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of ids as they arrive, never half a character; joined it is what `decode` returns.

        >>> list(tokenizer.decode_stream(tokenizer.encode("lowé")))
        ['low', 'é']

        Args:
            ids: any iterable of ids.

        Yields:
            Text of at least one character.
        """
        decoder = self.stream_decoder()
        yield from filter(None, map(decoder.push, ids))
        if rest := decoder.finish():
            yield rest

    def stream_decoder(self) -> StreamDecoder:
        """Return a decoder like `decode_stream` for ids that are pushed one by one.

        >>> decoder = tokenizer.stream_decoder()
        >>> decoder.push(257) + decoder.push(258) + decoder.finish()
        'lower'

        Returns:
            An object with the methods `push(*ids)` and `finish()`, which return text.
        """
        return StreamDecoder(self.vocab)

    def token_byte_offsets(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return where each token starts and ends in the UTF-8 of the decoded text.

        That is the text that was encoded, unless a loaded tokenizer prepares texts first.

        >>> tokenizer.token_byte_offsets([257, 258])
        [(0, 3), (3, 5)]

        Args:
            ids: as in `decode_bytes`.

        Returns:
            A pair of byte positions for each id.
        """
        lengths = map(len, tokens_of(self.vocab, ids))
        return list(pairwise(accumulate(lengths, initial=0)))

    def _recognised(
        self, texts: Sequence[Text], allowed_special: Allowed, disallowed_special: Disallowed
    ) -> Recognised:
        """Return what to recognise in texts, none of which contains a refused special token."""
        if allowed_special is None and disallowed_special is None:
            return self._all_special
        allowed, refused = allowed_and_refused(self.special_tokens.keys(), allowed_special, disallowed_special)
        for text in texts if refused else ():
            deque(checked([utf8_of(text)], refused), maxlen=0)
        return self._recognising(allowed)


def _listed(texts: Iterable[Text]) -> Sequence[Text]:
    if isinstance(texts, str | bytes):
        raise UsageError("texts is one text: give a list of texts, or call encode")
    return texts if isinstance(texts, list) else list(texts)


def _threads(num_threads: int | None) -> int:
    if num_threads is None:
        return default_workers()
    try:
        threads = index(num_threads)
    except TypeError:
        threads = 0
    if threads < 1:
        raise UsageError(f"num_threads is {num_threads!r}: give a whole number of at least 1")
    return min(threads, _MOST_THREADS)
