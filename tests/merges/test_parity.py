"""Merging by parity makes the merges of its definition and of Hugging Face's trainer, for any guesses and losses."""

import json
import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from amount import FULL
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_cases import arrays, natural_counter
from parity_rules import Parity, hugging_face_merges, letters_of, parities, train_by_parity
from parts_here import PartsHere

from pipeline import _core
from pipeline.merges import shared_worker
from pipeline.merges.vocabulary import text_to_token

_CASES = Path(os.environ.get("BPE_PIPELINE_TEST_DATA", "/nowhere")).parent / "cases" / "vocabularies"
_GLOBAL = 2**32 - 1


def train_parts(
    parity: Parity,
    max_merges: int,
    *,
    lost: Callable[[], Sequence[int]] = tuple,
    stop: int | None = None,
    narrow_symbols: int = 65536,
    index_positions: int = 0,
    threads: int = 0,
) -> tuple[list[tuple[int, int, int | None]], Any, Any]:
    """The merges and the training, with a stop after that many merges, from where another training continues.

    threads: with which parts in this process make merges without being asked; 0: they are asked.
    """
    known: dict[str, Any] = {}
    for merges in ([stop] if stop is not None else []) + [max_merges]:
        training = _core.SharedTraining(
            merges,
            min_frequency=parity.min_frequency,
            tie_break="greatest-letters",
            narrow_symbols=narrow_symbols,
            index_positions=index_positions,
            languages=len(parity.train),
            dev=parity.dev is not None,
            ratios=parity.ratios or [],
            window=parity.window,
            alpha=parity.alpha,
            global_merges=parity.global_merges,
            **known,
        )
        columns = [arrays(counter) for counter in [*parity.train, *(parity.dev or [])]]
        held = PartsHere(columns, training, lost, narrow_symbols=narrow_symbols)
        merge_here = partial(_merge_here, training, held._parts, threads) if threads else None
        shared_worker.merge(training, held, lambda: None, merge_here)
        known = {name: getattr(training.result, name) for name in ("left", "right", "counts", "joined")}
        spent, recent = training.choice
        known.update(chosen_by=training.chosen_by, spent=spent, recent=recent)
    result = training.result
    chosen_by = [None if language == _GLOBAL else language for language in training.chosen_by]
    return list(zip(result.left, result.right, chosen_by, strict=True)), training, held


def _merge_here(training: Any, parts: list[Any], threads: int) -> None:
    while training.merge_with(parts, threads, 0.001):
        pass


@settings(max_examples=20_000 if FULL else 80, deadline=None)
@given(
    parity=parities(),
    max_merges=st.integers(0, 40),
    stop=st.one_of(st.none(), st.integers(0, 20)),
    narrow_symbols=st.sampled_from([0, 260, 65536]),
    index_positions=st.sampled_from([0, 1, 20]),
    seed=st.one_of(st.none(), st.integers(0, 1000)),
    threads=st.sampled_from([0, 0, 1, 2]),
)
def test_merges_are_those_of_the_definition(
    parity: Parity,
    max_merges: int,
    stop: int | None,
    narrow_symbols: int,
    index_positions: int,
    seed: int | None,
    threads: int,
) -> None:
    chance = random.Random(seed)
    parts = len(parity.train) + len(parity.dev or [])

    def lost() -> list[int]:
        return [] if seed is None or threads or chance.random() < 0.7 else [chance.randrange(parts)]

    tuning = {"narrow_symbols": narrow_symbols, "index_positions": index_positions, "threads": threads}
    stop = None if stop is None else min(stop, max_merges)
    merges, training, _ = train_parts(parity, max_merges, lost=lost, stop=stop, **tuning)
    assert merges == train_by_parity(parity, max_merges)
    assert training.result.stop == ("limit" if len(merges) == max_merges else "min-frequency")


@settings(max_examples=5000 if FULL else 30, deadline=None)
@given(parity=parities(), max_merges=st.integers(0, 40))
def test_merges_are_those_of_tokenizers(parity: Parity, max_merges: int) -> None:
    trainers = pytest.importorskip("tokenizers.trainers")
    if not hasattr(trainers, "ParityBpeTrainer"):
        pytest.skip("tokenizers has no ParityBpeTrainer before 0.23.3")
    merges, training, _ = train_parts(parity, max_merges)
    while parity.window and merges and (len(merges) < max_merges or training.choice[0]):
        max_merges = min(max_merges - 1, len(merges))  # it may never return once a language has no pair left
        merges, training, _ = train_parts(parity, max_merges)
    assert letters_of(merges) == hugging_face_merges(parity, max_merges)


def test_merges_are_those_of_the_recorded_cases() -> None:
    if not _CASES.is_dir():
        pytest.skip("the recorded cases are not on this machine")
    paths = sorted(_CASES.glob("parity-*.json"))
    assert paths
    for path in paths:
        case = json.loads(path.read_text())
        options = dict(case["options"])
        variant = options.pop("variant", "base")
        window = options.pop("window", 100) if variant == "window" else 0
        train, dev = (
            [{text_to_token(text): count for text, count in one.items()} for one in case[name] or []]
            for name in ("train", "dev")
        )
        parity = Parity(train, dev or None, case["ratio"], window, **options)
        merges, *_ = train_parts(parity, case["num_merges"])
        assert letters_of(merges) == [tuple(one) for one in case["merges"]], path.name
        assert [language for *_, language in merges] == case["language"], path.name


def test_long_tails_of_many_languages_are_merged_in_few_exchanges() -> None:
    train = [natural_counter(seed, 200) for seed in range(3)]
    parity = Parity(train, dev=[natural_counter(seed + 10, 40) for seed in range(3)], global_merges=30)
    merges, training, held = train_parts(parity, 200)
    assert merges == train_by_parity(parity, 200)
    assert held.exchanges < 200
    assert training.result.bytes == sum(len(piece) * count for one in train for piece, count in one.items())


def test_counts_of_a_language_never_rise() -> None:
    _, training, _ = train_parts(Parity([natural_counter(seed, 300) for seed in range(3)]), 400)
    for language in range(3):
        chosen = zip(training.result.counts, training.chosen_by, strict=True)
        counts = [count for count, chose in chosen if chose == language]
        assert all(before >= after for before, after in pairwise(counts))


def test_language_without_pieces_is_refused() -> None:
    with pytest.raises(ValueError, match="language 1 has no pieces"):
        train_parts(Parity([{b"ab": 1}, {}]), 1)


def test_ratios_and_measured_texts_are_not_taken_together() -> None:
    counters = [{b"ab": 1}, {b"cd": 1}]
    with pytest.raises(ValueError, match="ratios need one for each language"):
        train_parts(Parity(counters, dev=counters, ratios=[1.0, 1.0]), 1)
