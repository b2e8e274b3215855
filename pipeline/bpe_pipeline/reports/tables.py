"""What the report shows of its numbers: rows, tables and lists, for the text, the page and the model card."""

from collections.abc import Sequence
from dataclasses import replace

from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.reports.definitions import NUMBERS, TEXT, reference_of
from bpe_pipeline.reports.measure import FEWEST_SOURCES, TextMeasures
from bpe_pipeline.reports.numbers import MARKED_SIZES, MergeNumbers, Numbers, Sample, same_text
from bpe_pipeline.reports.parts import Items, Note, Part, Table
from bpe_pipeline.reports.tokens import TokenGroup, readable


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
        "compared": [*compared, sizes(numbers.merged)],
        "parts": [
            *language_tables(numbers),
            *parallel_tables(numbers),
            *(sentences_table(numbers), fallback_table(numbers)),
            *([] if sample is None else [*superword_tables(sample), *sample_tables(numbers, sample)]),
        ],
        "numbers": [] if sample is None else [all_numbers(numbers, sample), *digit_tables(sample)],
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


_OF_LANGUAGES = (
    "fertility",
    "tokens_per_word",
    "bytes_per_token",
    "characters_per_token",
    "vocabulary_used",
    "round_trip",
)
_USUAL = {"lost": 0, "round_trip": 1}  # numbers that are not shown in brief if all have these
_ABOUT_MEASURES = (
    "A word is a run of letters, marks and digits. Rényi efficiency (Zouhar et al. 2023) says how evenly tokens are "
    "used. Digit F1 measures consistency: 1 if all numbers of as many digits are split in one way, also digit by digit."
)


def _measures(
    title: str, headers: tuple[str, ...], listed: Sequence[tuple[tuple[str | int, ...], TextMeasures]], note: str = ""
) -> Table:
    """A row of leading cells and the brief numbers for each tokenizer, source or script."""
    found = {name for _, text in listed for name, value in text.numbers.items() if value != _USUAL.get(name)}
    columns = [number for number in TEXT if number.brief and number.name in found]
    columns.sort(key=lambda number: number.name != "bytes_per_token")  # a telephone shows the first ones
    numbered = list(enumerate(columns, len(headers)))
    return Table(
        title,
        (*headers, *(number.title for number in columns)),
        tuple((*cells, *(text.numbers.get(number.name) for number in columns)) for cells, text in listed),
        note,
        forms={at: number.form for at, number in numbered},
        better={at: number.better for at, number in numbered if number.better},
    )


def all_numbers(numbers: Numbers, sample: Sample) -> Table:
    """Every number that can be said of the sample and the vocabularies."""
    listed = [{**one.whole.numbers, **one.languages, **one.vocabulary} for one in sample.tokenizers]
    rows = [
        (f"{number.title} ({name})", *(number.shown(one[name]) if name in one else None for one in listed))
        for name, number in NUMBERS.items()
        if any(name in one for one in listed)
    ]
    if against := [one.against for one in sample.tokenizers if one.against is not None]:
        nsl = NUMBERS["nsl"]
        ratios = (nsl.shown(one.nsl[""]) if one.nsl else None for one in against)
        rows.insert(0, (f"{nsl.title} (nsl)", "", *ratios))
    note = "In brackets the name in JSON and gates; the reference page of numbers defines each."
    return Table("All numbers of the sample", ("number", *(name for name, _ in numbers.tokenizers)), tuple(rows), note)


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
        times, rate = text.tokens / max(before.get(text.name, 0), 1), text.numbers.get("bytes_per_token")
        rows.append((text.name, text.bytes, (rate or 0) * times, rate, times - 1))
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
        if kind == "source" and (len(listed) < 2 or (this.costs and not others)):  # the table of languages has more
            continue
        if others:
            known = [
                {text.name: text.numbers.get("bytes_per_token") for text in getattr(each, f"{kind}s")}
                for each in sample.tokenizers
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


def language_tables(numbers: Numbers) -> list[Table]:
    """The languages of held-out files, as this tokenizer cuts them."""
    if numbers.sample is None or not (costs := numbers.sample.tokenizers[0].costs):
        return []
    texts = {text.name: text for text in numbers.sample.tokenizers[0].sources}
    columns = [NUMBERS[name] for name in _OF_LANGUAGES]
    reference = reference_of(costs)
    rows = tuple(
        (name, *(texts[name].numbers.get(one.name) for one in columns), cost / (costs[reference] or 1))
        for name, cost in costs.items()
    )
    unit = "tokens a line" if numbers.sample.parallel else "tokens a character, for they are no translations"
    headers = ("language", *(one.title for one in columns), f"times {reference}")
    forms = {at: one.form for at, one in enumerate(columns, 1)}
    return [Table("By language", headers, rows, f"Times {reference}: {unit}.", forms)]


def digit_tables(sample: Sample) -> list[Table]:
    """In how many ways this tokenizer cuts numbers, by their digits."""
    rows = tuple((digits, *cuts) for digits, cuts in sample.tokenizers[0].digits.items())
    note = "Entropy, in bits: 0 if numbers of as many digits are always split in one way."
    return [Table("How numbers are split", ("digits", "numbers", "ways", "entropy"), rows, note)] if rows else []


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
    return _across(title, ("text", "times English", *names), (*rows, last), note, 2, -1)


def fallback_table(numbers: Numbers) -> Table:
    """The share of single bytes of characters in the same text in several languages."""
    rows = tuple((sentence.language, *sentence.fallback) for sentence in numbers.sentences)
    note = "The share of tokens that are one byte of a longer character, in the same sentences."
    headers = ("text", *(name for name, _ in numbers.tokenizers))
    table = _across("Single bytes by language", headers, rows, note, 1, -1)
    return replace(table, forms=dict.fromkeys(table.better, ".1%"))


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
    "long_signs": ("Eight signs or more", "Punctuation and symbols, without a letter or digit."),
    "long_tokens": ("More than 64 characters", ""),
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
        for names in (list(_GROUPS)[:9], list(_GROUPS)[9:])
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
