"""Lines for people: whatever text they quote, each stays one line and cannot steer a terminal.

File names, tokens and patterns come from elsewhere. C0 and C1 controls, DEL, line and paragraph separators and the
controls of writing direction are written as in JSON: an escape becomes `\\u001b`, a line feed `\\n`.
"""

from collections.abc import Iterable

_CONTROLS = (
    *(*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F),
    *(*range(0x2028, 0x202F), *range(0x2066, 0x206A)),
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS} | {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}


def printable(text: object) -> str:
    """Return a text as one line without controls: `a<ESC>[31m` -> `a\\u001b[31m`."""
    shown = str(text)
    return shown if shown.isprintable() else shown.translate(_ESCAPES)


def printable_lines(lines: Iterable[object]) -> str:
    """Join lines, each of them printable."""
    return "\n".join(map(printable, lines))
