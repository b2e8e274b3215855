"""The compiler against the `regex` package: named patterns, patterns of the subset, refusals and their positions."""

import itertools
import random

import oracle_pattern
import pattern_texts
import pytest
import regex
from amount import FULL
from pattern_texts import texts

from bpe_pipeline.base.errors import PatternError
from bpe_pipeline.pattern.by_regex import cut_with_regex, differing_characters, with_document_end
from bpe_pipeline.pattern.classes import Refusal, category_of
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.parse import parse
from bpe_pipeline.pattern.presets import PRESETS


@pytest.mark.parametrize(
    ("text", "gpt2", "llama3"),
    [
        ("DON'T", ["DON", "'", "T"], ["DON", "'T"]),
        ("'LLama", ["'", "LLama"], ["'LL", "ama"]),
        ("I'ſ", ["I", "'", "ſ"], ["I", "'ſ"]),
        ("123４５６", ["123４５６"], ["123", "４５６"]),
        ("", [], []),
        (" 1 2", [" 1", " 2"], [" ", "1", " ", "2"]),
        ("x\n  ", ["x", "\n  "], ["x", "\n", "  "]),
        ("a\r\n\r\nb", ["a", "\r\n\r", "\n", "b"], ["a", "\r\n\r\n", "b"]),
        ("नमस्ते", ["नमस", "\u094d", "त", "\u0947"], ["नमस", "\u094dत", "\u0947"]),
    ],
)
def test_known_texts_are_cut_as_specified(text, gpt2, llama3):
    assert compile_pattern("gpt2").cut(text) == gpt2
    assert compile_pattern("llama3").cut(text) == llama3
    assert compile_pattern("qwen2").cut(text) == (list(text) if text[:3] == "123" else llama3)
    assert compile_pattern("none").cut(text) == ([text] if text else [])


@pytest.mark.parametrize("many", [8_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PRESETS)
def test_named_patterns_cut_as_regex_does(name, many):
    cut = compile_pattern(name).automaton.cut
    slow = [entry for entry in memoryview(compile_pattern(name).tables.folded).cast("I") if entry & 32]
    assert slow == []  # the time is linear in the text, whatever the text
    matches = regex.compile(with_document_end(PRESETS[name].expression)).finditer
    sample = texts(many)
    assert not differing_characters() & set("".join(sample))
    for text in sample:
        ends = {end for match in matches(text) for end in match.span()} | {len(text)}  # of stretches between, too
        assert cut(text.encode()) == [len(text[:end].encode()) for end in sorted(ends - {0})], text


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_patterns_of_the_subset_cut_as_regex_does(seed):
    """Very rarely `regex` itself is wrong on such patterns: then a matcher seen to be right decides."""
    rng = random.Random(seed)
    doubted = set()
    for expression, compiled in itertools.islice(pattern_texts.accepted(rng), 150 if seed else 50):
        for _ in range(12):
            text = "".join(rng.choices(pattern_texts.PATTERN_ALPHABET, k=rng.randint(1, 24)))
            ours = compiled.cut(text)
            if ours != list(cut_with_regex(expression, text)):
                assert ours == oracle_pattern.pre_tokens(parse(expression), text), (expression, text)
                doubted.add(expression)
    assert len(doubted) <= 2


def random_class(rng: random.Random, depth: int = 2) -> str:
    parts = [rf"\p{{{name}}}" for name in ("L", "Han", "M", "P", "Lo")] + ["a-k", r"\s", "々カ", r"\d", "^", "1", r"\-"]
    if depth:
        parts += [random_class(rng, depth - 1) for _ in range(4)]
    operands = ["".join(rng.sample(parts, rng.randint(1, 3))).lstrip("^") or "x" for _ in range(rng.randint(1, 3))]
    return f"[{rng.choice(['', '', '^'])}{rng.choice(['&&', '--']).join(operands)}]"


def test_operations_on_classes_mean_what_they_mean_to_regex():
    rng = random.Random(4)
    characters = sorted(set("".join(texts(3000))))
    checked, expressions = 0, 1500 if FULL else 200
    for _ in range(expressions):
        expression = f"(?V1){random_class(rng)}"
        try:
            node = parse(expression)
        except Refusal:  # what regex reads as any character
            continue
        checked += 1
        found = set(regex.findall(expression, "".join(characters)))
        assert found == {one for one in characters if node.contains(ord(one), category_of(ord(one)))}, expression
    assert checked > expressions * 2 // 3


NEGATED_COMPLEMENTS = [r"a[^\s\S]|b", r"(?:[^\D\d]a)+", r"[^\s\S]", r"[^\W\D]|a", r"[^\P{Mn}\p{M}]|a"]


def cuts_as_regex_does(pattern: str, many: int) -> bool:
    cut = compile_pattern(pattern).cut
    sample = [*texts(many), "ababab", "abcabc", "xxabcdyy", " !? a", "!!", ""]
    return all(cut(text) == list(cut_with_regex(pattern, text)) for text in sample)


@pytest.mark.parametrize("pattern", NEGATED_COMPLEMENTS)
def test_negated_classes_of_complements_mean_what_they_mean_to_regex(pattern):
    assert cuts_as_regex_does(pattern, 500)


REFUSED = [  # pattern, position, a word of the reason
    (r"a\bfoo", 1, "escape"),
    (r"(a)\1", 3, "escape"),
    (r"a\Rb", 1, "escape"),
    (r"x|a{1,2000}", 3, "counted"),
    (r"ab\p{Greek}+", 2, "Greek"),
    (r"a(?<=a)b", 1, "group"),
    (r"a(?m:a$)", 1, "group"),
    (r"x[[:alpha:]]+", 2, "set inside"),
    (r"x[a&&b]", 3, "set inside"),
    (r"(?V1)x[a~~b]", 8, "set inside"),
    (r"(?V1)x[a-d&&b--c]", 6, "two kinds"),
    (r"(?V1)x|(?i:ss)", 7, "case after"),
    (r"a(?i:\p{Lu})", 5, "case"),
    (r"b|a++a", 2, "possessive"),
    (r"b(?>a|ab)c", 1, "possessive"),
    (r"\S|\s++(?!\S)", 3, "possessive"),
    (r"b(?:a?)*", 1, "empty"),
    (r"a(?=b(?=cd))", 1, "look-ahead"),
    (r"b^a", 1, "'^'"),
    (r"(?:foo){e<=1}", 7, "brace"),
    (r"a[^\s\S]|b", 1, "complement"),
    (r"ab|[^\d\w\W]+", 3, "complement"),
    (r"(?:ab|a)++b|.", 0, "possessive"),
    (r"a\pL", 1, "property"),
    (r"x[a-\d]", 2, "range"),
]


@pytest.mark.parametrize(("pattern", "position", "word"), REFUSED)
def test_refusal_names_the_position_and_the_pattern_runs_on_regex(pattern, position, word):
    compiled = compile_pattern(pattern)
    assert compiled.automaton is None
    assert word in compiled.refusal
    assert f"at character {position} of the pattern: {pattern[:position]} >>> {pattern[position:]}" in compiled.refusal
    for text in texts(200):
        assert "".join(compiled.cut(text)) == text


def test_parse_refuses_alone_what_regex_does_not_compile_either():
    not_closed = ("not closed", 1)
    refusals = {"a)": ("closes nothing", 1), "a(b": not_closed, "a+*": ("on a quant", 2), "a[b": not_closed}
    for pattern, (word, position) in refusals.items():
        with pytest.raises(Refusal) as caught:
            parse(pattern)
        assert (word in caught.value.reason, caught.value.position) == (True, position)


@pytest.mark.parametrize(("pattern", "position"), [("(", 1), ("a)", 1), ("x[z-a]", 5), (r"\p{Nope}", 8), ("*a", 0)])
def test_pattern_that_does_not_compile_is_an_error_with_the_position(pattern, position):
    with pytest.raises(PatternError, match=rf"does not compile: [^\n]*, at character {position} of the pattern[^\n]*$"):
        compile_pattern(pattern)


def test_pattern_that_is_nested_too_deeply_is_an_error():
    with pytest.raises(PatternError, match="nested too deeply"):
        compile_pattern("(?:" * 2000 + "a" + ")" * 2000)


@pytest.mark.parametrize("pattern", ["", "a*", "(?=a)", r"(?!\S)|a", "$", r"\b|a", "(?:a?){2}"])
def test_pattern_that_matches_the_empty_string_is_an_error(pattern):
    with pytest.raises(PatternError, match="empty string"):
        compile_pattern(pattern).cut("ab")


def test_possessive_quantifiers_that_equal_greedy_ones_are_accepted():
    for pattern in (r"\p{L}++|\S", r"a?+b|\S", r"(?:ab)++|.", r"\s++$|\s", r"(?>\d{1,3})|."):
        assert compile_pattern(pattern).refusal is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?:a|b)*a(?:a|b){14}|.", "states"),
        (r"a(?=[ab]*a[ab]{9})", "takes more states"),
        (r"a(?=[ab]{7}a)|.", "a look-ahead with too many outcomes"),
        ("|".join(map(chr, range(0x4E00, 0x5000, 2))), "more than 255 classes of characters"),
        ("|".join(map(chr, range(0x4E00, 0x4F20, 2))) + "|a(?=.b)", "too many classes .* what look-aheads say"),
    ],
)
def test_too_many_states_are_refused(pattern, reason):
    compiled = compile_pattern(pattern)
    assert regex.search(reason, compiled.refusal)
    assert compiled.cut("abcd") == list(cut_with_regex(pattern, "abcd"))


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("a$|b", r"a\Z|b"),
        (r"[$]\$[^]$]$|b$", r"[$]\$[^]$]\Z|b\Z"),
        ("[[:alpha:]$]$", r"[[:alpha:]$]\Z"),
        ("[^a[:^digit:]$]$", r"[^a[:^digit:]$]\Z"),
        ("(?V1)[[ab]$]$", r"(?V1)[[ab]$]\Z"),
        ("(?V1)[[]$]]$", r"(?V1)[[]$]]\Z"),
        ("(?V1)[$a&&]$]$", r"(?V1)[$a&&]$]\Z"),
        ("[[ab]$", r"[[ab]\Z"),
        ("[[:x$]$", r"[[:x$]\Z"),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_dollar_is_the_very_end_of_the_document_and_stays_inside_a_class(pattern, written):
    assert with_document_end(pattern) == written
    compiled = compile_pattern(pattern)
    for text in ("ab$", "a\n", "$$a", "ab]"):
        assert compiled.cut(text) == list(cut_with_regex(pattern, text))
    assert compile_pattern("a$|b").cut("a\n") == ["a\n"]
