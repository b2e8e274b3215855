"""The ids of pre-tokens that were met before, and of long pre-tokens in parts: those of the definition, whoever met
them."""

import random
from concurrent.futures import ThreadPoolExecutor

import command
import pytest
import samples
from amount import FULL
from hypothesis import example, given, settings
from hypothesis import strategies as st

CHARACTERS = ["日", "本", "語", "😀", "é", "a"]


@st.composite
def merge_lists(draw: st.DrawFn) -> samples.Merges:
    """Merges of bytes, characters and their beginnings and ends, in any order that makes every part first."""
    tokens = [bytes([byte]) for byte in dict.fromkeys("".join(CHARACTERS).encode())]
    merges = []
    for character in draw(st.sets(st.sampled_from(CHARACTERS[:4]))):
        whole = character.encode()
        for size in range(1, len(whole)):
            if (whole[:size], whole[size : size + 1]) not in merges:
                merges.append((whole[:size], whole[size : size + 1]))
                tokens.append(whole[: size + 1])
    for _ in range(draw(st.integers(0, 10))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        if pair not in merges:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    return merges


characters = st.lists(st.sampled_from([*(one.encode() for one in CHARACTERS), b"\xe6", b"\xe6\x97", b"\xa5", b"\xf0"]))
LEFT_OF_A_BYTE = [(b"\xe6", b"\x97"), (b"\x97", b"\xa5"), (b"\xa5", b"\xe6"), (b"\xa5", b"\xe6\x97")]


@settings(max_examples=300, deadline=None)
@given(merge_lists(), st.lists(characters.map(b"".join).filter(len), min_size=1, max_size=6))
@example([(b"\xa5", b"\xe6")], ["日日日日日".encode()])  # joins the end of a character and the beginning of the next
@example(
    LEFT_OF_A_BYTE, ["日日日日日".encode() + b"\xe6", "日".encode() * 9 + b"\xe6\x97"]
)  # the last character is cut off
def test_long_pre_tokens_in_parts_are_merged_by_definition(merges: samples.Merges, pre_tokens: list[bytes]) -> None:
    expected = [token for pre_token in pre_tokens for token in samples.naive_merge(pre_token, merges)]
    encoder, tokens = samples.encoder_of(merges)
    for _ in range(2):  # the second time from what is known
        assert [tokens[id_] for id_ in encoder.encode_pre_tokens(pre_tokens)] == expected


@pytest.mark.parametrize("size", [255, 256, 257, 3000 if FULL else 800])
def test_a_pre_token_of_any_number_of_parts(size: int) -> None:
    merges = [(b"\xe6", b"\x97"), (b"\xe6\x97", b"\xa5"), ("日".encode(), "日".encode())]
    pre_token = "".join(random.Random(size).choices("日本", k=size)).encode()
    encoder, tokens = samples.encoder_of(merges)
    expected = samples.naive_merge(pre_token, merges)
    assert [tokens[id_] for id_ in encoder.encode_pre_tokens([b"a", pre_token, "日日".encode()])] == [
        b"a",
        *expected,
        "日日".encode(),
    ]


def pre_tokens_of(seed: int) -> list[str]:
    """Many of few pre-tokens, and a few of many: short ones, of the most bytes that are kept, and longer ones."""
    source = random.Random(seed)
    often = [
        "".join(source.choices("the é日本", k=size)) for size in (1, 2, 3, 7, 15, 16, 40, 85, 254, 255, 256, 300) * 9
    ]
    seldom = ["".join(source.choices("abcdé日", k=source.choice([3, 9, 20, 90]))) for _ in range(6000)]
    return source.choices([*often * 40, *seldom], k=9000)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("cache_bytes", [128 << 10, 0, 64 << 10, 16 << 20])
def test_threads_learn_from_each_other_while_tables_grow_and_are_forgotten(cache_bytes: int) -> None:
    merges = samples.trained("none")
    expected = {
        seed: samples.encoder_of(merges, cache_bytes=0)[0].encode_pre_tokens(pre_tokens_of(seed)) for seed in range(4)
    }
    encoder, _ = samples.encoder_of(merges, cache_bytes=cache_bytes, threads=5)
    seeds = [*range(4)] * 6
    with ThreadPoolExecutor(6) as threads:  # one more than keeps what it learns
        found = list(threads.map(lambda seed: encoder.encode_pre_tokens(pre_tokens_of(seed)), seeds))
    assert all(ids == expected[seed] for seed, ids in zip(seeds, found, strict=True))


def test_pre_tokens_of_equal_hashes_are_told_apart() -> None:
    """Of 300,000 pre-tokens some ten pairs have the same 32 bits of the hash."""
    pre_tokens = [f"{number:06x}" for number in range(300_000)]
    merges = samples.trained("none")
    expected = samples.encoder_of(merges, cache_bytes=0)[0].encode_pre_tokens(pre_tokens)
    encoder, _ = samples.encoder_of(merges)
    assert encoder.encode_pre_tokens(pre_tokens) == encoder.encode_pre_tokens(pre_tokens) == expected


def test_children_that_are_forked_while_threads_encode_have_the_same_ids() -> None:
    text = (
        "import os, random, signal, threading, warnings\n"
        "import samples\n"
        "warnings.simplefilter('ignore')\n"
        "ours = samples.tokenizer('gpt2')\n"
        "texts = [' '.join(f'{random.Random(seed * 997 + at).getrandbits(60):x} 日本' for at in range(3000))\n"
        "         for seed in range(4)]\n"
        "expected = [ours.encode(text) for text in texts]\n"
        "fresh = type(ours).from_merges(samples.trained('gpt2'), ['<|endoftext|>'])\n"
        "done = threading.Event()\n"
        "def work():\n"
        "    while not done.is_set():\n"
        "        assert fresh.encode_batch(texts, num_threads=2) == expected\n"
        "threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]\n"
        "for thread in threads: thread.start()\n"
        f"for _ in range({500 if FULL else 12}):\n"
        "    if not (child := os.fork()):\n"
        "        signal.alarm(60)\n"
        "        same = [fresh.encode(text) for text in texts] == expected\n"
        "        os._exit(0 if same and fresh.encode_batch(texts, num_threads=3) == expected else 1)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "done.set()\n"
        "for thread in threads: thread.join()\n"
        "print('alike')\n"
    )
    assert command.script(text) == "alike\n"
