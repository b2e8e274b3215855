"""Merging by parity makes the merges of its definition and of Hugging Face's trainer."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from amount import FULL
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_cases import Counter, arrays, natural_counter
from parity_rules import Parity, hugging_face_merges, letters_of, parities, train_by_parity
from recorded import recorded

from pipeline import _core
from pipeline.merges.vocabulary import text_to_token

_GLOBAL = 2**32 - 1


def learn(
    parity: Parity, max_merges: int, *, stop: int | None = None, **tuning: int
) -> tuple[list[tuple[int, int, int | None]], Any]:
    """The merges and the training, with a stop after that many merges, from where another training continues."""
    known: dict[str, Any] = {}
    languages, dev = ([_reader(counter) for counter in one or []] for one in (parity.train, parity.dev))
    for merges in ([stop] if stop is not None else []) + [max_merges]:
        training = _core.ParityTraining(
            merges,
            languages,
            dev,
            min_frequency=parity.min_frequency,
            max_token_bytes=parity.max_token_bytes,
            whole_characters=parity.whole_characters,
            ratios=parity.ratios or [],
            window=parity.window,
            alpha=parity.alpha,
            global_merges=parity.global_merges,
            **tuning,
            **known,
        )
        while training.merge(0.001):
            pass
        known = {name: getattr(training.result, name) for name in ("left", "right", "counts", "joined")}
        spent, recent = training.choice
        known.update(chosen_by=training.chosen_by, spent=spent, recent=recent)
    result = training.result
    chosen_by = [None if language == _GLOBAL else language for language in training.chosen_by]
    return list(zip(result.left, result.right, chosen_by, strict=True)), training


def _reader(counter: Counter) -> Callable[[], list[Any]]:
    columns = arrays(counter)
    return lambda: [columns]


@settings(max_examples=20_000 if FULL else 80, deadline=None)
@given(
    parity=parities(rules=True),
    max_merges=st.integers(0, 40),
    stop=st.one_of(st.none(), st.integers(0, 20)),
    narrow_symbols=st.sampled_from([0, 260, 65536]),
    index_positions=st.sampled_from([0, 1, 20]),
    threads=st.sampled_from([1, 2]),
    share_from=st.sampled_from([0, 3, 1500]),
)
def test_merges_are_those_of_the_definition(
    parity: Parity,
    max_merges: int,
    stop: int | None,
    narrow_symbols: int,
    index_positions: int,
    threads: int,
    share_from: int,
) -> None:
    stop = None if stop is None else min(stop, max_merges)
    tuning = {"narrow_symbols": narrow_symbols, "index_positions": index_positions, "share_from": share_from}
    merges, training = learn(parity, max_merges, stop=stop, threads=threads, **tuning)
    assert merges == train_by_parity(parity, max_merges)
    assert training.result.stop == ("limit" if len(merges) == max_merges else "min-frequency")


@settings(max_examples=5000 if FULL else 30, deadline=None)
@given(parity=parities(), max_merges=st.integers(0, 40))
def test_merges_are_those_of_tokenizers(parity: Parity, max_merges: int) -> None:
    trainers = pytest.importorskip("tokenizers.trainers")
    if not hasattr(trainers, "ParityBpeTrainer"):
        pytest.skip("tokenizers has no ParityBpeTrainer before 0.23.3")
    merges, training = learn(parity, max_merges)
    while parity.window and merges and (len(merges) < max_merges or training.choice[0]):
        max_merges = min(max_merges - 1, len(merges))  # it may never return once a language has no pair left
        merges, training = learn(parity, max_merges)
    assert letters_of(merges) == hugging_face_merges(parity, max_merges)


def test_merges_are_those_of_the_recorded_cases() -> None:
    for path, case in recorded("vocabularies", "parity-*.json"):
        options = dict(case["options"])
        variant = options.pop("variant", "base")
        window = options.pop("window", 100) if variant == "window" else 0
        train, dev = (
            [{text_to_token(text): count for text, count in one.items()} for one in case[name] or []]
            for name in ("train", "dev")
        )
        parity = Parity(train, dev or None, case["ratio"], window, **options)
        merges, _ = learn(parity, case["num_merges"])
        assert letters_of(merges) == [tuple(one) for one in case["merges"]], path.name
        assert [language for *_, language in merges] == case["language"], path.name


def test_long_tails_of_many_languages_are_merged_in_few_phases() -> None:
    train = [natural_counter(seed, 200) for seed in range(3)]
    parity = Parity(train, dev=[natural_counter(seed + 10, 40) for seed in range(3)], global_merges=30)
    merges, training = learn(parity, 200)
    assert merges == train_by_parity(parity, 200)
    assert training.result.phases < 10
    assert training.result.bytes == sum(len(piece) * count for one in train for piece, count in one.items())


def test_counts_of_a_language_never_rise() -> None:
    _, training = learn(Parity([natural_counter(seed, 300) for seed in range(3)]), 400)
    for language in range(3):
        chosen = zip(training.result.counts, training.chosen_by, strict=True)
        counts = [count for count, chose in chosen if chose == language]
        assert all(before >= after for before, after in pairwise(counts))


def test_language_without_pieces_is_refused() -> None:
    with pytest.raises(ValueError, match="language 1 has no pieces"):
        learn(Parity([{b"ab": 1}, {}]), 1)


def test_ratios_and_measured_texts_are_not_taken_together() -> None:
    counters = [{b"ab": 1}, {b"cd": 1}]
    with pytest.raises(ValueError, match="ratios need one for each language"):
        learn(Parity(counters, dev=counters, ratios=[1.0, 1.0]), 1)


def test_long_window_that_leaves_only_spent_languages_is_passed_at_once() -> None:
    parity = Parity([{b"ab": 1}, {b"abcabc": 3, b"bcd": 2}, {b"xyz": 4, b"yzx": 1}], window=1_000_000, alpha=1e-9)
    start = time.process_time()
    merges, training = learn(parity, 100)
    assert training.result.stop == "min-frequency"
    assert sorted({language for *_, language in merges}) == [0, 1, 2]
    assert time.process_time() - start < 10
