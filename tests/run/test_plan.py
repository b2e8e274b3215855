"""Plans: chunks cover each byte of the corpus once, in its order; more files only add chunks; weights are relative."""

from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import InputError, RunDirectoryError, UsageError
from bpe_pipeline.corpus.chunks import Chunk, Cutting, Span
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import Listing, describe
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.manifest import Manifest
from bpe_pipeline.run.plan import Plan, default_chunk_bytes
from bpe_pipeline.run.texts import Text
from bpe_pipeline.storage import named

MIB, GIB = 1 << 20, 1 << 30
CUTTING = Cutting((b"<|end|>",), compile_pattern("gpt2").automaton)
TEXTS = st.lists(
    st.lists(st.sampled_from(["some words ", "<|end|>", "x" * 50, "\n"]), min_size=1, max_size=20).map("".join),
    min_size=1,
    max_size=6,
)
WEIGHTS = st.lists(st.fractions(0, 9, max_denominator=9).map(str), min_size=3, max_size=3)
ONCE = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(directory: Path, texts: list[str]) -> tuple[CorpusFile, ...]:
    for number, text in enumerate(texts):
        (directory / f"{number}.txt").write_text(text)
    return tuple(describe(str(directory / f"{number}.txt")) for number in range(len(texts)))


def of_three_inputs() -> Plan:
    files = tuple(CorpusFile(name, 9, 1, name) for name in "abc")
    chunks = tuple(Chunk((Span(number, 0, 9),)) for number in range(3))
    return Plan(files, chunks, owners=(0, 1, 2))


def manifest_of_three() -> Manifest:
    return Manifest({}, {}, of_three_inputs(), texts=tuple(map(Text, "abc")))


@ONCE
@given(TEXTS, st.integers(1, 300), st.booleans())
def test_chunks_cover_each_byte_once_and_in_order(tmp_path, texts, chunk_bytes, apart):
    files = written(tmp_path, texts)
    plan = Plan().extended(files, CUTTING, chunk_bytes, range(len(files)) if apart else ())
    read = [""] * len(files)
    for index in range(len(plan.chunks)):
        for file, start, stop in plan.spans(index):
            number = files.index(file)
            assert len(read[number]) == start
            read[number] += texts[number][start:stop]
    assert read == texts
    assert plan.bytes == sum(map(len, texts))


@ONCE
@given(TEXTS, st.integers(1, 300), st.integers(1, 5))
def test_more_files_leave_the_chunks_as_they_are(tmp_path, texts, chunk_bytes, first):
    files = written(tmp_path, texts)
    before = Plan().extended(files[:first], CUTTING, chunk_bytes)
    if files[first:]:
        after = before.extended(files[first:], CUTTING, chunk_bytes)
        assert after.chunks[: len(before.chunks)] == before.chunks
        assert after.keys("text")[: len(before.chunks)] == before.keys("text")


@ONCE
@given(TEXTS, st.integers(1, 300))
def test_a_chunk_of_an_input_apart_has_no_file_of_another(tmp_path, texts, chunk_bytes):
    files = written(tmp_path, texts)
    owners = [number // 2 for number in range(len(files))]
    listing = Listing(files, (), tuple(owners))
    plan = Plan().extended(files, CUTTING, chunk_bytes, owners).of_inputs(max(owners) + 1, listing)
    chunks = plan.chunks_of_inputs(max(owners) + 1)
    for owner, some in enumerate(chunks):
        assert {files.index(file) // 2 for index in some for file, _, _ in plan.spans(index)} <= {owner}
    assert sorted(chain(*chunks)) == list(range(len(plan.chunks)))


def test_a_plan_with_nothing_to_read_is_refused(tmp_path):
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"the corpus is empty: .*a\.parquet has no rows"):
        Plan().extended((describe(str(tmp_path / "a.parquet")),), CUTTING, 10)


@given(WEIGHTS, st.integers(1, 9))
def test_weights_do_not_depend_on_their_scale(weights, factor):
    stored = manifest_of_three()
    if not any(map(Fraction, weights)):
        with pytest.raises(UsageError, match="no input with text has a weight above 0"):
            stored.weighed(weights, None)
        return
    scaled = stored.weighed([str(Fraction(weight) * factor) for weight in weights], None)
    assert scaled == stored.weighed(weights, None)
    assert min(Fraction(*text.weight) for text in scaled.texts if text.weight[0]) == 1


def test_inputs_of_weight_0_have_no_chunks():
    assert manifest_of_three().weighed(["2", "0", "1"], None).chunks_of_terms() == [([0], (2, 1)), ([2], (1, 1))]


@pytest.mark.parametrize(
    ("texts", "weights", "reason"),
    [
        ("abc", ["1", "2"], "2 weights for 3 inputs"),
        ("", ["1", "2", "3"], "are not kept apart"),
        ("abc", ["1", f"1/{10**20}", "1"], "expected "),
    ],
)
def test_weights_that_do_not_fit_are_refused(texts, weights, reason):
    with pytest.raises(UsageError, match=reason):
        replace(manifest_of_three(), texts=tuple(map(Text, texts))).weighed(weights, None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"size": 8}, "changed since"),
        ({"digest": "other"}, "changed since"),
        ({"mtime_ns": 2}, "changed since"),
        ({"path": "other"}, "has a, which is not among the inputs now"),
    ],
)
def test_files_that_changed_or_are_missing_are_refused(changes, reason):
    file = CorpusFile("a", 9, 1, "digest")
    with pytest.raises(RunDirectoryError, match=reason):
        Plan((file,)).added_files(Directory(named("run"), RUN), Listing((replace(file, **changes),), ()), print)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"files": (CorpusFile("a", 9, 1, "", "docx"),)}, "a is of the unknown kind docx, none"),
        ({"chunks": (Chunk(()),)}, "chunk 0 is empty"),
        ({"chunks": (Chunk((Span(3, 0, 9),)),)}, "not listed"),
        ({"chunks": (Chunk((Span(0, 5, 10),)),)}, "not within its file"),
        ({"chunks": (Chunk((Span(0, 5, 5),)),)}, "not within its file"),
        ({"chunks": (Chunk((Span(0, 0, 9, -1),)),)}, "not within its file"),
        ({"owners": (0, 1)}, "of an input that is not listed"),
    ],
)
def test_a_stored_plan_whose_values_do_not_fit_together_is_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        replace(of_three_inputs(), **changes).checked()


@pytest.mark.parametrize(
    ("corpus_bytes", "workers", "worker_bytes", "chunk_bytes"),
    [
        (100, 2, GIB // 2, MIB),
        (100 * MIB, 2, 32 * GIB, 50 * MIB),
        (300 * MIB, 2, 32 * GIB, 75 * MIB),  # two for each worker, not three
        (1000 * GIB, 2, 32 * GIB, 128 * MIB),
    ],
)
def test_default_chunk_size_depends_on_cores_and_memory(corpus_bytes, workers, worker_bytes, chunk_bytes):
    assert default_chunk_bytes(corpus_bytes, workers, worker_bytes) == chunk_bytes


def test_default_chunks_are_small_where_memory_is_or_the_pattern_is_slow():
    assert default_chunk_bytes(1000 * GIB, 8, GIB // 8) < 64 * MIB
    assert default_chunk_bytes(1000 * GIB, 2, 32 * GIB, slow=True) == 8 * MIB
