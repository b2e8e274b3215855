"""Byte order, the byte alphabet, ids derived from merges, and what is refused."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe_pipeline.base.errors import InputError, TrainingError, UsageError
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.merges.vocabulary import Vocabulary, bytes_to_unicode, text_to_token, token_to_text, tokens_to_texts

MERGES = [(b"l", b"o"), (b"lo", b"w"), (b" ", b"low")]
ONE_BYTE = {index: bytes([byte]) for index, byte in enumerate(BYTE_ORDER)}


def test_byte_order_is_the_order_of_the_byte_alphabet() -> None:
    alphabet = bytes_to_unicode()
    assert sorted(BYTE_ORDER) == list(range(256))
    assert bytes(BYTE_ORDER[:3]) == b'!"#'
    assert list(BYTE_ORDER[93:96]) == [0x7E, 0xA1, 0xA2]
    assert [alphabet[byte] for byte in BYTE_ORDER] == sorted(alphabet.values())
    assert sum(ord(character) == byte for byte, character in alphabet.items()) == 188
    assert (alphabet[0], alphabet[ord(" ")], alphabet[0xAD]) == ("Ā", "Ġ", "Ń")


@given(st.lists(st.binary(max_size=20)))
def test_token_text_round_trip(tokens: list[bytes]) -> None:
    texts = tokens_to_texts(tokens)
    assert texts == [token_to_text(token) for token in tokens]
    assert [text_to_token(text) for text in texts] == tokens
    assert not any(character.isspace() for text in texts for character in text)


@pytest.mark.parametrize(("special_ids", "bytes_at", "specials_at"), [("last", 0, 259), ("first", 2, 0)])
def test_layouts(special_ids: str, bytes_at: int, specials_at: int) -> None:
    vocabulary = Vocabulary.from_merges(MERGES, ["<|a|>", "<|b|>"], special_ids=special_ids)
    assert vocabulary.special_tokens == {"<|a|>": specials_at, "<|b|>": specials_at + 1}
    assert vocabulary.tokens[bytes_at] == b"!"
    assert [vocabulary.tokens[bytes_at + 256 + rank] for rank in range(3)] == [b"lo", b"low", b" low"]
    assert (vocabulary.size, vocabulary.max_id) == (261, 260)
    assert list(vocabulary.to_dict()) == list(range(261))
    assert vocabulary.merges() == MERGES


def test_a_second_route_to_the_same_bytes_gets_no_id() -> None:
    merges = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc"), (b"abc", b"d")]
    vocabulary = Vocabulary.from_merges(merges)
    assert vocabulary.merges() == merges
    assert list(vocabulary.result) == [256, 257, 258, 258, 259]
    assert Vocabulary.from_id_pairs(vocabulary.left, vocabulary.right) == vocabulary
    assert vocabulary.size == 260


def test_explicit_ids_are_kept() -> None:
    tokens = ONE_BYTE | {1000: b"lo", 999: b"low"}
    vocabulary = Vocabulary.from_tokens(tokens, MERGES[:2], {"<|a|>": 500})
    assert list(vocabulary.result) == [1000, 999]
    assert list(vocabulary.tokens)[-2:] == [999, 1000]
    assert (vocabulary.size, vocabulary.max_id) == (259, 1000)


def of_tokens(more: dict[int, bytes], merges: Sequence[tuple[bytes, bytes]] = (), *special_ids: int) -> Vocabulary:
    return Vocabulary.from_tokens(ONE_BYTE | more, merges, {f"<{at}>": id_ for at, id_ in enumerate(special_ids)})


LO = (b"l", b"o")


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: Vocabulary.from_tokens({7: b"'"}, [], {}), InputError, "the byte 0x00"),
    (lambda: of_tokens({256: b""}), InputError, "token 256 is empty"),
    (lambda: of_tokens({256: b"a"}), InputError, "both stand for b'a'"),
    (lambda: of_tokens({-1: b"lo"}), InputError, "token id -1 is outside"),
    (lambda: of_tokens({1 << 40: b"lo"}), InputError, "is outside"),
    (lambda: of_tokens({}, [LO]), InputError, "merge 0 .* needs the token b'lo'"),
    (lambda: of_tokens({256: b"low"}, [(b"lo", b"w")]), InputError, "merge 0 .* needs the token b'lo'"),
    (lambda: of_tokens({256: b"lo"}, [LO, LO]), InputError, "merge 1 .* twice"),
    (lambda: of_tokens({}, [], 3), InputError, "has id 3, which another token has"),
    (lambda: of_tokens({}, [], 256, 256), InputError, "has id 256, which another token has"),
    (lambda: Vocabulary.from_merges([(b"a", b"b"), (b"xy", b"b")]), InputError, r"merge 1 joins b'xy'"),
    (lambda: Vocabulary.from_id_pairs([1], [256]), TrainingError, "merge 0 joins tokens 1 and 256"),
    (lambda: Vocabulary.from_id_pairs([0], [-1]), TrainingError, "a merge joins token -1"),
    (lambda: Vocabulary.from_merges(MERGES, special_ids="middle"), UsageError, "special_ids is 'middle'"),
    (lambda: text_to_token("a b"), ValueError, "character"),
])  # fmt: skip
def test_damaged_tables_are_refused(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
