"""Llama 3's tokenizer, against tiktoken."""

import base64
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import samples
import tiktoken
from chat_cases import llama
from hypothesis import given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.compat import Llama3Tokenizer
from bpe_pipeline.compat.llama3 import RUN_CHARACTERS, SPECIAL_TOKENS, WINDOW_CHARACTERS, stretches
from bpe_pipeline.pattern.presets import PRESETS


@functools.cache
def peer() -> tiktoken.Encoding:
    ranks = {token: id_ for id_, token in llama().tokenizer.vocabulary.tokens.items()}
    specials = {text: len(ranks) + index for index, text in enumerate(SPECIAL_TOKENS)}
    return tiktoken.Encoding("x", pat_str=PRESETS["llama3"].expression, mergeable_ranks=ranks, special_tokens=specials)


def test_special_tokens_and_their_ids() -> None:
    ours = llama()
    assert (len(SPECIAL_TOKENS), len(set(SPECIAL_TOKENS)), ours.n_words) == (256, 256, 416 + 256)
    listed = [*SPECIAL_TOKENS[:11], SPECIAL_TOKENS[-1]]
    assert listed == [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|reserved_special_token_2|>",
        "<|reserved_special_token_3|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|reserved_special_token_4|>",
        "<|eot_id|>",
        "<|reserved_special_token_5|>",
        "<|reserved_special_token_250|>",
    ]
    assert (ours.bos_id, ours.eos_id, ours.pad_id, ours.stop_tokens) == (416, 417, -1, {417, 425})
    assert (WINDOW_CHARACTERS, RUN_CHARACTERS) == (400_000, 25_000)


def naive_stretches(text: str, limit: int) -> Iterator[str]:
    """The rule, a character at a time."""
    done = length = 0
    for at, character in enumerate(text):
        same = at > 0 and character.isspace() == text[at - 1].isspace()
        length = length + 1 if same else 1
        if length > limit:
            yield text[done:at]
            done, length = at, 1
    yield text[done:]


@settings(max_examples=300, deadline=None)
@given(st.text("ab \n\x1c\x85\u200b\u3000", max_size=60), st.integers(1, 5), st.integers(1, 70))
def test_stretches_follow_the_rule(text: str, limit: int, window: int) -> None:
    windows = [text[start : start + window] for start in range(0, len(text), window)]
    expected = [stretch for part in windows for stretch in naive_stretches(part, limit)]
    assert list(stretches(text, window_characters=window, run_characters=limit)) == expected


def expected(text: str, **options: Any) -> list[int]:
    windows = [text[start : start + 400_000] for start in range(0, len(text), 400_000)]
    parts = [part for window in windows for part in naive_stretches(window, 25_000)]
    return [id_ for part in parts for id_ in peer().encode(part, **options)]


def test_ids_are_those_of_tiktoken() -> None:
    ours = llama()
    large = ["a" * 60_000, " " * 25_001 + "the " * 150_000]
    for text in [*samples.HARD_TEXTS, *samples.all_planes(5, 60), "x<|eot_id|>y", *large]:
        plain = expected(text, disallowed_special=())
        assert ours.encode(text, bos=False, eos=False) == plain
        assert ours.encode(text, bos=True, eos=True) == [ours.bos_id, *plain, ours.eos_id]
        assert ours.encode(text, bos=False, eos=False, allowed_special="all") == expected(text, allowed_special="all")
        assert ours.decode(plain) == text


def test_bos_and_eos_are_required_and_special_tokens_selectable() -> None:
    ours = llama()
    with pytest.raises(TypeError):
        ours.encode("a")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"<\|eot_id\|>.*allowed_special"):
        ours.encode("a<|eot_id|>", bos=False, eos=False, disallowed_special="all")
    one = {"<|eot_id|>"}
    assert ours.encode("<|eot_id|>", bos=False, eos=False, allowed_special=one, disallowed_special="all") == [425]
    assert ours.decode([416, 425]) == "<|begin_of_text|><|eot_id|>"


def test_rank_files(tmp_path: Path) -> None:
    """Whole pre-tokens come before merging; a file that is missing or damaged is refused."""
    with pytest.raises(InputError, match=r"none\.model does not exist"):
        Llama3Tokenizer(tmp_path / "none.model")
    (tmp_path / "x").write_bytes(b"\x80 0\n")
    with pytest.raises(InputError, match="line 1"):
        Llama3Tokenizer(tmp_path / "x")
    tokens = [*(bytes([byte]) for byte in range(256)), b"low"]
    lines = [b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)]
    (tmp_path / "x").write_bytes(b"".join(lines))
    assert Llama3Tokenizer(tmp_path / "x").encode("low lows", bos=False, eos=False) == [256, *b" lows"]
