"""Token ids and their bytes, derived from the merge list and never stored with it.

All single bytes that occur in UTF-8 have an id, every merge joins two existing tokens into an existing one, no two
ordinary tokens have the same bytes, and no two tokens share an id, except that a special token may be an ordinary token
of the same bytes, or of the same text in the byte alphabet.
"""

import codecs
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from bpe_pipeline.base.errors import InputError, TrainingError, UsageError, shown
from bpe_pipeline.base.printable import BYTE_CHARACTERS, BYTE_ORDER
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.run.ids import MAX_IDS, check_special_tokens

_ANY_ID, _IDS_PER_TOKEN = 1 << 20, 16  # ids may leave gaps, but a small damaged file cannot ask for tables of gigabytes
NOT_IN_UTF8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})  # published vocabularies may lack these bytes
_BYTE_TABLE = "".join(BYTE_CHARACTERS[byte] for byte in range(256))
_CHARACTER_MAP = codecs.charmap_build(_BYTE_TABLE)


def bytes_to_unicode() -> dict[int, str]:
    """Return GPT-2's printable character for each byte value: 188 map to themselves, 68 to U+0100 and up, in order.

    >>> bytes_to_unicode()[ord(" ")]
    'Ġ'
    """
    return dict(BYTE_CHARACTERS)


def token_to_text(token: bytes) -> str:
    """Write a token's bytes in the byte alphabet: b" the" -> "Ġthe"."""
    return codecs.charmap_decode(token, "strict", _BYTE_TABLE)[0]


def text_to_token(text: str) -> bytes:
    """Read a token written in the byte alphabet; ValueError for a character outside of it."""
    return codecs.charmap_encode(text, "strict", _CHARACTER_MAP)[0]


def tokens_to_texts(tokens: Iterable[bytes]) -> list[str]:
    """Write many tokens in the byte alphabet at once."""
    listed = list(tokens)
    joined = token_to_text(b"".join(listed))  # a character for each byte
    return [joined[start:stop] for start, stop in _ends(listed)]


def texts_to_tokens(texts: Iterable[str]) -> list[bytes]:
    """Read many tokens written in the byte alphabet at once."""
    listed = list(texts)
    joined = text_to_token("".join(listed))
    return [joined[start:stop] for start, stop in _ends(listed)]


def _ends(items: Sequence[bytes] | Sequence[str]) -> Iterable[tuple[int, int]]:
    return pairwise(accumulate(map(len, items), initial=0))


@dataclass(frozen=True)
class Vocabulary:
    """Ids, bytes and merges of one tokenizer; read-only. Make it with one of the `from_` constructors."""

    tokens: dict[int, bytes]  # id -> bytes of every ordinary token (bytes and merge results), in order of ids
    left: "array[int]"  # ids that each merge joins, in order of rank
    right: "array[int]"
    result: "array[int]"  # ids that they make; two routes to the same bytes share one id
    special_tokens: dict[str, int]  # text -> id, in the order in which they were named; not in `tokens`

    @property
    def size(self) -> int:
        """The number of ids: bytes, merge results and special tokens."""
        return len(self.tokens) + sum(id_ not in self.tokens for id_ in self.special_tokens.values())

    def __reduce__(self) -> tuple[Any, ...]:
        lengths = array("I", map(len, self.tokens.values()))
        tokens = array("I", self.tokens), lengths, b"".join(self.tokens.values())
        return _unpacked, (*tokens, self.left, self.right, self.result, self.special_tokens)

    @property
    def max_id(self) -> int:
        """The largest id in use; `size - 1` if ids are contiguous."""
        last_special = max(self.special_tokens.values(), default=0)
        return max(next(reversed(self.tokens)), last_special)

    @cached_property
    def missing_bytes(self) -> tuple[bytes, ...]:
        """The bytes that no token stands for."""
        here = {token for token in self.tokens.values() if len(token) == 1}
        return tuple(one for one in map(bytes, zip(range(256))) if one not in here)

    @property
    def lost_bytes(self) -> bytes:
        """Those of them that text may have; none but in the vocabulary of a `lossy` file."""
        return b"".join(one for one in self.missing_bytes if one[0] not in NOT_IN_UTF8)

    @property
    def encoded_tokens(self) -> dict[int, bytes]:
        """`tokens` as the encoder needs them: missing bytes have ids after all others, which no text gets."""
        return self.tokens | dict(enumerate(self.missing_bytes, self.max_id + 1)) if self.missing_bytes else self.tokens

    @cached_property
    def texts(self) -> dict[int, str]:
        """Id -> text in the byte alphabet of every ordinary token, in order of ids."""
        return dict(zip(self.tokens, tokens_to_texts(self.tokens.values()), strict=True))

    def merges(self) -> list[tuple[bytes, bytes]]:
        """The merge list as pairs of byte strings, in order of rank."""
        token = self.tokens.__getitem__
        return list(zip(map(token, self.left), map(token, self.right), strict=True))

    def parts(self, kept: Callable[[int], bool]) -> "array[int]":
        """Return of how many tokens each id consists, if only the merges of these ranks are kept."""
        numbers = array("I", [1]) * (self.max_id + 1)
        for rank, id_ in enumerate(self.result):
            if not kept(rank):
                numbers[id_] = numbers[self.left[rank]] + numbers[self.right[rank]]
        return numbers

    def occurrences(self, uses: Sequence[int]) -> list[int]:
        """Return how often each merge makes its token in a text, by rank. uses: of each id after all merges.

        >>> Vocabulary.from_id_pairs([0, 256], [1, 2]).occurrences([7] * 256 + [1, 3])  # ab, then ab c
        [4, 3]
        """
        times, made = list(uses), [0] * len(self.result)
        for rank in reversed(range(len(made))):
            made[rank] = times[self.result[rank]]
            times[self.result[rank]] = 0  # an earlier merge with the same result
            times[self.left[rank]] += made[rank]
            times[self.right[rank]] += made[rank]
        return made

    def to_dict(self) -> dict[int, bytes]:
        """Id -> bytes of every token, special tokens (UTF-8) included, in order of ids."""
        joined = {id_: text.encode() for text, id_ in self.special_tokens.items()} | self.tokens
        return dict(sorted(joined.items()))

    @classmethod
    def from_id_pairs(
        cls, left: Sequence[int], right: Sequence[int], special_tokens: Sequence[str] = (), *, special_ids: str = "last"
    ) -> "Vocabulary":
        """Assign ids to a trained merge list; `TrainingError` for a merge of tokens that do not exist yet.

        left, right: in the merge engine's numbering: the bytes in GPT-2 order, then each merge that makes new bytes.
        """
        if (least := min(min(left, default=0), min(right, default=0))) < 0:
            raise TrainingError(f"a merge joins token {least}: the merge list is damaged")
        tokens, result = [bytes([byte]) for byte in BYTE_ORDER], array("I")
        numbers = {token: number for number, token in enumerate(tokens)}
        for a, b in zip(left, right, strict=True):
            try:
                token = tokens[a] + tokens[b]
            except IndexError:
                raise TrainingError(
                    f"merge {len(result)} joins tokens {a} and {b}, but only {len(tokens)} exist: the merge list is "
                    "damaged"
                ) from None
            known = len(numbers)
            result.append(number := numbers.setdefault(token, known))
            if number == known:
                tokens.append(token)
        return cls._laid_out(tokens, (left, right, result), special_tokens, special_ids)

    @classmethod
    def from_merges(
        cls, merges: Iterable[tuple[bytes, bytes]], special_tokens: Sequence[str] = (), *, special_ids: str = "last"
    ) -> "Vocabulary":
        """Assign ids to a merge list of pairs of byte strings; `InputError` if one joins a token that is missing."""
        numbers = {bytes([byte]): index for index, byte in enumerate(BYTE_ORDER)}
        left, right, result = array("I"), array("I"), array("I")
        for rank, (a, b) in enumerate(merges):
            try:
                left.append(numbers[a])
                right.append(numbers[b])
            except KeyError as missing:
                raise InputError(f"merge {rank} joins {missing.args[0]!r}, which no earlier merge makes") from None
            result.append(numbers.setdefault(a + b, len(numbers)))
        return cls._laid_out(numbers, (left, right, result), special_tokens, special_ids)

    @classmethod
    def _laid_out(
        cls, tokens: Collection[bytes], merges: Sequence[Sequence[int]], special_tokens: Sequence[str], special_ids: str
    ) -> "Vocabulary":
        """Give ids to the special tokens and, in order, to all others. merges: numbers on the left, right, made."""
        check_special_tokens(special_tokens)
        if special_ids not in ("first", "last"):
            raise UsageError(
                f"special_ids is {special_ids!r}: give 'last' (after the merges) or 'first' (before the bytes)"
            )
        shift, first_special = (len(special_tokens), 0) if special_ids == "first" else (0, len(tokens))
        left, right, result = (
            array("I", [number + shift for number in column] if shift else column) for column in merges
        )
        specials = {text: first_special + index for index, text in enumerate(special_tokens)}
        return cls(dict(enumerate(tokens, shift)), left, right, result, specials)

    @classmethod
    def from_tokens(
        cls,
        tokens: Mapping[int, bytes],
        merges: Iterable[tuple[bytes, bytes]],
        special_tokens: Mapping[str, int],
        *,
        lossy: bool = False,
    ) -> "Vocabulary":
        """Keep the ids of another trainer's file; `InputError` names what breaks the promises of this module.

        lossy: bytes may lack a token.
        """
        ordinary = {text for text, id_ in special_tokens.items() if _is_text(tokens.get(id_), text)}
        check_special_tokens([text for text in special_tokens if text not in ordinary])
        by_bytes = {token: id_ for id_, token in tokens.items()}
        if not tokens:
            raise InputError("the vocabulary has no tokens")
        if b"" in by_bytes:
            raise InputError(f"token {by_bytes[b'']} is empty")
        if len(by_bytes) < len(tokens):
            id_, token = next((id_, token) for id_, token in tokens.items() if by_bytes[token] != id_)
            raise InputError(f"tokens {id_} and {by_bytes[token]} both stand for {token!r}")
        for byte in range(256):
            if bytes([byte]) not in by_bytes and byte not in NOT_IN_UTF8 and not lossy:
                raise InputError(f"no token stands for the byte 0x{byte:02X}, so not every text can be encoded")
        texts_by_id: dict[int, str] = {}
        for text, id_ in special_tokens.items():
            if (id_ in tokens and text not in ordinary) or texts_by_id.setdefault(id_, text) != text:
                raise InputError(f"the special token {shown(text)} has id {id_}, which another token has too")
        most = min(MAX_IDS, _ANY_ID + _IDS_PER_TOKEN * len(tokens))
        outside = [id_ for id_ in (*tokens, *texts_by_id) if not 0 <= id_ < most]
        if outside:
            raise InputError(f"token id {outside[0]} is outside 0..{most - 1}, far from those of {len(tokens)} tokens")
        listed = list(merges)
        try:
            left = array("I", [by_bytes[a] for a, _ in listed])
            right = array("I", [by_bytes[b] for _, b in listed])
            result = array("I", [by_bytes[a + b] for a, b in listed])
        except KeyError as missing:
            [needed] = missing.args
            rank, (a, b) = next((rank, one) for rank, one in enumerate(listed) if needed in (*one, one[0] + one[1]))
            raise InputError(
                f"merge {rank} ({a!r}, {b!r}) needs the token {needed!r}, which the vocabulary lacks"
            ) from None
        if len(last := {one: rank for rank, one in enumerate(listed)}) < len(listed):
            a, b = next(one for rank, one in enumerate(listed) if last[one] != rank)
            raise InputError(f"merge {last[a, b]} ({a!r}, {b!r}) is in the merge list twice")
        return cls(dict(sorted(tokens.items())), left, right, result, dict(special_tokens))


def _is_text(token: bytes | None, text: str) -> bool:
    """Whether a token is this text: of these bytes, or written so in the byte alphabet."""
    return token is not None and text in (token_to_text(token), token.decode(errors="replace"))


def _unpacked(ids: Iterable[int], lengths: Iterable[int], joined: bytes, *others: Any) -> Vocabulary:
    tokens = (joined[start:stop] for start, stop in pairwise(accumulate(lengths, initial=0)))
    return Vocabulary(dict(zip(ids, tokens, strict=True)), *others)
