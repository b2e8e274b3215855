"""NFC as tokenizers has it, against tokenizers."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published import (
    COMBINING,
)
from tokenizers import normalizers

from bpe_pipeline.pattern.normalization import nfc


@pytest.mark.slow
def test_nfc_is_that_of_tokenizers_on_every_kind_of_character() -> None:
    every = [one for one in map(chr, range(0x110000)) if unicodedata.category(one) != "Cs"]
    told = [one for one in every if unicodedata.category(one)[0] not in "LC" or unicodedata.decomposition(one)]
    around = "a@\u0301\u0316|@|\u0345@|@\u0334|\u1100@|@@|\U00011935@"
    text = "/".join(around.replace("@", one) for one in [*every[::16], *told])
    assert nfc(text) == normalizers.NFC().normalize_str(text)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from(COMBINING + "aeé\u1100가") | st.characters(exclude_categories=["Cs"]), max_size=12))
def test_nfc_is_that_of_tokenizers_on_generated_text(text: str) -> None:
    assert nfc(text) == normalizers.NFC().normalize_str(text)
    if unicodedata.is_normalized("NFC", text):
        assert nfc(text) == text
