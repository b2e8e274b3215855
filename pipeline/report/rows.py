"""The tables of the report, in plain values: what report.txt and the page both show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.base.units import format_bytes, format_count
from pipeline.report.measure import LEAST_SOURCES, Cut
from pipeline.report.merged import Merged
from pipeline.report.numbers import Numbers, Sample
from pipeline.report.tokens import Found

_MOST_FILES = 8


@dataclass(frozen=True)
class Table:
    """Rows under headers. note: what a reader should know of it."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Kind:
    """Tokens of a kind that deserves a look. explained: what they are; tokens: each as people can read it, and beside
    it what more there is to say."""

    title: str
    explained: str
    count: int
    tokens: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Told:
    """What is known of a run beside its numbers. summary: what the command that trained it left in report.json."""

    directory: str
    options: tuple[tuple[str, str], ...]
    corpus: tuple[tuple[str, str], ...]
    versions: dict[str, str]
    summary: dict[str, Any]


def number(value: float | None, digits: int = 3) -> str:
    """A number for people; a dash where there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def share(value: float | None) -> str:
    """A share in per cent."""
    return "–" if value is None else f"{value:.1%}"


def corpus_rows(files: Sequence[tuple[str, int]], source: str) -> tuple[tuple[str, str], ...]:
    """What was read: the largest files by name, the others together. files: path, bytes."""
    largest = sorted(files, key=lambda file: -file[1])[:_MOST_FILES]
    rows = [(path, format_bytes(size)) for path, size in largest]
    if len(files) > len(largest):
        rest = sum(size for _, size in files) - sum(size for _, size in largest)
        rows.append((f"{len(files) - len(largest):,} more files", format_bytes(rest)))
    return (*((("counts from", source),) if source else ()), *rows)


def losses(told: Told) -> tuple[str, ...]:
    """What was not taken as it stood, a line each."""
    found = told.summary.get("corpus", {}).get("losses", ())
    return tuple(
        f"{loss['count']:,} {loss['what']}"
        + (f" (first: {'; '.join(map(str, loss['examples'][:3]))})" if loss["examples"] else "")
        for loss in found
    )


def stages(told: Told) -> Table:
    """Time and memory by stage; the peak of a stage is of all processes together."""
    times, peaks = told.summary.get("stages", {}), told.summary.get("stage_peak_bytes", {})
    rows = tuple(
        (
            name,
            "kept" if seconds is None else f"{seconds:.2f} s",
            format_bytes(peaks[name]) if name in peaks else "–",
        )
        for name, seconds in times.items()
    )
    return Table("Time and memory by stage", ("stage", "time", "peak memory"), rows)


def sizes(merged: Merged) -> Table:
    """What each marked size gives."""
    rows = tuple(
        (f"{size.vocab_size:,}", number(size.bytes_per_token), f"{size.tokens:,}", share(size.saved))
        for size in merged.marked
    )
    headers = ("vocabulary size", "bytes per token", "tokens of the corpus", "saved by doubling")
    note = "Exact, on the whole training corpus. Saved: of the tokens that half the size gives, those that go away."
    return Table("Bytes per token by size", headers, rows, note)


def cuts(title: str, first: str, listed: Sequence[Cut], sizes: Sequence[int] = (), note: str = "") -> Table:
    """What became of some text, a row for each part of it or each tokenizer (with their vocabulary sizes)."""
    renyi = any(cut.renyi is not None for cut in listed)
    headers = (first, *(("vocabulary",) if sizes else ()), "bytes", "tokens", "bytes per token", "tokens per word")
    rows = tuple(
        (
            cut.name,
            *((f"{sizes[index]:,}",) if sizes else ()),
            f"{cut.bytes:,}",
            f"{cut.tokens:,}",
            number(cut.bytes_per_token),
            number(cut.fertility),
            share(cut.whole),
            *((number(cut.renyi),) if renyi else ()),
        )
        for index, cut in enumerate(listed)
    )
    return Table(title, (*headers, "words kept whole", *(("Rényi efficiency",) if renyi else ())), rows, note)


def sample_tables(numbers: Numbers, sample: Sample) -> tuple[Table, ...]:
    """The sample as each tokenizer cuts it, and by source and script as ours does."""
    ours = sample.tokenizers[0]
    several = len(sample.tokenizers) > 1
    tables = [
        cuts(
            "Compared with other tokenizers" if several else "All of the sample",
            "tokenizer",
            [measured.whole for measured in sample.tokenizers],
            [size for _, size in numbers.tokenizers],
        )
    ]
    if len(ours.sources) > 1:
        tables.append(cuts("By source", "source", ours.sources))
    note = "Of the words of each script alone. Where no spaces are written, a run of letters counts as one word."
    return (*tables, cuts("By script", "script", ours.scripts, note=note))


def kinds(numbers: Numbers) -> tuple[Kind, ...]:
    """The kinds of tokens that deserve a look."""
    vocabulary, sample = numbers.vocabulary, numbers.sample
    found = [
        _kind("Longest tokens", "", Found(len(vocabulary.longest), vocabulary.longest)),
        Kind(
            "The same but for case or a space in front",
            f"{format_count(vocabulary.variants.tokens, 'tokens')} in "
            f"{format_count(vocabulary.variants.groups, 'groups')}: one of each group would do with "
            f"{vocabulary.variants.beyond_one:,} fewer.",
            vocabulary.variants.tokens,
            tuple((" ".join(group), "") for group in vocabulary.variants.largest),
        ),
        _kind(
            "Part of a character",
            "Not valid UTF-8 alone: the single bytes above 127, and what was joined of characters that are rare here.",
            vocabulary.partial,
        ),
        _kind(
            "Never produced",
            "The merges, applied to the token's own bytes, do not give the token: no text is ever encoded with it.",
            vocabulary.unreachable,
        ),
        _kind("Parts of addresses", "URLs and file names of the web: often a sign of boilerplate.", vocabulary.urls),
        _kind("Long repeats", "A unit of up to four characters, eight times or more in a row.", vocabulary.repeats),
    ]
    if sample is not None and len(sample.tokenizers[0].sources) >= LEAST_SOURCES:
        explained = "In the sample, four times or more and in one source alone, which is at most a tenth of it."
        found.append(_kind("From one rare source", explained, sample.single_source))
    return tuple(found)


def _kind(title: str, explained: str, found: Found) -> Kind:
    shown = tuple((token.text, f"id {token.id}, {format_count(token.bytes, 'bytes')}") for token in found.examples)
    return Kind(title, explained, found.count, shown)


def about_sample(sample: Sample) -> str:
    """What the sample is, in a sentence."""
    what = "held out: not trained on" if sample.held_out else "NOT held out: drawn from the training corpus itself"
    size = f"{format_bytes(sample.bytes)} in {format_count(sample.texts, 'texts')}"
    return f"{size}, {what}. {sample.description}".strip()
