"""The figures of the report: its numbers as `Figure`s, each with every compared tokenizer."""

from collections.abc import Iterator

from bpe_pipeline.reports.figure import Axis, Figure, Series, short, size_axis, without_endings
from bpe_pipeline.reports.numbers import MARKED_SIZES, Numbers, language_costs


def page_figures(numbers: Numbers) -> list[Figure]:
    """Return the figures that have values: sizes, doublings, languages and sources."""
    return [_sizes(numbers), *_gain(numbers), _languages(numbers), *_sources(numbers)]


def _sizes(numbers: Numbers) -> Figure:
    """Bytes per token by size: a line for each text, on it this tokenizer's own point, and the others' points."""
    curve = tuple((one.vocab_size, round(one.bytes_per_token, 4)) for one in numbers.merged.curve)
    name, own = numbers.tokenizers[0]
    sizes, points = [*(size for size, _ in curve), own], tuple(one for one in curve if one[0] == own)
    series = [Series(f"{name}, training corpus", curve, style=0), Series("", points, style=0, alone=True)]
    note = f"Training corpus: exact, and the table has the values; the point is {name}."
    if (sample := numbers.sample) is not None and (sample.held_out or len(numbers.tokenizers) > 1):
        what = "held-out text" if sample.held_out else "a sample of the corpus"
        measured = [
            ((size, round(one.whole.numbers.get("bytes_per_token", 0), 4)),)
            for (_, size), one in zip(numbers.tokenizers, sample.tokenizers, strict=True)
        ]
        series.append(Series(f"{name}, {what}", tuple(sample.curve) or measured[0], style=1))
        series.append(Series("", measured[0], style=1, alone=True))
        series += [
            Series(f"{other}, {what}", point, style=at, alone=True)
            for at, ((other, _), point) in enumerate(zip(numbers.tokenizers[1:], measured[1:], strict=True), 2)
        ]
        sizes += [size for _, size in numbers.tokenizers]
        note += f" The others are on {what}."
    y = Axis("bytes per token", zero=True)
    return Figure("size-curve", "Bytes per token by vocabulary size", "lines", size_axis(sizes), y, tuple(series), note)


def _gain(numbers: Numbers) -> Iterator[Figure]:
    saved = tuple(
        (short(one.vocab_size), round(one.saved * 100, 2))
        for one in numbers.merged.marked
        if one.saved is not None and one.vocab_size in MARKED_SIZES
    )
    if len(saved) > 1:
        x, y = Axis("vocabulary size", scale="category"), Axis("% of the tokens saved", form=".2f")
        note = "Each bar compares a size with half of it, on the training corpus."
        yield Figure("gain", "Tokens saved by doubling the vocabulary", "bars", x, y, (Series("", saved),), note)


def _languages(numbers: Numbers) -> Figure:
    """The cost of each language relative to one of them, the cheapest first."""
    found = language_costs(numbers)
    ordered = sorted(found.costs, key=found.times)
    series = tuple(
        Series(name, tuple((round(found.times(one, at), 4), one) for one in ordered))
        for at, name in enumerate(found.tokenizers)
    )
    title, x = "Cost by language", Axis(f"{found.unit} relative to {found.reference}", form=".2f")
    return Figure("languages", title, "dots", x, Axis(scale="category"), series, found.origin)


def _sources(numbers: Numbers) -> Iterator[Figure]:
    sample = numbers.sample
    if sample is None or len(sample.tokenizers[0].sources) < 2:
        return
    names = without_endings(source.name for source in sample.tokenizers[0].sources)
    series = tuple(
        Series(
            name,
            tuple((round(one.numbers.get("bytes_per_token", 0), 4), names[one.name]) for one in measures.sources),
        )
        for (name, _), measures in zip(numbers.tokenizers, sample.tokenizers, strict=True)
    )
    x, y = Axis("bytes per token"), Axis(scale="category")
    what = "held-out text" if sample.held_out else "a sample of the training corpus"
    yield Figure("sources", "Bytes per token by source", "dots", x, y, series, f"{len(names)} sources of {what}.")
