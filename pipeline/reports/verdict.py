"""The verdict of a report: five answers that the page, the text and the model card begin with.

The size is recommended as `sweep` does without a model: the smallest one from which on no doubling saves 5 % of the
tokens of the training corpus.
"""

from collections.abc import Sequence

from pipeline.base.units import format_count
from pipeline.merges.saving import LEAST_COUNT, LEAST_SAVING, enough_from
from pipeline.reports.numbers import MARKED_SIZES, PARALLEL, MergeNumbers, Numbers

_MOST_LANGUAGES = 3
_TIMES_ENGLISH = 1.5  # a language that takes this many tokens for the same text pays more than others


def verdict(numbers: Numbers, skipped: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return five rows of a question and its answer. skipped: input that was skipped or altered."""
    return (
        ("How short", _rate(numbers)),
        ("Which size", recommended_size(numbers.merged, numbers.tokenizers[0][1])),
        ("Who pays", _languages(numbers)),
        ("Broken tokens", _broken(numbers)),
        (
            "Skipped input",
            "; ".join(one.partition(" (first: ")[0] for one in skipped) or "nothing was skipped or altered",
        ),
    )


def _rate(numbers: Numbers) -> str:
    size = numbers.tokenizers[0][1]
    rate = next((one.bytes_per_token for one in numbers.merged.marked if one.vocab_size == size), 0.0)
    words = [f"{rate:.3f} bytes per token on the training corpus"]
    if numbers.sample is not None and len(numbers.tokenizers) > 1:
        mine, *theirs = (one.whole for one in numbers.sample.tokenizers)
        kept = [mine.bytes - (mine.lost or 0), *(one.bytes - (one.lost or 0) for one in theirs)]
        names = [name for name, _ in numbers.tokenizers[1:]]
        compared = ", ".join(
            _against(mine.tokens * bytes_, one.tokens * kept[0], name)
            + (f" for what {name} keeps: it loses {one.lost:,} bytes" if one.lost else "")
            for one, bytes_, name in zip(theirs, kept[1:], names, strict=True)
        )
        words.append(f"on the sample {compared}")
    if numbers.references:
        own, *others = (sum(column) for column in zip(*(one.counts for one in numbers.sentences), strict=True))
        of_references = others[len(numbers.tokenizers) - 1 :]
        names = [one.name for one in numbers.references]
        compared = ", ".join(_against(own, tokens, name) for tokens, name in zip(of_references, names, strict=True))
        words.append(f"on {len(numbers.sentences)} sentences in many languages {compared}")
    return "; ".join(words)


def _against(own: int, other: int, name: str) -> str:
    if not other or own == other:
        return f"as many tokens as {name}"
    return f"{abs(1 - own / other):.0%} {'fewer' if own < other else 'more'} tokens than {name}"


def recommended_size(merged: MergeNumbers, vocab_size: int) -> str:
    """Say which of the doublings on the curve is the last that saves enough, and how this vocabulary compares."""
    doublings = [one for one in merged.marked if one.vocab_size in MARKED_SIZES]
    savings = [one.saved or 0.0 for one in doublings[1:]]
    if (first := enough_from(savings, LEAST_SAVING)) is not None:
        enough = f"{doublings[first].vocab_size:,} is enough"
        return f"{enough}: doubling it saves {savings[first]:.1%} of the tokens, less than {LEAST_SAVING:.0%}"
    if not merged.ranks:
        return f"{vocab_size:,} has no merges: every byte is a token"
    last = merged.ranks[-1][1]
    if last < LEAST_COUNT:
        rare = f"its last pair occurred {format_count(last, 'times')}, fewer than {LEAST_COUNT}"
        return f"{vocab_size:,} is too large for this text: {rare}"
    least = doublings[-1].saved if doublings and doublings[-1].saved is not None else None
    saved = "" if least is None else f": the last doubling saved {least:.1%}"
    return f"{vocab_size:,} or more{saved}; its last pair still occurred {format_count(last, 'times')}"


def _languages(numbers: Numbers) -> str:
    english = next(one.counts[0] for one in numbers.sentences if one.language == "English")
    paying = sorted(
        ((one.counts[0] / english, one.language) for one in numbers.sentences if one.language in PARALLEL), reverse=True
    )
    listed = [f"{language} {times:.1f}" for times, language in paying[:_MOST_LANGUAGES] if times >= _TIMES_ENGLISH]
    if not listed:
        return f"no language takes {_TIMES_ENGLISH} times the tokens of English for the same sentence"
    return f"{', '.join(listed)} times the tokens of English for the same sentence; Gini {numbers.ginis[0] or 0:.2f}"


_BROKEN = {
    "unreachable": "never produced",
    "never_used": "never used in the corpus",
    "partial": "with a part of a character",
    "repeats": "with long repeats",
    "urls": "with web addresses",
}


def _broken(numbers: Numbers) -> str:
    groups = numbers.vocabulary.groups
    counted = [(groups[name].count, what) for name, what in _BROKEN.items() if name in groups]
    listed = [f"{count:,} {what}" for count, what in counted if count]
    return f"{', '.join(listed)}, of {format_count(numbers.vocabulary.tokens, 'tokens')}" if listed else "none"
