"""Patterns written for the other engines, run there on generated texts."""

import itertools
import random

import pattern_texts
import pytest
import tiktoken
from amount import FULL
from pattern_texts import texts
from tokenizers import Regex, pre_tokenizers

from bpe_pipeline.base.errors import ExportRefusedError
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import PRESETS
from bpe_pipeline.pattern.translate import for_tiktoken, for_tokenizers, leaves_text

OTHERS = [
    "gpt2+digits3",
    "cl100k+digits2",
    "deepseek-v3+digits1",
    "kimi-k2+digits-from-right",
    r"\w+|[^\w\s]+",
    r"(?i:st)+| ?\p{L}{2}?|x{1,2}+$|\S",
    r"a??b|[a-f]{2,3}?(?=\s|$)|[^\W\d]+?\d",
    r" ?\p{L}+| ?\p{N}+",
    r"\s+(?=\S)|\S+\s*+$|\S(?!\S)",
    r"(?>\p{N}{1,3})|[^\p{N}]{2,}|(?s:.)",
    r"[\]\[^a\-z&~|]+|\x{2d}|#\t\\+|(a|b)(?P<x>c)?".replace(r"|\x{2d}", ""),
    r"(?i:[a-k]+|ß)|.",
    r"\p{L}+?(?=\p{Lu}\p{Ll}|\P{L}|$)|\d{1,3}(?=(?:\d{3})*(?!\d))|(?s:.)(?!\s\S)|\s",
    r"\w+(?:\s|$)?|(?:a|(?:(?=b)|(?!c.)))??[^\s\d]|\S",
    r"(?V1)[^0[\p{Lu}--\p{L}]]+|[^1[\p{N}--[^0-9]]]+|[[\p{L}--\p{L}]]|0",
    r"(?V1)[\p{L}&&[^\p{Han}]]+|[\p{L}--[a-c]x]+|[[^\s\p{L}]&&[^-&]&&[^1-5]]+|(?:[^[a-z]--[xyz]])?\d",
]


def by_tokenizers(expression, text):
    return [pre_token for pre_token, _ in pre_tokenizers.Split(Regex(expression), "isolated").pre_tokenize_str(text)]


def by_tiktoken(expression, batch):
    """The pre-tokens of each text: every part of every text is a token, so a pre-token is one token whatever it is."""
    ranks = {bytes([value]): value for value in range(256)}
    for text in batch:
        for start in range(len(text)):
            for stop in range(start + 1, len(text) + 1):
                ranks.setdefault(text[start:stop].encode(), len(ranks))
    encoding = tiktoken.Encoding("t", pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    return [[t.decode() for t in encoding.decode_tokens_bytes(encoding.encode_ordinary(text))] for text in batch]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("pattern", [*PRESETS, *OTHERS])
def test_tokenizers_and_tiktoken_cut_as_we_do(pattern):
    compiled = compile_pattern(pattern)
    split = pre_tokenizers.Split(Regex(for_tokenizers(compiled)), "isolated")
    for text in texts(8000 if FULL else 2000, seed=6):
        assert [pre_token for pre_token, _ in split.pre_tokenize_str(text)] == compiled.cut(text)
    for seed in range(7, 11):
        batch = texts(400, longest=10, seed=seed)
        assert by_tiktoken(for_tiktoken(compiled), batch) == [compiled.cut(text) for text in batch]


def test_translated_patterns_cut_the_same():
    rng = random.Random(11)
    for _, compiled in itertools.islice(pattern_texts.accepted(rng), 1000 if FULL else 20):
        batch = ["".join(rng.choices(pattern_texts.PATTERN_ALPHABET, k=rng.randint(1, 9))) for _ in range(25)]
        expected = [compiled.cut(text) for text in batch]
        assert [by_tokenizers(for_tokenizers(compiled), text) for text in batch] == expected
        assert by_tiktoken(for_tiktoken(compiled), batch) == expected


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_pattern_keeps_its_text_for_engines_that_read_it_alike(preset):
    compiled, text = compile_pattern(preset.name), preset.expression.removeprefix("(?V1)")
    written = {"tokenizers": for_tokenizers(compiled), "tiktoken": for_tiktoken(compiled)}
    assert all(written[engine] == text for engine in preset.read_alike_by)


def test_tokenizers_reads_possessive_counts_in_another_way():
    assert by_tokenizers(PRESETS["cl100k"].expression, "12345678") == ["12345678"]
    assert "tokenizers" not in PRESETS["cl100k"].read_alike_by


def test_translation_keeps_text_that_tiktoken_would_drop():
    drops = [leaves_text(compile_pattern(pattern)) for pattern in ("llama3", "a+", "(?s:(?:..)*(?:...))")]
    assert drops == [False, True, True]
    assert by_tiktoken(for_tiktoken(compile_pattern("a+")), ["!?aab"]) == [["!?", "aa", "b"]]


def test_pattern_outside_the_subset_is_not_exported():
    compiled = compile_pattern(r"\bfoo|.")
    for translate in (for_tokenizers, for_tiktoken):
        with pytest.raises(ExportRefusedError, match=r"because of the escape .b, at character 0"):
            translate(compiled)
