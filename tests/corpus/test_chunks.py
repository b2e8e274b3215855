"""The counters of a plan's chunks add up to that of the whole, and cuts are only where they are safe."""

from itertools import accumulate, pairwise

import oracle_counting
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.chunks import Chunk, Cutting, Span
from bpe_pipeline.corpus.cut_files import cut_file, plan_chunks
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.pattern.compiler import compile_pattern

END = b"<|end|>"
AUTOMATON = compile_pattern("gpt2").automaton
ONCE = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def spans_counted(text, cuts, specials, errors):
    counter = _core.ChunkCounter(AUTOMATON, list(specials), judge=DocumentJudge(errors))
    for start, stop in pairwise([0, *cuts, len(text)]):
        if start and _core.SpecialTokens(list(specials)).match_at(text, start) is None:
            counter.start_inside_document()
        counter.feed(text[start:stop], end=True)
    return oracle_counting.as_counter(counter.columns()), counter.statistics()


def cuts_of(directory, text, cutting, chunk_bytes, read_bytes=8, threads=2):
    path = directory / "text"
    path.write_bytes(text)
    return cut_file(describe(str(path)), cutting, chunk_bytes=chunk_bytes, read_bytes=read_bytes, threads=threads)


TEXT = st.lists(
    st.one_of(
        st.text(st.sampled_from("ab s1é日.\n<|end>"), max_size=12).map(str.encode),
        st.sampled_from([END, b"<|", b"d|><|e", b"\xff", b"\xe6\x97", b" word" * 9]),
    ),
    min_size=1,
    max_size=30,
).map(b"".join)


@ONCE
@given(TEXT, st.integers(1, 60), st.integers(1, 20), st.sampled_from(["replace", "skip"]))
@example(b"ab " * 40, 16, 3, "replace")
@example((b"x" * 15 + END) * 9, 22, 4, "skip")
def test_chunks_add_up_to_the_whole(tmp_path, text, chunk_bytes, read_bytes, errors):
    text, specials = text or b"x", (END, b"<|e", b"d|><|")
    cutting = Cutting(specials, AUTOMATON, whole_documents=errors == "skip")
    cuts = cuts_of(tmp_path, text, cutting, chunk_bytes, read_bytes)
    assert cuts == sorted(set(cuts))
    assert spans_counted(text, cuts, specials, errors) == spans_counted(text, [], specials, errors)
    assert cuts_of(tmp_path, text, cutting, chunk_bytes, read_bytes=1 << 20, threads=1) == cuts


@ONCE
@given(TEXT.map(lambda text: text + END), st.integers(1, 60))
def test_cuts_at_the_next_special_token(tmp_path, text, chunk_bytes):
    chunks = -(-len(text) // chunk_bytes)
    expected = set()
    for i in range(1, chunks):
        wanted = len(text) * i // chunks
        position = text.find(END, wanted)
        if 0 < position < min(wanted + -(-len(text) // chunks), len(text)):
            expected.add(position)
    assert cuts_of(tmp_path, text, Cutting((END,)), chunk_bytes, read_bytes=5, threads=1) == sorted(expected)


WORDS = b"some words, " * 1000
HIDING = Cutting((b"aab", b"b<"))  # `aab` hides the `b<` that starts inside of it


def test_cuts_are_only_where_they_are_safe(tmp_path):
    certain, hidden = b"x" * 40 + b"aab<" + b"x" * 10 + b"b<" + b"x" * 44, b"x" * 48 + b"aab<" + b"x" * 48
    assert cuts_of(tmp_path, certain, HIDING, 50) == [54]
    assert cuts_of(tmp_path, hidden, HIDING, 50) == []
    assert cuts_of(tmp_path, b"\xff" * 500 + b"a" * 3000, Cutting((), AUTOMATON), 300) == []  # an endless word
    for cutting in (
        *(Cutting((END,)), Cutting((END,), AUTOMATON, whole_documents=True)),  # no pattern, or no cuts in documents
        Cutting(("\ufffd".encode(),), AUTOMATON),  # what replaces invalid bytes is a special token
    ):
        assert cuts_of(tmp_path, WORDS, cutting, 1000) == []
    cuts = cuts_of(tmp_path, WORDS, Cutting((END,), AUTOMATON), 1000)
    assert len(cuts) == 11
    assert set(cuts) <= set(accumulate(map(len, oracle_counting.cut(WORDS.decode()))))


def test_small_files_share_chunks_large_ones_are_cut_and_changed_ones_are_errors(tmp_path):
    files, sizes = [], [10, 20, 5, 300, 30]
    for i, size in enumerate(sizes):
        (tmp_path / str(i)).write_bytes((b"ab " * size)[:size])
        files.append(describe(str(tmp_path / str(i))))
    chunks = plan_chunks(files, Cutting((), AUTOMATON), chunk_bytes=100)
    assert chunks[0] == Chunk((Span(0, 0, 10), Span(1, 0, 20), Span(2, 0, 5)))
    spans = [span for chunk in chunks for span in chunk.spans]
    assert [span.file for span in spans] == sorted(span.file for span in spans)
    assert [sum(span.stop - span.start for span in spans if span.file == i) for i in range(5)] == sizes
    assert sum(chunk.bytes for chunk in chunks) == sum(sizes)
    (tmp_path / "3").write_bytes(b"x" * 99)
    with pytest.raises(InputError, match="changed while it was planned"):
        plan_chunks(files, Cutting(), chunk_bytes=100)
    (tmp_path / "3").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        plan_chunks(files, Cutting(), chunk_bytes=100)
