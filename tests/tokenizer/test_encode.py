"""Texts to ids by every method, compared with `encode` of the whole text and with peers; memory and length."""

import io
import random
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import command
import numpy as np
import pytest
import samples
from amount import FULL
from hypothesis import given, settings
from hypothesis import strategies as st
from published import pair
from recorded import FILES, needs_files

import bpe_pipeline
from bpe_pipeline import Tokenizer, _core
from bpe_pipeline.merges.vocabulary import Vocabulary

SPECIALS = ("<|endoftext|>", "<|a|>", "<|a|><|b|>", "é<")
LOOKBEHIND = Tokenizer.from_merges([(b"x", b"y"), (b"y", b"y")], SPECIALS, pattern=r"(?<=x)y|[^y]+|y")  # for `regex`
GPT2 = samples.tokenizer("gpt2", SPECIALS)


def test_blocks_are_str_or_bytes() -> None:
    mixed = [b"a\xe2\x82", "b", bytearray(b"c"), "\ud83d", b"d"]
    assert list(GPT2.encode_iterable(mixed)) == GPT2.encode("a\ufffdbc\ufffdd")
    assert list(GPT2.encode_iterable("one text")) == GPT2.encode("one text")


def test_memory_of_blocks_is_bounded() -> None:
    """21 MB of text, and the 5 million ids of it, pass through a process that grows by less than 10 MB."""
    text = (
        "import memory_peak, samples\nfrom bpe_pipeline import Tokenizer\n"
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
    for ours in (GPT2, LOOKBEHIND):
        assert ours.encode_batch(texts, num_threads=threads) == [ours.encode(text) for text in texts]
        assert ours.encode_batch([]) == []
    assert GPT2.encode_batch(["a"], num_threads=2**70) == [GPT2.encode("a")]
    ordinary = GPT2.encode_ordinary_batch(iter(["<|a|>", "b"]), num_threads=threads)
    assert ordinary == [GPT2.encode_ordinary("<|a|>"), GPT2.encode_ordinary("b")]


def least_seconds(ours: Tokenizer, text: str, times: int) -> float:
    found = []
    for _ in range(times):
        started = time.thread_time()
        ours.count_tokens(text)
        found.append(time.thread_time() - started)
    return min(found)


@pytest.mark.parametrize("text", ["a", "ab", "the ", "日本", "ACGT"])
def test_time_is_linear_in_the_length_of_a_pre_token(text: str) -> None:
    """Two megabytes as one pre-token take five times as long as 400 kB; 12 times is allowed on a busy machine."""
    ours = Tokenizer.from_merges([*samples.trained("none", 400)], pattern="none")
    whole = "".join(random.Random(1).choices(text, k=2_000_000 // len(text[0].encode())))
    short = least_seconds(ours, whole[: len(whole) // 5], 3)
    assert least_seconds(ours, whole, 2) < 12 * short + 0.05


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
    short, long, text = ends_of_runs(50), ends_of_runs(3000), "a" * 200_000
    assert short.count_tokens(text) == long.count_tokens(text) == len(text)
    assert least_seconds(long, text, 2) < 12 * least_seconds(short, text, 3) + 0.05


def test_caches_are_bounded() -> None:
    """Millions of pre-tokens that occur once; the memory of several threads stays within the limit."""
    limit = 16 << 20
    tokens = samples.tokens_by_id()
    merges = Vocabulary.from_tokens(tokens, [], {})
    source = random.Random(2)
    sizes = source.choices([12, 40, 90, 300], k=160_000)
    texts = [" ".join(f"{source.getrandbits(bits):x}" for bits in sizes[at::8]) for at in range(8)]

    def grown(cache_bytes: int) -> int:
        rules = tokens, merges.left, merges.right, merges.result
        encoder = _core.Encoder(GPT2.pattern.automaton, *rules, cache_bytes=cache_bytes)
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


@pytest.mark.slow
@pytest.mark.one_of(2)
@needs_files
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "qwen2", "o200k"])
def test_documents_have_the_ids_of_peers(pattern: str, tmp_path: Path) -> None:
    """Compare every document with both peers, and blocks with the whole text."""
    most = None if FULL else 2 << 20  # bytes of each file
    ours = bpe_pipeline.train(FILES, output=tmp_path / "run", vocab_size=32_000, pattern=pattern)
    theirs, encoding = ours.to_tokenizers(), ours.to_tiktoken()
    for path in FILES:
        text = path.read_bytes()[:most].decode(errors="ignore")
        documents = text.split("<|endoftext|>")
        ids = ours.encode_batch(documents)
        assert [encoded.ids for encoded in theirs.encode_batch_fast(documents)] == ids
        assert encoding.encode_ordinary_batch(documents) == ids
        assert ours.decode_batch(ids) == documents
        assert list(ours.encode_iterable(io.BytesIO(text.encode()))) == ours.encode(text)


@pytest.mark.parametrize("letter_runs", [5, pytest.param(3 << 20, marks=pytest.mark.slow)], ids=["short", "long"])
def test_a_long_pre_token_that_starts_long_tokens_is_encoded_in_windows_as_in_one(letter_runs: int) -> None:
    """A list that makes a token again after it was used takes one queue for the whole pre-token."""
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


def test_encode_cut_checks_its_ends() -> None:
    encoder = pair("deepseek", "plain")[1].model.encoder()
    text = "a low 1 " * 400
    every = [id_ for one in text for id_ in encoder.encode_pre_tokens([one])]
    assert encoder.encode_cut(text, list(range(1, len(text) + 1))) == every
    for wrong in ([0], [2, 1], [1, 1], [len(text) + 1]):
        with pytest.raises(ValueError, match="ends must rise"):
            encoder.encode_cut(text, wrong)
