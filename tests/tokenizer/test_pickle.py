"""Tokenizers, patterns and encoded files in other processes: pickled, copied, equal, and of the same bytes."""

import copy
import multiprocessing
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples

import pipeline
from pipeline import ChatFormat, Tokenizer
from pipeline.pattern import CompiledPattern, compile_pattern, in_sequence
from pipeline.tokenizer.chat_templates import CHAT_TEMPLATES

TEXT = "the lower\n<|endoftext|>low 123 't été नमस्ते"
_SEQUENCE = in_sequence([compile_pattern(r"\d|\D+"), compile_pattern("gpt2")])
PATTERNS: dict[str, CompiledPattern] = {
    "gpt2": compile_pattern("gpt2"),
    "o200k": compile_pattern("o200k"),
    "by regex": compile_pattern(r"(?<=x)y|[^y]+|y", timeout_s=7),
    "sequence": _SEQUENCE,
}


def tokenizer(pattern: str) -> Tokenizer:
    return Tokenizer.from_merges(samples.trained("gpt2"), ["<|endoftext|>"], pattern=PATTERNS[pattern])


def used(ours: Tokenizer) -> Tokenizer:
    """Fill every cache."""
    ours.encode(TEXT, allowed_special={"<|endoftext|>"})
    ours.decode(ours.encode(TEXT), skip_special_tokens=True)
    assert ours.vocab
    assert ours.merges
    assert ours.get_vocab()
    assert ours.vocabulary.texts
    assert "\n" in ours
    return ours


@pytest.mark.parametrize("pattern", PATTERNS)
def test_copies_are_equal_and_encode_alike(pattern: str) -> None:
    ours = tokenizer(pattern)
    data = pickle.dumps(ours)
    for other in (pickle.loads(data), copy.copy(used(ours)), copy.deepcopy(ours)):
        assert other == ours
        assert other is not ours
        assert other.encode(TEXT) == ours.encode(TEXT)
        assert repr(other) == repr(ours)
        assert pickle.dumps(other) == pickle.dumps(ours)
    assert pickle.dumps(used(ours)) == data  # not what was computed since


def test_a_pickled_tokenizer_is_small() -> None:
    ours = tokenizer("gpt2")
    tokens = sum(map(len, ours.vocabulary.tokens.values()))
    merges = len(ours.vocabulary.left)
    assert len(pickle.dumps(ours)) < 20_000 + tokens + 8 * len(ours) + 12 * merges


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_copied(pattern: str) -> None:
    ours = PATTERNS[pattern]
    text = TEXT.replace("<|endoftext|>", "xy")
    pieces = ours.cut(text)
    for other in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), copy.copy(ours)):
        assert other == ours
        assert other.cut(text) == pieces
        assert pickle.dumps(other) == pickle.dumps(ours)


def test_encoded_files_are_copied(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low<|endoftext|>lower")
    ours = tokenizer("gpt2")
    encoded = pipeline.encode_files(tmp_path / "a.txt", ours, workers=1)
    for other in (pickle.loads(pickle.dumps(encoded)), copy.deepcopy(encoded)):
        assert other == encoded
        assert [document.tolist() for document in other] == [document.tolist() for document in encoded]
    (tmp_path / "b.txt").write_text("low<|endoftext|>lowest")
    assert encoded != pipeline.encode_files(tmp_path / "b.txt", ours, workers=1)
    assert encoded != [list(document) for document in encoded]
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

    first = mapped()
    ours = tokenizer("gpt2")
    assert first["ids"][:] == ours.encode_batch(first["text"][:])
    files = {file["filename"]: Path(file["filename"]).stat().st_mtime_ns for file in first.cache_files}
    again = mapped()
    assert {file["filename"]: Path(file["filename"]).stat().st_mtime_ns for file in again.cache_files} == files
    fingerprint = datasets.fingerprint.Hasher.hash
    assert fingerprint(ours) == fingerprint(used(tokenizer("gpt2"))) != fingerprint(tokenizer("o200k"))


class Texts:
    """A data set for torch; in a spawned worker the tokenizer is unpickled."""

    def __init__(self, tokenizer: Tokenizer, texts: list[str]) -> None:
        self.tokenizer, self.texts = tokenizer, texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Any:
        return self.tokenizer.encode_to_numpy(self.texts[index])


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_a_data_loader_spawns_workers(way: str) -> None:
    data: Any = pytest.importorskip("torch.utils.data", reason="needs the package torch")
    ours = used(tokenizer("gpt2"))
    texts = [f"low lower {number}" for number in range(20)]
    loader = data.DataLoader(
        Texts(ours, texts), batch_size=None, num_workers=2, multiprocessing_context=way, shuffle=False
    )
    assert [ids.tolist() for ids in loader] == ours.encode_batch(texts)


def test_other_public_objects_are_copied() -> None:
    template = CHAT_TEMPLATES["chatml"]
    model = Tokenizer.from_merges([], ["<|im_start|>", "<|im_end|>"]).model
    chat = ChatFormat(Tokenizer.from_model(replace(model, chat_template=template)))
    message = {"role": "user", "content": "x"}
    other = pickle.loads(pickle.dumps(chat))
    assert other.encode_message(message) == chat.encode_message(message)
