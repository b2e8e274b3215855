"""A trained tokenizer at work: text to ids and back, and to and from files.

`Tokenizer` joins a vocabulary with the pattern that cuts text into pieces. Its ids are those of exact byte-pair
encoding by rank; special tokens are recognised in the text, leftmost and longest first, unless the call says
otherwise. It holds no state besides caches and may be shared between threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Literal

from pipeline import _core
from pipeline.errors import InputError, SpecialTokenError, UsageError
from pipeline.model import Model
from pipeline.pattern import CompiledPattern, PatternSequence, compile_pattern
from pipeline.prepare import SpecialSearch, encode_prepared
from pipeline.vocabulary import Vocabulary, with_pad_token

_MAX_SELECTIONS = 64  # combinations of allowed special tokens whose search is kept ready


class Tokenizer:
    """Encode and decode text with a vocabulary and a pattern.

    pattern: as `pipeline.pattern.compile_pattern` gives it, or what it takes. The arguments are those of
    `pipeline.model.Model`, which `model` holds: what exports are written from.
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
        self._encoder = self.model.encoder()
        self._selections: dict[frozenset[str], _core.Specials | None] = {}
        self._searches: dict[frozenset[str], SpecialSearch] = {}
        self._all_special = self._select(frozenset(model.vocabulary.special_tokens))

    @classmethod
    def from_model(cls, model: Model) -> Tokenizer:
        """Make a tokenizer of everything that a model says, as `pipeline.load` reads it."""
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
        """Make a tokenizer of a merge list; a pad token not among the special tokens follows them."""
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
        """Make a tokenizer with the ids of `vocab` (id -> bytes); special tokens that it lacks follow its last id."""
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
    def load(cls, path: str | PathLike[str]) -> Tokenizer:
        """Read a tokenizer from its directory, a tokenizer.json, or vocab.json with merges.txt beside.

        Its ids are those that the file's own runtime gives without adding special tokens around the text. See
        `pipeline.load` for what is refused.
        """
        from pipeline.load import load_model

        return cls.from_model(load_model(Path(path)))

    @classmethod
    def from_tiktoken_file(
        cls, path: str | PathLike[str], *, pattern: str, special_tokens: Mapping[str, int] | None = None
    ) -> Tokenizer:
        """Read a tiktoken rank file, whose pattern and special tokens (text -> id) stand elsewhere.

        Ids are those of `tiktoken.Encoding` with this pattern, these ranks and special tokens. Raises InputError for
        a damaged file and for what tiktoken would do differently, PatternError for a pattern that does not compile.
        """
        from pipeline.load.tiktoken import load_ranks

        return cls.from_model(load_ranks(Path(path), pattern, special_tokens or {}))

    def save(self, directory: str | PathLike[str]) -> None:
        """Write tokenizer.json and what belongs to it, as `pipeline.export.write_model` does."""
        from pipeline.export import write_model

        write_model(self.model, Path(directory))

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
        self,
        text: str | bytes,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] | None = None,
        disallowed_special: Literal["all"] | Collection[str] | None = None,
    ) -> list[int]:
        """Return the ids of a text; its special tokens are recognised.

        As soon as `allowed_special` or `disallowed_special` is given, the call means what it means in tiktoken: only
        allowed ones are recognised (none unless named; "all"), a disallowed one in the text (all that are not
        allowed, unless named; () for none) raises SpecialTokenError, a ValueError, and any other is ordinary text.
        Either one given as a text other than "all" raises UsageError.
        Lone surrogates in a str and invalid UTF-8 in bytes are read as U+FFFD.
        """
        if allowed_special is None and disallowed_special is None:
            if self.model.preparation.changes_ids:
                return self._encode_prepared(text, frozenset(self.special_tokens))
            return self._encode(text, self._all_special)
        for name, value in (("allowed_special", allowed_special), ("disallowed_special", disallowed_special)):
            if isinstance(value, str | bytes) and value != "all":
                raise UsageError(f"{name} is the text {value!r}: give a set of texts, such as {{{value!r}}}, or 'all'")
        known = self.special_tokens.keys()
        allowed = known if allowed_special == "all" else known & (allowed_special or set())
        refused: AbstractSet[str]
        if disallowed_special is None or disallowed_special == "all":
            refused = known - allowed
        else:
            refused = frozenset(disallowed_special)
        if refused:
            self._raise_if_found(text, frozenset(refused))
        if self.model.preparation.changes_ids:
            return self._encode_prepared(text, frozenset(allowed))
        return self._encode(text, self._select(frozenset(allowed)))

    def encode_ordinary(self, text: str | bytes) -> list[int]:
        """Return the ids of a text in which special tokens are ordinary text."""
        if self.model.preparation.changes_ids:
            return self._encode_prepared(text, frozenset())
        return self._encode(text, None)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes that ids stand for; InputError names an id that is none of this vocabulary's."""
        try:
            return b"".join(map(self.vocab.__getitem__, ids))
        except KeyError as unknown:
            raise InputError(
                f"{unknown.args[0]!r} is not an id of this vocabulary of {self.vocab_size} tokens: "
                "were the ids made by another tokenizer?"
            ) from None

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        """Return the text that ids stand for; `errors` as in bytes.decode for ids that end inside a character."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def _encode(self, text: str | bytes, specials: _core.Specials | None) -> list[int]:
        encode = self._encoder.encode if self.pattern.automaton is not None else self._encode_cut_here
        try:
            return encode(text, specials)
        except UnicodeError:
            return encode(_repaired(text), specials)
        except RuntimeError as reason:
            raise InputError(f"the text cannot be encoded: {reason}") from None

    def _encode_prepared(self, text: str | bytes, allowed: frozenset[str]) -> list[int]:
        """Encode where the file that the model was read from has text prepared first."""
        preparation = self.model.preparation
        valid = text if isinstance(text, str) and _is_valid(text) else _repaired(text)
        if allowed not in self._searches:
            if len(self._searches) >= _MAX_SELECTIONS:
                self._searches.clear()
            ids = {name: id_ for name, id_ in self.special_tokens.items() if name in allowed}
            self._searches[allowed] = SpecialSearch(ids, preparation)
        return encode_prepared(valid, self._searches[allowed], lambda stretch: self._encode(stretch, None))

    def _encode_cut_here(self, text: str | bytes, specials: _core.Specials | None) -> list[int]:
        """Encode with a pattern that has no automaton: pieces are cut in Python."""
        data = text.encode() if isinstance(text, str) else text.decode().encode()
        ids: list[int] = []
        begin = 0
        while specials and (match := specials.find(data, begin)):
            ids += self._encode_document(data[begin : match[0]])
            ids.append(match[2])
            begin = match[1]
        return ids + self._encode_document(data[begin:])

    def _encode_document(self, data: bytes) -> list[int]:
        if isinstance(self.pattern, PatternSequence):
            return self._encoder.encode_cut(data, self.pattern.ends(data))
        return self._encoder.encode_pieces(self.pattern.cut(data.decode()))

    def _select(self, texts: frozenset[str]) -> _core.Specials | None:
        """Prepare the search for some texts; others than special tokens get id 0: they are only looked for."""
        if texts not in self._selections:
            if len(self._selections) >= _MAX_SELECTIONS:
                self._selections.clear()
            listed = [text for text in texts if text]
            ids = [self.special_tokens.get(text, 0) for text in listed]
            self._selections[texts] = _core.Specials(listed, ids) if listed else None
        return self._selections[texts]

    def _raise_if_found(self, text: str | bytes, refused: frozenset[str]) -> None:
        search = self._select(refused)
        data = _repaired(text).encode()
        match = search.find(data) if search else None
        if match:
            found = data[match[0] : match[1]].decode()
            raise SpecialTokenError(
                f"the text contains the disallowed special token {found!r}. To encode it as a special token, add it to "
                f"`allowed_special`, e.g. `allowed_special={{{found!r}}}`. To encode it as ordinary text, pass "
                "`disallowed_special=()`, or a collection without it"
            )


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _repaired(text: str | bytes) -> str:
    """Read invalid UTF-8 and lone surrogates as U+FFFD; a pair of surrogates is the character that it means."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
