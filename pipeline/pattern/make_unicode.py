"""Makes `_unicode.py`, the Unicode tables of the pattern compiler: `python -m pipeline.pattern.make_unicode`.

The tables must agree with the engines that run an exported tokenizer: Oniguruma inside `tokenizers` and
Rust's `regex` inside `tiktoken`. So the source is those engines themselves: every property is asked of both,
for every code point, and the script stops where they differ from each other. (Python's `unicodedata` and the
`regex` package follow other Unicode versions.) The version stamp is the newest `\\p{Age=..}` that tiktoken's
engine knows.

Needs the `test` extra; takes about three minutes. Tests compare the result with the installed engines.
"""

import base64
import struct
from collections.abc import Iterable
from pathlib import Path

import tiktoken
from tokenizers import Regex, pre_tokenizers

CATEGORIES = (
    *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No"),
    *("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So"),
    *("Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"),
)
PROPERTIES = ("White_Space",)  # asked of both engines
WORD_CATEGORIES = ("L", "M", "Nd", "Nl", "Pc")  # as in classes.py, which adds WORD_EXTRA
CASED = ("Lu", "Ll", "Lt", "Mn", "Nl", "So")  # where simple case folding relates characters
SURROGATES = range(0xD800, 0xE000)
ALL_CHARACTERS = "".join(chr(code) for code in range(0x110000) if code not in SURROGATES)


def matched_by_tiktoken(expression: str, text: str) -> set[str]:
    """The characters of `text` that tiktoken's engine matches with a one-character `expression`."""
    ranks = {bytes([value]): value for value in range(256)}
    encoding = tiktoken.Encoding("probe", pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    return set(bytes(encoding.encode_ordinary(text)).decode())


def matched_by_tokenizers(expression: str, text: str) -> set[str]:
    """The characters of `text` that the engine of `tokenizers` matches with a one-character `expression`."""
    split = pre_tokenizers.Split(Regex(expression), behavior="removed")
    matched = bytearray(b"\1") * len(text)
    for _, (start, stop) in split.pre_tokenize_str(text):
        matched[start:stop] = bytes(stop - start)
    return {character for character, flag in zip(text, matched, strict=True) if flag}


def agreed(expression: str, text: str = ALL_CHARACTERS) -> set[str]:
    """What both engines match; an error names the characters on which they differ."""
    first, second = matched_by_tiktoken(expression, text), matched_by_tokenizers(expression, text)
    if first != second:
        differing = " ".join(f"U+{ord(character):04X}" for character in sorted(first ^ second)[:20])
        raise SystemExit(f"tiktoken and tokenizers differ on {expression}: {differing}")
    return first


def runs(codes: Iterable[int]) -> list[tuple[int, int]]:
    """[1, 2, 3, 7] -> [(1, 3), (7, 7)]."""
    result: list[tuple[int, int]] = []
    for code in sorted(codes):
        if result and result[-1][1] == code - 1:
            result[-1] = (result[-1][0], code)
        else:
            result.append((code, code))
    return result


def category_runs() -> list[tuple[int, int]]:
    """(first code point, index into CATEGORIES) of every stretch of one general category."""
    category_of = [CATEGORIES.index("Cs")] * 0x110000
    for index, name in enumerate(CATEGORIES):
        if name != "Cs":
            for character in agreed(rf"\p{{{name}}}"):
                category_of[ord(character)] = index
    result: list[tuple[int, int]] = []
    for code, category in enumerate(category_of):
        if not result or result[-1][1] != category:
            result.append((code, category))
    return result


def word_extra_runs() -> list[tuple[int, int]]:
    """What `\\w` matches beside WORD_CATEGORIES, for tiktoken; Oniguruma leaves out the two joiners."""
    word = matched_by_tiktoken(r"\w", ALL_CHARACTERS)
    if word - matched_by_tokenizers(r"[\w]", ALL_CHARACTERS) != {"\u200c", "\u200d"}:
        raise SystemExit(r"tiktoken and tokenizers differ on \w in an unknown way")
    plain = agreed("[" + "".join(rf"\p{{{name}}}" for name in WORD_CATEGORIES) + "]")
    if not plain < word:
        raise SystemExit(r"\w is not what WORD_CATEGORIES promises")
    return runs(map(ord, word - plain))


def fold_orbits() -> list[tuple[int, ...]]:
    """The sets of two and more code points that match each other under simple case folding.

    Line feeds between the characters keep Oniguruma's folding of one character to several (U+FB05 to `st`)
    apart.
    """
    cased = "\n".join(sorted(set().union(*(agreed(rf"\p{{{name}}}") for name in CASED))))
    orbits = set()
    for character in cased.split("\n"):
        orbit = agreed(rf"(?i:[\x{{{ord(character):X}}}])", cased)
        if len(orbit) > 1:
            orbits.add(tuple(sorted(map(ord, orbit))))
    return sorted(orbits)


def unicode_version() -> str:
    """The newest version whose Age property tiktoken's engine knows, such as '16.0.0'."""
    newest = ""
    for major in range(13, 30):
        for minor in (0, 1):
            try:
                known = matched_by_tiktoken(rf"\p{{Age={major}.{minor}}}", ALL_CHARACTERS[:128])
            except ValueError:
                continue
            newest = f"{major}.{minor}.0" if known else newest
    return newest


def packed(values: Iterable[int]) -> str:
    """Little-endian 32-bit numbers in base 64, broken into lines of a Python literal."""
    numbers = list(values)
    text = base64.b64encode(struct.pack(f"<{len(numbers)}I", *numbers)).decode()
    return "".join(f'\n    b"{text[start : start + 108]}"' for start in range(0, len(text), 108))


def main() -> None:
    """Writes `_unicode.py` beside this file."""
    lines = [
        '"""GENERATED by make_unicode.py from the engines inside tokenizers and tiktoken. Do not edit.',
        "",
        "Each table: little-endian 32-bit numbers in base 64. CATEGORY_RUNS: first code point << 8 | index into",
        "CATEGORIES. Properties: first and last code point of each run. FOLD_ORBITS: the size of a set of code",
        'points that match each other under (?i), then its members.\n"""\n',
        f'UNICODE_VERSION = "{unicode_version()}"',
        f"CATEGORIES = {CATEGORIES!r}".replace("'", '"'),
        f"CATEGORY_RUNS = ({packed(start << 8 | category for start, category in category_runs())}\n)",
    ]
    tables = {name: runs(map(ord, agreed(rf"\p{{{name}}}"))) for name in PROPERTIES} | {"WORD_EXTRA": word_extra_runs()}
    for name, table in tables.items():
        lines.append(f"{name.upper()} = ({packed(bound for run in table for bound in run)}\n)")
    orbits = fold_orbits()
    lines.append(f"FOLD_ORBITS = ({packed(number for orbit in orbits for number in (len(orbit), *orbit))}\n)")
    Path(__file__).with_name("_unicode.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
