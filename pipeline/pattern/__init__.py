"""Patterns cut documents into pieces. `compile_pattern` takes one and returns a `CompiledPattern`.

A pattern is a preset's name or a regular expression in the dialect of the `regex` package, with `$` as the very end of
the document. One of the supported subset (see parse.py) becomes an automaton of the native core; any other runs on
`regex` itself, slower, and `refusal` says why.
"""

from pipeline.pattern.by_regex import cut_with_regex, differing_characters
from pipeline.pattern.compiled import CompiledPattern, PatternSequence, compile_pattern, in_sequence
from pipeline.pattern.presets import PRESETS, resolve

__all__ = [
    "PRESETS",
    "CompiledPattern",
    "PatternSequence",
    "compile_pattern",
    "cut_with_regex",
    "differing_characters",
    "in_sequence",
    "resolve",
]
