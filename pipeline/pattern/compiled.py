"""The whole compiler: text -> tree -> program -> automaton -> tables -> native kernel.

An automaton cuts exactly as the `regex` package does (on characters that both know), or there is none, and `regex`
itself cuts (`by_regex`).
"""

import dataclasses
from array import array
from dataclasses import dataclass, field
from functools import cached_property

from pipeline import _core
from pipeline.base.errors import PatternError
from pipeline.pattern.by_regex import DEFAULT_TIMEOUT_S, cut_with_regex, point_at, require_valid
from pipeline.pattern.classes import UNICODE_VERSION, partition
from pipeline.pattern.dfa import MAX_CLASSES, Machine, check_claims, raw_table
from pipeline.pattern.fold import fold, provable_pairs
from pipeline.pattern.nfa import assemble
from pipeline.pattern.parse import parse
from pipeline.pattern.presets import PRESETS
from pipeline.pattern.tree import Node, Refusal


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
        """Make the automaton of the native core."""
        return _core.Automaton(*dataclasses.astuple(self))


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
        """Return the pieces of a document, in order; together they are the document. For small texts."""
        if self.automaton is None:
            return list(cut_with_regex(self.expression, text, self.timeout_s))
        return pieces_between(text.encode(), self.automaton.cut(text.encode()))


def pieces_between(data: bytes, ends: list[int]) -> list[str]:
    """Return the pieces of a document, UTF-8, given their ends in bytes."""
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def compile_pattern(pattern: str, *, timeout_s: int = DEFAULT_TIMEOUT_S) -> CompiledPattern:
    """Compile a preset's name or a regular expression, in some seconds at most.

    Raises PatternError for what `regex` does not compile, and for what can match the empty string.
    timeout_s: how long the `regex` package may take where it has to cut: see `cut_with_regex`.
    """
    name = pattern if pattern in PRESETS else None
    expression = PRESETS.get(pattern, pattern)
    if name is None:
        require_valid(expression)
    try:
        tree = parse(expression)
        tables = build(tree)
    except Refusal as refusal:
        reason = point_at(refusal.reason, expression, refusal.position)
        return CompiledPattern(name, expression, None, reason, timeout_s=timeout_s)
    except RecursionError:
        return CompiledPattern(name, expression, None, "its long chain of parts", timeout_s=timeout_s)
    if tables is None:
        raise PatternError(f"the pattern {expression!r} can match the empty string; a piece has at least one character")
    return CompiledPattern(name, expression, tables, None, tree=tree)


def build(tree: Node) -> AutomatonTables | None:
    """Return the tables of a tree; None if it can match the empty string; raise `Refusal` if they grow too large."""
    program = assemble(tree)
    classes = partition(program.sets)
    if classes is None or classes.count >= MAX_CLASSES:
        raise Refusal(f"the pattern distinguishes more than {MAX_CLASSES} classes of characters", 0)
    machine = Machine(program, classes.masks, classes.count + 1)
    check_claims(machine, program)
    if any(matched for _, matched in machine.row(machine.start)):
        return None
    plain = raw_table(machine)
    folded = fold(machine)
    return AutomatonTables(
        class_starts=classes.starts.tobytes(),
        class_ids=classes.ids,
        classes=machine.classes,
        plain=array("H", [entry for line in plain for entry in line]).tobytes(),
        folded=array("I", [entry for line in folded.table for entry in line]).tobytes(),
        tentative=bytes(folded.tentative),
        provable=b"".join(provable_pairs(folded, machine.classes)),
    )
