"""The patterns that have names: one `Preset` each, with its spellings in every runtime.

A new preset is one more entry of `PRESETS`; help, completion, aliases, exports and tests follow it. A suffix says how a
preset cuts numbers instead, as in `o200k+digits1`. `resolve` reads the names that people type. `superword_presets` are
those of the second stage, which `--superword-pattern` names.
"""

import difflib
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from bpe_pipeline.base.errors import PatternError


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A pattern with a name, and how the engines and files of other runtimes spell it."""

    name: str
    expression: str
    """For `regex`, with `$` as the very end of the document."""
    help: str = ""
    """What it does, as the page of patterns says it."""
    numbers: str = ""
    """The branch that splits numbers, for which a suffix has another."""
    aliases: tuple[str, ...] = ()
    """Encodings and models that split with it; case, `-` and `_` do not matter."""
    read_alike_by: tuple[str, ...] = ()
    """Engines that read the expression as `regex` does and get it unchanged; for others it is translated."""
    run_by_tokenizers_1: bool = False
    """Whether version 1.0 of tokenizers runs what is written for it: it has no engine for arbitrary expressions."""
    published_as: str = ""
    """Another expression for the same in published tokenizer.json files."""
    published_steps: tuple[str, ...] = ()
    """The expressions of several steps that do the same in published tokenizer.json files."""
    llama_cpp: str = ""
    """The pre-tokenizer of llama.cpp that splits alike."""
    llama_cpp_differs: str = ""
    """Why the one that llama.cpp has for the same models does not split alike."""
    has_long_pre_tokens: bool = False
    """Whether long pre-tokens are what it is for."""


_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UP_TO_THREE = r"\p{N}{1,3}"
_FROM_RIGHT = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"


def _without_han(chars: str) -> str:
    return rf"{chars[:-1]}&&[^\p{{Han}}]]"


def _deepseek_v3() -> str:
    """Return one expression that cuts as the three of DeepSeek V3 do, each of which cuts the pre-tokens of the one
    before.

    They are `\\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+` and the last one, which therefore sees such characters (here: cjk) apart
    from others, and takes the end of a stretch for the end of the text. What it does not match is a pre-token as well.
    """
    cjk = r"\u3040-\u30FF\u4E00-\u9FA5"
    word, sign = r"[\p{L}\p{M}]", r"[\p{P}\p{S}]"
    punctuation = r"[!-/:-@\[-`{-~]"
    inside = (
        rf"[[{cjk}]--[\p{{L}}\p{{P}}\p{{S}}]]?[{word}&&[{cjk}]]+|[{sign}&&[{cjk}]]+"
        rf"|[[{cjk}]--[\p{{L}}\p{{M}}\p{{P}}\p{{S}}]]+(?![{word}&&[{cjk}]])"
    )
    outside = (
        rf"{punctuation}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}{cjk}]?[{word}--[{cjk}]]+"
        rf"| ?[{sign}--[{cjk}]]+[\r\n]*|\s*[\r\n]+|\s+(?=[\s\p{{N}}{cjk}]|$)|\s+"
        rf"|[^\s\p{{L}}\p{{M}}\p{{N}}\p{{P}}\p{{S}}{cjk}]+(?![{word}--[{cjk}]])"
    )
    return rf"(?V1)\p{{N}}{{1,3}}|{inside}|{outside}"


_PRESETS = (
    Preset(
        name="gpt2",
        help="keeps numbers whole, and recognises contractions in lower case only",
        expression=r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        numbers=r" ?\p{N}+",
        aliases=("r50k", "r50k_base", "p50k", "p50k_base", "p50k_edit"),
        read_alike_by=("tokenizers", "tiktoken"),
        run_by_tokenizers_1=True,
        published_as=r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        llama_cpp="gpt-2",
    ),
    Preset(
        name="cl100k",
        help="splits numbers after three digits; tiktoken's own expression, with possessive quantifiers",
        expression=(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
            r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        ),
        numbers=r"\p{N}{1,3}+",
        aliases=("cl100k_base", "gpt-4", "gpt-4-turbo", "gpt-3.5", "gpt-3.5-turbo"),
        read_alike_by=("tiktoken",),
    ),
    Preset(
        name="llama3",
        help="splits numbers after three digits; as in the `tokenizer.json` of Llama 3",
        expression=rf"{_CONTRACTIONS}|{_WORD}|{_UP_TO_THREE}|{_PUNCTUATION}[\r\n]*|{_SPACES}",
        numbers=_UP_TO_THREE,
        aliases=("llama-3.1", "llama-3.2", "llama-3.3", "olmo-2"),
        read_alike_by=("tokenizers", "tiktoken"),
        run_by_tokenizers_1=True,
        llama_cpp="llama-bpe",
    ),
    Preset(
        name="o200k",
        help="splits where lower case turns to upper case, and keeps contractions with their words",
        expression=(
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
            rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
            rf"|{_UP_TO_THREE}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
        ),
        numbers=_UP_TO_THREE,
        aliases=(
            *("o200k_base", "o200k_harmony", "gpt-4o", "gpt-4o-mini", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5"),
            *("gpt-oss", "o1", "o3", "llama-4"),
        ),
        read_alike_by=("tokenizers", "tiktoken"),
        run_by_tokenizers_1=True,
        llama_cpp_differs=(
            "its gpt-4o splits combining marks off and does not know capitals beyond A-Z (other ids for 716 of 2,000 "
            "texts in 46 languages, for none in English or C), and it crashes on a word of 30,000 letters. If that is "
            "acceptable, convert_hf_to_gguf.py writes such a file: see the page 'GGUF for llama.cpp'"
        ),
    ),
    Preset(
        name="qwen2",
        help="is `llama3` with a pre-token for each digit; as in the `tokenizer.json` of Qwen 2 to 3",
        expression=rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_PUNCTUATION}[\r\n]*|{_SPACES}",
        numbers=r"\p{N}",
        aliases=("qwen1.5", "qwen2.5", "qwen3"),
        read_alike_by=("tokenizers", "tiktoken"),
        run_by_tokenizers_1=True,
        llama_cpp="qwen2",
    ),
    Preset(
        name="qwen3.5",
        help="is `qwen2` with combining marks as parts of words, as in Thai, Hindi and Arabic (Qwen/Qwen3.5-*)",
        expression=(
            rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
            rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
        ),
        numbers=r"\p{N}",
        read_alike_by=("tokenizers", "tiktoken"),
    ),
    Preset(
        name="superbpe",
        help="is `o200k` without contractions: the first stage of [superwords](../how-to/superwords.md)",
        expression=(
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
            rf"|{_UP_TO_THREE}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
        ),
        numbers=_UP_TO_THREE,
    ),
    Preset(
        name="digits-from-right",
        help=("is `llama3` with numbers split into threes from their end: `12345` is `12` and `345`"),
        expression=(rf"{_CONTRACTIONS}|{_WORD}|{_FROM_RIGHT}|{_PUNCTUATION}[\r\n]*|{_SPACES}"),
        numbers=_FROM_RIGHT,
        read_alike_by=("tokenizers", "tiktoken"),
    ),
    Preset(
        name="deepseek-v3",
        help=(
            "has the three passes of DeepSeek V3's and R1's `tokenizer.json` in one expression: it splits numbers "
            "after three digits, and Chinese and kana from other letters, and keeps combining marks with letters, and "
            "a symbol with the ASCII letters that follow"
        ),
        expression=_deepseek_v3(),
        numbers=_UP_TO_THREE,
        aliases=("deepseek-v3.1", "deepseek-v4", "deepseek-r1"),
        published_steps=(
            r"\p{N}{1,3}",
            r"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        llama_cpp_differs="its deepseek-v3 was not compared with ours over all characters",
    ),
    Preset(
        name="kimi-k2",
        help=(
            "is `o200k` with Chinese characters (`\\p{Han}`) apart: the expression of Kimi K2's "
            "`tokenization_kimi.py`, after `(?V1)`, with which `regex` knows operations on classes"
        ),
        expression=(
            rf"(?V1)[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_without_han(_UPPER)}*{_without_han(_LOWER)}+{_CONTRACTIONS}?"
            rf"|[^\r\n\p{{L}}\p{{N}}]?{_without_han(_UPPER)}+{_without_han(_LOWER)}*{_CONTRACTIONS}?"
            rf"|{_UP_TO_THREE}|{_PUNCTUATION}[\r\n]*|{_SPACES}"
        ),
        numbers=_UP_TO_THREE,
        read_alike_by=("tokenizers", "tiktoken"),
        llama_cpp_differs="its kimi-k2 knows Han characters by ranges of its own, without such as U+3005",
    ),
    Preset(
        name="tekken",
        help="is `superbpe` with a pre-token for each digit: Mistral's since Nemo, and Nemotron 3's",
        expression=(
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
            rf"|\p{{N}}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
        ),
        numbers=r"\p{N}",
        aliases=("mistral-nemo", "mistral-small-3", "nemotron-3"),
        read_alike_by=("tokenizers", "tiktoken"),
        run_by_tokenizers_1=True,
        llama_cpp_differs="its tekken does not know capitals beyond A-Z, and splits combining marks off",
    ),
    Preset(
        name="nanochat",
        help="is nanochat's variant of GPT-4's, with numbers split after two digits",
        expression=(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ),
        numbers=r"\p{N}{1,2}",
        read_alike_by=("tokenizers", "tiktoken"),
    ),
    Preset(
        name="capped",
        help=(
            "is our own, for many languages: words keep their combining marks, and words and runs of signs end after "
            "16 characters, so that languages without spaces have no pre-tokens of a whole sentence"
        ),
        expression=(
            rf"[^\r\n\p{{L}}\p{{M}}\p{{N}}]?[\p{{L}}\p{{M}}]{{1,16}}|{_UP_TO_THREE}"
            rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]{{1,16}}[\r\n/]*|{_SPACES}"
        ),
        numbers=_UP_TO_THREE,
        read_alike_by=("tokenizers", "tiktoken"),
    ),
    Preset(
        name="bloom",
        help="splits at white space and at the signs of many scripts, nowhere else: BLOOM's and BLOOMZ's",
        expression=r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+",
        aliases=("bloomz",),
        published_as=" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",  # a set inside a class
        llama_cpp_differs="its bloom was not compared with ours",
    ),
    Preset(
        name="none",
        help="leaves each document whole",
        expression=r"(?s:.+)",
        run_by_tokenizers_1=True,
        has_long_pre_tokens=True,
    ),
)
PRESETS = {preset.name: preset for preset in _PRESETS}


@cache
def superword_presets() -> dict[str, Preset]:
    """Return the presets of the second stage, by name: each match, and each stretch between two, is a pre-token."""
    number, digit = _class_of("N"), _class_of("Nd")
    listed = (
        Preset(
            name="superbpe",
            expression=r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)",
            has_long_pre_tokens=True,
        ),
        Preset(
            name="superbpe-digits",
            # As the paper cuts in two steps: `\\p{N}+`, then before every three digits, counted from the end.
            expression=rf"{number}+?(?=(?>(?:{digit}{{3}})+)(?!{digit})|(?!{number}))",
            read_alike_by=("tokenizers",),  # though it has no automaton
            llama_cpp="superbpe",
            has_long_pre_tokens=True,
        ),
    )
    return {preset.name: preset for preset in listed}


def _class_of(category: str) -> str:
    """Spell out the code points of a general category, of which `regex` and tokenizers know different ones."""
    from bpe_pipeline.pattern.classes import CATEGORY_NAMES, CATEGORY_STARTS, CODE_POINTS  # reads the tables of Unicode

    runs = zip(pairwise([*CATEGORY_STARTS, CODE_POINTS]), CATEGORY_NAMES, strict=True)
    ranges = [(chr(start), chr(stop - 1)) for (start, stop), name in runs if name.startswith(category)]
    return f"[{''.join(first if first == last else f'{first}-{last}' for first, last in ranges)}]"


_DIGITS = {f"digits{count}": rf"\p{{N}}{{1,{count}}}" for count in range(2, 10)} | {
    "digits1": r"\p{N}",
    "digits-from-right": _FROM_RIGHT,
}


@cache
def named(name: str) -> Preset | None:
    """Return the preset with a name, which may end with how it cuts numbers; None if there is none."""
    of_name, plus, suffix = name.partition("+")
    preset = PRESETS.get(of_name)
    if preset is None or not plus:
        return preset
    if suffix not in _DIGITS or not preset.numbers:
        return None
    expression = _with_numbers(preset, suffix)
    same = next((other for other in _PRESETS if other.expression == expression), None)
    first = next(other for other in _PRESETS if other.numbers and _with_numbers(other, suffix) == expression)
    return same or Preset(
        name=f"{first.name}+{suffix}",  # of several that cut alike the first one
        expression=expression,
        read_alike_by=preset.read_alike_by,
    )


def _with_numbers(preset: Preset, suffix: str) -> str:
    """Return the expression of a preset that cuts numbers as a suffix says."""
    numbers = " ?" * preset.numbers.startswith(" ?") + _DIGITS[suffix]
    return preset.expression.replace(f"{preset.numbers}|", f"{numbers}|")


@cache
def _names() -> dict[str, str]:
    """Return the names of presets by their expressions, also those with a suffix."""
    suffixed = (named(f"{name}+{suffix}") for name in PRESETS for suffix in _DIGITS)
    return {preset.expression: preset.name for preset in filter(None, (*suffixed, *_PRESETS))}


def name_of(expression: str) -> str | None:
    """Return the name of the preset with an expression; None if there is none.

    >>> name_of(PRESETS["gpt2"].expression), name_of(named("o200k+digits1").expression), name_of("a+")
    ('gpt2', 'o200k+digits1', None)
    """
    return _names().get(expression)


def preset_of(name: str | None, expression: str) -> Preset | None:
    """Return the preset of a compiled pattern: by its name, or one of the second stage by its expression."""
    if name is not None:
        return named(name)
    return next((preset for preset in superword_presets().values() if preset.expression == expression), None)


NAME = re.compile(r"[A-Za-z0-9._-]+")


def _plain(name: str) -> str:
    return re.sub("[_-]", "", name.lower())


ALIASES = {_plain(alias): preset.name for preset in _PRESETS for alias in (preset.name, *preset.aliases)}


# By the names of patterns: of the second stage, where `superbpe` is the first.
_SUPERWORDS = {"superwords": "superbpe", "superbpe-digits": "superbpe-digits"}
_CODE_POINT = re.compile(r"(\\\\)|\\x\{([0-9A-Fa-f]{1,8})\}")


def resolve(pattern: str) -> str:
    """Return the preset that a name or alias means, or a regular expression; `PatternError` otherwise.

    `\\x{1F600}` in an expression becomes `\\U0001F600`, which `regex` knows.
    """
    text, plus, suffix = pattern.partition("+")
    if plus and NAME.fullmatch(text) and (suffix.startswith("digits") or _plain(text) in ALIASES):
        if preset := named(f"{resolve(text)}+{suffix}"):
            return preset.name
        raise PatternError(
            f"{pattern!r} is not the name of a pattern: the suffixes are {', '.join(sorted(_DIGITS))}; none has none; "
            f"if it is meant as a regular expression, write (?:{pattern})"
        )
    if not NAME.fullmatch(pattern):
        return _CODE_POINT.sub(lambda match: match[1] or f"\\U{int(match[2], 16):08X}", pattern)
    plain = _plain(pattern)
    if plain in ALIASES:
        return ALIASES[plain]
    if pattern in _SUPERWORDS:
        return superword_presets()[_SUPERWORDS[pattern]].expression
    near = difflib.get_close_matches(plain, PRESETS, 1) or difflib.get_close_matches(plain, ALIASES, 1)
    hint = f" (did you mean {ALIASES.get(near[0], near[0])}?)" if near else ""
    raise PatternError(
        f"{pattern!r} is not the name of a pattern{hint}; known are {', '.join(PRESETS)}, and for them names such as "
        f"gpt-4o and qwen2.5; if it is meant as a regular expression, write (?:{pattern})"
    )
