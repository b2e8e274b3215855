"""Counting with added tokens that have flags: the pre-tokens that tokenizers merges within."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.counts import prepared
from bpe_pipeline.counts.feeding import CountTask
from bpe_pipeline.merges.vocabulary import bytes_to_unicode, text_to_token
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.pattern.prepare import SpecialSearch
from bpe_pipeline.pattern.token_rules import PLAIN_RULE, Preparation, TokenRule
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.patterns import pattern_of

TOKENS = ["<|end|>", "<x>", "low", "éé", "e\u0301x", "  ", "<|e", "nd|>", "\n\n", "a b", " low", "KK", "<x>y"]
PARTS = [*TOKENS, "lower ", " slow", "low", "e", "\u0301", " ", "\n", "\u3000", "\u212a", "K", "é", "x", "_", "1", "<"]
rules = st.builds(TokenRule, *[st.booleans()] * 5)
added = st.dictionaries(st.sampled_from(TOKENS), rules, max_size=4)
texts = st.lists(st.sampled_from(PARTS), max_size=25).map("".join)


def task_of(added: dict[str, TokenRule], form: str, errors: str = "replace") -> CountTask:
    """Return a task as `count` makes it."""
    special = tuple(text.encode() for text, rule in added.items() if rule.special)
    unlike = {text: rule for text, rule in added.items() if rule != PLAIN_RULE}
    pattern = pattern_of(CountOptions(normalize=form))
    kind = prepared.PreparedCountTask if Preparation(form == "nfc", rules=unlike).searches(added) else CountTask
    reading: dict[str, Any] = {"special_tokens": special, "rules": unlike, "judge": DocumentJudge(errors)}
    return kind(name="chunk", spans=(), pattern=pattern, budget_bytes=1 << 26, output=Path(), fingerprint="", **reading)


def counted(task: CountTask, blocks: list[bytes], window: int) -> tuple[dict[bytes, int], dict[str, Any]]:
    """Count as a worker does; return the pre-tokens, and statistics."""
    reading, counter = task.counters(task.pattern.automaton, print, window)
    for block in blocks:
        reading.feed(block)
    reading.feed(b"", end=True)
    columns = counter.columns()
    offsets, counts = (memoryview(columns[at]).cast("B").cast("q") for at in (0, 2))
    data = bytes(columns[1])
    pre_tokens = {
        data[start:end]: count for (start, end), count in zip(itertools.pairwise(offsets), counts, strict=True)
    }
    return pre_tokens, reading.statistics()


def pre_tokens_of_tokenizers(added: dict[str, TokenRule], form: str, text: str) -> Counter[bytes]:
    tokenizers = pytest.importorskip("tokenizers")
    letters = {letter: byte for byte, letter in bytes_to_unicode().items()}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=letters, merges=[]))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if form == "nfc":
        theirs.normalizer = tokenizers.normalizers.NFC()
    theirs.add_tokens([tokenizers.AddedToken(text, **vars(rule)) for text, rule in added.items()])
    found = theirs.encode(text)
    rows = zip(found.word_ids, found.ids, found.tokens, strict=True)
    words = itertools.groupby(rows, key=lambda row: (row[0], row[1] > 255))
    return Counter(b"".join(text_to_token(row[2]) for row in group) for (_, token), group in words if not token)


@settings(max_examples=150, deadline=None)
@given(added, st.sampled_from(["none", "nfc"]), texts, st.integers(1, 9), st.sampled_from([4, 1 << 18]), st.booleans())
def test_pre_tokens_are_those_of_tokenizers_in_blocks_of_any_size(added, form, text, size, window, waits):
    assume(not (any(rule.rstrip for rule in added.values()) and any(token[0].isspace() for token in added)))
    late = [nfc(token) for token, rule in added.items() if rule.normalized]
    assume(len({*late}) == len(late))  # else refused when it is loaded
    data, before = text.encode(), prepared._PREPARED_BYTES
    prepared._PREPARED_BYTES = before if waits else 0
    try:
        found, _ = counted(task_of(added, form), [data[at : at + size] for at in range(0, len(data), size)], window)
    finally:
        prepared._PREPARED_BYTES = before
    assert found == pre_tokens_of_tokenizers(added, form, text)


THINK, END = "<think>", "<|end|>"


@pytest.mark.parametrize("lstrip", [False, True], ids=["by the core", "prepared"])
@pytest.mark.parametrize(
    ("text", "errors", "documents", "skipped"),
    [
        (b"a<think>b<think><|end|>c<|end|><think>", "replace", 3, 0),
        (b"a<think>b\xff<|end|>c", "skip", 1, 1),
        (b"\xffa<think>b<|end|>c<think>d", "skip", 1, 1),
        (b"<think>a<think>", "skip", 1, 0),
    ],
)
def test_tokens_that_are_not_special_separate_no_documents(
    text: bytes, errors: str, documents: int, skipped: int, lstrip: bool
) -> None:
    task = task_of({END: PLAIN_RULE, THINK: TokenRule(special=False, lstrip=lstrip)}, "none", errors)
    assert task.prepares is lstrip
    for window in (1, 5, 1 << 18):
        found, statistics = counted(task, [text[at : at + 3] for at in range(0, len(text), 3)], window)
        assert (statistics["documents"], statistics["noted"]["documents_skipped"][0]) == (documents, skipped)
        kept = [one for one in text.split(END.encode()) if errors != "skip" or b"\xff" not in one]
        expected = Counter(itertools.chain(*(one.split(THINK.encode()) for one in kept)))
        assert found == {pre_token: count for pre_token, count in expected.items() if pre_token}


def test_normalized_tokens_need_no_search_where_no_text_shows_the_difference() -> None:
    """As in DeepSeek's file, where some tokens are special and others normalized, and no text is."""
    late = TokenRule(normalized=True, special=False)
    assert not Preparation(rules={"<|User|>": late}).searches(["<|end|>", "<|User|>"])
    assert Preparation(rules={"<|User|>": late}).searches(["<|User", "<|User|>"])
    assert Preparation(nfc=True, rules={"<|User|>": late}).searches(["<|end|>", "<|User|>"])
    assert not Preparation(nfc=True, rules={"    ": late}).searches(["<|end|>", "    "])
    stretches = SpecialSearch({"<|User|>": 7}, Preparation(rules={"<|User|>": late})).stretches(b"a<|User|>")
    assert list(stretches) == [(b"a", None, 0), (b"<|User|>", 7, 0)]


def test_characters_that_normal_form_leaves_alone() -> None:
    import unicodedata

    from bpe_pipeline.pattern.token_rules import _INERT

    inert = {chr(code) for code in range(128) if _INERT.fullmatch(chr(code))}
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code))
        if parts and not parts.startswith("<"):
            assert inert.isdisjoint(chr(int(part, 16)) for part in parts.split())
