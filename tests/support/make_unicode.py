"""Generate `pipeline/bpe_pipeline/pattern/unicode.json`, the Unicode tables of the pattern compiler.

The tables must agree with the engines that run an exported tokenizer: Oniguruma in `tokenizers` and Rust's `regex` in
`tiktoken`. So these engines are the source: the script asks both for every property of every code point, and stops
where they differ. (Python's `unicodedata` and the `regex` package follow other Unicode versions.) The version stamp is
the newest `\\p{Age=..}` that tiktoken's engine knows. Takes about three minutes.

The tables: the first code point and the name of each run of one general category; the first and last code points of
the runs of White_Space, of the script Han, and of what `\\w` matches besides WORD_CATEGORIES; the sets of code points
that match each other under (?i).
"""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import tiktoken
from tokenizers import Regex, pre_tokenizers

TABLES = Path(__file__).parents[2] / "pipeline" / "bpe_pipeline" / "pattern" / "unicode.json"
CATEGORIES = (  # but Cs
    *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe"),
    *("Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"),
)
WORD_CATEGORIES = ("L", "M", "Nd", "Nl", "Pc")  # as in classes.py, which adds `word_extra`
CASED = ("Lu", "Ll", "Lt", "Mn", "Nl", "So")  # where simple case folding relates characters
ALL_CHARACTERS = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))


def matched_by_tiktoken(expression: str, text: str = ALL_CHARACTERS) -> set[str]:
    """Return the characters of `text` that tiktoken's engine matches with a one-character `expression`."""
    ranks = {bytes([value]): value for value in range(256)}
    encoding = tiktoken.Encoding("probe", pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    return set(bytes(encoding.encode_ordinary(text)).decode())


def matched_by_tokenizers(expression: str, text: str = ALL_CHARACTERS) -> set[str]:
    """Return the characters of `text` that the engine of `tokenizers` matches with a one-character `expression`."""
    split = pre_tokenizers.Split(Regex(expression), behavior="removed")
    parts = [text[start : start + 1000] for start in range(0, len(text), 1000)]  # long ones take it very long
    left = {character for part in parts for pre_token, _ in split.pre_tokenize_str(part) for character in pre_token}
    return set(text) - left


def agreed(expression: str, text: str = ALL_CHARACTERS) -> set[str]:
    """Return what both engines match; stop with the characters on which they differ."""
    first, second = matched_by_tiktoken(expression, text), matched_by_tokenizers(expression, text)
    if first != second:
        differing = " ".join(f"U+{ord(character):04X}" for character in sorted(first ^ second)[:20])
        raise SystemExit(f"tiktoken and tokenizers differ on {expression}: {differing}")
    return first


def category_of() -> list[str]:
    """Ask for the general category of every code point."""
    found = ["Cs"] * 0x110000
    for name in CATEGORIES:
        for character in agreed(rf"\p{{{name}}}"):
            found[ord(character)] = name
    return found


def runs(characters: Iterable[str]) -> list[tuple[int, int]]:
    """Return the runs of neighbours: "abc1" -> [(0x31, 0x31), (0x61, 0x63)]."""
    numbered = enumerate(sorted(map(ord, characters)))
    groups = (list(run) for _, run in itertools.groupby(numbered, lambda pair: pair[1] - pair[0]))
    return [(run[0][1], run[-1][1]) for run in groups]


def word_extra() -> set[str]:
    """Ask tiktoken what `\\w` matches besides WORD_CATEGORIES; Oniguruma leaves out the two joiners."""
    word = matched_by_tiktoken(r"\w")
    if word - matched_by_tokenizers(r"[\w]") != {"\u200c", "\u200d"}:
        raise SystemExit(r"tiktoken and tokenizers differ on \w in an unknown way")
    plain = agreed("[" + "".join(rf"\p{{{name}}}" for name in WORD_CATEGORIES) + "]")
    if not plain < word:
        raise SystemExit(r"\w is not what WORD_CATEGORIES promises")
    return word - plain


def fold_orbits() -> list[tuple[int, ...]]:
    """Ask which code points match each other under simple case folding."""
    # Line feeds keep Oniguruma from folding one character to several (U+FB05 to `st`).
    cased = "\n".join(sorted(set().union(*(agreed(rf"\p{{{name}}}") for name in CASED))))
    found = {tuple(sorted(map(ord, agreed(rf"(?i:[\x{{{ord(one):X}}}])", cased)))) for one in cased.split("\n")}
    return sorted(orbit for orbit in found if len(orbit) > 1)


def unicode_version() -> str:
    """Return the newest version whose Age property tiktoken's engine knows, such as '16.0.0'."""
    newest = ""
    for major, minor in itertools.product(range(13, 30), (0, 1)):
        try:
            known = matched_by_tiktoken(rf"\p{{Age={major}.{minor}}}", ALL_CHARACTERS[:128])
        except ValueError:
            continue
        newest = f"{major}.{minor}.0" if known else newest
    return newest


def main() -> None:
    """Write the tables."""
    categories = category_of()
    starts = [code for code, name in enumerate(categories) if not code or name != categories[code - 1]]
    tables = {
        "version": unicode_version(),
        "category_starts": starts,
        "category_names": [categories[code] for code in starts],
        "white_space": runs(agreed(r"\p{White_Space}")),
        "word_extra": runs(word_extra()),
        "han": runs(agreed(r"\p{Han}")),
        "fold_orbits": fold_orbits(),
    }
    TABLES.write_text(json.dumps(tables, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
