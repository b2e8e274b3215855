"""The patterns that have names, as `regex` source with `$` for the very end of the document.

`gpt2`, `llama3`, `qwen2` and `qwen3.5` are as the tokenizer.json of their models has them (qwen3.5: Qwen/Qwen3.5-*);
`cl100k` and `o200k` are tiktoken's, possessive quantifiers included; `superbpe` is that of SuperBPE's first stage
(o200k without contractions); `digits-from-right` is `llama3` with numbers cut before every three digits, counted from
their end; `deepseek-v3` is one expression for the three steps of DeepSeek V3's tokenizer.json; `kimi-k2` is that of
Kimi K2's tokenization_kimi.py, whose operations on classes `regex` knows after `(?V1)`; `none` leaves each document
whole. `resolve` reads the names that people type.
"""

import difflib
import re
from itertools import pairwise

from pipeline.base.errors import PatternError
from pipeline.pattern.classes import CATEGORY_NAMES, CATEGORY_STARTS, CODE_POINTS

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _without_han(chars: str) -> str:
    return rf"{chars[:-1]}&&[^\p{{Han}}]]"


def _deepseek_v3() -> str:
    """Return one expression that cuts as the three of DeepSeek V3 do, each of which cuts the pieces of the one before.

    They are `\\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+` and the last one, which therefore sees such characters (here: cjk) apart
    from others, and takes the end of a stretch for the end of the text. What it does not match is a piece as well.
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


PRESETS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "llama3": rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_PUNCTUATION}[\r\n]*|{_SPACES}",
    "o200k": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
    ),
    "qwen2": rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_PUNCTUATION}[\r\n]*|{_SPACES}",
    "qwen3.5": (
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
    ),
    "superbpe": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
        rf"|\p{{N}}{{1,3}}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
    ),
    "digits-from-right": (
        rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}(?=(?:\p{{N}}{{3}})*(?!\p{{N}}))|{_PUNCTUATION}[\r\n]*|{_SPACES}"
    ),
    "deepseek-v3": _deepseek_v3(),
    "kimi-k2": (
        rf"(?V1)[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_without_han(_UPPER)}*{_without_han(_LOWER)}+{_CONTRACTIONS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_without_han(_UPPER)}+{_without_han(_LOWER)}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}|{_PUNCTUATION}[\r\n]*|{_SPACES}"
    ),
    "none": r"(?s:.+)",
}


def _class_of(category: str) -> str:
    """Spell out the code points of a general category, of which `regex` and tokenizers know different ones."""
    runs = zip(pairwise([*CATEGORY_STARTS, CODE_POINTS]), CATEGORY_NAMES, strict=True)
    kept = [(chr(start), chr(stop - 1)) for (start, stop), name in runs if name.startswith(category)]
    return f"[{''.join(first if first == last else f'{first}-{last}' for first, last in kept)}]"


_NUMBER, _DIGIT = _class_of("N"), _class_of("Nd")

# Of the second stage: each match, and each stretch between two, is a piece.
SUPERWORD_PATTERNS = {
    "superbpe": r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)",
    # As the paper cuts in two steps: `\p{N}+`, then before every three digits, counted from the end.
    "superbpe-digits": rf"{_NUMBER}+?(?=(?>(?:{_DIGIT}{{3}})+)(?!{_DIGIT})|(?!{_NUMBER}))",
}

# The encodings and models that cut with a preset, in lower case without `-` and `_`.
_ALSO_NAMED = {
    "gpt2": "r50k r50kbase p50k p50kbase p50kedit",
    "cl100k": "cl100kbase gpt4 gpt4turbo gpt3.5 gpt3.5turbo",
    "llama3": "llama3.1 llama3.2 llama3.3",
    "o200k": "o200kbase o200kharmony gpt4o gpt4omini chatgpt4o gpt4.1 gpt4.5 gpt5 gptoss o1 o3",
    "qwen2": "qwen1.5 qwen2.5 qwen3",
    "deepseek-v3": "deepseekv3 deepseekv3.1 deepseekr1",
    "digits-from-right": "digitsfromright",
    "kimi-k2": "kimik2",
}
ALIASES = {alias: name for name, aliases in _ALSO_NAMED.items() for alias in aliases.split()}
NAME = re.compile(r"[A-Za-z0-9._-]+")


def resolve(pattern: str) -> str:
    """Return the preset that a name or alias means, or a regular expression unchanged; `PatternError` otherwise."""
    if not NAME.fullmatch(pattern):
        return pattern
    plain = re.sub("[_-]", "", pattern.lower())
    name = ALIASES.get(plain, plain)
    if name in PRESETS:
        return name
    near = difflib.get_close_matches(plain, [*PRESETS, *ALIASES], 1)
    hint = f" (did you mean {ALIASES.get(near[0], near[0])}?)" if near else ""
    raise PatternError(
        f"{pattern!r} is not the name of a pattern{hint}; known are {', '.join(PRESETS)}, and for them names such as "
        f"gpt-4o and qwen2.5; if it is meant as a regular expression, write (?:{pattern})"
    )
