"""Merging by parity makes the merges of its definition and of Hugging Face's trainer."""

import time
from functools import partial
from typing import Any

import pytest
from amount import FULL
from hypothesis import example, given, settings
from hypothesis import strategies as st
from merge_cases import arrays, natural_counter, split
from parity_rules import Parity, hugging_face_merges, letters_of, parities, train_by_parity
from recorded import recorded

from bpe_pipeline import _core
from bpe_pipeline.merges.vocabulary import text_to_token

_GLOBAL = 2**32 - 1


def learn(
    parity: Parity, max_merges: int, *, stop: int | None = None, **tuning: int
) -> tuple[list[tuple[int, int, int | None]], Any]:
    """The merges and the training, with a stop after that many merges, from where another training continues."""
    rules, how = split({name: value for name, value in vars(parity).items() if value is not None} | parity.token_rules)
    del how["token_rules"]
    languages, dev = ([partial(list, [arrays(counter)]) for counter in how.pop(name, [])] for name in ("train", "dev"))
    known: dict[str, Any] = {}
    for merges in ([stop] if stop is not None else []) + [max_merges]:
        training = _core.ParityTraining(merges, rules, languages, dev, **how, **tuning, **known)
        while training.merge(0.001):
            pass
        known = {name: getattr(training.result, name) for name in ("left", "right", "counts", "joined")}
        spent, recent = training.choice
        known.update(chosen_by=training.chosen_by, spent=spent, recent=recent)
    result = training.result
    chosen_by = [None if language == _GLOBAL else language for language in training.chosen_by]
    return list(zip(result.left, result.right, chosen_by, strict=True)), training


tuning = st.fixed_dictionaries(
    {
        "narrow_symbols": st.sampled_from([0, 260, 65536]),
        "index_positions": st.sampled_from([0, 1, 20]),
        "threads": st.sampled_from([1, 2]),
        "share_from": st.sampled_from([0, 3, 1500]),
    }
)


@settings(max_examples=20_000 if FULL else 80, deadline=None)
@given(
    parity=parities(with_rules=True),
    max_merges=st.integers(0, 40),
    stop=st.one_of(st.none(), st.integers(0, 20)),
    tuning=tuning,
)
@example(Parity([{b"abcd": 9, b"efgh": 5}, {b"ij": 1}], window=2, alpha=1.0), 4, None, {})  # just its share: chosen
def test_merges_are_those_of_the_definition(
    parity: Parity, max_merges: int, stop: int | None, tuning: dict[str, int]
) -> None:
    stop = None if stop is None else min(stop, max_merges)
    merges, training = learn(parity, max_merges, stop=stop, **tuning)
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
            [{text_to_token(text): count for text, count in one.items()} for one in case[which] or []]
            for which in ("train", "dev")
        )
        merges, _ = learn(Parity(train, dev or None, case["ratio"], window, **options), case["num_merges"])
        assert letters_of(merges) == [tuple(one) for one in case["merges"]], path.name
        assert [language for *_, language in merges] == case["language"], path.name


def test_long_tails_of_many_languages_are_merged_in_few_phases() -> None:
    train = [natural_counter(seed, 200) for seed in range(3)]
    parity = Parity(train, dev=[natural_counter(seed + 10, 40) for seed in range(3)], global_merges=30)
    merges, training = learn(parity, 200)
    assert merges == train_by_parity(parity, 200)
    assert training.result.phases < 10
    assert training.result.bytes == sum(len(pre_token) * count for one in train for pre_token, count in one.items())


def test_languages_that_cannot_be_measured_are_refused() -> None:
    two = [{b"ab": 1}, {b"cd": 1}]
    with pytest.raises(ValueError, match="language 1 has no pre-tokens"):
        learn(Parity([{b"ab": 1}, {}]), 1)
    with pytest.raises(ValueError, match="ratios need one for each language"):
        learn(Parity(two, two, [1.0, 1.0]), 1)


def test_long_window_that_leaves_only_spent_languages_is_passed_at_once() -> None:
    parity = Parity([{b"ab": 1}, {b"abcabc": 3, b"bcd": 2}, {b"xyz": 4, b"yzx": 1}], window=1_000_000, alpha=1e-9)
    start = time.process_time()
    merges, training = learn(parity, 100)
    assert training.result.stop == "min-frequency"
    assert sorted({language for *_, language in merges}) == [0, 1, 2]
    assert time.process_time() - start < 10
