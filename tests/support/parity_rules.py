"""Parity by its definition, and by Hugging Face's trainer: slow, obviously right, or not ours."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from hypothesis import strategies as st
from merge_cases import Counter, token_rules
from reference import GPT2_BYTES, Words, count_pairs, may_be_made, merge_word, words_of


@dataclass(frozen=True)
class Parity:
    """Counters of languages, and how their merges are chosen."""

    train: list[Counter]
    dev: list[Counter] | None = None
    ratios: list[float] | None = None
    window: int = 0
    alpha: float = 2.0
    global_merges: int = 0
    min_frequency: int = 1
    token_rules: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Chooser:
    parity: Parity
    bytes: list[int]
    spent: set[int] = field(default_factory=set)
    recent: list[int] = field(default_factory=list)

    def choose(self, tokens: Sequence[int]) -> int:
        """The language that chooses next; one is not spent."""
        parity, n, values = self.parity, len(tokens), [float(count) for count in tokens]
        if parity.ratios:
            values = [-((self.bytes[i] / tokens[i]) / parity.ratios[i]) for i in range(n)]
        order = sorted(set(range(n)) - self.spent, key=lambda i: (-values[i], i))
        if not parity.window:
            return order[0]
        for i in order:
            if self.recent[-parity.window :].count(i) / parity.window <= parity.alpha / n:
                return i
        return 0 if self.spent else order[-1]


def train_by_parity(parity: Parity, merges: int) -> list[tuple[int, int, int | None]]:
    """Left id, right id and the language that chose, for each merge, with a full recount before each."""
    words = [words_of(counter) for counter in parity.train]
    dev = [words_of(counter) for counter in parity.dev or []]
    measured = dev or words
    letters = [_letter(token) for token in range(256)]
    tokens = [bytes([byte]) for byte in GPT2_BYTES]
    chooser = _Chooser(parity, [_tokens(one) for one in measured])
    found: list[tuple[int, int, int | None]] = []
    while len(found) < merges and len(chooser.spent) < len(words):
        language = None
        if len(found) >= parity.global_merges:
            language = chooser.choose([_tokens(one) for one in measured])
            chooser.recent.append(language)
        chosen = words if language is None else [words[language]]
        pairs = {
            pair: n
            for pair, n in count_pairs(list(chain.from_iterable(chosen))).items()
            if n >= max(parity.min_frequency, 1)
            and may_be_made(tokens[pair[0]] + tokens[pair[1]], **parity.token_rules)
        }
        if not pairs:
            if language is None:
                break
            chooser.spent.add(language)
            continue
        best = max(pairs, key=lambda pair: (pairs[pair], letters[pair[0]], letters[pair[1]]))
        for one in [*words, *dev]:
            one[:] = [(merge_word(ids, best, len(letters)), count) for ids, count in one]
        letters.append(letters[best[0]] + letters[best[1]])
        tokens.append(tokens[best[0]] + tokens[best[1]])
        found.append((*best, language))
    return found


def _tokens(words: Words) -> int:
    return sum(len(ids) * count for ids, count in words)


def _letter(token: int) -> str:
    byte = GPT2_BYTES[token]
    return chr(byte) if token < 188 else chr(256 + token - 188)


def hugging_face_merges(parity: Parity, merges: int) -> list[tuple[str, str]]:
    """The merges of tokenizers' ParityBpeTrainer, as letters; pre-tokens must be text without a special meaning."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    options: dict[str, Any] = {"ratio": parity.ratios} if parity.ratios else {}
    if parity.window:
        options.update(variant="window", window_size=parity.window, alpha=parity.alpha)
    options.update(min_frequency=parity.min_frequency, global_merges=parity.global_merges)
    trainer: Any = trainers.ParityBpeTrainer(num_merges=merges, **options)
    train, dev = (
        [[pre_token.decode() for pre_token, n in counter.items() for _ in range(n)] for counter in counters or []]
        for counters in (parity.train, parity.dev)
    )
    trainer.train_from_iterator(tokenizer, train_iterators=train, **({"dev_iterators": dev} if dev else {}))
    found = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(one.split(" ")) if isinstance(one, str) else tuple(one) for one in found]


def letters_of(merges: Sequence[tuple[int, int, int | None]]) -> list[tuple[str, str]]:
    """Merges of ids as merges of letters."""
    letters = [_letter(token) for token in range(256)]
    for left, right, _ in merges:
        letters.append(letters[left] + letters[right])
    return [(letters[left], letters[right]) for left, right, _ in merges]


_pre_tokens = st.one_of(
    *(st.text(alphabet, min_size=1, max_size=9) for alphabet in ("ab", "abcd", " ab", "xéя語", "aaab"))
)
_counters = st.dictionaries(_pre_tokens.map(str.encode), st.integers(1, 12), min_size=1, max_size=6)
_single_bytes = st.dictionaries(st.sampled_from([b"a", b"b", b"x"]), st.integers(1, 40), min_size=1)


@st.composite
def parities(draw: st.DrawFn, *, with_rules: bool = False) -> Parity:
    """Some languages, measured by their own texts, by others, or by ratios."""
    n = draw(st.integers(1, 5))
    train = [draw(st.one_of(_counters, _single_bytes)) for _ in range(n)]
    kind = draw(st.sampled_from(["plain", "dev", "ratios"]))
    return Parity(
        train,
        dev=[draw(_counters) for _ in range(n)] if kind == "dev" else None,
        ratios=[draw(st.sampled_from([0.5, 1.0, 1.5, 3.0])) for _ in range(n)] if kind == "ratios" else None,
        window=draw(st.sampled_from([0, 0, 1, 2, 5, 100])),
        alpha=draw(st.sampled_from([1e-6, 0.5, 1.0, 2.0])),
        global_merges=draw(st.sampled_from([0, 0, 1, 4, 20])),
        min_frequency=draw(st.sampled_from([1, 1, 2, 6])),
        token_rules=draw(token_rules) if with_rules else {},
    )
