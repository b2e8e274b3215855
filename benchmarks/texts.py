"""Tables and figures as Markdown."""

import statistics
from collections.abc import Sequence


def table(title: str, head: str, rows: Sequence[str], *notes: str) -> list[str]:
    """A titled table with notes below it; nothing without rows. Columns whose name ends with a colon are figures."""
    if not rows:
        return []
    names = head.split(" | ")
    marks = "|".join("---:" if name.endswith(":") else "---" for name in names)
    lines = [f"## {title}", "", f"| {' | '.join(name.rstrip(':') for name in names)} |", f"|{marks}|", *rows, ""]
    return lines + [line for note in notes for line in (note, "")]


def seconds_text(seconds: Sequence[float]) -> str:
    """`2.51 s (2.48-2.60)`: median and extremes."""
    middle = statistics.median(seconds)
    if len(seconds) == 1:
        return f"{middle:.2f} s"
    return f"{middle:.2f} s ({min(seconds):.2f}-{max(seconds):.2f})"


def ratio_text(ratio: float | None) -> str:
    """`12.3x`."""
    if ratio is None:
        return "-"
    return f"{ratio:.0f}x" if ratio >= 99.5 else f"{ratio:.1f}x" if ratio >= 9.95 else f"{ratio:.2f}x"
