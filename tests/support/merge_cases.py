"""Counters to merge, and how tests hand them to the core."""

import itertools
import random
import struct
from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import strategies as st
from reference import TOKEN_RULES

from bpe_pipeline import _core
from bpe_pipeline.merges.rules import MergeRules

Counter = dict[bytes, int]
Merges = list[tuple[int, int, int]]


def columns(pre_tokens: Collection[bytes], counts: Collection[int]) -> tuple[bytes, bytes, bytes]:
    """Pre-tokens and their counts in the layout that MergeEngine.add takes."""
    ends = itertools.accumulate(map(len, pre_tokens), initial=0)
    return (
        struct.pack(f"={len(pre_tokens) + 1}q", *ends),
        b"".join(pre_tokens),
        struct.pack(f"={len(counts)}Q", *counts),
    )


def arrays(counter: Counter) -> tuple[bytes, bytes, bytes]:
    return columns(counter, counter.values())


def engine_of(*counters: Counter) -> Any:
    engine = _core.MergeEngine()
    for counter in counters:
        engine.add(*arrays(counter))
    return engine


def split(options: Mapping[str, Any]) -> tuple[MergeRules, dict[str, Any]]:
    """The rules among options of merging, and the others, which change none of its merges."""
    rules = {name: value for name, value in options.items() if name in MergeRules.__dataclass_fields__}
    return MergeRules(**rules), {name: value for name, value in options.items() if name not in rules}


def learn(engine: Any, merges: int, **options: Any) -> Any:
    rules, tuning = split(options)
    return engine.run(merges, rules, **tuning)


def merges_of(result: Any) -> Merges:
    # What was joined is the count, but for pairs of a token with itself.
    for left, right, count, joined in zip(result.left, result.right, result.counts, result.joined, strict=True):
        assert joined == count if left != right else (count + 1) // 2 <= joined <= count
    return list(zip(result.left, result.right, result.counts, strict=True))


def counters(alphabet: str, max_count: int) -> st.SearchStrategy[Counter]:
    pre_tokens = st.text(alphabet, max_size=30).map(str.encode)
    return st.dictionaries(pre_tokens, st.integers(0, max_count), max_size=12)


LETTERS = (("a", 5), ("ab", 5), ("abc", 2**40), ("abcdé", 3), (" etaoin", 1000), ("éèêa日本 語🙂", 9))
broken = st.lists(st.sampled_from(b"a\xc3\xa9\xe0\xa0\x80\xed\xf0\x9f\xc1"), max_size=9).map(bytes)
small_counters = st.one_of(*(counters(*most) for most in LETTERS), st.dictionaries(broken, st.integers(0, 9)))


def natural_counter(seed: int, n_pre_tokens: int) -> Counter:
    """Pre-tokens with the long tail of natural text: syllables put together, counts falling as 1 / rank."""
    chance = random.Random(seed)
    syllables = ["".join(chance.choices("etaoinshrdlu äß中文字", k=chance.randint(1, 3))) for _ in range(300)]
    counter: Counter = {}
    for rank in range(1, n_pre_tokens + 1):
        pre_token = " " + "".join(syllables[int(300 * chance.random() ** 3)] for _ in range(chance.randint(1, 6)))
        counter[pre_token.encode()] = 1 + 3000 // rank
    return counter


rule_values = {name: st.sampled_from(rule.values) for name, rule in TOKEN_RULES.items()}
token_rules = st.fixed_dictionaries({}, optional=rule_values)
merge_rules = st.fixed_dictionaries(
    {"tie_break": st.sampled_from(["lowest-ids", "greatest-bytes"]), "min_frequency": st.integers(1, 12)},
    optional=rule_values,
)


def merge_tuning(scratch: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """What changes how an engine merges, and none of its merges; each or not."""
    usual = {
        "threads": st.integers(1, 3),
        "thread_bytes": st.just(1),  # else nothing so small is shared
        "narrow_symbols": st.integers(0, 300),
        "index_positions": st.integers(1, 50),
    }
    return st.fixed_dictionaries({}, optional=usual | more).map(lambda chosen: {**chosen, "scratch": scratch})
