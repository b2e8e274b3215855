"""The report as plain text: what stands in report.txt below the summary."""

from pipeline.report import rows
from pipeline.report.numbers import Numbers
from pipeline.report.rows import Table

_MOST_ROWS, _MOST_TOKENS = 16, 6


def render(numbers: Numbers) -> str:
    """The numbers for people: tables, and a line for each kind of token that deserves a look."""
    vocabulary = numbers.vocabulary
    parts = [_table(rows.sizes(numbers.merged))]
    scripts = tuple((name, f"{count:,}") for name, count in vocabulary.scripts.items())
    parts.append(_table(Table("Tokens by script", ("script", "tokens"), scripts)))
    parts.append(_kinds(numbers))
    if numbers.sample is not None:
        parts.append("The sample\n  " + rows.about_sample(numbers.sample))
        parts += map(_table, rows.sample_tables(numbers, numbers.sample))
        parts.append(f"  {numbers.sample.unused:,} tokens do not occur in the sample")
    names = tuple(name for name, _ in numbers.tokenizers)
    sentences = tuple((one.language, *map(str, one.counts)) for one in numbers.sentences)
    parts.append(_table(Table("Tokens of the same text in several languages", ("language", *names), sentences)))
    return "\n\n".join(parts)


def _kinds(numbers: Numbers) -> str:
    lines = ["Tokens that deserve a look"]
    for kind in rows.kinds(numbers):
        shown = "  ".join(text for text, _ in kind.tokens[:_MOST_TOKENS])
        lines.append(f"  {kind.title} ({kind.count:,})" + (f": {shown}" if shown else ""))
    return "\n".join(lines)


def _table(table: Table) -> str:
    """Columns that line up: the first to the left, numbers to the right."""
    listed = [table.headers, *table.rows[:_MOST_ROWS]]
    widths = [max(len(row[column]) for row in listed) for column in range(len(table.headers))]
    lines = [table.title]
    for row in listed:
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  " + "  ".join((first, *others)).rstrip())
    if len(table.rows) > _MOST_ROWS:
        lines.append(f"  ... {len(table.rows) - _MOST_ROWS} more in report.json")
    return "\n".join(lines)
