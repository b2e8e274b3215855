"""A trained tokenizer at work: text to ids and back, and to and from files.

`Tokenizer` joins a vocabulary with the pattern that cuts text into pieces. Its ids are those of exact byte-pair
encoding by rank; special tokens are recognised in the text, leftmost and longest first, unless the call says
otherwise. It holds no state besides caches and may be shared between threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import index
from os import PathLike
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import UsageError
from pipeline.merges.vocabulary import Vocabulary, with_pad_token
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.storage import Remote, named
from pipeline.tokenizer import decode as decoding
from pipeline.tokenizer.allowed_special import Allowed, Disallowed, allowed_and_refused, checked
from pipeline.tokenizer.encode import Recognised, Text, TextEncoder, repaired, utf8_blocks
from pipeline.tokenizer.model import Model

if TYPE_CHECKING:
    from numpy import integer
    from numpy.typing import NDArray

_MAX_SELECTIONS = 64  # combinations of allowed special tokens whose search is kept ready
_MOST_THREADS = 4096  # more than any machine has cores


class Tokenizer:
    """Encode and decode text with a vocabulary and a pattern.

    pattern: as `pipeline.pattern.compile_pattern` gives it, or what it takes. pad_token: one of the special tokens, for
    what is exported. whole_pieces: whether a piece that is a token is that token, even where no merges lead to it. The
    arguments are those of `pipeline.tokenizer.model.Model`, which `model` holds: what exports are written from.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        pattern: CompiledPattern | str = "gpt2",
        *,
        pad_token: str | None = None,
        whole_pieces: bool = False,
    ) -> None:
        compiled = compile_pattern(pattern) if isinstance(pattern, str) else pattern
        self._take(Model(vocabulary, compiled, pad_token, whole_pieces))

    def _take(self, model: Model) -> None:
        self.model = model
        self._encoder = TextEncoder(model)
        self._recognising = lru_cache(_MAX_SELECTIONS)(self._encoder.recognising)
        self._all_special = self._recognising(frozenset(model.vocabulary.special_tokens))
        self._no_special = self._recognising(frozenset())

    @classmethod
    def from_model(cls, model: Model) -> Tokenizer:
        """Make a tokenizer of everything that a model says, as `pipeline.tokenizer.formats.load` reads it."""
        tokenizer = cls.__new__(cls)
        tokenizer._take(model)
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
        """Make a tokenizer of `merges`, each two byte strings, in order of rank; pattern: as for the class.

        special_tokens: texts. special_ids: "last", behind the merges, or "first", before the bytes. pad_token: one of
        the special tokens, or one that follows them.
        """
        listed = with_pad_token(special_tokens, pad_token)
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
        """Make a tokenizer with the ids of `vocab` (id -> bytes) and its `merges` in order of rank.

        pattern: as for the class. special_tokens: texts; those that `vocab` lacks follow its last id.
        """
        tokens = dict(vocab)
        ids = {token: id_ for id_, token in tokens.items()}
        following = max(tokens, default=-1) + 1
        chosen: dict[str, int] = {}
        for text in with_pad_token(special_tokens or (), None):
            chosen[text] = ids.get(text.encode(), following)
            if tokens.pop(chosen[text], None) is None:
                following += 1
        return cls(Vocabulary.from_tokens(tokens, merges, chosen), pattern)

    @classmethod
    def load(cls, path: str | PathLike[str] | Remote) -> Tokenizer:
        """Read a tokenizer from its directory, a tokenizer.json, or vocab.json with merges.txt beside; path or URI.

        Its ids are those that the file's own runtime gives without adding special tokens around the text. See
        `pipeline.tokenizer.formats.load` for what is refused.
        """
        from pipeline.tokenizer.formats.load import load_model

        return cls.from_model(load_model(named(path)))

    @classmethod
    def from_tiktoken_file(
        cls,
        path: str | PathLike[str] | Remote,
        *,
        pattern: str,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """Read the tiktoken rank file at `path`; its pattern and its special_tokens (text -> id) stand elsewhere.

        Ids are those of `tiktoken.Encoding` with this pattern, these ranks and special tokens. Raises InputError for
        a damaged file and for what tiktoken would do differently, PatternError for a pattern that does not compile.
        """
        from pipeline.tokenizer.formats.tiktoken_ranks import model_of_ranks, read_ranks

        file = named(path)
        return cls.from_model(model_of_ranks(file, read_ranks(file), pattern, special_tokens or {}))

    def save(self, directory: str | PathLike[str] | Remote) -> None:
        """Write tokenizer.json and the files that belong to it into a directory."""
        from pipeline.tokenizer.formats.save import write_model

        write_model(self.model, named(directory))

    def to_transformers(self) -> Any:
        """Return it as a `transformers.PreTrainedTokenizerFast`: with its ids, pad token and chat template.

        Raises UsageError where transformers is not installed, ExportRefusedError where tokenizer.json cannot say what
        the tokenizer does.
        """
        import tempfile

        try:
            from transformers import PreTrainedTokenizerFast
        except ImportError as reason:
            raise UsageError(f"transformers cannot be imported ({reason}): pip install transformers") from None
        with tempfile.TemporaryDirectory() as directory:
            self.save(directory)
            made = PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
        made.name_or_path = made.init_kwargs["name_or_path"] = ""  # rather than a directory that is gone
        return made

    @property
    def vocabulary(self) -> Vocabulary:
        """Ids, bytes and merges."""
        return self.model.vocabulary

    @property
    def pattern(self) -> CompiledPattern:
        """What cuts text into pieces."""
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
        self, text: Text, *, allowed_special: Allowed = None, disallowed_special: Disallowed = None
    ) -> list[int]:
        """Return the ids of a text; its special tokens are recognised.

        As soon as `allowed_special` or `disallowed_special` is given, the call means what it means in tiktoken: only
        allowed ones are recognised (none unless named; "all"), a disallowed one in the text (all that are not
        allowed, unless named; () for none) raises SpecialTokenError, a ValueError, and any other is ordinary text.
        Either one given as a text other than "all" raises UsageError.
        Lone surrogates in a str and invalid UTF-8 in bytes are read as U+FFFD.
        """
        if allowed_special is None and disallowed_special is None:
            return self._encoder.encode(text, self._all_special)
        return self._encoder.encode(text, self._recognised([text], allowed_special, disallowed_special))

    def encode_ordinary(self, text: Text) -> list[int]:
        """Return the ids of a text in which special tokens are ordinary text."""
        return self._encoder.encode(text, self._no_special)

    def encode_batch(
        self,
        texts: Iterable[Text],
        *,
        num_threads: int | None = None,
        allowed_special: Allowed = None,
        disallowed_special: Disallowed = None,
    ) -> list[list[int]]:
        """Return the ids of each of `texts`, in order, by up to `num_threads` threads (default: all cores).

        allowed_special, disallowed_special: as in `encode`.
        """
        listed = _listed(texts)
        specials = self._recognised(listed, allowed_special, disallowed_special)
        return self._encoder.encode_batch(listed, specials, _threads(num_threads))

    def encode_ordinary_batch(self, texts: Iterable[Text], *, num_threads: int | None = None) -> list[list[int]]:
        """Return the ids of each of `texts`, as `encode_ordinary` gives them; num_threads: as in `encode_batch`."""
        return self._encoder.encode_batch(_listed(texts), self._no_special, _threads(num_threads))

    def encode_iterable(
        self,
        blocks: Iterable[Text],
        *,
        allowed_special: Allowed = None,
        disallowed_special: Disallowed = None,
    ) -> Iterator[int]:
        """Yield the ids of the text that blocks make together, such as an open file, without holding the whole of it.

        The ids are those of `encode` for the joined text: special tokens and pieces may lie across blocks. Memory is
        bounded by the longest piece and the longest block; by the longest document, with a pattern that the `regex`
        package runs; with a loaded tokenizer by the longest stretch between ASCII characters (NFC) or that the first
        of several splits leaves whole, and by the whole text where special tokens have rules.

        allowed_special, disallowed_special: as in `encode`, but a disallowed one raises when it is reached.
        """
        allowed, refused = allowed_and_refused(self.special_tokens.keys(), allowed_special, disallowed_special)
        return self._encoder.encode_blocks(checked(utf8_blocks(blocks), refused), self._recognising(allowed))

    def encode_to_numpy(
        self,
        text: Text,
        *,
        dtype: Any = None,
        allowed_special: Allowed = None,
        disallowed_special: Disallowed = None,
    ) -> NDArray[integer]:
        """Return the ids of a text as a numpy array: uint32, not copied, or converted to a `dtype` that holds every id.

        allowed_special, disallowed_special: as in `encode`.
        """
        import numpy as np

        specials = self._recognised([text], allowed_special, disallowed_special)
        ids: NDArray[integer] = np.asarray(self._encoder.encode_to_buffer(text, specials))
        if dtype is None:
            return ids
        wanted = np.dtype(dtype)
        if wanted.kind not in "iu" or np.iinfo(wanted).max < self.vocabulary.max_id:
            raise UsageError(f"dtype {wanted} does not hold the ids up to {self.vocabulary.max_id}: give 'uint32'")
        return ids.astype(wanted)

    def count_tokens(
        self, text: Text, *, allowed_special: Allowed = None, disallowed_special: Disallowed = None
    ) -> int:
        """Return how many ids `encode` gives for a text, without making them.

        allowed_special, disallowed_special: as in `encode`.
        """
        return self._encoder.count(text, self._recognised([text], allowed_special, disallowed_special))

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes that ids stand for; InputError names an id that is none of this vocabulary's.

        ids: a list, a numpy array or torch tensor of one dimension, a memoryview, or any other iterable.
        """
        return b"".join(decoding.tokens_of(self.vocab, ids))

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        """Return the text that ids stand for; `errors` as in bytes.decode for ids that end inside a character."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_batch(self, batch: Iterable[Iterable[int]], *, errors: str = "replace") -> list[str]:
        """Return the text of each row of ids in `batch`, in order; errors: as in `decode`."""
        return [self.decode(ids, errors=errors) for ids in batch]

    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of ids as they come, never half a character; joined it is what `decode` gives."""
        decoder = self.stream_decoder()
        yield from filter(None, map(decoder.push, ids))
        if rest := decoder.finish():
            yield rest

    def stream_decoder(self) -> decoding.StreamDecoder:
        """Return what `decode_stream` does, for ids that are pushed one by one."""
        return decoding.StreamDecoder(self.vocab)

    def token_byte_offsets(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return where each token begins and ends in the UTF-8 of what `decode_bytes` gives for the ids.

        That is the text that was encoded, unless a loaded tokenizer prepares texts first.
        """
        lengths = map(len, decoding.tokens_of(self.vocab, ids))
        return list(pairwise(accumulate(lengths, initial=0)))

    def _recognised(
        self, texts: Sequence[Text], allowed_special: Allowed, disallowed_special: Disallowed
    ) -> Recognised:
        """What to recognise in texts that hold none of the refused special tokens."""
        if allowed_special is None and disallowed_special is None:
            return self._all_special
        allowed, refused = allowed_and_refused(self.special_tokens.keys(), allowed_special, disallowed_special)
        if refused:
            for text in texts:
                deque(checked([repaired(text).encode()], refused), maxlen=0)
        return self._recognising(allowed)


def _listed(texts: Iterable[Text]) -> Sequence[Text]:
    if isinstance(texts, str | bytes):
        raise UsageError("texts is one text: give a list of texts, or call encode")
    return texts if isinstance(texts, list) else list(texts)


def _threads(num_threads: int | None) -> int:
    if num_threads is None:
        from pipeline.base.machine import default_workers

        return default_workers()
    try:
        threads = index(num_threads)
    except TypeError:
        threads = 0
    if threads < 1:
        raise UsageError(f"num_threads is {num_threads!r}: give a whole number of at least 1")
    return min(threads, _MOST_THREADS)
