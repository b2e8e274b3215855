"""The whole compiler in one story: text -> tree -> program -> automaton -> tables -> native kernel.

Promise: an automaton cuts exactly as the `regex` package does (on characters that both know), or there is
none.
"""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipeline import _core
from pipeline.base.errors import PatternError, PatternTimeoutError
from pipeline.pattern.classes import UNICODE_VERSION, partition
from pipeline.pattern.dfa import MAX_CLASSES, Machine, raw_table
from pipeline.pattern.fold import fold, provable_pairs
from pipeline.pattern.nfa import assemble, check_claims
from pipeline.pattern.parse import Node, Refusal, parse
from pipeline.pattern.presets import PRESETS

MAX_EXPRESSION = 1 << 16  # characters
DEFAULT_TIMEOUT_S = 60
_TIMED_CHARACTERS = 1 << 20  # an honest pattern takes a second for so many, ten at most
_SHOWN_CHARACTERS = 40
_POSIX_CLASS = re.compile(r"\[:\^?[A-Za-z0-9 _&\-./=:]*?:\]")
_SET_OPERATORS = ("||", "~~", "&&", "--")


@dataclass(frozen=True)
class AutomatonTables:
    """An automaton as plain bytes, for another process of this machine; `native()` takes a millisecond."""

    class_starts: bytes
    class_ids: bytes
    classes: int
    plain: bytes
    folded: bytes
    tentative: bytes
    provable: bytes

    def native(self) -> _core.Automaton:
        """The automaton of the native core."""
        return _core.Automaton(
            self.class_starts,
            self.class_ids,
            self.classes,
            self.plain,
            self.folded,
            self.tentative,
            self.provable,
        )


@dataclass(frozen=True)
class CompiledPattern:
    """A pattern ready to cut; `automaton` is None where it runs on `regex`, for the reason in `refusal`."""

    name: str | None
    expression: str
    tables: AutomatonTables | None
    refusal: str | None
    unicode_version: str = UNICODE_VERSION
    tree: Node | None = field(default=None, repr=False, compare=False)
    timeout_s: int = DEFAULT_TIMEOUT_S  # of `regex`: for a document of a million characters or less

    @cached_property
    def automaton(self) -> _core.Automaton | None:
        """The native automaton, made at first use and shared after that."""
        return self.tables.native() if self.tables else None

    def cut(self, text: str) -> list[str]:
        """The pieces of a document, in order; together they are the document. For small texts."""
        if self.automaton is None:
            return list(cut_with_regex(self.expression, text, self.timeout_s))
        data = text.encode()
        ends = self.automaton.cut(data)
        return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def compile_pattern(pattern: str, *, timeout_s: int = DEFAULT_TIMEOUT_S) -> CompiledPattern:
    """Compiles a preset's name or a regular expression, in some seconds at most.

    timeout_s: how long the `regex` package may take where it has to cut: see `cut_with_regex`.
    Raises PatternError for what `regex` does not compile, and for what can match the empty string.
    """
    name = pattern if pattern in PRESETS else None
    expression = PRESETS.get(pattern, pattern)
    if name is None:
        _require_valid(expression)
    try:
        tree = parse(expression)
        tables = build(tree)
    except Refusal as refusal:
        reason = _placed(refusal.reason, expression, refusal.position)
        return CompiledPattern(name, expression, None, reason, timeout_s=timeout_s)
    except RecursionError:
        return CompiledPattern(name, expression, None, "its long chain of parts", timeout_s=timeout_s)
    if tables is None:
        raise PatternError(f"the pattern {expression!r} can match the empty string; a piece has at least one character")
    return CompiledPattern(name, expression, tables, None, tree=tree)


def build(tree: Node) -> AutomatonTables | None:
    """The tables of a tree; None if it can match the empty string; `Refusal` if they grow too large."""
    program = assemble(tree)
    classes = partition(program.sets)
    if classes is None or classes.count >= MAX_CLASSES:
        raise Refusal(f"the pattern tells more than {MAX_CLASSES} classes of characters apart", 0)
    check_claims(program, classes.masks)
    machine = Machine(program, classes.masks, classes.count + 1)
    if any(matched for _, matched in machine.row(machine.start)):
        return None
    plain = raw_table(machine)
    folded = fold(machine)
    return AutomatonTables(
        class_starts=array("I", classes.starts).tobytes(),
        class_ids=classes.ids,
        classes=machine.classes,
        plain=array("H", [entry for line in plain for entry in line]).tobytes(),
        folded=array("I", [entry for line in folded.table for entry in line]).tobytes(),
        tentative=bytes(folded.tentative),
        provable=b"".join(provable_pairs(folded, machine.classes)),
    )


def cut_with_regex(expression: str, text: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Iterator[str]:
    """The pieces of a document by the `regex` package; each stretch that nothing matches is a piece.

    Backtracking can take longer than anybody lives. Raises PatternTimeoutError after `timeout_s`, or, for a document
    of more than 2^20 characters, after so long for each 2^20 of them: about a hundredth of the usual speed.
    """
    at = 0
    limit_s = timeout_s * max(1.0, len(text) / _TIMED_CHARACTERS)
    try:
        for match in _require_valid(expression).finditer(text, timeout=limit_s):
            start, stop = match.span()
            if start == stop:
                raise PatternError(
                    f"the pattern {expression!r} matches the empty string at character {start} of a document"
                )
            if at < start:
                yield text[at:start]
            yield text[start:stop]
            at = stop
    except TimeoutError:
        raise PatternTimeoutError(
            f"the pattern {_shortened(expression)} takes longer than {limit_s:.0f} s for the document of {len(text):,} "
            f"characters that begins with {text[:_SHOWN_CHARACTERS]!r}, at its character {at:,}; write it so that it "
            "need not go back (no repetition within a repetition), or give it more time with --pattern-timeout"
        ) from None
    if at < len(text):
        yield text[at:]


def _shortened(expression: str) -> str:
    shown = repr(expression)
    return shown if len(shown) <= 2 * _SHOWN_CHARACTERS else f"{shown[: 2 * _SHOWN_CHARACTERS]}..."


def _require_valid(expression: str) -> Any:
    import regex

    if len(expression) > MAX_EXPRESSION:
        raise PatternError(
            f"the pattern is {len(expression):,} characters long, at most {MAX_EXPRESSION:,} are taken: shorten it"
        )
    try:
        regex.compile(expression)  # as it is written: the places in its complaints are the writer's
        compiled = regex.compile(with_document_end(expression))
    except regex.error as error:
        reason, position = getattr(error, "msg", str(error)), getattr(error, "pos", None) or 0
        raise PatternError(_placed(f"the pattern does not compile: {reason}", expression, position)) from None
    except RecursionError:
        raise PatternError("the pattern does not compile: its groups are nested too deeply") from None
    if compiled.match("") is not None:
        raise PatternError(f"the pattern {expression!r} can match the empty string; a piece has at least one character")
    return compiled


def with_document_end(expression: str) -> str:
    """The expression with each `$` that is an anchor written `\\Z`, the very end of the document."""
    nesting = "V1" in expression and _has_nested_classes(expression)
    written: list[str] = []
    at, depth = 0, 0
    while at < len(expression):
        character = expression[at]
        width = 2 if character == "\\" else 1
        if depth and (named := _POSIX_CLASS.match(expression, at)):
            width = len(named[0])
        elif character == "[" and (nesting or not depth):
            depth += 1
            width += expression.startswith("^", at + 1)
            width += expression.startswith("]", at + width)
        elif nesting and depth and expression[at : at + 2] in _SET_OPERATORS:
            width = 2 + expression.startswith("]", at + 2)
        elif character == "]" and depth:
            depth -= 1
        written.append(r"\Z" if character == "$" and not depth else expression[at : at + width])
        at += width
    return "".join(written)


def _has_nested_classes(expression: str) -> bool:
    """Whether classes are read as version 1 of `regex` does, with classes and operators in them."""
    import regex

    try:
        return bool(regex.compile(expression).flags & regex.VERSION1)
    except (regex.error, RecursionError):
        return False  # it does not compile; whoever uses it says so


def _placed(reason: str, expression: str, position: int) -> str:
    """One line that points at a place in the pattern."""
    marked = f"{expression[:position]} >>> {expression[position:]}".replace("\n", "\\n").replace("\r", "\\r")
    return f"{reason}, at character {position} of the pattern: {marked}"
