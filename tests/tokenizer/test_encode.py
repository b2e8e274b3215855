"""Texts to ids by every method, compared with `encode` of the whole text and with peers; memory and length."""

import io
import os
import random
import resource
import runpy
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import command
import numpy as np
import peers
import pytest
import samples
import tiktoken
from amount import FULL
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as HuggingFaceTokenizer

from pipeline import Tokenizer, _core
from pipeline.base.errors import SpecialTokenError, UsageError
from pipeline.merges.vocabulary import Vocabulary
from pipeline.run.ids import BYTE_ORDER

SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>", "é<"]
LOOKBEHIND = r"(?<=x)y|[^y]+|y"  # only the `regex` package runs it
TOKENIZERS = {
    pattern: Tokenizer.from_merges(samples.trained(pattern), SPECIALS, pattern=pattern) for pattern in samples.PATTERNS
}
TOKENIZERS[LOOKBEHIND] = Tokenizer.from_merges(samples.trained("none"), SPECIALS, pattern=LOOKBEHIND)

# What makes trouble: all planes, lone halves of pairs, specials and their parts, runs, words that have tokens.
CHARACTERS = st.one_of(
    st.characters(),
    st.integers(0xD800, 0xDFFF).map(chr),
    st.sampled_from(["\x00", " ", "\n", "'", "\r\n", "\u3000", "\u0085", "<|", "|>", *SPECIALS, *peers.WORDS]),
)
TEXTS = st.lists(CHARACTERS, max_size=40).map("".join)


def in_blocks(text: str, sizes: list[int], *, as_bytes: bool) -> Iterator[str | bytes]:
    whole = text.encode("utf-8", "replace") if as_bytes else text
    at = 0
    for size in sizes:
        yield whole[at : at + size]
        at += size
    yield whole[at:]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.tokenizer.encode._BLOCK_BYTES", 1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("pattern", TOKENIZERS)
def test_blocks_have_the_ids_of_the_whole_text(pattern: str) -> None:
    @settings(max_examples=120 if FULL else 30, deadline=None)
    @given(TEXTS, st.lists(st.integers(0, 9), max_size=12), st.booleans())
    def check(text: str, sizes: list[int], as_bytes: bool) -> None:
        ours = TOKENIZERS[pattern]
        expected = ours.encode(text.encode("utf-8", "replace") if as_bytes else text)
        assert list(ours.encode_iterable(in_blocks(text, sizes, as_bytes=as_bytes))) == expected

    check()


@pytest.mark.usefixtures("small_blocks")
def test_every_block_size() -> None:
    text = "".join(samples.all_planes(5, 20)) + "<|a|><|b|>x<|a|><|b<|endoftext|>" + "   \n\n  y"
    for pattern in ("gpt2", "llama3", "none", LOOKBEHIND):
        ours = TOKENIZERS[pattern]
        data, expected = text.encode(), ours.encode(text)
        for size in (1, 2, 3, 5, 7, 11, 64, 1000):
            blocks = [data[at : at + size] for at in range(0, len(data), size)]
            assert list(ours.encode_iterable(blocks)) == expected


def test_blocks_are_str_or_bytes() -> None:
    ours = TOKENIZERS["gpt2"]
    assert list(ours.encode_iterable(["a\ud83d", "\ude00b"])) == ours.encode("a😀b")
    assert list(ours.encode_iterable([b"a\xe2\x82", "b", bytearray(b"c"), "\ud83d", b"d"])) == ours.encode(
        "a\ufffdbc\ufffdd"
    )
    assert list(ours.encode_iterable("one text")) == ours.encode("one text")
    assert list(ours.encode_iterable([])) == []
    with pytest.raises(UsageError, match="type int"):
        list(ours.encode_iterable([7]))  # type: ignore[list-item]


def test_memory_of_blocks_is_bounded() -> None:
    """21 MB of text, and the 5 million ids of it, pass through a process that grows by less than 10 MB."""
    text = (
        "import memory_peak, samples\nfrom pipeline import Tokenizer\n"
        "ours = Tokenizer.from_merges(samples.trained('gpt2'), ['<s>'])\n"
        "line = 'the words of a line, and some more of them\\n' * 500\n"
        "grown = memory_peak.growth()\n"
        "count = sum(1 for _ in ours.encode_iterable(line for _ in range(1000)))\n"
        "print(count == 1000 * len(ours.encode(line)), grown())\n"
    )
    same, grown = command.script(text).split()
    assert same == "True"
    assert int(grown) < 10_000_000


@pytest.mark.parametrize("threads", [None, 1, 2, 5])
def test_batches_keep_order(threads: int | None) -> None:
    texts: list[str | bytes] = [*samples.all_planes(9, 300), "", b"bytes\xff", "\ud800", "the words " * 20_000]
    for pattern in ("gpt2", LOOKBEHIND):
        ours = TOKENIZERS[pattern]
        assert ours.encode_batch(texts, num_threads=threads) == [ours.encode(text) for text in texts]
    ordinary = ours.encode_ordinary_batch(iter(["<|a|>", "b"]), num_threads=threads)
    assert ordinary == [ours.encode_ordinary("<|a|>"), ours.encode_ordinary("b")]
    assert ours.encode_batch([]) == []


def test_allowed_and_disallowed_special_tokens_in_batches() -> None:
    ours = TOKENIZERS["gpt2"]
    texts = ["a<|a|>", "b"]
    assert ours.encode_batch(texts, allowed_special={"<|a|>"}) == [ours.encode(text) for text in texts]
    assert ours.encode_batch(texts, disallowed_special=()) == ours.encode_ordinary_batch(texts)
    with pytest.raises(SpecialTokenError, match=r"<\|a\|>"):
        ours.encode_batch(texts, allowed_special=set())
    with pytest.raises(UsageError, match="one text"):
        ours.encode_batch("a text")
    with pytest.raises(UsageError, match="num_threads"):
        ours.encode_batch(texts, num_threads=0)
    with pytest.raises(UsageError, match=r"num_threads: expected a whole number of at least 1, not 2\.5"):
        ours.encode_batch(texts, num_threads=2.5)  # type: ignore[arg-type]
    assert ours.encode_batch(["a"], num_threads=2**70) == [ours.encode("a")]
    with pytest.raises(UsageError, match="a text is of type int"):
        ours.encode_batch(["a", 7])  # type: ignore[list-item]
    for refused in ({"\ud800"}, {5}):
        with pytest.raises(UsageError, match=r"no UTF-8 text contains|expected a set of texts"):
            ours.encode("a", disallowed_special=refused)  # type: ignore[arg-type]


def test_batches_from_many_threads_at_once() -> None:
    ours = Tokenizer.from_merges(samples.trained("llama3"), SPECIALS, pattern="llama3")
    texts = [text * 40 for text in samples.all_planes(3, 100)]
    expected = [TOKENIZERS["llama3"].encode(text) for text in texts]
    with ThreadPoolExecutor(8) as threads:
        assert all(ids == expected for ids in threads.map(lambda _: ours.encode_batch(texts, num_threads=3), range(16)))


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.sampled_from(list(TOKENIZERS)))
def test_counts_numpy_and_offsets_agree_with_encode(text: str, pattern: str) -> None:
    ours = TOKENIZERS[pattern]
    ids = ours.encode(text)
    assert ours.count_tokens(text) == len(ids)
    assert ours.count_tokens(text, disallowed_special=()) == len(ours.encode_ordinary(text))
    array = ours.encode_to_numpy(text)
    assert array.dtype == np.int64
    assert ours.encode_to_numpy(text, dtype="uint32").dtype == np.uint32
    assert array.tolist() == ids
    data = ours.decode_bytes(ids)
    offsets = ours.token_byte_offsets(array)
    assert [data[begin:end] for begin, end in offsets] == [ours.vocab[id_] for id_ in ids]
    assert data == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def test_numpy_types() -> None:
    ours = TOKENIZERS["gpt2"]
    assert ours.encode_to_numpy("a b", dtype="uint16").dtype == np.uint16
    assert ours.encode_to_numpy("", dtype=np.int64).tolist() == []
    for dtype in ("uint8", "float32"):
        with pytest.raises(UsageError, match="dtype: expected an integer type that holds the ids up to 419"):
            ours.encode_to_numpy("a b", dtype=dtype)


def tiktoken_of(ours: Tokenizer) -> tiktoken.Encoding:
    ranks = {token: id_ for id_, token in ours.vocabulary.tokens.items()}
    return tiktoken.Encoding(
        "test", pat_str=ours.pattern.expression, mergeable_ranks=ranks, special_tokens=ours.special_tokens
    )


def hard_strings(seed: int, count: int) -> list[str]:
    """Strings of all planes, half of them with lone surrogates, NULs, long runs of one character."""
    source = random.Random(seed)
    texts = samples.all_planes(seed, count)
    for at in range(0, count, 2):
        extra = source.choice(
            ["\ud800", "\udfff", "\ud83d\ude00", "\x00", "a" * 300, " " * 80, "\n\n", "é" * 99, "=" * 70]
        )
        cut = source.randint(0, len(texts[at]))
        texts[at] = texts[at][:cut] + extra + texts[at][cut:]
    return texts


def agree_with_peers(ours: Tokenizer, theirs: HuggingFaceTokenizer, texts: list[str]) -> None:
    ids = ours.encode_batch(texts)
    whole = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    assert [encoded.ids for encoded in theirs.encode_batch_fast(whole)] == ids
    if ours.pattern.name != "none":
        assert tiktoken_of(ours).encode_batch(texts, allowed_special="all") == ids


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "qwen2", "o200k", "none"])
def test_generated_strings_have_the_ids_of_peers(pattern: str, tmp_path: Path) -> None:
    ours = Tokenizer.from_merges(samples.trained(pattern), ["<|endoftext|>"], pattern=pattern)
    ours.save(tmp_path)
    theirs = HuggingFaceTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    agree_with_peers(ours, theirs, hard_strings(11, 400))


@pytest.mark.slow
@pytest.mark.one_of(2)
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "qwen2", "o200k"])
def test_200_000_generated_strings_have_the_ids_of_peers(pattern: str, tmp_path: Path) -> None:
    ours = Tokenizer.from_merges(samples.trained(pattern, 2000), ["<|endoftext|>"], pattern=pattern)
    ours.save(tmp_path)
    theirs = HuggingFaceTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for seed in range(20):
        agree_with_peers(ours, theirs, hard_strings(seed, 2000))
    source = random.Random(3)
    for _ in range(2000):
        data = source.randbytes(source.randint(0, 60))
        assert ours.encode(data) == ours.encode(data.decode("utf-8", "replace"))
    run = "a" * 10_000_000
    assert ours.decode(ours.encode(run)) == run


@pytest.mark.parametrize("text", ["a", "ab", "the ", "日本", "ACGT"])
def test_time_is_linear_in_the_length_of_a_piece(text: str) -> None:
    """Two megabytes as one piece take five times as long as 400 kB; 12 times is allowed on a busy machine."""
    merges = samples.trained("none", 400)
    ours = Tokenizer.from_merges([*merges], pattern="none")
    source = random.Random(1)
    whole = "".join(source.choices(text, k=2_000_000 // len(text[0].encode())))

    def seconds(characters: int) -> float:
        started = time.thread_time()
        ours.count_tokens(whole[:characters])
        return time.thread_time() - started

    short = min(seconds(len(whole) // 5) for _ in range(3))
    assert min(seconds(len(whole)) for _ in range(2)) < 12 * short + 0.05


def ends_of_runs(depth: int) -> Tokenizer:
    """Tokens of 1 to `depth` a's and a c: every a begins all of them, and only those before a c are joined."""
    merges = [(b"a", b"a" * length + b"c") for length in range(depth)]
    return Tokenizer.from_merges(merges, pattern="none")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700), st.sampled_from("bc")), max_size=12))
def test_prefixes_of_long_tokens(runs: list[tuple[int, str]]) -> None:
    ours = ends_of_runs(200)
    expected = []
    for length, end in runs:
        joined = min(length, 200) if end == "c" else 0
        expected += ["a"] * (length - joined) + ["a" * joined + end]
    ids = ours.encode("".join("a" * length + end for length, end in runs))
    assert [ours.decode([id_]) for id_ in ids] == expected


def test_time_is_independent_of_the_length_of_token_prefixes() -> None:
    def seconds(ours: Tokenizer) -> float:
        started = time.thread_time()
        assert ours.count_tokens("a" * 200_000) == 200_000
        return time.thread_time() - started

    short, long = ends_of_runs(50), ends_of_runs(3000)
    assert min(seconds(long) for _ in range(2)) < 12 * min(seconds(short) for _ in range(3)) + 0.05


def test_caches_are_bounded() -> None:
    """Millions of pieces that occur once; the memory of several threads stays within the limit."""
    limit = 16 << 20
    tokens = {index: bytes([byte]) for index, byte in enumerate(BYTE_ORDER)}
    vocabulary = Vocabulary.from_tokens(tokens, [], {})
    automaton = TOKENIZERS["gpt2"].pattern.automaton
    source = random.Random(2)
    texts = [
        " ".join(f"{source.getrandbits(bits):x}" for bits in source.choices([12, 40, 90, 300], k=20_000))
        for _ in range(8)
    ]

    def grown(cache_bytes: int) -> int:
        encoder = _core.Encoder(
            automaton, tokens, vocabulary.left, vocabulary.right, vocabulary.result, cache_bytes=cache_bytes
        )
        before = rss_bytes()
        for _ in range(2):
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(encoder.count, texts))
        return rss_bytes() - before

    grown(0)  # what is no cache
    assert grown(limit) < limit + (8 << 20)


def rss_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        pytest.skip("resident memory cannot be read here")


DATA = os.environ.get("BPE_PIPELINE_TEST_DATA")
FILES = sorted(Path(DATA).glob("*.txt")) if DATA else []


@pytest.mark.slow
@pytest.mark.one_of(2)
@pytest.mark.skipif(not FILES, reason="BPE_PIPELINE_TEST_DATA names no directory with *.txt files")
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "qwen2", "o200k"])
def test_documents_have_the_ids_of_peers(pattern: str, tmp_path: Path) -> None:
    """Compare every document with both peers, and blocks with the whole text."""
    import pipeline

    most = None if FULL else 2 << 20  # bytes of each file
    ours = pipeline.train(FILES, output=tmp_path / "run", vocab_size=32_000, pattern=pattern)
    directory = tmp_path / "run" / "tokenizer"
    theirs = HuggingFaceTokenizer.from_file(str(directory / "tokenizer.json"))
    encoding = runpy.run_path(str(directory / "tiktoken_encoding.py"))["encoding"]
    for path in FILES:
        text = path.read_bytes()[:most].decode(errors="ignore")
        documents = text.split("<|endoftext|>")
        ids = ours.encode_batch(documents)
        assert [encoded.ids for encoded in theirs.encode_batch_fast(documents)] == ids
        assert encoding.encode_ordinary_batch(documents) == ids
        assert ours.decode_batch(ids) == documents
        assert list(ours.encode_iterable(io.BytesIO(text.encode()))) == ours.encode(text)


@pytest.mark.parametrize(
    "letter_runs",
    [5, pytest.param(3 << 20, marks=pytest.mark.slow)],
    ids=["short-tokens", "tokens-longer-than-a-window"],
)
def test_a_long_piece_that_starts_long_tokens_is_encoded_in_windows_as_in_one(letter_runs: int) -> None:
    """A list that makes a token again after it was used takes one queue for the whole piece."""
    merges, token = [], b"c"
    for at in range(1000):
        merges.append((b"ba"[at % 2 : at % 2 + 1], token))
        token = b"".join(merges[-1])
    merges += [(b"a" * (1 << power), b"a" * (1 << power)) for power in range(21)]
    merges += [(b"aa", b"b"), (b"b", b"a"), (b"aab", b"a"), (b"ba", b"a")]
    chance = random.Random(letter_runs)
    parts = ["ab" * chance.randrange(450, 500) + "a" * chance.randrange(1, 6) for _ in range(1800)]
    text = "".join(parts) + "a" * letter_runs + "".join(parts[:200])
    other = [*merges, (b"y", b"z"), (b"x", b"yz"), (b"xyz", b"w"), (b"x", b"y"), (b"xy", b"z")]
    windows, one = (Tokenizer.from_merges(found, pattern="none") for found in (merges, other))
    found, expected = windows.encode_to_numpy(text), one.encode_to_numpy(text)
    assert len(text) > 1 << 20
    assert np.array_equal(found, expected)
