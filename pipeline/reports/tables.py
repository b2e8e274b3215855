"""What the report shows, as plain values for all of its forms; report.txt is these tables as text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.base.printable import printable, printable_lines
from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.skipped_or_altered import SkippedOrAltered
from pipeline.reports.languages import Languages, LanguageTokens
from pipeline.reports.measure import FEWEST_SOURCES, TextMeasures
from pipeline.reports.numbers import MARKED_SIZES, MergeNumbers, Numbers, Sample
from pipeline.reports.tokens import TokenExample, TokenGroup, readable
from pipeline.reports.verdict import verdict
from pipeline.run.manifest import Run
from pipeline.storage import Location

_MOST_FILES = 8
_MOST_TEXT_ROWS, _MOST_TEXT_TOKENS = 16, 6

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ReportHeader:
    """The tokenizer that a report describes. options, corpus: rows of a name and a value.

    stages: seconds, None: kept from an earlier run; empty, as memory is 0, if report.json has those of another
    tokenizer. skipped: skipped or altered input.
    """

    directory: str
    options: Rows
    corpus: Rows
    versions: dict[str, str]
    stages: dict[str, float | None]
    stage_peak_bytes: dict[str, int]
    peak_memory_bytes: int
    documents: int
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows under headers; a list of tokens has none, and rows of readable texts with ids and lengths.

    marks: best and worst cells by row and column.
    """

    title: str
    headers: tuple[str, ...]
    rows: Rows
    note: str = ""
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)


def report_header(run: Run, tokenizer: Location, summary: Mapping[str, Any]) -> ReportHeader:
    """Describe one of a run's tokenizers. summary: as `Summary.to_json` returned it.

    Raises TypeError, ValueError, KeyError or AttributeError for any other summary.
    """
    plan = run.manifest
    made = plan.options_of(tokenizer.name)
    options = made.of_stage("count", "merge", "special") | {"vocab_size": made.vocab_size[0]}
    if plan.parity is not None:
        options["tie_break"] = "greatest-letters"
    files = [(file.path, file.size) for file in sorted(plan.plan.files, key=lambda file: -file.size)]
    if rest := files[_MOST_FILES:]:
        files[_MOST_FILES:] = [(f"{len(rest):,} more files", sum(size for _, size in rest))]
    losses = (
        SkippedOrAltered(loss["kind"], loss["what"], loss["count"], tuple(map(str, loss["examples"])))
        for loss in summary["corpus"]["losses"]
    )
    return ReportHeader(
        directory=str(tokenizer),
        options=tuple((name.replace("_", " "), _plain(value)) for name, value in options.items()),
        corpus=(
            *(() if plan.source is None else [("counts from", plan.source.description)]),
            *([("weights", plan.plan.described(plan.weights))] if plan.weights else []),
            *((path, format_bytes(size)) for path, size in files),
            *_language_rows(summary.get("languages")),
        ),
        versions=plan.cutting,
        stages={name: None if s is None else float(s) for name, s in summary["stages"].items()},
        stage_peak_bytes={name: int(peak) for name, peak in summary.get("stage_peak_bytes", {}).items()},
        peak_memory_bytes=int(summary["peak_memory_bytes"]),
        documents=int(summary["corpus"]["documents"]),
        skipped=tuple(map(str, losses)),
    )


def _language_rows(known: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Say how the languages that chose the merges are compressed."""
    if known is None:
        return []
    measured = tuple(LanguageTokens(**one) for one in known["measured"])
    both = Languages(measured, int(known["merges"]), float(known["gini_before"]), float(known["gini_after"]))
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
        (f"{size.vocab_size:,}", shown(size.bytes_per_token), f"{size.tokens:,}",
         shown(size.saved if size.vocab_size in MARKED_SIZES else None, ".1%"))
        for size in merged.marked
    )  # fmt: skip
    headers = ("vocabulary size", "bytes per token", "tokens of the corpus", "saved by doubling")
    note = "Exact, on the whole training corpus. Saved: the share of tokens fewer than with half the size."
    return Table("Bytes per token by size", headers, rows, note)


Column = tuple[str, Callable[[TextMeasures], float | None], str, int]  # header, value, form, better: 1 more, -1 less
_MEASURES: tuple[Column, ...] = (
    ("bytes", lambda one: one.bytes, ",", 0),
    ("bytes lost", lambda one: one.lost, ",", -1),
    ("tokens", lambda one: one.tokens, ",", -1),
    ("bytes per token", lambda one: one.bytes_per_token, ".3f", 1),
    ("characters per token", lambda one: one.characters_per_token, ".3f", 1),
    ("tokens per word", lambda one: one.fertility, ".3f", -1),
    ("words in one token", lambda one: one.whole, ".1%", 1),
    ("Rényi efficiency", lambda one: one.renyi, ".3f", 1),
    ("digit F1", lambda one: one.digit_f1, ".3f", 1),
    ("whole characters", lambda one: one.integrity, ".1%", 1),
    ("single bytes", lambda one: one.fallback, ".2%", -1),
)


def best_and_worst(values: Sequence[float | None], better: int, form: str = ",.3f") -> dict[int, str]:
    """Mark the best and the worst of several numbers by their positions, also several that look alike in this form;
    nothing if all do.

    >>> best_and_worst([1.5, 3.0, None, 2.0, 3.0001], 1)
    {0: 'worst', 1: 'best', 4: 'best'}
    """
    known = {index: value * better for index, value in enumerate(values) if value is not None}
    alike = {index: format(abs(value), form) for index, value in known.items()}
    if len(set(alike.values())) < 2:
        return {}
    marks = {alike[min(known, key=known.__getitem__)]: "worst", alike[max(known, key=known.__getitem__)]: "best"}
    return {index: marks[text] for index, text in alike.items() if text in marks}


def _measures(
    title: str, headers: tuple[str, ...], listed: Sequence[tuple[tuple[str, ...], TextMeasures]], note: str = ""
) -> Table:
    """A row of leading cells and measures for each tokenizer, source or script."""
    columns = [column for column in _MEASURES if any(column[1](one) is not None for _, one in listed)]
    if not any(one.lost for _, one in listed):
        columns = [column for column in columns if column[0] != "bytes lost"]
    rows = tuple((*cells, *(shown(value(one), form) for _, value, form, _ in columns)) for cells, one in listed)
    marks = {
        (row, len(headers) + index): mark
        for index, (_, value, form, better) in enumerate(columns)
        for row, mark in best_and_worst([value(one) for _, one in listed], better, form).items()
    }
    return Table(title, (*headers, *(name for name, _, _, _ in columns)), rows, note, marks)


def _side_by_side(
    title: str, first: str, names: Sequence[str], rows: Sequence[tuple[str, int, Sequence[float | None]]], note: str
) -> Table:
    """Bytes per token of every tokenizer, a row for each source or script."""
    marks = {
        (row, 2 + index): mark
        for row, (_, _, values) in enumerate(rows)
        for index, mark in best_and_worst(values, 1).items()
    }
    cells = tuple((name, f"{size:,}", *map(shown, values)) for name, size, values in rows)
    return Table(title, (first, "bytes", *names), cells, note, marks)


def compared_table(numbers: Numbers, sample: Sample) -> Table:
    """The sample as each tokenizer cuts it."""
    title = "On the sample" if len(sample.tokenizers) > 1 else "All of the sample"
    whole = [
        ((name, f"{size:,}"), measures.whole)
        for (name, size), measures in zip(numbers.tokenizers, sample.tokenizers, strict=True)
    ]
    return _measures(title, ("tokenizer", "vocabulary"), whole)


def sample_tables(numbers: Numbers, sample: Sample) -> tuple[Table, ...]:
    """The sample by source and by script: all measures of one tokenizer, or bytes per token of several."""
    this, *others = sample.tokenizers
    names = [name for name, _ in numbers.tokenizers]
    note = "Only the words of each script. In text without spaces a run of letters counts as one word."
    tables = []
    for title, kind, note_ in (("By source", "sources", ""), ("By script", "scripts", note)):
        listed: tuple[TextMeasures, ...] = getattr(this, kind)
        if kind == "sources" and len(listed) < 2:
            continue
        if not others:
            tables.append(_measures(title, (title[3:],), [((one.name,), one) for one in listed], note_))
            tables[-1] = replace(tables[-1], marks={})  # they are different texts
            continue
        known = [{one.name: one.bytes_per_token for one in getattr(each, kind)} for each in sample.tokenizers]
        rows = [(one.name, one.bytes, [each.get(one.name) for each in known]) for one in listed]
        tables.append(_side_by_side(f"{title}: bytes per token", title[3:], names, rows, note_))
    return tuple(tables)


def sentences_table(numbers: Numbers) -> Table:
    """Tokens of the same text in several languages, and how unequal they are."""
    names = [name for name, _ in numbers.tokenizers] + [f"{one.name} (reference)" for one in numbers.references]
    english = next(one.counts[0] for one in numbers.sentences if one.language == "English")
    rows = [(one.language, f"{one.counts[0] / english:.2f}", *map(str, one.counts)) for one in numbers.sentences]
    marks = {
        (row, 2 + index): mark
        for row, one in enumerate(numbers.sentences)
        for index, mark in best_and_worst(one.counts, -1).items()
    }
    marks |= {(len(rows), 2 + index): mark for index, mark in best_and_worst(numbers.ginis, -1).items()}
    rows.append(("Gini over the languages", "", *(shown(one) for one in numbers.ginis)))
    note = "Times English: tokens of this tokenizer for one of English. Gini: 0 if all languages cost the same."
    if numbers.references:
        note += " A reference stands in for a tokenizer that is in no cache here: its tokens were counted beforehand."
    headers = ("language", "times English", *names)
    return Table("Tokens of the same text in several languages", headers, tuple(rows), note, marks)


def fallback_table(numbers: Numbers) -> Table:
    """The share of single bytes of characters in the same text in several languages."""
    rows = [(one.language, *(f"{share:.1%}" for share in one.fallback)) for one in numbers.sentences]
    marks = {
        (row, 1 + index): mark
        for row, one in enumerate(numbers.sentences)
        for index, mark in best_and_worst(one.fallback, -1, ".1%").items()
    }
    note = "The share of tokens that are one byte of a longer character, in the same sentences."
    headers = ("language", *(name for name, _ in numbers.tokenizers))
    return Table("Single bytes by language", headers, tuple(rows), note, marks)


def embedding_tables(numbers: Numbers) -> list[Table]:
    """Parameters of the embedding, and of one with an output layer of its own, if a hidden size is named."""
    if numbers.hidden_size is None:
        return []
    names = [*numbers.tokenizers, *((one.name, one.vocab_size) for one in numbers.references)]
    rows = tuple(
        (name, f"{size:,}", f"{size * numbers.hidden_size:,}", f"{2 * size * numbers.hidden_size:,}")
        for name, size in names
    )
    headers = ("tokenizer", "vocabulary", "parameters, tied", "parameters, untied")
    return [Table(f"Embedding for a hidden size of {numbers.hidden_size:,}", headers, rows)]


def special_token_table(numbers: Numbers) -> Table:
    """Special tokens with their ids and roles."""
    rows = tuple(
        (readable(one.text.encode()), f"{one.id:,}", one.roles or "–") for one in numbers.vocabulary.special_tokens
    )
    return Table("Special tokens", ("token", "id", "role"), rows)


def token_lists(numbers: Numbers) -> list[Table]:
    """The kinds of tokens that deserve a look, with the number of each in its title."""
    vocabulary, sample, variants = numbers.vocabulary, numbers.sample, numbers.vocabulary.variants
    groups = [
        ("Never produced", "The merges, applied to the token's own bytes, do not produce the token: no text is encoded "
         "with it.", vocabulary.unreachable),
        ("Never used in the training corpus", "Exact: each merge made tokens, and later merges took all of them. They "
         "are parts of longer ones.", vocabulary.never_used),
        ("Part of a character", "Not valid UTF-8 alone: the single bytes above 127, and merged bytes of characters "
         "that are rare here.", vocabulary.partial),
        ("Parts of addresses", "URLs and web file names: often a sign of boilerplate.", vocabulary.urls),
        ("Long repeats", "A unit of up to four characters, repeated eight times or more.", vocabulary.repeats),
    ]  # fmt: skip
    if sample is not None and len(sample.tokenizers[0].sources) >= FEWEST_SOURCES:
        explanation = "In the sample four times or more, all in one source, which is at most a tenth of it."
        groups.append(("From one rare source", explanation, sample.single_source))
    lists = [_token_list(title, explanation, group) for title, explanation, group in groups if group is not None]
    share = variants.beyond_one / max(vocabulary.tokens, 1)
    explanation = (
        f"With one token for each of {format_count(variants.groups, 'groups')}, {variants.beyond_one:,} fewer."
    )
    rows = tuple((" ".join(group), "") for group in variants.largest)
    lists.append(Table(f"The same but for case or a space in front ({share:.1%} of the tokens)", (), rows, explanation))
    return lists


def vocabulary_lists(numbers: Numbers) -> list[Table]:
    """What the vocabulary has of some kinds of text."""
    vocabulary = numbers.vocabulary
    return [
        _token_list("Longest tokens", "", TokenGroup(len(vocabulary.longest), vocabulary.longest)),
        _token_list("Numbers", "Digits alone, with or without a space in front.", vocabulary.numbers),
        _token_list("Indentation", "White space alone, the longest first.", vocabulary.indentation),
    ]


def _token_list(title: str, explanation: str, group: TokenGroup) -> Table:
    rows = tuple((token.text, _about(token)) for token in group.examples)
    return Table(f"{title} ({group.count:,})", (), rows, explanation)


def _about(token: TokenExample) -> str:
    times = "" if token.times is None else f", {token.times:,} times"
    return f"(id {token.id}{times})"


def about_sample(sample: Sample) -> str:
    """Describe the sample in a sentence."""
    what = "held out: not trained on" if sample.held_out else "NOT held out: text of the training corpus itself"
    size = f"{format_bytes(sample.bytes)} in {format_count(sample.texts, 'texts')}"
    return f"{size}, {what}. {sample.description}".strip()


def render_text(numbers: Numbers, skipped: tuple[str, ...] = ()) -> str:
    """Return the numbers as text: the verdict, tables, and one line for each kind of token that deserves a look."""
    scripts = tuple((name, f"{count:,}") for name, count in numbers.vocabulary.scripts.items())
    tokens = ["Tokens that deserve a look"]
    for one in [*token_lists(numbers), *vocabulary_lists(numbers)]:
        examples = ", ".join(f"{text} {more}".rstrip() for text, more in one.rows[:_MOST_TEXT_TOKENS])
        tokens.append(f"  {one.title}" + (f": {examples}" if examples else ""))
    blocks = ["Verdict\n" + printable_lines(f"  {name}: {text}" for name, text in verdict(numbers, skipped))]
    if (sample := numbers.sample) is not None:
        blocks += ["The sample\n  " + printable(about_sample(sample)), table_text(compared_table(numbers, sample))]
        blocks += map(table_text, sample_tables(numbers, sample))
    blocks += map(table_text, [sentences_table(numbers), fallback_table(numbers), *embedding_tables(numbers)])
    blocks += [table_text(sizes(numbers.merged)), table_text(Table("Tokens by script", ("script", "tokens"), scripts))]
    if numbers.vocabulary.special_tokens:
        blocks.append(table_text(special_token_table(numbers)))
    return "\n\n".join([*blocks, printable_lines(tokens)])


def table_text(table: Table, whole: str = "report.json") -> str:
    """Align the first column left and the others right. whole: where rows beyond the first ones are."""
    rows = [tuple(map(printable, row)) for row in (table.headers, *table.rows[:_MOST_TEXT_ROWS])]
    first, *others = ([*map(len, column)] for column in zip(*rows, strict=True))
    widths = [max(column) for column in others]
    lines = ["  ".join(("", row[0].ljust(max(first)), *map(str.rjust, row[1:], widths))).rstrip() for row in rows]
    more = len(table.rows) - _MOST_TEXT_ROWS
    return printable_lines([table.title, *lines, *([f"  ... {more} more in {whole}"] if more > 0 else [])])
