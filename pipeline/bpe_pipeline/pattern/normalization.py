"""NFC as tokenizers has it: the Unicode normalization that some tokenizers apply to text before they split it.

The tables of tokenizers are those of Unicode 9, to which what later versions decompose, join or order is inert, so text
is normalized between such characters; for older ones NFC never changes. A test compares every character.
"""

import re
import unicodedata
from functools import cache

from bpe_pipeline import _core
from bpe_pipeline.pattern.classes import NFC_ACTIVE, NFC_UNKNOWN

_BETWEEN_UNKNOWN = re.compile(f"[^{''.join(f'{chr(first)}-{chr(last)}' for first, last in NFC_UNKNOWN)}]+")


def nfc(text: str) -> str:
    """Return the text in the NFC of tokenizers, independent of the Unicode version of this Python."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):  # what is normalized today was so in Unicode 9
        return text
    return _BETWEEN_UNKNOWN.sub(lambda stretch: unicodedata.normalize("NFC", stretch[0]), text)


@cache
def nfc_form() -> _core.NormalForm:
    """Return what finds the text that is not in NFC, and has `nfc` change it."""
    return _core.NormalForm(NFC_ACTIVE, nfc)
