"""What the report shows of its numbers: rows, tables and lists, for the text, the page and the model card."""

from collections.abc import Sequence

from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.reports.definitions import AGAINST, LANGUAGES, TEXT
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


def sections(numbers: Numbers, skipped: Sequence[str]) -> dict[str, list[Part]]:
    """Return what is shown, by the section of the page. skipped: input that was skipped or altered."""
    no_sample = Note("The sample", "There was no text: name some with bpe-pipeline report RUN --held-out PATH.")
    sample = numbers.sample
    losses = Items("Skipped or altered input", tuple((kind, "") for kind in skipped))
    return {
        "sizes": [sizes(numbers.merged)],
        "languages": [language_table(numbers)],
        "sample": [no_sample] if sample is None else [about_sample(sample), compared_table(numbers, sample)],
        "sources": [] if sample is None else [*source_table(numbers, sample)],
        "tokens": [*token_lists(numbers), special_token_table(numbers)],
        "skipped": [losses] if skipped else [],
    }


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
    title = "On the sample" if len(sample.tokenizers) > 1 else "All of the sample"
    listed = [{**one.whole.numbers, **one.languages} for one in sample.tokenizers]
    for measures, values in zip(sample.tokenizers, listed, strict=True):
        if measures.against is not None and "" in measures.against:
            values[AGAINST.name] = measures.against[""]
    found = {name for one in listed for name, value in one.items() if value != _USUAL.get(name)}
    columns = [number for number in (*TEXT, *LANGUAGES, AGAINST) if number.name in found]
    numbered = list(enumerate(columns, 2))
    rows = (
        (*named, *(values.get(number.name) for number in columns))
        for named, values in zip(numbers.tokenizers, listed, strict=True)
    )
    return Table(
        title,
        ("tokenizer", "vocabulary", *(number.title for number in columns)),
        tuple(rows),
        _ABOUT_MEASURES,
        forms={at: number.form for at, number in numbered},
        better={at: number.better for at, number in numbered if number.better and number != AGAINST},
    )


def source_table(numbers: Numbers, sample: Sample) -> list[Table]:
    """Bytes per token of each source with each tokenizer, if there are several sources."""
    listed = sample.tokenizers[0].sources
    if len(listed) < 2:
        return []
    known = [{text.name: text.numbers.get("bytes_per_token") for text in each.sources} for each in sample.tokenizers]
    rows = tuple((text.name, text.bytes, *(each.get(text.name) for each in known)) for text in listed)
    headers = ("source", "bytes", *(name for name, _ in numbers.tokenizers))
    return [_across("By source: bytes per token", headers, rows, "", 2, 1)]


def _across(
    title: str, headers: Sequence[str], rows: tuple[tuple[object, ...], ...], note: str, first: int, better: int
) -> Table:
    """A row for each text: the tokenizers' columns, from the `first` one on, are compared."""
    columns = dict.fromkeys(range(first, len(headers)), better)
    return Table(title, tuple(headers), rows, note, better=columns, across=True)


def language_table(numbers: Numbers) -> Table:
    """The cost of each language with each tokenizer: of held-out files, or of the report's own sentences."""
    found = language_costs(numbers)
    rows = tuple((name, f"{found.times(name):.2f}", *costs) for name, costs in found.costs.items())
    headers = ("language", f"times {found.reference}", *found.tokenizers)
    note = f"{found.unit.capitalize()}; times {found.reference}: of this tokenizer. {found.origin}"
    if numbers.references and len(found.tokenizers) > len(numbers.tokenizers):
        note += " A reference stands in for a tokenizer that is in no cache here: its tokens were counted beforehand."
    last = ("Gini over the languages", "", *found.ginis)
    return _across("By language", headers, (*rows, last), note, 2, -1)


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
