"""How two tokenizers differ: in what their files say, and in how they cut texts.

Tokens are compared by their bytes, so other ids alone cut no text differently.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any

from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer

Tokens = tuple[bytes, ...]


@dataclass(frozen=True)
class Listed:
    """Things of two tokenizers: only in the first, only in the second, and in both at other numbers.

    The key is the bytes of a token, or of the two parts of a merge; the numbers are ids, or ranks. The largest move
    comes first.
    """

    only: tuple[tuple[Tokens, ...], tuple[Tokens, ...]]
    moved: tuple[tuple[Tokens, int, int], ...]

    @property
    def anything(self) -> bool:
        """Whether there is a difference."""
        return any(self.only) or bool(self.moved)


@dataclass(frozen=True)
class Difference:
    """What two tokenizers' files say. settings: name -> both values; same_merges: at the start of both lists."""

    settings: Mapping[str, tuple[str, str]]
    tokens: Listed
    merges: Listed
    same_merges: int

    @property
    def anything(self) -> bool:
        """Whether there is a difference: if not, every text has the same ids, and the files say the same."""
        return bool(self.settings) or self.tokens.anything or self.merges.anything


@dataclass(frozen=True)
class CutTexts:
    """Texts of one source. tokens: of each tokenizer; different: the texts that are cut differently."""

    name: str
    texts: int
    bytes: int
    tokens: tuple[int, int]
    different: int


@dataclass(frozen=True)
class OtherCut:
    """A stretch of text as each tokenizer cuts it, and how often."""

    cuts: tuple[Tokens, Tokens]
    count: int


def difference(first: Model, second: Model) -> Difference:
    """Compare two tokenizers; nothing is different if and only if the models are equal."""
    both = (first, second)
    one, other = ({(token,): id_ for id_, token in model.vocabulary.tokens.items()} for model in both)
    lists = [model.vocabulary.merges() for model in both]
    ranks, other_ranks = ({pair: rank for rank, pair in enumerate(listed)} for listed in lists)
    values, other_values = map(_settings, both)
    settings = {
        name: (values.get(name, "none"), other_values.get(name, "none"))
        for name in values | other_values
        if values.get(name) != other_values.get(name)
    }
    same = next((at for at, (a, b) in enumerate(zip(*lists, strict=False)) if a != b), min(map(len, lists)))
    return Difference(settings, _listed(one, other), _listed(ranks, other_ranks), same)


def _listed(first: Mapping[Any, int], second: Mapping[Any, int]) -> Listed:
    moved = [(key, at, second[key]) for key, at in first.items() if second.get(key, at) != at]
    only = tuple(key for key in first if key not in second), tuple(key for key in second if key not in first)
    return Listed(only, tuple(sorted(moved, key=lambda one: -abs(one[1] - one[2]))))


def _settings(model: Model) -> dict[str, str]:
    """Return everything but tokens and merges by name, as text."""
    pattern, preparation, special = model.pattern, model.preparation, model.vocabulary.special_tokens
    values: dict[str, object] = {f"special token {text}": f"id {id_}" for text, id_ in special.items()}
    values |= {f"rule of {text}": _words(asdict(rule)) for text, rule in preparation.rules.items()}
    values |= {
        "separator" if name == "separator" else f"{name} token": one for name, one in asdict(model.roles).items()
    }
    values |= {
        "pattern": pattern.name or pattern.expression,
        "Unicode version": pattern.unicode_version,
        "pattern steps": "\n".join(step.expression for step in getattr(pattern, "steps", ())) or None,
        "whole pieces first": model.whole_pieces,
        "NFC": preparation.nfc,
        "space in front": preparation.space_in_front,
        "in front": " ".join(model.front) or None,
        "behind": " ".join(model.behind) or None,
        "post-processor": model.post_processor,
        "chat template": model.chat_template and model.chat_template.jinja,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _words(flags: Mapping[str, bool]) -> str:
    return ", ".join(name.replace("_", " ") for name, value in flags.items() if value) or "plain, no control token"


def cut_differently(
    first: Tokenizer, second: Tokenizer, texts: Iterable[tuple[str, str]]
) -> tuple[list[CutTexts], list[OtherCut]]:
    """Compare how (source, text) pairs are cut; returns the sources in order, and other cuts, most frequent first."""
    sums: dict[str, Counter[str]] = {}
    cuts: Counter[tuple[Tokens, Tokens]] = Counter()
    for name, text in texts:
        pieces = [[one.vocab[id_] for id_ in one.encode(text, add_special_tokens=False)] for one in (first, second)]
        found = list(_other_cuts(*pieces))
        cuts.update(found)
        own = sums.setdefault(name, Counter())
        own.update(texts=1, bytes=len(text.encode(errors="replace")), different=bool(found))
        own.update(first=len(pieces[0]), second=len(pieces[1]))
    sources = [
        CutTexts(name, own["texts"], own["bytes"], (own["first"], own["second"]), own["different"])
        for name, own in sums.items()
    ]
    return sources, [OtherCut(pair, count) for pair, count in sorted(cuts.items(), key=lambda one: (-one[1], one[0]))]


def _other_cuts(first: list[bytes], second: list[bytes]) -> Iterable[tuple[Tokens, Tokens]]:
    """Yield the shortest stretches between ends that both have and in which they have other ends."""
    if first == second:
        return
    if b"".join(first) != b"".join(second):  # one of them changes the text, as NFC does
        yield tuple(first), tuple(second)
        return
    ends, other_ends = (
        {end: index for index, end in enumerate(accumulate(map(len, one)), 1)} for one in (first, second)
    )
    for start, stop in pairwise(sorted({0} | ends.keys() & other_ends.keys())):
        one, other = first[ends.get(start, 0) : ends[stop]], second[other_ends.get(start, 0) : other_ends[stop]]
        if one != other:
            yield tuple(one), tuple(other)
