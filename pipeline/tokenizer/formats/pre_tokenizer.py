"""The pre-tokenizer of a tokenizer.json, read and written: the patterns that it cuts with, in order.

Accepted are Split (each match and each stretch between is a piece), Digits, Punctuation, and the ByteLevel of every
byte-level vocabulary, with its own pattern or without. In a Sequence each cuts the pieces of the one before; those
after ByteLevel, as in Falcon's, cut bytes as the letters that they have become. punctuation.json has the characters of
Punctuation, whose tables are older than ours.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.base.errors import ExportRefusedError, PatternError
from pipeline.pattern.compiled import THEN, THEN_LETTERS, AutomatonTables, CompiledPattern, PatternSequence, in_sequence
from pipeline.pattern.compiler import compile_pattern
from pipeline.pattern.parse import first_difference
from pipeline.pattern.presets import PRESETS, Preset, superword_presets
from pipeline.pattern.translate import for_tokenizers, leaves_text
from pipeline.tokenizer.formats.fields import Field, shortened, steps_of
from pipeline.tokenizer.model import Model

REGEX_STAGE = "BpePipelineRegex"  # a pre-tokenizer that other readers refuse, for what tokenizers would cut differently

# The digits of Digits: \p{N}, and the numbers that its tables (Unicode 17) have beyond ours.
_LATER = r"\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6"
_NUMBERS = rf"\p{{N}}{_LATER}"
_DIGIT = f"[{_NUMBERS}]"

# Digits and then GPT-2's pattern, as StarCoder and SmolLM cut, in one step: a text ends before a digit.
_DIGITS_THEN_GPT2 = {
    individual: rf"{digits}|'(?:[sdmt]|ll|ve|re)| ?\p{{L}}+| ?[^\s\p{{L}}{_NUMBERS}]+|\s+(?![^\s{_NUMBERS}])|\s+"
    for individual, digits in ((True, _DIGIT), (False, rf"\p{{N}}+|[{_LATER}]+"))
}

# In tokenizers' engine `$` is also the position before a line feed, and `\x{410}` is our `\U00000410`.
_LINE_END = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(\$)(?![*+?{])", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,8})\}|.)", re.DOTALL)


def read_pre_tokenizer(field: Field, noted: Field) -> tuple[CompiledPattern, bool]:
    """Return the pattern, and whether each text gets a space in front; `noted` is the pattern as the user wrote it."""
    if field.value is None:  # characters are no bytes
        field.expect("ByteLevel")
    if field.member("type").value == REGEX_STAGE:
        expression = field.member("pattern")
        try:
            return compile_pattern(expression.read(str)), False
        except PatternError as reason:
            expression.refuse(f"is not a pattern: {reason}")
    stages = steps_of(field, "pretokenizers") or [field]
    kinds = [stage.member("type").value for stage in stages]
    at = kinds.index("ByteLevel") if "ByteLevel" in kinds else len(kinds) - 1
    splits, last, after = stages[:at], stages[at], stages[at + 1 :]
    last.member("type").expect("ByteLevel")
    in_front, own_regex = last.member("add_prefix_space"), last.member("use_regex")
    in_front.expect(*((False,) if splits else (False, True)))
    own_regex.expect(None, True, False)
    if own_regex.value is not False and kinds == ["Digits", "ByteLevel"]:
        return compile_pattern(_DIGITS_THEN_GPT2[_individual(splits[0])]), False
    every = [*splits, *after]
    texts = noted.value.replace(THEN_LETTERS, THEN).split(THEN) if isinstance(noted.value, str) else []
    notes = [Field(text, noted.file, noted.path) for text in texts] if len(texts) == len(every) else []
    found = list(map(_step, every, notes or [noted if len(every) == 1 else Field(None, noted.file)] * len(every)))
    steps, of_letters = found[: len(splits)], found[len(splits) :]
    if own_regex.value is not False:
        steps.append(compile_pattern("gpt2"))
    elif not steps:
        steps.append(compile_pattern("none"))
    for preset in PRESETS.values() if not after else ():
        if len(steps) == len(preset.published_steps) and [step.tables for step in steps] == _tables_of_steps(preset):
            return compile_pattern(preset.name), False
    try:
        return in_sequence(steps, of_letters), in_front.value is True
    except PatternError as reason:
        field.refuse(f"is not reproduced exactly: {reason}")


def _individual(digits: Field) -> bool:
    """Whether each digit is a piece."""
    individual = digits.member("individual_digits")
    individual.expect(True, False)
    return individual.read(bool)


def _step(split: Field, noted: Field) -> CompiledPattern:
    split.member("type").expect("Split", "Digits", "Punctuation")
    if split.member("type").value == "Digits":
        return compile_pattern(_DIGIT if _individual(split) else f"{_DIGIT}+")
    if split.member("type").value == "Punctuation":
        split.member("behavior").expect("Isolated", "Contiguous")
        one = str(json.loads(Path(__file__).with_name("punctuation.json").read_bytes())["expression"])
        return compile_pattern(one + "+" * (split.member("behavior").value == "Contiguous"))
    literal = split.member("pattern").member("String")
    expression = literal if literal.value is not None else split.member("pattern").member("Regex")
    try:
        if literal.value is not None:
            compiled = compile_pattern("".join(f"\\U{ord(character):08X}" for character in literal.read(str)))
        else:
            compiled = _recovered(expression.read(str), noted)
    except (PatternError, ExportRefusedError) as reason:
        expression.refuse(f"is not reproduced exactly: {reason}")
    # Each match, and each stretch between, must stay as a piece of its own; removing stretches that cannot be is alike.
    removes_nothing = split.flag("invert") and compiled.tables is not None and not leaves_text(compiled)
    behavior = split.member("behavior")
    behavior.expect("Isolated", *(("Removed",) if removes_nothing and behavior.value == "Removed" else ()))
    return compiled


def _recovered(expression: str, noted: Field) -> CompiledPattern:
    """Return the pattern that tokenizers reads in an expression: the noted one, a named one, or the expression."""
    if noted.value is not None:
        compiled = compile_pattern(noted.read(str))
        if for_tokenizers(compiled) == expression:
            return compiled
        raise PatternError(f"{shortened(expression)} is not what {shortened(noted.value)} is written as for tokenizers")
    nearest = sorted(PRESETS.values(), key=lambda preset: abs(len(preset.expression) - len(expression)))
    for preset in nearest:
        if expression in (preset.published_as, _as_written(preset.name)):
            return compile_pattern(preset.name)
    if any(expression == preset.expression and preset.read_alike_by for preset in superword_presets().values()):
        return compile_pattern(expression)
    expression = _LINE_END.sub(lambda found: r"(?![^\n])" if found[1] else found[0], expression)
    compiled = compile_pattern(
        _ESCAPE.sub(lambda found: f"\\U{int(found[1], 16):08X}" if found[1] else found[0], expression)
    )
    difference = compiled.refusal or first_difference(expression)
    if difference is None or (compiled.tables is not None and for_tokenizers(compiled) == expression):
        return compiled
    raise PatternError(f"{shortened(expression)} may mean something else in tokenizers, because of {difference}")


@cache
def _as_written(preset: str) -> str:
    return for_tokenizers(compile_pattern(preset))


def _tables_of_steps(preset: Preset) -> list[AutomatonTables | None]:
    return [compile_pattern(step).tables for step in preset.published_steps]


def public_pre_tokenizer(model: Model) -> dict[str, Any]:
    """Return what tokenizers reads; ExportRefusedError where it would cut differently."""
    pattern, in_front = model.pattern, model.preparation.space_in_front
    byte_level = {"type": "ByteLevel", "add_prefix_space": in_front, "trim_offsets": True, "use_regex": False}
    if pattern.name == "none":
        return byte_level
    if pattern.name == "gpt2":  # as GPT-2's own file
        return byte_level | {"use_regex": True}
    for individual, expression in _DIGITS_THEN_GPT2.items():
        if pattern.expression == expression and not in_front:  # as published
            digits = {"type": "Digits", "individual_digits": individual}
            return {"type": "Sequence", "pretokenizers": [digits, byte_level | {"use_regex": True}]}
    if in_front:  # a Split before ByteLevel would have the space put in front of each piece
        raise ExportRefusedError(
            "tokenizer.json cannot say that a space is put in front of texts that are cut with another pattern than "
            "GPT-2's: use the pattern gpt2"
        )
    steps = pattern.steps if isinstance(pattern, PatternSequence) else (pattern,)
    splits = [
        {"type": "Split", "pattern": {"Regex": for_tokenizers(step)}, "behavior": "Isolated", "invert": False}
        for step in steps
    ]
    whole = len(splits) - (pattern.of_letters if isinstance(pattern, PatternSequence) else 0)
    return {"type": "Sequence", "pretokenizers": [*splits[:whole], byte_level, *splits[whole:]]}
