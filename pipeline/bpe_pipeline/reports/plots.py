"""The figures of the report: its numbers as `Figure`s, each with every compared tokenizer."""

from collections.abc import Iterator

from bpe_pipeline.reports.figure import Figure, Series, category, figure_of, number, size
from bpe_pipeline.reports.numbers import MARKED_SIZES, Numbers, language_costs


def size_figures(numbers: Numbers) -> list[Figure]:
    """Return the figures of the sizes: bytes per token, and what each doubling saves."""
    return [_sizes(numbers), *_gain(numbers)]


def _sizes(numbers: Numbers) -> Figure:
    """Bytes per token by size: a line for each text of this tokenizer, and a point for each tokenizer."""
    curve = [(one.vocab_size, round(one.bytes_per_token, 4)) for one in numbers.merged.curve]
    name, own = numbers.tokenizers[0]
    series = [Series(f"{name}, training corpus", curve, joined=True)]
    if (sample := numbers.sample) is not None and (sample.held_out or len(numbers.tokenizers) > 1):
        what = "held-out text" if sample.held_out else "a sample of the corpus"
        for (name, one_size), measures in zip(numbers.tokenizers, sample.tokenizers, strict=True):
            point = (one_size, round(measures.whole.numbers.get("bytes_per_token", 0), 4))
            is_own = measures is sample.tokenizers[0]
            series.append(Series(f"{name}, {what}", (is_own and sample.curve) or (point,), joined=is_own))
    sizes = [x for one in series for x, _ in one.points]
    note = "On the training corpus exact, and the table has the values."
    y = number("y", "bytes per token", zero=True)
    title = "Bytes per token by vocabulary size"
    return figure_of("size-curve", title, (size("x", [*sizes, own]), y), series, note)


def _gain(numbers: Numbers) -> Iterator[Figure]:
    saved = [
        (f"{one.vocab_size // 1000}k", round(one.saved * 100, 2))
        for one in numbers.merged.marked
        if one.saved is not None and one.vocab_size in MARKED_SIZES
    ]
    if len(saved) > 1:
        x, y = category("x", "vocabulary size"), number("y", "% of the tokens saved", zero=True)
        note, title = "Each bar compares a size with half of it, on the training corpus.", "Saved by doubling"
        yield figure_of("gain", title, (x, y), [Series("saved", saved)], note, "bar")


def language_figure(numbers: Numbers) -> Figure:
    """The cost of each language relative to one of them, the cheapest first."""
    found = language_costs(numbers)
    ordered = sorted(found.costs, key=found.times)
    series = [
        Series(name, [(round(found.times(one, at), 4), one) for one in ordered])
        for at, name in enumerate(found.tokenizers)
    ]
    x = number("x", f"{found.unit} relative to {found.reference}")
    return figure_of("languages", "Cost by language", (x, category("y")), series, found.origin)
