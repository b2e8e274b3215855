"""The `regex` package: it checks every expression that is not a preset, and cuts for those without an automaton."""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from bpe_pipeline.base.errors import PatternError, PatternTimeoutError
from bpe_pipeline.base.system import limited_growth
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.pattern.classes import CATEGORY_NAMES, CATEGORY_STARTS, CODE_POINTS

TIMEOUT_S = 60  # of a document of a million characters or less
_MAX_EXPRESSION = 1 << 16  # characters
_TIMED_CHARACTERS = 1 << 20  # a pattern that does not backtrack takes a second for them, ten at most
_SHOWN_CHARACTERS = 40
_MATCHES_AT_ONCE = 1000  # under one limit of memory
# What is read whole in an expression, by the flags of `regex`: escapes and classes. A `$` elsewhere is an anchor.
_ESCAPE_OR_POSIX = r"\\.|\[:\^?[A-Za-z0-9 _&\-./=:]*?:\]"
_FLAT_CLASS = rf"\[\^?\]?(?:{_ESCAPE_OR_POSIX}|[^\]])*+"
_NESTED_CLASS = rf"(\[\^?\]?(?:{_ESCAPE_OR_POSIX}|(?:\|\||~~|&&|--)\]?|(?1)|[^\]])*+\]?)"


def cut_with_regex(
    expression: str, text: str, timeout_s: float | None = None, memory_bytes: int | None = None
) -> Iterator[str]:
    """Cut a document with the `regex` package; each stretch that nothing matches is a pre-token.

    Backtracking can take exponential time, and memory. Raises PatternTimeoutError after `timeout_s`, by default
    `TIMEOUT_S`, of a longer document per 2^20 characters: about a hundredth of the usual speed; and where
    `regex` takes more than `memory_bytes`, which only a worker may give: the limit is of the process.
    """
    at = 0
    limit_s = (TIMEOUT_S if timeout_s is None else timeout_s) * max(1.0, len(text) / _TIMED_CHARACTERS)
    matches = require_valid(expression).finditer(text, timeout=limit_s)
    spans: list[tuple[int, int]] = [(0, 0)]
    too_much = None
    while spans and too_much is None:
        spans = []
        try:
            with limited_growth(memory_bytes):
                for match in islice(matches, _MATCHES_AT_ONCE):
                    spans.append(match.span())
        except TimeoutError:
            too_much = f"longer than {limit_s:.0f} s", ""
        except MemoryError:
            limit = "there is" if memory_bytes is None else f"{format_bytes(memory_bytes)} for backtracking"
            too_much = f"more memory than {limit}", ", or allow more memory with --memory-limit"
        for start, stop in spans:
            if start == stop:
                raise PatternError(
                    f"the pattern {expression!r} matches the empty string at character {start} of a document"
                )
            if at < start:
                yield text[at:start]
            yield text[start:stop]
            at = stop
    if too_much is not None:
        shown = repr(expression)
        shown = shown if len(shown) <= 2 * _SHOWN_CHARACTERS else f"{shown[: 2 * _SHOWN_CHARACTERS]}..."
        raise PatternTimeoutError(
            f"the pattern {shown} takes {too_much[0]} for the document of {len(text):,} "
            f"characters that begins with {text[:_SHOWN_CHARACTERS]!r}, at its character {at:,}; write it so that it "
            f"need not backtrack (no repetition within a repetition){too_much[1]}"
        )
    if at < len(text):
        yield text[at:]


def require_valid(expression: str) -> Any:
    """Compile an expression with `regex`; raise PatternError if it does not compile or can match the empty string."""
    import regex

    if len(expression) > _MAX_EXPRESSION:
        raise PatternError(
            f"the pattern is {len(expression):,} characters long, and the limit is {_MAX_EXPRESSION:,}: shorten it"
        )
    try:
        regex.compile(expression)  # as the user wrote it, so that positions in its errors are right
        compiled = regex.compile(with_document_end(expression))
    except regex.error as error:
        reason, position = getattr(error, "msg", str(error)), getattr(error, "pos", None) or 0
        raise PatternError(point_at(f"the pattern does not compile: {reason}", expression, position)) from None
    except RecursionError:
        raise PatternError("the pattern does not compile: its groups are nested too deeply") from None
    if compiled.match("") is not None:
        raise PatternError(
            f"the pattern {expression!r} can match the empty string; a pre-token has at least one character"
        )
    return compiled


def with_document_end(expression: str) -> str:
    """Write each `$` that is an anchor as `\\Z`, the very end of the document. The expression must compile."""
    import regex

    nested = regex.compile(expression).flags & regex.VERSION1
    read_whole = _NESTED_CLASS if nested else _FLAT_CLASS
    return regex.sub(rf"(?s){read_whole}|\\.|\$", lambda match: r"\Z" if match[0] == "$" else match[0], expression)


def point_at(reason: str, expression: str, position: int) -> str:
    """Return one line that points at a position in the pattern."""
    most = 2 * _SHOWN_CHARACTERS
    before, after = expression[:position], expression[position:]
    before = before if len(before) <= most else f"...{before[-most:]}"
    after = after if len(after) <= most else f"{after[:most]}..."
    marked = f"{before} >>> {after}".replace("\n", "\\n").replace("\r", "\\r")
    return f"{reason}, at character {position} of the pattern: {marked}"


@cache
def differing_characters() -> frozenset[str]:
    """Return all characters whose general category or case folding the installed `regex` sees differently.

    The package follows newer Unicode versions than our tables (and than the runtimes that read our exports), and it
    folds U+0130 with `i`. A run on `regex` names those characters of its corpus, since an exported tokenizer may cut
    them in another way. White_Space and `\\w` differ nowhere else. Takes about a quarter of a second, once a process.
    """
    import regex

    differing = {dotted for dotted in "\u0130\u0131" if regex.match(f"(?i:{dotted})", "i")}
    members: dict[str, list[str]] = {name: [] for name in CATEGORY_NAMES if name != "Cs"}  # no text has surrogates
    for start, stop, name in zip(CATEGORY_STARTS, [*CATEGORY_STARTS[1:], CODE_POINTS], CATEGORY_NAMES, strict=True):
        if name in members:
            members[name].extend(map(chr, range(start, stop)))
    for name, characters in members.items():
        differing.update(regex.findall(rf"\P{{{name}}}", "".join(characters)))
    return frozenset(differing)
