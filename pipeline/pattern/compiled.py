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
from pipeline.errors import PatternError
from pipeline.pattern.classes import UNICODE_VERSION, partition
from pipeline.pattern.dfa import MAX_CLASSES, Machine, raw_table
from pipeline.pattern.fold import fold, provable_pairs
from pipeline.pattern.nfa import assemble, check_claims
from pipeline.pattern.parse import Node, Refusal, parse
from pipeline.pattern.presets import PRESETS

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

    @cached_property
    def automaton(self) -> _core.Automaton | None:
        """The native automaton, made at first use and shared after that."""
        return self.tables.native() if self.tables else None

    def cut(self, text: str) -> list[str]:
        """The pieces of a document, in order; together they are the document. For small texts."""
        if self.automaton is None:
            return list(cut_with_regex(self.expression, text))
        data = text.encode()
        ends = self.automaton.cut(data)
        return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def compile_pattern(pattern: str) -> CompiledPattern:
    """Compiles a preset's name or a regular expression.

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
        return CompiledPattern(name, expression, None, _placed(refusal.reason, expression, refusal.position))
    except RecursionError:
        return CompiledPattern(name, expression, None, "its long chain of parts")
    if tables is None:
        raise PatternError(f"the pattern {expression!r} can match the empty string; a piece has at least one character")
    return CompiledPattern(name, expression, tables, None, tree=tree)


def build(tree: Node) -> AutomatonTables | None:
    """The tables of a tree; None if it can match the empty string; `Refusal` if they grow too large."""
    program = assemble(tree)
    classes = partition(program.sets)
    if classes.count >= MAX_CLASSES:
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


def cut_with_regex(expression: str, text: str) -> Iterator[str]:
    """The pieces of a document by the `regex` package; each stretch that nothing matches is a piece."""
    at = 0
    for match in _require_valid(expression).finditer(text):
        start, stop = match.span()
        if start == stop:
            raise PatternError(
                f"the pattern {expression!r} matches the empty string at character {start} of a document"
            )
        if at < start:
            yield text[at:start]
        yield text[start:stop]
        at = stop
    if at < len(text):
        yield text[at:]


def _require_valid(expression: str) -> Any:
    import regex

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
