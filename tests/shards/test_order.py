"""The order of documents: shuffled and held out, compared with what it must keep and be free of."""

import json
from array import array
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from amount import FULL
from encoded import EOT, TOKENIZER, everything, read_shards, write_lines
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from peers import generated_text

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError

END = TOKENIZER.special_tokens[EOT]


def documents(ids: list[int]) -> list[str]:
    """Return the texts of ids that separators end."""
    return TOKENIZER.decode(ids).split(EOT)[:-1]


def splits(output: Path) -> tuple[list[str], list[str]]:
    """Return the documents of training and of validation."""
    described = json.loads((output / "shards.json").read_text())
    ids: tuple[list[int], list[int]] = [], []
    for shard in described["shards"]:
        ids[shard["name"].startswith("validation/")].extend(array("H", (output / shard["name"]).read_bytes()))
    return documents(ids[0]), documents(ids[1])


_DOCUMENTS = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 9), max_size=4), st.booleans()), max_size=6)


@given(st.lists(_DOCUMENTS, max_size=4))
def test_a_bucket_of_several_runs_is_a_stable_sort(runs: list[list[tuple[int, list[int], bool]]]) -> None:
    entries = [entry for run in runs for entry in run]
    words = array("Q", [word for key, ids, ended in entries for word in (key, len(ids) | ended << 63)])
    parts = [array("H", [id_ for _, ids, _ in run for id_ in ids]) for run in runs]
    expected, ends = [], []
    for _, ids, ended in sorted(entries, key=lambda entry: entry[0]):
        expected += ids
        ends += [len(expected)] * ended
    found, positions = _core.in_order(words, parts, 2)
    assert (found.cast("H").tolist(), positions.tolist()) == (expected, ends)
    with pytest.raises(ValueError, match="other ids"):
        _core.in_order(words, [*parts, array("H", [1])], 2)
    if expected:
        last = max(at for at, part in enumerate(parts) if part)
        with pytest.raises(ValueError, match="other ids"):
            _core.in_order(words, [*parts[:last], parts[last][:-1], *parts[last + 1 :]], 2)


TEXTS = [f"{number} {generated_text(number, 8 + number % 40)}" for number in range(300)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "a.jsonl", TEXTS)


def test_shuffle_is_a_permutation_that_the_seed_decides(corpus: Path, tmp_path: Path) -> None:
    found = {}
    for name, seed in {"a": 1, "b": 1, "c": 2}.items():
        bpe_pipeline.encode(corpus, TOKENIZER, tmp_path / name, shuffle=True, seed=seed, chunk_size=4000)
        found[name] = documents(read_shards(tmp_path / name))
        assert Counter(found[name]) == Counter(TEXTS)
    assert found["a"] == found["b"] != found["c"]
    neighbours = sum(abs(int(one.split()[0]) - int(other.split()[0])) == 1 for one, other in pairwise(found["a"]))
    assert neighbours < 10  # two of 300 are expected
    place = [int(text.split()[0]) for text in found["a"]]
    assert place[:8] == [101, 248, 253, 272, 261, 179, 214, 231]  # a seed has the same order in every version
    assert 110 < sum(place[:100]) / 100 < 190  # 149.5 is expected


def test_validation_stays_when_the_corpus_grows(tmp_path: Path) -> None:
    held_out = []
    for number, count in enumerate((200, 300)):
        corpus = write_lines(tmp_path / f"{number}.jsonl", [*TEXTS[250:], *TEXTS[:count]])
        output = tmp_path / str(number)
        bpe_pipeline.encode(corpus, TOKENIZER, output, val_fraction=0.2, shard_format="bin", chunk_size=3000)
        train, validation = splits(output)
        assert Counter(train + validation) == Counter([*TEXTS[250:], *TEXTS[:count]])
        assert not {*train} & {*validation}
        held_out.append({*validation})
    assert held_out[0] < held_out[1]
    assert 35 < len(held_out[1]) < 90


@pytest.mark.parametrize(("share", "message"), [(0.999999, "training .*a smaller"), (1e-9, "validation .*a larger")])
def test_an_empty_side_is_an_error(share: float, message: str, tmp_path: Path) -> None:
    corpus = write_lines(tmp_path / "a.jsonl", ["a", "b", "c"])
    said = f"leaves nothing for {message} share, or name .* --split-at"
    with pytest.raises(InputError, match=said.replace(" .*a", " of the 3 documents of this corpus: give a")):
        bpe_pipeline.encode(corpus, TOKENIZER, tmp_path / "out", val_fraction=share)


PRE_TOKENS = [EOT, "a", " t", "er", "日本", "\n", "x" * 30, "long words " * 5]
SHAPES = [
    {},
    {"sequence_length": 7},
    {"sequence_length": 9, "pack": "best-fit"},
    {"sequence_length": 5, "pack": "none"},
]
ORDERS = [
    {},
    {"shuffle": True},
    {"val_fraction": 0.3},
    {"val_fraction": 0.3, "shuffle": True, "seed": 2},
]


OPTIONS = st.builds(
    lambda order, shape, **options: {**order, **shape, **options},
    st.sampled_from(ORDERS),
    st.sampled_from(SHAPES),
    shard_size=st.integers(9, 60),
    shard_format=st.sampled_from(["bin", "npy", "arrow", "megatron", "mds", "parquet"]),
    documents=st.sampled_from(["offsets", "separator"]),
)
TEXT = st.lists(st.sampled_from(PRE_TOKENS), min_size=1, max_size=60 if FULL else 30).map("".join)
TEXT = TEXT.filter(lambda text: text.replace(EOT, "").strip())  # not a corpus without text


@settings(max_examples=80 if FULL else 15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, st.tuples(st.integers(1, 80), st.integers(1, 2000)), OPTIONS, st.booleans())
@example(f"a{EOT}", (1, 2), {"sequence_length": 7, "shard_format": "bin", "documents": "offsets"}, False)
def test_one_answer_for_any_chunks_and_memory(
    tmp_path_factory, monkeypatch, text: str, chunks: tuple[int, int], options: dict[str, Any], small: bool
) -> None:
    home = tmp_path_factory.mktemp("any")
    (home / "a.txt").write_text(text)
    refused = list[str]()
    for number, chunk_size in enumerate(chunks):
        with monkeypatch.context() as patched:
            if number and small:  # buckets of a few ids, too large for memory
                patched.setattr("bpe_pipeline.shards.order._SMALL", 40)
                patched.setattr("bpe_pipeline.shards.order._LARGE", 1 << 60)
                patched.setattr("bpe_pipeline.shards.ids_in_order._IN_MEMORY", 10)
            try:
                bpe_pipeline.encode(home / "a.txt", TOKENIZER, home / str(number), chunk_size=chunk_size, **options)
            except InputError as error:
                refused.append(str(error))
    assert "val_fraction" in options or not refused
    assert refused[:1] == refused[1:] if refused else everything(home / "0") == everything(home / "1")
