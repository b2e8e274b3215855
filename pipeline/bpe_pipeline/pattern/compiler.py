"""The whole compiler: text -> tree -> program -> automaton -> tables."""

from array import array
from functools import lru_cache

from bpe_pipeline.base.errors import PatternError
from bpe_pipeline.pattern.automaton import LineMachine, Machine, Program
from bpe_pipeline.pattern.by_regex import point_at, require_valid
from bpe_pipeline.pattern.classes import Refusal
from bpe_pipeline.pattern.compiled import MOST_STEPS, THEN, THEN_LETTERS, AutomatonTables, CompiledPattern, in_sequence
from bpe_pipeline.pattern.fold import Folded
from bpe_pipeline.pattern.parse import parse
from bpe_pipeline.pattern.presets import named


def compile_pattern(pattern: str) -> CompiledPattern:
    """Compile a preset's name or an expression, in some seconds; `PatternError` if it can match the empty string."""
    if THEN in pattern or THEN_LETTERS in pattern:  # of several steps
        if (steps := pattern.replace(THEN_LETTERS, THEN).count(THEN) + 1) > MOST_STEPS:
            raise PatternError(f"the pattern has {steps:,} steps, and at most {MOST_STEPS} are supported")
        first, *last = pattern.split(THEN_LETTERS)
        return in_sequence(list(map(compile_pattern, first.split(THEN))), list(map(compile_pattern, last)))
    preset = named(pattern)
    name, expression = (preset.name, preset.expression) if preset else (None, pattern)
    if name is None:
        require_valid(expression)
    tables = refusal = None
    try:
        tables = _tables(expression)
    except Refusal as reason:
        refusal = point_at(reason.reason, expression, reason.position)
    except RecursionError:
        refusal = "its long chain of parts"
    return CompiledPattern(name, expression, tables, refusal)


@lru_cache(16)
def _tables(expression: str) -> AutomatonTables:
    """Return the tables of an expression of the subset; raise `Refusal` for another, or if they grow too large."""
    machine = Machine(Program(parse(expression)))
    if any(matched for _, matched in machine.row(machine.start)):
        raise PatternError(
            f"the pattern {expression!r} can match the empty string; a pre-token has at least one character"
        )
    return _written(machine, machine.table(), Folded(machine))


def line_tables(pattern: CompiledPattern) -> AutomatonTables | None:
    """Return tables that cut many lines at once, each with its ending, as if it were a document; None if none do.

    They exist where each line is covered by matches, and nothing looks further ahead than to the next character.
    """
    if pattern.tables is None or pattern.tables.ahead:
        return None
    try:
        machine = LineMachine(Program(parse(pattern.expression)))
        plain = machine.table()
    except Refusal:  # for more classes or states than the pattern has without lines
        return None
    folded = Folded(machine)
    return _written(machine, plain, folded) if folded.covers else None


def _written(machine: Machine, plain: list[list[int]], folded: Folded) -> AutomatonTables:
    return AutomatonTables(
        class_starts=array("I", machine.partition.starts).tobytes(),
        class_ids=machine.partition.ids,
        classes=machine.classes,
        plain=array("H", [entry for line in plain for entry in line]).tobytes(),
        folded=array("I", [entry for line in folded.table for entry in line]).tobytes(),
        tentative=bytes(state.tentative for state in folded.order),
        provable=folded.provable_pairs(),
        ahead=bytes(entry for line in machine.ahead.table for entry in line) if machine.ahead else b"",
        variants=machine.ahead.variant_table() if machine.ahead else b"",
    )
