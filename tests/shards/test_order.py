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
from bpe_pipeline.shards.blocks import IdBlock
from bpe_pipeline.shards.bucket import BucketFiles, OpenBucket
from bpe_pipeline.shards.route import SortTask, dealt, sort_bucket

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


_DOCUMENTS = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 9), max_size=4), st.booleans()))


def entries_of(documents: list[tuple[int, list[int], bool]]) -> tuple[Any, Any]:
    """Return the ids of documents and their entries: keys, and sizes with the highest bit set where they end."""
    words = array("Q", [word for key, ids, ended in documents for word in (key, len(ids) | ended << 63)])
    return memoryview(array("H", [id_ for _, ids, _ in documents for id_ in ids])), memoryview(words)


@given(_DOCUMENTS, st.integers(0, 60), st.integers(1, 4))
def test_dealing_and_sorting_are_stable(listed: list[tuple[int, list[int], bool]], skip: int, bits: int) -> None:
    ids, words = entries_of(listed)
    found, positions = _core.in_order(ids, words, 2)
    in_order, ends = [], []
    for _, own, ended in sorted(listed, key=lambda entry: entry[0]):
        in_order += own
        ends += [len(in_order)] * ended
    assert (found.cast("H").tolist(), positions.tolist()) == (in_order, ends)
    for bucket, part in dealt(IdBlock(ids, words), 2, skip, bits):
        own = [entry for entry in listed if (entry[0] << skip) % 2**64 >> 64 - bits == bucket]
        assert [column.tolist() for column in part] == [column.tolist() for column in entries_of(own)]
    with pytest.raises(ValueError, match="other ids"):
        _core.in_order(memoryview(array("H", [*ids, 1])), words, 2)
    if ids:
        with pytest.raises(ValueError, match="other ids"):
            _core.in_order(ids[1:], words, 2)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_DOCUMENTS, st.integers(0, 3), st.integers(0, 400))
def test_a_bucket_is_sorted_in_any_memory(tmp_path_factory, listed, shared: int, memory_bytes: int) -> None:
    """One that is too large is dealt out again, as often as it takes; documents with one key are not."""
    listed = [(key & -1 << 62 if shared == 3 else key, ids, ended) for key, ids, ended in listed]
    files = BucketFiles(tmp_path_factory.mktemp("home"), "bucket-000", 2)
    bucket = OpenBucket(files)
    for start in range(0, len(listed), 5):
        bucket.append(*entries_of(listed[start : start + 5]))
    bucket.flush()
    bucket.close()
    blocks: list[tuple[memoryview, memoryview]] = []
    sort_bucket(SortTask(files, bucket.extent, 2 * shared, memory_bytes), lambda *block: blocks.append(block))
    in_order, ends = _core.in_order(*entries_of(listed), 2)
    assert b"".join(ids for ids, _ in blocks) == in_order
    assert [end for _, own in blocks for end in own] == (ends.tolist() if in_order else [])
    assert sorted(path.name for path in files.directory.iterdir()) == [".bucket-000.ends", ".bucket-000.ids"]


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
            if number and small:  # many buckets, too large for memory
                patched.setattr("bpe_pipeline.shards.route._BUCKET_BYTES", 3)
                patched.setattr("bpe_pipeline.shards.route._ENTRY_BYTES", 1 << 40)
            try:
                bpe_pipeline.encode(home / "a.txt", TOKENIZER, home / str(number), chunk_size=chunk_size, **options)
            except InputError as error:
                refused.append(str(error))
    assert "val_fraction" in options or not refused
    assert refused[:1] == refused[1:] if refused else everything(home / "0") == everything(home / "1")
