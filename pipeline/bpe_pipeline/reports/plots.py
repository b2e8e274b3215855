"""The figures of the report: its numbers as `Figure`s, each with every compared tokenizer."""

from collections.abc import Iterator, Sequence

from bpe_pipeline.reports.figure import Axis, Figure, Series, short, size_axis, without_endings
from bpe_pipeline.reports.numbers import MARKED_SIZES, Numbers, Shape, same_text

_MOST_SCRIPTS, _LONGEST = 16, 32
_SHARE = Axis("% of the tokens", form=".2f", zero=True)


def page_figures(numbers: Numbers) -> list[Figure]:
    """Return the figures that have values: sizes, doublings, languages, sources, scripts, lengths and ranks."""
    names = [name for name, _ in numbers.tokenizers]
    figures = [_sizes(numbers), *_gain(numbers), _languages(numbers), *_sources(numbers)]
    figures += [_scripts(names, numbers.shapes), _lengths(names, numbers)]
    if numbers.merged.ranks:
        ranks = (Series("", numbers.merged.ranks),)
        x, y = (Axis(label, scale="log", form=",.0f") for label in ("rank of the merge", "times"))
        note = "How often each pair occurred when it was merged."
        figures.append(Figure("ranks", "Count of each merge against its rank", "lines", x, y, ranks, note))
    return figures


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
    """Tokens of the same text by language, the cheapest first, relative to one of them."""
    same = same_text(numbers)
    reference = same.counts[same.reference]
    ordered = sorted(same.counts, key=lambda name: same.counts[name][0])
    series = tuple(
        Series(name, tuple((round(same.counts[one][at] / max(reference[at], 1), 4), one) for one in ordered))
        for at, name in enumerate(same.tokenizers)
    )
    title, x = "Tokens for the same text by language", Axis(f"tokens relative to {same.reference}", form=".2f")
    return Figure("languages", title, "dots", x, Axis(scale="category"), series, same.origin)


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


def _scripts(names: Sequence[str], shapes: Sequence[Shape]) -> Figure:
    own = list(shapes[0].scripts)[:_MOST_SCRIPTS]
    others = [name for one in shapes[1:] for name in list(one.scripts)[: _MOST_SCRIPTS // 2]]
    scripts = list(dict.fromkeys((*own, *others)))[:_MOST_SCRIPTS]
    series = []
    for name, one in zip(names, shapes, strict=True):
        total = sum(one.scripts.values()) or 1
        shares = ((100 * one.scripts.get(script, 0) / total, script) for script in scripts)
        series.append(Series(name, tuple((float(f"{share:.3g}"), script) for share, script in shares if share)))
    drawn = [share for line in series for share, _ in line.points if isinstance(share, float)]
    ticks = tuple((10.0**power, f"{10.0**power:g}") for power in range(-4, 3))
    x = Axis("% of the tokens", "log", ".3g", ticks, limits=(min(drawn, default=1) / 1.5, max(drawn, default=1) * 1.5))
    note = "Shares of each vocabulary, each token counted once; a script without tokens has no point."
    return Figure("scripts", "Tokens by script", "dots", x, Axis(scale="category"), tuple(series), note)


def _lengths(names: Sequence[str], numbers: Numbers) -> Figure:
    """The share of tokens of each length in bytes; the last is of all longer ones, too."""
    series = []
    for name, one in zip(names, numbers.shapes, strict=True):
        total = sum(one.lengths.values()) or 1
        counts = dict.fromkeys(range(1, min(max(one.lengths, default=1), _LONGEST) + 1), 0)
        for length, count in one.lengths.items():
            counts[max(min(length, _LONGEST), 1)] += count
        series.append(Series(name, tuple((length, round(100 * count / total, 3)) for length, count in counts.items())))
    ticks = ((1, "1"), (4, "4"), (8, "8"), (16, "16"), (24, "24"), (_LONGEST, f"{_LONGEST} and<br>longer"))
    most = max(length for line in series for length, _ in line.points if isinstance(length, int))
    x = Axis("bytes of the token", form=",.0f", ticks=ticks, limits=(0, most + 1))
    mean = numbers.vocabulary.bytes / max(numbers.vocabulary.tokens, 1)
    note = f"{mean:.2f} bytes on average, each token of this vocabulary counted once."
    return Figure("lengths", "Tokens by length", "lines", x, _SHARE, tuple(series), note)
