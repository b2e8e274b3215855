"""The native merge engine, raced against the naive reference and against Hugging Face's trainer."""

import json
import os
import random
import signal
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import merge_cases
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from merge_cases import Counter, Merges, arrays, columns, engine_of, learn, merge_rules, merges_of, small_counters
from reference import GPT2_BYTES, train_reference
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bpe_pipeline import _core

SCRATCH = f"{tempfile.gettempdir()}/bpe-pipeline-test-words-{os.getpid()}"
PARTS = {"threads": 2, "thread_bytes": 1}
COMPACT = {"compact": True}


def train(counter: Counter, max_merges: int, **options: Any) -> Merges:
    result = learn(engine_of(counter), max_merges, **options)
    assert result.stop == ("limit" if len(result.counts) == max_merges else "min-frequency")
    return merges_of(result)


def resumed(counter: Counter, known: Any) -> Any:
    engine = engine_of(counter)
    engine.resume(known.left, known.right, known.counts, known.joined)
    return engine


def train_huggingface(counter: Counter, max_merges: int, **options: Any) -> list[tuple[int, int]]:
    """BpeTrainer's merges over the same pre-tokens, as our ids: its byte alphabet sorts in GPT-2's order."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    text_of = dict(zip(GPT2_BYTES, alphabet, strict=True))
    tokenizer = Tokenizer(models.BPE())
    options |= {"vocab_size": 256 + max_merges, "initial_alphabet": alphabet, "show_progress": False}
    texts = ("".join(text_of[byte] for byte in pre_token) for pre_token, count in counter.items() for _ in range(count))
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(**options))
    id_of = tokenizer.get_vocab()
    return [(id_of[left], id_of[right]) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def pairs(merges: Merges) -> list[tuple[int, int]]:
    return [merge[:2] for merge in merges]


tuning = merge_cases.merge_tuning(
    SCRATCH,
    share_from=st.sampled_from([0, 1, 3]),
    compact=st.just(True),
    # From a phase of one word, or of none, to one of all; whatever does not fit is on disk.
    resident_bytes=st.one_of(st.integers(1, 400), st.integers(1, 20_000)),
)


# Compact words have a token's number in its first and last bytes.
long_tokens = st.lists(st.sampled_from(["a", "b", "ab", "é", "漢", "😀", "a" * 9, "ba" * 20]), min_size=1, max_size=12)
long_pre_tokens = st.dictionaries(long_tokens.map(lambda one: "".join(one).encode()), st.integers(1, 50), max_size=30)


@settings(max_examples=700, deadline=None)
@given(st.one_of(small_counters, long_pre_tokens), st.one_of(st.integers(0, 60), st.just(150)), merge_rules, tuning)
@example({b"ab": 9, b"cd": 8}, 9, {"min_frequency": 9}, {"scratch": SCRATCH})  # counts of one class of the sketch
def test_same_merges_as_the_reference(counter: Counter, max_merges: int, rules: Any, tuning: Any) -> None:
    assert train(counter, max_merges, **rules, **tuning) == train_reference(counter, max_merges, **rules)


@pytest.mark.parametrize(("n_pre_tokens", "theirs", "ours"), [
    *((3000, {"min_frequency": least}, {"min_frequency": least}) for least in (1, 3)),
    *((500, {"max_token_length": longest + 1}, {"max_token_bytes": longest}) for longest in (2, 3, 5, 8)),
])  # fmt: skip
def test_same_merges_as_huggingface_on_a_long_tail(n_pre_tokens: int, theirs: Any, ours: Any) -> None:
    """Hugging Face joins tokens only where the result stays below max_token_length (but any two bytes)."""
    counter = merge_cases.natural_counter(seed=1, n_pre_tokens=n_pre_tokens)
    expected = train_huggingface(counter, n_pre_tokens, **theirs)
    parts = {**PARTS, "index_positions": 3000}
    for tuning in ({}, {**parts, "narrow_symbols": 700}, COMPACT, parts | COMPACT):
        assert pairs(train(counter, n_pre_tokens, **ours, **tuning)) == expected


def equal_counts() -> Counter:
    """Levels of the queue hold many pairs each, and new pairs come to the level that is open."""
    chance = random.Random(7)
    return {"".join(chance.choices("abcdef", k=9)).encode(): chance.choice([1, 2, 20_000]) for _ in range(120)}


def fillers_before_a_byte() -> Counter:
    """Merge 97, (x, a), leaves the byte 97, an a, in its second slot; what follows it is a b, as in the pair (a, b)."""
    fillers = {f"{chr(65 + number // 10)}{number % 10}".encode(): 1000 - number for number in range(97)}
    return {**fillers, b"xa": 850, b"xab": 20, b"ab": 830}


def neighbours_of_every_kind() -> Counter:
    """Every token stands left of the pair (a, b), and one of them twice: as many neighbours as symbols."""
    rest = [bytes([byte]) for byte in range(256) if byte not in b"ab"]
    pairs = [left + right for left, right in zip(rest[::2], rest[1::2], strict=True)]
    pairs += [rest[1] + rest[0], rest[3] + rest[2]]
    counter = dict.fromkeys(pairs, 100_000) | {pair + b"ab": 10 for pair in pairs}
    return counter | {bytes([byte]) + b"ab": 10 for byte in range(256)} | {b"ab": 11, b"abab": 10}


def with_prefix(size: int) -> Counter:
    return {b"q" * size + bytes([ending]) * 2: 2 for ending in b"xyzab"}


HUGE = {b" the": 2**33, b" of": 2**33 + 1, b"th": 2**61, b"rare": 1, b"then": 2**32 - 1}
BANANAS = {b"banana bandana": 5, "ばなな".encode(): 3}
GREATEST = {"tie_break": "greatest-bytes"}
QUEUED = [own | more for own in ({}, PARTS) for more in ({}, {"index_positions": 40}, {"narrow_symbols": 300})]


@pytest.mark.parametrize(("counter", "max_merges", "rules", "tunings"), [
    pytest.param(equal_counts(), 400, {}, QUEUED, id="equal counts"),
    pytest.param(equal_counts(), 400, GREATEST, QUEUED, id="equal counts, by bytes"),
    # (a, b) and (c, y) are one batch: of the 15 pairs of y with the token ab, the second takes 10 apart again.
    pytest.param({b"ab": 1000, b"cy": 900, b"cyab": 10, b"yab": 5, b"qr": 8}, 5, {}, [PARTS], id="taken apart"),
    pytest.param(HUGE, 20, {}, [{}, PARTS], id="beyond 32 bits"),
    pytest.param(fillers_before_a_byte(), 101, {}, [COMPACT, {}], id="a byte like a number"),
    pytest.param(BANANAS, 500, {"min_frequency": 3}, [COMPACT, {}], id="no pair left"),
    pytest.param(neighbours_of_every_kind(), 130, {}, [{}], id="all neighbours"),
    *(pytest.param(with_prefix(n), 200, GREATEST, [{}], id=f"prefix {n}") for n in (7, 8, 15, 16, 17, 40, 100)),
    *(pytest.param(one, 5, {}, [{}], id=f"nothing in {one}") for one in ({}, {b"": 5}, {b"a": 5}, {b"ab": 0})),
    pytest.param({b"ab": 1}, 0, {}, [{}], id="no merges"),
])  # fmt: skip
def test_hard_counters_are_merged_as_the_reference_does(counter, max_merges, rules, tunings):
    expected = train_reference(counter, max_merges, **rules)
    results = [learn(engine_of(counter), max_merges, **rules, **tuning) for tuning in tunings]
    assert all(merges_of(result) == expected for result in results)
    assert len({(result.stop, bytes(result.joined)) for result in results}) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_counts_far_above_a_threshold_that_was_raised(threads: int) -> None:
    """Few merges are left for many pairs, so the phase's threshold rises above counts that are queued by themselves."""
    chance = random.Random(1)
    letters = "abcAÀéあ中二😀 "
    counter: Counter = {}
    for _ in range(136):
        counter["".join(chance.choices(letters, k=700)).encode()] = chance.choice([1, 2, 3, 20, 70_000])
    expected = train(counter, 2500, index_positions=50)
    assert train(counter, 2500, threads=threads, thread_bytes=1) == expected


def test_counts_of_a_level_that_was_opened_before_the_threshold_passed_it() -> None:
    """One merge, of a character's bytes, makes thousands of pairs that occur more often than all others."""
    chance = random.Random(1)
    tokens = [bytes([first, second]) for first in range(64) for second in range(64, 128)]
    chance.shuffle(tokens)
    counter = dict.fromkeys(tokens, 20_000)
    half = len(tokens) // 2
    counter |= {one + "é".encode() + other: 3 for one, other in zip(tokens[:half], tokens[half:], strict=True)}
    counter |= {b"".join(chance.choices(tokens, k=3)): 2 for _ in range(2200)}
    options: dict[str, Any] = {"whole_characters": True, "max_token_bytes": 4}
    expected = train(counter, 6397, index_positions=50, **options)
    assert train(counter, 6397, threads=2, thread_bytes=1, share_from=1, **options) == expected


@pytest.mark.one_of(11)
@pytest.mark.parametrize("options", [{}, COMPACT, PARTS, {"index_positions": 1}])
@pytest.mark.parametrize("first", range(8, 14))  # a distance of several digits is then in two chunks of its list
def test_lists_of_positions_that_are_far_apart(first: int, options: dict[str, Any]) -> None:
    """Words are in the order of their counts: other slots, 33,000 or 70,000, are between those of the same letters."""
    chance = random.Random(first)
    others = [byte for byte in range(33, 127) if byte not in b"qzr"]
    counter = Counter()
    for level in range(6):
        counter[b"qzr" * (first if level == 0 else 40 + level)] = 13 - 2 * level
        counter[bytes(chance.choices(others, k=33_000 if level % 2 else 70_000))] = 12 - 2 * level
    assert pairs(train(counter, 12, **options)) == train_huggingface(counter, 12)


@pytest.mark.parametrize("options", [{}, COMPACT, {**PARTS, "share_from": 1}])
def test_a_list_of_more_positions_than_are_read_at_once(options: dict[str, Any]) -> None:
    """Pairs that merges make are listed, too: all that they are made of is in one phase."""
    chance = random.Random(1)
    counter = Counter({bytes(chance.choices(b"aabbc", k=30)): 1 + n % 2 for n in range(6_000)})
    assert pairs(train(counter, 40, **options)) == train_huggingface(counter, 40)


@pytest.mark.parametrize("byte", [0xC0, 0xC1, 0xF4, 0xF5, 0xF6, 0xFA, 0xFB, 0xFF])
def test_compact_words_of_what_is_no_text(byte: int) -> None:
    counter = merge_cases.natural_counter(seed=4, n_pre_tokens=300) | {
        bytes([97, byte, 97, 98]): 50,
        bytes([byte]) * 9: 7,
    }
    assert train(counter, 300, compact=True) == train(counter, 300)
    tally = _core.CountTally()
    tally.add(arrays(counter))
    assert tally.is_text() == (byte == 0xF4)


@pytest.mark.slow
def test_a_long_tail_of_pairs_counted_twice() -> None:
    """So many pairs of low counts that the engine counts them under a second hash before it lists them."""
    chance = random.Random(6)
    counter = {chance.randbytes(24): chance.choice([1, 1, 1, 2, 3]) for _ in range(180_000)}
    theirs = train_huggingface(counter, 90_000)
    for index_positions in (100_000, 10**9):
        assert pairs(train(counter, 90_000, threads=2, index_positions=index_positions)) == theirs


def test_a_thread_lists_nothing_for_neighbours_that_it_never_met() -> None:
    """A merge makes many new pairs, all in the words of one thread; a later one meets their tokens in the other's."""
    lone, others = range(0x80, 0xBC), range(0xC0, 0xFC)
    x, y, u, v, p, q, z, rest = range(0x60, 0x68)
    counted: list[tuple[bytes, int]] = []

    def in_turn(*two: tuple[list[int], int]) -> None:  # which the engine deals out to its two threads
        counted.extend((bytes(pre_token), count) for pre_token, count in two)

    for first in lone:
        in_turn(([first, x, y], 200_000), ([rest] * 3, 1))
    for _ in range(800):
        in_turn(([x, y], 1), ([x, y], 1))
    for first in others:
        in_turn(([first, u, v], 55_000), ([first, u, v], 55_000))
    for first in lone:
        in_turn(([rest] * 3, 1), ([first, p, q], 1))
    for last in [[z]] * 1150 + [[]] * 20:
        in_turn(([p, q, *last], 1), ([p, q, *last], 1))
    for _ in range(1100):
        for first in range(40):
            in_turn(([first, first + 40, 0x68], 1), ([first, first + 40, 0x68], 1))

    def learned(threads: int) -> Merges:
        engine = _core.MergeEngine()
        engine.add(*columns(*zip(*counted, strict=True)))
        return merges_of(learn(engine, 300, min_frequency=100, threads=threads, thread_bytes=1, index_positions=8000))

    assert learned(1) == learned(2) == learned(3)


def raw(offsets: list[int], data: bytes, counts: list[int]) -> tuple[bytes, bytes, bytes]:
    return struct.pack(f"={len(offsets)}q", *offsets), data, struct.pack(f"={len(counts)}Q", *counts)


def resume(*known: list[int]) -> Callable[[Any], object]:
    packed = [struct.pack(f"={len(one)}{code}", *one) for code, one in zip("IIQQ", known, strict=True)]
    return lambda engine: (engine.resume(*packed), learn(engine, 1))


def failing_stream() -> Any:
    yield arrays({b"ab": 1})
    raise OSError("the counter is gone")


def stream_failing(_: Any) -> None:
    engine = _core.MergeEngine()
    engine.stream(failing_stream, 10)
    learn(engine, 10)


START = [bytes([byte]) for byte in GPT2_BYTES], list(range(256)), 256, [], []  # of a stage without tokens of its own


@pytest.mark.parametrize(("act", "error", "message"), [
    (lambda one: one.add(*raw([0, 2], b"ab", [1, 1])), ValueError, "one number more"),
    (lambda one: one.add(*raw([0, 2, 1], b"ab", [1, 1])), ValueError, "decrease"),
    (lambda one: one.add(struct.pack("=3i", 0, 2, 2), b"ab", struct.pack("=Q", 1)), ValueError, "8-byte"),
    (lambda one: learn(one, 1, tie_break="highest"), TypeError, "MergeRules"),
    (lambda one: learn(one, 1, min_frequency=0), ValueError, "min_frequency"),
    (lambda one: learn(one, 1, threads=0), ValueError, "threads"),
    (lambda one: learn(one, 1, narrow_symbols=65537), ValueError, "narrow_symbols"),
    (lambda one: learn(one, 1, tie_break="greatest-bytes", start=START), ValueError, "compared by lowest-ids"),
    (lambda one: learn(one, 1, thread_bytes=0), ValueError, "thread_bytes"),
    (lambda one: learn(one, 1, resident_bytes=1), ValueError, "needs scratch"),
    (lambda one: learn(one, 1, resident_bytes=1, scratch="/nowhere/words"), FileNotFoundError, "/nowhere/words"),
    (lambda _: learn(engine_of({b"ab": 2**62, b"cd": 2**62}), 1), OverflowError, r"2\^63"),
    (resume([0], [0], [1], []), ValueError, "each"), (resume([256], [0], [1], [1]), ValueError, "comes after"),
    (resume([0, 1], [0, 1], [1, 1], [1, 1]), ValueError, "more merges are known"), (stream_failing, OSError, "gone"),
    (lambda one: one.stream(failing_stream, 1), ValueError, "without add"),
    (lambda one: (learn(one, 1), learn(one, 1)), ValueError, "once"),
    (lambda one: (learn(one, 1), one.add(*arrays({b"ab": 1}))), ValueError, "after run"),
])  # fmt: skip
def test_wrong_input_is_refused(act: Callable[[Any], object], error: type[Exception], message: str) -> None:
    engine = engine_of({b"ab": 1})
    with pytest.raises(error, match=message):
        act(engine)
    if "threads" in message:  # a refused run is none
        assert merges_of(learn(engine, 1))


def long_training() -> Any:
    chance = random.Random(4)
    return engine_of({chance.randbytes(20): 1 for _ in range(100_000)})


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_rises_and_its_exception_stops_the_training(threads: int) -> None:
    seen: list[tuple[int, int, int]] = []

    def progress(merges: int, max_merges: int, best_count: int) -> None:
        seen.append((merges, max_merges, best_count))
        if merges > 0 and len(seen) >= 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        learn(long_training(), 10**6, threads=threads, thread_bytes=1, progress=progress)
    assert seen == sorted(seen, key=lambda step: step[0])
    assert {max_merges for _, max_merges, _ in seen} == {10**6}


def test_control_c_stops_the_training_within_a_second() -> None:
    engine = long_training()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    started = time.process_time()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        learn(engine, 10**6)
    assert time.process_time() - started < 1.5


def test_other_threads_run_meanwhile() -> None:
    """The GIL is released: a Python thread makes progress while the engine trains."""
    engine = engine_of(merge_cases.natural_counter(seed=5, n_pre_tokens=60_000))
    ticks, started = 0, time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(learn, engine, 2000)
        while not training.done():
            time.sleep(0.005)
            ticks += 1
    assert ticks > (time.monotonic() - started) / 0.1


@settings(max_examples=200, deadline=None)
@given(st.lists(small_counters, max_size=4), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_rare_pre_tokens_are_left_out_and_ranges_may_be_read_as_they_are_needed(
    parts, min_pre_token_count, threads, streamed
):
    kept: Counter = {}  # a pre-token may come in several parts
    for pre_token, count in (one for part in parts for one in part.items() if one[1] >= min_pre_token_count):
        kept[pre_token] = kept.get(pre_token, 0) + count
    engine = _core.MergeEngine()
    if streamed:
        engine.stream(lambda: (arrays(part) for part in parts), 100)
    else:
        engine = engine_of(*parts)
    result = learn(engine, 30, min_pre_token_count=min_pre_token_count, threads=threads, thread_bytes=1)
    expected = learn(engine_of(kept), 30)
    assert merges_of(result) == merges_of(expected)
    assert result.bytes == expected.bytes
    all_counts = [one for part in parts for one in part.items()]
    rare = [(pre_token, count) for pre_token, count in all_counts if 0 < count < min_pre_token_count and pre_token]
    assert result.left_out_pre_tokens == len(rare)
    assert result.left_out_bytes == sum(len(pre_token) * count for pre_token, count in rare)


@settings(max_examples=100, deadline=None)
@given(small_counters, st.integers(0, 60), merge_rules, st.lists(tuning, min_size=1, max_size=4), st.data())
def test_a_merging_that_is_stopped_after_any_phase_continues_from_there(counter, max_merges, rules, tunings, data):
    """Again and again, with another budget, other threads and other symbols each time."""
    expected = train_reference(counter, max_merges, **rules)
    known = None
    for one in tunings:
        phases: list[Any] = []
        engine = resumed(counter, known) if known else engine_of(counter)
        assert merges_of(learn(engine, max_merges, **rules, **one, phase_end=phases.append)) == expected
        for so_far in phases:
            assert merges_of(so_far) == expected[: len(so_far.counts)]
        if phases:
            known = data.draw(st.sampled_from(phases))
    assert not list(Path(SCRATCH).parent.glob(f"{Path(SCRATCH).name}*"))


@settings(deadline=None)
@given(st.lists(merge_cases.counters("abc", 2**40), max_size=3), st.integers(1, 5))
def test_the_tally_of_counts(parts: list[Counter], min_count: int) -> None:
    tally = _core.CountTally(min_count)
    for part in parts:
        tally.add(arrays(part))
    pre_tokens = [(pre_token, count) for part in parts for pre_token, count in part.items()]
    classes = tally.classes()
    assert [one[0] for one in classes] == sorted({one[0] for one in classes})
    for lowest in {one[0] for one in classes}:
        rows = [one for one in classes if one[0] >= lowest]
        of_them = [(pre_token, count) for pre_token, count in pre_tokens if count >= lowest]
        assert sum(one[1] for one in rows) == len(of_them)
        assert sum(one[2] for one in rows) == sum(len(pre_token) for pre_token, _ in of_them)
        assert sum(one[3] for one in rows) == sum(len(pre_token) + 1 for pre_token, _ in of_them if len(pre_token) > 1)
        assert sum(one[4] for one in rows) == pytest.approx(sum(count for _, count in of_them))
        assert sum(one[5] for one in rows) == pytest.approx(sum(len(pre_token) * count for pre_token, count in of_them))
    positions: dict[bytes, int] = {}
    for pre_token, count in pre_tokens:
        for at in range(len(pre_token) - 1 if count >= min_count else 0):
            positions[pre_token[at : at + 2]] = positions.get(pre_token[at : at + 2], 0) + 1
    all_and_most = sum(positions.values()), max(positions.values(), default=0)
    assert tally.first_index(100, 1 << 40) == (len(positions), *all_and_most)
