"""The verdict: five questions that a report answers first, and the size that it recommends."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from types import MappingProxyType

from bpe_pipeline.base.units import format_count, format_share
from bpe_pipeline.merges.merge_list import LEAST_COUNT, LEAST_SAVING, MOST_RARE, enough_from
from bpe_pipeline.reports.formulas import gini
from bpe_pipeline.reports.numbers import MARKED_SIZES, SENTENCES, MergeNumbers, Numbers, SentenceTokens, language_costs
from bpe_pipeline.reports.parts import Table
from bpe_pipeline.reports.result import Advice, prices
from bpe_pipeline.reports.tokens import BROKEN, script_of_character

COMPRESSION, COST, SKIPPED = "Compression", "Cost by language", "Skipped input"
_MOST_LANGUAGES, _MOST_SCRIPTS = 3, 4
_TIMES_ENGLISH = 1.5  # a language that takes this many tokens for the same text pays more than others
_LEAST_SHARE, _LEAST_OF_SENTENCE = 0.001, 0.25  # of the corpus, so that it has a script; of a sentence's letters
_ASCII_LETTERS = 52  # which are tokens of every vocabulary


def verdict(
    numbers: Numbers, skipped: Sequence[str], answers: Mapping[str, str] = MappingProxyType({})
) -> tuple[tuple[str, str], ...]:
    """Return five rows of a question and its answer, and more of extensions: the report begins with them.

    skipped: input that was skipped or altered. answers: of extensions, which replace all but what held-out text says.

    The size is recommended as `sweep` does: the smallest one from which on no doubling saves 5 % of the
    tokens of the training corpus.
    """
    lost = [*(one.partition(" (first: ")[0] for one in skipped), rewritten(numbers)]
    rows = {
        COMPRESSION: _compression(numbers),
        "Which size": str(recommended_size(numbers.merged, numbers.tokenizers[0][1])),
        COST: _languages(numbers),
        "Broken tokens": _broken(numbers),
        SKIPPED: "; ".join(filter(None, lost)) or "nothing was skipped or altered",
    }
    measured = {COST: rows[COST]} if _is_measured(numbers) else {}
    return tuple({**rows, **answers, **measured}.items())


def _is_measured(numbers: Numbers) -> bool:
    return numbers.sample is not None and bool(numbers.sample.tokenizers[0].costs)


@dataclass(frozen=True)
class Comparison:
    """The tokens of this tokenizer and of another one on a text, for what each keeps of it. lost: bytes that the other
    one does not keep."""

    on: str
    name: str
    size: int
    tokens: float
    other_tokens: float
    lost: int = 0

    @property
    def difference(self) -> str:
        """Say how many more or fewer tokens this tokenizer has, for what the other one keeps."""
        if not self.other_tokens or self.tokens == self.other_tokens:
            return "as many tokens"
        share = format_share(abs(1 - self.tokens / self.other_tokens), ".0%")
        return f"{share} {'fewer' if self.tokens < self.other_tokens else 'more'} tokens"

    def __str__(self) -> str:
        than = "as" if self.difference.startswith("as ") else "than"
        kept = f", for what {self.name} keeps: it loses {self.lost:,} bytes" if self.lost else ""
        return f"{self.difference} {than} {self.name}, {_thousands(self.size)} tokens{kept}"


def comparisons(numbers: Numbers) -> Iterator[Comparison]:
    """Yield how this tokenizer compares: with others on the sample, with references on sentences of the corpus."""
    if numbers.sample is not None:
        mine, *theirs = (tokenizer.whole for tokenizer in numbers.sample.tokenizers)
        for text, (name, size) in zip(theirs, numbers.tokenizers[1:], strict=True):
            tokens, other_tokens = (one.tokens / max(one.bytes - one.numbers["lost"], 1) for one in (mine, text))
            yield Comparison("the sample", name, size, tokens, other_tokens, int(text.numbers["lost"]))
    if numbers.references and (sentences := sentences_of_corpus(numbers)):
        own, *others = map(sum, zip(*(sentence.counts for sentence in sentences), strict=True))
        on = f"{format_count(len(sentences), 'sentences')} in scripts of this corpus"
        for other, tokens in zip(numbers.references, others[len(numbers.tokenizers) - 1 :], strict=True):
            yield Comparison(on, other.name, other.vocab_size, own, tokens)


def comparison_table(numbers: Numbers) -> Table:
    """Show how this tokenizer compares with others."""
    rows = ((one.name, one.difference, one.size, one.on) for one in comparisons(numbers))
    return Table("Compared with", ("tokenizer", "this tokenizer has", "its vocabulary", "on"), tuple(rows))


def rate_in_words(numbers: Numbers) -> str:
    """Say how many bytes a token has; the number comes first."""
    size = numbers.tokenizers[0][1]
    rate = next((one.bytes_per_token for one in numbers.merged.marked if one.vocab_size == size), 0.0)
    return f"{rate:.3f} bytes per token on the training corpus, with {_thousands(size)} tokens"


def _compression(numbers: Numbers) -> str:
    compared: dict[str, list[str]] = {}
    for one in comparisons(numbers):
        compared.setdefault(one.on, []).append(str(one))
    return "; ".join([rate_in_words(numbers), *(f"on {on} {' and '.join(words)}" for on, words in compared.items())])


def _thousands(size: int) -> str:
    """Return a vocabulary size as people say it.

    >>> _thousands(200_019), _thousands(1500), _thousands(999)
    ('200k', '1.5k', '999')
    """
    return f"{size:,}" if size < 1000 else f"{size / 1000:.0f}k" if size >= 10_000 else f"{size / 1000:.2g}k"


def sentences_of_corpus(numbers: Numbers) -> list[SentenceTokens]:
    """Return those of the built-in sentences in whose scripts the corpus is, by its sample and the tokens learned."""
    scripts = Counter(numbers.scripts)
    scripts["Latin"] -= _ASCII_LETTERS
    known = [scripts]
    if numbers.sample is not None and not numbers.sample.held_out:
        known.append(Counter(numbers.sample.tokenizers[0].scripts))
    present = {name for one in known for name, count in one.items() if count > _LEAST_SHARE * one.total()}
    return [one for one in numbers.sentences if _scripts_of(SENTENCES[one.language]) <= present]


@cache
def _scripts_of(text: str) -> set[str]:
    """Return the scripts of a good part of a text's letters.

    >>> sorted(_scripts_of("\u591c\u306e\u3046\u3061")), _scripts_of("12 e\u0301!")
    (['Han', 'Hiragana'], {'Latin'})
    """
    letters = Counter(script_of_character(letter) for letter in text if letter.isalpha())
    return {script for script, count in letters.items() if count >= _LEAST_OF_SENTENCE * letters.total()}


def rare_in_words(share: float | None) -> str:
    """Say how many merges are rare."""
    if share is None:
        return "how often its merges occurred without weights is unknown"
    amount = format_share(share, ".1%") if share else "none"
    return f"{amount} of its merges occurred fewer than {LEAST_COUNT} times"


def size_advice(
    tokens: Mapping[int, float], largest: int, rare: str = "", shares: Mapping[str, float | None] = MappingProxyType({})
) -> tuple[int, Advice]:
    """Return the smallest size from which on no doubling saves enough, else the largest one, and why.

    tokens: of the same text, by ascending size; rare: how many merges of the largest one are, in words.
    """
    saved = {
        large: 1 - (tokens[large] / (tokens[small] or 1)) ** (1 / math.log2(large / small))
        for small, large in pairwise(tokens)
    }
    evidence = {"tokens": tokens, "saved_by_doubling": saved, "limit": LEAST_SAVING, **shares}
    if (first := enough_from([*saved.values()], LEAST_SAVING)) is None:
        take, last = f"{largest:,} or more", [*saved.values()][-1:]
        because = take + "".join(f": the last doubling saved {share:.1%}" for share in last)
        unless = "".join(f"limit {LEAST_SAVING:.0%}: smaller only above {share:.1%}" for share in last)
        return largest, Advice("size", take, "; ".join(filter(None, (because, rare))), unless, evidence=evidence)
    size, *larger = [*tokens][first:]
    most = max(saved[one] for one in larger)
    because = (
        f"{size:,} is enough: doubling it saves {saved[larger[0]]:.1%} of the tokens, less than {LEAST_SAVING:.0%}"
    )
    because += f"; {prices(tokens, size)}" if tokens[size] else ""
    unless = f"with a limit of {most:.1%} it would be {[one for one in larger if saved[one] == most][-1]:,}"
    return size, Advice("size", f"{size:,}", because, unless, evidence=evidence)


def recommended_size(merged: MergeNumbers, vocab_size: int) -> Advice:
    """Say which of the doublings on the curve is the last that saves enough, and how this vocabulary compares."""
    tokens = {one.vocab_size: one.tokens for one in merged.marked if one.vocab_size in MARKED_SIZES}
    rare, shares = rare_in_words(merged.rare_merges), {"rare_merges": merged.rare_merges, "most_rare": MOST_RARE}
    size, advice = size_advice(tokens, vocab_size, rare, shares)
    if advice.take != f"{size:,}" and not merged.merges:
        return replace(advice, take=f"{size:,}", because=f"{size:,} has no merges: every byte is a token", unless="")
    if advice.take != f"{size:,}" and (merged.rare_merges or 0) > MOST_RARE:
        because = f"{size:,} is too large for this text: {rare}, more than {MOST_RARE:.0%}"
        return replace(advice, take=f"less than {size:,}", because=because, unless="")
    return advice


def _languages(numbers: Numbers) -> str:
    """Compare the languages of held-out files, else those of the sentences that the corpus has."""
    found, is_measured = language_costs(numbers), _is_measured(numbers)
    of_corpus = {one.language for one in sentences_of_corpus(numbers)} | {found.reference}
    listed = [name for name in found.costs if is_measured or name in of_corpus]
    paying = sorted(((found.times(name), name) for name in listed), reverse=True)
    named = [f"{name} {times:.1f}" for times, name in paying[:_MOST_LANGUAGES] if times >= _TIMES_ENGLISH]
    text = "held-out text" if is_measured else "sentence"
    what = f"times the {found.unit} of {found.reference}" + f" for the same {text}" * (found.unit == "tokens")
    others = len(found.costs) - len(listed)
    without = f"; {others} of the sentences are in scripts that this corpus lacks" if others else ""
    if not named:
        return f"no language takes {_TIMES_ENGLISH} {what}{without}"
    inequality = gini([found.costs[name][0] for name in listed]) or 0
    return f"{', '.join(named)} {what}; Gini {inequality:.2f}{without}"


def rewritten(numbers: Numbers) -> str:
    """Say how many lines of the scripts in the sample NFC changes, those with most of them; empty if it changes none,
    or if the text stays as it is."""
    changed = {} if numbers.sample is None else numbers.sample.rewritten
    most = sorted(((-count / lines, name, lines) for name, (count, lines) in changed.items() if name))[:_MOST_SCRIPTS]
    named = (f"{-share:.1%} of {format_count(lines, 'lines')} in {name}" for share, name, lines in most)
    return f"NFC rewrites {', '.join(named)}" if most else ""


def _broken(numbers: Numbers) -> str:
    groups = numbers.vocabulary.groups
    counted = {what: groups[name].count for name, what in BROKEN.items() if name in groups}
    listed = [f"{count:,} {what}" for what, count in counted.items() if count]
    return f"{', '.join(listed)}, of {format_count(numbers.vocabulary.tokens, 'tokens')}" if listed else "none"
