"""Tokenizers, patterns and encoded files in other processes: pickled, copied, equal, and of the same bytes."""

import copy
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest
import samples

import pipeline
from pipeline import Tokenizer
from pipeline.pattern.compiled import CompiledPattern, in_sequence
from pipeline.pattern.compiler import compile_pattern

TEXT = "the lower\n<|endoftext|>low 123 't été नमस्ते"
PATTERNS: dict[str, CompiledPattern] = {
    "gpt2": compile_pattern("gpt2"),
    "o200k": compile_pattern("o200k"),
    "by regex": compile_pattern(r"(?<=x)y|[^y]+|y", timeout_s=7),
    "sequence": in_sequence([compile_pattern(r"\d|\D+"), compile_pattern("gpt2")]),
}


def tokenizer(pattern: str) -> Tokenizer:
    return Tokenizer.from_merges(samples.trained("gpt2"), ["<|endoftext|>"], pattern=PATTERNS[pattern])


def used(ours: Tokenizer) -> Tokenizer:
    """Fill every cache."""
    ours.decode(ours.encode(TEXT, allowed_special={"<|endoftext|>"}), skip_special_tokens=True)
    assert all((ours.vocab, ours.merges, ours.get_vocab(), ours.vocabulary.texts, "\n" in ours))
    return ours


def copies(one: Any) -> list[Any]:
    """Copies made in every way, each equal to the original and pickled to the same bytes."""
    made = [pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)]
    for other in made:
        assert other == one
        assert other is not one or isinstance(one, CompiledPattern)
        assert pickle.dumps(other) == pickle.dumps(one)
    return made


@pytest.mark.parametrize("pattern", PATTERNS)
def test_copies_are_equal_and_encode_alike(pattern: str) -> None:
    ours = tokenizer(pattern)
    data, vocabulary = pickle.dumps(ours), ours.vocabulary
    for other in [*copies(ours), *copies(used(ours))]:
        assert other.encode(TEXT) == ours.encode(TEXT)
        assert repr(other) == repr(ours)
    assert pickle.dumps(used(ours)) == data  # not what was computed since
    parts = sum(map(len, vocabulary.tokens.values())) + 8 * len(ours) + 12 * len(vocabulary.left)
    assert len(data) < 20_000 + parts or pattern != "gpt2"
    text = TEXT.replace("<|endoftext|>", "xy")
    for cut in copies(PATTERNS[pattern]):
        assert cut.cut(text) == PATTERNS[pattern].cut(text)
        assert [name for name, known in PATTERNS.items() if known == cut] == [pattern]


def test_encoded_files_are_copied(tmp_path: Path) -> None:
    for name, last in (("a.txt", "lower"), ("b.txt", "lowest")):
        (tmp_path / name).write_text(f"low<|endoftext|>{last}")
    encoded, longer = (pipeline.encode_files(tmp_path / f"{name}.txt", tokenizer("gpt2"), workers=1) for name in "ab")
    for other in copies(encoded):
        assert [document.tolist() for document in other] == [document.tolist() for document in encoded]
    assert encoded not in (longer, [list(document) for document in encoded])
    with pytest.raises(TypeError, match="unhashable"):
        hash(encoded)


@pytest.mark.parametrize("way", ["spawn", "forkserver", "fork"])
def test_processes_take_a_tokenizer(way: str) -> None:
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot start processes by {way}")
    ours = used(tokenizer("gpt2"))
    texts = [TEXT, "low", ""]
    with multiprocessing.get_context(way).Pool(2) as pool:
        assert pool.map(ours.encode, texts) == ours.encode_batch(texts)
        assert pool.map(ours.decode, ours.encode_batch(texts)) == texts
        assert pool.apply(copy.copy, [ours]) == ours
        assert pool.apply(PATTERNS["o200k"].cut, ["a bc"]) == ["a", " bc"]


def test_data_sets_map_in_processes_and_reuse_their_cache(tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets", reason="needs the package datasets")
    rows = datasets.Dataset.from_dict({"text": [f"low lower {number}" for number in range(100)]})
    rows.save_to_disk(tmp_path / "rows")

    def mapped() -> Any:
        ours = used(tokenizer("gpt2"))
        loaded = datasets.load_from_disk(tmp_path / "rows")
        return loaded.map(lambda row: {"ids": ours.encode(row["text"])}, num_proc=2)

    def written(found: Any) -> dict[str, int]:
        return {file["filename"]: Path(file["filename"]).stat().st_mtime_ns for file in found.cache_files}

    ours, first = tokenizer("gpt2"), mapped()
    assert first["ids"][:] == ours.encode_batch(first["text"][:])
    files = written(first)
    assert written(mapped()) == files
    fingerprint = datasets.fingerprint.Hasher.hash
    assert fingerprint(ours) == fingerprint(used(tokenizer("gpt2"))) != fingerprint(tokenizer("o200k"))
