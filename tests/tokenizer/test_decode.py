"""Ids to text: ids in any container, whole or as they arrive."""

from array import array
from typing import Any

import numpy as np
import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import Tensor

from pipeline.base.errors import InputError

OURS = samples.tokenizer()
TEXT = "the words, <|endoftext|>é"
IDS = st.lists(st.integers(0, OURS.vocab_size - 1), max_size=60)


@pytest.mark.parametrize(
    "hold",
    [list, tuple, iter, np.array, lambda ids: np.array(ids, "uint16"), Tensor, lambda ids: array("I", ids), "torch"],
)
def test_ids_in_any_container(hold: Any) -> None:
    hold = pytest.importorskip("torch").tensor if hold == "torch" else hold
    ids = OURS.encode(TEXT)
    assert OURS.decode(hold(ids)) == "".join(OURS.decode_stream(hold(ids))) == TEXT
    assert OURS.decode_batch([hold(ids), hold([])]) == [TEXT, ""]
    assert OURS.token_byte_offsets(hold(ids))[-1][1] == len(TEXT.encode())
    assert OURS.decode(memoryview(array("I", ids))) == TEXT
    assert OURS.decode(list(hold(ids))) == OURS.stream_decoder().push(*hold(ids)) == TEXT  # also tensors of one id


def test_matrix_is_a_batch() -> None:
    matrix = np.array([OURS.encode("ab"), OURS.encode("ba")])
    assert OURS.decode_batch(matrix) == ["ab", "ba"]
    for ids in (matrix, 7, [[1]]):
        with pytest.raises(InputError, match="one row"):
            OURS.decode(ids)  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", [[1.0, 2.0], np.array([1.0, 2.0]), ["1"], [None], Tensor(1), list(Tensor([[1]]))])  # type: ignore[list-item]
def test_ids_must_be_whole_numbers(ids: Any) -> None:
    with pytest.raises(InputError, match="whole numbers in one row"):
        OURS.decode(ids)
    for wrong in (-1, 999):
        with pytest.raises(InputError, match=f"{wrong} is not an id of this vocabulary of 417 tokens"):
            list(OURS.decode_stream([1, wrong]))


@settings(max_examples=500, deadline=None)
@given(IDS)
def test_stream_joined_is_decode(ids: list[int]) -> None:
    parts = list(OURS.decode_stream(iter(ids)))
    assert "".join(parts) == OURS.decode(ids)
    assert all(parts)
    decoder = OURS.stream_decoder()
    assert decoder.push(*ids[:7]) + "".join(map(decoder.push, ids[7:])) + decoder.finish() == OURS.decode(ids)
    assert decoder.push(OURS.encode("a")[0]) == "a"


def test_stream_never_yields_half_a_character() -> None:
    ids = [OURS.encode(bytes([byte]).decode("latin-1"))[0] for byte in b"ab"]
    half = [next(id_ for id_, token in OURS.vocab.items() if token == bytes([byte])) for byte in "é😀".encode()]
    assert list(OURS.decode_stream([*half, *ids])) == ["é", "😀", "a", "b"]
    assert list(OURS.decode_stream([half[0], *ids])) == ["\ufffda", "b"]
    assert list(OURS.decode_stream(half[2:5])) == ["\ufffd"]
