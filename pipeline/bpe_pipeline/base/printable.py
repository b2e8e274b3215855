"""Lines for people: each stays one line and cannot steer a terminal, whatever it quotes; and the byte alphabet.

A terminal gets words that are whole at its width, and errors that are seen; pipes and files get each line as it is.

File names, tokens and patterns come from elsewhere. C0 and C1 controls, DEL, line and paragraph separators and the
controls of writing direction are written as in JSON: an escape becomes `\\u001b`, a line feed `\\n`.
"""

import contextlib
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable
from typing import TextIO

PROGRAM = "bpe-pipeline"
UNBOUNDED = sys.maxsize  # the columns of what is no terminal
_QUOTED = re.compile(r"'[^']*'")

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


def columns_of(stream: TextIO) -> int:
    """Return the width of a terminal; of anything else `UNBOUNDED`."""
    return shutil.get_terminal_size().columns if stream.isatty() else UNBOUNDED


def wrapped(line: str, columns: int, hang: int = 2, *, command: bool = False) -> str:
    """Break a line between words; further lines begin at column `hang`, or at 2 if a word would not fit there.

    command: the line ends with one, which stays one for a shell. A wide character, such as a Chinese one, takes two
    columns.
    """
    if 2 * len(line) <= columns:
        return line
    cells = "".join(one + "\1" * (unicodedata.east_asian_width(one) in "WF") for one in line)
    if len(cells) <= columns:
        return line
    end = " \\" * command
    if command:
        cells = _QUOTED.sub(lambda quoted: quoted[0].replace(" ", "\0"), cells)
    width = columns - len(end)
    hang = hang if all(len(word) + hang <= width for word in cells.split()) else 2
    lines = textwrap.wrap(cells, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)
    return f"{end}\n".join(lines).replace("\0", " ").replace("\1", "")


def write_error(text: str, *, whole: bool = False) -> None:
    """Print a line on standard error; if that fails, the work continues. whole: not wrapped, whatever its length."""
    with contextlib.suppress(OSError, ValueError):
        shown = printable(text)
        if sys.stderr.isatty() and not whole:
            shown = wrapped(shown, columns_of(sys.stderr))
            if not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
                shown = re.sub(f"^{PROGRAM}: error:", f"{PROGRAM}: \x1b[1;31merror:\x1b[m", shown)
        sys.stderr.write(f"{shown}\n")
