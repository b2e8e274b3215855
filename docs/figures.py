"""The drawings of the pages: SVG inside the page, in the colours of its theme, light or dark.

python docs/figures.py > figures.html      all of them, to look at while drawing
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

_INK = "var(--md-default-fg-color, currentColor)"
_FAINT = "var(--md-default-fg-color--lighter, #8888)"
_PAPER = "var(--md-code-bg-color, #8882)"
_COLOUR = "var(--md-primary-fg-color, teal)"
_ACCENT = "var(--md-accent-fg-color, #f60)"
_WIDTH = 560  # narrow enough for the letters to be read on a phone


def _words(x: float, y: float, text: str, *, size: int = 14, anchor: str = "middle", colour: str = _INK) -> str:
    shown = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{shown}</text>'


def _code(x: float, y: float, text: str, *, size: int = 14, colour: str = _INK) -> str:
    words = _words(x, y, text.replace(" ", "␣"), size=size, anchor="start", colour=colour)
    return words.replace("<text ", '<text style="font-family:var(--md-code-font-family,monospace)" textLength="'
                         f'{len(text) * size * 0.62:.0f}" lengthAdjust="spacingAndGlyphs" ')  # fmt: skip


def _box(x: float, y: float, width: float, height: float, *, fill: str = _PAPER, edge: str = _FAINT) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{edge}"/>'


def _line(x: float, y: float, to_x: float, to_y: float, *, colour: str = _FAINT, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<path d="M{x} {y}L{to_x} {to_y}" stroke="{colour}" stroke-width="1.5" fill="none"{dashes}/>'


def _arrow(x: float, y: float, to_x: float, to_y: float, *, colour: str = _INK) -> str:
    across, down = to_x - x, to_y - y
    length = (across**2 + down**2) ** 0.5
    ux, uy = across / length * 7, down / length * 7
    head = f"M{to_x} {to_y}L{to_x - ux - uy * 0.6:.1f} {to_y - uy + ux * 0.6:.1f}"
    head += f"L{to_x - ux + uy * 0.6:.1f} {to_y - uy - ux * 0.6:.1f}Z"
    return _line(x, y, to_x - ux, to_y - uy, colour=colour) + f'<path d="{head}" fill="{colour}"/>'


def _drawing(height: int, caption: str, parts: Sequence[str]) -> str:
    """Return all parts in one figure; screen readers read its caption."""
    return (
        f'<figure style="margin:1.5em auto;max-width:{_WIDTH + 120}px"><svg viewBox="0 0 {_WIDTH} {height}" '
        f'width="100%" role="img" aria-label="{caption}">{"".join(parts)}</svg>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def flow() -> str:
    """From files to a tokenizer."""
    steps = [
        ("corpus", "text, JSON, Parquet", 0, 0), ("chunks", "planned parts of work", 1, 0),
        ("counters", "one file per chunk", 2, 0), ("combined counter", "counter.parquet", 2, 1),
        ("merges", "merges.parquet", 1, 1), ("tokenizer", "files for each runtime", 0, 1),
    ]  # fmt: skip
    parts, centres = [], []
    for name, note, column, row in steps:
        x, y = 5 + column * 195, 10 + row * 110
        strong = name in ("counters", "combined counter", "merges")
        parts.append(_box(x, y, 160, 60, edge=_COLOUR if strong else _FAINT))
        parts.append(_words(x + 80, y + 26, name, size=15))
        parts.append(_words(x + 80, y + 46, note, size=12))
        centres.append((x + 80, y + 30))
    for (x, y), (to_x, to_y) in pairwise(centres):
        if y == to_y:
            side = 80 if to_x > x else -80
            parts.append(_arrow(x + side, y, to_x - side, to_y))
        else:
            parts.append(_arrow(x, y + 30, to_x, to_y - 30))
    parts.append(_words(395, 98, "all workers", size=12, colour=_COLOUR))
    caption = "A coloured edge marks a file, which is complete or absent: a stopped run resumes from it."
    return _drawing(190, caption, parts)


CUTS = [  # a text, an even cut, where the cut moves to, and why
    ("…and lived ever after.<|endoftext|>Once upon a time…", 8, 22, "the next special token"),
    ("…one enormous document with not one separator…", 20, 22, "a proven end of a pre-token"),
]


def cuts() -> str:
    """Where a chunk may start."""
    advance = 14 * 0.62
    parts = []
    for row, (text, even, moved, why) in enumerate(CUTS):
        y = 50 + row * 100
        left = (_WIDTH - len(text) * advance) / 2
        parts.append(_box(left - 8, y - 20, len(text) * advance + 16, 30))
        parts.append(_code(left, y, text))
        at, to = left + even * advance, left + moved * advance
        parts.append(_line(at, y - 26, at, y + 16, dashed=True, colour=_INK))
        parts.append(_line(to, y - 26, to, y + 16, colour=_ACCENT))
        parts.append(_arrow(at, y + 20, to, y + 20, colour=_ACCENT))
        parts.append(_words(at, y - 32, "even cut", size=12))
        parts.append(_words(to + 6, y + 32, why, size=12, anchor="start", colour=_ACCENT))
    caption = "An even cut moves forward to a position where counting both sides separately counts the same."
    return _drawing(190, caption, parts)


PRE_TOKENS = [("low", 5), ("lower", 2), ("newer", 4), ("wide", 3)]
PreTokens = list[tuple[tuple[str, ...], int]]


def best_pair(pre_tokens: PreTokens) -> tuple[tuple[str, str], int]:
    """Return the most frequent pair of adjacent tokens and its count; among equals the first in order of bytes."""
    counts: Counter[tuple[str, str]] = Counter()
    for tokens, count in pre_tokens:
        for pair in pairwise(tokens):
            counts[pair] += count
    return min(counts.items(), key=lambda item: (-item[1], item[0]))


def merged(tokens: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """Return the tokens with each occurrence of the pair joined, from left to right."""
    done: list[str] = []
    rest = list(tokens)
    while rest:
        found = tuple(rest[:2]) == pair
        done.append("".join(rest[:2]) if found else rest[0])
        del rest[: 2 if found else 1]
    return tuple(done)


def merges() -> str:
    """A few merges of a few pre-tokens, by the definition."""
    pre_tokens: PreTokens = [(tuple(pre_token), count) for pre_token, count in PRE_TOKENS]
    parts, made = [], "bytes"
    for step in range(4):
        x = 5 + step * 140
        parts.append(_words(x + 60, 20, made, size=13, colour=_ACCENT if step else _INK))
        for row, (tokens, count) in enumerate(pre_tokens):
            y, at = 34 + row * 36, float(x)
            for token in tokens:
                width = 8 + len(token) * 9
                parts.append(_box(at, y, width, 24, edge=_ACCENT if len(token) > 1 else _FAINT))
                parts.append(_code(at + 4, y + 17, token, size=13))
                at += width + 2
            parts.append(_words(at + 4, y + 17, f"x {count}", size=12, anchor="start"))
        pair, count = best_pair(pre_tokens)
        parts.append(_words(x + 60, 196, f"most: {pair[0]} {pair[1]} ({count} times)", size=12))
        made = f"merge {step + 1}: {pair[0]} + {pair[1]}"
        pre_tokens = [(merged(tokens, pair), number) for tokens, number in pre_tokens]
    caption = (
        "Each merge joins the most frequent pair into one token, in every pre-token; "
        "a pair counts as often as its pre-token occurs."
    )
    return _drawing(210, caption, parts)


def resume() -> str:
    """What a stopped run keeps."""
    parts = []
    for row, (said, done) in enumerate([("killed", 5), ("same command", 8)]):
        y = 20 + row * 80
        for chunk in range(8):
            x = 150 + chunk * 50
            old, new = chunk < 5, row == 1 and chunk >= 5
            edge = _COLOUR if old else _ACCENT if new else _FAINT
            parts.append(_box(x, y, 42, 34, edge=edge, fill=_PAPER if chunk < done else "none"))
            parts.append(_words(x + 21, y + 22, f"{chunk:02d}", size=13))
        parts.append(_words(140, y + 22, said, size=13, anchor="end"))
    parts.append(_words(275, 76, "complete counters: kept", size=12, colour=_COLOUR))
    parts.append(_words(475, 156, "counted now", size=12, colour=_ACCENT))
    caption = "A counter is complete or absent, so its existence records that its chunk is done."
    return _drawing(170, caption, parts)


def ranges() -> str:
    """How counters are combined, range by range."""
    parts = []
    for counter in range(3):
        y = 14 + counter * 46
        parts.append(_words(118, y + 19, f"counts/{counter:06d}", size=12, anchor="end"))
        parts += [_box(130 + part * 104, y, 98, 28, edge=_ACCENT if part == 1 else _FAINT) for part in range(4)]
    parts.append(_words(118, 197, "counter.parquet", size=12, anchor="end"))
    for part in range(4):
        parts.append(_box(130 + part * 104, 178, 98, 28, edge=_ACCENT if part == 1 else _COLOUR))
        parts.append(_words(179 + part * 104, 197, f"hashes {part}/4", size=12))
    parts.append(_arrow(283, 136, 283, 176, colour=_ACCENT))
    caption = (
        "Counters are ordered by a hash of the pre-token: one range of all counters fits memory, whatever their size."
    )
    return _drawing(216, caption, parts)


FIGURES: dict[str, Callable[[], str]] = {
    "flow": flow, "cuts": cuts, "merges": merges, "resume": resume, "ranges": ranges
}  # fmt: skip

if __name__ == "__main__":
    print("".join(draw() for draw in FIGURES.values()))
