"""What the report shows of its numbers: tables, lists and figures, for the text, the page and the model card."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.reports.definitions import AGAINST, NUMBERS
from bpe_pipeline.reports.figure import Figure, Series, category, figure_of, heat_map, number, size
from bpe_pipeline.reports.numbers import MARKED_SIZES, MergeNumbers, Numbers, Sample, language_costs
from bpe_pipeline.reports.parts import Items, Note, Part, Table
from bpe_pipeline.reports.tokens import TokenExample, readable


def mixture_table(corpus: CorpusFacts) -> list[Table]:
    """Return the table of the inputs or runs with their weights, if they have any."""
    if not corpus.texts:
        return []
    rows = tuple((text.name, format_bytes(text.bytes), text.weight, text.share) for text in corpus.texts)
    note = f"The weights follow from the bytes, by {corpus.mixture}." if corpus.mixture else ""
    return [Table("Mixture", ("text", "bytes", "weight", "share"), rows, note, {3: ".2%"})]


@dataclass(frozen=True)
class Chapter:
    """A section of a page. search: how many tokens it offers to search; folded: it is unfolded to be read."""

    id: str
    title: str
    parts: Sequence[Part]
    figures: Sequence[Figure] = ()
    search: str = ""
    folded: bool = False


def chapters(numbers: Numbers, lead: Sequence[Table]) -> list[Chapter]:
    """Return what is shown of numbers. lead: tables of the inputs, and of extensions."""
    sample: list[Part] = [
        Note("The sample", "There was no text: name some with bpe-pipeline report RUN --held-out PATH.")
    ]
    if numbers.sample is not None:
        sample = [about_sample(numbers.sample), compared_table(numbers, numbers.sample), *source_table(numbers)]
    heat_maps = [heat_map(table) for table in lead if table.heat]
    tokens = [*token_lists(numbers), special_token_table(numbers)]
    return [
        Chapter("sizes", "Vocabulary sizes", [sizes(numbers.merged)], size_figures(numbers)),
        *([Chapter("inputs", "Inputs", lead, heat_maps)] if lead else []),
        Chapter("by-language", "By language", [language_table(numbers)], [language_figure(numbers)]),
        Chapter("sample", "Sample", sample),
        Chapter("tokens", "Tokens", tokens, search=f"{numbers.tokenizers[0][1]:,}"),
    ]


def sizes(merged: MergeNumbers) -> Table:
    """The marked vocabulary sizes."""
    rows = tuple(
        (size.vocab_size, size.bytes_per_token, size.tokens, size.saved if size.vocab_size in MARKED_SIZES else None)
        for size in merged.marked
    )
    headers = ("vocabulary size", "bytes per token", "tokens of the corpus", "saved by doubling")
    note = "Exact, on the whole training corpus. Saved: the share of tokens fewer than with half the size."
    return Table("Bytes per token by size", headers, rows, note, forms={3: ".1%"})


_USUAL = {"lost": 0, "round_trip": 1}  # numbers that are not shown if all have these
_ABOUT_MEASURES = (
    "A word is a run of letters, marks and digits. Rényi efficiency (Zouhar et al. 2023) says how evenly tokens are "
    "used. Consistency: 1 if all numbers of as many digits are split in one way, also digit by digit."
)


def compared_table(numbers: Numbers, sample: Sample) -> Table:
    """The sample as each tokenizer cuts it: a row of the numbers for each."""
    listed = [
        {**one.whole.numbers, **one.languages, AGAINST.name: (one.against or {}).get("")} for one in sample.tokenizers
    ]
    found = {name for values in listed for name, value in values.items() if value not in (None, _USUAL.get(name))}
    columns = list(enumerate((number for name, number in NUMBERS.items() if name in found), 2))
    rows = (
        (*named, *(values.get(number.name) for _, number in columns))
        for named, values in zip(numbers.tokenizers, listed, strict=True)
    )
    return Table(
        "On the sample" if len(listed) > 1 else "All of the sample",
        ("tokenizer", "vocabulary", *(number.title for _, number in columns)),
        tuple(rows),
        _ABOUT_MEASURES,
        forms={at: number.form for at, number in columns},
        better={at: number.better for at, number in columns if number.better and number != AGAINST},
    )


def source_table(numbers: Numbers) -> list[Table]:
    """Bytes per token of each source with each tokenizer, if there are several sources."""
    measured = () if numbers.sample is None else numbers.sample.tokenizers
    rates = [{text.name: text.numbers.get("bytes_per_token") for text in each.sources} for each in measured]
    rows = [(text.name, text.bytes, *(by[text.name] for by in rates)) for each in measured[:1] for text in each.sources]
    headers = ("source", "bytes", *(name for name, _ in numbers.tokenizers))
    better = dict.fromkeys(range(2, len(headers)), 1)
    return [Table("By source: bytes per token", headers, tuple(rows), better=better, across=True)] if rows[1:] else []


def language_table(numbers: Numbers) -> Table:
    """The cost of each language with each tokenizer: of held-out files, or of the report's own sentences."""
    found = language_costs(numbers)
    rows = tuple((name, f"{found.times(name):.2f}", *costs) for name, costs in found.costs.items())
    headers = ("language", f"times {found.reference}", *found.tokenizers)
    note = f"{found.unit.capitalize()}; times {found.reference}: of this tokenizer. {found.origin}"
    if numbers.references and len(found.tokenizers) > len(numbers.tokenizers):
        note += " A reference stands in for a tokenizer that is in no cache here: its tokens were counted beforehand."
    last = ("Gini over the languages", "", *found.ginis)
    better = dict.fromkeys(range(2, len(headers)), -1)
    return Table("By language", headers, (*rows, last), note, better=better, across=True)


def special_token_table(numbers: Numbers) -> Table:
    """Special tokens with their ids and roles."""
    listed = numbers.vocabulary.special_tokens
    rows = tuple((readable(token.text.encode()), token.id, token.roles or None) for token in listed)
    return Table("Special tokens", ("token", "id", "role"), rows)


_GROUPS = {
    "longest": ("Longest tokens", ""),
    "never_used": (
        "Never used in the training corpus",
        "Exact: each merge made tokens, and later merges took all of them. They are parts of longer ones.",
    ),
    "unused": (
        "Broken: neither used in the training corpus nor a part of a token that is",
        "Removing them changes no text of the corpus.",
    ),
    "unreachable": (
        "Broken: never produced",
        "The merges, applied to the token's own bytes, do not produce the token: no text is encoded with it.",
    ),
}


def token_lists(numbers: Numbers) -> list[Part]:
    """The tokens that deserve a look, with the number of each kind; one line names the kinds without any."""
    groups = numbers.vocabulary.groups
    shown: list[Part] = [
        Items(
            f"{title} ({groups[name].count:,})",
            tuple((token.text, _about(token)) for token in groups[name].examples),
            note,
        )
        for name, (title, note) in _GROUPS.items()
        if name in groups and groups[name].count
    ]
    empty = [title for name, (title, _) in _GROUPS.items() if name in groups and not groups[name].count]
    return [*shown, Note("Without any", f"None: {'; '.join(empty)}.")] if empty else shown


def _about(token: TokenExample) -> str:
    return f"(id {token.id})" if token.times is None else f"(id {token.id}, {token.times:,} times)"


def about_sample(sample: Sample) -> Note:
    """Describe the sample in a sentence."""
    what = (
        "held out: not in the run's list of files"
        if sample.held_out
        else "NOT held out: text of the training corpus itself"
    )
    size = f"{format_bytes(sample.bytes)} in {format_count(sample.texts, 'texts')}"
    return Note("The sample", f"{size}, {what}. {sample.description}".strip(), warning=not sample.held_out)


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
