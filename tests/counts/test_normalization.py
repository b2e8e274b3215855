"""Text in NFC before it is split: counters, merges and tokenizers are those of the tokenizers library with its NFC."""

import itertools
import json
import runpy
import unicodedata
from collections import Counter
from dataclasses import replace
from pathlib import Path

import peers
import pytest
import samples
import tokenizers
from command import run, succeeded
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oracle_counting import as_counter
from tokenizers import normalizers, pre_tokenizers, trainers

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base.errors import ExportRefusedError, UsageError
from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.cut_files import cut_file
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.counts.foreign_worker import cut_otherwise
from bpe_pipeline.pattern.classes import NFC_ACTIVE
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.normalization import nfc, nfc_form
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS
from bpe_pipeline.tokenizer.model import Model

pytestmark = pytest.mark.filterwarnings("ignore:in a sample of the corpus NFC rewrites")
END = "<|end|>"
PATTERN = compile_pattern("gpt2")
CUTTERS = [PATTERN.automaton, PATTERN.cut]
# Marks in order and out of it, letters that join or change alone, Hangul in parts, what only newer Unicode joins; and
# `>`, which joins with a mark: a special token is found before.
CLUSTERS = [*"ab1> \n日か", *"e\u0301\u0323\u0302\u0338", "\u1100\u1161\u11a8", "각", "\u0958", "\u2126", "\u3099"]
CLUSTERS += ["\u0344", "\U0001d15e", "\ufa0c", "\U00011383\U000113c9", END, "<|", "a" + "\u0301\u0323" * 9]
TEXT = st.lists(st.sampled_from(CLUSTERS), max_size=60).map("".join)


def counted(text: str, cutter: object, blocks: list[int], window: int) -> dict[bytes, int]:
    counter = _core.ChunkCounter(cutter, [END], window_bytes=window, form=nfc_form())  # type: ignore[arg-type]
    data, at = text.encode(), 0
    for size in itertools.cycle(blocks):
        counter.feed(data[at : at + size])
        at += size
        if at >= len(data):
            break
    counter.feed(b"", end=True)
    return as_counter(counter.columns())


@settings(max_examples=400, deadline=None)
@given(TEXT, st.sampled_from(CUTTERS), st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 300))
@example("e" + "\u0301" * 2000 + END + "\u0338", CUTTERS[0], [7], 16)
def test_counter_is_that_of_the_normalized_stretches(text, cutter, blocks, window):
    expected = Counter(pre_token.encode() for part in text.split(END) for pre_token in PATTERN.cut(nfc(part)))
    assert counted(text, cutter, blocks, window) == expected


@settings(max_examples=400, deadline=None)
@given(TEXT)
def test_text_is_cut_only_where_both_sides_are_normalized_apart(text):
    theirs, data = normalizers.NFC(), text.encode()
    for at in range(len(text) + 1):
        if nfc_form().can_cut(data, len(text[:at].encode())):
            before, after = theirs.normalize_str(text[:at]), theirs.normalize_str(text[at:])
            assert before + after == theirs.normalize_str(text)
            if 0 < at < len(text):
                assert (before[-1], after[0]) == (text[at - 1], text[at])  # what a pattern's proof is of


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, st.integers(1, 30), st.integers(1, 9))
@example("a = b", 3, 1)
@example("a e\u0301", 3, 2)
def test_chunks_end_where_pre_tokens_of_the_normalized_text_end(tmp_path, text, chunk_bytes, read_bytes):
    # To this pattern, `e` and what it becomes with a mark are of different classes.
    pattern, path = compile_pattern("[a-z]+|[^a-z]+"), tmp_path / "text"
    path.write_text(text)
    cutting = Cutting((), pattern.automaton, form=nfc_form())
    cuts = cut_file(describe(str(path)), cutting, chunk_bytes=chunk_bytes, read_bytes=read_bytes)
    spans = [text.encode()[start:stop].decode() for start, stop in itertools.pairwise([0, *cuts, None])]
    assert [pre_token for span in spans for pre_token in pattern.cut(nfc(span))] == pattern.cut(nfc(text))


@pytest.mark.slow
def test_inert_characters_never_change_and_never_join() -> None:
    active = {code for first, last in NFC_ACTIVE for code in range(first, last + 1)}
    inert = [chr(code) for code in range(0x110000) if code not in active and not 0xD800 <= code < 0xE000]
    assert len(active) == 2001
    theirs = normalizers.NFC()
    for before in ("e", "\u0915", "\u1100", "\uac00", "\u0301"):
        text = "".join(f"{before}{one} " for one in inert)
        assert theirs.normalize_str(text) == text
    alone = [code for code in active if unicodedata.combining(chr(code)) or nfc(chr(code)) != chr(code)]
    assert len(alone) > 1900  # the others join with what stands before them


def test_imported_pre_tokens_that_are_not_in_the_form_are_noticed() -> None:
    pattern = replace(compile_pattern("none"), nfc=True)
    assert cut_otherwise([b"ab", "e\u0301".encode(), "\xe9".encode()], pattern) == ["e\u0301".encode()]


def test_what_is_wrong_with_the_table_is_refused() -> None:
    alone = ((0x301, 0x300), (0x41, 0x41), (0x4E00, 0x4E00), (1 << 20, 1 << 21))
    for runs in (*([one] for one in alone), [(0x302, 0x303), (0x303, 0x304)]):
        with pytest.raises(ValueError, match=r"code points do not rise|taken for inert"):
            _core.NormalForm(runs, nfc)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ["ấy", "đọc", "những", "한국어", "héllo", "Ångström", "क़लम", "がぱ", "≯", "Ω", *peers.WORDS]
    words += [unicodedata.normalize("NFD", word) for word in words]
    file = tmp_path_factory.mktemp("normal") / "corpus.txt"
    file.write_text("".join(f"{words[n * n % len(words)]} {words[n * 7 % len(words)]} {END}" for n in range(4000)))
    return file


@pytest.mark.parametrize(("chunk_size", "workers"), [(1 << 20, 1), (5000, 2)])
def test_merges_are_those_of_tokenizers_with_its_normalizer(
    corpus: Path, tmp_path: Path, chunk_size: int, workers: int
) -> None:
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.normalizer, theirs.pre_tokenizer = normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    theirs.train_from_iterator(corpus.read_text().split(END), trainer)
    options = {"special_tokens": [END], "normalize": "nfc", "chunk_size": chunk_size, "workers": workers}
    ours = bpe_pipeline.train(corpus, output=tmp_path / "run", vocab_size=331, **options)  # type: ignore[misc]
    written = json.loads((tmp_path / "run/tokenizer/tokenizer.json").read_text())
    assert written["model"]["merges"] == json.loads(theirs.to_str())["model"]["merges"]
    assert written["normalizer"] == {"type": "NFC"}
    loaded, text = tokenizers.Tokenizer.from_file(str(tmp_path / "run/tokenizer/tokenizer.json")), corpus.read_text()
    assert ours.encode(text) == loaded.encode(text).ids
    assert bpe_pipeline.verify(tmp_path / "run")
    with pytest.raises(ExportRefusedError, match="cannot say how text is prepared"):
        ours.to_tiktoken()
    checked = run("export", tmp_path / "run", "--export", "tiktoken", "--check", "--output", tmp_path / "ranks")
    assert "the same ids on" in succeeded(checked).stdout
    encoding = runpy.run_path(str(tmp_path / "ranks/tiktoken_encoding.py"))["encoding"]
    joined = f"e\u0301{END}\u0338e\u0301"  # its last mark would join with `>`
    for special, expected in ((END, ours.encode), ("", ours.encode_ordinary)):
        how = {"allowed_special": {special} - {""}, "disallowed_special": ()}
        assert encoding.encode(joined, **how) == encoding.encode_batch([joined], **how)[0] == expected(joined)
        assert encoding.encode_to_numpy(joined, **how).tolist() == expected(joined)
        stable, ends = encoding.encode_with_unstable(f"{joined} b", **how)
        assert any(stable + end[:1] == expected(f"{joined} b")[: len(stable) + 1] for end in ends)
    assert encoding.encode_ordinary(joined) == ours.encode_ordinary(joined)


def test_gguf_is_written_without_the_normalizer_and_says_how_many_texts_get_other_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in range(4):
        (tmp_path / f"{name}.txt").write_text(unicodedata.normalize("NFD" if name else "NFC", "những đọc\n" * 50))
    how = {"special_tokens": ["<|endoftext|>"], "normalize": "nfc", "vocab_size": 300}
    files = [tmp_path / f"{name}.txt" for name in range(4)]
    bpe_pipeline.train(files, output=tmp_path / "run", **how)  # type: ignore[arg-type]
    written: list[Model] = []
    without_gguf = replace(FORMATS["gguf"], write=lambda model, _: written.append(model) or [])
    monkeypatch.setitem(FORMATS, "gguf", without_gguf)
    done = bpe_pipeline.export(tmp_path / "run", export=["gguf"], without_normalizer=True)
    assert "note: 3 of 4 sample texts (75.0%) get other ids in llama.cpp" in done.notes[0]
    assert [one.preparation.nfc for one in written] == [False]
    samples.tokenizer("gpt2", (END,)).save(tmp_path / "plain")
    for base, asked in (("run", "tiktoken"), ("plain", "gguf")):
        with pytest.raises(UsageError, match="--without-normalizer means nothing here"):
            bpe_pipeline.export(tmp_path / base, export=[asked], without_normalizer=True, output=tmp_path / "out")
