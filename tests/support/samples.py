"""Small trained merge lists and edge cases, for the tests of tokenizers and exports."""

import functools
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import peers
from merge_cases import engine_of, learn

from bpe_pipeline import Tokenizer, _core
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.pattern.compiler import compile_pattern

Merges = list[tuple[bytes, bytes]]

# Every shape of the subset that a named pattern has not: a literal, a class of one script, unmatched text.
CUSTOM = r"foo|[a-z]+[0-9]?| ?[А-я]+|\n+(?!\S)"
PATTERNS = ["gpt2", "cl100k", "llama3", "qwen2", "o200k", "none", CUSTOM]

FIRST_PLANE = [*range(0xD800), *range(0xE000, 0x10000)]

HARD_TEXTS = [
    *("", " ", "a", "\n", "\x00\x00\x01", "x\n  ", "x\n  \n y  \t z   ", "a\r\n\r\nb\r\n", "DON'T I'ſ 'LLama we'Re"),
    "123４５６ 1 2 12345678",
    "a\u0085b\u200bc\ufeffd\u180ee\u00a0f",
    "नमस्ते e\u0301 👩‍👩‍👧‍👦 \U0010ffff",
    "foo food foo1 привет, мир!",
    "the" * 300 + " " * 300 + "a" * 300,
]


@functools.cache
def trained(pattern: str, merges: int = 160) -> Merges:
    """Merges trained on generated text, cut by the pattern."""
    lines = peers.generated_text(7, 4000).splitlines(keepends=True)
    compiled = compile_pattern(pattern)
    counter = Counter(pre_token.encode() for line in lines for pre_token in compiled.cut(line))
    result = learn(engine_of(counter), merges)
    return Vocabulary.from_id_pairs(result.left, result.right).merges()


def tokens_by_id(*tokens: bytes) -> dict[int, bytes]:
    """The bytes, and then other tokens."""
    return dict(enumerate([*(bytes([byte]) for byte in BYTE_ORDER), *tokens]))


def encoder_of(merges: Merges, **options: object) -> tuple[_core.Encoder, dict[int, bytes]]:
    """An encoder of merges that no two make the same token, and its tokens."""
    tokens = tokens_by_id(*dict.fromkeys(left + right for left, right in merges))
    vocabulary = Vocabulary.from_tokens(tokens, merges, {})
    return _core.Encoder(None, tokens, vocabulary.left, vocabulary.right, vocabulary.result, **options), tokens


@functools.cache
def tokenizer(pattern: str = "gpt2", specials: tuple[str, ...] = ("<|endoftext|>",), **options: Any) -> Tokenizer:
    """The tokenizer of the merges trained for a pattern."""
    return Tokenizer.from_merges(trained(pattern), specials, pattern=pattern, **options)


def all_planes(seed: int, texts: int) -> list[str]:
    """Strings that mix characters of every plane, letters of the trained text, and runs of white space."""
    source = random.Random(seed)
    makers = [
        lambda: chr(source.choice(FIRST_PLANE)),
        lambda: chr(source.randrange(0x10000, 0x110000)),
        lambda: chr(source.randrange(0x80)),
        lambda: source.choice(peers.WORDS),
        lambda: source.choice(peers.WORDS),
        lambda: source.choice(" \n\t\r\u3000'") * source.randint(1, 4),
    ]
    return ["".join(source.choice(makers)() for _ in range(source.randint(1, 30))) for _ in range(texts)]


def naive_merge(pre_token: bytes, merges: Merges) -> list[bytes]:
    """The definition: join the pair of lowest rank, leftmost first, until no pair is in the list."""
    rank_of = {pair: rank for rank, pair in enumerate(merges)}
    parts = [bytes([byte]) for byte in pre_token]
    while True:
        ranked = [(rank_of[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in rank_of]
        if not ranked:
            return parts
        _, at = min(ranked)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


class Tensor:
    """As a torch tensor of one dimension or none: iterating gives tensors, each with a hash of its own."""

    def __init__(self, ids: list[int] | int) -> None:
        self.ids = ids

    def __iter__(self) -> Iterator["Tensor"]:
        assert isinstance(self.ids, list)
        return iter(map(Tensor, self.ids))

    def __index__(self) -> int:
        if isinstance(self.ids, list):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return self.ids

    def tolist(self) -> list[int] | int:
        return self.ids
