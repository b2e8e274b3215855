"""What the report shows of its numbers: rows, tables and lists, for the text, the page and the model card."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipeline.base.units import format_bytes, format_count
from pipeline.counts.chunk_statistics import CorpusFacts
from pipeline.reports.measure import FEWEST_SOURCES, TextMeasures
from pipeline.reports.numbers import MARKED_SIZES, MergeNumbers, Numbers, Sample, same_text
from pipeline.reports.parts import Items, Note, Part, Table
from pipeline.reports.tokens import TokenGroup, readable


def mixture_table(corpus: CorpusFacts) -> list[Table]:
    """Return the table of the inputs or runs with their weights, if they have any."""
    if not corpus.texts:
        return []
    rows = tuple((text.name, format_bytes(text.bytes), text.weight, text.share) for text in corpus.texts)
    note = f"The weights follow from the bytes, by {corpus.mixture}." if corpus.mixture else ""
    return [Table("Mixture", ("text", "bytes", "weight", "share"), rows, note, {3: ".2%"})]


def sections(numbers: Numbers, skipped: Sequence[str]) -> dict[str, list[Part]]:
    """Return what is shown, by the section of the page. skipped: input that was skipped or altered."""
    sample, (problems, kinds) = numbers.sample, token_lists(numbers)
    scripts = Table("Tokens by script", ("script", "tokens"), tuple(numbers.shapes[0].scripts.items()))
    no_sample = Note("The sample", "There was no text: name some with bpe-pipeline report RUN --held-out PATH.")
    compared = [no_sample] if sample is None else [about_sample(sample), compared_table(numbers, sample)]
    losses = Items(f"Skipped or altered input ({len(skipped)})", tuple((kind, "") for kind in skipped))
    return {
        "compared": [*compared, *embedding_tables(numbers), sizes(numbers.merged)],
        "parts": [
            *parallel_tables(numbers),
            *(sentences_table(numbers), fallback_table(numbers)),
            *([] if sample is None else [*superword_tables(sample), *sample_tables(numbers, sample)]),
        ],
        "vocabulary": [special_token_table(numbers), *kinds, scripts],
        "problems": [*problems, losses],
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


_ABOUT_MEASURES = (
    "A word is a run of letters, marks and digits; tokens per word (fertility) are those that overlap it. "
    "Rényi efficiency (Zouhar et al. 2023, order 2.5) says how evenly tokens are used. Digit F1 measures consistency: "
    "1 if all numbers of as many digits are cut in one way, also digit by digit. Whole characters: the share of tokens "
    "that are valid UTF-8; single bytes: the share that are one byte of a longer character."
)
_MEASURES: tuple[tuple[str, Callable[[TextMeasures], Any], str, int], ...] = (  # header, value, form, better
    ("bytes", lambda text: text.bytes, "", 0),
    ("bytes lost", lambda text: text.lost, "", -1),
    ("tokens", lambda text: text.tokens, "", -1),
    ("bytes per token", lambda text: text.bytes_per_token, ".3f", 1),
    ("characters per token", lambda text: text.characters_per_token, ".3f", 1),
    ("tokens per word", lambda text: text.fertility, ".3f", -1),
    ("words in one token", lambda text: text.whole, ".1%", 1),
    ("Rényi efficiency", lambda text: text.renyi, ".3f", 1),
    ("digit F1 (consistency)", lambda text: text.digit_f1, ".3f", 1),
    ("whole characters", lambda text: text.integrity, ".1%", 1),
    ("single bytes", lambda text: text.fallback, ".2%", -1),
)


def _measures(
    title: str, headers: tuple[str, ...], listed: Sequence[tuple[tuple[str | int, ...], TextMeasures]], note: str = ""
) -> Table:
    """A row of leading cells and measures for each tokenizer, source or script."""
    columns = [column for column in _MEASURES if any(column[1](text) is not None for _, text in listed)]
    if not any(text.lost for _, text in listed):
        columns = [column for column in columns if column[0] != "bytes lost"]
    numbered = list(enumerate(columns, len(headers)))
    return Table(
        title,
        (*headers, *(name for name, *_ in columns)),
        tuple((*cells, *(value(text) for _, value, *_ in columns)) for cells, text in listed),
        note,
        forms={at: form for at, (_, _, form, _) in numbered},
        better={at: better for at, (*_, better) in numbered if better},
    )


def compared_table(numbers: Numbers, sample: Sample) -> Table:
    """The sample as each tokenizer cuts it."""
    title = "On the sample" if len(sample.tokenizers) > 1 else "All of the sample"
    whole = [(named, measures.whole) for named, measures in zip(numbers.tokenizers, sample.tokenizers, strict=True)]
    return _measures(title, ("tokenizer", "vocabulary"), whole, _ABOUT_MEASURES)


def superword_tables(sample: Sample) -> list[Table]:
    """What superwords save in each source of the sample, the most first, if there are any."""
    this, before = sample.tokenizers[0], {"all": sum(sample.first_stage.values()), **sample.first_stage}
    rows = []
    for text in (*this.sources, replace(this.whole, name="all")):
        times = text.tokens / max(before.get(text.name, 0), 1)
        rows.append((text.name, text.bytes, (text.bytes_per_token or 0) * times, text.bytes_per_token, times - 1))
    note = "A source that saves less than others pays: ordinary tokens, some of them its own, would be in their place."
    headers = ("source", "bytes", "bytes per token, first stage", "with superwords", "tokens")
    ordered = (*sorted(rows[:-1], key=lambda row: row[-1]), rows[-1])
    return [Table("What superwords save", headers, ordered, note, {4: "+.1%"})] if sample.first_stage else []


def sample_tables(numbers: Numbers, sample: Sample) -> list[Table]:
    """The sample by source and by script: all measures of one tokenizer, or bytes per token of several."""
    this, *others = sample.tokenizers
    names = [name for name, _ in numbers.tokenizers]
    of_scripts = "Only the words of each script. In text without spaces a run of letters counts as one word."
    tables = []
    for kind, note in (("source", ""), ("script", of_scripts)):
        listed: tuple[TextMeasures, ...] = getattr(this, f"{kind}s")
        if kind == "source" and len(listed) < 2:
            continue
        if others:
            known = [
                {text.name: text.bytes_per_token for text in getattr(each, f"{kind}s")} for each in sample.tokenizers
            ]
            rows = tuple((text.name, text.bytes, *(each.get(text.name) for each in known)) for text in listed)
            tables.append(_across(f"By {kind}: bytes per token", (kind, "bytes", *names), rows, note, 2, 1))
        else:
            table = _measures(f"By {kind}", (kind,), [((text.name,), text) for text in listed], note)
            tables.append(replace(table, better={}))  # they are different texts
    return tables


def _across(
    title: str, headers: Sequence[str], rows: tuple[tuple[object, ...], ...], note: str, first: int, better: int
) -> Table:
    """A row for each text: the tokenizers' columns, from the `first` one on, are compared."""
    columns = dict.fromkeys(range(first, len(headers)), better)
    return Table(title, tuple(headers), rows, note, better=columns, across=True)


def parallel_tables(numbers: Numbers) -> list[Table]:
    """Tokens of the held-out parallel files, if there are any."""
    if numbers.sample is None or not numbers.sample.parallel:
        return []
    same = same_text(numbers)
    reference = max(same.counts[same.reference][0], 1)
    rows = tuple((name, f"{counts[0] / reference:.2f}", *counts) for name, counts in same.counts.items())
    headers = ("language", f"times {same.reference}", *same.tokenizers)
    last = ("Gini over the languages", "", *same.ginis)
    return [_across("Tokens of the held-out parallel files", headers, (*rows, last), same.origin, 2, -1)]


def sentences_table(numbers: Numbers) -> Table:
    """Tokens of the same text in several languages, and how unequal they are."""
    names = [name for name, _ in numbers.tokenizers] + [
        f"{reference.name} (reference)" for reference in numbers.references
    ]
    english = next(sentence.counts[0] for sentence in numbers.sentences if sentence.language == "English")
    rows = tuple(
        (sentence.language, f"{sentence.counts[0] / english:.2f}", *sentence.counts) for sentence in numbers.sentences
    )
    note = "Times English: tokens of this tokenizer for one of English. Gini: 0 if all languages cost the same."
    if numbers.references:
        note += " A reference stands in for a tokenizer that is in no cache here: its tokens were counted beforehand."
    title, last = "Tokens of the same text in several languages", ("Gini over the languages", "", *numbers.ginis)
    return _across(title, ("language", "times English", *names), (*rows, last), note, 2, -1)


def fallback_table(numbers: Numbers) -> Table:
    """The share of single bytes of characters in the same text in several languages."""
    rows = tuple((sentence.language, *sentence.fallback) for sentence in numbers.sentences)
    note = "The share of tokens that are one byte of a longer character, in the same sentences."
    headers = ("language", *(name for name, _ in numbers.tokenizers))
    table = _across("Single bytes by language", headers, rows, note, 1, -1)
    return replace(table, forms=dict.fromkeys(table.better, ".1%"))


def embedding_tables(numbers: Numbers) -> list[Table]:
    """Parameters of the embedding, and of one with an output layer of its own, if a hidden size is named."""
    if (hidden := numbers.hidden_size) is None:
        return []
    names = [*numbers.tokenizers, *((reference.name, reference.vocab_size) for reference in numbers.references)]
    rows = tuple((name, size, size * hidden, 2 * size * hidden) for name, size in names)
    headers = ("tokenizer", "vocabulary", "parameters, tied", "parameters, untied")
    return [Table(f"Embedding for a hidden size of {hidden:,}", headers, rows)]


def special_token_table(numbers: Numbers) -> Table:
    """Special tokens with their ids and roles."""
    listed = numbers.vocabulary.special_tokens
    rows = tuple((readable(token.text.encode()), token.id, token.roles or None) for token in listed)
    return Table("Special tokens", ("token", "id", "role"), rows)


_GROUPS = {
    "unreachable": (
        "Never produced",
        "The merges, applied to the token's own bytes, do not produce the token: no text is encoded with it.",
    ),
    "never_used": (
        "Never used in the training corpus",
        "Exact: each merge made tokens, and later merges took all of them. They are parts of longer ones.",
    ),
    "unused": (
        "Neither used in the training corpus nor a part of a token that is",
        "Broken: removing them changes no text of the corpus.",
    ),
    "partial": ("Part of a character", "Merged bytes that are not valid UTF-8 alone: characters that are rare."),
    "urls": ("Parts of addresses", "URLs and web file names: often a sign of boilerplate."),
    "repeats": ("Long repeats", "A unit of up to four characters, repeated eight times or more."),
    "single_source": (
        "From one rare source",
        "In the sample four times or more, all in one source, which is at most a tenth of it.",
    ),
    "longest": ("Longest tokens", ""),
    "numbers": ("Numbers", "Digits alone, with or without a space in front."),
    "indentation": ("Indentation", "White space alone, the longest first."),
}


def token_lists(numbers: Numbers) -> tuple[list[Items], list[Items]]:
    """The tokens that deserve a look, with the number of each kind in its title: problems, and what else there is."""
    groups, sample, variants = dict(numbers.vocabulary.groups), numbers.sample, numbers.vocabulary.variants
    if sample is not None and len(sample.tokenizers[0].sources) >= FEWEST_SOURCES:
        groups["single_source"] = sample.single_source
    problems, kinds = (
        [_items(*_GROUPS[name], groups[name]) for name in names if name in groups]
        for names in (list(_GROUPS)[:7], list(_GROUPS)[7:])
    )
    share = f"{variants.beyond_one / max(numbers.vocabulary.tokens, 1):.1%} of the tokens"
    note = f"With one token for each of {format_count(variants.groups, 'groups')}, {variants.beyond_one:,} fewer."
    same = tuple((" ".join(group), "") for group in variants.largest)
    return [*problems, Items(f"The same but for case or a space in front ({share})", same, note)], kinds


def _items(title: str, note: str, group: TokenGroup) -> Items:
    known = ((token, "" if token.times is None else f", {token.times:,} times") for token in group.examples)
    return Items(
        f"{title} ({group.count:,})", tuple((token.text, f"(id {token.id}{times})") for token, times in known), note
    )


def about_sample(sample: Sample) -> Note:
    """Describe the sample in a sentence."""
    what = (
        "held out: not in the run's list of files"
        if sample.held_out
        else "NOT held out: text of the training corpus itself"
    )
    size = f"{format_bytes(sample.bytes)} in {format_count(sample.texts, 'texts')}"
    return Note("The sample", f"{size}, {what}. {sample.description}".strip(), warning=not sample.held_out)
