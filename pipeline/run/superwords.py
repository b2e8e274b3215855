"""The coarse pattern of superwords, as the options name it."""

from functools import cache

from pipeline.base.errors import UsageError
from pipeline.pattern.compiled import CompiledPattern
from pipeline.pattern.compiler import compile_pattern
from pipeline.pattern.presets import SUPERWORD_PATTERNS
from pipeline.run.options import Options


def coarse_pattern(options: Options) -> CompiledPattern | None:
    """Return the pattern of the second stage, which is the tokenizer's; None if there are no superwords."""
    if options.first_stage is None:
        return None
    if any(weight != "1" for weight in options.weights or ()):
        raise UsageError(
            "--superwords-from counts the text a second time, without weights of inputs: count each input in a run of "
            "its own, and `combine` these runs with --weight"
        )
    return _compiled(
        SUPERWORD_PATTERNS.get(options.superword_pattern, options.superword_pattern), options.pattern_timeout
    )


@cache
def _compiled(expression: str, timeout_s: int) -> CompiledPattern:
    return compile_pattern(expression, timeout_s=timeout_s)
