"""What the report shows, as plain values for all of its forms; report.txt is these tables as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.skipped_or_altered import SkippedOrAltered
from pipeline.report.languages import Languages, LanguageTokens
from pipeline.report.measure import FEWEST_SOURCES, TextMeasures
from pipeline.report.numbers_worker import MergeNumbers, Numbers, Sample
from pipeline.report.tokens import TokenGroup
from pipeline.run.manifest import Run

_MOST_FILES = 8
_MOST_TEXT_ROWS, _MOST_TEXT_TOKENS = 16, 6

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ReportHeader:
    """The run that a report describes. options, corpus: rows of a name and a value.

    stages: seconds, None: kept from an earlier run. skipped: skipped or altered input; None: unknown, as are the times,
    documents and memory, since the run's own report.json is gone.
    """

    directory: str
    options: Rows
    corpus: Rows
    versions: dict[str, str]
    stages: dict[str, float | None]
    stage_peak_bytes: dict[str, int]
    peak_memory_bytes: int
    documents: int
    skipped: tuple[str, ...] | None


@dataclass(frozen=True)
class Table:
    """Rows under headers; a list of tokens has none, and rows of readable texts with ids and lengths."""

    title: str
    headers: tuple[str, ...]
    rows: Rows
    note: str = ""


def report_header(run: Run, summary: Mapping[str, Any]) -> ReportHeader:
    """Describe a run. summary: as `Summary.to_json` returned it; empty: unknown.

    Raises TypeError, ValueError, KeyError or AttributeError for any other summary.
    """
    plan = run.manifest
    options = {**plan.counting, **(plan.merging or {}), "vocab_size": plan.vocab_size}
    if plan.parity is not None:
        options["tie_break"] = "greatest-letters"
    files = [(file.path, file.size) for file in sorted(plan.plan.files, key=lambda file: -file.size)]
    if rest := files[_MOST_FILES:]:
        files[_MOST_FILES:] = [(f"{len(rest):,} more files", sum(size for _, size in rest))]
    known = summary or {"stages": {}, "peak_memory_bytes": 0, "corpus": {"documents": 0, "losses": ()}}
    losses = (
        SkippedOrAltered(loss["kind"], loss["what"], loss["count"], tuple(map(str, loss["examples"])))
        for loss in known["corpus"]["losses"]
    )
    return ReportHeader(
        directory=str(run.directory),
        options=tuple((name.replace("_", " "), _plain(value)) for name, value in options.items()),
        corpus=(
            *(() if plan.source is None else [("counts from", plan.source.description)]),
            *((path, format_bytes(size)) for path, size in files),
            *_language_rows(known.get("languages")),
        ),
        versions=plan.cutting,
        stages={name: None if s is None else float(s) for name, s in known["stages"].items()},
        stage_peak_bytes={name: int(peak) for name, peak in known.get("stage_peak_bytes", {}).items()},
        peak_memory_bytes=int(known["peak_memory_bytes"]),
        documents=int(known["corpus"]["documents"]),
        skipped=tuple(map(str, losses)) if summary else None,
    )


def _language_rows(known: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Say how the languages that chose the merges are compressed."""
    if known is None:
        return []
    measured = tuple(LanguageTokens(**one) for one in known["measured"])
    both = Languages(measured, float(known["gini_before"]), float(known["gini_after"]))
    return [("languages", str(both)), *((one.name, str(one)) for one in measured)]


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def shown(value: float | None, form: str = ",.3f") -> str:
    """Format a number; a dash if there is none."""
    return "–" if value is None else format(value, form)


def stages(header: ReportHeader) -> Table:
    """Time and memory by stage."""
    peaks = {name: format_bytes(peak) for name, peak in header.stage_peak_bytes.items()}
    rows = tuple(
        (name, "kept" if s is None else f"{s:.2f} s", peaks.get(name, "–")) for name, s in header.stages.items()
    )
    return Table("Time and memory by stage", ("stage", "time", "peak memory"), rows)


def sizes(merged: MergeNumbers) -> Table:
    """The marked vocabulary sizes."""
    rows = tuple(
        (f"{size.vocab_size:,}", shown(size.bytes_per_token), f"{size.tokens:,}", shown(size.saved, ".1%"))
        for size in merged.marked
    )
    headers = ("vocabulary size", "bytes per token", "tokens of the corpus", "saved by doubling")
    note = "Exact, on the whole training corpus. Saved: the share of tokens fewer than with half the size."
    return Table("Bytes per token by size", headers, rows, note)


def _measures(
    title: str, headers: tuple[str, ...], listed: Sequence[tuple[tuple[str, ...], TextMeasures]], note: str = ""
) -> Table:
    """A row of leading cells and measures for each tokenizer, source or script."""
    renyi = any(one.renyi is not None for _, one in listed)
    headers += ("bytes", "tokens", "bytes per token", "tokens per word", "words kept whole")
    rows = tuple(
        (*cells, f"{one.bytes:,}", f"{one.tokens:,}", shown(one.bytes_per_token), shown(one.fertility),
         shown(one.whole, ".1%"), *((shown(one.renyi),) if renyi else ()))
        for cells, one in listed
    )  # fmt: skip
    return Table(title, (*headers, *(("Rényi efficiency",) if renyi else ())), rows, note)


def sample_tables(numbers: Numbers, sample: Sample) -> tuple[Table, ...]:
    """The sample as each tokenizer cuts it; by source and by script as this one does."""
    this, *others = sample.tokenizers
    title = "Compared with other tokenizers" if others else "All of the sample"
    whole = [
        ((name, f"{size:,}"), measures.whole)
        for (name, size), measures in zip(numbers.tokenizers, sample.tokenizers, strict=True)
    ]
    tables = [_measures(title, ("tokenizer", "vocabulary"), whole)]
    if len(this.sources) > 1:
        tables.append(_measures("By source", ("source",), [((one.name,), one) for one in this.sources]))
    note = "Only the words of each script. In text without spaces a run of letters counts as one word."
    return (*tables, _measures("By script", ("script",), [((one.name,), one) for one in this.scripts], note))


def token_lists(numbers: Numbers) -> list[Table]:
    """The kinds of tokens that deserve a look, with the number of each in its title."""
    vocabulary, sample, variants = numbers.vocabulary, numbers.sample, numbers.vocabulary.variants
    several = f"{format_count(variants.tokens, 'tokens')} in {format_count(variants.groups, 'groups')}"
    groups = [
        ("Longest tokens", "", TokenGroup(len(vocabulary.longest), vocabulary.longest)),
        ("Part of a character", "Not valid UTF-8 alone: the single bytes above 127, and merged bytes of characters "
         "that are rare here.", vocabulary.partial),
        ("Never produced", "The merges, applied to the token's own bytes, do not produce the token: no text is encoded "
         "with it.", vocabulary.unreachable),
        ("Parts of addresses", "URLs and web file names: often a sign of boilerplate.", vocabulary.urls),
        ("Long repeats", "A unit of up to four characters, repeated eight times or more.", vocabulary.repeats),
    ]  # fmt: skip
    if sample is not None and len(sample.tokenizers[0].sources) >= FEWEST_SOURCES:
        explanation = "In the sample four times or more, all in one source, which is at most a tenth of it."
        groups.append(("From one rare source", explanation, sample.single_source))
    lists = [
        Table(f"{title} ({group.count:,})", (), tuple(
            (token.text, f"id {token.id}, {format_count(token.bytes, 'bytes')}") for token in group.examples
        ), explanation)
        for title, explanation, group in groups
    ]  # fmt: skip
    title = f"The same but for case or a space in front ({variants.tokens:,})"
    explanation = f"{several}: with one token for each group, {variants.beyond_one:,} fewer."
    lists.insert(1, Table(title, (), tuple((" ".join(group), "") for group in variants.largest), explanation))
    return lists


def about_sample(sample: Sample) -> str:
    """Describe the sample in a sentence."""
    what = "held out: not trained on" if sample.held_out else "NOT held out: text of the training corpus itself"
    size = f"{format_bytes(sample.bytes)} in {format_count(sample.texts, 'texts')}"
    return f"{size}, {what}. {sample.description}".strip()


def unused_tokens(sample: Sample) -> str:
    """Say how much of the vocabulary the sample does not use."""
    return f"{sample.unused:,} tokens of the vocabulary do not occur in the sample"


def render_text(numbers: Numbers) -> str:
    """Return the numbers as text: tables, and one line for each kind of token that deserves a look."""
    scripts = tuple((name, f"{count:,}") for name, count in numbers.vocabulary.scripts.items())
    tokens = ["Tokens that deserve a look"]
    for one in token_lists(numbers):
        examples = "  ".join(text for text, _ in one.rows[:_MOST_TEXT_TOKENS])
        tokens.append(f"  {one.title}" + (f": {examples}" if examples else ""))
    blocks = [table_text(sizes(numbers.merged)), table_text(Table("Tokens by script", ("script", "tokens"), scripts))]
    blocks.append("\n".join(tokens))
    if (sample := numbers.sample) is not None:
        blocks.append("The sample\n  " + about_sample(sample))
        blocks += map(table_text, sample_tables(numbers, sample))
        blocks.append("  " + unused_tokens(sample))
    names = tuple(name for name, _ in numbers.tokenizers)
    sentences = tuple((one.language, *map(str, one.counts)) for one in numbers.sentences)
    blocks.append(table_text(Table("Tokens of the same text in several languages", ("language", *names), sentences)))
    return "\n\n".join(blocks)


def table_text(table: Table, whole: str = "report.json") -> str:
    """Align the first column left and the others right. whole: where rows beyond the first ones are."""
    rows = [table.headers, *table.rows[:_MOST_TEXT_ROWS]]
    first, *others = ([*map(len, column)] for column in zip(*rows, strict=True))
    widths = [max(column) for column in others]
    lines = ["  ".join(("", row[0].ljust(max(first)), *map(str.rjust, row[1:], widths))).rstrip() for row in rows]
    more = len(table.rows) - _MOST_TEXT_ROWS
    return "\n".join([table.title, *lines, *([f"  ... {more} more in {whole}"] if more > 0 else [])])
