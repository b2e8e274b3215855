"""Lines for people: each stays one line and cannot steer a terminal, whatever it quotes; and the byte alphabet.

File names, tokens and patterns come from elsewhere. C0 and C1 controls, DEL, line and paragraph separators and the
controls of writing direction are written as in JSON: an escape becomes `\\u001b`, a line feed `\\n`.
"""

import re
from collections.abc import Iterable

_CONTROLS = (
    *(*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F),
    *(*range(0x2028, 0x202F), *range(0x2066, 0x206A)),
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS} | {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}

_PASSWORD = re.compile(r"(://)[^/?\s'\"]*:[^/?\s'\"]*@")
_QUERY = re.compile(r"(?<=\?)[^\s'\"]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"]+")

# The bytes in GPT-2's order, which is also the order of Hugging Face's byte alphabet and of tiktoken's rank files:
# the printable characters of Latin-1 first, then the bytes whose characters would be invisible.
_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTE_ORDER: tuple[int, ...] = _PRINTABLE + tuple(sorted(set(range(256)) - set(_PRINTABLE)))

BYTE_CHARACTERS = {
    byte: chr(byte) if byte in _PRINTABLE else chr(0x100 + index - len(_PRINTABLE))
    for index, byte in enumerate(BYTE_ORDER)
}


def printable(text: object) -> str:
    """Return a text as one line without controls: `a<ESC>[31m` -> `a\\u001b[31m`."""
    shown = str(text)
    return shown if shown.isprintable() else shown.translate(_ESCAPES)


def printable_lines(lines: Iterable[object]) -> str:
    """Join lines, each of them printable."""
    return "\n".join(map(printable, lines))


def without_secrets(text: str) -> str:
    """Return a text that quotes URIs without what may be secret in them: `s3://me:key@b/k?sig=1` -> `s3://***@b/k?sig=***`."""

    def hidden(uri: re.Match[str]) -> str:
        shown = _PASSWORD.sub(r"\1***@", uri[0])
        return _QUERY.sub(lambda query: re.sub("=[^&;]+", "=***", query[0]), shown)

    return _URI.sub(hidden, text)
