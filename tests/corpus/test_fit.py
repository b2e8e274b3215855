"""A pattern that does not fit the corpus is a warning with numbers."""

from itertools import pairwise

import pytest
import regex
from command import run

from bpe_pipeline.corpus.fit_worker import misfit
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import PRESETS

TEXT = "Most words are short, most numbers (1234, 56) too; the rest is\npunctuation and space. " * 60


def numbers(pattern, text):
    """Bytes in long pre-tokens, and in unmatched stretches of two characters or more, as `regex` says."""
    matches = [match.span() for match in regex.finditer(pattern, text)]
    gaps = [start - at for (_, at), (start, _) in pairwise([(0, 0), *matches, (len(text), len(text))])]
    sizes = [*gaps, *(stop - start for start, stop in matches)]
    return sum(size for size in sizes if size > 100), sum(gap for gap in gaps if gap > 1)


@pytest.mark.parametrize("pattern", ["llama-3", "deepseek", r"\p{N}+", r"[A-Z]\w*", ".+", r"(?<!x)\d+", "(?<!x)[^q]+"])
def test_long_pre_tokens_and_unmatched_text_are_told_with_numbers(pattern):
    found = misfit(compile_pattern(pattern), [TEXT])
    expected = [number for number in numbers(pattern, TEXT) if 2 * number > len(TEXT)]
    for text, number in zip(found, expected, strict=True):
        assert f"of a sample of {len(TEXT):,} bytes" in text
        assert f": {number:,} bytes; is --pattern right?" in text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        *((one, TEXT) for one in (*PRESETS, r"\w+|\W", r"\w+", r"(?<!x)\w+|\W") if one != "none"),
        *((r"\p{N}+", TEXT[:4000]), (r"(?:a|aa)+(?<!a)b|z", "a" * 100)),  # a small sample, one that takes too long
    ],
)
def test_patterns_that_fit_are_not_told(pattern, text, monkeypatch):
    monkeypatch.setattr("bpe_pipeline.corpus.fit_worker._TIMEOUT_S", 0.2)
    assert misfit(compile_pattern(pattern), [text]) == []


@pytest.mark.parametrize("pattern", [r"\d+|(?i:whitespace)", r"(?<!x)\d+"])
def test_the_command_warns(pattern, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    words = ["count", "a.txt", "--output", "run", "--pattern", pattern, "--quiet"]
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("is in stretches that the pattern does not match") == 1
    assert "warning" not in run(*words[:3], "other", "--quiet", cwd=tmp_path).stderr
