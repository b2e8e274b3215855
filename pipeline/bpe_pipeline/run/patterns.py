"""The patterns that the options name, compiled once in a process."""

from dataclasses import replace
from functools import cache

from bpe_pipeline.base import machine
from bpe_pipeline.pattern.compiled import CompiledPattern, PatternSequence
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.run.options import PreTokenOptions


def pattern_of(options: PreTokenOptions) -> CompiledPattern:
    """Return the pattern that cuts the corpus."""
    return _compiled(options.pattern, options.normalize == "nfc")


@cache
def _compiled(expression: str, nfc: bool) -> CompiledPattern:
    return replace(compile_pattern(expression), nfc=nfc)


def on_regex(pattern: CompiledPattern) -> bool:
    """Return whether the `regex` package cuts by this pattern: it has no automaton, and is no sequence of patterns."""
    return pattern.refusal is not None and not isinstance(pattern, PatternSequence)


def slowness(pattern: CompiledPattern) -> str:
    """Return a warning if the pattern has no automaton, otherwise an empty text."""
    return f"the pattern runs on the regex package, slower: {pattern.refusal}" if on_regex(pattern) else ""


def cut_by(pattern: CompiledPattern) -> dict[str, str]:
    """Return what a pattern's name means here and now, as part of a run's fingerprints."""
    by = f"regex {machine.versions()['regex']}" if on_regex(pattern) else "the automaton"
    form, version = "in NFC" if pattern.nfc else "as it is", f"Unicode {pattern.unicode_version}"
    return {"expression": pattern.expression, "by": by, "unicode": version, "text": form}
