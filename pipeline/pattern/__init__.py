"""Patterns: what cuts a document into pieces. `compile_pattern` is the door, `CompiledPattern` what it gives.

A pattern is a preset's name or a regular expression in the dialect of the `regex` package, with `$` read as
the very end of the document. One of the supported subset (see parse.py) becomes an automaton of the native
core; any other runs on `regex` itself, slower, and `refusal` says why.
"""

from pipeline.pattern.compiled import AutomatonTables, CompiledPattern, compile_pattern, cut_with_regex
from pipeline.pattern.differences import differing_characters
from pipeline.pattern.presets import PRESETS
from pipeline.pattern.sequence import PatternSequence, in_sequence

__all__ = [
    "PRESETS",
    "AutomatonTables",
    "CompiledPattern",
    "PatternSequence",
    "compile_pattern",
    "cut_with_regex",
    "differing_characters",
    "in_sequence",
]
