"""Patterns that would take for ever: cut in a bounded time, compiled in a bounded time, and told in one line."""

import re
import resource
import time
from pathlib import Path

import oracle_counting
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import refused, run
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import PatternError, PatternTimeoutError
from bpe_pipeline.pattern import by_regex
from bpe_pipeline.pattern.by_regex import cut_with_regex
from bpe_pipeline.pattern.compiler import compile_pattern

# Each goes back through all ways of sharing out a run of letters, were it not for the limit; none is an automaton's.
CATASTROPHE = r"(?:a|aa)+(?<!a)b|z"
CATASTROPHES = {
    CATASTROPHE: "a" * 60,
    r"(?<=.|^)(?:a|aa)+b|z": "a" * 100,
    r"(?:a|aa)+$(?<!a)|z": "a" * 100 + "!",
    r"(\w|\w\w)+\1\1!|.": "ab" * 50,
    r"(?:(?:a|b|ab)+)+(?<!.)c|z": "ab" * 40,
    r"(a|aa)+\1c|z": "a" * 50,
}


@pytest.mark.parametrize("pattern", CATASTROPHES)
def test_pattern_timeout_ends_a_document(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile_pattern(pattern).automaton is None
    started = time.process_time()
    with pytest.raises(PatternTimeoutError, match=r"takes longer than .*begins with '.*need not backtrack"):
        list(cut_with_regex(pattern, CATASTROPHES[pattern], 0.2))
    assert time.process_time() - started < 5
    if pattern == CATASTROPHE:
        monkeypatch.setattr(by_regex, "TIMEOUT_S", 0.2)
        with pytest.raises(PatternTimeoutError):
            bpe_pipeline.Tokenizer.from_merges([], pattern=pattern).encode("a" * 60)


def test_pattern_timeout_grows_with_the_document() -> None:
    started = time.process_time()
    with pytest.raises(PatternTimeoutError, match=r"longer than 1 s for the document of 3,145,788 characters"):
        list(cut_with_regex(CATASTROPHE, "a" * 60 + "\n" * (3 << 20), 0.2))
    assert time.process_time() - started > 0.5


LONG, OPTIONS = "a" * 60, ["--pattern", CATASTROPHE, "--output", "out"]
ENCODE = ["encode", "bad.txt", "--tokenizer", "tokenizer", "--output", "out"]
TRAIN = ["train", *(f"{name}.txt" for name in "abcd"), "bad.txt", "--chunk-size", 2700, "--workers", 1, *OPTIONS]


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("words", "location", "kept"),
    [
        (TRAIN, "bad.txt, bytes 0 to 76", 4),  # counters of the other chunks
        (ENCODE, "bad.txt, bytes 0 to 76", 0),
        (["combine", "counts.parquet", *OPTIONS], "counts.parquet, row 3", 0),
    ],
    ids=["train", "encode", "rows"],
)
def test_pattern_timeout_names_the_document(
    words: list[object], location: str, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(by_regex, "TIMEOUT_S", 1)
    for name in "abcd":
        Path(f"{name}.txt").write_text("zz aab z " * 300)
    Path("bad.txt").write_text(f"zzz<|endoftext|>{LONG}")
    pq.write_table(pa.table({"pre_token": ["zz", "z", LONG], "count": [1, 2, 3]}), "counts.parquet")
    ours = bpe_pipeline.Tokenizer.from_merges([], pattern=CATASTROPHE, special_tokens=["<|endoftext|>"])
    ours.save("tokenizer")
    line = refused(run(*words), 1)
    assert f"{location}: the pattern" in line
    assert "longer than 1 s for the document of 60 characters that begins with 'aaaaaaaa" in line
    assert len(list(Path("out").glob("counts/*.parquet"))) == kept
    assert Path("out").exists() == (words[0] != "combine")
    if words[0] == "encode":
        with (
            pytest.warns(UserWarning, match="runs on the regex package"),
            pytest.raises(PatternTimeoutError, match=r"bad\.txt, bytes 0 to 76: .* longer than 1 s"),
        ):
            bpe_pipeline.encode("bad.txt", ours)


@pytest.mark.parametrize("command", ["count", "encode"])
def test_memory_of_a_pattern_is_bounded_and_its_error_names_it(command: str, tmp_path: Path) -> None:
    """This pattern takes 1 GB for 16 bytes."""
    pattern = r"(?R)\p{Zs}|a"
    (tmp_path / "a.txt").write_text("a" * 40)
    bpe_pipeline.Tokenizer.from_merges([], pattern=pattern).save(tmp_path / "tokenizer")
    own = ["--tokenizer", "tokenizer", "--documents", "offsets"] if command == "encode" else ["--pattern", pattern]
    words = [command, "a.txt", *own, "--output", "out", "--memory-limit", "256MiB", "--workers", 1]
    done = run(*words, cwd=tmp_path)
    assert "memory passed the limit" not in done.stderr
    what = r"a\.txt, bytes 0 to 40: the pattern '\(\?R\).* takes more memory than [\d.]+ MiB for backtracking"
    where = "for the document of 40 characters that begins with 'aaa.*--memory-limit"
    assert re.search(f"{what} {where}", refused(done, 1))


def test_memory_limit_of_a_pattern_ends_with_the_cut() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(PatternTimeoutError, match=r"takes more memory than 32\.0 MiB"):
        list(cut_with_regex(r"(?R)\p{Zs}|a", "a" * 40, memory_bytes=32 << 20))
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    text = "low lower, " * 5000
    cut = list(cut_with_regex(r"(?<!x)\w+|\W", text, memory_bytes=32 << 20))
    assert cut == list(cut_with_regex(r"(?<!x)\w+|\W", text)) == oracle_counting.cut(text, r"(?<!x)\w+|\W")


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "pattern",
    [
        "".join(f"(?:[{chr(97 + n % 26)}x]|[{chr(98 + n % 24)}y])*" for n in range(400)) + "q",
        "(?:.*a.{12}|b)c",
        "(?:a{1000}){1000}",
        "(?:" + "|".join(chr(0x4E00 + n) for n in range(9000)) + ")",
        "[" + "".join(chr(0x4E00 + 2 * n) for n in range(9000)) + "]",
        "|".join(f"{chr(0x4E00 + 2 * n)}{chr(0x6E00 + n)}+" for n in range(2000)),
        "(?:" + "(?:(?=[ab])|(?=[bc])|(?=[cd]))" * 30 + "a)++b",
        "(?:x?" * 150 + "x" + ")" * 150,
        "(?i:" + "ſKkäß" * 500 + ")",
        "(" * 3000 + "a" + ")" * 3000,
        "a" * 70_000,
        "a|" * 30_000 + "b",
    ],
    ids=range(12),
)
def test_compiling_ends(pattern: str) -> None:
    """An automaton, or the reason why there is none; the limits are on work, so the machine's speed does not matter."""
    started = time.process_time()
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refused or compiled, both are right
    else:
        assert compiled.automaton is not None or compiled.refusal
    assert time.process_time() - started < 15


@settings(max_examples=200, deadline=None)
@given(st.text(r"ab()[]{}|*+?\.^$-:=!<>ispPLN0123,#&~", max_size=24))
def test_any_text_as_a_pattern_is_compiled_or_refused(pattern: str) -> None:
    try:
        compiled = compile_pattern(pattern)
        list(compiled.cut("ab (a) [b] 12,3\n"))
    except (PatternError, PatternTimeoutError) as error:
        assert "\n" not in str(error)  # noqa: PT017
