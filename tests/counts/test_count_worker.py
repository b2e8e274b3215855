"""The native counter against the naive one: one answer for any block and window, any bytes, any policy."""

import itertools
import random
import re
import unicodedata
from array import array
from collections import Counter

import oracle_counting
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline import _core
from pipeline.pattern import compile_pattern

END = b"<|end|>"
AUTOMATON = compile_pattern("gpt2").automaton

# Characters on which all engines agree, in runs that make long and short pieces; bytes that make every kind of error.
TEXT = st.text(st.sampled_from("ab'sé日本1 ２\n\t.<|end>x𐍈 "), max_size=80).map(str.encode)
BROKEN = st.sampled_from(
    [b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xff", b"\xf4\x90"]
)
SPECIAL = st.sampled_from([END, b"<|", b"\n\n"])


def known(text):
    """Whether the text holds no characters on whose classes Unicode versions differ."""
    return all(unicodedata.category(character) not in ("Cn", "Co") for character in text.decode(errors="replace"))


CORPUS = st.lists(st.one_of(TEXT, BROKEN, SPECIAL, st.binary(max_size=8)), max_size=12).map(b"".join).filter(known)


def regex_cutter(expression):
    return lambda document: [piece.decode() for piece in re.findall(expression, document.encode())]


def counted(text, specials=(END,), *, cutter=AUTOMATON, blocks=(1 << 20,), **options):
    counter = _core.ChunkCounter(cutter, list(specials), **options)
    at = 0
    for size in itertools.cycle(blocks):
        counter.feed(text[at : at + size])
        at += size
        if at >= len(text):
            break
    counter.feed(b"", end=True)
    return counter


@settings(max_examples=500, deadline=None)
@given(
    CORPUS,
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.integers(1, 60),
    st.sampled_from(["replace", "skip"]),
)
@example(b"a" * 100 + b"\xe2\x82" + END, [1], 1, "replace")
@example(b"a\xff" + END + b"b" + END + b"c\xe2\x82", [3], 2, "skip")
def test_any_block_window_and_policy(text, blocks, window, errors):
    specials = [END, b"<|", b"\n\n"]
    counter = counted(text, specials, blocks=blocks, window_bytes=window, errors=errors)
    expected = oracle_counting.count(text, specials, errors)
    assert oracle_counting.as_counter(counter.columns()) == expected
    statistics = counter.statistics()
    assert statistics["bytes"] == len(text)
    assert statistics["pieces"] == expected.total()
    assert statistics["documents"] == len(oracle_counting.documents(text, specials, errors))
    if errors == "skip":
        skipped = len(oracle_counting.split(text, specials)) - statistics["documents"]
        assert statistics["documents_skipped"] == skipped
        assert statistics["replacements"] == 0
        whole = counted(text, specials, errors=errors).statistics()
        assert {**statistics, "memory": 0} == {**whole, "memory": 0}
    else:
        assert statistics["replacements"] == text.decode(errors="replace").count("\ufffd") - text.count(
            "\ufffd".encode()
        )


@pytest.mark.parametrize("errors", ["replace", "skip"])
def test_special_token_within_another_does_not_hide_it_at_the_end_of_a_window(errors):
    specials = [END, b"end", b"n", b"d|>end"]
    text = b"a<|end|>b<|end<|end|>end|>\xffn<|<|end|>end<|end"
    expected = oracle_counting.count(text, specials, errors)
    for window in range(1, len(text) + 1):
        counter = counted(text, specials, window_bytes=window, errors=errors)
        assert oracle_counting.as_counter(counter.columns()) == expected


@settings(max_examples=150, deadline=None)
@given(CORPUS, st.integers(1, 40))
def test_python_cutter_counts_the_same(text, window):
    by_python = counted(
        text, cutter=lambda document: iter(oracle_counting.cut(document)), window_bytes=window, blocks=[7]
    )
    by_automaton = counted(text)
    assert oracle_counting.as_counter(by_python.columns()) == oracle_counting.as_counter(by_automaton.columns())
    assert by_python.statistics() == by_automaton.statistics()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=6), TEXT, BROKEN), max_size=30).map(b"".join), st.integers(1, 90))
def test_repair_is_pythons(text, window):
    counter = counted(text, [], cutter=lambda document: [document], window_bytes=window)
    repaired = text.decode(errors="replace").encode()
    assert oracle_counting.as_counter(counter.columns()) == (Counter({repaired: 1}) if text else Counter())


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
        counter = counted(text, [b"\0"], cutter=lambda document: [document])
        expected = Counter((filler + text).decode(errors="replace").encode() for text in texts)
        assert oracle_counting.as_counter(counter.columns()) == expected
        kept = counted(text, [b"\0"], cutter=lambda document: [document], errors="skip", window_bytes=100)
        assert oracle_counting.as_counter(kept.columns()) == oracle_counting.count(text, [b"\0"], "skip", r"(?s).+")


@pytest.mark.parametrize("window", [1, 7, 64, 4096])
@pytest.mark.parametrize("place", [0, 1, 63, 64, 200])
def test_strict_says_where(window, place):
    counter = _core.ChunkCounter(AUTOMATON, [END], errors="strict", window_bytes=window)
    with pytest.raises(ValueError, match=f"byte {place}$"):
        counter.feed(b"x" * place + b"\xed\xa0\x80" + b"y" * 100, end=True)
    assert counter.statistics()["invalid_offsets"] == [place]


def test_offsets_are_counted_from_the_first_byte_fed():
    counter = _core.ChunkCounter(AUTOMATON, [END], window_bytes=5)
    counter.feed(b"abc\xffdef", end=True)
    counter.feed(b"\xffabc\xe2\x82", end=True)
    assert counter.statistics()["invalid_offsets"] == [3, 7, 11]
    assert counter.statistics()["invalid_bytes"] == 4
    assert counter.statistics()["replacements"] == 3


def test_documents_end_at_special_tokens_and_texts():
    # White space before a special token is at the end of its document, so it is one piece.
    counter = counted(b"a  " + END + b"  b")
    assert oracle_counting.as_counter(counter.columns()) == {b"a": 1, b"  ": 1, b" ": 1, b" b": 1}
    counter = _core.ChunkCounter(AUTOMATON, [END])
    counter.feed(b"a  ", end=True)
    counter.start_inside_document()
    counter.feed(b"  b" + END + b"c", end=True)
    assert oracle_counting.as_counter(counter.columns()) == {b"a": 1, b"  ": 1, b" ": 1, b" b": 1, b"c": 1}
    assert counter.statistics()["documents"] == 2


def test_texts_of_special_tokens_only_and_of_nothing():
    counter = counted(END * 5)
    assert len(counter) == 0
    assert counter.statistics()["special_tokens"] == 5
    assert counter.statistics()["documents"] == 0
    assert [len(bytes(column)) for column in counted(b"").columns()] == [8, 0, 0]


@settings(max_examples=100, deadline=None)
@given(TEXT, st.integers(4, 9), st.integers(1, 50))
def test_longest_piece(text, most, window):
    counter = counted(text, [], max_piece_bytes=most, window_bytes=window)
    expected = Counter()
    cut = 0
    for piece, number in oracle_counting.count(text).items():
        parts, part = [], ""
        for character in piece.decode():
            if len((part + character).encode()) > most:
                parts.append(part)
                part = ""
            part += character
        expected.update({part.encode(): 0 for part in parts})
        for whole in [*parts, part]:
            expected[whole.encode()] += number
        cut += number * bool(parts)
    assert oracle_counting.as_counter(counter.columns()) == expected
    assert counter.statistics()["pieces_cut"] == cut


@pytest.mark.parametrize("at_the_ends", [False, True], ids=["any hashes", "hashes at both ends of the table"])
def test_a_growing_table_keeps_every_piece(at_the_ends):
    pieces = sorted({b" %d" % number + b"0" * (number % 3 * 7) for number in range(400_000)}, key=_core.hash64)
    if at_the_ends:  # full there, so that pieces are far behind their homes, also across the end of the table
        pieces = pieces[:10_000] + pieces[-10_000:]
    arriving = random.Random(17).sample(pieces, len(pieces))
    texts = [arriving[max(at - 1000, 0) : at + 1000] for at in range(0, len(arriving), 1000)]  # most of them twice
    counter = _core.ChunkCounter(AUTOMATON, [])
    for text in texts:
        counter.feed(b"".join(text), end=True)
    result = oracle_counting.as_counter(counter.columns())
    assert list(result) == pieces
    assert result == Counter(itertools.chain(*texts))


def test_counts_in_order_of_hash_and_by_partition():
    generator = random.Random(2)
    words = [generator.randbytes(generator.randint(1, 40)).hex() for _ in range(30_000)]
    text = " ".join(generator.choices(words, k=60_000)).encode()
    counter = counted(text)
    whole = oracle_counting.as_counter(counter.columns())
    assert whole == oracle_counting.count(text)
    hashes = [_core.hash64(piece) for piece in whole]
    assert hashes == sorted(hashes)
    parts = [oracle_counting.as_counter(counter.columns(i, 8)) for i in range(8)]
    assert [piece for part in parts for piece in part] == list(whole)
    assert all(_core.hash64(piece) >> 61 == i for i, part in enumerate(parts) for piece in part)
    before = len(counter)
    counter.clear_counts()
    assert (before, len(counter)) == (len(whole), 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 3000), st.sampled_from([1, 300, 50_000]))
def test_hot_pieces_at_any_time(seed, words, window):
    """Often and seldom, of 1 to 17 bytes, with NUL in them: read, added to, cleared, growing while some are hot."""
    generator = random.Random(seed)
    many = [bytes(generator.choices(b"ab\0", k=generator.choice((1, 2, 7, 8, 14, 15, 16, 17)))) for _ in range(words)]
    cut = regex_cutter(rb"[ab\0]+|\n")
    counter = _core.ChunkCounter(cut, [], window_bytes=window)
    expected = Counter()
    for _ in range(6):
        some = generator.choices(many, weights=[1 / (rank + 1) for rank in range(words)], k=generator.choice((3, 3000)))
        counter.feed(b"\n".join(some), end=True)
        expected.update(some)
        if len(some) > 1:
            expected[b"\n"] += len(some) - 1
        choice = generator.randrange(4)
        if choice == 0:
            counter.add_pieces(some[:5], [7] * len(some[:5]))
            for piece in some[:5]:
                expected[piece] += 7
        elif choice == 1:
            counter.clear_counts()
            expected.clear()
        elif choice == 2:
            assert oracle_counting.as_counter(counter.columns()) == expected
    assert oracle_counting.as_counter(counter.columns()) == expected
    assert len(counter) == len(expected)


@pytest.mark.parametrize("seed", range(4))
def test_stretches_without_hot_pieces_between_others(seed):
    """Long enough that the table stops asking for hot pieces, and begins again, at uneven places."""
    generator = random.Random(seed)
    often = [b" the", b" of", b" and", b" to", b" in"]
    counter = _core.ChunkCounter(compile_pattern("gpt2").automaton, [])
    expected = Counter()
    for _ in range(12):
        length = generator.choice((500, 20_000, 70_000))
        if generator.random() < 0.5:
            pieces = generator.choices(often, k=length)
        else:
            pieces = [b" " + bytes(generator.choices(b"abcdefghij", k=9)) for _ in range(length)]
        counter.feed(b"".join(pieces), end=True)
        expected.update(pieces)
    assert oracle_counting.as_counter(counter.columns()) == expected


def test_an_empty_piece_is_not_counted():
    counter = counted(b"abcabc", cutter=lambda _: ["", "abc", "", "abc", ""])
    assert oracle_counting.as_counter(counter.columns()) == {b"abc": 2}


def test_one_long_piece():
    text = b"a" * (4 << 20)
    counter = counted(text, blocks=[1 << 16])
    assert oracle_counting.as_counter(counter.columns()) == {text: 1}
    assert counter.memory_bytes() < 40 << 20


def test_long_runs_of_invalid_bytes_cost_no_more_a_byte():
    counter = counted(b"\xff" * (3 << 20), blocks=[1 << 16])
    assert oracle_counting.as_counter(counter.columns()) == {"\ufffd".encode() * (3 << 20): 1}
    assert counter.statistics()["replacements"] == 3 << 20


def test_counts_beyond_32_and_63_bits():
    counter = _core.ChunkCounter(AUTOMATON, [])
    counter.add_pieces([b"a", b"b" * 20], [1 << 40, (1 << 63) - 2])
    counter.feed(b"a", end=True)
    assert oracle_counting.as_counter(counter.columns()) == {b"a": (1 << 40) + 1, b"b" * 20: (1 << 63) - 2}
    with pytest.raises(OverflowError, match="2\\^63"):
        counter.add_pieces([b"b" * 20], [2])


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
    assert {piece: _core.hash64(piece) for piece in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [({"errors": "ignore"}, "errors"), ({"max_piece_bytes": 3}, "max_piece_bytes"), ({"window_bytes": 0}, "window")],
)
def test_refused(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        _core.ChunkCounter(AUTOMATON, [], **arguments)


def test_a_cutter_that_fails_or_loses_text():
    def failing(document):
        raise KeyError(document)

    with pytest.raises(KeyError, match="abc"):
        counted(b"abc", cutter=failing)
    with pytest.raises(ValueError, match="add up"):
        counted(b"abc", cutter=lambda document: [document[1:]])
    with pytest.raises(ValueError, match="longer"):
        counted(b"abc", cutter=lambda document: [document, document])


@settings(max_examples=150, deadline=None)
@given(st.lists(CORPUS, max_size=8), st.integers(0, 5), st.sampled_from([4, 8]), st.sampled_from(["replace", "skip"]))
def test_columns_of_documents_are_texts_of_their_own(documents, before, offset_bytes, errors):
    offsets = [before, *itertools.accumulate(map(len, documents), initial=before)][1:]
    data = b"x" * before + b"".join(documents) + b"behind"
    column = array("i" if offset_bytes == 4 else "q", offsets)
    by_column = _core.ChunkCounter(AUTOMATON, [END], errors=errors, window_bytes=50)
    by_column.feed_documents(column, data, offset_bytes)
    one_by_one = _core.ChunkCounter(AUTOMATON, [END], errors=errors, window_bytes=50)
    for document in documents:
        one_by_one.feed(document, end=True)
    assert bytes(by_column.columns()[1]) == bytes(one_by_one.columns()[1])
    assert by_column.statistics() == one_by_one.statistics()
    assert by_column.fed_bytes() == sum(map(len, documents))


@pytest.mark.parametrize(
    ("offsets", "offset_bytes", "reason"),
    [
        ([], 8, "one more offset"),
        ([0, 3, 2], 8, "decrease"),
        ([-1, 2], 8, "negative"),
        ([0, 6], 8, "beyond the data"),
        ([0, 5], 2, "4 or 8"),
    ],
)
def test_damaged_columns_are_refused(offsets, offset_bytes, reason):
    counter = _core.ChunkCounter(AUTOMATON, [END])
    with pytest.raises(ValueError, match=reason):
        counter.feed_documents(array("q", offsets), b"abcde", offset_bytes)
    assert counter.fed_bytes() == 0


@settings(max_examples=200, deadline=None)
@given(CORPUS, st.integers(1, 40), st.sampled_from([1, 300, 1 << 18]), st.booleans())
def test_counter_beyond_its_budget_is_written_in_parts(text, block, window, by_function):
    """Whatever the blocks: the parts, each in order of hash, add up to the counter, and the statistics are the same."""
    parts = []

    def spill(counter):
        parts.append(counter.columns())

    options = {"window_bytes": window, "blocks": [block]}
    if by_function:
        options["cutter"] = lambda document: [document[at : at + 3] for at in range(0, len(document), 3)]
    whole = counted(text, **options)
    spilled = counted(text, budget_bytes=100_000, spill=spill, **options)
    combined = _core.combine([*parts, spilled.columns()])
    assert oracle_counting.as_counter(combined) == oracle_counting.as_counter(whole.columns())
    assert spilled.statistics() == whole.statistics()


def test_text_and_tables_stay_in_the_budget():
    generator = random.Random(3)
    text = " ".join(generator.randbytes(generator.randint(2, 30)).hex() for _ in range(200_000)).encode()
    parts, most = [], 0

    def spill(counter):
        nonlocal most
        most = max(most, counter.memory_bytes())
        parts.append(counter.columns())

    budget = 8 << 20
    counter = counted(text, blocks=[1 << 16], budget_bytes=budget, spill=spill)
    assert len(parts) > 1
    assert max(most, counter.memory_bytes()) <= budget
    combined = _core.combine([*parts, counter.columns()])
    assert oracle_counting.as_counter(combined) == oracle_counting.as_counter(counted(text).columns())


def test_what_a_spill_raises_stops_the_feeding():
    def spill(_):
        raise KeyError("disk")

    with pytest.raises(KeyError, match="disk"):
        counted(b"one two " * 100_000, window_bytes=300, budget_bytes=1000, spill=spill)
    with pytest.raises(ValueError, match="together"):
        counted(b"", budget_bytes=1000)


@pytest.mark.parametrize("errors", ["replace", "skip"])
def test_piece_or_document_beyond_the_budget(errors):
    text = (
        b"before" + END + (b"x" * (16 << 20) if errors == "replace" else b" ".join(b"%d" % i for i in range(400_000)))
    )
    with pytest.raises(MemoryError) as caught:
        counted(text, errors=errors, budget_bytes=16 << 20, spill=lambda _: None)
    offset, size = caught.value.args
    assert offset >= 6
    assert 1 << 19 < size <= len(text)
