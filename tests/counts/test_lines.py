"""Lines cut many at once: the same pre-tokens, documents and repairs as of each line by itself, and of a row a line."""

import io
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run, succeeded
from counter_files import read
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle_counting import as_counter

from bpe_pipeline import _core
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.pattern import compiler
from bpe_pipeline.pattern.normalization import nfc_form
from bpe_pipeline.pattern.presets import PRESETS

compile_pattern, line_tables = cache(compiler.compile_pattern), cache(compiler.line_tables)

# What looks over a line feed, and what takes it, in several ways.
EXPRESSIONS = (r"\w+|\s+(?!\S)|\s+|[^\w\s]", r"\s+(?=\S)|\S+|\s+", r".+|\n", r"[a-z]+\n?|(?s:.)", r"[^\n]+|\n+[ ]*")
OPEN = (r"\w+", r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|(?s:.)")  # leaves text uncovered; looks far ahead
PIECES = b"ab", b" ", b"\n", b"\n\n", b"\r\n", b"\t", b"1", b"'s", b".", b"\xe2\x80", b"<|e|>", "é漢\u0301".encode()
NFC = "--normalize", "nfc"
LINES = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=60).map(b"".join)


def fed(
    pattern: Any, texts: list[bytes], *, tokens: tuple[str, ...], at_once: bool, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the counts of lines, and the statistics."""
    tables = line_tables(pattern)
    line_cutter = None if tables is None or not at_once else tables.native()
    counter = _core.ChunkCounter(pattern.automaton, tokens, line_cutter=line_cutter, **options)
    for text in texts:
        counter.feed_documents(_core.line_offsets(text), text, are_lines=at_once)
    return as_counter(counter.columns()), counter.statistics()


@given(
    st.sampled_from([*(preset for preset in PRESETS if preset != "bytes"), *EXPRESSIONS]),
    st.lists(LINES, max_size=3),
    st.sampled_from([1, 7, 64, 1 << 18]),
    st.sampled_from(["replace", "skip"]),
    st.booleans(),
    st.sampled_from([("<|e|>",), ("<|e|>", "\n\n"), ()]),
    st.sampled_from([(), ("é",)]),
)
@example("gpt2", [b"a\n\n b"], 1 << 18, "replace", True, ("<|e|>", "\n\n"), ())
@settings(max_examples=1500, deadline=None)
def test_lines_at_once_are_lines_one_by_one(pattern, texts, window, errors, nfc, tokens, added):  # type: ignore[no-untyped-def]
    compiled = compile_pattern(pattern)
    if compiled.automaton is None:
        return
    options = {"window_bytes": window, "judge": DocumentJudge(errors), "form": nfc_form() if nfc else None}
    one_by_one = fed(compiled, texts, tokens=tokens, at_once=False, added_tokens=added, **options)
    assert fed(compiled, texts, tokens=tokens, at_once=True, added_tokens=added, **options) == one_by_one


def test_a_document_after_lines_that_failed_is_one_document() -> None:
    pattern, spilled = compile_pattern("gpt2"), []

    def spill(_: _core.ChunkCounter) -> None:
        spilled.append(True)
        if len(spilled) == 1:
            raise OSError("no space")

    lines, cutter = b"".join(b"%d\n" % number for number in range(20_000)), line_tables(pattern).native()
    counter = _core.ChunkCounter(pattern.automaton, [], line_cutter=cutter, budget_bytes=1 << 16, spill=spill)
    with pytest.raises(OSError, match="no space"):
        counter.feed_documents(_core.line_offsets(lines), lines, are_lines=True)
    counter.feed(b"", end=True)
    before = counter.statistics()["documents"]
    counter.feed(b"a\n\nb", end=True)
    assert counter.statistics()["documents"] == before + 1


@pytest.mark.parametrize("expression", OPEN)
def test_a_pattern_that_cannot_is_cut_line_by_line(expression: str) -> None:
    assert line_tables(compile_pattern(expression)) is None


@pytest.mark.parametrize("preset", ["gpt2", "cl100k", "o200k", "llama3", "qwen2", "superbpe"])
def test_presets_cut_lines_at_once(preset: str) -> None:
    assert line_tables(compile_pattern(preset)) is not None


@given(st.lists(LINES, max_size=20).map(b"".join))
def test_offsets_are_those_of_lines(text: bytes) -> None:
    lines = list(io.BytesIO(text))
    assert b"".join(lines) == text
    assert list(_core.line_offsets(text)) == list(accumulate(map(len, lines), initial=0))


@pytest.mark.parametrize(
    "options",
    [(), NFC, ("--errors", "skip"), ("--sample", "40%"), ("--max-document-chars", "9"), ("--pattern", r"\w+")],
    ids=" ".join,
)
def test_a_file_of_lines_is_a_document_a_line(tmp_path: Path, options: tuple[str, ...]) -> None:
    """`\\r\\n`, empty lines, special tokens, characters that compose, a last line that does not end."""
    line = "low lower\u0301 newest  \r\n\n e\u0301t\u00e9 <|endoftext|>widest 1234\n\u0301 \t x\n"
    text = line * 70 + "last\n \n" + line.rstrip("\n")
    (tmp_path / "a.txt").write_text(text, newline="")
    rows = [one + "\n" for one in text.split("\n")[:-1]] + [text.rpartition("\n")[2]]
    pq.write_table(pa.table({"text": rows}), tmp_path / "a.parquet")
    formats = {"lines": ("a.txt", "--input-format", "lines", "--chunk-size", "1KiB"), "rows": ("a.parquet",)}
    for name, (file, *more) in formats.items():
        succeeded(run("count", tmp_path / file, *more, *options, "--output", tmp_path / name, "--quiet"))
    assert read(tmp_path / "lines/counter.parquet") == read(tmp_path / "rows/counter.parquet") != {}
