"""NFC as the normalizer of the tokenizers library computes it, independent of the Unicode version of this Python.

That library's tables are those of Unicode 9. Normalization never changes for a character once it has been assigned, so
`unicodedata` agrees on all characters of that version. Later ones are inert to the library: they neither join, nor
decompose, nor change places. So text is normalized between them. A test compares every character.
"""

import re
import unicodedata

# Characters that a newer Unicode (up to 17) decomposes, joins or orders, and the library does not.
_INERT = (
    "5C8-5C9 7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1AF0 1DF6-1DFA A82C 105C9 105E4 10D24-10D27 10D69-10D6D "
    "10EAB-10EAC 10ECB-10ECF 10EF0-10EFB 10EFD-10EFF 10F46-10F50 10F82-10F85 11070 1133B 11383 11385 1138E 11391 113B8 "
    "113BB 113C2 113C5 113C7-113C9 113CE-113D0 1145E 11839-1183A 11930 11938 1193D-1193E 11943 119E0 11A34 11A47 11A99 "
    "11D42 11D44-11D45 11D97 11F41-11F42 1611E-16129 1612F 16D67-16D6A 16FF0-16FF1 1D127-1D128 1D250-1D252 "
    "1D25B-1D25C 1D25F 1D280-1D281 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF "
    "1E6F5"
)
_INERT_CLASS = "".join("-".join(f"\\U{int(end, 16):08X}" for end in run.split("-")) for run in _INERT.split())
_BETWEEN_INERT = re.compile(f"[^{_INERT_CLASS}]+")


def nfc(text: str) -> str:
    """Return the text in the library's NFC."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):  # what is normalized today was so in Unicode 9
        return text
    return _BETWEEN_INERT.sub(lambda stretch: unicodedata.normalize("NFC", stretch[0]), text)
