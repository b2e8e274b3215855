"""Read the pre-tokenizer of a tokenizer.json: the patterns that it cuts with, in order.

Taken are Split (what it finds and what is between stays, each by itself), Digits, and the ByteLevel that ends every
byte-level vocabulary, with its own pattern or without. In a Sequence each cuts the pieces of the one before.
"""

import re
from functools import cache

from pipeline.base.errors import ExportRefusedError, PatternError
from pipeline.pattern import PRESETS, CompiledPattern, compile_pattern, in_sequence
from pipeline.pattern.parse import first_difference
from pipeline.pattern.translate import VERBATIM_FOR_TOKENIZERS, for_tokenizers, leaves_text
from pipeline.tokenizer.formats.fields import Field, shortened
from pipeline.tokenizer.model import REGEX_STAGE

# What Digits takes for digits: \p{N}, and the numbers that its tables (Unicode 17) have beyond ours.
_DIGIT = r"[\p{N}\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6]"


def read_pre_tokenizer(field: Field, noted: Field) -> tuple[CompiledPattern, bool]:
    """The pattern, and whether a space is put in front of each text; `noted`: the pattern as the user wrote it."""
    if field.member("type").value == REGEX_STAGE:
        expression = field.member("pattern")
        try:
            return compile_pattern(expression.read(str)), False
        except PatternError as reason:
            expression.refuse(f"is not a pattern: {reason}")
    stages = field.member("pretokenizers").elements() if field.member("type").value == "Sequence" else [field]
    *splits, last = stages if stages else [field]
    last.member("type").expect("ByteLevel")
    in_front, own_regex = last.member("add_prefix_space"), last.member("use_regex")
    in_front.expect(*((False,) if splits else (False, True)))
    own_regex.expect(None, True, False)
    steps = [_step(split, noted if len(splits) == 1 else Field(None, noted.file)) for split in splits]
    if own_regex.value is not False:
        steps.append(compile_pattern("gpt2"))
    elif not steps:
        steps.append(compile_pattern("none"))
    try:
        return in_sequence(steps), in_front.value is True
    except PatternError as reason:
        field.refuse(f"is not reproduced exactly: {reason}")


def _step(split: Field, noted: Field) -> CompiledPattern:
    split.member("type").expect("Split", "Digits")
    if split.member("type").value == "Digits":
        individual = split.member("individual_digits")
        individual.expect(True, False)
        return compile_pattern(_DIGIT if individual.value else f"{_DIGIT}+")
    pattern = split.member("pattern")
    literal = pattern.member("String")
    expression = literal if literal.value is not None else pattern.member("Regex")
    try:
        if literal.value is not None:
            compiled = compile_pattern("".join(f"\\U{ord(character):08X}" for character in literal.read(str)))
        else:
            compiled = _recovered(expression.read(str), noted)
    except (PatternError, ExportRefusedError) as reason:
        expression.refuse(f"is not reproduced exactly: {reason}")
    _check_behavior(split, compiled)
    return compiled


def _check_behavior(split: Field, compiled: CompiledPattern) -> None:
    """Refuse what would not keep each match, and each stretch between, as a piece of its own."""
    behavior, inverted = split.member("behavior"), split.member("invert")
    inverted.expect(None, False, True)
    if behavior.value == "Removed" and inverted.value and compiled.tables is not None and not leaves_text(compiled):
        return  # what is not matched would be removed, and there is no such text
    behavior.expect("Isolated")


def _recovered(expression: str, noted: Field) -> CompiledPattern:
    """The pattern that tokenizers reads in an expression: the one noted beside, a named one, or the expression."""
    if noted.value is None:
        known = next((name for name in VERBATIM_FOR_TOKENIZERS if PRESETS[name] == expression), None)
        known = known or _rewritten_presets().get(expression)
        if known is not None:
            return compile_pattern(known)
    else:
        compiled = compile_pattern(noted.read(str))
        if for_tokenizers(compiled) == expression:
            return compiled
        raise PatternError(f"{shortened(expression)} is not what {shortened(noted.value)} is written as for tokenizers")
    expression = _our_line_ends(expression)
    compiled = compile_pattern(_our_escapes(expression))
    difference = compiled.refusal or first_difference(expression)
    if difference is None or (compiled.tree is not None and for_tokenizers(compiled) == expression):
        return compiled
    raise PatternError(f"{shortened(expression)} may mean something else in tokenizers, because of {difference}")


@cache
def _rewritten_presets() -> dict[str, str]:
    """What the other named patterns are written as for tokenizers, and their names."""
    others = (name for name in PRESETS if name not in VERBATIM_FOR_TOKENIZERS)
    return {for_tokenizers(compile_pattern(name)): name for name in others}


def _our_line_ends(expression: str) -> str:
    """Write `$`, for tokenizers' engine the place before any line feed and the end, as what all engines read alike."""
    return re.sub(
        r"\\.|\[(?:\\.|[^\]\\])*\]|(\$)(?![*+?{])",
        lambda found: r"(?![^\n])" if found[1] else found[0],
        expression,
        flags=re.DOTALL,
    )


def _our_escapes(expression: str) -> str:
    """Write `\\x{410}`, as tokenizers' engine has it, as `\\U00000410`, as ours has it."""
    return re.sub(
        r"\\(?:x\{([0-9A-Fa-f]{1,8})\}|.)",
        lambda escape: f"\\U{int(escape[1], 16):08X}" if escape[1] else escape[0],
        expression,
        flags=re.DOTALL,
    )
