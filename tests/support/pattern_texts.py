"""Texts and patterns made to find differences between cutters: small alphabets of characters that patterns treat
differently, and patterns of the supported subset with quantifiers of every kind."""

import contextlib
import functools
import random
from collections.abc import Iterator

from bpe_pipeline.base.errors import PatternError
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.compiler import compile_pattern

APOSTROPHES = "''sStTrReEvVlLmMdDſK ab"
SPACES = "  \t\n\r\u0085\u00a0\u2028\u3000\x0b\x1c\x1f\u200b\u180e\ufeffax1."
DIGITS = "019４５٣१Ⅳ½²𝟙 a-"
MARKS = "e\u0301\u0345नमस्तेZǅʰªßẞẞ日本語。、的ﬆ"
KANA = "カーか・゠゛\u3099\u3040\u3098語々〇龥龦㐀、 .a1\u200b!\n"
ASTRAL = "😀𝔘\U0001e900\U00020000👩\u200d👩\U0010ffff\ue000a 1'"
PLAIN = "abcXYZ  ..,!/-_(){}=012\n\n\t\r'"
MIXED = APOSTROPHES + SPACES + DIGITS + MARKS + ASTRAL + PLAIN
ALPHABETS = (APOSTROPHES, SPACES, DIGITS, MARKS, KANA, ASTRAL, PLAIN, MIXED)


@functools.cache
def texts(count: int, longest: int = 20, seed: int = 1) -> list[str]:
    """The same `count` texts each time, over one alphabet each, of 1 to `longest` characters."""
    rng = random.Random(seed)
    return ["".join(rng.choices(rng.choice(ALPHABETS), k=rng.randint(1, longest))) for _ in range(count)]


_ATOMS = [
    *("a", "a", "b", "b", "A", "s", "K", "'", " ", ".", r"\n", r"\r", r"\s", r"\S", r"\d", r"\w", r"\W", "ſ", r"\x61"),
    *(r"\p{L}", r"\p{N}", r"\P{Lu}", r"\p{White_Space}", "[ab]", "[^a]", "[a-c]", r"[^\s\p{L}]", r"[\r\n]", r"[^\S\n]"),
    *(r"[b\d]", r"[^\W\d]"),
]
_LOOKS = [r"(?!\S)", r"(?=\s)", "(?=a)", "(?![ab])", r"(?=\s|$)", "$", r"\Z", r"(?!\S|$)", "(?=.)"]
_AHEADS = [
    *("(?=ab)", "(?!a+b)", r"(?=(?:[ab]{2})+(?![ab]))", r"(?=a*(?:b|$))", r"(?!.\s)", r"(?=\w+?\W.)"),
    "(?!(?:(?>aa)+b)|A)",
]
_GROUPS = ["(?:{})", "(?:{})", "({})", "(?i:{})", "(?s:{})", "(?>{})", "(?P<name>{})"]
_COUNTS = ["*", "+", "+", "?", "{2}", "{1,3}", "{2,}", "{,2}"]
PATTERN_ALPHABET = "aaabbcAAsSſkK1 '  \n\n\r\t.é３"


def pattern(rng: random.Random, depth: int = 2) -> str:
    """A pattern of the subset, more or less: some can match the empty string, some are refused."""
    return "|".join("".join(_part(rng, depth) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3)))


def accepted(rng: random.Random) -> Iterator[tuple[str, CompiledPattern]]:
    """Patterns that run in native code, without end."""
    while True:
        expression = pattern(rng)
        with contextlib.suppress(PatternError):
            if (compiled := compile_pattern(expression)).automaton is not None:
                yield expression, compiled


def _part(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if kind < 0.08:
        return rng.choice(_LOOKS if kind < 0.05 else _AHEADS)
    plain = kind < 0.7 or not depth
    part = rng.choice(_ATOMS) if plain else rng.choice(_GROUPS).replace("{}", pattern(rng, depth - 1))
    if rng.random() < 0.4:
        part += rng.choice(_COUNTS) + rng.choice(["", "", "", "?", "+"])
    return part


def assert_cut_alike(automaton, data: bytes, stop: int, batches: tuple[int, ...]) -> None:
    """Cut in batches of any size, and a part that ends at `stop` before the rest: the pre-tokens are the same."""
    whole = automaton.cut(data)
    assert whole == sorted(set(whole))
    assert whole[-1:] == [len(data)] * bool(data)
    for batch in batches:
        assert automaton.cut(data, batch=batch) == whole
        ends, rest = automaton.cut_part(data[:stop], batch=batch)
        assert ends == whole[: len(ends)]
        assert rest == (ends[-1] if ends else 0)
        assert [rest + end for end in automaton.cut(data[rest:])] == whole[len(ends) :]


def assert_proved_cuts_change_nothing(automaton, data: bytes) -> int:
    """Cut wherever a cut is provable: the pre-tokens are the same; return how many there are."""
    whole, at, found = automaton.cut(data), 0, 0
    while (at := automaton.find_provable_cut(data, at + 1, len(data))) is not None:
        found += 1
        assert automaton.cut(data[:at]) + [at + end for end in automaton.cut(data[at:])] == whole
    return found
