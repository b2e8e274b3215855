"""The native counter against the naive one: one answer for any block, window, bytes and policy; counting a chunk."""

import gc
import itertools
import os
import random
import re
from array import array
from collections import Counter
from dataclasses import replace

import oracle_counting
import pytest
from amount import FULL
from chunk_tasks import chunk_task
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle_counting import as_counter, known

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, InvalidTextError
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.counts import feeding
from bpe_pipeline.counts.count_worker import count_chunk
from bpe_pipeline.pattern.compiler import compile_pattern

END = b"<|end|>"
AUTOMATON = compile_pattern("gpt2").automaton
POLICIES = ["replace", "skip"]

# Characters on which all engines agree, in runs that make long and short pre-tokens; bytes that make every kind of
# error.
TEXT = st.text(st.sampled_from("ab'sé日本1 ２\n\t.<|end>x𐍈 "), max_size=80).map(str.encode)
BROKEN = st.sampled_from(
    [b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xff", b"\xf4\x90"]
)
SPECIAL = st.sampled_from([END, b"<|", b"\n\n"])


CORPUS = st.lists(st.one_of(TEXT, BROKEN, SPECIAL, st.binary(max_size=8)), max_size=12).map(b"".join).filter(known)


def counted(text, specials=(END,), *, cutter=AUTOMATON, blocks=(1 << 20,), errors="replace", **options):
    counter = _core.ChunkCounter(cutter, list(specials), judge=DocumentJudge(errors), **options)
    at = 0
    for size in itertools.cycle(blocks):
        counter.feed(text[at : at + size])
        at += size
        if at >= len(text):
            break
    counter.feed(b"", end=True)
    return counter


def pre_tokens(text, specials=(END,), **options):
    return as_counter(counted(text, specials, **options).columns())


def noted(counter):
    """How often each kind of input was skipped or altered, if it was."""
    return {kind: count for kind, (count, _) in counter.statistics()["noted"].items() if count}


@settings(max_examples=500, deadline=None)
@given(CORPUS, st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 60), st.sampled_from(POLICIES))
@example(b"a" * 100 + b"\xe2\x82" + END, [1], 1, "replace")
@example(b"a\xff" + END + b"b" + END + b"c\xe2\x82", [3], 2, "skip")
def test_any_block_window_and_policy(text, blocks, window, errors):
    specials = [END, b"<|", b"\n\n"]
    counter = counted(text, specials, blocks=blocks, window_bytes=window, errors=errors)
    expected = oracle_counting.count(text, specials, errors)
    assert as_counter(counter.columns()) == expected
    found = counter.statistics()
    documents = len(oracle_counting.documents(text, specials, errors))
    assert (found["bytes"], found["pre_tokens"], found["documents"]) == (len(text), expected.total(), documents)
    if errors == "skip":
        skipped = len(oracle_counting.split(text, specials)) - documents
        assert noted(counter) == ({"documents_skipped": skipped} if skipped else {})
        assert found == counted(text, specials, errors=errors).statistics()
    else:
        replaced = text.decode(errors="replace").count("\ufffd") - text.count("\ufffd".encode())
        assert noted(counter) == ({"replacements": replaced} if replaced else {})


@pytest.mark.parametrize("errors", POLICIES)
def test_special_token_within_another_does_not_hide_it_at_the_end_of_a_window(errors):
    specials = [END, b"end", b"n", b"d|>end"]
    text = b"a<|end|>b<|end<|end|>end|>\xffn<|<|end|>end<|end"
    expected = oracle_counting.count(text, specials, errors)
    for window in range(1, len(text) + 1):
        assert pre_tokens(text, specials, window_bytes=window, errors=errors) == expected


@pytest.mark.slow
def test_every_pair_and_many_triples_of_bytes_are_repaired_as_python_does():
    generator = random.Random(1)
    interesting = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE]
    interesting += [0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    texts = [bytes(pair) for pair in itertools.product(range(1, 256), repeat=2)]
    texts += [bytes(triple) for triple in itertools.product(interesting, repeat=3)]
    texts += [bytes(generator.choices(interesting, k=5)) for _ in range(5000)]
    # Tokens of a byte that is in none of them split the documents; filler moves them through the blocks of 64 bytes.
    for filler in (b"", "日".encode() * 30):
        text = b"\0".join(filler + text for text in texts)
        expected = Counter((filler + text).decode(errors="replace").encode() for text in texts)
        for window in (1 << 18, 7):
            assert pre_tokens(text, [b"\0"], cutter=lambda document: [document], window_bytes=window) == expected
        kept = pre_tokens(text, [b"\0"], cutter=lambda document: [document], errors="skip", window_bytes=100)
        assert kept == oracle_counting.count(text, [b"\0"], "skip", r"(?s).+")


@pytest.mark.parametrize("window", [1, 7, 64, 4096])
@pytest.mark.parametrize("place", [0, 1, 63, 64, 200])
def test_strict_says_where(window, place):
    counter = _core.ChunkCounter(AUTOMATON, [END], judge=DocumentJudge("strict"), window_bytes=window)
    with pytest.raises(UnicodeError) as caught:
        counter.feed(b"x" * place + b"\xed\xa0\x80" + b"y" * 100, end=True)
    assert caught.value.args == (f"invalid UTF-8 at byte {place}", place)


def test_offsets_are_counted_from_the_first_byte_fed():
    counter = _core.ChunkCounter(AUTOMATON, [END], window_bytes=5)
    counter.feed(b"abc\xffdef", end=True)
    counter.feed(b"\xffabc\xe2\x82", end=True)
    found = counter.statistics()
    assert (found["noted"]["replacements"], found["invalid_bytes"]) == ((3, [3, 7, 11]), 4)


def test_documents_end_at_special_tokens_and_texts():
    # White space before a special token is at the end of its document, so it is one pre-token.
    assert pre_tokens(b"a  " + END + b"  b") == {b"a": 1, b"  ": 1, b" ": 1, b" b": 1}
    assert pre_tokens(b"abcabc", cutter=lambda _: ["", "abc", "", "abc", ""]) == {
        b"abc": 2
    }  # an empty pre-token is none
    counter = _core.ChunkCounter(AUTOMATON, [END])
    counter.feed(b"a  ", end=True)
    counter.start_inside_document()
    counter.feed(b"  b" + END + b"c", end=True)
    assert as_counter(counter.columns()) == {b"a": 1, b"  ": 1, b" ": 1, b" b": 1, b"c": 1}
    assert counter.statistics()["documents"] == 2
    counter = counted(END * 5)
    assert (len(counter), counter.statistics()["special_tokens"], counter.statistics()["documents"]) == (0, 5, 0)
    assert [len(bytes(column)) for column in counted(b"").columns()] == [8, 0, 0]


@pytest.mark.parametrize("at_the_ends", [False, True], ids=["any hashes", "hashes at both ends of the table"])
def test_a_growing_table_keeps_every_pre_token(at_the_ends):
    size = 400_000 if FULL else 200_000
    numbers = sorted({b" %d" % number + b"0" * (number % 3 * 7) for number in range(size)}, key=_core.hash64)
    # Full at both ends, so that pre-tokens are far behind their homes, also across the end of the table.
    numbers = numbers[:10_000] + numbers[-10_000:] if at_the_ends else numbers[::3]
    arriving = random.Random(17).sample(numbers, len(numbers))
    texts = [arriving[max(at - 1000, 0) : at + 1000] for at in range(0, len(arriving), 1000)]  # most of them twice
    counter = _core.ChunkCounter(AUTOMATON, [])
    for text in texts:
        counter.feed(b"".join(text), end=True)
    result = as_counter(counter.columns())
    assert list(result) == numbers
    assert result == Counter(itertools.chain(*texts))
    parts = [as_counter(counter.columns(i, 8)) for i in range(8)]
    assert [pre_token for part in parts for pre_token in part] == numbers
    assert all(_core.hash64(pre_token) >> 61 == i for i, part in enumerate(parts) for pre_token in part)
    counter.clear_counts()
    assert len(counter) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 3000), st.sampled_from([1, 300, 50_000]))
def test_hot_pre_tokens_at_any_time(seed, words, window):
    """Often and seldom, of 1 to 17 bytes, with NUL in them: read, added to, cleared, growing while some are hot."""
    generator = random.Random(seed)
    many = [bytes(generator.choices(b"ab\0", k=generator.choice((1, 2, 7, 8, 14, 15, 16, 17)))) for _ in range(words)]
    weights = [1 / (rank + 1) for rank in range(words)]
    counter = _core.ChunkCounter(lambda text: re.findall(r"[ab\0]+|\n", text), [], window_bytes=window)
    expected = Counter()
    for _ in range(6):
        some = generator.choices(many, weights, k=generator.choice((3, 3000)))
        counter.feed(b"\n".join(some), end=True)
        expected.update([*some, *[b"\n"] * (len(some) - 1)])
        choice = generator.randrange(4)
        if choice == 0:
            counter.add_pre_tokens(some[:5], [7] * len(some[:5]))
            expected.update(some[:5] * 7)
        elif choice == 1:
            counter.clear_counts()
            expected.clear()
        elif choice == 2:
            assert as_counter(counter.columns()) == expected
    assert as_counter(counter.columns()) == expected
    assert len(counter) == len(expected)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_stretches_without_hot_pre_tokens_between_others(seed):
    """Long enough that the table stops asking for hot pre-tokens, and begins again, at uneven places."""
    generator = random.Random(seed)
    counter = _core.ChunkCounter(AUTOMATON, [])
    expected = Counter()
    for _ in range(12 if FULL else 8):
        length = generator.choice((500, 20_000, 70_000))
        if generator.random() < 0.5:
            some = generator.choices([b" the", b" of", b" and", b" to", b" in"], k=length)
        else:
            some = [b" " + bytes(generator.choices(b"abcdefghij", k=9)) for _ in range(length)]
        counter.feed(b"".join(some), end=True)
        expected.update(some)
    assert as_counter(counter.columns()) == expected


@pytest.mark.parametrize(("byte", "pre_token"), [(b"a", b"a"), (b"\xff", "\ufffd".encode())])
def test_a_long_pre_token_and_long_runs_of_invalid_bytes_take_little_memory(byte, pre_token):
    counter = counted(byte * (3 << 20), blocks=[1 << 16])
    assert as_counter(counter.columns()) == {pre_token * (3 << 20): 1}
    assert noted(counter) == ({} if byte == pre_token else {"replacements": 3 << 20})
    assert counter.memory_bytes() < 10 * len(pre_token) << 20


def test_counts_beyond_32_and_63_bits():
    counter = _core.ChunkCounter(AUTOMATON, [])
    counter.add_pre_tokens([b"a", b"b" * 20], [1 << 40, (1 << 63) - 2])
    counter.feed(b"a", end=True)
    assert as_counter(counter.columns()) == {b"a": (1 << 40) + 1, b"b" * 20: (1 << 63) - 2}
    with pytest.raises(OverflowError, match="2\\^63"):
        counter.add_pre_tokens([b"b" * 20], [2])


def test_hash_is_fixed_for_ever():
    expected = {
        b"": 0x132B5520F36D3966,
        b"a": 0xFEA2803F5CC4C711,
        b" the": 0x97781CDA57A7D685,
        b"fifteen bytes!!": 0x8761EAE155F1E58C,
        b"sixteen bytes!!!": 0x6EDEAF46EFCBD041,
        b"seventeen bytes!!": 0xF7AA2C8CA52C9A02,
        bytes(range(100)): 0x16EA6D951A5FFE6D,
    }
    assert {pre_token: _core.hash64(pre_token) for pre_token in expected} == expected


def raising(reason):
    raise KeyError(reason)


def by_columns(*offsets, offset_bytes=8):
    counter = _core.ChunkCounter(AUTOMATON, [END])
    try:
        counter.feed_documents(array("q", offsets), b"abcde", offset_bytes)
    finally:
        assert counter.fed_bytes() == 0


def cut_by(cutter, **options):
    return lambda: counted(b"one two " * 100_000, cutter=cutter, window_bytes=300, **options)


@pytest.mark.parametrize(
    ("feed", "error", "reason"),
    [
        (lambda: counted(b"", errors="ignore"), TypeError, "judge"),
        (lambda: counted(b"", window_bytes=0), ValueError, "window"),
        (lambda: counted(b"", budget_bytes=1000), ValueError, "together"),
        (by_columns, ValueError, "one more offset"),
        (lambda: by_columns(0, 3, 2), ValueError, "decrease"),
        (lambda: by_columns(-1, 2), ValueError, "negative"),
        (lambda: by_columns(0, 6), ValueError, "beyond the data"),
        (lambda: by_columns(0, 5, offset_bytes=2), ValueError, "4 or 8"),
        (cut_by(raising), KeyError, "one two"),
        (cut_by(lambda document: [document[1:]]), ValueError, "add up"),
        (cut_by(lambda document: [document, document]), ValueError, "longer"),
        (cut_by(AUTOMATON, budget_bytes=1000, spill=lambda _: raising("disk")), KeyError, "disk"),
    ],
)
def test_options_columns_cutters_and_spills_that_are_wrong_stop_the_feeding(feed, error, reason):
    with pytest.raises(error, match=reason):
        feed()


@settings(max_examples=150, deadline=None)
@given(st.lists(CORPUS, max_size=8), st.integers(0, 5), st.sampled_from([4, 8]), st.sampled_from(POLICIES))
def test_columns_of_documents_are_texts_of_their_own(documents, before, offset_bytes, errors):
    offsets = itertools.accumulate(map(len, documents), initial=before)
    data = b"x" * before + b"".join(documents) + b"behind"
    by_column, one_by_one = (
        _core.ChunkCounter(AUTOMATON, [END], judge=DocumentJudge(errors), window_bytes=50) for _ in "ab"
    )
    by_column.feed_documents(array("i" if offset_bytes == 4 else "q", offsets), data, offset_bytes)
    for document in documents:
        one_by_one.feed(document, end=True)
    assert as_counter(by_column.columns()) == as_counter(one_by_one.columns())
    assert by_column.statistics() == one_by_one.statistics()
    assert by_column.fed_bytes() == sum(map(len, documents))


@settings(max_examples=200, deadline=None)
@given(CORPUS, st.integers(1, 40), st.sampled_from([1, 300, 1 << 18]), st.booleans())
def test_python_cutter_and_parts_of_a_counter_beyond_its_budget_count_the_same(text, block, window, by_python):
    """Whatever the blocks: the parts, each in order of hash, add up to the counter, and the statistics are the same."""
    parts = []
    cutter = (lambda document: iter(oracle_counting.cut(document))) if by_python else AUTOMATON
    options = {"cutter": cutter, "window_bytes": window, "blocks": [block]}
    whole = counted(text)
    spilled = counted(text, budget_bytes=100_000, spill=lambda counter: parts.append(counter.columns()), **options)
    assert as_counter(_core.combine([*parts, spilled.columns()])) == as_counter(whole.columns())
    assert spilled.statistics() == whole.statistics()


def test_text_and_tables_stay_in_the_budget():
    generator = random.Random(3)
    text = " ".join(generator.randbytes(generator.randint(2, 30)).hex() for _ in range(200_000)).encode()
    parts, used = [], []

    def spill(counter):
        used.append(counter.memory_bytes())
        parts.append(counter.columns())

    counter = counted(text, blocks=[1 << 16], budget_bytes=8 << 20, spill=spill)
    spill(counter)
    assert len(parts) > 2
    assert max(used) <= 8 << 20
    assert as_counter(_core.combine(parts)) == pre_tokens(text)


@pytest.mark.parametrize("errors", POLICIES)
def test_pre_token_or_document_beyond_the_budget(errors):
    text = b"x" * (16 << 20) if errors == "replace" else b" ".join(b"%d" % i for i in range(400_000))
    with pytest.raises(MemoryError) as caught:
        counted(b"before" + END + text, errors=errors, budget_bytes=16 << 20, spill=lambda _: None)
    offset, size = caught.value.args
    assert offset >= 6
    assert 1 << 19 < size <= len(text) + len(END) + 6


@pytest.fixture
def task(tmp_path):
    (tmp_path / "a.txt").write_text("one two two<|endoftext|>three")
    return chunk_task(tmp_path / "a.txt", tmp_path / "a.parquet", 64 << 20)


def test_a_chunk_is_counted_and_its_counter_is_freed(task):
    """The memory of the counter would otherwise stay allocated in parallel with that of the next chunk."""

    def held() -> int:
        return sum(type(one) is _core.ChunkCounter for one in gc.get_objects())

    gc.disable()
    try:
        before, statistics = held(), count_chunk(task)
        assert held() == before
    finally:
        gc.enable()
    assert (statistics.documents, statistics.pre_tokens, statistics.special_tokens) == (2, 4, 1)
    assert task.output.exists()


@pytest.mark.parametrize("while_it_is_read", [False, True])
def test_a_changed_file_is_refused(task, tmp_path, monkeypatch, while_it_is_read):
    if while_it_is_read:
        monkeypatch.setattr(feeding, "report_progress", lambda _: os.utime(tmp_path / "a.txt", ns=(1, 1)))
    else:  # of the same size
        os.utime(tmp_path / "a.txt", ns=(1, 1))
    with pytest.raises(InputError, match=r"a\.txt changed" + " since the run was planned" * (not while_it_is_read)):
        count_chunk(task)
    assert not task.output.exists()


def test_skipped_or_altered_input_is_located_in_its_own_file(task, tmp_path):
    (tmp_path / "b.txt").write_bytes(b"bad \xff")
    task = replace(task, spans=(*task.spans, FileSpan(describe(str(tmp_path / "b.txt")), 0, 5)))
    assert count_chunk(task).losses == {"replacements": {"count": 1, "examples": [f"{tmp_path / 'b.txt'}, byte 4"]}}
    with pytest.raises(InvalidTextError, match=r"invalid UTF-8 in .*b\.txt, byte 4"):
        count_chunk(replace(task, judge=DocumentJudge("strict")))
