"""A pattern that does not fit the corpus is a warning with numbers."""

import pytest
import regex
from command import run

from pipeline.pattern import PRESETS, compile_pattern
from pipeline.pattern.fit import FitTask, misfit

TEXT = "Most words are short, most numbers (1234, 56) too; the rest is\npunctuation and space. " * 60


def numbers(pattern, texts):
    """Bytes in long pieces, and in unmatched stretches of two characters or more, as `regex` says."""
    long = unmatched = 0
    for text in texts:
        at = 0
        for start, stop in [*(match.span() for match in regex.finditer(pattern, text)), (len(text), len(text))]:
            long += max(0, stop - start) * (stop - start > 100)
            gap = start - at
            long, unmatched = long + gap * (gap > 100), unmatched + gap * (gap > 1)
            at = stop
    return long, unmatched


@pytest.mark.parametrize(
    "pattern", ["llama-3", "deepseek", r"\p{N}+", r"[A-Z]\w*", r".+", r"(?<!x)\d+", r"(?<!x)[^q]+"]
)
def test_long_pieces_and_unmatched_text_are_told_with_numbers(pattern):
    long, unmatched = numbers(pattern, [TEXT])
    found = misfit(FitTask(compile_pattern(pattern), [TEXT]))
    expected = [number for number in (long, unmatched) if 2 * number > len(TEXT)]
    assert len(found) == len(expected)
    for text, number in zip(found, expected, strict=True):
        assert f"of a sample of {len(TEXT):,} bytes" in text
        assert f": {number:,} bytes; is --pattern right?" in text


@pytest.mark.parametrize("pattern", [*(name for name in PRESETS if name != "none"), r"\w+|\W", r"\w+", r"(?<!x)\w+|\W"])
def test_patterns_that_fit_are_not_told(pattern):
    assert misfit(FitTask(compile_pattern(pattern), [TEXT])) == []


def test_a_small_sample_shows_nothing():
    assert misfit(FitTask(compile_pattern(r"\p{N}+"), [TEXT[:4000]])) == []


def test_a_sample_that_takes_too_long_says_nothing():
    assert misfit(FitTask(compile_pattern(r"(?:a|aa)+(?<!a)b|z"), ["a" * 100])) == []


@pytest.mark.parametrize("pattern", [r"\d+|(?i:whitespace)", r"(?<!x)\d+"])
def test_the_command_warns(pattern, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    words = ["count", "a.txt", "--output", "run", "--pattern", pattern, "--quiet"]
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("is in stretches that the pattern does not match") == 1
    assert "warning" not in run(*words[:3], "other", "--quiet", cwd=tmp_path).stderr
