"""The pre-tokenizer of a tokenizer.json, read: the patterns that it cuts with, in order.

Accepted are Split (each match and each stretch between is a pre-token), Digits, Punctuation, and the ByteLevel of every
byte-level vocabulary, with its own pattern or without. In a Sequence each cuts the pre-tokens of the one before; those
after ByteLevel, as in Falcon's, cut bytes as the letters that they have become. punctuation.json has the characters of
Punctuation, whose tables are older than ours.
"""

import json
import re
from functools import cache
from pathlib import Path

from bpe_pipeline.base.errors import ExportRefusedError, PatternError
from bpe_pipeline.pattern.compiled import MOST_STEPS, THEN, THEN_LETTERS, AutomatonTables, CompiledPattern, in_sequence
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.parse import first_difference
from bpe_pipeline.pattern.presets import PRESETS, Preset, name_of, superword_presets
from bpe_pipeline.pattern.translate import for_tokenizers, leaves_text
from bpe_pipeline.tokenizer.formats.fields import Field, shortened, steps_of
from bpe_pipeline.tokenizer.formats.tokenizer_json import DIGIT, DIGITS_THEN_GPT2, REGEX_STAGE

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
        return compile_pattern(DIGITS_THEN_GPT2[_individual(splits[0])]), False
    all_stages = [*splits, *after]
    if len(all_stages) > MOST_STEPS:
        field.refuse(f"has {len(all_stages):,} steps, and at most {MOST_STEPS} are supported")
    texts = noted.value.replace(THEN_LETTERS, THEN).split(THEN) if isinstance(noted.value, str) else []
    notes = [Field(text, noted.file, noted.path) for text in texts] if len(texts) == len(all_stages) else []
    patterns = list(
        map(_step, all_stages, notes or [noted if len(all_stages) == 1 else Field(None, noted.file)] * len(all_stages))
    )
    steps, of_letters = patterns[: len(splits)], patterns[len(splits) :]
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
    """Whether each digit is a pre-token."""
    individual = digits.member("individual_digits")
    individual.expect(True, False)
    return individual.read(bool)


def _step(split: Field, noted: Field) -> CompiledPattern:
    split.member("type").expect("Split", "Digits", "Punctuation")
    if split.member("type").value == "Digits":
        return compile_pattern(DIGIT if _individual(split) else f"{DIGIT}+")
    if split.member("type").value == "Punctuation":
        split.member("behavior").expect("Isolated", "Contiguous")
        character = str(json.loads(Path(__file__).with_name("punctuation.json").read_bytes())["expression"])
        return compile_pattern(character + "+" * (split.member("behavior").value == "Contiguous"))
    literal = split.member("pattern").member("String")
    expression = literal if literal.value is not None else split.member("pattern").member("Regex")
    try:
        if literal.value is not None:
            compiled = compile_pattern("".join(f"\\U{ord(character):08X}" for character in literal.read(str)))
        else:
            compiled = _recovered(expression.read(str), noted)
    except (PatternError, ExportRefusedError) as reason:
        expression.refuse(f"is not reproduced exactly: {reason}")
    # Each match, and each stretch between, must stay as a pre-token of its own; removing stretches that cannot be is
    # alike.
    removes_nothing = split.flag("invert") and compiled.tables is not None and not leaves_text(compiled)
    behavior = split.member("behavior")
    behavior.expect("Isolated", *(("Removed",) if removes_nothing and behavior.value == "Removed" else ()))
    return compiled


def _recovered(expression: str, noted: Field) -> CompiledPattern:
    """Return the pattern that tokenizers reads in an expression: the noted one, a named one, or the expression."""
    if noted.value is not None:
        text = noted.read(str)
        compiled = compile_pattern(name_of(text) or text)
        if for_tokenizers(compiled) == expression:
            return compiled
        raise PatternError(f"{shortened(expression)} is not what {shortened(noted.value)} is written as for tokenizers")
    nearest = sorted(PRESETS.values(), key=lambda preset: abs(len(preset.expression) - len(expression)))
    for preset in nearest:
        if expression in (preset.published_as, _as_written(preset.name)):
            return compile_pattern(preset.name)
    if (name := name_of(expression)) is not None and _as_written(name) == expression:  # with a suffix
        return compile_pattern(name)
    if any(expression == preset.expression and preset.read_alike_by for preset in superword_presets().values()):
        return compile_pattern(expression)
    expression = _LINE_END.sub(lambda match: r"(?![^\n])" if match[1] else match[0], expression)
    compiled = compile_pattern(
        _ESCAPE.sub(lambda match: f"\\U{int(match[1], 16):08X}" if match[1] else match[0], expression)
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
